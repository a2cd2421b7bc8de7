(ns magnetar.cluster.impl.hub
  "The process that follows the views of a network, with a session for each other member.

  All events of the network come to its mailbox, in their order. A session ends before the next one with the same
  member begins. It may take long to read a part, so the hub does not wait for its end, and goes on with the others.
  After some seconds the hub ends its connection and kills it, so that links and monitors fire.
  A leave lets each session send what waits, for a bounded time. Frames that wait in the mailboxes are bounded: see `Unread`."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.cluster.impl.session :as session]
   [magnetar.cluster.impl.status :as status]
   [magnetar.etf :as etf]
   [magnetar.gen-server :as gs]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.proc-lib.remote :as remote]
   [magnetar.scope :as scope])
  (:import
   (java.io IOException)
   (magnetar.cluster.wire Streams Unread Unread$Share)
   (magnetar.kernel.fiber Environment)
   (magnetar.kernel.network Member Network Network$Events View)
   (magnetar.kernel.process Peers)))

(set! *warn-on-reflection* true)

(def ^:private wire-versions
  "The oldest and the newest version of the wire that this node speaks."
  [1 1])

(def ^:private most-unread
  "How many bytes of one member may wait for its session: a node sends about 1 MiB until the session says that they were processed."
  4194304)

(def ^:private drain-ms
  "How long a node that leaves waits until the others have all that it has sent."
  5000)

(def ^:private gone-ms
  "How long the session with a member that is gone may read what had come, before its connection is ended."
  10000)

(def ^:private end-ms
  "The same for the sessions of a node that leaves, and how long it then waits for killed ones."
  3000)

(def ^:private ^:const shortest-pause-ms
  "The pause before a session takes the place of one that has failed. It doubles with each failure."
  100)

(def ^:private ^:const longest-pause-ms 5000)

(def ^:private ^:const healthy-ms
  "A session that has lived for so long begins without failures."
  60000)

(def server-name
  "The name of the server that starts the hub."
  :magnetar.cluster/node)

