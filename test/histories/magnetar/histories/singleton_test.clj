(ns magnetar.histories.singleton-test
  "A register, a counter and a set that a singleton holds, over a storage outside of the cluster, while the nodes are cut off
  from each other and crash.

  With tokens, the histories are linearizable under each policy. Without them they are not under :allow, which lets two
  run."
  {:limit 240000}
  (:require
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor]
   [magnetar.cluster.simulated :refer [join run-on]]
   [magnetar.cluster.singleton :as singleton]
   [magnetar.histories.checker :as checker]
   [magnetar.histories.holder :as holder]
   [magnetar.histories.objects :refer [inputs objects]]
   [magnetar.histories.record :as record]
   [magnetar.histories.store :as store]
   [magnetar.report :as report]
   [magnetar.scope :as scope :refer [with-scope]]
   [magnetar.supervisor :as sup]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 9))

(defn- without-reports
  "Nodes crash, and singletons that are stale end: neither is printed."
  [f]
  (let [hook (fn [_])]
    (report/add-hook :report hook)
    (try
      (f)
      (finally (report/remove-hook :report hook)))))

(use-fixtures :each without-reports)

;; ---- the nodes

(defn- supervise [{:keys [name] :as object} store]
  (let [connect (fn [] #(store/answer store %))
        spec {:name name :start [holder/start-link object connect]}]
    (sup/start-link {:intensity 1000 :children [{:id name :start [singleton/start-link spec]}]}))
  (actor/receive :never nil))

(defn- run-node [net node {:keys [policy object store]}]
  (join net node {:split-brain {:policy policy :quorum (when (= :static-quorum policy) 2) :lease 1000}})
  (run-on node supervise object store))

(defn- client [history {:keys [name model]} number]
  (record/client history number (inputs model number 24) #(holder/ask (singleton/address name) % 500)
                 {:pause-ms 300 :rest-ms 1500 :most-unknown 3}))

(def ^:private nodes [:a :b :c])

(defn- disturb
  "Cuts one node off for a while, and crashes one later; the seed says which."
  [net program seed]
  (let [cut-off (nodes (mod (long seed) 3))
        crashed (nodes (mod (quot (long seed) 3) 3))]
    (scope/sleep 1000)
    (mt/cut net [cut-off] (remove #{cut-off} nodes))
    (scope/sleep 4000)
    (mt/heal net)
    (scope/sleep 3000)
    (mt/restart-node crashed)
    (run-node net crashed program)))

(defn- served?
  "Is the object there, as all nodes see it?"
  [{:keys [name]}]
  (every? #(mt/on-node % (fn [] (some? (singleton/whereis name)))) nodes))

(defn- history-of
  "What three clients, one on each node, were told."
  [{:keys [object] :as program} seed]
  (let [net (mt/network {:latency [1 30] :detector 500})
        history (record/history (:model object))
        program (assoc program :store (store/make [object]))]
    (doseq [node nodes]
      (mt/start-node node)
      (run-node net node program))
    (mt/wait-until #(served? object) {:timeout 60000})
    (with-scope [s]
      (doseq [[number node] (map-indexed vector nodes)]
        (scope/fork s (fn []
                        (try
                          (mt/on-node node #(actor/with-process {} (client history object number)))
                          (catch magnetar.StateException _))))) ; the node has crashed
      (disturb net program seed))
    (record/finished history (:model object))))

(defn- verdicts [program runs]
  (->> (range runs)
       (mapv (fn [seed] (mt/simulate {:seed seed} (history-of program seed))))
       checker/verdicts
       frequencies))

(deftest what-a-singleton-says-is-true-under-each-policy
  (doseq [policy [:keep-majority :static-quorum :keep-oldest :allow]
          model (keys objects)]
    (is (= {:ok runs} (verdicts {:policy policy :object (holder/object model)} runs)) [policy model])))

;; ---- controls

(defn- found?
  "Does the checker find a history that cannot be?"
  [program]
  (pos? (long (:illegal (verdicts program runs) 0))))

(deftest two-singletons-without-tokens-are-found
  (doseq [model (keys objects)]
    (is (found? {:policy :allow :object (holder/object model :no-tokens)}) model)))

(deftest a-read-that-does-not-ask-the-storage-is-found
  (is (found? {:policy :allow :object (holder/object "register" :blind-reads)})))
