(ns magnetar.bench.workload-test
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.bench.report :as report]
   [magnetar.bench.statistics :as statistics]
   [magnetar.bench.workload.core-async]
   [magnetar.bench.workload.magnetar]))

(def ^:private libraries
  '[magnetar core-async])

(def ^:private workloads
  (for [workload '[ping-pong fan-in-4 rendezvous one-to-one select-10 select-10-buffered spawn]
        kind '[go io]]
    (symbol (str workload "-" kind))))

(def ^:private seconds-allowed
  20)

(defn- workload
  [library named]
  (ns-resolve (symbol (str "magnetar.bench.workload." library)) named))

(defn- bounded
  "The value of f, or :too-long: a workload that hangs fails its own test."
  [f]
  (deref (future (f)) (* 1000 seconds-allowed) :too-long))

(deftest each-workload-does-all-its-operations-with-both-libraries
  (doseq [library libraries, named workloads]
    (testing (str library " " named)
      (is (= 40 (bounded #((workload library named) 40)))))))

(deftest parked-fibers-are-all-there-and-wake
  (doseq [library libraries, named '[park-go park-io]]
    (testing (str library " " named)
      (is (= 30 (bounded #(let [parked ((workload library named) 30)]
                            (loop [woken 0]
                              (if (< woken 30)
                                (do (Thread/onSpinWait)
                                    (recur (+ woken (long ((workload library 'release) parked)))))
                                woken)))))))))

(deftest the-median-of-an-even-count-is-the-mean-of-the-two-in-the-middle
  (is (= 2.5 (statistics/median [4 1 3 2])))
  (is (= {:median 2.0 :min 1.0 :max 9.0 :count 3} (statistics/spread [9 1 2]))))

(deftest a-table-has-a-line-for-each-comparison
  (let [spread {:median 1.0 :min 0.5 :max 2.0}
        row {:name "a" :ours-value spread :theirs-value spread :ratio spread :target 0.5 :met? false}]
    (is (= ["| workload | unit  | ours [min max]      | theirs [min max]    | ratio [min max]     | target | met? |"
            "| -------- | ----- | ------------------- | ------------------- | ------------------- | ------ | ---- |"
            "| a        | ns/op | 1.000 [0.500 2.000] | 1.000 [0.500 2.000] | 1.000 [0.500 2.000] | <= 0.5 | NO   |"]
           (report/table {:time {:unit "ns/op" :rows [row]}})))))
