(ns magnetar.impl.environment
  "What a namespace keeps for all: one of it in the real environment, and one in each simulation."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (java.util Date)
   (java.util.function Supplier)
   (magnetar.kernel.fiber Environment Fiber Simulated)))

(set! *warn-on-reflection* true)

(defn local
  "`real`, an atom; in a simulation one of its own under the key, which begins with the value `initial`."
  [real key initial]
  (if-let [environment (Simulated/environment)]
    (.local ^Environment environment key (reify Supplier (get [_] (atom initial))))
    real))

(defn simulated?
  "True in a fiber of a simulation."
  []
  (some? (Simulated/environment)))

(defn number
  "A number that no other has in this environment: to put in order what has no order of its own."
  []
  (.nextId (Fiber/current)))

(defn in-order
  "The things; in a simulation in the order of `number-of`, because an order of identity hashes differs from run to run."
  [number-of things]
  (if (simulated?) (sort-by number-of things) things))

(defn shuffled
  "The things in an order that is drawn, in a simulation from the seed."
  [things]
  (let [fiber (Fiber/current)]
    (loop [things (vec things)
           n (count things)]
      (if (< n 2)
        things
        (let [i (.random fiber n)
              j (dec n)]
          (recur (assoc things i (things j) j (things i)) j))))))

(defn date
  "The time of day; in a simulation the time of its clock, which begins in 1970."
  ^Date []
  (if-let [environment (Simulated/environment)]
    (Date. (quot (.nanoTime ^Environment environment) 1000000))
    (Date.)))
