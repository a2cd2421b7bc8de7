(ns magnetar.gen-event
  "Event managers: servers that hand each event to handlers, which come and go while they run.

    (ns my.counter)
    (defn init [n] [:ok n])
    (defn handle-event [event n] [:ok (inc n)])
    (defn handle-call [request n] [:ok n n])

    (let [[_ events] (ge/start-link)]
      (ge/add-handler events 'my.counter 0)
      (ge/sync-notify events :something)
      (ge/call events 'my.counter :count)) ;=> 1

  start     start start-link start-monitor
  handlers  add-handler add-sup-handler swap-handler swap-sup-handler delete-handler which-handlers
  events    notify sync-notify
  ask       call send-request; its answer is taken with those of `magnetar.gen-server`
  stop      stop
  callback  return

  A handler is a behaviour, a map of functions, a var that holds one, or the symbol of a namespace whose vars are the callbacks; or [behaviour
  id], where there are several of one. It is known by the symbol of the namespace or the var, or the :name of the map, or [that id]. It has init
  and handle-event; handle-call, handle-info, terminate, code-change and format-status it may have.

    (init argument)             [:ok s]; whatever else is returned is what add-handler returns, and there is no handler
    (handle-event event s)      [:ok s], :remove-handler, [:swap-handler argument s new-handler its-argument]
    (handle-info message s)     the same; for all other messages
    (handle-call request s)     [:ok answer s], [:remove-handler answer], [:swap-handler answer argument s new-handler its-argument]
    (terminate why s)           why is what delete-handler or a swap says, :remove-handler, :stop, [:stop reason] where the process that
                                supervises it has ended, [:error [:EXIT reason]] after a crash, [:error x] after a wrong return
    (code-change old s extra)   [:ok s]

  Behind a state may stand :hibernate. A handler that fails is removed and reported; the manager and the others go on. Handlers run in the
  manager, one after the other, the one added last first: one that is slow keeps all waiting.

  If one process is to hear of events, send them to it; where any may subscribe, `magnetar.pg` or a channel with `mult` is less. Names are
  those of Erlang's module gen_event."
  (:require
   [magnetar.actor :as actor]
   [magnetar.gen-event.handlers :as handlers]
   [magnetar.gen-event.manager :as manager]
   [magnetar.gen-server.behaviour :as behaviour]
   [magnetar.gen-server.loop :as server]
   [magnetar.impl.arguments :as arguments]
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
  "Starts an event manager without handlers, linked to this process: [:ok pid].

  Options are those of `magnetar.gen-server/start-link`; [:error [:already-started pid]] if the :name is taken. When this process ends, so does
  the manager.

    (ge/start-link {:name :events}) ;=> [:ok pid]

  In Erlang: gen_event:start_link/0,1,2."
  {:erlang "gen_event:start_link/2"}
  ([] (start-link nil))
  ([options] (start-with "start-link" options {:link true})))

(defn start
  "Like `start-link`, without a link: for a manager that stands alone.

    (ge/start) ;=> [:ok pid]

  In Erlang: gen_event:start/0,1,2."
  {:erlang "gen_event:start/2"}
  ([] (start nil))
  ([options]
   (proc-lib/in-process #(start-with "start" options {}))))

(defn start-monitor
  "Like `start`, with a monitor: [:ok [pid reference]].

    (let [[:ok [pid ref]] (ge/start-monitor)] (receive [:DOWN ref :process _ why] why))

  In Erlang: gen_event:start_monitor/0,1,2."
  {:erlang "gen_event:start_monitor/2"}
  ([] (start-monitor nil))
  ([options]
   (host/monitored (start-with "start-monitor" options {:keep-monitor true}))))

;; ---- handlers

(defn- ask
  ([manager request] (ask manager request 5000 nil))
  ([manager request timeout options]
   (request/call 'magnetar.gen-event/call manager request timeout options)))

(defn add-handler
  "Adds a handler to a manager, and returns what came of its init: :ok, what else it returned, or [:EXIT reason] if it failed.

  A handler that lacks a callback is refused at once. Handlers of one behaviour may be there several times; give them ids.

    (ge/add-handler :events 'my.counter 0)        ;=> :ok
    (ge/add-handler :events ['my.counter :two] 0) ;=> :ok

  In Erlang: gen_event:add_handler/3."
  {:erlang "gen_event:add_handler/3"}
  [manager handler argument]
  (ask manager [:add-handler (handlers/spec "add-handler" handler) argument nil] :infinity nil))

(defn add-sup-handler
  "Like `add-handler`, but the handler goes with this process, and this process hears of its end.

  When this process ends, the handler's terminate gets [:stop reason]. When the handler is removed, this process gets [:gen-event-EXIT handler
  why]: :normal, :shutdown where the manager ends, [:swapped new-handler pid], [:EXIT reason] after a crash, or what it wrongly returned.
  Manager and process are linked.

    (ge/add-sup-handler :events 'my.counter 0) ;=> :ok

  In Erlang: gen_event:add_sup_handler/3."
  {:erlang "gen_event:add_sup_handler/3"}
  [manager handler argument]
  (ask manager [:add-handler (handlers/spec "add-sup-handler" handler) argument (actor/self)] :infinity nil))

(defn- swap [operation manager old old-argument new new-argument supervisor]
  (ask manager [:swap-handler (handlers/known-by operation old) old-argument (handlers/spec operation new) new-argument supervisor] :infinity nil))

(defn swap-handler
  "Removes an old handler and adds a new one that takes over: :ok, or [:error x] if the init of the new one returned x.

  The old one's terminate gets old-argument; the new one's init gets [new-argument what-terminate-returned], or [new-argument :error] if there
  is no such handler. Whoever supervised the old one supervises the new one.

    (ge/swap-handler :events 'my.counter :swap 'my.better-counter nil) ;=> :ok

  In Erlang: gen_event:swap_handler/3."
  {:erlang "gen_event:swap_handler/3"}
  [manager old old-argument new new-argument]
  (swap "swap-handler" manager old old-argument new new-argument nil))

(defn swap-sup-handler
  "Like `swap-handler`, and the new handler is supervised by this process, as by `add-sup-handler`.

    (ge/swap-sup-handler :events 'my.counter :swap 'my.better-counter nil) ;=> :ok

  In Erlang: gen_event:swap_sup_handler/3."
  {:erlang "gen_event:swap_sup_handler/3"}
  [manager old old-argument new new-argument]
  (swap "swap-sup-handler" manager old old-argument new new-argument (actor/self)))

(defn delete-handler
  "Removes a handler; returns what its terminate, which gets the argument, returned; [:error :module-not-found] if it is not there.

    (ge/delete-handler :events 'my.counter :bye)

  In Erlang: gen_event:delete_handler/3."
  {:erlang "gen_event:delete_handler/3"}
  [manager handler argument]
  (ask manager [:delete-handler (handlers/known-by "delete-handler" handler) argument] :infinity nil))

(defn which-handlers
  "What the handlers of a manager are known by, the one that was added last first.

    (ge/which-handlers :events) ;=> [my.counter]

  In Erlang: gen_event:which_handlers/1."
  {:erlang "gen_event:which_handlers/1"}
  [manager]
  (ask manager [:which-handlers] :infinity nil))

;; ---- events

(defn notify
  "Hands the event to all handlers of a manager some time; returns :ok at once, also if there is no such manager.

    (ge/notify :events [:user-added 7]) ;=> :ok

  In Erlang: gen_event:notify/2."
  {:erlang "gen_event:notify/2"}
  [manager event]
  (request/cast manager event))

(defn sync-notify
  "Hands the event to all handlers of a manager; returns :ok when all have handled it.

  Throws as `magnetar.gen-server/call` does if the manager is dead. So a producer goes no faster than the handlers.

    (ge/sync-notify :events [:user-added 7]) ;=> :ok

  In Erlang: gen_event:sync_notify/2."
  {:erlang "gen_event:sync_notify/2"}
  [manager event]
  (ask manager [:sync-notify event] :infinity nil))

;; ---- ask

(defn call
  "Asks a handler, and returns its answer; [:error :bad-module] if it is not there, [:error :no-handle-call] if it does not answer at all,
  [:error [:EXIT reason]] if it failed, [:error x] if it wrongly returned x.

  {:timeout ms} says how long, 5000 if left out. Throws, and takes :else, as `magnetar.gen-server/call` does.

    (ge/call :events 'my.counter :count) ;=> 1

  In Erlang: gen_event:call/3,4."
  {:erlang "gen_event:call/4"}
  ([manager handler request] (call manager handler request nil))
  ([manager handler request {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "call" [:timeout :else] options)
   (ask manager [:call (handlers/known-by "call" handler) request] timeout options)))

(defn send-request
  "Asks a handler, as `call` does, and returns at once what `magnetar.gen-server/wait-response` and its like take the answer with.

    (gs/receive-response (ge/send-request :events 'my.counter :count)) ;=> [:reply 1]

  In Erlang: gen_event:send_request/3."
  {:erlang "gen_event:send_request/3"}
  [manager handler request]
  (request/send-request manager [:call (handlers/known-by "send-request" handler) request]))

(defn return
  "Leaves the callback that runs now, from however deep, with this as what it returns. Throws, so `finally` blocks run.

    (ge/return :remove-handler)

  In Erlang: throw/1 in a callback."
  {:erlang "erlang:throw/1"}
  [value]
  (throw (Return. value)))

(defn stop
  "Asks a manager to end for the reason, :normal if none is given, and waits until it has: :ok. The terminate of each handler gets :stop.

  {:timeout ms} says how long. Throws as `magnetar.gen-server/stop` does.

    (ge/stop :events) ;=> :ok

  In Erlang: gen_event:stop/1,3."
  {:erlang "gen_event:stop/3"}
  ([manager] (stop manager :normal nil))
  ([manager reason] (stop manager reason nil))
  ([manager reason options]
   (proc-lib/stop manager reason options)))
