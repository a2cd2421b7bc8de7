(ns magnetar.gen-server
  "Servers: processes with a state, that answer calls and handle messages one at a time.

    (ns my.counter)
    (defn init [n] [:ok n])
    (defn handle-call [request from n] [:reply n n])
    (defn handle-cast [k n] [:noreply (+ n k)])

    (let [[:ok counter] (gs/start-link 'my.counter 0)]
      (gs/cast counter 5)
      (gs/call counter :get)) ;=> 5

  start     start start-link start-monitor enter-loop
  ask       call cast reply send-request wait-response receive-response check-response multi-call abcast
  stop      stop
  callback  return

  A behaviour is a map of functions, a var that holds one, or the symbol of a namespace whose vars are the callbacks. A server needs init,
  and handle-call and handle-cast for what it is asked: a call or a cast without its callback ends the server for
  the reason [:undef ..], as in Erlang. handle-info, handle-continue, terminate, code-change and format-status it may
  have. Redefine a var, and the next message is handled by what it is then.

    (init argument)                    [:ok s], [:stop why], [:error why] or :ignore
    (handle-call request from s)       [:reply v s], [:noreply s], [:stop why s], [:stop why v s]
    (handle-cast request s)            [:noreply s], [:stop why s]
    (handle-info message s)            as handle-cast; for all other messages, and :timeout
    (handle-continue x s)              as handle-cast; right after a callback that returned [:continue x]
    (terminate reason s)               at the end, but for exit signals that are not trapped
    (code-change old s extra)          [:ok s]
    (format-status status)             status, a map with :state :message :reason :log, as others may see it

  Behind a state in :ok, :reply and :noreply may stand a timeout, :hibernate or [:continue x].

  If you need no process, you need no server: a function, an atom or a lock is less. Names are those of Erlang's module gen_server."
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
   [magnetar.proc-lib :as proc-lib])
  (:import
   (magnetar.impl.otp Return)
   (magnetar.impl.otp.behaviour Behaviour)
   (magnetar.kernel.process LocalProcess)))

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
  "Starts a server, linked to this process, and waits until its init has returned: [:ok pid].

  [:error why] if init returned [:stop why] or [:error why] or failed, [:error [:already-started pid]] if the name is taken, :ignore if init
  returned that; then the process is dead, nothing of it is in the mailbox, and a caller that does not trap exits dies with it, unless its
  reason is :normal. Fails at once if `init` is missing, or a callback is misspelt. Options:

  :name       a keyword or symbol, [:global name], or [:via registry name], where a registry is a namespace or map with register-name,
              unregister-name and whereis-name
  :timeout    how long init may take; [:error :timeout] after that, and the server is killed
  :debug      a list of :trace, :statistics, :log or [:log n], see `magnetar.sys`
  :hosting    :threaded (the default), or :activated: while it waits for a message the server has no thread; the next message starts one
  :spawn-opt  options of `magnetar.actor/spawn-opt`, except :monitor
  :shed       {:target ms :interval ms}, 20 and 200 where they are left out: refuses calls that have waited for too long. While
              the shortest wait in the mailbox was above :target for an :interval, calls that have waited for twice the :target
              throw :magnetar/overloaded in their callers. A call whose caller has given up is dropped. `magnetar.sys/get-status`
              counts them. Requests of `send-request`, casts and messages are never refused. In Erlang: the library sbroker

    (gs/start-link 'my.counter 0 {:name :counter}) ;=> [:ok pid]

  In Erlang: gen_server:start_link/3,4."
  {:erlang "gen_server:start_link/4"}
  ([behaviour argument] (start-link behaviour argument nil))
  ([behaviour argument options]
   (start-with "start-link" behaviour argument options {:link true})))

(defn start
  "Like `start-link`, without a link: for a server that stands alone.

    (gs/start 'my.counter 0) ;=> [:ok pid]

  In Erlang: gen_server:start/3,4."
  {:erlang "gen_server:start/4"}
  ([behaviour argument] (start behaviour argument nil))
  ([behaviour argument options]
   (proc-lib/in-process #(start-with "start" behaviour argument options {}))))

(defn start-monitor
  "Like `start`, with a monitor: [:ok [pid reference]].

    (let [[:ok [pid ref]] (gs/start-monitor 'my.counter 0)] (receive [:DOWN ref :process _ why] why))

  In Erlang: gen_server:start_monitor/3,4."
  {:erlang "gen_server:start_monitor/4"}
  ([behaviour argument] (start-monitor behaviour argument nil))
  ([behaviour argument options]
   (host/monitored (start-with "start-monitor" behaviour argument options {:keep-monitor true}))))

(defn enter-loop
  "Makes this process, which `proc-lib` has started, a server with the state; never returns.

  Options: :name, a name that this process has, under which it is known in reports; :debug; and :action, what may
  stand behind the state of an init. Exits for :process-not-registered if the name is not its own.

    (proc-lib/start-link (fn [] (proc-lib/init-ack [:ok (self)]) (gs/enter-loop 'my.counter 0)))

  In Erlang: gen_server:enter_loop/3,4,5."
  {:erlang "gen_server:enter_loop/3"}
  ([behaviour state] (enter-loop behaviour state nil))
  ([behaviour state options]
   (arguments/options "enter-loop" [:name :debug :action] options)
   (debug/check-debug (:debug options))
   (names/check-name (:name options))
   (LocalProcess/require "enter-loop")
   (names/check-own (:name options))
   (server/enter (behaviour/behaviour behaviour) state options (proc-lib/parent))))

;; ---- ask

(defn call
  "Sends the request to a server and waits for the answer, which it returns.

  {:timeout ms} says how long, 5000 if left out; a late answer is dropped. If none comes in time, throws a magnetar.TimeoutException, whose
  :doing is what the server was about, or returns :else if that is given. Throws an ExceptionInfo with :reason and :call if the server dies
  (its reason), is dead or has no such name (:noproc), sheds the call (:overloaded, with :waited-ms), is this process (:calling-self), or waits
  for this process itself (:call-cycle). A process that dies of it has the reason [reason call], where call is [module function arguments].
  Outside of processes too.

    (gs/call :counter :get {:timeout 1000}) ;=> 5

  In Erlang: gen_server:call/2,3."
  {:erlang "gen_server:call/3"}
  ([server request] (request/call server request 5000 nil))
  ([server request {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "call" [:timeout :else] options)
   (request/call server request timeout options)))

(defn cast
  "Sends the request to a server, to be handled some time; returns :ok at once, also if there is no such server. In a dosync it is sent at the commit.

    (gs/cast :counter 5) ;=> :ok

  In Erlang: gen_server:cast/2."
  {:erlang "gen_server:cast/2"}
  [server request]
  (request/cast server request))

(defn reply
  "Answers the call that handle-call was given `from` of; from any process, then or later. Returns :ok.

  `from` is [pid tag]. An answer that is not waited for any more is dropped. If the tag never was an alias, as in a
  request that a program has made by hand, the process gets [tag value].

    (gs/reply from :done)

  In Erlang: gen_server:reply/2."
  {:erlang "gen_server:reply/2"}
  [from value]
  (request/reply from value))

(defn send-request
  "Sends the request to a server, as `call` does, and returns at once what `wait-response` takes the answer with.

    (let [a (gs/send-request s :a), b (gs/send-request s :b)]
      [(gs/wait-response a) (gs/wait-response b)])

  In Erlang: gen_server:send_request/2."
  {:erlang "gen_server:send_request/2"}
  [server request]
  (request/send-request server request))

(defn wait-response
  "Waits for the answer to a request of this process, once: [:reply value], or [:error [reason server]] if the server is dead.

  With {:timeout ms} it waits so long at most, and then throws a TimeoutException, or returns :else if that is given. The request stays,
  and may be waited for again; {:timeout 0 :else x} polls.

    (gs/wait-response request {:timeout 100}) ;=> [:reply 5]

  In Erlang: gen_server:wait_response/2."
  {:erlang "gen_server:wait_response/2"}
  ([request] (wait-response request nil))
  ([request {:keys [timeout] :or {timeout :infinity} :as options}]
   (arguments/options "wait-response" [:timeout :else] options)
   (request/wait-response request timeout options)))

(defn receive-response
  "Like `wait-response`, but after the time the request is given up, and its answer dropped.

    (gs/receive-response request {:timeout 100 :else :none}) ;=> :none

  In Erlang: gen_server:receive_response/2."
  {:erlang "gen_server:receive_response/2"}
  ([request] (receive-response request nil))
  ([request {:keys [timeout] :or {timeout :infinity} :as options}]
   (arguments/options "receive-response" [:timeout :else] options)
   (request/receive-response request timeout options)))

(defn check-response
  "What a message that this process has received is to a request: [:reply value] or [:error [reason server]]; nil if it is none of it.

    (receive message (gs/check-response message request))

  In Erlang: gen_server:check_response/2."
  {:erlang "gen_server:check_response/2"}
  [message request]
  (request/check-response message request))

(defn- here? [node]
  (= node (actor/node)))

(defn- check-nodes [operation nodes]
  (when-not (or (sequential? nodes) (set? nodes) (nil? nodes))
    (arguments/misuse :magnetar/bad-nodes (str "`" operation "` wants a list of nodes, as in [(node)]; this is " (arguments/show nodes) ".")
                      {:nodes nodes})))

(defn multi-call
  "Calls the servers of that name on the nodes, this one if left out: [[[node answer] ..] [node without ..]].

    (gs/multi-call [(node)] :counter :get) ;=> [[[\"nonode@nohost\" 5]] []]

  In Erlang: gen_server:multi_call/2,3,4."
  {:erlang "gen_server:multi_call/4"}
  ([server request] (multi-call [(actor/node)] server request nil))
  ([nodes server request] (multi-call nodes server request nil))
  ([nodes server request {:keys [timeout] :or {timeout :infinity} :as options}]
   (arguments/options "multi-call" [:timeout] options)
   (check-nodes "multi-call" nodes)
   (arguments/nanos :timeout timeout)
   (proc-lib/in-process
     #(let [requests (mapv (fn [node] [node (when (here? node) (send-request server request))]) nodes)
            answers (mapv (fn [[node sent]] [node (when sent (receive-response sent {:timeout timeout :else nil}))]) requests)
            good? (fn [[_ answer]] (and (vector? answer) (= :reply (first answer))))]
        [(mapv (fn [[node [_ value]]] [node value]) (filter good? answers))
         (mapv first (remove good? answers))]))))

(defn abcast
  "Casts to the servers of that name on the nodes, this one if left out; returns :abcast at once.

    (gs/abcast [(node)] :counter 5) ;=> :abcast

  In Erlang: gen_server:abcast/2,3."
  {:erlang "gen_server:abcast/3"}
  ([server request] (abcast [(actor/node)] server request))
  ([nodes server request]
   (check-nodes "abcast" nodes)
   (when (some here? nodes)
     (cast server request))
   :abcast))

(defn return
  "Leaves the callback that runs now, from however deep, with this as what it returns. Throws, so `finally` blocks run.

    (defn handle-call [request from s]
      (when-not (valid? request) (gs/return [:reply :invalid s]))
      ..)

  In Erlang: throw/1 in a callback."
  {:erlang "erlang:throw/1"}
  [value]
  (throw (Return. value)))

(defn stop
  "Asks a server to end for the reason, :normal if none is given, and waits until it has: :ok. Its terminate is called.

  {:timeout ms} says how long. Throws a TimeoutException if it takes longer, and an ExceptionInfo if there is no such server (:noproc), or if it ends for another
  reason than this.

    (gs/stop :counter) ;=> :ok

  In Erlang: gen_server:stop/1,3."
  {:erlang "gen_server:stop/3"}
  ([server] (stop server :normal nil))
  ([server reason] (stop server reason nil))
  ([server reason options]
   (proc-lib/stop server reason options)))
