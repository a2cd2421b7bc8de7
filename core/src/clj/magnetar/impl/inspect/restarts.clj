(ns magnetar.impl.inspect.restarts
  "The deaths and restarts under each supervisor, read from the part of its state that it publishes, see `overview`."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]))

(set! *warn-on-reflection* true)

(defn- count-lately [times ^long period]
  (let [now (clock/now)]
    (count (filter #(< (- now (long %)) period) times))))

(defn- described [shown {:keys [name pid] {:keys [strategy intensity period restarts history]} :overview}]
  {:name name
   :pid pid
   :strategy strategy
   :intensity intensity
   :period-ms (quot (long period) 1000000)
   :restarts (count-lately restarts period)
   :history (mapv shown history)})

(defn of
  "What `magnetar.inspect/restarts` returns of the snapshot, with (shown death) in the place of each death."
  [snapshot shown]
  (into [] (comp (filter :overview) (map #(described shown %))) (vals (:nodes snapshot))))
