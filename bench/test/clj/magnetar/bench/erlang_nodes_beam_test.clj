(ns magnetar.bench.erlang-nodes-beam-test
  "Each node of the suite `erlang` that can be started here does each workload with a BEAM; of what is not installed a line says so."
  {:slow true}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.bench.erlang-nodes :as nodes]
   [magnetar.bench.erlang-nodes.systems :as systems]))

(deftest all-answer
  (let [names (systems/present)
        workloads (map #(assoc % :operations 20) (nodes/workloads {:quick true}))]
    (is (= ["Magnetar" "Erlang"] (remove #{"jinterface"} names)))
    (systems/with-started names (reduce max (keep :term workloads))
      (fn [nodes]
        (is (= names (map :name nodes)))
        (doseq [{:keys [name] :as node} nodes, {:keys [title] :as workload} workloads
                :let [{:keys [micros processor]} (#'nodes/one node workload)]]
          (is (pos? (double micros)) [name title])
          (is (every? #(<= 0.0 (double %)) processor) [name title]))
        (is (every? nat-int? (systems/processor-micros (first nodes))))))))
