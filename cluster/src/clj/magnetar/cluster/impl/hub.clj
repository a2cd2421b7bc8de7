(ns magnetar.cluster.impl.hub
  "The process that follows the views of a network, with a session for each other member.

  All events of the network come to its mailbox, in their order. A session ends before the next one with the same
  member begins."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.cluster.impl.session :as session]
   [magnetar.etf :as etf]
   [magnetar.impl.runtime])
  (:import
   (magnetar.cluster.wire Streams)
   (magnetar.kernel.network Member Network Network$Events View)
   (magnetar.kernel.process LocalProcess Peers Spawn)))

(set! *warn-on-reflection* true)

(def ^:private wire-versions
  "The oldest and the newest version of the wire that this node speaks."
  [1 1])

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
  [node [f & args] {:keys [link monitor]}]
  (let [me (LocalProcess/require "spawn")
        peer (or (Peers/connected ^String node) (lost node :noconnection))
        ref (Spawn/request me peer (into [f] args) (boolean link) (boolean monitor))]
    (receive
      [:spawn-reply ref :error why] (lost node why)
      [:spawn-reply told :ok pid] (if monitor [pid told] pid))))

;; ---- sessions

(defn- start-session [{:keys [template]} member]
  (actor/spawn-link session/run (assoc template :member member)))

(defn- end-session [pid]
  (! pid :left)
  (receive [:EXIT pid _] nil))

(defn- follow
  "The state with a session for each member of the view, but this node itself."
  [{:keys [sessions self-member] :as state} members]
  (let [others (disj (set members) self-member)
        gone (remove others (keys sessions))]
    (run! #(end-session (sessions %)) gone)
    (let [kept (apply dissoc sessions gone)]
      (assoc state :sessions (into kept (map (fn [m] [m (or (kept m) (start-session state m))])) others)))))

(defn- restart
  "A session has failed, which was reported: another one takes its place."
  [{:keys [sessions] :as state} pid]
  (if-some [member (some (fn [[m p]] (when (= p pid) m)) sessions)]
    (assoc-in state [:sessions member] (start-session state member))
    state))

;; ---- the process

(defn- serve [{:keys [sessions notify] :as state}]
  (receive
    [:view members] (recur (follow state members))
    [:frame from bytes] (do (some-> (sessions from) (! [:frame bytes])) (recur state))
    [:up node] (do (notify [:up node]) (recur state))
    [:down node] (do (notify [:down node]) (recur state))
    [:refused why] (do (notify [:refused why]) (recur state))
    [:stop from] (do (run! end-session (vals sessions)) (! from [:stopped (self)]))
    [:EXIT pid _] (recur (restart state pid))))

(defn- events ^Network$Events [hub]
  (reify Network$Events
    (view [_ next] (! hub [:view (vec (.members next))]))
    (frame [_ from bytes] (! hub [:frame from bytes]))))

(defn- template [{:keys [network name cookie versions limit largest extensions max-atoms spawnable]} hub self-member]
  (let [streams (Streams. (work-of spawnable))]
    {:network network
     :streams streams
     :self self-member
     :hub hub
     :cookie cookie
     :limit limit
     :largest largest
     :codec (etf/codec {:extensions extensions :max-size largest :max-atoms max-atoms :identities (.identities streams)})
     :mine {:name name :creation (Peers/creation) :versions versions}}))

(defn- run [{:keys [^Network network notify] :as options}]
  (let [hub (self)
        member (.join network (events hub))]
    (serve {:template (template options hub member)
            :self-member member
            :sessions {}
            :notify notify})))

(defn start
  "Joins the network under the name, and returns the hub, a process that traps exits. It is linked to this process.

  `notify` is called with [:up node], [:down node] and [:refused why], and must not wait. `limit` and `largest` are
  bytes, of what waits in a stream and of one signal."
  [options]
  (let [options (merge defaults options)]
    (when-not (Peers/setName (:name options))
      (throw (ex-info (str "This node is called " (Peers/name) " already. Stop that cluster first.") {:name (Peers/name)})))
    (actor/spawn-opt run options {:link true :trap-exit true :name :magnetar.cluster/hub})))

(defn stop
  "Leaves the network: all connections end first."
  [{:keys [^Network network]} hub]
  (let [ref (actor/monitor hub)]
    (! hub [:stop (self)])
    (receive [:stopped hub] nil
             [:DOWN ref _ _ _] nil)
    (actor/demonitor ref {:flush true})
    (.leave network)
    (Peers/setName nil)))
