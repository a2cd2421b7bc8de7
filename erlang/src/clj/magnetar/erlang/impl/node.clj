(ns magnetar.erlang.impl.node
  "The server that makes this JVM a node of Erlang. The sockets belong to a second process, which closes them however
  the two end: it traps exits and is linked to the server, and its `finally` runs also when it is killed."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.etf :as etf]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (java.io IOException)
   (java.net InetAddress)
   (java.util.concurrent CompletableFuture)
   (java.util.function BiConsumer)
   (magnetar.erlang.wire Links Node Settings)))

(set! *warn-on-reflection* true)

(def server-name
  "The name of the server."
  :magnetar.erlang/node)

(def ^:private max-size
  "The most bytes of a message."
  134217728)

;; ---- the process of the sockets

(defn- make ^Node [{:keys [^Settings settings nil-as]}]
  (let [links (Links.)]
    (Node. settings links (etf/codec {:extensions false :nil nil-as :max-size max-size :identities (.identities links)}))))

(defn- open [^Node node]
  (try
    (.open node)
    (catch IOException e (actor/exit [:not-started (ex-message e)]))))

(defn- close [^Node node]
  (.close node))

(defn- hold
  "Opens a node for the process that has started this one, and closes it at the end."
  [options starter opened]
  (let [node (make options)]
    (try
      (open node)
      (! starter [opened node])
      (receive
        :stop nil
        [:EXIT starter _] nil)
      (finally (scope/shield (close node))))))

;; ---- what a BEAM asks a node for

(defn- handle-net-kernel [[kind] _ state]
  [:reply (if (= :is_auth kind) :yes [:error :notsup]) state])

(def ^:private net-kernel
  "The process net_kernel of this node, which answers `net_adm:ping`."
  {:init (fn [_] [:ok nil])
   :handle-call (fn [request from state] (handle-net-kernel (when (vector? request) request) from state))})

;; ---- the server

(defn- init [options]
  (actor/flag :trap-exit true)
  (let [opened (actor/make-ref)
        holder (actor/spawn-opt hold options (self) opened {:link true :trap-exit true})]
    (receive
      [opened node] (let [[how pid] (gs/start-link net-kernel nil {:name :net_kernel})]
                      [:ok {:holder holder
                            :net-kernel (when (= :ok how) pid) ; a program may have another process with the name
                            :node node
                            :host (.getHostAddress ^InetAddress (.bind ^Settings (:settings options)))}])
      [:EXIT holder why] [:error why])))

(defn- answer-with
  "Answers the call when the future is complete."
  [from ^CompletableFuture future]
  (.whenComplete future (reify BiConsumer (accept [_ connected? _] (gs/reply from (true? connected?))))))

(defn- handle-call [request from {:keys [^Node node host] :as state}]
  (let [[kind name port] (if (vector? request) request [request])]
    (case kind
      :address [:reply (str host ":" (.port node)) state]
      :nodes [:reply (vec (.names node)) state]
      :connect (do (answer-with from (.connect node name (int port))) [:noreply state])
      :disconnect [:reply (.disconnect node name) state]
      [:reply [:error :unknown-request] state])))

(defn- handle-info [message state]
  (let [[kind pid why] (when (vector? message) message)
        part (some #(when (= pid (state %)) %) [:holder :net-kernel])]
    (if (and (= :EXIT kind) part)
      [:stop why (dissoc state part)]
      [:noreply state])))

(defn- await-end
  "Ends a linked process by f, and waits for its end."
  [pid f]
  (when pid
    (let [ref (actor/monitor pid)]
      (f pid)
      (receive [:DOWN ref _ _ _] nil))))

(defn- terminate [_ {:keys [holder net-kernel]}]
  (await-end net-kernel #(actor/exit % :shutdown))
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
