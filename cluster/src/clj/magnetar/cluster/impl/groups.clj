(ns magnetar.cluster.impl.groups
  "The server that joins the groups of `magnetar.pg` on this node with the groups on the others, as Erlang's pg does.

  Each node owns its local members. Its server tells the servers of the nodes that it is connected with:

    [:discover server]           the server has begun to look for others, or was found
    [:sync server pairs]         the local members of its node, as pairs of a group and pids
    [:part server pairs]         a part of them, before the :sync with the rest
    [:synced server n]           n messages have told them; nil if all that can be read were told singly
    [:singly server]             the server has read fewer, and wants each group in a :part of its own
    [:join server group pids]    members that have joined
    [:leave server pids groups]  members that have left

  Invariants:

  - A server sends changes to each peer that it monitors, behind a :sync with exactly the changes before. So the peer has
    what the server had, a moment ago.
  - A server takes changes only from a peer that it monitors. The :DOWN of the peer takes its members away. Signals of
    an earlier connection act before that, and the peer begins again with a :discover.

  The members are in `magnetar.impl.groups`. What is told waits for no room in the stream to a node, which would hold up the others.
  A node is cut off if too much waits for it."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [receive self]]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.groups :as groups]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid Send)))

(set! *warn-on-reflection* true)

(def server-name
  "The name of the server."
  :magnetar.cluster/groups)

;; ---- sending

(defn- report [group error]
  (reports/report (str "the group " (reports/beginning group) ", of which other nodes are not told") error))

(defn- send-to
  "Sends the message, which can be written. Never waits."
  [peer message]
  (Send/signal (address/target peer) message))

(defn- try-send
  "Sends the message, and returns 1; returns (otherwise error) if it cannot be written."
  [peer message otherwise]
  (try
    (send-to peer message)
    1
    (catch RuntimeException e
      (otherwise e))))

(defn- send-part
  "Sends the pairs in as many parts as are needed, and returns how many. A pair that cannot be written is left out, and reported."
  [peer pairs]
  (try-send peer [:part (self) pairs]
         (fn [error]
           (if (= 1 (count pairs))
             (do (report (ffirst pairs) error) 0)
             (transduce (map #(send-part peer (vec %))) + (split-at (quot (count pairs) 2) pairs))))))

(defn- send-sync
  "Tells the pairs, and then in how many messages, by which the peer notices that it could not read one."
  [peer pairs]
  (let [n (try-send peer [:sync (self) pairs]
                    (fn [_]
                      (let [parts (long (send-part peer pairs))]
                        (send-to peer [:sync (self) []])
                        (inc parts))))]
    (send-to peer [:synced (self) n])))

(defn- send-singly
  "Tells the pairs so that one which the peer cannot read is missing, and no other."
  [peer pairs]
  (run! #(send-part peer [%]) pairs)
  (send-to peer [:sync (self) []])
  (send-to peer [:synced (self) nil]))

(defn- send-change [peer [verb group pids]]
  (try-send peer
         (case verb
           :join [:join (self) group pids]
           :leave [:leave (self) pids [group]])
         #(report group %)))

(defn- discover [to]
  (send-to to [:discover (self)]))

(defn- tell-changes
  "Tells each peer what has changed; returns the local members at that time."
  [{:keys [peers]}]
  (let [[changes local] (groups/take-outbox (self))]
    (doseq [change changes, peer (keys peers)]
      (send-change peer change))
    local))

;; ---- peers. The state has :peers, from a peer to its monitor, and of peers :parts, to pairs, and :read, to how many messages with pairs

(defn- meet
  "The state in which the peer is monitored, and told of changes."
  [{:keys [peers] :as state} peer]
  (if (peers peer)
    state
    (do
      (groups/meet (self) peer)
      (assoc-in state [:peers peer] (monitors/monitor-at-once peer)))))

(defn- discovered
  "Answers the peer, which looks for others."
  [{:keys [peers] :as state} peer]
  (send-sync peer (groups/pairs (tell-changes state)))
  (when-not (peers peer)
    (discover peer))
  (meet state peer))

(defn- count-read [state peer]
  (update-in state [:read peer] (fnil inc 0)))

(defn- part-told [state peer pairs]
  (-> (meet state peer)
      (count-read peer)
      (update-in [:parts peer] (fnil into []) pairs)))

(defn- sync-told [state peer pairs]
  (let [{:keys [parts] :as state} (count-read (meet state peer) peer)]
    (groups/peer-syncs (self) peer (into pairs (parts peer)))
    (update state :parts dissoc peer)))

(defn- synced
  "Asks for each group singly, if not all messages could be read."
  [{:keys [read] :as state} peer messages]
  (when-not (contains? #{nil (read peer 0)} messages)
    (send-to peer [:singly (self)]))
  (update state :read dissoc peer))

(defn- lost [{:keys [peers] :as state} ref peer]
  (if (= ref (peers peer))
    (do
      (groups/lose (self) peer)
      (-> (update state :peers dissoc peer)
          (update :parts dissoc peer)
          (update :read dissoc peer)))
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
      (and ok? (= :sync verb) (pairs? x)) (sync-told state peer (vec x))
      (and ok? (= :part verb) (pairs? x)) (part-told state peer x)
      (and ok? (= :synced verb)) (synced state peer x)
      (and ok? (= :singly verb)) (do (send-singly peer (groups/pairs (tell-changes state))) state)
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
  (run! discover-on (nodes/of-cluster))
  (serve {:peers {} :parts {} :read {}}))

(defn start-link
  "Starts the server, linked to this process, which is the node's membership; returns its pid."
  []
  (actor/spawn-opt run {:link true :name server-name}))
