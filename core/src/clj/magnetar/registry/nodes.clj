(ns magnetar.registry.nodes
  "What registries of all nodes tell each other: the protocol of Erlang's pg, with rows in place of members.

  Each registry owns the entries of its node. The registries of one name tell each other:

    [::discover peer keys]  the registry has begun to look for others, or was found
    [::part peer rows]      a part of its rows, before the ::all with the rest
    [::all peer rows]       all its rows
    [::rows peer rows]      rows that have changed
    [::told peer numbers]   the numbers of all rows in the messages since the last ::told
    [::again peer numbers]  the registry could not read these rows, and wants them in smaller messages

  A row is [number key pid value], or [number] without an entry. Rows may be told twice, in any state of the entry that is not older than
  what was told before. A message with a row that the peer cannot read is dropped there, with all its rows. By the next ::told the peer
  notices, forgets what it knew of the rows, and asks for them. They come in smaller messages, at last of one row each. Then a row that it
  cannot read is missing, and no other.

  Invariants:

  - A registry sends changes to each peer that it monitors, behind an ::all. So the peer has what the registry had, a moment ago.
  - A registry takes rows only from a peer that it monitors. The :DOWN of the peer takes its rows away. Signals of an earlier connection
    act before that, and the peer begins again with a ::discover.

  What is told waits for no room in the stream to a node, which would hold up the others. A node is cut off if too much waits for it.

  The cluster's part is small. A server on each node says which nodes come, and hands a ::discover to the registry of the name.
  So no message goes to a process that has the name and is no registry of all nodes."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! self]]
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.registry.table :as table])
  (:import
   (magnetar.kernel.process Pid Send)))

(set! *warn-on-reflection* true)

(def server-name
  "The name of the cluster's server."
  :magnetar.cluster/registries)

;; ---- the registries of this node, and the check of values, which the cluster has

(defonce ^:private real-registries (atom {})) ; from a name to the pid of its registry

(defn- registries []
  (environment/local real-registries ::registries {}))

(defonce ^:private real-check (atom nil)) ; {:pid :check}

(defn- check []
  (environment/local real-check ::check nil))

(defn check-with
  "From now on (check value) throws of a value that cannot be written for other nodes, until the process ends."
  [pid f]
  (let [here (check)
        entry {:pid pid :check f}]
    (reset! here entry)
    (owned/own pid (owned/clean-up (fn [_] (compare-and-set! here entry nil))))))

(defn check-value
  "Throws if other nodes could not be told of the value."
  [value]
  (when-some [{:keys [check]} @(check)]
    (check value)))

(defn node-up
  "The node is connected, or may have been: registries look for others there."
  [node]
  (doseq [pid (vals @(registries))]
    (! pid [::node-up node])))

(defn discovered
  "The registry of the name on another node, with these :keys, looks for the one here."
  [name keys peer]
  (when-some [pid (@(registries) name)]
    (! pid [::discover peer keys])))

;; ---- sending

(defn- report [{:keys [name]} [_ key] error]
  (reports/report (str "the registry " (reports/beginning name) ", of whose key " (reports/beginning key) " other nodes are not told") error))

(defn- send-to
  "Sends the message, which can be written. Never waits."
  [peer message]
  (Send/signal (address/target peer) message))

(defn- try-send
  "Sends the message, or calls (otherwise error) if it cannot be written."
  [peer message otherwise]
  (try
    (send-to peer message)
    (catch RuntimeException e
      (otherwise e))))

