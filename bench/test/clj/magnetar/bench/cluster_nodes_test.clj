(ns magnetar.bench.cluster-nodes-test
  "Each pair of nodes that can be started here does each workload; of what is not installed a line says so."
  {:slow true}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.bench.cluster :as cluster]
   [magnetar.bench.cluster.systems :as systems]))

(def ^:private questions
  "Each with how many numbers its answer has."
  [[["tell" 1 2000 1] 1]
   [["tell" 5 100 3] 1]
   [["tell" 1 100 3] 1]
   [["ask" 1 10] 1]
   [["ask" 10 100] 1]
   [["downs" 3] 6]])

(defn- answers [pair]
  (doseq [[question n] questions
          :let [numbers (apply systems/ask pair question)]]
    (is (= n (count numbers)) [(:name pair) question])
    (is (every? pos? numbers) [(:name pair) question]))
  (is (every? nat-int? (systems/processor-micros pair))))

(deftest each-pair-does-its-workloads
  (let [pairs (systems/present)]
    (is (some #{"Magnetar, TLS"} (map :name pairs)))
    (doseq [pair pairs]
      (systems/with-started [pair] (fn [[pair]] (answers pair))))))

(deftest a-node-that-is-killed-is-noticed
  (is (pos? (#'cluster/kill-ms (first systems/all)))))
