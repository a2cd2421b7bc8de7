(ns magnetar.bench.table-test
  "The suite `table` with little to do."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.bench.rounds :as rounds]
   [magnetar.bench.table :as table]
   [magnetar.bench.workload.tables :as tables]))

(def ^:private little
  '{magnetar.bench.workload.tables/looked-up [400]
    magnetar.bench.workload.tables/inserts [400]
    magnetar.bench.workload.tables/counted [4 400]
    magnetar.bench.workload.tables/ranged [400 5]
    magnetar.bench.workload.tables/kept-in [4 400]})

(deftest each-group-has-a-workload-that-is-tested
  (is (= (set (keys little)) (set (map :workload table/groups)))))

(deftest ours-does-each-workload
  (doseq [[workload arguments] little]
    (testing (str workload)
      (let [variants (remove (comp #{"Erlang"} first) (apply (requiring-resolve workload) arguments))
            round (first (rounds/run variants {:warm-ups 0 :rounds 1 :collect false}))]
        (is (seq variants))
        (is (every? number? (vals (dissoc round :foreign))))))))

(deftest all-places-for-state-come-to-the-same-sum
  (doseq [[place f] (tables/kept-in 4 400)]
    (is (= 400 (f)) place)))
