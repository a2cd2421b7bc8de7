(ns magnetar.histories.server-test
  "A register, a counter and a set that a server of one node holds, and clients of all nodes, while connections are cut.

  A call is done once, or not at all, and what it returns is true: the histories are linearizable."
  {:limit 240000}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [spawn]]
   [magnetar.cluster.simulated :refer [connected start]]
   [magnetar.gen-server :as gs]
   [magnetar.histories.checker :as checker]
   [magnetar.histories.objects :refer [inputs objects]]
   [magnetar.histories.record :as record]
   [magnetar.scope :as scope]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 50))

(defn- answer
  "The answer of the server in this state, with the next state."
  [f input {:keys [state] :as server}]
  (let [[state output] (f state input)]
    [output (assoc server :state state)]))

(def ^:private server
  {:init (fn [model] (let [[state f] (objects model)]
                       [:ok {:state state :f f}]))
   :handle-call (fn [input _ {:keys [f] :as server}]
                  (let [[output server] (answer f input server)]
                    [:reply output server]))})

(defn- asked
  "What the server of the node b has answered, or nil."
  [input]
  (try
    (gs/call [:object "b@sim"] input {:timeout 300})
    (catch clojure.lang.ExceptionInfo _)
    (catch magnetar.TimeoutException _)))

(defn- client [history model number]
  (record/client history number (inputs model number 8) asked {:pause-ms 20 :rest-ms 2000 :most-unknown 2}))

(defn- history-of
  "What four clients of two nodes were told."
  [model]
  (let [net (mt/network {:latency [1 30] :detector 300})
        history (record/history model)]
    (run! #(start net %) [:a :b :c])
    (connected :a :b :c)
    (mt/on-node :b (fn [] (spawn (fn [] (gs/start-link server model {:name :object}) (actor/receive :never nil))) nil))
    (scope/with-scope [s]
      (doseq [number (range 4)]
        (scope/fork s mt/on-node ([:a :c] (mod (long number) 2)) #(actor/with-process {} (client history model number)))))
    (record/finished history model)))

(defn- verdicts
  "How often each verdict is given on runs of the model."
  [model runs]
  (let [options {:faults #{:cut-link :flap} :fault-rate 0.01}]
    (->> (range runs)
         (mapv (fn [seed] (mt/simulate (assoc options :seed seed) (history-of model))))
         checker/verdicts
         frequencies)))

(deftest what-a-server-of-another-node-says-is-true
  (doseq [model (keys objects)]
    (is (= {:ok runs} (verdicts model runs)) model)))

;; ---- controls

(defn- found? [model defect]
  (with-redefs [answer defect]
    (pos? (long (:illegal (verdicts model 5) 0)))))

(defn- forgetting
  "Answers as if it had done what it drops now and then."
  [f input {:keys [state calls] :or {calls 0} :as server}]
  (let [[next output] (f state input)]
    [output (assoc server :state (if (= 3 (mod (long calls) 5)) state next) :calls (inc (long calls)))]))

(defn- stale
  "Answers from what it was before the last change."
  [f {what :f :as input} {:keys [state before] :as server}]
  (let [[next output] (f state input)]
    (if (= "read" what)
      [(second (f (if (some? before) before state) input)) server]
      [output (assoc server :state next :before state)])))

(deftest a-lost-write-is-found
  (doseq [model (keys objects)]
    (is (found? model forgetting) model)))

(deftest a-stale-read-is-found
  (doseq [model (keys objects)]
    (is (found? model stale) model)))
