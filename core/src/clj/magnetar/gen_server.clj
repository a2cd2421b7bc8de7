(ns magnetar.gen-server
  "Servers: processes with a state, which handle calls and messages one at a time.

    (ns my.counter)
    (defn init [n] [:ok n])
    (defn handle-call [request from n] [:reply n n])
    (defn handle-cast [k n] [:noreply (+ n k)])

    (let [[_ counter] (gs/start-link 'my.counter 0)]
      (gs/cast counter 5)
      (gs/call counter :get)) ;=> 5

  start     start start-link start-monitor enter-loop
  ask       call cast reply send-request wait-response receive-response check-response multi-call abcast
  stop      stop
  callback  return

  A callback module is a map of functions, a var that holds one, or the symbol of a namespace, whose vars are
  the callbacks. init is required. A call or a cast without its callback ends the server with the reason
  [:undef ..], as in Erlang. The callbacks handle-info, handle-continue, terminate, code-change and
  format-status are optional. If a callback's var is redefined, the next message is handled by the new
  definition.

    (init argument)                    [:ok s], [:stop why], [:error why] or :ignore
    (handle-call request from s)       [:reply v s], [:noreply s], [:stop why s], [:stop why v s]
    (handle-cast request s)            [:noreply s], [:stop why s]
    (handle-info message s)            as handle-cast; for all other messages, and :timeout
    (handle-continue x s)              as handle-cast; right after a callback that returned [:continue x]
    (terminate reason s)               at the end; after an exit signal only if the server traps exits, which
                                       init turns on with (actor/flag :trap-exit true)
    (code-change old s extra)          [:ok s]
    (format-status status)             the map status, with :state and :message replaced by what reports and
                                       sys may show; it also has :reason and :log

  After the state in :ok, :reply and :noreply a callback may add a timeout, [:continue x], or :hibernate,
  which has no effect. A nil there is a wrong return value.

  A state that needs no process needs no server: a function, an atom or a lock is simpler. The names follow
  Erlang's module gen_server.

  Require it as `[magnetar.gen-server :as gs]`."
  (:refer-clojure :exclude [cast])
  (:require
   [magnetar.actor :as actor]
   [magnetar.gen-server.behaviour :as behaviour]
   [magnetar.gen-server.loop :as server]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.otp.behaviour :as otp]
   [magnetar.impl.otp.debug :as debug]
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.otp.names :as names]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.scope :as scope])
  (:import
   (magnetar.impl.otp Return)
   (magnetar.impl.otp.behaviour Behaviour)
   (magnetar.kernel.process LocalProcess Peers)))

(set! *warn-on-reflection* true)

;; ---- start

(def ^:private options
  (conj host/options :shed))

(defn- shedding
  "The kind of a server that sheds."
  [^Behaviour behaviour {:keys [target interval] :or {target 20 interval 200} :as shed}]
  (arguments/options ":shed" [:target :interval] shed)
  (when-not (.-handle-call behaviour)
    (otp/missing (.-kind behaviour) (.-label behaviour) (.-source behaviour) :handle-call))
  (server/shedding {:target (arguments/period :target target) :interval (arguments/period :interval interval)}))

