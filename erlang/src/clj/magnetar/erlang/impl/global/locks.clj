(ns magnetar.erlang.impl.global.locks
  "Locks of a server of global names, and the two processes that take the lock `global` for it on several nodes: one registers
  names, and one lets two nodes tell each other their names. They call the servers as processes of a BEAM do.

  The locker never begins. Erlang's lock has both lockers in its id, in the order of pids of Erlang, so the locker of a BEAM
  begins, and this one takes the id from the lock that the BEAM has set here."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.erlang.impl.nodes :as connections]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.global :as tables]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.process Peer Peers)))

(set! *warn-on-reflection* true)

(def server-name
  "The name of the server on each node, as in Erlang."
  :global_name_server)

;; ---- the locks of this node. The state has :lockers, from the pid of another node to {:ref monitor :resources set}

(defn- holds? [[resource requester] pid]
  (let [lock (@(tables/locks) resource)]
    (and (contains? (:holders lock) pid) (= requester (:requester lock)))))

(defn- keep-locker [state resource pid]
  (let [ref (or (get-in state [:lockers pid :ref]) (monitors/monitor-at-once pid))]
    (-> (update-in state [:lockers pid :resources] (fnil conj #{}) resource)
        (assoc-in [:lockers pid :ref] ref))))

(defn lock
  "[locked? state] after the process has wanted the lock. It may have it already: in Erlang one unlock ends all."
  [state [resource :as id] pid]
  (cond
    (holds? id pid) [true state]
    (not (nodes/elsewhere? pid)) [(tables/lock-here id pid) state]
    (tables/lock id pid nil) [true (keep-locker state resource pid)]
    :else [false state]))

(defn- unkept [state resource pid]
  (let [{:keys [resources ref]} (get-in state [:lockers pid])
        left (disj resources resource)]
    (if (seq left)
      (assoc-in state [:lockers pid :resources] left)
      (do
        (actor/demonitor ref {:flush true})
        (update state :lockers dissoc pid)))))

(defn unlock
  "The state after the process has given up the lock."
  [state [resource :as id] pid]
  (if (holds? id pid)
    (do
      (tables/unlock id pid)
      (cond-> state (nodes/elsewhere? pid) (unkept resource pid)))
    state))

(defn ended
  "The state after a process with locks has ended."
  [state pid]
  (run! #(tables/free % pid) (get-in state [:lockers pid :resources]))
  (update state :lockers dissoc pid))

;; ---- the lock on several nodes

(defn- ask [nodes request]
  (first (gs/multi-call nodes server-name request)))

(defn- unlock-on [nodes id]
  (when (seq nodes)
    (ask nodes [:del_lock id])))

(defn- lock-on
  "Locks the nodes, or none of them. A node that gives no answer is no obstacle."
  [nodes id]
  (let [answers (if (seq nodes) (ask nodes [:set_lock id]) [])
        agreed? (every? (comp true? second) answers)]
    (when-not agreed?
      (unlock-on (mapv first (filterv (comp true? second) answers)) id))
    agreed?))

(defn- boss
  "The node that is locked first and unlocked last, so that it decides among requesters."
  [nodes]
  (last (sort nodes)))

(defn- lock-all
  "Locks the nodes, the boss first. False if one of them is locked otherwise; then none is locked by this."
  [nodes id]
  (let [boss (boss nodes)]
    (and (lock-on [boss] id)
         (or (lock-on (vec (remove #{boss} nodes)) id)
             (do (unlock-on [boss] id) false)))))

(defn- unlock-all [nodes id]
  (let [boss (boss nodes)]
    (unlock-on (vec (remove #{boss} nodes)) id)
    (unlock-on [boss] id)))

(defn- pause
  "Waits for a time that is drawn, and may be longer each time."
  [times]
  (scope/sleep (inc (.random (Fiber/current) (min 1000 (bit-shift-left 125 (min 3 (long times))))))))

;; ---- locks that a process of this node sets on others

;; A BEAM does not count holds: one unlock ends all. So the process that has them counts them, for each node, in its
;; dictionary. A hold ends with the connection by which it was set.

(defn- connection
  "The connection with the node, which is connected if need be; nil if it cannot be."
  [node]
  (some-> ^Peer (Peers/reach node) .connection))

(defn- held
  "Counts a hold of this process on the node, by this connection."
  [node id connection]
  (let [holds (actor/pget ::holds)
        [times by] (get holds [node id])]
    (actor/pput ::holds (assoc holds [node id] [(if (identical? by connection) (inc (long times)) 1) connection]))))

(defn- last-hold?
  "Counts one hold less; true if the node has to be told."
  [node id]
  (let [holds (actor/pget ::holds)
        [times by] (get holds [node id])
        ^Peer peer (Peers/connected node)
        more? (and peer times (identical? by (.connection peer)) (< 1 (long times)))
        left (if more? (assoc holds [node id] [(dec (long times)) by]) (dissoc holds [node id]))]
    (if (seq left)
      (actor/pput ::holds left)
      (actor/perase ::holds))
    (and (some? peer) (not more?))))

(defn- ask-readable
  "The answers of the nodes; [:error why] if the request has no term."
  [nodes request]
  (try
    (ask nodes request)
    (catch RuntimeException e
      (mapv (fn [node] [node [:error (ex-message e)]]) nodes))))

(defn hold
  "Locks other nodes for this process: pairs of a node and its answer."
  [nodes id]
  (let [connections (mapv connection nodes)
        by (zipmap nodes connections)
        answers (ask-readable nodes [:set_lock id])]
    (doseq [[node answer] answers :when (true? answer)]
      (held node id (by node)))
    answers))

(defn end-hold
  "Ends a hold of this process on each of the other nodes: pairs of a node and its answer, of the nodes that have to be told."
  [nodes id]
  (let [nodes (filterv #(last-hold? % id) nodes)]
    (when (seq nodes)
      (ask-readable nodes [:del_lock id]))))

;; ---- the registrar

(defn- with-lock
  "Calls f with all nodes, while they are locked for this process."
  [server f]
  (let [id [:global (self)]]
    (loop [times 0]
      (let [nodes (gs/call server ::nodes {:timeout :infinity})]
        (if (lock-all nodes id)
          (let [value (if (= (set nodes) (set (gs/call server ::nodes {:timeout :infinity}))) (f nodes) ::again)]
            (unlock-all nodes id)
            (if (= ::again value) (recur (inc times)) value))
          (do
            (pause times)
            (recur (inc times))))))))

(defn- register-on [server nodes name pid method resolve]
  (let [me (actor/node)]
    (gs/call server [::register name pid method resolve] {:timeout :infinity})
    (ask (vec (remove #{me} nodes)) [:register name pid method])
    :yes))

(defn- register [server name pid method resolve force?]
  (with-lock server
    (fn [nodes]
      (let [[listed taken?] (gs/call server [::find name] {:timeout :infinity})]
        (if (and taken? (not force?))
          :no
          (register-on server nodes (if taken? listed name) pid method resolve))))))

(defn- unregister [server name]
  (with-lock server
    (fn [nodes]
      (let [[listed taken?] (gs/call server [::find name] {:timeout :infinity})]
        (when taken?
          (ask nodes [:unregister listed]))
        :ok))))

(defn registrar
  "Registers names, one after another."
  [server]
  (receive
    [:register from name pid method resolve force?] (gs/reply from (register server name pid method resolve force?))
    [:unregister from name] (gs/reply from (unregister server name))
    _ nil)
  (recur server))

;; ---- the locker

(defn- set-here
  "The id of the lock that the other locker has set on this node for the two; nil before it has."
  [other]
  (let [{:keys [requester]} (@(tables/locks) :global)]
    (when (and (sequential? requester) (= #{other (self)} (set requester)))
      [:global requester])))

(defn- negotiate
  "Locks the nodes of this side too, and tells both servers. Keeps the locks until the server releases them."
  [server node other my-tag his-tag nodes]
  (let [id (set-here other)
        locked? (boolean (and id (lock-all nodes id)))]
    (connections/tell [server-name node]
                      [:magnetar/cast [:lock_set (self) locked? (apply list (map connections/to-atom (rest nodes))) his-tag]])
    (when locked?
      (! server [::locked node my-tag id])
      (receive [::release node my-tag messages] (run! (fn [[to message]] (connections/tell to message)) messages))
      (unlock-all nodes id))))

(defn locker
  "Lets this node and others tell each other their names, one after another."
  [server]
  (receive
    [::negotiate node other my-tag his-tag nodes] (negotiate server node other my-tag his-tag nodes)
    _ nil)
  (recur server))
