(ns magnetar.histories.singleton-test
  "A register, a counter and a set that a singleton holds, over a storage outside of the cluster, while the nodes are cut off
  from each other and crash.

  With tokens, the histories are linearizable under each policy, since the storage refuses what a second singleton
  writes. Without tokens they show if two run at once: they are linearizable under each policy except :allow."
  {:limit 240000}
  (:require
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor]
   [magnetar.cluster.impl.policy :as policy]
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

(defn- run-node [net node {:keys [policy objects store]}]
  (join net node {:split-brain {:policy policy :quorum (when (= :static-quorum policy) 2) :lease 1000}})
  (run! #(run-on node supervise % store) objects))

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
  "Are the objects there, as all nodes see it?"
  [objects]
  (every? (fn [node] (mt/on-node node (fn [] (every? (comp some? singleton/whereis :name) objects)))) nodes))

(defn- work-on
  "Lets a client of the node work on the object."
  [history object number node]
  (try
    (mt/on-node node #(actor/with-process {} (client history object number)))
    (catch magnetar.StateException _))) ; the node has crashed

(defn- histories-of
  "What clients of the objects were told, three of each, one on each node."
  [{:keys [objects] :as program} seed]
  (let [net (mt/network {:latency [1 30] :detector 500})
        histories (mapv #(record/history (:model %)) objects)
        program (assoc program :store (store/make objects))]
    (doseq [node nodes]
      (mt/start-node node)
      (run-node net node program))
    (mt/wait-until #(served? objects) {:timeout 60000})
    (with-scope [s]
      (doseq [[number node] (map-indexed vector nodes)
              [history object] (map vector histories objects)]
        (scope/fork s work-on history object number node))
      (disturb net program seed))
    (mapv #(record/finished %1 (:name %2)) histories objects)))

(defn- verdicts
  "From the name of an object to its verdicts, each with how often it was given."
  [policy objects]
  (let [found (for [seed (range runs)]
                (mt/simulate {:seed seed} (histories-of {:policy policy :objects objects} seed)))
        judged (checker/verdicts (apply concat found))]
    (zipmap (map :name objects)
            (map frequencies (apply map vector (partition (count objects) judged))))))

(defn- with-defects
  "An object of each model with each of the defects."
  [& defects]
  (for [model (keys objects), defect defects]
    (holder/object model defect)))

(deftest what-singletons-say-is-true-under-each-policy-that-lets-one-run
  (let [objects (with-defects :sound :no-tokens)]
    (doseq [policy [:keep-majority :static-quorum :keep-oldest]]
      (is (= (zipmap (map :name objects) (repeat {:ok runs})) (verdicts policy objects)) policy))))

;; ---- controls

(deftest two-singletons-need-tokens
  (let [objects (conj (with-defects :sound :no-tokens) (holder/object "register" :blind-reads))
        verdicts (verdicts :allow objects)]
    (doseq [{:keys [name defect]} objects]
      (if (= :sound defect)
        (is (= {:ok runs} (verdicts name)) name)
        (is (pos? (long (:illegal (verdicts name) 0))) name)))))

(deftest a-part-that-acts-without-a-majority-is-found
  (with-redefs [policy/active? (fn [_ members part] (boolean (some part members)))]
    (let [object (holder/object "register" :no-tokens)]
      (is (pos? (long (:illegal ((verdicts :keep-majority [object]) (:name object)) 0)))))))
