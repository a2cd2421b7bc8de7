(ns magnetar.impl.inspect.restarts
  "The deaths and restarts under each supervisor, read from the part of its state that it publishes, see `overview`."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]))

(set! *warn-on-reflection* true)

(defn- count-lately [times ^long period]
  (let [now (clock/now)]
    (count (filter #(< (- now (long %)) period) times))))

(defn- described [{:keys [name pid] {:keys [strategy intensity period restarts history]} :overview}]
  {:name name
   :pid pid
   :strategy strategy
   :intensity intensity
   :period-ms (quot (long period) 1000000)
   :restarts (count-lately restarts period)
   :history (vec history)})

(defn of
  "What `magnetar.inspect/restarts` returns of the snapshot."
  [snapshot]
  (into [] (comp (filter :overview) (map described)) (vals (:nodes snapshot))))
