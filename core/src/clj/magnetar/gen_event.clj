(ns magnetar.gen-event
  "Event managers: servers that hand each event to handlers.

  Handlers may be added and removed while the manager runs.

    (ns my.tally)
    (defn init [n] [:ok n])
    (defn handle-event [event n] [:ok (inc n)])
    (defn handle-call [request n] [:ok n n])

    (let [[_ events] (ge/start-link)]
      (ge/add-handler events 'my.tally 0)
      (ge/sync-notify events :something)
      (ge/call events 'my.tally :count)) ;=> 1

  start     start start-link start-monitor
  handlers  add-handler add-sup-handler swap-handler swap-sup-handler delete-handler which-handlers
  events    notify sync-notify
  ask       call send-request; the functions of `magnetar.gen-server` take its answer
  stop      stop
  callback  return

  A handler is a callback module: a map of functions, a var that holds one, or the symbol of a namespace,
  whose vars are the callbacks. It may be [callback-module id], so that one module can be there several times.
  A handler is known by the symbol of the namespace or var, by the :name of the map, or by [that id]. init and
  handle-event are required; handle-call, handle-info, terminate, code-change and format-status are optional.

    (init argument)             [:ok s]; any other value is what add-handler returns, and there is no handler
    (handle-event event s)      [:ok s], :remove-handler, [:swap-handler argument s new-handler its-argument]
    (handle-info message s)     the same; for all other messages
    (handle-call request s)     [:ok answer s], [:remove-handler answer],
                                [:swap-handler answer argument s new-handler its-argument]
    (terminate why s)           why is one of:
                                  what delete-handler or a swap says
                                  :remove-handler, :stop
                                  [:stop reason] where the process that supervises the handler has ended
                                  [:error [:EXIT reason]] after a crash
                                  [:error x] after a wrong return
    (code-change old s extra)   [:ok s]

  After a state :hibernate is accepted; it has no effect. A handler that fails is removed and reported; the
  manager and the other handlers go on. Handlers run in the manager, one after the other, the one added last
  first. A slow handler delays all the others.

  If one process needs the events, send them to it. If any process may subscribe, `magnetar.pg` or a channel
  with `mult` is simpler. The names follow Erlang's module gen_event.

  Require it as `[magnetar.gen-event :as ge]`."
  (:require
   [magnetar.actor :as actor :refer [!]]
   [magnetar.gen-event.erlang :as erlang]
   [magnetar.gen-event.handlers :as handlers]
   [magnetar.gen-event.manager :as manager]
   [magnetar.gen-server.behaviour :as behaviour]
   [magnetar.gen-server.loop :as server]
   [magnetar.impl.actor.servers :as servers]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.otp.erlang :as otp-erlang]
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib])
  (:import
   (magnetar.impl.otp Return)))

(set! *warn-on-reflection* true)

;; ---- start

(def ^:private manager-behaviour
  (behaviour/behaviour manager/behaviour))

(defn- start-with [operation options how]
  (host/start operation 'magnetar.gen-event #(server/begin manager/kind manager-behaviour nil %1 %2) options how))

(defn start-link
  "Starts an event manager without handlers, linked to this process.

  The manager ends when this process does.

  Returns [:ok pid], or [:error [:already-started pid]] if the :name is taken.

  Options:
    :name, :timeout, :debug, :hosting, :spawn-opt  as in `magnetar.gen-server/start-link`

  Example:

    (ge/start-link {:name :events}) ;=> [:ok pid]

  Erlang: gen_event:start_link/0,1,2."
  {:erlang "gen_event:start_link/2"}
  ([] (start-link nil))
  ([options] (start-with "start-link" options {:link true})))

(defn start
  "Starts an event manager without a link.

  Like `start-link` in all else. It may be called outside of processes.

  Example:

    (ge/start) ;=> [:ok pid]

  Erlang: gen_event:start/0,1,2."
  {:erlang "gen_event:start/2"}
  ([] (start nil))
  ([options]
   (proc-lib/in-process #(start-with "start" options {}))))

(defn start-monitor
  "Starts an event manager without a link, and monitors it.

  Returns [:ok [pid reference]]; else what `start` returns.

  Example:

    (let [[_ [pid ref]] (ge/start-monitor)]
      (ge/stop pid)
      (receive [:DOWN ref :process _ reason] reason)) ;=> :normal

  Erlang: gen_event:start_monitor/0,1,2."
  {:erlang "gen_event:start_monitor/2"}
  ([] (start-monitor nil))
  ([options]
   (host/monitored (start-with "start-monitor" options {:keep-monitor true}))))

;; ---- handlers

(defn- ask
  "The answer of a manager that was found to the request, which is made of what the program called, [operation manager &
  arguments]."
  ([called found request] (ask called found request :infinity nil))
  ([[operation :as called] found request timeout options]
   (if (otp-erlang/there? found)
     (erlang/answered request (request/call-found called found (erlang/asked (name operation) request) timeout options))
     (request/call-found called found request timeout options))))

(defn- find-manager [manager]
  (request/found "call" manager))

(defn- handler-for
  "The handler as the manager that was found wants it. One of Erlang has its code there."
  [operation found handler]
  (if (or (nil? found) (otp-erlang/there? found))
    handler
    (handlers/spec operation handler)))

(defn- add [[operation manager handler argument :as called] supervisor]
  (let [found (find-manager manager)]
    (ask called found [:add-handler (handler-for (name operation) found handler) argument supervisor])))

(defn add-handler
  "Adds a handler to a manager and returns the outcome of its init.

  Several handlers of one callback module need ids. A handler of a manager on a node of Erlang is a keyword,
  the name of its module there, or [keyword id].

  Returns :ok, any other value that init returned, or [:EXIT reason] if init failed.

  Blocks until init has returned.

  Throws an IllegalArgumentException at once if the handler lacks a callback.

  Example:

    (ge/add-handler :events 'my.tally 0)        ;=> :ok
    (ge/add-handler :events ['my.tally :two] 0) ;=> :ok

  See also `add-sup-handler`, `delete-handler`.

  Erlang: gen_event:add_handler/3."
  {:erlang "gen_event:add_handler/3"}
  [manager handler argument]
  (add [`add-handler manager handler argument] nil))

(defn add-sup-handler
  "Adds a handler that is supervised by this process.

  Like `add-handler`, with the difference that manager and process are linked, and each learns of the other's
  end. When this process ends, the handler's terminate gets [:stop reason]. When the handler is removed, this
  process gets [:gen-event-EXIT handler why]. why is one of:

    :normal                     the handler was deleted, or removed itself
    :shutdown                   the manager ends
    [:swapped new-handler pid]  another handler has taken over
    [:EXIT reason]              the handler has crashed
    another value               the handler wrongly returned it

  Example:

    (ge/add-sup-handler :events 'my.tally 0) ;=> :ok

  Erlang: gen_event:add_sup_handler/3."
  {:erlang "gen_event:add_sup_handler/3"}
  [manager handler argument]
  (add [`add-sup-handler manager handler argument] (actor/self)))

(defn- swap [[operation manager old old-argument new new-argument :as called] supervisor]
  (let [operation (name operation)
        known-by (handlers/known-by operation old)
        found (find-manager manager)]
    (ask called found [:swap-handler known-by old-argument (handler-for operation found new) new-argument supervisor])))

(defn swap-handler
  "Removes an old handler and adds a new one that takes over.

  The old handler's terminate gets old-argument. The new handler's init gets [new-argument
  what-terminate-returned], or [new-argument :error] if there is no such old handler. The process that
  supervised the old handler supervises the new one.

  Returns :ok, or [:error x] if the init of the new handler returned x.

  Blocks until that init has returned.

  Example:

    (ge/swap-handler :events 'my.tally :swap 'my.better-tally nil) ;=> :ok

  Erlang: gen_event:swap_handler/3."
  {:erlang "gen_event:swap_handler/3"}
  [manager old old-argument new new-argument]
  (swap [`swap-handler manager old old-argument new new-argument] nil))

(defn swap-sup-handler
  "Removes an old handler and adds a new one that this process supervises.

  Like `swap-handler` in all else. See `add-sup-handler` for the supervision.

  Example:

    (ge/swap-sup-handler :events 'my.tally :swap 'my.better-tally nil) ;=> :ok

  Erlang: gen_event:swap_sup_handler/3."
  {:erlang "gen_event:swap_sup_handler/3"}
  [manager old old-argument new new-argument]
  (swap [`swap-sup-handler manager old old-argument new new-argument] (actor/self)))

(defn delete-handler
  "Removes a handler and returns what its terminate returned for the argument.

  Returns [:error :module-not-found] if there is no such handler.

  Blocks until terminate has returned.

  Example:

    (ge/delete-handler :events 'my.tally :bye)

  Erlang: gen_event:delete_handler/3."
  {:erlang "gen_event:delete_handler/3"}
  [manager handler argument]
  (let [known-by (handlers/known-by "delete-handler" handler)]
    (ask [`delete-handler manager handler argument] (find-manager manager) [:delete-handler known-by argument])))

(defn which-handlers
  "Returns what the handlers of a manager are known by, the one added last first.

  Example:

    (ge/which-handlers :events) ;=> [my.tally]

  Erlang: gen_event:which_handlers/1."
  {:erlang "gen_event:which_handlers/1"}
  [manager]
  (ask [`which-handlers manager] (find-manager manager) [:which-handlers]))

;; ---- events

(defn notify
  "Hands the event to all handlers of a manager without waiting, and returns :ok.

  Returns :ok also if there is no such manager.

  Example:

    (ge/notify :events [:user-added 7]) ;=> :ok

  See also `sync-notify`.

  Erlang: gen_event:notify/2."
  {:erlang "gen_event:notify/2"}
  [manager event]
  (when-some [found (servers/server "cast" manager)]
    (! found (if (otp-erlang/there? found) [:notify event] [:magnetar/cast event])))
  :ok)

(defn sync-notify
  "Hands the event to all handlers of a manager, and waits for them.

  So a producer is no faster than the handlers.

  Returns :ok.

  Blocks until all handlers have handled the event.

  Throws as `magnetar.gen-server/call` if the manager is dead.

  Example:

    (ge/sync-notify :events [:user-added 7]) ;=> :ok

  Erlang: gen_event:sync_notify/2."
  {:erlang "gen_event:sync_notify/2"}
  [manager event]
  (ask [`sync-notify manager event] (find-manager manager) [:sync-notify event]))

;; ---- ask

(defn call
  "Sends the request to a handler, waits for its answer and returns it.

  Returns an error where there is no answer:

    [:error :bad-module]      the manager has no such handler
    [:error :no-handle-call]  the handler has no handle-call
    [:error [:EXIT reason]]   the handler failed
    [:error x]                the handler wrongly returned x

  Blocks until the answer is there, at most for :timeout.

  Throws as `magnetar.gen-server/call`.

  Options:
    :timeout  how long to wait at most, a duration. Default 5000 ms
    :else     what to return when time runs out

  Example:

    (ge/call :events 'my.tally :count) ;=> 1

  Erlang: gen_event:call/3,4."
  {:erlang "gen_event:call/4"}
  ([manager handler request] (call manager handler request nil))
  ([manager handler request {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "call" [:timeout :else] options)
   (let [known-by (handlers/known-by "call" handler)]
     (ask [`call manager handler request timeout] (find-manager manager) [:call known-by request] timeout options))))

(defn send-request
  "Sends the request to a handler and returns a handle for its answer.

  Takes the same arguments as `call`; fails outside of processes. `magnetar.gen-server/wait-response`,
  `receive-response` or `check-response` takes the answer.

  Example:

    (gs/receive-response (ge/send-request :events 'my.tally :count)) ;=> [:reply 1]

  Erlang: gen_event:send_request/3."
  {:erlang "gen_event:send_request/3"}
  [manager handler request]
  (let [request [:call (handlers/known-by "send-request" handler) request]
        found (request/found "send-request" manager)]
    (request/send-request manager found (cond->> request (otp-erlang/there? found) (erlang/asked "send-request")))))

(defn return
  "Leaves the running callback at any depth, with this value as its return value.

  Works by a throw, so `finally` blocks run.

  Example:

    (defn handle-event [event n]
      (when (= 10 n) (ge/return :remove-handler))
      [:ok (inc n)])

  Erlang: throw/1 in a callback."
  {:erlang "erlang:throw/1"}
  [value]
  (throw (Return. value)))

(defn stop
  "Asks a manager to end, and waits until it has.

  The reason is :normal if none is given. The terminate of each handler gets :stop.

  Returns :ok.

  Blocks until the manager has ended, at most for :timeout.

  Throws as `magnetar.gen-server/stop`.

  Options:
    :timeout  how long to wait at most, a duration. Default :infinity

  Example:

    (ge/stop :events) ;=> :ok

  Erlang: gen_event:stop/1,3."
  {:erlang "gen_event:stop/3"}
  ([manager] (stop manager :normal nil))
  ([manager reason] (stop manager reason nil))
  ([manager reason options]
   (proc-lib/stop-as `stop manager reason options)))
