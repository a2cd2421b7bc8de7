(ns magnetar.histories.nodes-names-test
  "Names of magnetar.global, which clients of three JVMs register, remove, and lose by the end of their processes and nodes.

  Nodes are suspended for a shorter time than the detector's, and killed. The histories are linearizable. A name that two
  parts of a cluster both give is found."
  {:limit 400000}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.histories.checker :as checker]
   [magnetar.histories.machines :as machines :refer [ask wait-until with-nodes]]
   [magnetar.histories.record :as record]
   [magnetar.histories.strikes :as strikes]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [tickets.wires :as wires])
  (:import
   (java.util Random)))

(set! *warn-on-reflection* true)

(def ^:private options {:detect {:after 4000 :every 1000}})

(def ^:private suspended-ms 1000)

(def ^:private killed-ms 2000)

(def ^:private names ["till" "stock"])

;; ---- clients

(defn- register
  "Returns what the client is told of a new process with this id."
  [{:keys [machines history]} number name id]
  (record/operate history number {:f "register" :key name :value id}
                  #(ask machines (machines/nodes number) [:register name id])))

(defn- unregister [{:keys [machines history]} number name]
  (record/operate history number {:f "unregister" :key name}
                  #(ask machines (machines/nodes number) [:unregister name])))

(defn- kill
  "The name is free when the death is told."
  [{:keys [machines history]} number name id]
  (record/operate history number {:f "die" :key name :value id}
                  #(ask machines (machines/nodes number) [:kill id])))

(defn- step
  "Registers a process, and removes the name or kills the process."
  [world number i]
  (let [name (names (mod (+ (long number) (long i)) 2))
        id (inc (+ (* 100000 (long number)) (long i)))]
    (register world number name id)
    (scope/sleep 60)
    (if (= 1 (mod (long i) 3))
      (unregister world number name)
      (kill world number name id))))

(defn- client
  "Works again and again, while its node is ready, until `over` is true."
  [{:keys [over ready] :as world} number]
  (doseq [i (take-while (fn [_] (not @over)) (range 99999))]
    (wait-until #(or @over (contains? @ready number)))
    (step world number i)))

;; ---- strikes

(defn- await-ready
  "Waits until all nodes are connected, and know the names of the others."
  [machines]
  (wait-until #(machines/served? machines))
  (run! #(ask machines % [:sync]) machines/nodes))

(defn- with-end
  "The operation with its end, if a client of the node could not learn it: at this time the process has the name no more."
  [number time {:keys [client return failed input] :as operation}]
  (cond-> operation
    (and (= number client) (nil? return) (not failed) (contains? #{"register" "die"} (:f input))) (assoc :return time)))

(defn- note-deaths
  "Notes the deaths of the processes that a client had on its node when that was killed, between these times."
  [{:keys [operations]} number from until]
  (let [mine (filter #(and (= number (:client %)) (not (:failed %))) @operations)
        value (comp :value :input)
        of (fn [f] (filter (comp #{f} :f :input) mine))
        ended (into #{} (map value) (of "die"))
        deaths (for [{:keys [input] :as operation} (of "register")
                     :when (not (ended (value operation)))]
                 {:client number :call from :return until :input (assoc input :f "die") :output {:known true}})]
    (swap! operations #(into (mapv (partial with-end number until) %) deaths))))

(defn- strike-dead
  "Kills the node, and starts it again. Its client goes on when the node is ready."
  [{:keys [machines history ready]} number]
  (let [node (machines/nodes number)
        time (System/nanoTime)]
    (swap! ready disj number)
    (strikes/kill machines node killed-ms)
    (await-ready machines)
    (note-deaths history number time (System/nanoTime))
    (swap! ready conj number)))

(defn- strike [{:keys [machines] :as world} random kind]
  (let [number (strikes/drawn random (range 3))]
    (case kind
      :suspend (strikes/suspend machines (machines/nodes number) suspended-ms)
      :kill (strike-dead world number))
    (scope/sleep 1000)))

(defn- struck
  "The history of three clients, while nodes are struck."
  [machines random]
  (let [world {:machines machines
               :history (record/history "name" #(System/nanoTime))
               :ready (atom #{0 1 2})
               :over (atom false)}]
    (with-scope [s]
      (dotimes [number 3]
        (fork s client world number))
      (doseq [kind (strikes/shuffled random [:suspend :suspend :kill])]
        (strike world random kind))
      (reset! (:over world) true))
    (record/finished (:history world) "struck")))

(defn- cut-in-two
  "The history of two clients that register one name, one after the other, on nodes that do not see each other."
  [{:keys [wires] :as machines}]
  (let [world {:machines machines :history (record/history "name" #(System/nanoTime))}]
    (wires/cut-off wires "a")
    (wait-until #(and (= 0 (ask machines "a" [:nodes]))
                      (= 1 (ask machines "b" [:nodes]) (ask machines "c" [:nodes]))))
    (register world 0 "rivals" 1)
    (register world 1 "rivals" 2)
    (record/finished (:history world) "cut")))

(deftest one-of-two-rivals-gets-the-name-unless-they-are-cut-off
  (let [[seed] (strikes/seeds 1)
        histories (with-nodes [machines {:objects [] :options options}]
                    (await-ready machines)
                    [(struck machines (Random. seed)) (cut-in-two machines)])]
    (println (str "-Dmagnetar.seed=" seed ", names: " (count (:operations (first histories))) " operations"))
    (is (< 20 (long (record/done (first histories)))) "names that are free again are given")
    (let [verdicts (checker/verdicts histories)]
      (is (= [:ok :illegal] verdicts)
          (str "seed " seed ", see " (checker/keep-wrong histories seed [:ok :illegal] verdicts))))))
