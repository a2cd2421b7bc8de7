;; What the start-up cache learns from: a start that loads what most programs load.
(ns magnetar.dev.training
  (:require
   [clojure.java.io]
   [clojure.pprint]
   [clojure.set]
   [clojure.string]))

(doseq [ns-sym '[magnetar.async magnetar.channel magnetar.inspect magnetar.match]]
  (try (require ns-sym)
       (catch java.io.FileNotFoundException _ nil)))

(defn- sample [n]
  (loop [i 0 acc {}]
    (if (= i n) acc (recur (inc i) (assoc acc (keyword (str "k" i)) (* i i))))))

(when-let [go (resolve 'magnetar.async/go)]
  (let [take! (resolve 'magnetar.async/<!!)]
    (assert (= 42 (take! (eval (list (symbol go) 42)))))))

(when-let [match (resolve 'magnetar.match/match)]
  (assert (= 42 (eval (list (symbol match) [:n 42] [:n 'x] 'x)))))

(assert (= 50 (count (sample 50))))
