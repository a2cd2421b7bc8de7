(ns magnetar.impl.inspect.restarts
  "The deaths and restarts under each supervisor, as the supervisors let others read them."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]))

(set! *warn-on-reflection* true)

(defn- lately [times ^long period]
  (let [now (clock/now)]
    (count (filter #(< (- now (long %)) period) times))))

(defn- told [{:keys [name pid] {:keys [strategy intensity period restarts history]} :overview}]
  {:name name
   :pid pid
   :strategy strategy
   :intensity intensity
   :period-ms (quot (long period) 1000000)
   :restarts (lately restarts period)
   :history (vec history)})

(defn of
  "What `magnetar.inspect/restarts` returns of the snapshot."
  [snapshot]
  (into [] (comp (filter :overview) (map told)) (vals (:nodes snapshot))))
