(ns magnetar.cluster.beside-erlang-test
  "A JVM of a cluster that is a node of Erlang too: the two share its name, and no more."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.simulated :refer [connected full-name join start]]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.process Connection Peers Transport)))

(set! *warn-on-reflection* true)

(defn- connect-silent-beam
  "Connects this node with one of Erlang that never says anything."
  []
  (let [transport (reify Transport
                    (send [_ _ _])
                    (awaitRoom [_ _])
                    (isErlang [_] true))
        beam (Peers/peer "beam@sim" 7 transport)]
    (.connect beam transport (Connection. beam))))

(defn- await-view [& nodes]
  (doseq [node nodes]
    (mt/wait-until (fn [] (mt/on-node node #(and (cluster/active?) (= (count nodes) (count (:members (:agreement (cluster/status))))))))
                   {:timeout 60000})))

(deftest a-node-of-erlang-is-no-node-of-the-cluster
  (is (= {:started [["b@sim"] ["b@sim"]] :members #{"a@sim" "b@sim"} :taken [:refused "b@sim"]}
         (mt/simulate {:seed 1}
           (let [net (mt/network)]
             (start net :b)
             (mt/start-node :a)
             (mt/on-node :a connect-silent-beam)
             (join net :a)
             (let [started (mt/on-node :a #(vector (cluster/nodes) (mapv :node (:nodes (cluster/status)))))]
               (await-view :a :b)
               (mt/start-node :c)
               (mt/on-node :c connect-silent-beam)
               {:started started
                :members (set (mt/on-node :b #(:members (:agreement (cluster/status)))))
                :taken (let [[why sentence] (join net :c {:name (full-name :b)})]
                         [why (re-find #"b@sim" (str sentence))])}))))))

(deftest a-cluster-is-joined-again-while-a-node-of-erlang-keeps-the-name
  (is (= #{"a@sim" "b@sim"}
         (mt/simulate {:seed 1}
           (let [net (mt/network)]
             (run! #(start net %) [:a :b])
             (connected :a :b)
             (await-view :a :b)
             (mt/on-node :b #(do (Peers/setName (full-name :b) :erlang) (cluster/stop)))
             (join net :b)
             (connected :a :b)
             (await-view :a :b)
             (set (mt/on-node :a #(:members (:agreement (cluster/status))))))))))
