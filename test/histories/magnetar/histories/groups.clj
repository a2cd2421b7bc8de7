(ns magnetar.histories.groups
  "Histories of the members of a group: how the nodes change the members that they have, and what processes see on each.

  Groups are not linearizable: another node learns of a change later. So the members of each node, as each node sees them,
  are a history of their own, of the model \"group\":

  - A node sees the members that it has itself at once, and none after its death was told by a :DOWN.
  - What a node sees of another one is nothing, or exactly the members that this one had at a time. It is never older than
    what it has seen before, and that includes members of a node that was started again."
  (:require
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.histories.record :as record]
   [magnetar.pg :as pg]))

(set! *warn-on-reflection* true)

;; ---- what a node does. A member is [node serial creation] on all nodes, and members are a map from them to how often

(defn kill
  "Kills the process, and returns when its death is told."
  [pid]
  (let [ref (actor/monitor pid)]
    (actor/exit pid :kill)
    (receive [:DOWN ref _ _ _] nil)))

(defn act
  "Lets a process of this node join the group or leave it, or kills it."
  [what group pid]
  (case what
    :join-twice (pg/join group [pid pid])
    :join (pg/join group pid)
    :leave (pg/leave group pid)
    :kill (kill pid)))

(defn- fewer [members id]
  (if (< 1 (long (members id 0))) (update members id dec) (dissoc members id)))

(defn drawn-action
  "[what members]: what to do with the process, and the members after that. `drawn` returns a number less than the given one."
  [drawn members id]
  (case (long (drawn 4))
    0 [:join-twice (update members id (fnil + 0) 2)]
    1 [:join (update members id (fnil inc 0))]
    2 [:leave (fewer members id)]
    3 [:kill (dissoc members id)]))

;; ---- what is noted

(defn change
  "Notes that the node has these members when f has changed them. What f returns is as in `record/operate`."
  [history node members f]
  (record/operate history :change {:node node :members members} f))

(defn- ended
  "The change with its end, if a node that was killed at this time could not tell it."
  [node time {:keys [client return failed input] :as operation}]
  (cond-> operation
    (and (= [:change node] [client (:node input)]) (nil? return) (not failed)) (assoc :return time)))

(defn lose
  "Notes that the node has no members when f has ended it. Changes that it had begun have happened before, or not at all."
  [{:keys [operations now] :as history} node f]
  (change history node {} #(do (f) {}))
  (let [time (now)]
    (swap! operations #(mapv (partial ended node time) %))))

(defn look
  "Notes the members that f has seen on the node, or nil or :failed; returns that."
  [history node f]
  (let [seen (atom nil)]
    (record/operate history :look {:node node}
                    #(let [members (f)]
                       (reset! seen members)
                       (if (map? members) {:members members} members)))
    @seen))

;; ---- histories for the checker

(defn- owner [[node _ _]]
  node)

(defn- listed
  "The numbers of the members, each as often as it is one."
  [numbers members]
  (vec (sort (mapcat (fn [[id times]] (repeat times (numbers id))) members))))

(defn- for-checker
  "The operation as the checker knows it, among the ones about the members of a node as an observer sees them; or nil."
  [numbers node observer {:keys [client return failed input output] :as operation}]
  (case client
    :change (when (and (= node (:node input)) (not failed))
              (assoc operation :client 0 :input {:f "change" :values (listed numbers (:members input))} :output {:known false}))
    :look (when (and (= observer (:node input)) return)
            (assoc operation :client 1
                   :input {:f (if (= node observer) "look-at-own" "look")}
                   :output {:known true :values (listed numbers (filter #(= node (owner (key %))) (:members output)))}))))

(defn- numbers
  "From each member of the operations to its number."
  [operations]
  (zipmap (sort (distinct (mapcat #(keys (merge (:members (:input %)) (:members (:output %)))) operations)))
          (next (range))))

(defn finished
  "A history for each pair of a node and an observer, such as \"a@sim at b@sim\"."
  [{:keys [operations]}]
  (let [operations @operations
        numbers (numbers operations)
        nodes (distinct (map (comp :node :input) operations))]
    (for [node nodes, observer nodes]
      {:name (str node " at " observer)
       :model "group"
       :operations (into [] (keep #(for-checker numbers node observer %)) operations)})))
