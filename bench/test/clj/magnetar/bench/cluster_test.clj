(ns magnetar.bench.cluster-test
  "The suite `cluster`: what the answers say, and the pages."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.bench.cluster :as cluster]
   [magnetar.bench.machine :as machine]))

(deftest a-death-takes-more-than-a-round-trip
  (is (= {:round-trip 85.0 :down 115.0} (cluster/death-times [90000 120000 80000 110000])))
  (is (= {:round-trip 2.0 :down 9.0} (cluster/death-times [1000 9000 2000 7000 70000 90000]))))

(deftest the-processor-time-is-for-an-operation
  (is (= [1.5 0.5] (#'cluster/processor-time [10000 20000] [25000 25000] 10000)))
  (is (nil? (#'cluster/processor-time nil nil 10000))))

(deftest pekko-does-not-send-all-at-once
  (is (= [#{"Magnetar" "Erlang"} nil nil nil] (map :kinds (cluster/workloads {}))))
  (is (every? (fn [{:keys [command operations numbers]}]
                (= operations (if (= "tell" command) (apply * (take 2 numbers)) (last numbers))))
              (mapcat cluster/workloads [{} {:quick true}]))))

(defn- figures [micros]
  {:micros micros :processor [(* 2.0 micros) micros]})

(defn- a-round [factor]
  {"messages one way" {"Magnetar" (figures 1.0) "Erlang" (figures (* 2.0 factor))}
   "messages one way, 3,000 ahead" {"Magnetar, TLS" (figures 1.25) "Pekko, TLS" (figures (* 5.0 factor))}
   "calls, 1 caller" {"Magnetar" (figures (* 100.0 factor)) "Pekko" (figures 400.0) "Erlang" (figures 50.0)}
   :deaths {"Magnetar" {:round-trip 100.0 :down (+ 100.0 (* 20.0 factor))} "Erlang" {:round-trip 20.0 :down 19.0}}})

(def ^:private a-result
  {:machine {:date "2026-11-29T20:14:41Z" :cores 2} :settings {:rounds 3}
   :rounds [(a-round 1.0) (a-round 2.0) (a-round 1.0)]
   :kills {"Magnetar" [300.0 500.0 400.0] "Pekko" [12000.0]}})

(deftest the-tables-have-medians-and-spreads
  (let [lines (set (cluster/table a-result))]
    (is (every? lines
                ["| messages one way | plain | 1,000,000/s [1,000,000/s 1,000,000/s] | - | 500,000/s [250,000/s 500,000/s] | - | 0.50 [0.25 0.50] |"
                 "| messages one way | TLS 1.3 | - | - | - | - | - |"
                 "| calls, 1 caller | plain | 100.0 µs [100.0 µs 200.0 µs] | 400.0 µs [400.0 µs 400.0 µs] | 50.0 µs [50.0 µs 50.0 µs] | 0.25 [0.25 0.50] | 2.00 [2.00 4.00] |"
                 "| calls, 1 caller | plain | 200.0 [200.0 400.0] + 100.0 [100.0 200.0] | 800.0 [800.0 800.0] + 400.0 [400.0 400.0] | 100.0 [100.0 100.0] + 50.0 [50.0 50.0] |"
                 "| exit to `:DOWN`, above that | plain | 20 µs [20 µs 40 µs] | - | -1 µs [-1 µs -1 µs] |"
                 "| `kill -9` to `:DOWN` | plain | 400 ms [300 ms 500 ms] | 12,000 ms | - |"]))
    (is (str/includes? (cluster/markdown a-result) "| round trip of a message | plain | 100 µs [100 µs 100 µs] | - | 20 µs [20 µs 20 µs] |"))))

(deftest the-page-on-performance-has-the-medians
  (let [page (cluster/with-summary (slurp (io/file (machine/home) "docs" "reference" "performance.md")) a-result)]
    (is (= page (cluster/with-summary page a-result)))
    (is (str/includes? page "Written by `bin/magnetar bench cluster` on 2026-11-29, on 2 cores."))
    (is (str/includes? page "| messages one way, 3,000 ahead | TLS 1.3 | 800,000/s | 200,000/s | - | 0.25 | - |"))))