(def ^:private defaults
  {:versions wire-versions
   :limit 1048576
   :largest 16777216
   :max-atoms 65536
   :extensions []
   :spawnable #{}})

;; ---- processes for other nodes

(defn- work-of
  "A function from [symbol & arguments], which another node wants, to the work of a process. Nothing is looked up by the symbol but these vars."
  [spawnable]
  (let [by-symbol (into {} (map (juxt symbol identity)) spawnable)]
    (fn [what]
      (let [[f & args] (when (vector? what) what)
            wanted (by-symbol f)]
        (when-not wanted
          (throw (ex-info (str "The node " (Peers/name) " starts no " (pr-str f) " for other nodes. Start it with the var among its :spawnable.")
                          {:what what})))
        (fn [] (apply @wanted args))))))

(defn- lost [node why]
  (throw (ex-info (str "No process was started on the node " (pr-str node) ": " (if (= :noconnection why) "it is not connected." (pr-str why)))
                  {:node node :reason why})))

(defn spawn-on
  "Starts a process on the node, which calls the function of the symbol with the arguments; returns its pid, and with :monitor [pid reference].
  Waits for the answer of the node."
  [node [f & args] options]
  (let [peer (or (Peers/connected ^String node) (lost node :noconnection))
        [how x ref] (remote/start "spawn" peer (into [f] args) options)]
    (cond
      (= :error how) (lost node x)
      (:monitor options) [x ref]
      :else x)))

;; ---- sessions

(defn- now-ms ^long []
  (quot (.nanoTime (Environment/current)) 1000000))

(defn- pause
  "How many milliseconds a session waits that has failed so often in short time."
  [failures]
  (min longest-pause-ms (bit-shift-left shortest-pause-ms (min 20 (dec (long failures))))))

(defn- start-session
  "A new session: its process, what that was told, its share of what is unread, when it started, and how often the ones before it have failed."
  ([state member] (start-session state member 0))
  ([{:keys [template ^Unread unread]} member failures]
   (let [share (.share unread member)
         session (assoc template :member member :share share :opened (atom nil))]
     {:pid (actor/spawn-link session/run (if (zero? (long failures)) session (assoc session :pause (pause failures))))
      :session session
      :share share
      :since (now-ms)
      :failures failures})))

(defn- failures
  "How often sessions with the member have failed, after this one. One that has lived for long is a new begin."
  [{:keys [since failures]}]
  (if (< (- (now-ms) (long since)) healthy-ms)
    (inc (long failures))
    1))

(defn- close-share [{:keys [^Unread$Share share]}]
  (.close share))

(defn- end-session [{:keys [pid]}]
  (! pid :gone))

(defn- end-stuck
  "Ends the connection of a session that reads a part for too long, and kills it. It may be in code that no kill ends."
  [{:keys [pid session]}]
  (session/hang-up session :lost)
  (actor/exit pid :kill))

(defn- start-missing
  "The state with a session for each member of the view, except for those whose earlier session has not ended. A node that leaves begins no more."
  [{:keys [others sessions ending leaving] :as state}]
  (let [waiting (into #{} (map :member) (vals ending))
        new (if leaving [] (remove (some-fn sessions waiting) others))]
    (update state :sessions into (map (fn [m] [m (start-session state m)])) new)))

(defn- end-gone
  "The state in which the sessions with members that are gone end."
  [{:keys [others sessions] :as state}]
  (let [gone (remove (comp others key) sessions)]
    (doseq [[_ {:keys [pid] :as session}] gone]
      (end-session session)
      (actor/send-after gone-ms (self) [:stuck pid]))
    (-> (update state :sessions #(apply dissoc % (map key gone)))
        (update :ending into (map (fn [[member session]] [(:pid session) (assoc session :member member)])) gone))))

(defn- follow
  "The state with a session for each member of the view, except this node itself."
  [{:keys [self-member] :as state} members]
  (-> (assoc state :others (disj (set members) self-member))
      end-gone
      start-missing))

(defn- replaced
  "The state when a session has ended by itself. If it has failed, which was reported, another one takes its place after a pause."
  [{:keys [sessions leaving] :as state} pid]
  (if-some [[member session] (some (fn [[_ s :as entry]] (when (= pid (:pid s)) entry)) sessions)]
    (do
      (close-share session)
      (if leaving
        (update state :sessions dissoc member)
        (assoc-in state [:sessions member] (start-session state member (failures session)))))
    state))

(defn- ended
  "The state when a session has ended. Its member may be back."
  [{:keys [ending] :as state} pid]
  (if-some [session (ending pid)]
    (do
      (close-share session)
      (start-missing (update state :ending dissoc pid)))
    (replaced state pid)))

(defn- hand-on
  "Gives the frame to the session with its sender, or drops it."
  [{:keys [sessions ^Unread unread]} from ^bytes frame]
  (if-some [{:keys [pid ^Unread$Share share]} (sessions from)]
    (do
      (.take share (alength frame))
      (! pid [:frame frame]))
    (.remove unread from (alength frame))))

;; ---- the process

(defn- report-flood [^Member from]
  (reports/report (str "the node " (.name from))
                  (ex-info (str "The node " (.name from) " is cut off, because it has sent more than " most-unread
                                " bytes without a wait for the answers to them. Only a program that is no node of a cluster does that.")
                           {:member (str from)})))

(defn- await-ends
  "Waits until the sessions have ended, for a limited time. The ones that have not."
  [sessions]
  (let [tag (actor/make-ref)
        timer (actor/send-after end-ms (self) [tag])]
    (loop [left (into {} (map (juxt :pid identity)) sessions)]
      (if (empty? left)
        (do (actor/cancel-timer timer) [])
        (receive
          [:EXIT pid _] (recur (dissoc left pid))
          [tag] (vals left))))))

(defn- end-all [{:keys [sessions ending]}]
  (run! end-session (vals sessions))
  (let [all (concat (vals sessions) (vals ending))
        stuck (await-ends all)]
    (run! end-stuck stuck)
    (await-ends stuck)
    (run! close-share all)))

(defn- session-of
  "The session with the member that has proved to have the name. Without one, as just after a node was found again, the
  session with a member that claims it."
  [{:keys [sessions template]} node]
  (let [{:keys [^Network network names]} template
        members (.members (.view network))
        proved @names]
    (some sessions (concat (filter #(= node (proved %)) members)
                           (filter #(and (nil? (proved %)) (= node (.name ^Member %))) members)))))

(defn- ask
  "Hands the request for a node to its session, which answers."
  [{:keys [leaving] :as state} request node from]
  (let [session (session-of state node)]
    (if (and session (not leaving))
      (! (:pid session) [request from])
      (gs/reply from false))))

(defn- begin-leave [{:keys [sessions] :as state}]
  (run! #(! (:pid %) :leave) (vals sessions))
  (actor/send-after drain-ms (self) :drain-no-longer)
  (assoc state :leaving true))

(defn- serve [{:keys [starter sessions ending leaving] :as state}]
  (when-not (and leaving (empty? sessions) (empty? ending))
    (receive
      [:view members] (recur (follow state members))
      [:frame from bytes] (do (hand-on state from bytes) (recur state))
      [:flood from] (do (report-flood from) (recur state))
      [:ask request node from] (do (ask state request node from) (recur state))
      :stop (recur (begin-leave state))
      [:stuck pid] (do (some-> (ending pid) end-stuck) (recur state))
      :drain-no-longer (end-all state)
      [:EXIT starter _] (end-all state)
      [:EXIT pid _] (recur (ended state pid))
      _ (recur state))))

(defn- events ^Network$Events [hub ^Network network ^Unread unread]
  (reify Network$Events
    (view [_ next] (! hub [:view (vec (.members next))]))
    (frame [_ from bytes]
      (if (.add unread from (alength ^bytes bytes))
        (! hub [:frame from bytes])
        (do
          (.cut network from)
          (! hub [:flood from]))))))

(defn- template [{:keys [network name cookie versions limit largest extensions max-atoms spawnable notify]} self-member]
  (let [streams (Streams. (work-of spawnable))
        creation (Peers/incarnation Peers/CLUSTER)
        codec (etf/codec {:extensions extensions :max-size largest :max-atoms max-atoms :identities (.identities streams creation)})
        refused (atom {})]
    (status/keep-streams streams codec refused)
    {:network network
     :streams streams
     :self-member self-member
     :notify notify
     :names (atom {}) ; from a member to the name that it has proved to have
     :held (atom {}) ; from a name to the member that is connected under it, and the session
     :refused refused ; from the name of a member to its id and why it was not let in
     :cookie cookie
     :limit limit
     :largest largest
     :codec codec
     :mine {:name name :creation creation :versions versions}}))

(defn- join
  "Joins the network; exits with a sentence if that is not possible."
  [^Network network unread]
  (try
    (.join network (events (self) network unread))
    (catch IOException e (actor/exit [:not-joined (ex-message e)]))))

(defn- leave
  "Leaves the network, also if the hub has failed or was killed: a member that nothing reads would look alive to the others.
  If the server that has started the hub was killed, its name of this node ends too."
  [^Network network starter]
  (scope/shield (.leave network))
  (when-not (actor/alive? starter)
    (Peers/setName nil)
    (status/end)))

(defn- run
  "The work of the hub. When it returns, all connections have ended and the network is left."
  [{:keys [network] :as options} starter joined]
  (status/keep-hub (self))
  (let [unread (Unread. most-unread)
        member (join network unread)]
    (try
      (! starter [joined])
      (serve {:template (template options member)
              :self-member member
              :starter starter
              :unread unread
              :others #{} ; the members of the last view, without this node
              :sessions {} ; from a member
              :ending {}}) ; from the process of a session whose member is gone
      (finally (leave network starter)))))

(defn start-link
  "Joins the network, and returns [:ok hub], a process that is linked to this one, which traps exits; or [:error why].

  `notify` is called by several processes, and must not wait, with one of these:

    [:up node]
    [:down node :left]  the node, or this one, has left the cluster: all that it had sent was received
    [:down node :lost]  it has ended, could not be reached, has met an error, or has not answered this node, which left
    [:down node :disconnected]  a program of one of the two has disconnected them
    [:refused why]      an older node has the name of this one

  Of [:ask request node from] the request is :connect or :disconnect, and `from` is of a call, which gets true or false.

  `limit` and `largest` are bytes, of what waits in a stream and of one signal. This node has its name already."
  [options]
  (let [joined (actor/make-ref)
        hub (actor/spawn-opt run (merge defaults options) (self) joined {:link true :trap-exit true})]
    (receive
      [joined] [:ok hub]
      [:EXIT hub why] [:error why])))

(defn stop
  "Sends what waits for other nodes, for some seconds at most, leaves the network, and waits until it is left."
  [hub]
  (let [ref (actor/monitor hub)]
    (! hub :stop)
    (receive [:DOWN ref _ _ _] nil)))
