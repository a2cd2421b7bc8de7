(ns magnetar.supervisor.children
  "Starts and stops the children of a supervisor, in its own process."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [after receive]]
   [magnetar.impl.actor.language :as language]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.report :as report])
  (:import
   (magnetar.kernel.park Fiber)
   (magnetar.kernel.process Pid)
   (magnetar.kernel.time Durations)))

(set! *warn-on-reflection* true)

(defn now
  "The nanoseconds of this world's clock."
  ^long []
  (.nanoTime (.world (Fiber/current))))

;; ---- start

(defn- outcome [value]
  (cond
    (instance? Pid value) [:ok value]
    (= :ignore value) [:ignore]
    (and (vector? value) (= :ok (first value)) (instance? Pid (second value)) (<= 2 (count value) 3)) value
    (and (vector? value) (= :error (first value)) (= 2 (count value))) value
    :else [:error [:bad-return-value (language/plain value) "a start returns [:ok pid], [:ok pid info], a pid, :ignore or [:error why]"]]))

(defn start
  "Calls the start function of a child: [:ok pid], [:ok pid info], [:ignore] or [:error why]."
  [{[f & args] :start}]
  (try
    (outcome (apply f args))
    (catch Throwable t
      (if (proc-lib/alive-here?)
        [:error (language/reason t)]
        (throw t)))))

;; ---- stop

(defn- await-end [ref timeout]
  (receive
    [:DOWN ref :process _ why] why
    (after timeout ::late)))

(defn- kill [pid ref]
  (actor/exit pid :kill)
  (await-end ref :infinity))

(defn- end-of [pid ref shutdown]
  (if (= :brutal-kill shutdown)
    (kill pid ref)
    (do
      (actor/exit pid :shutdown)
      (let [why (await-end ref shutdown)]
        (if (= ::late why)
          (kill pid ref)
          why)))))

;; The link stays until the child has ended: if this supervisor is killed meanwhile, the child hears of it.
(defn- part
  "Takes the link to a child that has ended back, and its message: the reason of its end."
  [pid why]
  (actor/unlink pid)
  (receive
    [:EXIT pid reason] reason
    (after 0 why)))

(defn- expected? [{:keys [shutdown restart]} why]
  (or (= :shutdown why)
      (and (vector? why) (= :shutdown (first why)))
      (and (= :killed why) (= :brutal-kill shutdown))
      (= :noproc why)
      (and (= :normal why) (not= :permanent restart))))

(defn tell
  "Reports what befell a child."
  [event who {:keys [id pid]} why]
  (report/tell {:event event :level :warning :supervisor who :child id :pid pid :reason (language/plain why)}))

(defn stop
  "Stops a child as its spec says; waits until it has ended."
  [who {:keys [pid shutdown] :as child}]
  (let [ref (actor/monitor pid)
        why (part pid (end-of pid ref shutdown))]
    (when-not (expected? child why)
      (tell :shutdown-error who child why))))

(defn- left
  "The milliseconds until the time."
  [^long deadline]
  (if (= deadline Durations/INFINITE)
    :infinity
    (quot (+ (max 0 (- deadline (now))) 999999) 1000000)))

(defn- await-all
  "Waits for the ends of the children, from reference to child; those that are left at the time."
  [who children deadline]
  (loop [children children]
    (if (empty? children)
      children
      (let [[ref why :as end] (receive
                                [:DOWN ref :process _ why] [ref why]
                                (after (left deadline) nil))]
        (when-some [child (get children ref)]
          (let [why (part (:pid child) why)]
            (when-not (expected? child why)
              (tell :shutdown-error who child why))))
        (if end
          (recur (dissoc children ref))
          children)))))

(defn stop-all
  "Stops children that have the same shutdown, all at once."
  [who children shutdown]
  (let [watched (into {} (map (fn [child] [(actor/monitor (:pid child)) child])) children)
        brutal? (= :brutal-kill shutdown)]
    (run! #(actor/exit (:pid %) (if brutal? :kill :shutdown)) children)
    (let [deadline (Durations/deadline (now) (if brutal? Durations/INFINITE (Durations/nanos shutdown)))
          late (await-all who watched deadline)]
      (run! #(actor/exit (:pid %) :kill) (sort-by :n (vals late)))
      (await-all who late Durations/INFINITE))))
