(ns magnetar.cluster.impl.global
  "The server of global names on a node. It is a child of the node's membership, and talks to the servers of other nodes.

  The node of a process is the authority for its names. It keeps the claims of its own processes, and tells all other
  nodes of each that begins or ends. A node that connects is told all of them.

  Invariants:
  - A node has at most one reservation of a name. A claim begins only while this node, and each node that it is
    connected with, has reserved the name for it. So of two rivals on connected nodes at most one begins.
  - What is known of another node is dropped when the link to it ends, and told again when it connects. Messages of two
    servers are in order within a link. So quiet connected nodes agree about the claims of both.
  - Of two claims, the node whose name sorts first decides, once. The outcome is a fact of its claim. A beaten claim is
    given up by its own node only.
  - A node that sees two claims asks the node of the second one to confirm, then hands the pair to the first node, if
    these two do not see each other. So nodes agree also where links are not transitive.

  Nothing here waits, except for room in a stream. Requests wait as values, in a queue for each name. Decision 42 has the
  alternatives."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! self]]
   [magnetar.cluster.impl.claims :as claims]
   [magnetar.cluster.impl.global.question :as question]
   [magnetar.cluster.impl.global.request :as request]
   [magnetar.cluster.impl.global.table :as table]
   [magnetar.cluster.impl.global.talk :as talk]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.global :as tables]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(def ^:private batch
  "How many claims one message has."
  100)

;; ---- nodes that come and go

