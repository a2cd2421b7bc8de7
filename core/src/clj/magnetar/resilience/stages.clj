(ns magnetar.resilience.stages
  "The loops behind the channel functions of magnetar.resilience: each takes from one channel and gives to another."
  {:no-doc true}
  (:require
   [magnetar.channel :as channel]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (clojure.lang ExceptionInfo)
   (java.time Duration)
   (magnetar.kernel.channel Channel)))

(set! *warn-on-reflection* true)

(defn time-to
  "The time from now to an instant, as a duration."
  [^long instant]
  (if (= instant clock/infinite)
    :infinity
    (Duration/ofNanos (clock/left instant))))

(defn- body
  "Runs `stage`, then closes out: for the cause that `in` was closed for, or for what the stage threw."
  [stage in out]
  (try
    (stage)
    (channel/close out (channel/cause in))
    (catch Throwable e
      (channel/close out e)
      (throw e))))

(defn- next-of
  "The next value of `in`, nil at its end; a cause of that is left to `body`, so that what a stage holds comes first."
  ([in] (next-of in nil))
  ([in options]
   (try
     (channel/take in options)
     (catch ExceptionInfo e
       (when-not (= :magnetar/closed-for-cause (:magnetar/reason (ex-data e))) (throw e))))))

(defn- refuse [site in]
  (arguments/misuse :magnetar/not-a-channel
                    (str "`" site "` wants a channel of Magnetar; this is " (arguments/show in) ". "
                         (if (ports/port? in) "Put magnetar.async/pipe between the two." "Make one with magnetar.channel/chan."))
                    {:value in}))

(defn start
  "A channel that `stage`, a function of it, gives values to. It runs on a fiber that the scope owns, or without an owner."
  [site in {:keys [scope size]} stage]
  (when-not (instance? Channel in)
    (refuse site in))
  (let [out (channel/chan {:size size})
        run (fn [] (body #(stage out) in out))]
    (if scope
      (scope/close-after (scope/daemon-at site scope run) out)
      (fibers/background site (run)))
    out))

(defn- flush-into
  "Puts the values on out, unless they are empty; false if out is closed."
  [out values]
  (or (empty? values) (channel/put out values)))

;; ---- debounce

(defn debounce
  "The latest value of `in`, once it has been silent for a time."
  [in silence out]
  (loop []
    (when-some [value (next-of in)]
      (let [[latest more?] (loop [latest value]
                             (let [next (next-of in {:timeout silence :else ::silent})]
                               (cond
                                 (nil? next) [latest false]
                                 (identical? next ::silent) [latest true]
                                 :else (recur next))))]
        (when (and (channel/put out latest) more?)
          (recur))))))

;; ---- batch

(defn- fill
  "The next batch after its first value, and whether more may come: [batch more?]."
  [in first-value ^long size ^long due]
  (loop [batch [first-value]]
    (if (= size (count batch))
      [batch true]
      (let [value (next-of in {:timeout (time-to due) :else ::due})]
        (cond
          (nil? value) [batch false]
          (identical? value ::due) [batch true]
          :else (recur (conj batch value)))))))

(defn batch
  "Vectors of at most `size` values, given no later than `within` nanoseconds after their first."
  [in size ^long within out]
  (loop []
    (when-some [value (next-of in)]
      (let [[batch more?] (fill in value size (clock/deadline within))]
        (when (and (channel/put out batch) more?)
          (recur))))))

;; ---- windows

(defn- newest
  "The last `size` of the values; keeps no others alive."
  [^long size values]
  (into [] (drop (- (count values) size)) values))

(defn- trimmed
  "The values without those that are too old by far."
  [^long size held]
  (if (<= size (quot (count held) 2)) (newest size held) held))

(defn count-window
  "Vectors of the last `size` values, one after each `step` values once there are so many; what is left at the end comes last."
  [in ^long size ^long step out]
  (loop [held [] fresh 1 due (max size step)]
    (if-some [value (next-of in)]
      (let [held (conj (trimmed size held) value)]
        (if (< fresh due)
          (recur held (inc fresh) due)
          (let [window (newest size held)]
            (when (channel/put out window)
              (recur (into [] (drop step) window) 1 step)))))
      (when (< 1 fresh) (flush-into out (newest size held))))))

(defn- within-length [held ^long from]
  (into [] (drop-while (fn [[^long at]] (<= at from))) held))

(defn- give-window [out held]
  (flush-into out (mapv peek held)))

(defn- next-end
  "The end of the window that an instant is in, given the end of an earlier one."
  [^long earlier ^long every ^long at]
  (+ earlier (* every (inc (quot (- at earlier) every)))))

(defn time-window
  "Vectors of the values of the last `length` nanoseconds, one every `every` nanoseconds from the first value on; none without values."
  [in ^long length ^long every out]
  (loop [held [] end nil fresh? false]
    (let [value (next-of in (when (seq held) {:timeout (time-to end) :else ::due}))]
      (cond
        (nil? value) (when fresh? (give-window out held))
        (identical? value ::due)
        (when (give-window out held)
          (let [next (+ (long end) every)]
            (recur (within-length held (- next length)) next false)))
        :else
        (let [at (clock/now)]
          (recur (conj held [at value])
                 (cond
                   (seq held) end
                   end (next-end (- (long end) every) every at)
                   :else (+ at every))
                 true))))))

;; ---- throttle

(defn throttle
  "The values of `in`, each after `acquire` has returned."
  [in acquire out]
  (loop []
    (when-some [value (next-of in)]
      (acquire)
      (when (channel/put out value)
        (recur)))))