(defn- start-with [operation behaviour argument {:keys [shed] :as given} how]
  (arguments/options operation options given)
  (let [^Behaviour behaviour (behaviour/behaviour behaviour)
        kind (if (nil? shed) server/kind (shedding behaviour shed))]
    (host/start operation (.-label behaviour) #(server/begin kind behaviour argument %1 %2) (dissoc given :shed) how)))

(defn start-link
  "Starts a server, linked to this process, and waits until its init has returned.

  Returns [:ok pid], or without a server one of these values:

    [:error why]                     init returned [:stop why] or [:error why], or failed
    [:error [:already-started pid]]  the name is taken
    [:error :timeout]                init took longer than :timeout, and the server was killed
    :ignore                          init returned :ignore

  The process is dead then, and nothing of it stays in the mailbox. A caller that does not trap exits dies
  with it, unless its reason is :normal.

  Blocks until init has returned, at most for :timeout.

  Throws an IllegalArgumentException at once if init is missing, or a callback or an option is misspelt.

  Options:
    :name       a keyword or symbol, [:global name], or [:via registry name]. A registry is a namespace or map
                with register-name, unregister-name and whereis-name
    :timeout    how long init may take, a duration. Default :infinity
    :debug      a list of :trace, :statistics, :log or [:log n], see `magnetar.sys`
    :hosting    :threaded or :activated. Default :threaded. An :activated server is passivated while idle: it
                has no thread, and keeps its state and timeouts
    :spawn-opt  options of `magnetar.actor/spawn-opt`, except :monitor and :name
    :shed       {:target duration :interval duration}: refuses calls that have waited for too long. Without
                :shed no call is refused. In the map, :target is by default 20 ms and :interval 200 ms

  A server with :shed is overloaded once the shortest wait in its mailbox was above :target for an :interval.
  Calls that have waited for twice the :target then throw :magnetar/overloaded in their callers. A call whose
  caller has given up is dropped. `magnetar.sys/get-status` counts both. Requests of `send-request`, casts and
  messages are never refused. (Erlang has the library sbroker for this.)

  Example:

    (gs/start-link 'my.counter 0 {:name :counter}) ;=> [:ok pid]

  See also `start`, `start-monitor`, `magnetar.supervisor`.

  Erlang: gen_server:start_link/3,4."
  {:erlang "gen_server:start_link/4"}
  ([callback-module argument] (start-link callback-module argument nil))
  ([callback-module argument options]
   (start-with "start-link" callback-module argument options {:link true})))

(defn start
  "Starts a server without a link and waits until its init has returned.

  Like `start-link` in all else. It may be called outside of processes.

  Example:

    (gs/start 'my.counter 0) ;=> [:ok pid]

  Erlang: gen_server:start/3,4."
  {:erlang "gen_server:start/4"}
  ([callback-module argument] (start callback-module argument nil))
  ([callback-module argument options]
   (proc-lib/in-process #(start-with "start" callback-module argument options {}))))

(defn start-monitor
  "Starts a server without a link, and monitors it.

  Returns [:ok [pid reference]]; else what `start` returns.

  Example:

    (let [[_ [pid ref]] (gs/start-monitor 'my.counter 0)]
      (gs/stop pid)
      (receive [:DOWN ref :process _ reason] reason)) ;=> :normal

  Erlang: gen_server:start_monitor/3,4."
  {:erlang "gen_server:start_monitor/4"}
  ([callback-module argument] (start-monitor callback-module argument nil))
  ([callback-module argument options]
   (host/monitored (start-with "start-monitor" callback-module argument options {:keep-monitor true}))))

(defn enter-loop
  "Makes this process, which `proc-lib` has started, a server with the state.

  Never returns. Exits for :process-not-registered if this process does not have the :name.

  Options:
    :name    a name that this process has; reports show it
    :debug   as in `start-link`
    :action  an action, as in [:ok state action] of init

  Example:

    (proc-lib/start-link (fn [] (proc-lib/init-ack [:ok (self)]) (gs/enter-loop 'my.counter 0))) ;=> [:ok pid]

  Erlang: gen_server:enter_loop/3,4,5."
  {:erlang "gen_server:enter_loop/3"}
  ([callback-module state] (enter-loop callback-module state nil))
  ([callback-module state options]
   (arguments/options "enter-loop" [:name :debug :action] options)
   (debug/check-debug (:debug options))
   (names/check-name (:name options))
   (LocalProcess/require "enter-loop")
   (names/check-own (:name options))
   (server/enter (behaviour/behaviour callback-module) state options (proc-lib/parent))))

;; ---- ask

(defn call
  "Sends the request to a server, waits for the answer and returns it.

  A thread that is not a process becomes one for the time of the call. A late answer is dropped.

  Blocks until the answer is there, at most for :timeout.

  Throws a magnetar.TimeoutException when time runs out and there is no :else. Its :doing says what the server
  was doing. Throws an ExceptionInfo with :reason and :call if the call fails, with one of these reasons:

    the server's reason  the server has died meanwhile
    :noproc              the server is dead, or no process has the name
    :overloaded          the server sheds the call; :waited-ms says how long it had waited
    :calling-self        the server is this process
    [:call-cycle pids]   the server waits for this process, directly or through others

  A process that does not catch the exception exits with the reason [reason call], where call is [module
  function arguments].

  Cancellation: cancelled or interrupted, it throws; the server may handle the request all the same.

  Options:
    :timeout  how long to wait at most, a duration. Default 5000 ms
    :else     what to return when time runs out

  Example:

    (gs/call :counter :get {:timeout 1000}) ;=> 5

  See also `cast`, `send-request`, `reply`.

  Erlang: gen_server:call/2,3."
  {:erlang "gen_server:call/3"}
  ([server request] (request/call server request 5000 nil))
  ([server request {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "call" [:timeout :else] options)
   (request/call server request timeout options)))

(defn cast
  "Sends the request to a server without waiting for it, and returns :ok.

  Returns :ok also if there is no such server. In a dosync the request is sent at the commit.

  Example:

    (gs/cast :counter 5) ;=> :ok

  Erlang: gen_server:cast/2."
  {:erlang "gen_server:cast/2"}
  [server request]
  (request/cast server request))

(defn reply
  "Answers the call whose handle-call was given `from`, and returns :ok.

  Any process may answer, during the callback or later. `from` is [pid tag]. An answer that is not awaited any
  more is dropped. A request that a program made by hand may have a tag that never was an alias. Then the
  process gets [tag value].

  Example:

    (defn handle-call [request from s]
      (gs/reply from :done)
      [:noreply s])

  Erlang: gen_server:reply/2."
  {:erlang "gen_server:reply/2"}
  [from value]
  (request/reply from value))

(defn send-request
  "Sends the request to a server and returns a handle for its answer.

  Takes the same addresses as `call`; fails outside of processes. `wait-response`, `receive-response` or
  `check-response` takes the answer.

  Example:

    (let [a (gs/send-request s :a), b (gs/send-request s :b)]
      [(gs/wait-response a) (gs/wait-response b)])

  Erlang: gen_server:send_request/2."
  {:erlang "gen_server:send_request/2"}
  [server request]
  (request/send-request server request))

(defn wait-response
  "Waits for the answer to a request of this process, which is handed out once.

  Returns [:reply value], or [:error [reason server]] if the server is dead.

  Blocks until the answer is there, at most for :timeout.

  Throws a magnetar.TimeoutException when time runs out and there is no :else. The request stays, and may be
  waited for again.

  Options:
    :timeout  how long to wait at most, a duration. Default :infinity
    :else     what to return when time runs out; {:timeout 0 :else x} polls

  Example:

    (gs/wait-response request {:timeout 100}) ;=> [:reply 5]

  See also `receive-response`, `check-response`.

  Erlang: gen_server:wait_response/2."
  {:erlang "gen_server:wait_response/2"}
  ([request] (wait-response request nil))
  ([request {:keys [timeout] :or {timeout :infinity} :as options}]
   (arguments/options "wait-response" [:timeout :else] options)
   (request/wait-response request timeout options)))

(defn receive-response
  "Waits for the answer to a request of this process, and gives it up in the end.

  Like `wait-response`, except that after :timeout the request is given up and its answer dropped.

  Example:

    (gs/receive-response request {:timeout 100 :else :none}) ;=> :none

  Erlang: gen_server:receive_response/2."
  {:erlang "gen_server:receive_response/2"}
  ([request] (receive-response request nil))
  ([request {:keys [timeout] :or {timeout :infinity} :as options}]
   (arguments/options "receive-response" [:timeout :else] options)
   (request/receive-response request timeout options)))

(defn check-response
  "Returns the answer to the request if the received message is that, else nil.

  Returns [:reply value], or [:error [reason server]] if the server is dead. Never waits.

  Example:

    (receive message (gs/check-response message request))

  Erlang: gen_server:check_response/2."
  {:erlang "gen_server:check_response/2"}
  [message request]
  (request/check-response message request))

(defn- on
  "The address of the server with this name on the node."
  [server node]
  (if (= node (actor/node)) server [server node]))

(defn- check-nodes [operation nodes]
  (when-not (or (sequential? nodes) (set? nodes) (nil? nodes))
    (arguments/misuse :magnetar/bad-nodes (str "`" operation "` wants a list of nodes, as in [(node)]; this is " (arguments/show nodes) ".")
                      {:nodes nodes})))

(defn- connect
  "Connects the nodes, all at the same time, since one that does not answer takes seconds."
  [nodes]
  (let [away (into #{} (filter #(and (string? %) (not= % (actor/node)) (nil? (Peers/connected ^String %)))) nodes)]
    (when (next away) ; the send to a single one connects it
      (scope/with-scope [s]
        (run! (fn [^String node] (scope/fork s #(Peers/reach node))) away)))))

(defn multi-call
  "Calls the servers with this name on the nodes, by default on this node.

  Returns [[[node answer] ..] [node ..]]: the answers, and the nodes that gave none.

  Blocks until the nodes are connected, or cannot be, all at the same time. Then until all have answered, at
  most for :timeout.

  Options:
    :timeout  how long to wait for each answer at most, a duration. Default :infinity

  Example:

    (gs/multi-call [(actor/node)] :counter :get) ;=> [[[\"nonode@nohost\" 5]] []]

  Erlang: gen_server:multi_call/2,3,4."
  {:erlang "gen_server:multi_call/4"}
  ([server request] (multi-call [(actor/node)] server request nil))
  ([nodes server request] (multi-call nodes server request nil))
  ([nodes server request {:keys [timeout] :or {timeout :infinity} :as options}]
   (arguments/options "multi-call" [:timeout] options)
   (check-nodes "multi-call" nodes)
   (arguments/nanos :timeout timeout)
   (proc-lib/in-process
     #(let [_ (connect nodes)
            requests (mapv (fn [node] [node (send-request (on server node) request)]) nodes)
            answers (mapv (fn [[node sent]] [node (when sent (receive-response sent {:timeout timeout :else nil}))]) requests)
            good? (fn [[_ answer]] (and (vector? answer) (= :reply (first answer))))]
        [(mapv (fn [[node [_ value]]] [node value]) (filter good? answers))
         (mapv first (remove good? answers))]))))

(defn abcast
  "Casts to the servers with this name on the nodes, by default on this node.

  Returns :abcast. No server answers.

  Blocks until the nodes are connected, or cannot be, all at the same time.

  Example:

    (gs/abcast [(actor/node)] :counter 5) ;=> :abcast

  Erlang: gen_server:abcast/2,3."
  {:erlang "gen_server:abcast/3"}
  ([server request] (abcast [(actor/node)] server request))
  ([nodes server request]
   (check-nodes "abcast" nodes)
   (connect nodes)
   (run! #(cast (on server %) request) nodes)
   :abcast))

(defn return
  "Leaves the running callback at any depth, with this value as its return value.

  Works by a throw, so `finally` blocks run.

  Example:

    (defn handle-call [request from s]
      (when-not (valid? request) (gs/return [:reply :invalid s]))
      [:reply (answer request) s])

  Erlang: throw/1 in a callback."
  {:erlang "erlang:throw/1"}
  [value]
  (throw (Return. value)))

(defn stop
  "Asks a server to end, calling its terminate, and waits until it has.

  The reason is :normal if none is given.

  Returns :ok.

  Blocks until the server has ended, at most for :timeout.

  Throws a magnetar.TimeoutException if it takes longer. The server goes on then, and no :else hides it.
  Throws an ExceptionInfo if there is no such server (:noproc), or if it ends for another reason.

  Options:
    :timeout  how long to wait at most, a duration. Default :infinity

  Example:

    (gs/stop :counter) ;=> :ok

  Erlang: gen_server:stop/1,3."
  {:erlang "gen_server:stop/3"}
  ([server] (stop server :normal nil))
  ([server reason] (stop server reason nil))
  ([server reason options]
   (proc-lib/stop-as `stop server reason options)))
