(ns magnetar.impl.worlds
  "What a namespace keeps for all: one of it in the real world, and one in each simulation."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (java.util Date)
   (java.util.function Supplier)
   (magnetar.kernel.park World)))

(set! *warn-on-reflection* true)

(defn of-world
  "`real`, an atom; in a simulation one of its own under the key, which begins with the value `initial`."
  [real key initial]
  (if-let [world (World/simulated)]
    (.room ^World world key (reify Supplier (get [_] (atom initial))))
    real))

(defn simulated?
  "True in a fiber of a simulation."
  []
  (some? (World/simulated)))

(defn date
  "The time of day; in a simulation that of its clock, which begins in 1970."
  ^Date []
  (if-let [world (World/simulated)]
    (Date. (quot (.nanoTime ^World world) 1000000))
    (Date.)))
