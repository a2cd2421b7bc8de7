(ns magnetar.bench.erlang-nodes-test
  "The suite `erlang`: its workloads and its pages."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.bench.erlang-nodes :as nodes]
   [magnetar.bench.machine :as machine]))

(deftest each-workload-has-a-title-and-a-target
  (doseq [options [{} {:quick true}]
          :let [workloads (nodes/workloads options)]]
    (is (apply distinct? (map :title workloads)))
    (is (every? (comp pos-int? :operations) workloads))
    (is (every? (comp seq :targets) workloads)))
  (is (= ["call" "send" "receive"] (map :command (take 3 (nodes/workloads {})))))
  (is (= (range 1 7) (distinct (keep :term (nodes/workloads {}))))))

(defn- figures [micros]
  {:micros micros :processor [(* 2.0 micros) micros]})

(defn- a-round [factor]
  {"calls, 1 caller" {"Magnetar" (figures 40.0) "jinterface" (figures (* 80.0 factor)) "Erlang" (figures 50.0)}
   "messages to the BEAM" {"Magnetar" (figures 2.0) "jinterface" (figures 2.5)}
   "encode, map of 10 keys" {"Magnetar" (figures 0.5) "jinterface" (figures (* 2.0 factor)) "Erlang" (figures 1.0)}})

(def ^:private a-result
  {:machine {:date "2026-11-29T20:14:41Z" :cores 2} :settings {:rounds 3}
   :rounds [(a-round 1.0) (a-round 2.0) (a-round 1.0)]})

(deftest the-tables-have-medians-and-spreads
  (let [lines (set (nodes/table a-result))]
    (is (every? lines
                ["| calls, 1 caller | 40.0 µs [40.0 µs 40.0 µs] | 80.0 µs [80.0 µs 160.0 µs] | 50.0 µs [50.0 µs 50.0 µs] | 0.50 [0.25 0.50] | 0.80 [0.80 0.80] | Erlang <= 1.11: yes |"
                 "| messages to the BEAM | 500,000/s [500,000/s 500,000/s] | 400,000/s [400,000/s 400,000/s] | - | 0.80 [0.80 0.80] | - | jinterface <= 0.50: NO |"
                 "| messages from the BEAM | - | - | - | - | - | - |"
                 "| calls, 1 caller | 80.0 [80.0 80.0] + 40.0 [40.0 40.0] | 160.0 [160.0 320.0] + 80.0 [80.0 160.0] | 100.0 [100.0 100.0] + 50.0 [50.0 50.0] |"
                 "| encode, map of 10 keys | 500 ns [500 ns 500 ns] | 2,000 ns [2,000 ns 4,000 ns] | 1,000 ns [1,000 ns 1,000 ns] | 0.25 [0.13 0.25] | 0.50 [0.50 0.50] | jinterface <= 0.50: yes |"]))
    (is (str/includes? (nodes/markdown a-result) "| encode, map of 10 keys | 500 ns [500 ns 500 ns] |"))))

(deftest the-page-on-performance-has-the-medians
  (let [page (nodes/with-summary (slurp (io/file (machine/home) "docs" "reference" "performance.md")) a-result)]
    (is (= page (nodes/with-summary page a-result)))
    (is (str/includes? page "Written by `bin/magnetar bench erlang` on 2026-11-29, on 2 cores."))
    (is (str/includes? page "| calls, 1 caller | 40.0 µs | 80.0 µs | 50.0 µs | 0.50 | 0.80 | Erlang <= 1.11: yes |"))))