(defn- tell-claims
  "Tells the server of the node some claims; returns in how many messages. What cannot be written is reported, and left out."
  [state node told]
  (try
    (talk/tell-strictly state node [:claims (vec told)])
    1
    (catch Exception _
      (count (filterv #(talk/tell state node [:claims [%]]) told)))))

(defn- tell-all-claims
  "Tells the server of the node all claims of this one, and in how many messages."
  [{:keys [own] :as state} node batch]
  (let [told (for [[name claim] own] [name (claims/told claim)])
        messages (transduce (map #(tell-claims state node %)) + (partition-all batch told))]
    (talk/tell state node [:told-all messages])))

(defn- greet
  "The state after the server of the node was told all claims of this one."
  [state node]
  (let [state (update state :greeted conj node)]
    (talk/tell state node [:hello])
    (tell-all-claims state node batch)
    state))

(defn- tell-singly
  "Tells the node each claim in a message of its own: it could not read one of several."
  [{:keys [own] :as state} node]
  (doseq [[name claim] own]
    (tell-claims state node [[name (claims/told claim)]]))
  (talk/tell state node [:told-all nil])
  state)

(defn- lost
  "The state without the node."
  [state node]
  (if-some [{:keys [ref]} (get-in state [:peers node])]
    (do
      (actor/demonitor ref {:flush true})
      (-> (update state :peers dissoc node)
          (update :pings #(into [] (remove (comp #{node} first)) %))
          (request/without-node node)
          (table/without-peer node)
          (talk/lost node)))
    state))

(defn- greeted
  "The state with the server of the node as a peer, of which nothing is known yet."
  [state node pid]
  (-> (lost state node)
      (assoc-in [:peers node] {:pid pid :ref (monitors/monitor-at-once pid)})
      (update :absent disj node)))

(defn- up [state node]
  (-> (greet state node)
      (update :absent disj node)
      request/advance-all))

(defn- probed
  "The state when a node that was looked at has no server of names, or is not connected."
  [state ref why]
  (let [node (get-in state [:probes ref])]
    (cond-> (update state :probes dissoc ref)
      (and (not= :noconnection why) (not (talk/peer state node))) (update :absent conj node)
      true request/advance-all)))

;; ---- locks of processes on other nodes

(defn- lock [state [resource :as id] pid]
  (if (tables/lock id pid nil)
    (let [ref (or (get-in state [:lockers pid :ref]) (monitors/monitor-at-once pid))]
      [true (-> (update-in state [:lockers pid :resources] (fnil conj #{}) resource)
                (assoc-in [:lockers pid :ref] ref))])
    [false state]))

(defn- unlock [state [resource :as id] pid]
  (let [gone? (tables/unlock id pid)
        {:keys [resources ref]} (get-in state [:lockers pid])
        left (cond-> resources gone? (disj resource))]
    (cond
      (nil? ref) state ; it has no lock here
      (seq left) (assoc-in state [:lockers pid :resources] left)
      :else (do
              (actor/demonitor ref {:flush true})
              (update state :lockers dissoc pid)))))

(defn- locker-ended [state pid]
  (run! #(tables/free % pid) (get-in state [:lockers pid :resources]))
  (update state :lockers dissoc pid))

;; ---- sync

(defn- answer-pings
  "Answers the nodes that wait until this one has nothing to decide."
  [{:keys [pings pairs] :as state}]
  (if (or (empty? pings) (seq pairs))
    state
    (do
      (doseq [[node ref] pings]
        (talk/tell state node [:done ref]))
      (assoc state :pings []))))

(defn- told-all?
  "Have all connected nodes told their claims, and is no pair undecided?"
  [{:keys [peers absent pairs]}]
  (and (empty? pairs)
       (every? #(or (contains? absent %) (get-in peers [% :told-all?])) (nodes/of-cluster))))

(defn- begin-answers
  "Answers the calls of sync when all peers have nothing to decide."
  [{:keys [syncs] :as state}]
  (talk/tell-and-wait (assoc state :syncs []) (talk/peers state) (fn [ref] [:ping ref])
                      (fn [state]
                        (run! #(gs/reply % :ok) syncs)
                        state)))

(defn- answer-syncs
  "Begins the answers to the calls of sync, if all connected nodes have told their claims. A node may have no server of names."
  [{:keys [syncs] :as state}]
  (if (seq syncs)
    (let [state (request/probe-unknown state)]
      (cond-> state (told-all? state) begin-answers))
    state))

(defn- settle [state]
  (-> state answer-pings answer-syncs))

;; ---- messages of other servers

(defn- put-all [state node told]
  (reduce (fn [state [name claim]] (table/told state node name claim))
          (update-in state [:peers node :read-parts] (fnil inc 0))
          told))

(defn- told-all
  "The state when the node has sent its claims in so many messages. If one of them could not be read here, the node is asked to send each claim
  in a message of its own."
  [state node messages]
  (if (contains? #{nil (get-in state [:peers node :read-parts] 0)} messages)
    (request/advance-all (assoc-in state [:peers node :told-all?] true))
    (do
      (talk/tell state node [:singly])
      state)))

(defn- answer-question
  "Reserves the name, and answers."
  [state node ref name force? asks]
  (let [[state answer] (request/reserve state name {:ref ref :node node :force? force? :asks (set asks)})]
    (talk/tell state node [:answer ref name answer])
    state))

(defn- tell-unread [state node ref]
  (when-not (= ref (get-in state [:peers node :read]))
    (talk/tell state node [:unread ref]))
  state)

(defn- acknowledge [state node ref]
  (when ref
    (talk/tell state node [:done ref]))
  state)

(defn- unregister-own
  "Drops the own claim, and answers the node that has asked when all peers know that."
  [state node ref name]
  (table/drop-own state name nil #(acknowledge % node ref)))

(defn- handle
  "The state after a message of the server of the node, a peer."
  [state node [kind a b c d]]
  (case kind
    :claims (put-all state node a)
    :told-all (told-all state node a)
    :claim (-> (table/told state node a b) (request/claimed a node) (acknowledge node c))
    :gone (-> (table/ended state node a b) (acknowledge node c))
    :reserve (answer-question state node a b c d)
    :asked (tell-unread state node a)
    :answer (request/answered state node a b c)
    :unread (-> (request/unread state node a) (talk/acknowledged a node))
    :release (request/unreserve state a)
    :unregister (unregister-own state node a b)
    :contest (table/confirm state node a b c)
    :confirmed (table/confirmed state a b c)
    :decide (table/decide state a b c)
    :beaten (table/beaten state a b c)
    :ping (update state :pings conj [node a])
    :done (talk/acknowledged state a node)
    state))

(defn- reference
  "The reference of a message that has an answer, after which the node is asked by :asked."
  [[kind a _ c]]
  (case kind
    (:reserve :unregister :ping) a
    (:claim :gone) c
    nil))

(defn- handled
  "The state after a message of a peer. One that is not understood here, as of another version, is reported and dropped."
  [state node content]
  (try
    (let [ref (reference content)]
      (cond-> (handle state node content)
        ref (assoc-in [:peers node :read] ref)))
    (catch RuntimeException e
      (reports/report (str "a message about global names of the node " node) e)
      state)))

(defn- message [state from content]
  (let [node (when (instance? Pid from) (nodes/name-of from))]
    (cond
      (not (and node (vector? content))) state
      (= :hello (first content)) (greeted state node from)
      (= :singly (first content)) (tell-singly state node) ; its :hello may be on its way
      (= from (talk/peer state node)) (handled state node content)
      :else state))) ; of a connection that has ended

;; ---- the server

(defn- init [{:keys [name]}]
  (tables/serve (self) question/ask)
  [:ok (table/adopt {:me name
                     :peers {}
                     :greeted #{}
                     :absent #{}
                     :probes {}
                     :own {}
                     :monitors {}
                     :claims {}
                     :pairs {}
                     :deciding {}
                     :reserved {}
                     :queues {}
                     :waits {}
                     :lockers {}
                     :pings []
                     :syncs []})])

(defn- unregister
  "Lets the nodes of all claims drop them; answers when they have."
  [{:keys [me] :as state} from name]
  (let [others (filter #(talk/peer state %) (remove #{me} (map claims/node-of (claims/known state name))))
        dropped (fn [state] (table/drop-own state name nil #(do (gs/reply from :ok) %)))]
    (talk/tell-and-wait state others (fn [ref] [:unregister ref name]) dropped)))

(defn- handle-call [request from state]
  (let [[kind a b c d ref] (when (vector? request) request)]
    (case kind
      :register [:noreply (request/register state a {:from from :pid b :resolve c :force? d :question ref})]
      :unregister [:noreply (settle (unregister state from a))]
      :adopt [:reply :ok (settle (table/adopt state))]
      :sync [:noreply (settle (update state :syncs conj from))]
      :lock (let [[answer state] (lock state a b)] [:reply answer state])
      :unlock [:reply true (unlock state a b)]
      :waiting? [:reply (request/waiting? state a) state]
      [:reply :unknown-request state])))

(defn- down [{:keys [monitors probes lockers deciding peers] :as state} ref pid why]
  (cond
    (contains? monitors ref) (table/drop-own state (monitors ref) nil nil)
    (contains? probes ref) (probed state ref why)
    (contains? deciding ref) (table/resolver-ended state ref)
    (= ref (get-in lockers [pid :ref])) (locker-ended state pid)
    :else (if-some [node (some (fn [[node peer]] (when (= ref (:ref peer)) node)) peers)]
            (request/advance-all (lost state node))
            state)))

(defn- handle-info [content state]
  [:noreply
   (settle
    (let [[kind a b c d] (when (vector? content) content)]
     (case kind
      ::talk/message (message state a b)
      :DOWN (down state a c d)
      ::up (up state a)
      ::down (request/advance-all (update state :greeted disj a))
      ::request/again (request/again state a b)
      ::table/tick (table/tick state)
      ::table/resolved (table/resolved state a b c d)
      state)))])

(def ^:private callbacks
  {:init init
   :handle-call handle-call
   :handle-cast (fn [_ state] [:noreply state])
   :handle-info handle-info})

(defn notify
  "Tells the server that a node is up or down."
  [pid [what node]]
  (case what
    :up (! pid [::up node])
    :down (! pid [::down node])
    nil))

(defn start-link
  "Starts the server of the node with the name; [:ok pid], or [:error why]."
  [name]
  (gs/start-link callbacks {:name name} {:name talk/server-name}))
