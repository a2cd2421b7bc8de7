(ns magnetar.cluster.impl.node
  "The server that is this node's membership of a cluster: it gives the node its name, joins the network, and tells
  processes that ask for it which nodes come and go."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.cluster.impl.global :as global]
   [magnetar.cluster.impl.global.talk :as talk]
   [magnetar.cluster.impl.groups :as groups]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.cluster.impl.leader :as leader]
   [magnetar.cluster.impl.questions :as questions]
   [magnetar.cluster.impl.registries :as registries]
   [magnetar.cluster.impl.status :as status]
   [magnetar.cluster.impl.tasks :as tasks]
   [magnetar.cluster.impl.trees :as trees]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.inspect.cluster :as inspect]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.network Network)
   (magnetar.kernel.process Peers)))

(set! *warn-on-reflection* true)

(def ^:private settle-ms
  "How long a start waits for the nodes that are there already."
  5000)

(def ^:private services
  "Starts of the processes that join what this node knows with what the others know. Each returns a pid, linked to this one."
  [groups/start-link registries/start-link trees/start-link tasks/start-link])

(def ^:private restart-ms
  "How long a service that has failed is missing."
  500)

(def ^:private leave-ms
  "How long a start waits until the processes of a killed server have ended."
  10000)

;; ---- the start

(defn- others [^Network network]
  (dec (count (.members (.view network)))))

(defn- settled
  "Waits until this node is connected with the nodes that were there, at most for some seconds. Why this node is refused, or nil."
  [network]
  (actor/send-after settle-ms (self) [::settled])
  (loop []
    (when (< (count (nodes/of-cluster)) (long (others network)))
      (receive
        [::event [:refused why]] why
        [::event _] (recur)
        [::settled] nil))))

(defn- tell [{:keys [watchers]} [what node why]]
  (when-some [tag ({:up :nodeup :down :nodedown} what)]
    (doseq [[pid {:keys [reason]}] watchers]
      (! pid (if reason
               [tag node (if why {:reason why} {})]
               [tag node])))))

(defn- start-service [state start]
  (assoc-in state [:services (start)] start))

(defn- shut-down
  "Ends a linked process, and waits for its end."
  [pid]
  (let [ref (actor/monitor pid)]
    (actor/exit pid :shutdown)
    (receive [:DOWN ref _ _ _] nil)))

(defn- stop-services [{:keys [services]}]
  (run! shut-down (keys services)))

(defn- tell-the-rest [state]
  (receive
    [::event x] (do (tell state x) (recur state))
    (after 0 nil)))

(defn- leave
  "Leaves the network, if the hub is there. The server of names is last: while nodes are connected it speaks for the names of this one."
  [{:keys [hub names] :as state}]
  (some-> hub hub/stop)
  (tell-the-rest state)
  (some-> names shut-down)
  (status/end)
  (Peers/setName nil))

(def ^:private names-of-services
  [talk/server-name groups/server-name leader/server-name registries/server-name tasks/server-name trees/server-name])

(defn- predecessors
  "The processes of a membership whose server was killed that have not ended yet."
  []
  (filterv #(and % (actor/alive? %)) (cons (status/hub) (map actor/whereis names-of-services))))

(defn- await-predecessors
  "Waits until they have ended, at most for some seconds. One that has not, or nil."
  []
  (let [[timed-out :as late] [(actor/make-ref)]
        timer (actor/send-after leave-ms (self) late)]
    (loop [refs (into {} (map (fn [pid] [(actor/monitor pid) pid])) (predecessors))]
      (if (empty? refs)
        (do (actor/cancel-timer timer) nil)
        (receive
          [:DOWN ref _ _ _] (recur (dissoc refs ref))
          [timed-out] (val (first refs)))))))

(defn- begin-services
  "Starts the servers of a node that has joined: what `init` returns."
  [options state]
  (let [[how leader] (leader/start-link options)]
    (if (= :error how)
      (do (leave state) [:error leader])
      [:ok (reduce start-service (assoc state :leader leader :watchers {} :services {}) services)])))

(defn- join
  "Joins the network of the options, and starts the services: what `init` returns."
  [{:keys [network] :as options} names]
  (let [me (self)
        notify (fn [event]
                 (status/note event)
                 (! me [::event event])
                 (global/notify names event))
        [how x] (hub/start-link (assoc options :notify notify))
        refused (when (= :ok how) (settled network))]
    (cond
      (= :error how) (do (leave {:names names}) [:error x])
      refused (do (leave {:hub x :names names}) [:error [:refused refused]])
      :else (begin-services options {:hub x :names names :network network}))))

(defn- begin
  "Takes the name, and joins: what `init` returns."
  [{:keys [name network] :as options}]
  (if-not (Peers/setName name)
    [:error [:named-already (Peers/name)]]
    (do
      (status/begin network)
      (let [[how names] (global/start-link name)]
        (if (= :error how)
          (do (leave {}) [:error names])
          (join options names))))))

(defn- init [options]
  (actor/flag :trap-exit true)
  (if-some [pid (await-predecessors)]
    [:error [:already-started pid]]
    (begin options)))

;; ---- the server

(defn- watch [{:keys [watchers] :as state} pid options]
  (assoc-in state [:watchers pid] (assoc options :ref (or (:ref (watchers pid)) (actor/monitor pid)))))

(defn- unwatch [{:keys [watchers] :as state} pid]
  (some-> (:ref (watchers pid)) (actor/demonitor {:flush true}))
  (update state :watchers dissoc pid))

(defn- handle-call [request [pid _ :as from] {:keys [^Network network hub] :as state}]
  (let [[kind x] (if (vector? request) request [request])]
    (case kind
      :address [:reply (.address network) state]
      :ping [:reply :pong state]
      :watch [:reply true (watch state pid x)]
      :unwatch [:reply true (unwatch state pid)]
      (:connect :disconnect) (do (! hub [:ask kind x from]) [:noreply state])
      [:reply [:error :unknown-request] state])))

(defn- ended
  "The state when a linked process has ended."
  [{:keys [services] :as state} pid]
  (if-some [start (services pid)]
    (do
      (actor/send-after restart-ms (self) [::restart start])
      (update state :services dissoc pid))
    state))

(defn- handle-info [message {:keys [hub names leader] :as state}]
  (let [[kind x y pid] (when (vector? message) message)]
    (case kind
      ::event (if (= :refused (first x))
                (do (reports/report "the cluster" (ex-info (second x) {})) [:stop [:refused (second x)] state])
                (do (tell state x) [:noreply state]))
      :DOWN [:noreply (unwatch state pid)]
      :EXIT (condp = x
              hub [:stop y (dissoc state :hub)]
              names [:stop y (dissoc state :names)]
              leader [:stop y (dissoc state :leader)]
              [:noreply (ended state x)])
      ::restart [:noreply (start-service state x)]
      [:noreply state])))

(defn- terminate [_ {:keys [hub leader] :as state}]
  (some-> leader (leader/stop (some? hub)))
  (stop-services state)
  (leave state))

(inspect/answer-with questions/answer)

(def ^:private callbacks
  {:init init
   :handle-call handle-call
   :handle-cast (fn [_ state] [:noreply state])
   :handle-info handle-info
   :terminate terminate})

(defn start-link
  "Starts the server; [:ok pid], or [:error why] if the network cannot be joined or the name is taken."
  [options]
  (gs/start-link callbacks options {:name hub/server-name}))

(defn start
  "The same, without a link."
  [options]
  (gs/start callbacks options {:name hub/server-name}))
