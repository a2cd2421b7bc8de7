(ns magnetar.bench.cluster-nodes-test
  "Each pair of nodes that can be started here does each workload; of what is not installed a line says so."
  {:slow true}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.bench.cluster :as cluster]
   [magnetar.bench.cluster.systems :as systems]))

(def ^:private questions
  "Each with how many numbers its answer has."
  [[["collect"] 1]
   [["tell" 1 2000 1] 1]
   [["tell" 5 100 3] 1]
   [["tell" 1 100 3] 1]
   [["ask" 1 10] 1]
   [["ask" 10 100] 1]
   [["downs" 3] 6]])

(defn- answers [pair]
  (doseq [[question n] questions
          :let [numbers (apply systems/ask pair question)]]
    (is (= n (count numbers)) [(:name pair) question])
    (is (every? nat-int? (map long numbers)) [(:name pair) question]))
  (is (every? nat-int? (systems/processor-micros pair))))

(def ^:private present (delay (systems/present)))

(defn- does-all
  "Asks the pair of this name, if it is there."
  [named]
  (doseq [pair (filter #(= named (:name %)) @present)]
    (systems/with-started [pair] (fn [[pair]] (answers pair)))))

(deftest ours-is-there-twice
  (is (= ["Magnetar" "Magnetar, TLS"] (take 2 (map :name @present)))))

(deftest ours-answers (does-all "Magnetar"))
(deftest ours-answers-over-tls (does-all "Magnetar, TLS"))
(deftest pekko-answers (does-all "Pekko"))
(deftest pekko-answers-over-tls (does-all "Pekko, TLS"))
(deftest erlang-answers (does-all "Erlang"))
(deftest erlang-answers-over-tls (does-all "Erlang, TLS"))

(deftest a-node-that-is-killed-is-noticed
  (is (pos? (#'cluster/kill-ms (first systems/all)))))
