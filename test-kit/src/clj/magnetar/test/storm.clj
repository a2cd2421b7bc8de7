(ns magnetar.test.storm
  "Kills the children of a supervisor again and again."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope]
   [magnetar.supervisor.requests :as requests])
  (:import
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(def ^:private most-looks 1000)

(defn- children
  "The children of the supervisor; nil if it is dead, or dies now."
  [supervisor]
  (try
    (requests/which-children supervisor)
    (catch clojure.lang.ExceptionInfo e
      (when-not (= :magnetar/call-failed (:magnetar/reason (ex-data e)))
        (throw e)))))

(defn- below
  "The pids of all that run below the supervisor; nil if it is dead."
  [supervisor]
  (some->> (children supervisor)
           (filter #(instance? Pid (:pid %)))
           (into [] (mapcat (fn [{:keys [pid type]}] (if (= :supervisor type) (cons pid (below pid)) [pid]))))))

(defn- victim
  "A process below the supervisor, drawn, and waited for if none runs; nil if the supervisor is dead or never has one."
  [supervisor]
  (loop [looks 0]
    (let [pids (below supervisor)]
      (cond
        (seq pids) (nth pids (.random (Fiber/current) (count pids)))
        (or (nil? pids) (= most-looks looks)) nil
        :else (do (scope/sleep 1) (recur (inc looks)))))))

(defn- check-kills [kills]
  (when-not (nat-int? kills)
    (arguments/misuse :magnetar.test/bad-kills (str "The :kills of a restart storm are a whole number from 0 up; this is " (arguments/show kills) ".") {:kills kills})))

(defn storm
  "See `magnetar.test/restart-storm`."
  [supervisor {:keys [kills pause reason] :or {kills 100 pause 0 reason :kill} :as options}]
  (arguments/options "restart-storm" [:kills :pause :reason] options)
  (check-kills kills)
  (arguments/nanos :pause pause)
  (loop [n 0]
    (if-let [pid (when (< n (long kills)) (victim supervisor))]
      (do
        (actor/exit pid reason)
        (when-not (= 0 pause) (scope/sleep pause))
        (recur (inc n)))
      (do
        (below supervisor) ; which is answered when the last death has been dealt with
        n))))
