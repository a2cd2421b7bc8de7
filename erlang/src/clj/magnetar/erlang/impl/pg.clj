(ns magnetar.erlang.impl.pg
  "The server that joins the groups of a scope of `magnetar.pg` on this node with the scope of BEAMs. It has the name of the scope,
  and speaks with their processes of that name:

    {discover, Server}                   the server has begun to look for others, or was found
    {'$gen_cast', {sync, Server, Pairs}} the local members of its node, as pairs of a group and pids
    {join, Server, Group, Pids}          members that have joined; one pid may stand for a list
    {leave, Server, Pids, Groups}        members that have left

  Invariants:

  - A peer is told of changes only behind a sync with exactly the changes before. Erlang's pg of OTP 25 ends when it is told
    of a leave from a group that it does not know.
  - Changes are taken only from a peer that is monitored. The :DOWN of the peer takes its members away. Signals of an earlier
    connection act before that.

  What is told waits for no room in the stream to a node, which would hold up the others. The members are in
  `magnetar.impl.groups`. Nothing is told of members on other nodes, so nothing is forwarded."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [self]]
   [magnetar.erlang.impl.nodes :as connections]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.groups :as groups]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.erlang.wire Settings)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(def ^:private again-ms
  "After how long a hidden node looks for a server again, which may have started late: Erlang's pg looks for visible nodes only."
  5000)

;; ---- sending. The groups have the names that they have in the scope

(defn- send-change
  "Tells the peer of a change. A group that has no term is reported and stays on this node, with each of its changes."
  [peer [verb group pids]]
  (try
    (connections/tell peer (case verb
                             :join [:join (self) group (list* pids)]
                             :leave [:leave (self) (list* pids) (list group)]))
    (catch RuntimeException e
      (reports/report (str "the group " (reports/beginning group) ", of which nodes of Erlang are not told") e))))

(defn- sync-message [pairs]
  [:magnetar/cast [:sync (self) (apply list (map (fn [[group pids]] [group (list* pids)]) pairs))]])

(defn- send-sync
  "Tells the peer the pairs: at once, or one by one if a group has no term."
  [peer pairs]
  (try
    (connections/tell peer (sync-message pairs))
    (catch RuntimeException _
      (connections/tell peer (sync-message []))
      (run! (fn [[group pids]] (send-change peer [:join group pids])) pairs))))

(defn- discover [to]
  (connections/tell to [:discover (self)]))

(defn- tell-changes
  "Tells each peer that has got a sync what has changed; returns the local members of all scopes at that time."
  [{:keys [scope peers]}]
  (let [[changes local] (groups/take-outbox (self))
        listeners (for [[peer {:keys [told?]}] peers :when told?] peer)]
    (doseq [[verb & pair] changes, [group pids] (groups/of-scope scope [pair]), peer listeners]
      (send-change peer [verb group pids]))
    local))

;; ---- peers. The state has the :scope, and :peers, from the pid of a server to {:ref monitor :told? was-sent-a-sync}

(defn- meet
  "The state in which the peer is monitored."
  [{:keys [peers] :as state} peer]
  (if (peers peer)
    state
    (do
      (groups/meet (self) peer)
      (assoc-in state [:peers peer :ref] (monitors/monitor-at-once peer)))))

(defn- discovered
  "The state after an answer to the peer, which looks for others."
  [{:keys [scope peers] :as state} peer]
  (send-sync peer (groups/of-scope scope (groups/pairs (tell-changes state))))
  (when-not (peers peer)
    (discover peer))
  (assoc-in (meet state peer) [:peers peer :told?] true))

(defn- all-pids
  "The pids of a list or a single one; nil if it is something else."
  [x]
  (cond
    (instance? Pid x) [x]
    (and (sequential? x) (every? #(instance? Pid %) x)) (vec x)))

(defn- groups-of
  "The groups with the names, without names that would be groups of another scope here."
  [scope names]
  (into [] (comp (remove groups/scoped?) (map #(groups/in-scope scope %))) names))

(defn- merged
  "The pairs of a name in the scope and pids as a map of groups. Names that are told apart in Erlang may be one group here."
  [scope pairs]
  (reduce (fn [all [group pids]] (update all group (fnil into []) (all-pids pids)))
          {}
          (for [[name pids] pairs, group (groups-of scope [name])] [group pids])))

(defn- synced [{:keys [scope] :as state} peer pairs]
  (let [state (meet state peer)]
    (groups/peer-syncs (self) peer (merged scope pairs))
    state))

;; ---- nodes

(defn- look-for
  "Looks for the server of the node. A hidden node looks again later, as long as the node is connected and has none."
  [{:keys [scope hidden? up peers] :as state} node]
  (when (and (contains? up node) (not-any? #(= node (nodes/name-of %)) (keys peers)))
    (discover [scope node])
    (when hidden?
      (actor/send-after again-ms (self) [::again node])))
  state)

(defn- lost
  "The state without the peer, which has ended or is not connected. Another one may take its place."
  [{:keys [peers] :as state} ref peer]
  (if (and (contains? peers peer) (= ref (get-in peers [peer :ref])))
    (do
      (groups/lose (self) peer)
      (look-for (update state :peers dissoc peer) (nodes/name-of peer)))
    state))

(defn- node-up [{:keys [up] :as state} node]
  (if (or (contains? up node) (not (string? node)))
    state
    (look-for (update state :up conj node) node)))

;; ---- what comes is checked, since any process of a BEAM may send it

(defn- peer? [x]
  (and (instance? Pid x) (nodes/elsewhere? x)))

(defn- pairs? [x]
  (and (sequential? x) (every? #(and (vector? %) (= 2 (count %)) (all-pids (second %))) x)))

(defn- told
  "The state after a message of a peer."
  [{:keys [scope] :as state} [verb peer x y]]
  (case verb
    :discover (discovered state peer)
    :join (do (when-let [pids (all-pids y)]
                (run! #(groups/peer-joins (self) peer % pids) (groups-of scope [x])))
              state)
    :leave (do (when-let [pids (and (sequential? y) (all-pids x))]
                 (groups/peer-leaves (self) peer (groups-of scope y) pids))
               state)
    state))

(defn- handle-info [state [kind a b c :as message]]
  (case kind
    :changed (do (tell-changes state) state)
    :nodeup (node-up state a)
    :nodedown (update state :up disj a)
    ::again (look-for state a)
    :DOWN (lost state a c)
    (if (peer? a) (told state message) state)))

(defn- handle-cast [state [kind peer pairs]]
  (if (and (= :sync kind) (peer? peer) (pairs? pairs))
    (synced state peer pairs)
    state))

;; ---- the server

(defn- init [{:keys [name links ^Settings settings]}]
  (groups/attach (self))
  (connections/watch links (self))
  [:ok {:scope name :peers {} :up #{} :hidden? (not (.visible settings))}])

(defn- if-vector
  "Calls f with the state and the message; a message that is no vector has no meaning here."
  [f]
  (fn [message state]
    [:noreply (if (vector? message) (f state message) state)]))

(def callbacks
  "The callbacks of the server, whose `init` gets its :name beside the options of the node."
  {:init init
   :handle-call (fn [_ from state]
                  (connections/reply from [:error :notsup])
                  [:noreply state])
   :handle-cast (if-vector handle-cast)
   :handle-info (if-vector handle-info)})
