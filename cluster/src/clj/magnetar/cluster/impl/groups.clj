(ns magnetar.cluster.impl.groups
  "The server that joins the groups of `magnetar.pg` on this node with the groups on the others, as Erlang's pg does.

  Each node owns its local members. Its server tells the servers of the nodes that it is connected with:

    [:discover server]           the server has begun to look for others, or was found
    [:sync server pairs]         the local members of its node, as pairs of a group and pids
    [:part server pairs]         a part of them, before the :sync with the rest
    [:join server group pids]    members that have joined
    [:leave server pids groups]  members that have left

  Invariants:

  - A server sends changes to each peer that it monitors, behind a :sync with exactly the changes before. So the peer has
    what the server had, a moment ago.
  - A server takes changes only from a peer that it monitors. The :DOWN of the peer takes its members away. Signals of
    an earlier connection act before that, and the peer begins again with a :discover.

  The members are in `magnetar.impl.groups`. This process sends, and may wait there for the stream to a node. A process that joins
  never does."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.groups :as groups]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Peer Peers Pid)))

(set! *warn-on-reflection* true)

(def server-name
  "The name of the server."
  :magnetar.cluster/groups)

;; ---- sending

(defn- report [group error]
  (reports/report (str "the group " (reports/beginning group) ", of which other nodes are not told") error))

(defn- try-send
  "Sends the message, or calls (otherwise error) if it cannot be written."
  [peer message otherwise]
  (try
    (! peer message)
    (catch RuntimeException e
      (otherwise e))))

(defn- send-part
  "Sends the pairs in as many parts as are needed. A pair that cannot be written is left out, and reported."
  [peer pairs]
  (try-send peer [:part (self) pairs]
         (fn [error]
           (if (= 1 (count pairs))
             (report (ffirst pairs) error)
             (run! #(send-part peer (vec %)) (split-at (quot (count pairs) 2) pairs))))))

(defn- send-sync [peer pairs]
  (try-send peer [:sync (self) pairs]
         (fn [_]
           (send-part peer pairs)
           (! peer [:sync (self) []]))))

(defn- send-change [peer [verb group pids]]
  (try-send peer
         (case verb
           :join [:join (self) group pids]
           :leave [:leave (self) pids [group]])
         #(report group %)))

(defn- discover [to]
  (! to [:discover (self)]))

(defn- tell-changes
  "Tells each peer what has changed; returns the local members at that time."
  [{:keys [peers]}]
  (let [[changes local] (groups/take-outbox (self))]
    (doseq [change changes, peer (keys peers)]
      (send-change peer change))
    local))

;; ---- peers. The state has :peers, from a peer to its monitor, and :parts, from a peer to pairs

(defn- meet
  "The state in which the peer is monitored, and told of changes."
  [{:keys [peers] :as state} peer]
  (if (peers peer)
    state
    (do
      (groups/meet (self) peer)
      (assoc-in state [:peers peer] (actor/monitor peer)))))

(defn- discovered
  "Answers the peer, which looks for others."
  [{:keys [peers] :as state} peer]
  (send-sync peer (groups/pairs (tell-changes state)))
  (when-not (peers peer)
    (discover peer))
  (meet state peer))

(defn- synced [{:keys [parts] :as state} peer pairs]
  (let [state (meet state peer)]
    (groups/peer-syncs (self) peer (into pairs (parts peer)))
    (update state :parts dissoc peer)))

(defn- lost [{:keys [peers] :as state} ref peer]
  (if (= ref (peers peer))
    (do
      (groups/lose (self) peer)
      (-> (update state :peers dissoc peer)
          (update :parts dissoc peer)))
    state))

;; ---- what comes from other nodes is checked, since their versions may differ

(defn- pid? [x]
  (instance? Pid x))

(defn- elsewhere? [x]
  (and (pid? x) (nodes/elsewhere? x)))

(defn- pids? [x]
  (and (sequential? x) (every? pid? x)))

(defn- pairs? [x]
  (and (sequential? x) (every? #(and (vector? %) (= 2 (count %)) (pids? (second %))) x)))

(defn- told
  "The state after a message of a peer."
  [state [verb peer x y]]
  (let [ok? (elsewhere? peer)]
    (cond
      (and ok? (= :discover verb)) (discovered state peer)
      (and ok? (= :sync verb) (pairs? x)) (synced state peer (vec x))
      (and ok? (= :part verb) (pairs? x)) (update-in state [:parts peer] (fnil into []) x)
      (and ok? (= :join verb) (pids? y)) (do (groups/peer-joins (self) peer x (vec y)) state)
      (and ok? (= :leave verb) (pids? x) (sequential? y)) (do (groups/peer-leaves (self) peer y (vec x)) state)
      :else state)))

;; ---- the process

(defn- discover-on [node]
  (discover [server-name node]))

(defn- serve [state]
  (receive
    [:changed] (do (tell-changes state) (recur state))
    [:nodeup node] (do (discover-on node) (recur state))
    [:DOWN ref :process peer _] (recur (lost state ref peer))
    message (recur (if (vector? message) (told state message) state))))

(defn- run []
  (groups/attach (self))
  (gs/call hub/server-name :watch {:timeout :infinity})
  (run! #(discover-on (.name ^Peer %)) (Peers/connected))
  (serve {:peers {} :parts {}}))

(defn start-link
  "Starts the server, linked to this process, which is the node's membership; returns its pid."
  []
  (actor/spawn-opt run {:link true :name server-name}))
