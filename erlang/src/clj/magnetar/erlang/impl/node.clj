(ns magnetar.erlang.impl.node
  "The server that makes this JVM a node of Erlang. The sockets belong to a second process, which closes them however
  the two end: it traps exits and is linked to the server, and its `finally` runs also when it is killed."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.erlang.impl.functions :as functions]
   [magnetar.erlang.impl.nodes :as connections]
   [magnetar.erlang.impl.services :as services]
   [magnetar.erlang.impl.tasks :as tasks]
   [magnetar.erlang.impl.watchers :as watchers]
   [magnetar.etf :as etf]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.net.names :as names]
   [magnetar.net.transport :as transport]
   [magnetar.scope :as scope])
  (:import
   (clojure.lang ExceptionInfo)
   (java.io IOException)
   (java.net InetAddress)
   (java.util.concurrent CompletableFuture)
   (java.util.function BiConsumer BiFunction)
   (magnetar.erlang.wire Links Node Settings)))

(set! *warn-on-reflection* true)

(def server-name
  "The name of the server."
  :magnetar.erlang/node)

(def ^:private max-size
  "The most bytes of a message."
  134217728)

;; ---- the process of the sockets

(defn- make
  "The node, not open yet, with its :links, its :codec and the :places for processes of BEAMs."
  [{:keys [^Settings settings nil-as functions]}]
  (let [places (functions/places)
        links (Links. (when (= :nil nil-as) :undefined) (functions/works functions places))
        codec (etf/codec {:extensions false :nil nil-as :max-size max-size :identities (.identities links)})]
    {:links links :codec codec :places places :node (Node. settings links codec)}))

(defn- address-of
  "The first address of the host; nil if none is found in so many ns."
  [host nanos]
  (try
    (let [found (names/addresses "connect" host (clock/deadline nanos))]
      (when-not (= ::transport/timeout found)
        (first found)))
    (catch ExceptionInfo e
      (when-not (= :magnetar/unknown-host (:magnetar/reason (ex-data e)))
        (throw e)))))

(defn- open [^Node node]
  (try
    (.open node (reify BiFunction (apply [_ host nanos] (address-of host nanos))))
    (catch IOException e (actor/exit [:not-started (ex-message e)]))))

(defn- close [^Node node]
  (.close node))

(defn- hold
  "Opens a node for the process that has started this one, and closes it at the end."
  [options starter opened]
  (let [{:keys [node] :as made} (make options)]
    (try
      (open node)
      (! starter [opened made])
      (receive
        :stop nil
        [:EXIT starter _] nil)
      (finally (scope/shield (close node))))))

;; ---- the server

(defn- init [options]
  (actor/flag :trap-exit true)
  (let [opened (actor/make-ref)
        holder (actor/spawn-opt hold options (self) opened {:link true :trap-exit true})]
    (receive
      [opened made] [:ok {:holder holder
                          :services (services/start-all (merge options made))
                          :watchers (watchers/begin (:links made))
                          :watching {} ; from a process to the monitor of it
                          :task #(tasks/body (:functions options) (:places made) %)
                          :node (:node made)
                          :host (.getHostAddress ^InetAddress (.bind ^Settings (:settings options)))}]
      [:EXIT holder why] [:error why])))

(defn- answer-with
  "Answers the call when the future is complete."
  [from ^CompletableFuture future]
  (.whenComplete future (reify BiConsumer (accept [_ connected? _] (gs/reply from (true? connected?))))))

(defn- unwatch [{:keys [watchers watching] :as state} pid]
  (watchers/unwatch watchers pid)
  (some-> (watching pid) (actor/demonitor {:flush true}))
  (update state :watching dissoc pid))

(defn- watch [{:keys [watchers watching] :as state} pid type]
  (watchers/watch watchers pid type)
  (if (watching pid)
    state
    (assoc-in state [:watching pid] (actor/monitor pid))))

(defn- answer
  "What a call of a process of this node gets."
  [request [pid :as from] {:keys [^Node node host task] :as state}]
  (let [[kind name port] (if (vector? request) request [request])]
    (case kind
      :address [:reply (str host ":" (.port node)) state]
      :nodes [:reply (vec (.names node)) state]
      :connect (do (answer-with from (.connect node name (int port))) [:noreply state])
      :disconnect [:reply (.disconnect node name) state]
      :watch [:reply true (watch state pid name)]
      :unwatch [:reply true (unwatch state pid)]
      :task [:reply (task name) state] ; of a supervisor of the core, which knows this server by its name
      [:reply [:error :unknown-request] state])))

(defn- handle-call [request [pid :as from] state]
  (if (nodes/elsewhere? pid)
    (do (connections/reply from [:error :notsup])
        [:noreply state])
    (answer request from state)))

(defn- without
  "The state without the process that has ended, or nil if it is not of this node."
  [{:keys [holder services] :as state} pid]
  (cond
    (= pid holder) (dissoc state :holder)
    (services pid) (update state :services disj pid)))

(defn- handle-info [message state]
  (let [[kind x y pid] (when (vector? message) message)
        left (when (= :EXIT kind) (without state x))]
    (cond
      left [:stop y left]
      (= :DOWN kind) [:noreply (unwatch state pid)]
      :else [:noreply state])))

(defn- await-end
  "Ends a linked process by f, and waits for its end."
  [pid f]
  (when pid
    (let [ref (actor/monitor pid)]
      (f pid)
      (receive [:DOWN ref _ _ _] nil))))

(defn- terminate [_ {:keys [holder services]}]
  (doseq [pid services]
    (await-end pid #(actor/exit % :shutdown)))
  (await-end holder #(! % :stop)))

(def ^:private callbacks
  {:init init
   :handle-call handle-call
   :handle-cast (fn [_ state] [:noreply state])
   :handle-info handle-info
   :terminate terminate})

(defn start-link
  "Starts the server; [:ok pid], or [:error why]."
  [options]
  (gs/start-link callbacks options {:name server-name}))

(defn start
  "The same, without a link."
  [options]
  (gs/start callbacks options {:name server-name}))
