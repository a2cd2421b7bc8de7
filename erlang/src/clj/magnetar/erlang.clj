(ns magnetar.erlang
  "Makes this JVM a node of Erlang, whose processes BEAMs call, link and monitor.

    (erlang/start {:name \"till@127.0.0.1\" :cookie-file \"cookie\"})
    (gs/call [:shelf \"stock@127.0.0.1\"] [:count 12]) ; of a gen_server of Erlang

  start start-link stop      begin and stop being a node
  connect disconnect ping    connections with other nodes
  nodes monitor-nodes        the other nodes, and messages when one comes or goes
  address                    where this node listens
  spawn call cast            start a process on another node, or call a function there

  What a process does with others is in `magnetar.actor` and above it: a pid may be of any node, and [name
  node] is a name on a node. The first message to a node connects it. Links and monitors fire with
  :noconnection when a node is lost.

  Values travel as `magnetar.etf` writes them with `:extensions false`: a keyword is an atom, a vector a
  tuple, a list a list, a string a binary.

  The groups of `magnetar.pg` have members of all connected nodes. A visible node shares the names of
  `magnetar.global` too.

  Require it as `[magnetar.erlang :as erlang]`.

  Erlang: net_kernel, and the functions of the module erlang about nodes."
  (:refer-clojure :exclude [cast])
  (:require
   [magnetar.actor :as actor]
   [magnetar.erlang.impl.functions :as functions]
   [magnetar.erlang.impl.node :as node]
   [magnetar.erlang.impl.remote :as remote]
   [magnetar.gen-server :as gs]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.node-options :as node-options]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.net.contexts :as contexts]
   [magnetar.proc-lib :as proc-lib])
  (:import
   (clojure.lang ExceptionInfo)
   (java.net InetAddress InetSocketAddress UnknownHostException)
   (magnetar.erlang.wire Cookie Settings)))

(set! *warn-on-reflection* true)

;; ---- options

(def ^:private known
  [:name :cookie :cookie-file :bind :port :tls :epmd :visible :insecure :tick :buffer :nil :spawnable :scopes])

(defn- bad [option wanted x]
  (node-options/bad "erlang/start" option wanted x))

(defn- port? [x]
  (and (int? x) (<= 0 (long x) 65535)))

(defn- positive-int? [x]
  (and (int? x) (<= 1 (long x) Integer/MAX_VALUE)))

(defn- scopes? [x]
  (and (set? x) (every? keyword? x) (not-any? #{:global_name_server :net_kernel :rex :user} x)))

(def ^:private checks
  [[:tls contexts/of-node? "a map of :certfile, :keyfile and :cacertfile, paths of PEM files, or a javax.net.ssl.SSLContext"]
   [:bind string? "an address, a string"]
   [:port port? "a port, or 0 for any"]
   [:epmd #(or (false? %) (and (port? %) (pos? (long %)))) "the port of EPMD, or false"]
   [:visible boolean? "true or false"]
   [:insecure boolean? "true or false"]
   [:tick #(and (positive-int? %) (<= 100 (long %))) "a number of ms, 100 or more"]
   [:buffer positive-int? "a number of bytes"]
   [:spawnable #(and (set? %) (every? var? %)) "a set of vars"]
   [:scopes scopes? "a set of keywords, without the names of servers that each node has, such as :user"]
   [:nil #{:nil :undefined} ":nil or :undefined"]])

(defn- cookie ^Cookie [options]
  (node-options/cookie "erlang/start" options
    {:of #(Cookie/of %)
     :most 1024 ; more than an atom of 255 characters has
     :how-to-make #(str "copy the .erlang.cookie of the other nodes, and run `chmod 600 " % "`")
     :refusal (constantly "holds no cookie: copy the .erlang.cookie of the other nodes")}))

(defn- bind-address ^InetAddress [{:keys [bind tls insecure]}]
  (let [address (try
                  (if bind (InetAddress/getByName bind) (InetAddress/getLoopbackAddress))
                  (catch UnknownHostException _ (bad :bind "an address of this machine" bind)))]
    (when-not (or tls insecure (.isLoopbackAddress ^InetAddress address))
      (bad :bind "a loopback address, unless there is :tls, or :insecure is true" bind))
    address))

(def ^:private handshake-ms 7000)

(defn- epmd-port
  "The port of the option, else the one of the environment, as `erl` finds it; nil for no EPMD."
  [epmd]
  (when-not (false? epmd)
    (or epmd (some-> (System/getenv "ERL_EPMD_PORT") parse-long) 4369)))

(defn- epmd-address ^InetSocketAddress [epmd]
  (when-some [port (epmd-port epmd)]
    (InetSocketAddress. (InetAddress/getLoopbackAddress) (int port))))

(defn- prepared
  "The options of the server."
  [{:keys [name port tls insecure epmd visible tick buffer] :or {port 0, tick 60000, buffer 1048576} :as options}]
  (node-options/check "erlang/start" known checks options)
  {:settings (Settings. name (cookie options) (boolean visible) (bind-address options) (int port) (contexts/of-node tls) (boolean insecure)
                        (epmd-address epmd) (int tick) (int buffer) (int handshake-ms))
   :nil-as (:nil options :nil)
   :functions (functions/table (:spawnable options))
   :scopes (:scopes options)})

;; ---- the begin and the end

(defn start
  "Makes this JVM a node of Erlang; returns [:ok pid], or [:error why].

  The process is the node: `stop` ends it. For an application there is `start-link`.

  If this node cannot listen, or EPMD is not there or has another node of the name, why is [:not-started
  sentence]. If it is a node already, it is [:already-started pid].

  Throws an IllegalArgumentException if an option is wrong, or a file of :tls will not do, and an IOException
  if the file of the cookie is not there or can be read by other users.

  Options:
    :name         this node's name, a string name@host. Others look up the host, and ask its EPMD for the name
    :cookie       the secret that all nodes share, a string
    :cookie-file  the path of a file with it, which no other user may read; instead of :cookie
    :bind         the address where it listens. Default the loopback address. Another one needs :tls
    :port         the port where it listens. Default 0, any
    :tls          {:certfile :keyfile :cacertfile}, paths of PEM files: this node's certificate, its key, and
                  the authorities of all nodes. Or an SSLContext. All connections have TLS then, as with
                  `-proto_dist inet_tls` in Erlang
    :insecure     true allows a :bind outside of the loopback address, and dials to other
                  machines, without :tls
    :epmd         the port of EPMD on this machine and the others, or false for none. Default the
                  environment's ERL_EPMD_PORT, else 4369
    :visible      true lets other nodes list this one, connects it with all nodes that they know, and shares
                  the names of `magnetar.global`. Default false, a hidden node, as a C node is
    :tick         1000 times the net_ticktime of the BEAMs, in ms. A connection that is silent for 1.25 to
                  1.5 times as long is closed. Default 60000
    :buffer       the number of queued bytes to one node above which senders to it wait. Default 1048576
    :spawnable    a set of vars that other nodes may call, by `rpc` and `erpc`, and start processes and tasks
                  with. The module is the namespace, the function the name. Default none
    :scopes       a set of keywords, the scopes of `magnetar.pg` that this node shares beside :pg
    :nil          the atom that nil is, :nil or :undefined. Default :nil, as in Elixir. The other one is a
                  keyword

  Example:

    (erlang/start {:name \"till@127.0.0.1\" :cookie-file \"cookie\" :epmd false :port 9100})

  See also `start-link`, `stop`, `connect`.

  Erlang: net_kernel:start/2."
  {:added "0.2" :erlang "net_kernel:start/2"}
  [options]
  (node/start (prepared options)))

(defn start-link
  "Does what `start` does, linked to this process.

  Example:

    {:id :erlang
     :start [erlang/start-link {:name \"till@127.0.0.1\" :cookie-file \"cookie\"}]}

  See also `start`."
  {:added "0.2"}
  [options]
  (node/start-link (prepared options)))

(defn stop
  "Stops being a node of Erlang; returns :ok.

  What waits for other nodes is sent, for 2 s at most. Then links and monitors fire with :noconnection, here
  and there. This node has no name then, unless it is in a cluster, and may start again, as another node for
  the others.

  Blocks until all connections have ended.

  Throws an ExceptionInfo if this is no node of Erlang (:noproc).

  Example:

    (erlang/stop) ;=> :ok

  Erlang: net_kernel:stop/0."
  {:added "0.2" :erlang "net_kernel:stop/0"}
  []
  (gs/stop node/server-name))

;; ---- nodes

(defn- alone? []
  (nil? (actor/whereis node/server-name)))

(defn- check-node [x]
  (when-not (node-options/name? x)
    (arguments/misuse :magnetar/bad-address (str "A node is a string name@host; this is " (arguments/show x) ".") {:value x})))

(defn nodes
  "Returns the names of the nodes that this one is connected with, sorted.

  It is a vector, and hidden nodes are in it. In a JVM that is no node of Erlang it is empty.

  Example:

    (erlang/nodes) ;=> [\"stock@127.0.0.1\"]

  See also `magnetar.actor/node`.

  Erlang: nodes(connected)."
  {:added "0.2" :erlang "erlang:nodes/1"}
  []
  (if (alone?) [] (gs/call node/server-name :nodes)))

(defn address
  "Returns the address where this node listens, a string host:port.

  Throws an ExceptionInfo if this is no node of Erlang (:noproc).

  Example:

    (erlang/address) ;=> \"127.0.0.1:9100\""
  {:added "0.2"}
  []
  (gs/call node/server-name :address))

(defn monitor-nodes
  "Starts or stops messages to this process about nodes; returns true.

  With true the messages begin, with false they end. They are [:nodeup node] and [:nodedown node]. A :nodeup
  comes before the first message of the node. A :nodedown comes after the links and monitors of the node have
  fired. When this node stops, each connected node gives a :nodedown.

  A second call with true changes the options.

  Throws an ExceptionInfo if this is no node of Erlang (:noproc), and an IllegalArgumentException if an option
  is wrong.

  Options:
    :type  :visible or :hidden, for the nodes that list themselves or do not. Default :all

  Example:

    (erlang/monitor-nodes true)
    (receive [:nodedown \"stock@127.0.0.1\"] (close-shop))

  See also `nodes`, `magnetar.actor/monitor`.

  Erlang: net_kernel:monitor_nodes/2. There the default is :visible, each call with true adds to the messages,
  and with options they have a third element."
  {:added "0.2" :erlang "net_kernel:monitor_nodes/2"}
  ([on?] (monitor-nodes on? nil))
  ([on? options]
   (arguments/options "erlang/monitor-nodes" [:type] options)
   (let [type (:type options :all)]
     (when-not (#{:all :visible :hidden} type)
       (arguments/misuse :magnetar/bad-option (str "`erlang/monitor-nodes`: :type is :all, :visible or :hidden; this is " (arguments/show type) ".") {:path [:type] :value type}))
     (actor/self)
     (gs/call node/server-name (if on? [:watch type] :unwatch)))))

(def ^:private answer-ms
  "How long a connect has: twice the time of a handshake, and some more."
  20000)

(defn connect
  "Connects with a node; returns true or false.

  The first message to a node connects it as well, if EPMD knows its port. This function says whether it is
  there.

  Returns true if the two are connected, false if they cannot be, and :ignored if this is no node of Erlang.
  If a node has refused, or has another cookie, a line in the log says so.

  Blocks until the handshake has ended, at most for 14 s.

  Throws an IllegalArgumentException if the node is not a string name@host.

  Options:
    :port  the port of the node. Default: EPMD of its host is asked

  Example:

    (erlang/connect \"stock@127.0.0.1\") ;=> true

  See also `disconnect`, `ping`.

  Erlang: net_kernel:connect_node/1."
  {:added "0.2" :erlang "net_kernel:connect_node/1"}
  ([node] (connect node nil))
  ([node options]
   (check-node node)
   (arguments/options "erlang/connect" [:port] options)
   (let [port (:port options 0)]
     (when-not (port? port)
       (arguments/misuse :magnetar/bad-option (str "`erlang/connect`: :port is a port; this is " (arguments/show port) ".") {:path [:port] :value port}))
     (if (alone?)
       :ignored
       (gs/call node/server-name [:connect node port] {:timeout answer-ms :else false})))))

(defn disconnect
  "Ends the connection with a node; returns true, or false without one.

  Links and monitors between the two fire with :noconnection on both sides. The next message of either side
  connects them again.

  Returns :ignored if this is no node of Erlang.

  Blocks until the links and monitors of this node have fired.

  Throws an IllegalArgumentException if the node is not a string name@host.

  Example:

    (erlang/disconnect \"stock@127.0.0.1\") ;=> true

  See also `connect`.

  Erlang: erlang:disconnect_node/1."
  {:added "0.2" :erlang "erlang:disconnect_node/1"}
  [node]
  (check-node node)
  (if (alone?)
    :ignored
    (gs/call node/server-name [:disconnect node])))

(defn ping
  "Asks a node if it is there, and connects with it; returns :pong or :pang.

  Blocks until the other node has answered, at most for 24 s.

  Throws an IllegalArgumentException if the node is not a string name@host.

  Example:

    (erlang/ping \"stock@127.0.0.1\") ;=> :pong

  See also `connect`.

  Erlang: net_adm:ping/1."
  {:added "0.2" :erlang "net_adm:ping/1"}
  [node]
  (if (true? (connect node))
    (try
      (if (= :yes (gs/call [:net_kernel node] [:is_auth (keyword (actor/node))] {:timeout 10000 :else :pang}))
        :pong
        :pang)
      (catch ExceptionInfo _ :pang))
    :pang))

;; ---- functions of other nodes

(defn- check-function [operation node module function args]
  (check-node node)
  (when-not (and (keyword? module) (keyword? function) (sequential? args))
    (arguments/misuse :magnetar/not-a-function
                      (str "`" operation "` wants a module and a function, keywords, and a list of arguments, as in (" operation
                           " node :lists :sum ['(1 2)]); these are " (arguments/show module) ", " (arguments/show function) " and "
                           (arguments/show args) ".")
                      {:module module :function function :args args})))

(defn spawn
  "Starts a process on another node, which calls a function there; returns its pid.

  The module and the function are keywords: their names are atoms. With :monitor returns [pid reference]. The
  process has its link and its monitor before it runs. If there is no such function, it ends with
  [:undef stack]. The node is connected first, if need be.

  What the process prints appears on the *out* of the process that has called `start`. If this process has a
  group leader on another node, it appears there.

  Blocks until the node is connected, at most for 14 s, and then until it has answered.

  Throws an ExceptionInfo with :node and :reason if that node cannot be connected, or refuses, or if an
  argument has no term in Erlang. Throws an IllegalArgumentException if the node is not a string name@host,
  the module or the function not a keyword, or args not a list or vector.

  Cancellation: the answer is dropped when it comes. With :link the process then ends with :abandoned; else it
  runs on.

  Options:
    :link     true links it to this process
    :monitor  true monitors it

  Example:

    (erlang/spawn \"stock@127.0.0.1\" :stock :count [12] {:link true}) ;=> pid

  See also `call`, `magnetar.cluster/spawn`.

  Erlang: spawn/4, spawn_link/4, spawn_monitor/4."
  {:added "0.2" :erlang "erlang:spawn/4"}
  ([node module function args] (spawn node module function args nil))
  ([node module function args options]
   (arguments/options "erlang/spawn" [:link :monitor] options)
   (check-function "erlang/spawn" node module function args)
   (remote/spawn node module function args options)))

(defn call
  "Calls a function on another node, in a process there, and returns its value.

  The module and the function are keywords: their names are atoms. A thread that is not a process becomes one
  for the time of the call. The node is connected first, if need be.

  Blocks until the node is connected, at most for 14 s, and then until the value is there, at most for
  :timeout.

  Throws a magnetar.TimeoutException when time runs out and there is no :else. The function goes on then.
  Throws an ExceptionInfo with :node, :module, :function, :args, :class and :reason if the call fails. Its
  :class is one of these:

    :error   the function has had an error, and :stack is where. If there is no such function, it is :undef
    :exit    it has called exit
    :throw   it has thrown
    :signal  an exit signal has ended its process
    :erpc    the call was not made, or its answer was lost: :noconnection, or what the node refuses

  Cancellation: cancelled or interrupted, it throws; the function goes on.

  Options:
    :timeout  how long to wait at most, a duration. Default 5000 ms
    :else     what to return when time runs out

  Example:

    (erlang/call \"stock@127.0.0.1\" :lists :sum ['(1 2 3)]) ;=> 6

  See also `cast`, `spawn`, `magnetar.gen-server/call`.

  Erlang: erpc:call/5."
  {:added "0.2" :erlang "erpc:call/5"}
  ([node module function args] (call node module function args nil))
  ([node module function args {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "erlang/call" [:timeout :else] options)
   (let [nanos (arguments/nanos :timeout timeout)]
     (check-function "erlang/call" node module function args)
     (let [[kind x :as end] (proc-lib/in-process #(remote/call node module function args nanos))]
       (case kind
         :return x
         :timeout (timeouts/outcome options 'magnetar.erlang/call node timeout [node module function args])
         (throw (remote/failure node module function args end)))))))

(defn cast
  "Starts a function on another node, and returns :ok.

  Returns :ok also if the node cannot be connected. What the function returns or throws is lost.

  Blocks until the node is connected, at most for 14 s.

  Throws an ExceptionInfo if an argument has no term in Erlang, and an IllegalArgumentException if the node
  is not a string name@host, or the module or the function is not a keyword.

  Example:

    (erlang/cast \"stock@127.0.0.1\" :stock :refill [12]) ;=> :ok

  See also `call`.

  Erlang: erpc:cast/4."
  {:added "0.2" :erlang "erpc:cast/4"}
  [node module function args]
  (check-function "erlang/cast" node module function args)
  (proc-lib/in-process #(remote/cast node module function args))
  :ok)
