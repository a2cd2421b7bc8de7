(ns magnetar.resilience.stages
  "The loops behind the channel functions of magnetar.resilience: each takes from one channel and gives to another."
  {:no-doc true}
  (:require
   [magnetar.channel :as channel]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (java.time Duration)
   (magnetar.kernel.channel Channel)
   (magnetar.kernel.park Fiber)
   (magnetar.kernel.time Durations)))

(set! *warn-on-reflection* true)

(defn now
  "The clock of this fiber's world, in nanoseconds."
  ^long []
  (.nanoTime (.world (Fiber/current))))

(defn time-to
  "The time from now to an instant, as a duration."
  [^long instant]
  (if (= instant Durations/INFINITE)
    :infinity
    (Duration/ofNanos (max 0 (- instant (now))))))

(defn- body
  "Runs `stage`, then closes out: for the cause that `in` was closed for, or for what the stage threw."
  [stage in out]
  (try
    (stage)
    (channel/close out)
    (catch Throwable e
      (channel/close out (or (channel/cause in) e))
      (when (nil? (channel/cause in)) (throw e)))))

(defn start
  "A channel that `stage`, a function of it, gives values to, on a fiber that the scope owns, or nobody."
  [site in {:keys [scope size]} stage]
  (when-not (instance? Channel in)
    (arguments/misuse :magnetar/not-a-channel
                      (str "`" site "` wants a channel of Magnetar; this is " (arguments/show in) ". Make one with magnetar.channel/chan.")
                      {:value in}))
  (let [out (channel/chan {:size size})
        run (fn [] (body #(stage out) in out))]
    (if scope
      (scope/close-after (scope/daemon-at site scope run nil) out)
      (fibers/background site (run)))
    out))

(defn- flush-into
  "Gives the values, unless there are none, to out; false if it is closed."
  [out values]
  (or (empty? values) (channel/put out values)))

;; ---- debounce

(defn debounce
  "The latest value of `in`, once it has been silent for a time."
  [in silence out]
  (loop []
    (when-some [value (channel/take in)]
      (let [[latest more?] (loop [latest value]
                             (let [next (channel/take in {:timeout silence :else ::silent})]
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
      (let [value (channel/take in {:timeout (time-to due) :else ::due})]
        (cond
          (nil? value) [batch false]
          (identical? value ::due) [batch true]
          :else (recur (conj batch value)))))))

(defn batch
  "Vectors of at most `size` values, given no later than `within` nanoseconds after their first."
  [in size ^long within out]
  (loop []
    (when-some [value (channel/take in)]
      (let [[batch more?] (fill in value size (Durations/deadline (now) within))]
        (when (and (channel/put out batch) more?)
          (recur))))))

;; ---- windows

(defn count-window
  "Vectors of the last `size` values, one after each `step` values; what is left at the end comes last."
  [in ^long size ^long step out]
  (loop [held [] skip 0 fresh 0]
    (let [value (channel/take in)]
      (cond
        (nil? value) (when (pos? fresh) (flush-into out held))
        (pos? skip) (recur held (dec skip) fresh)
        :else
        (let [held (conj held value)]
          (if (< (count held) size)
            (recur held 0 (inc fresh))
            (when (channel/put out held)
              (recur (into [] (drop step) held) (max 0 (- step size)) 0))))))))

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
    (let [value (channel/take in (when (seq held) {:timeout (time-to end) :else ::due}))]
      (cond
        (nil? value) (when fresh? (give-window out held))
        (identical? value ::due)
        (when (give-window out held)
          (let [next (+ (long end) every)]
            (recur (within-length held (- next length)) next false)))
        :else
        (let [at (now)]
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
    (when-some [value (channel/take in)]
      (acquire)
      (when (channel/put out value)
        (recur)))))
