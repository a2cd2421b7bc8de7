(ns magnetar.cluster
  "Connects nodes, so that their processes send to, link and call each other.

    (cluster/start {:name \"till@shop\" :cookie-file \"cookie\"})
    (cluster/address) ;=> \"127.0.0.1:40123\"

    ;; in another JVM
    (cluster/start {:name \"stock@shop\" :cookie-file \"cookie\" :peers [\"127.0.0.1:40123\"]})
    (gs/call [:till \"till@shop\"] :open?)

  start start-link stop   join a cluster, leave it
  nodes address ping      the other nodes, where this one is found, and if one answers
  status                  what this node knows of the others, as a map
  monitor-nodes           messages about nodes that come and go
  active?                 may this side of a split cluster act?
  connect disconnect      end the connection with a node, and begin it again
  spawn                   starts a process on another node

  What a process does with others is in `magnetar.actor` and above it: a pid may be of any node, and [name
  node] is a name on a node. Links and monitors fire with :noconnection when a node is lost.

  A node listens on the loopback address unless :bind says otherwise. To listen or to dial outside of it
  requires TLS, unless :insecure is true. A node without the cookie is not let in.

  Groups of `magnetar.pg`, names of `magnetar.global` and registries of `magnetar.registry` with {:nodes :all}
  span the nodes. Supervisors of `magnetar.task.supervisor` start tasks for other nodes, and
  `magnetar.cluster.singleton` keeps one process in the whole cluster.

  Require it as `[magnetar.cluster :as cluster]`.

  Erlang: net_kernel, and the functions of the module erlang about nodes. JGroups carries the frames."
  (:refer-clojure :exclude [spawn])
  (:require
   [clojure.string :as str]
   [magnetar.actor :as actor]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.cluster.impl.leader :as leader]
   [magnetar.cluster.impl.node :as node]
   [magnetar.cluster.impl.policy :as policy]
   [magnetar.cluster.impl.status :as status]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.node-options :as node-options]
   [magnetar.impl.runtime]
   [magnetar.net.contexts :as contexts])
  (:import
   (clojure.lang ExceptionInfo)
   (java.net InetAddress InetSocketAddress)
   (magnetar.cluster.impl Cookie JGroupsNetwork Settings)
   (magnetar.kernel.network Network)))

(set! *warn-on-reflection* true)

;; ---- options

(def ^:private known
  [:name :cookie :cookie-file :cluster :bind :advertise :peers :dns :multicast :tls :insecure :detect :spawnable :extensions :buffer :network
   :split-brain])

(defn- bad [option wanted x]
  (node-options/bad "cluster/start" option wanted x))

(defn- detector?
  "Can a silent node be told from one that says something every so often?"
  [{:keys [after every] :as x}]
  (and (map? x) (pos-int? after) (pos-int? every) (<= (long every) (quot (long after) 2))))

(def ^:private most-buffer
  "How many bytes the :buffer has at most. What is sent without a wait may take 64 times that, in one array."
  16777216)

(def ^:private checks
  [[:cluster string? "a string"]
   [:peers #(and (sequential? %) (every? string? %)) "a list of addresses host:port"]
   [:dns string? "a name of DNS"]
   [:insecure boolean? "true or false"]
   [:tls contexts/of-node? "a map of :certfile, :keyfile and :cacertfile, paths of PEM files, or a javax.net.ssl.SSLContext"]
   [:detect detector? "{:after ms :every ms}, where :after is twice :every or more"]
   [:spawnable #(and (set? %) (every? var? %)) "a set of vars"]
   [:buffer #(and (pos-int? %) (<= (long %) (long most-buffer))) (str "a number of bytes from 1 to " most-buffer)]
   [:network #(instance? Network %) "a Network of the kernel"]])

(defn- split-brain
  "The policy and the lease, of a keyword or a map."
  [x]
  (let [{:keys [policy quorum lease]} (if (map? x) x {:policy x})]
    (when (map? x)
      (arguments/options ":split-brain" [:policy :quorum :lease] x))
    (when-not (some #{policy} policy/kinds)
      (bad :split-brain (str "one of " (str/join ", " policy/kinds) ", or a map with it as :policy") x))
    (when-not (if (= :static-quorum policy) (pos-int? quorum) (nil? quorum))
      (bad :split-brain "a map with the number of nodes :quorum, if and only if its :policy is :static-quorum" x))
    (when-not (or (nil? lease) (and (int? lease) (<= 100 (long lease))))
      (bad :split-brain "a map whose :lease is a number of ms, 100 or more" x))
    (cond-> {:policy {:kind policy :quorum quorum}}
      lease (assoc :lease-ms lease))))

(defn- socket-address ^InetSocketAddress [option text]
  (let [[_ host port] (when (string? text) (re-matches #"(?:\[(.*)\]|[^:]*):(\d{1,5})" text))
        host (or host (when (string? text) (str/replace text #":\d+$" "")))]
    (when-not (and port (<= (long (parse-long port)) 65535))
      (bad option "an address host:port" text))
    (let [address (InetSocketAddress. ^String host (int (parse-long port)))]
      (if (.isUnresolved address)
        (bad option "an address host:port whose host is known here" text)
        address))))

(defn- cookie ^Cookie [options]
  (node-options/cookie "cluster/start" options
    {:of #(Cookie/of %)
     :most 4096
     :how-to-make #(str "make one that all nodes share, as by `(umask 077; openssl rand -hex 32 > " % ")`")
     :refusal #(str "is empty, or has fewer than " Cookie/MIN_LENGTH " bytes: fill it, as by `openssl rand -hex 32 > " % "`")}))

(defn- advertised ^InetSocketAddress [text]
  (let [address (socket-address :advertise text)]
    (when (zero? (.getPort address))
      (bad :advertise "an address with a port that is not 0" text))
    address))

(defn- settings ^Settings [{:keys [name cluster bind advertise peers dns multicast tls insecure detect] :as options} cookie]
  (let [^InetSocketAddress at (if bind (socket-address :bind bind) (InetSocketAddress. (InetAddress/getLoopbackAddress) 0))]
    (when (.isAnyLocalAddress (.getAddress at))
      (bad :bind "one address of this machine, which others can dial, and not the wildcard address" bind))
    (when (and dns (zero? (.getPort at)))
      (bad :bind "an address with a port, the same one on all nodes, where there is :dns" bind))
    (cond-> (doto (Settings. name cookie)
              (.bind (.getAddress at) (.getPort at))
              (.insecure (boolean insecure)))
      cluster (doto (.cluster cluster))
      advertise (doto (.advertise (advertised advertise)))
      peers (doto (.peers (mapv #(socket-address :peers %) peers)))
      dns (doto (.dns dns nil))
      multicast (doto (.multicast (socket-address :multicast multicast)))
      tls (doto (.tls (contexts/of-node tls)))
      detect (doto (.detect (long (:after detect)) (long (:every detect)))))))

(defn- prepared
  "The options of the server."
  [{:keys [name spawnable extensions buffer network] :as options}]
  (node-options/check "cluster/start" known checks options)
  (let [split-brain (split-brain (:split-brain options :keep-majority))
        cookie (cookie options)]
    (cond-> (merge {:name name
                    :network (or network (JGroupsNetwork. (settings options cookie)))
                    :cookie (.keyFor cookie "session")}
                   split-brain)
      spawnable (assoc :spawnable spawnable)
      extensions (assoc :extensions extensions)
      buffer (assoc :limit buffer))))

;; ---- joining and leaving

(defn start
  "Joins a cluster, or begins one; returns [:ok pid], or [:error why].

  The process is the node's membership. `stop` ends it. For an application there is `start-link`.

  If no peer answers, or the cookie or the certificate is wrong, this returns [:ok pid] too. The node has
  begun a cluster of its own, and goes on looking for others. Check `nodes`, or use :static-quorum, under
  which such a node is not active. A refused connection is logged by the logger magnetar.cluster.

  If this node cannot listen, why is [:not-joined sentence]. If another node of the cluster has the name, it
  is [:refused sentence]. If this node is in a cluster already, it is [:already-started pid]. If it is a node
  by another transport than this one, it is [:named-already name].

  Blocks until this node is connected with the nodes that are there, at most for 5 s after it has joined.

  Throws an IllegalArgumentException if an option is wrong, and an IOException if the file of the cookie is
  not there or can be read by other users.

  Options:
    :name         this node's name, a string name@host. The part host is only a part of the name
    :cookie       a secret of 16 bytes or more that all nodes share, a string
    :cookie-file  the path of a file with it, which no other user may read; instead of :cookie
    :cluster      the name of the cluster. Nodes with other names stay apart, each in its own cluster. Default
                  \"magnetar\"
    :bind         where it listens, host:port. Default \"127.0.0.1:0\", port 0 for any
    :advertise    host:port, at which others reach this node, if that is not the :bind: behind a NAT, or in a
                  container whose port is published. Others have to dial this address and no other one
    :peers        a list of host:port, at which other nodes may be
    :dns          instead of :peers, a name of DNS that has the addresses of all nodes, which listen on the
                  same port
    :multicast    instead of :peers, host:port, at which nodes find each other by UDP
    :tls          {:certfile :keyfile :cacertfile}, paths of PEM files: this node's certificate, its key, and
                  the authority of all nodes' certificates; or a javax.net.ssl.SSLContext. It is TLS 1.3
    :insecure     true allows plain text, without :tls: a :bind, :advertise or :peers outside of the loopback
                  address, :dns and :multicast
    :detect       {:after ms :every ms}: a node that was silent for so long is lost, and each says something
                  every so often. :after is twice :every or more. Default {:after 8000 :every 2000}
    :spawnable    a set of vars that other nodes may start processes and tasks with: by `spawn`, and by
                  `magnetar.task.supervisor`. Default none
    :extensions   extensions of `magnetar.etf` for values of own classes
    :network      a network in place of JGroups, such as `magnetar.test/endpoint` gives in a simulation. Then
                  :bind and the other options of the network have no effect
    :split-brain  which side of a split cluster may act: a policy, or {:policy p :quorum n :lease ms}. Default
                  :keep-majority. Give all nodes the same. See below
    :buffer       the number of queued bytes to one node above which senders to it wait, at most 16777216.
                  Default 1048576

  The policies are :keep-majority, :static-quorum with :quorum nodes, :keep-oldest and :allow. :keep-majority
  keeps more than half of the nodes, or exactly half with the oldest node among them. The policy decides where
  singletons run, and what `active?` returns. The other nodes let a node lead for a :lease, in ms, 100 or more
  and 4000 by default. Choose at least five times the round trip of a message. If an answer takes longer than
  a quarter of the :lease, that is reported, and no node may lead then, or one without that node.

  Example:

    (cluster/start {:name \"till@shop\" :cookie-file \"cookie\" :bind \"10.0.0.7:7800\" :tls context :dns \"tills.shop\"})

  See also `start-link`, `stop`.

  Erlang: net_kernel:start/2."
  {:added "0.2" :erlang "net_kernel:start/2"}
  [options]
  (node/start (prepared options)))

(defn start-link
  "Does what `start` does, linked to this process.

  Example:

    {:id :cluster
     :start [cluster/start-link {:name \"till@shop\" :cookie-file \"cookie\"}]
     :shutdown 15000} ; a leave may take more than the 5 s of a child

  See also `start`."
  {:added "0.2"}
  [options]
  (node/start-link (prepared options)))

(defn stop
  "Leaves the cluster; returns :ok.

  Singletons of this node end first, and the others agree to go on without it, for 5 s at most. What was sent
  to other nodes is delivered next, for 5 s at most. Then links and monitors to other nodes fire with
  :noconnection, here and there. This node has no name then, unless it is a node of Erlang too, and may start
  again, as another node for the others: the pids that they have from before stay dead. A supervisor that has
  started it starts it again.

  Blocks until it is left, in general for less than 15 s.

  Throws an ExceptionInfo if this node is in no cluster (:noproc).

  Example:

    (cluster/stop) ;=> :ok

  Erlang: net_kernel:stop/0."
  {:added "0.2" :erlang "net_kernel:stop/0"}
  []
  (gs/stop hub/server-name))

;; ---- nodes

(defn nodes
  "Returns the names of the nodes that this one is connected with, a sorted vector.

  Nodes of Erlang are not among them: `magnetar.erlang/nodes` has these.

  Example:

    (cluster/nodes) ;=> [\"stock@shop\"]

  See also `magnetar.actor/node`.

  Erlang: nodes/0."
  {:added "0.2" :erlang "erlang:nodes/0"}
  []
  (nodes/of-cluster))

(defn address
  "Returns the address at which other nodes find this one, a string host:port.

  Throws an ExceptionInfo if this node is in no cluster (:noproc).

  Example:

    (cluster/address) ;=> \"127.0.0.1:40123\""
  {:added "0.2"}
  []
  (gs/call hub/server-name :address))

(defn status
  "Returns what this node knows of the cluster, a map; nil if it is in no cluster.

  No process is asked, so this answers also when one of them hangs. `bin/magnetar cluster status` prints it.
  The keys of the map:

    :node, :address  this node's name, and where others find it
    :since-ms        for how many milliseconds it has been in the cluster
    :nodes           the connected nodes, maps of :node, :since-ms and :queued, the bytes that wait for the
                     node. One that has not answered a question for its tree has :silent-ms, for how long
    :lost            the nodes that are gone, 32 at most, maps of :node, :since-ms and :why, if that is known:
                     :left or :lost
    :refused         the members of the network that are not let in, maps of :node and :why, a sentence
    :agreement       nil just after the start; then a map of :active, as `active?` returns it, the :leader
                     and the :members of the last view, and this node's :split-brain. With them are
                     :incompatible, a map from the names of nodes to another :split-brain, and :slow, a map
                     of the :node whose answer was too late, and :took-ms. :unkept is a vector of the names
                     of singletons, as text, that do not run because the leader does not keep them

  Example:

    (:nodes (cluster/status)) ;=> [{:node \"stock@shop\" :since-ms 21400 :queued 0}]

  See also `nodes`, `active?`."
  {:added "0.2"}
  []
  (status/now))

(def ^:private answer-ms
  "How long a session has to answer."
  10000)

(defn- ask [request node]
  (gs/call hub/server-name [request node] {:timeout answer-ms :else false}))

(defn- here? [node]
  (when-not (string? node)
    (arguments/misuse :magnetar/bad-address (str "A node is a string name@host; this is " (arguments/show node) ".") {:value node}))
  (= node (actor/node)))

(defn- alone? []
  (nil? (actor/whereis hub/server-name)))

(defn connect
  "Connects with a node that was disconnected; returns true or false.

  All nodes of a cluster are connected by themselves. Only after `disconnect` they are not. The node is not
  found by an address: it has joined the cluster.

  Returns true if the two are connected, false if the node is not in the cluster or does not answer, and
  :ignored if this node is in no cluster.

  Blocks until the other node has answered, at most for 10 s.

  Throws an IllegalArgumentException if the node is not a string.

  Example:

    (cluster/connect \"stock@shop\") ;=> true

  See also `disconnect`, `ping`.

  Erlang: net_kernel:connect_node/1."
  {:added "0.2" :erlang "net_kernel:connect_node/1"}
  [node]
  (cond
    (here? node) (if (alone?) :ignored true)
    (alone?) :ignored
    :else (ask :connect node)))

(defn disconnect
  "Ends the connection with a node; returns true, or false if it had none.

  Links and monitors between the two fire with :noconnection on both sides. What is sent from one to the other
  is dropped from now on. Both stay in the cluster and connected with all others. They stay apart until one of
  them calls `connect` or `ping`, or each has lost the other and found it again.

  Returns :ignored if this node is in no cluster.

  Blocks until the links and monitors of this node have fired.

  Throws an IllegalArgumentException if the node is not a string.

  Example:

    (cluster/disconnect \"stock@shop\") ;=> true

  See also `connect`.

  Erlang: erlang:disconnect_node/1. There the next message to the node connects the two again."
  {:added "0.2" :erlang "erlang:disconnect_node/1"}
  [node]
  (cond
    (here? node) (if (alone?) :ignored false)
    (alone?) :ignored
    :else (ask :disconnect node)))

(defn ping
  "Asks a node if it is there, and connects with it; returns :pong or :pang.

  Blocks until the other node has answered, at most for 20 s.

  Throws an IllegalArgumentException if the node is not a string.

  Example:

    (cluster/ping \"stock@shop\") ;=> :pong

  See also `connect`.

  Erlang: net_adm:ping/1."
  {:added "0.2" :erlang "net_adm:ping/1"}
  [node]
  (if (true? (connect node))
    (try
      (gs/call [hub/server-name node] :ping {:timeout answer-ms :else :pang})
      (catch ExceptionInfo _ :pang))
    :pang))

(defn monitor-nodes
  "Starts or stops messages to this process about nodes; returns true.

  With true the messages begin, with false they end. They are [:nodeup node] and [:nodedown node]. A node
  that is lost and found again gives one of each. Links and monitors of the node have fired before
  [:nodedown node] comes. When this node leaves the cluster, each connected node gives a :nodedown.

  With :reason they are [:nodeup node {}] and [:nodedown node {:reason why}], where why is one of these:

    :left          that node, or this one, has left by `stop`, and all that it had sent was received
    :disconnected  this node or that one has called `disconnect`
    :lost          its program has ended, it could not be reached, or it did not read what it had asked for
                   or what this node had sent before it left

  A second call with true changes the options.

  Throws an ExceptionInfo if this node is in no cluster (:noproc).

  Options:
    :reason  true adds the map

  Example:

    (cluster/monitor-nodes true {:reason true})
    (receive [:nodedown node {:reason :lost}] (take-over node))

  Erlang: net_kernel:monitor_nodes/2. There each call with true adds to the messages."
  {:added "0.2" :erlang "net_kernel:monitor_nodes/2"}
  ([on?] (monitor-nodes on? nil))
  ([on? options]
   (arguments/options "cluster/monitor-nodes" [:reason] options)
   (arguments/flag ":reason" (:reason options))
   (actor/self)
   (gs/call hub/server-name (if on? [:watch (select-keys options [:reason])] :unwatch))))

(defn active?
  "Returns true if this node is on the side of the cluster that may act.

  The policy for a split brain decides, see `start`. A node that cannot tell returns false. So does one that
  is in no cluster. After a cut, a node outside the active side returns false within the :lease of `start`,
  before another side may act. One exception: if the leader leaves by `stop` just then, or hands over since it
  keeps no singleton, both sides may return true for up to a lease. Nothing is ended when this turns false,
  except singletons: ask again before each action.

  Example:

    (when (cluster/active?) (send-reminders))

  See also `magnetar.cluster.singleton`."
  {:added "0.2"}
  []
  (leader/active?))

;; ---- processes

(defn spawn
  "Starts a process on another node, which calls a function; returns its pid.

  The var has to be among the :spawnable of that node. Functions do not travel, so f is a var of both nodes,
  or the symbol of one there. With :monitor returns [pid reference]. The process has its link and its
  monitor before it runs, and it has the context values of the caller.

  Blocks until the other node has answered.

  Throws an ExceptionInfo with :node and :reason if that node is not connected, or refuses.

  Cancellation: the answer is dropped when it comes. With :link the process then ends with :abandoned; else it
  runs on.

  Options:
    :link     true links it to this process
    :monitor  true monitors it

  Example:

    (cluster/spawn \"stock@shop\" #'stock/count-shelf [12] {:link true}) ;=> pid

  See also `magnetar.actor/spawn`, and `magnetar.task.supervisor/async`, whose value can be awaited.

  Erlang: spawn/4, spawn_link/4, spawn_monitor/4."
  {:added "0.2" :erlang "erlang:spawn/4"}
  ([node f args] (spawn node f args nil))
  ([node f args options]
   (arguments/options "cluster/spawn" [:link :monitor] options)
   (when-not (or (var? f) (qualified-symbol? f))
     (arguments/misuse :magnetar/not-a-var
                       (str "`cluster/spawn` wants a var, or the symbol of one with its namespace; this is " (arguments/show f) ".")
                       {:value f}))
   (hub/spawn-on node (into [(symbol f)] args) options)))