(defn- send-rows
  "Sends the rows in as many messages as are needed. Of a row that cannot be written the number is sent, and it is reported."
  [state peer kind rows]
  (try-send peer [kind (self) rows]
            (fn [error]
              (if (= 1 (count rows))
                (do
                  (report state (first rows) error)
                  (send-to peer [kind (self) [[(ffirst rows)]]]))
                (run! #(send-rows state peer kind (vec %)) (split-at (quot (count rows) 2) rows))))))

(defn- send-told [peer rows]
  (send-to peer [::told (self) (mapv first rows)]))

(defn- send-all [{:keys [table] :as state} peer]
  (let [rows (table/rows table)]
    (try-send peer [::all (self) rows]
              (fn [_]
                (send-rows state peer ::part rows)
                (send-to peer [::all (self) []])))
    (send-told peer rows)))

(def ^:private most-parts
  "In how many messages rows are told again. One message for each row would be too many for the stream to a node at once."
  16)

(defn- send-again
  "Tells the rows that have the numbers, as they are now, in smaller messages. A single row that cannot be read is not asked for once more."
  [{:keys [table] :as state} peer numbers]
  (let [now (into {} (map (juxt first identity)) (table/rows table))
        size (quot (+ (count numbers) (dec (long most-parts))) (long most-parts))]
    (doseq [part (partition-all size numbers)]
      (let [rows (mapv #(get now % [%]) part)]
        (send-rows state peer ::rows rows)
        (send-told peer (if (= 1 size) [] rows))))))

(defn- tell-changes [{:keys [table peers] :as state}]
  (let [rows (table/take-outbox table)]
    (when (seq rows)
      (doseq [peer (keys peers)]
        (send-rows state peer ::rows rows)
        (send-told peer rows))))
  state)

(defn- look-on
  "Looks for the registry on the node."
  [{:keys [name kind]} node]
  (send-to [server-name node] [::discover name kind (self)]))

;; ---- peers. The state has :peers, from a peer to {:ref its monitor :number}, :next, the number of the next one, and of peers :parts, to rows,
;; ---- and :read, to the numbers of rows that were read since the last ::told

(defn- meet
  "The state in which the peer is monitored, and told of changes."
  [{:keys [peers next] :as state} peer]
  (if (peers peer)
    state
    (-> (assoc-in state [:peers peer] {:ref (monitors/monitor-at-once peer) :number next})
        (update :next inc))))

(defn- number-of [{:keys [peers]} peer]
  (:number (peers peer)))

(defn- refuse [{:keys [name kind]} peer keys]
  (reports/report (str "the registry " (reports/beginning name))
                  (ex-info (str "The registry " name " on the node " (nodes/name-of peer) " has " keys " keys, and the one here has " kind
                                " keys. Neither knows the entries of the other: start both with the same :keys.")
                           {:registry name :node (nodes/name-of peer) :keys keys})))

(defn- answer
  "Tells the peer all rows; looks back, if it is new."
  [{:keys [peers name kind] :as state} peer]
  (tell-changes state)
  (send-all state peer)
  (when-not (peers peer)
    (send-to peer [::discover (self) kind]))
  (meet state peer))

(defn- answered [{:keys [kind] :as state} peer keys]
  (if (= kind keys)
    (answer state peer)
    (do
      (refuse state peer keys)
      state)))

(defn- note-read [state peer rows]
  (update-in state [:read peer] (fnil into #{}) (map first) rows))

(defn- all-told [{:keys [table parts] :as state} peer rows]
  (let [state (meet state peer)]
    (table/replace-rows table (number-of state peer) (into rows (parts peer)))
    (-> (update state :parts dissoc peer)
        (note-read peer rows))))

(defn- part-told [state peer rows]
  (-> (meet state peer)
      (update-in [:parts peer] (fnil into []) rows)
      (note-read peer rows)))

(defn- rows-told [{:keys [table] :as state} peer rows]
  (if-some [number (number-of state peer)]
    (do
      (table/put-rows table number rows)
      (note-read state peer rows))
    state))

(defn- told
  "Forgets the rows among these that could not be read, and asks for them."
  [{:keys [table read] :as state} peer numbers]
  (let [state (meet state peer)
        unread (into [] (remove (get read peer #{})) numbers)]
    (when (seq unread)
      (table/put-rows table (number-of state peer) (mapv vector unread))
      (send-to peer [::again (self) unread]))
    (update state :read dissoc peer)))

(defn- lost [{:keys [table] :as state} ref peer]
  (if (= ref (get-in state [:peers peer :ref]))
    (do
      (table/forget-rows table (number-of state peer))
      (-> (update state :peers dissoc peer)
          (update :parts dissoc peer)
          (update :read dissoc peer)))
    state))

;; ---- what comes from other nodes is checked, since their versions may differ

(defn- row? [x]
  (and (vector? x)
       (int? (first x))
       (or (= 1 (count x))
           (and (= 4 (count x)) (instance? Pid (nth x 2)) (nodes/elsewhere? (nth x 2))))))

(defn- peer? [x]
  (and (instance? Pid x) (nodes/elsewhere? x)))

(defn- rows? [x]
  (and (sequential? x) (every? row? x)))

(defn- numbers? [x]
  (and (sequential? x) (every? int? x)))

(defn- after-peer
  "The state after a message of a peer; nil after any other one."
  [state [kind peer x]]
  (cond
    (= ::discover kind) (answered state peer x)
    (and (= ::all kind) (rows? x)) (all-told state peer (vec x))
    (and (= ::part kind) (rows? x)) (part-told state peer x)
    (and (= ::rows kind) (rows? x)) (rows-told state peer x)
    (and (= ::told kind) (numbers? x)) (told state peer x)
    (and (= ::again kind) (numbers? x) (seq x)) (do (send-again state peer x) state)))

(defn handle
  "The state after a message of this protocol; nil after any other one."
  [state message]
  (let [[kind x y pid] (when (vector? message) message)]
    (cond
      (= [::table/changed] message) (tell-changes state)
      (= ::node-up kind) (do (look-on state x) state)
      (and (= :DOWN kind) (some #(= x (:ref %)) (vals (:peers state)))) (lost state x pid)
      (peer? x) (after-peer state message))))

(defn start
  "The state of the registry with the name and :keys, which is this process. It looks for others on all nodes that are connected."
  [name kind table]
  (let [registries (registries)
        me (self)]
    (owned/own me (owned/clean-up (fn [_] (swap! registries #(if (= me (% name)) (dissoc % name) %)))))
    (swap! registries assoc name me)
    (doseq [node (nodes/of-cluster)]
      (! me [::node-up node]))
    {:name name :kind kind :table table :peers {} :parts {} :read {} :next 0}))
