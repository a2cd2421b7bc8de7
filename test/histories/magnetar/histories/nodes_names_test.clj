(ns magnetar.histories.nodes-names-test
  "Names of magnetar.global, which clients of three JVMs register, remove, and lose by the end of their processes and nodes.

  Nodes are suspended for a shorter time than the detector's, and killed. The histories are linearizable. So are histories of
  clients under cuts, if a client registers on an active node only, and the cut-off node has no name at that time, since the
  others drop it. A name that two parts of a cluster both give is found."
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

(def ^:private runs (Long/getLong "magnetar.runs" 1))

(def ^:private options
  "A node that is cut off is not active any more when it loses the others."
  {:detect {:after 4000 :every 1000}
   :split-brain {:policy :keep-majority :lease 2000}})

(def ^:private suspended-ms 1000)

(def ^:private killed-ms 2000)

(def ^:private names ["till" "stock"])

;; ---- clients. A world has :machines, :history, :register with the request by which they register, :over, and :turns with the
;; numbers of the clients that are :ready and of the ones that are :busy

(defn- world [machines register]
  {:machines machines
   :history (record/history "name" #(System/nanoTime))
   :register register
   :turns (atom {:ready #{0 1 2} :busy #{}})
   :over (atom false)})

(defn- register
  "Returns what the client is told of a new process with this id."
  [{:keys [machines history register]} number name id]
  (record/operate history number {:f "register" :key name :value id}
                  #(ask machines (machines/nodes number) [register name id])))

(defn- unregister [{:keys [machines history]} number name]
  (record/operate history number {:f "unregister" :key name}
                  #(ask machines (machines/nodes number) [:unregister name])))

(defn- kill
  "The name is free when the death is told."
  [{:keys [machines history]} number name id]
  (record/operate history number {:f "die" :key name :value id}
                  #(ask machines (machines/nodes number) [:kill id])))

(defn- with-end
  "The operation with its end, if a client of the node could not learn it: at this time the process has the name no more."
  [number time {:keys [client return failed input] :as operation}]
  (cond-> operation
    (and (= number client) (nil? return) (not failed) (contains? #{"register" "die"} (:f input))) (assoc :return time)))

(defn- note-ends
  "Notes the ends of the operations of which a client could not learn them."
  [{:keys [operations now]} number]
  (let [time (now)]
    (swap! operations #(mapv (partial with-end number time) %))))

(defn- step
  "Registers a process, and removes the name or kills the process."
  [{:keys [history] :as world} number i]
  (let [name (names (mod (+ (long number) (long i)) 2))
        id (inc (+ (* 100000 (long number)) (long i)))
        told (register world number name id)]
    (scope/sleep 60)
    (cond
      (= :failed told) nil
      (and told (= 1 (mod (long i) 3))) (unregister world number name)
      (map? (kill world number name id)) (when-not told (note-ends history number)))))

(defn- take-turn
  "True if the client is ready; then it is busy."
  [{:keys [turns]} number]
  (contains? (:busy (swap! turns #(cond-> % (contains? (:ready %) number) (update :busy conj number)))) number))

(defn- client
  "Works again and again, while it is ready, until `over` is true."
  [{:keys [over turns] :as world} number]
  (doseq [i (take-while (fn [_] (not @over)) (range 99999))]
    (wait-until #(or @over (take-turn world number)))
    (step world number i)
    (swap! turns update :busy disj number)))

(defn- busy? [{:keys [turns]} number]
  (contains? (:busy @turns) number))

(defn- let-rest [{:keys [turns]} number]
  (swap! turns update :ready disj number))

(defn- let-work [{:keys [turns]} number]
  (swap! turns update :ready conj number))

;; ---- strikes

(defn- await-ready
  "Waits until all nodes are connected, and know the names of the others."
  [machines]
  (wait-until #(machines/served? machines))
  (run! #(ask machines % [:sync]) machines/nodes))

(defn- note-deaths
  "Notes the deaths of the processes that a client had on its node when that was killed, after this time."
  [{:keys [operations now] :as history} number from]
  (note-ends history number)
  (let [mine (filter #(and (= number (:client %)) (not (:failed %))) @operations)
        value (comp :value :input)
        of (fn [f] (filter (comp #{f} :f :input) mine))
        dead (into #{} (comp (filter #(< (long (:return %)) (long from))) (map value)) (of "die"))
        until (now)
        deaths (for [{:keys [input] :as operation} (of "register")
                     :when (not (dead (value operation)))]
                 {:client number :call from :return until :input (assoc input :f "die") :output {:known true}})]
    (swap! operations into deaths)))

(defn- strike-dead
  "Kills the node, and starts it again. Its client goes on when the node is ready."
  [{:keys [machines history] :as world} number]
  (let [time (System/nanoTime)]
    (let-rest world number)
    (strikes/kill machines (machines/nodes number) killed-ms)
    (await-ready machines)
    (wait-until #(not (busy? world number)))
    (note-deaths history number time)
    (let-work world number)))

(defn- given
  "How many names the clients were given."
  [{{:keys [operations]} :history} clients]
  (count (filter #(and (contains? clients (:client %)) (:done (:output %))) @operations)))

(defn- await-names
  "Waits until the clients were given some more names."
  [world clients]
  (let [before (given world clients)]
    (wait-until #(< (+ before 5) (given world clients)))))

(defn- strike-cut
  "Cuts the node off. Its client ends what it does before, since the others will drop its names, and tries to go on then. The cut
  lasts until the node is not active, its client is told so, and the others are given names."
  [{:keys [machines] :as world} number]
  (let [node (machines/nodes number)]
    (let-rest world number)
    (wait-until #(not (busy? world number)))
    (wires/cut-off (:wires machines) node)
    (let-work world number)
    (wait-until #(and (= 0 (ask machines node [:nodes])) (not (ask machines node [:active]))))
    (wait-until #(not (busy? world number)))
    (await-names world (disj #{0 1 2} number))
    (wires/mend (:wires machines))
    (await-ready machines)
    (await-names world #{number})))

(defn- strike [{:keys [machines] :as world} kind number]
  (case kind
    :suspend (strikes/suspend machines (machines/nodes number) suspended-ms)
    :kill (strike-dead world number)
    :cut (strike-cut world number))
  (scope/sleep 1000))

(defn- struck
  "The history of three clients, while nodes are struck. They register by the request."
  [machines random register kinds]
  (let [world (world machines register)]
    (with-scope [s]
      (dotimes [number 3]
        (fork s client world number))
      (doseq [kind kinds]
        (strike world kind (strikes/drawn random (range 3))))
      (reset! (:over world) true))
    (record/finished (:history world) (name register))))

(defn- cut-in-two
  "The history of two clients that register one name, one after the other, on nodes that do not see each other."
  [{:keys [wires] :as machines}]
  (let [world (world machines :register)]
    (wires/cut-off wires "a")
    (wait-until #(and (= 0 (ask machines "a" [:nodes]))
                      (= 1 (ask machines "b" [:nodes]) (ask machines "c" [:nodes]))))
    (register world 0 "rivals" 1)
    (register world 1 "rivals" 2)
    (record/finished (:history world) "cut")))

(defn- histories
  "The histories of one cluster, the last one of rivals that are cut off from each other."
  [seed]
  (let [random (Random. seed)]
    (with-nodes [machines {:objects [] :options options}]
      (await-ready machines)
      [(struck machines random :register (strikes/shuffled random [:suspend :suspend :kill]))
       (struck machines random :register-if-active [:cut :cut])
       (cut-in-two machines)])))

(deftest one-of-two-rivals-gets-the-name-unless-they-are-cut-off
  (doseq [seed (strikes/seeds runs)]
    (let [histories (histories seed)
          expected [:ok :ok :illegal]
          verdicts (checker/verdicts histories)]
      (println (str "-Dmagnetar.seed=" seed ", names: " (reduce + (map (comp count :operations) histories)) " operations"))
      (is (< 20 (long (record/done (first histories)))) "names that are free again are given")
      (is (= expected verdicts)
          (str "seed " seed ", see " (checker/keep-wrong histories seed expected verdicts))))))
