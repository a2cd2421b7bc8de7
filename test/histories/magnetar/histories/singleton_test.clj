(ns magnetar.histories.singleton-test
  "A register, a counter and a set that a singleton holds, over a storage outside of the cluster, while the nodes are cut off
  from each other and crash.

  The singleton keeps the value in its memory too. It asks the storage for each operation if its token is the newest. So
  the histories are linearizable, under each policy. Without the tokens they are not under :allow, which lets two run."
  {:limit 240000}
  (:require
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor]
   [magnetar.cluster.simulated :refer [join run-on]]
   [magnetar.cluster.singleton :as singleton]
   [magnetar.gen-server :as gs]
   [magnetar.histories.checker :as checker]
   [magnetar.histories.objects :refer [inputs objects]]
   [magnetar.histories.record :as record]
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

;; ---- the storage

(defn- newest?
  "Has the storage seen no newer token?"
  [storage token]
  (<= (long (:token storage)) (long token)))

(defn- with-token
  "What f makes of the storage if the token is the newest; else the storage refuses, and stays."
  [storage token f]
  (let [[before after] (swap-vals! storage #(if (newest? % token) (f (assoc % :token token)) %))]
    (if (newest? before token) (:value after) :stale)))

;; ---- the singleton

(defn- init [[model storage token]]
  (let [value (with-token storage token identity)]
    (if (= :stale value)
      [:stop :stale]
      [:ok {:f (second (objects model)) :storage storage :token token :value value}])))

(defn- operate
  "The answer, from the value in memory; the storage has to take the next value."
  [input {:keys [f storage token value] :as state}]
  (let [[next output] (f value input)]
    (if (= :stale (with-token storage token #(assoc % :value next)))
      [:stop :stale :stale state]
      [:reply output (assoc state :value next)])))

(def ^:private holder
  {:init init
   :handle-call (fn [input _ state] (operate input state))
   :handle-cast (fn [_ state] [:noreply state])})

(defn- start-holder [model storage token]
  (gs/start-link holder [model storage token]))

;; ---- the nodes

(defn- supervise [model storage]
  (sup/start-link {:intensity 1000
                   :children [{:id :object :start [singleton/start-link {:name :object :start [start-holder model storage]}]}]})
  (actor/receive :never nil))

(defn- run-node [net node {:keys [policy model storage]}]
  (join net node {:split-brain {:policy policy :quorum (when (= :static-quorum policy) 2) :lease 1000}})
  (run-on node supervise model storage))

(defn- asked [input]
  (try
    (let [output (gs/call (singleton/address :object) input {:timeout 500})]
      (when (map? output) output))
    (catch clojure.lang.ExceptionInfo _)
    (catch magnetar.TimeoutException _)))

(defn- client [history model number]
  (record/client history number (inputs model number 24) asked {:pause-ms 300 :rest-ms 1500 :most-unknown 3}))

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
  []
  (every? #(mt/on-node % (fn [] (some? (singleton/whereis :object)))) nodes))

(defn- history-of
  "What three clients, one on each node, were told."
  [{:keys [model] :as program} seed]
  (let [net (mt/network {:latency [1 30] :detector 500})
        history (record/history model)
        program (assoc program :storage (atom {:token 0 :value (first (objects model))}))]
    (doseq [node nodes]
      (mt/start-node node)
      (run-node net node program))
    (mt/wait-until served? {:timeout 60000})
    (with-scope [s]
      (doseq [[number node] (map-indexed vector nodes)]
        (scope/fork s (fn []
                        (try
                          (mt/on-node node #(actor/with-process {} (client history model number)))
                          (catch magnetar.StateException _))))) ; the node has crashed
      (disturb net program seed))
    (record/finished history model)))

(defn- verdicts [program runs]
  (->> (range runs)
       (mapv (fn [seed] (mt/simulate {:seed seed} (history-of program seed))))
       checker/verdicts
       frequencies))

(deftest what-a-singleton-says-is-true-under-each-policy
  (doseq [policy [:keep-majority :static-quorum :keep-oldest :allow]
          model (keys objects)]
    (is (= {:ok runs} (verdicts {:policy policy :model model} runs)) [policy model])))

;; ---- controls

(defn- found?
  "Does the checker find a history that cannot be?"
  [program]
  (pos? (long (:illegal (verdicts program runs) 0))))

(deftest two-singletons-without-tokens-are-found
  (with-redefs [newest? (constantly true)]
    (doseq [model (keys objects)]
      (is (found? {:policy :allow :model model}) model))))

(deftest a-read-that-does-not-ask-the-storage-is-found
  (let [asks operate]
    (with-redefs [operate (fn [input {:keys [f value] :as state}]
                            (if (= "read" (:f input))
                              [:reply (second (f value input)) state]
                              (asks input state)))]
      (is (found? {:policy :allow :model "register"})))))
