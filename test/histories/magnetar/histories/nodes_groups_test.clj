(ns magnetar.histories.nodes-groups-test
  "What clients of three JVMs see of a group, whose members join, leave and die while nodes are cut off, suspended and killed.

  What is judged is in `magnetar.histories.groups`. A node that goes on seeing members which a lost node had is found."
  {:limit 400000}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.histories.checker :as checker]
   [magnetar.histories.groups :as groups]
   [magnetar.histories.machines :as machines :refer [ask wait-until with-nodes]]
   [magnetar.histories.record :as record]
   [magnetar.histories.strikes :as strikes]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [tickets.wires :as wires])
  (:import
   (java.util Random)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 1))

(def ^:private program
  {:objects [] :options {:detect {:after 2000 :every 500}}})

(def ^:private damage-ms
  "Longer than the time of the detector."
  4500)

(defn- await-connected [machines]
  (wait-until #(machines/served? machines)))

;; ---- clients. A world has :machines, :history and :group, and a node has the name that others know

(defn- full-name [node]
  (str node "@histories"))

(defn- history []
  (record/history "group" #(System/nanoTime)))

(defn- look
  "Returns the members that the node sees, or nil or :failed if it ends."
  [{:keys [machines history group]} node]
  (groups/look history (full-name node) #(ask machines node [:members group])))

(defn- act
  "Lets the process join, leave or end on its node, which has these members then. Returns {}, or nil or :failed if the node ends."
  [{:keys [machines history group]} node id what members]
  (groups/change history (full-name node) members #(ask machines node [:act what group id])))

(defn- of-run
  "The members that started in the same run of the node as this one."
  [[_ _ creation] members]
  (into {} (filter (fn [[[_ _ other] _]] (= creation other))) members))

(defn- member
  "A member or a new process, drawn from both. Nil or :failed if the node ends."
  [{:keys [machines]} random node members]
  (if (or (empty? members) (zero? (.nextInt ^Random random 3)))
    (ask machines node [:start-member])
    (strikes/drawn random (vec (keys members)))))

(defn- change
  "Changes the members of the node; returns the members after that, or an empty map if it has ended."
  [world random node members]
  (let [id (member world random node members)]
    (if (vector? id)
      (let [[what members] (groups/drawn-action #(.nextInt ^Random random (int %)) (of-run id members) id)]
        (if (= {} (act world node id what members)) members {}))
      {})))

(defn- change-all-the-time [{:keys [over] :as world} random node]
  (loop [members {}]
    (when-not @over
      (scope/sleep (.nextInt ^Random random 100))
      (recur (change world random node members)))))

(defn- look-all-the-time [{:keys [over] :as world} node]
  (while (not @over)
    (scope/sleep 30)
    (look world node)))

;; ---- strikes

(defn- await-members
  "Waits until each node sees members of all nodes."
  [{:keys [machines] :as world}]
  (await-connected machines)
  (doseq [node machines/nodes]
    (wait-until #(= 3 (count (into #{} (map first) (keys (look world node))))))))

(defn- strike-dead [{:keys [machines history]} node]
  (groups/lose history (full-name node) #(machines/kill machines node))
  (scope/sleep damage-ms)
  (machines/start machines node))

(defn- strike [{:keys [machines] :as world} random kind]
  (let [[node other] (strikes/shuffled random machines/nodes)]
    (case kind
      :cut (strikes/cut-off machines node damage-ms (strikes/drawn random [:both :sends :gets]))
      :pair (strikes/cut-pair machines node other damage-ms)
      :suspend (strikes/suspend machines node damage-ms)
      :kill (strike-dead world node))
    (await-members world)))

(defn- agree?
  "Do all nodes see the same members?"
  [world]
  (apply = (map #(look world %) machines/nodes)))

(defn- struck
  "The histories of clients that change members and look on all nodes, while these are struck."
  [machines seed]
  (let [random (Random. seed)
        world {:machines machines :history (history) :group :printers :over (atom false)}]
    (with-scope [s]
      (doseq [node machines/nodes]
        (fork s change-all-the-time world (Random. (.nextLong random)) node)
        (fork s look-all-the-time world node))
      (await-members world)
      (doseq [kind (strikes/shuffled random [:kill :cut :pair :suspend])]
        (strike world random kind))
      (reset! (:over world) true))
    (wait-until #(agree? world))
    (groups/finished (:history world))))

(deftest what-nodes-see-are-members-that-there-were
  (doseq [seed (strikes/seeds runs)]
    (let [histories (with-nodes [machines program] (struck machines seed))
          expected (repeat 9 :ok)
          verdicts (checker/verdicts histories)]
      (println (str "-Dmagnetar.seed=" seed ", groups: " (reduce + (map (comp count :operations) histories)) " operations"))
      (is (= expected verdicts)
          (str "seed " seed ", see " (checker/keep-wrong histories seed expected verdicts))))))

;; ---- a script: a member of a node that is lost, and another one after that

(defn- join
  "Lets a new process of the node join; waits until all nodes see it, and returns its id."
  [{:keys [machines] :as world} node]
  (let [id (ask machines node [:start-member])]
    (act world node id :join {id 1})
    (run! (fn [observer] (wait-until #(contains? (look world observer) id))) machines/nodes)
    id))

(defn- across-a-cut
  "The member dies while its node is cut off, and another process joins after that."
  [{:keys [machines] :as world} node]
  (let [id (join world node)]
    (wires/cut-off (:wires machines) node)
    (wait-until #(= 0 (ask machines node [:nodes])))
    (act world node id :kill {})
    (wires/mend (:wires machines))
    (await-connected machines)
    (join world node)))

(defn- across-a-kill
  "The member dies with its node. When that was started again, another process joins."
  [{:keys [machines history] :as world} node]
  (join world node)
  (groups/lose history (full-name node) #(machines/kill machines node))
  (machines/start machines node)
  (await-connected machines)
  (join world node))

(deftest a-node-that-keeps-members-of-a-lost-one-is-found
  (with-nodes [machines program]
    (ask machines "c" [:keep-lost-members])
    (doseq [[group play] {:cut across-a-cut, :kill across-a-kill}
            :let [world {:machines machines :history (history) :group group}]]
      (play world "a")
      (is (= ["a@histories at c@histories"] (checker/wrong (groups/finished (:history world)))) group))
    (is (thrown-with-msg? clojure.lang.ExceptionInfo #"The node a failed in \[:unknown\]: .*No matching clause: :unknown"
                          (ask machines "a" [:unknown])))))
