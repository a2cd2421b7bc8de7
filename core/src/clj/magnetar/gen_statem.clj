(ns magnetar.gen-statem
  "State machines: servers whose handling of an event depends on a state.

  They may postpone events, and have time-outs of their own.

    (ns my.switch)
    (def callback-mode :state-functions)
    (defn init [n] [:ok :off n])
    (defn off [type content n] [:next-state :on (inc n)])
    (defn on [type content n]
      (match type
        :cast        [:next-state :off n]
        [:call from] [:keep-state n [:reply from n]]))

    (let [[_ switch] (statem/start-link 'my.switch 0)]
      (statem/cast switch :push)
      (statem/call switch :count)) ;=> 1

  start     start start-link start-monitor enter-loop
  ask       call cast reply send-request; the functions of `magnetar.gen-server` take the answers
  stop      stop
  callback  return
  data      machine mermaid

  A callback module is a map of functions, a var that holds one, or the symbol of a namespace, whose vars are
  the callbacks. init and callback-mode are required; terminate, code-change and format-status are optional.
  callback-mode is :state-functions or :handle-event-function, or a vector of one of these and :state-enter.
  State functions are vars named like the states; in a map they are the functions under :states.

    (init argument)                            [:ok state data], [:ok state data actions], [:stop why],
                                               [:error why] or :ignore
    (the-state type content data)              in the mode :state-functions
    (handle-event type content state data)     in the mode :handle-event-function, where a state is any value
    (terminate reason state data)              at the end; after an exit signal only if the machine traps
                                               exits, which init turns on with (actor/flag :trap-exit true)
    (code-change old state data extra)         [:ok state data]
    (format-status status)                     the map status, with :state and :data replaced by what reports
                                               and sys may show; it also has :message :reason :log :queue
                                               :postponed

  The type of an event is :cast, [:call from], :info (any other message), :internal, :timeout, :state-timeout
  or [:timeout name]. With :state-enter it is also :enter, when a state is entered; its content is the
  previous state, at the start the first state. State callbacks return

    [:next-state s d]  [:keep-state d]  :keep-state-and-data
                                        actions may follow: [:keep-state-and-data actions]
    [:repeat-state d]  :repeat-state-and-data
                                        the same, and the state is entered again
    :stop  [:stop why]  [:stop why d]  [:stop-and-reply why replies]  [:stop-and-reply why replies d]

  An action, or a list of them, where nil is the empty list:

    [:reply from value]             answers a call
    :postpone                       keeps the event until the state changes
    [:next-event type content]      inserts an event before all others
    [:state-timeout ms content]     starts a time-out, which a change of state stops
    [:timeout ms content], or ms    starts a time-out, which any other event stops
    [[:timeout name] ms content]    starts a named time-out, which a change of state does not stop. Starting
                                    it again replaces it
    [:change-callback-module m], [:push-callback-module m], :pop-callback-module
                                    as in OTP
    :hibernate                      is accepted and has no effect; see the option :hosting

  ms is a duration. :cancel instead of it, without content, stops a time-out; :update changes its content.
  States are compared by `=`. When the state changes, the new one is entered, and postponed events are
  retried. :repeat-state does not count as a change.

  Without states `magnetar.gen-server` is simpler. The names follow Erlang's module gen_statem.

  Require it as `[magnetar.gen-statem :as statem]`."
  (:refer-clojure :exclude [cast])
  (:require
   [magnetar.gen-statem.behaviour :as behaviour]
   [magnetar.gen-statem.loop :as loop]
   [magnetar.gen-statem.machine :as machine]
   [magnetar.gen-statem.mermaid :as mermaid]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.otp.debug :as debug]
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.otp.names :as names]
   [magnetar.impl.otp.reply :as reply]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib])
  (:import
   (magnetar.impl.otp Return)
   (magnetar.impl.otp.behaviour Behaviour)
   (magnetar.kernel.process LocalProcess)))

(set! *warn-on-reflection* true)

;; ---- start

(defn- start-with [operation behaviour argument options how]
  (let [^Behaviour behaviour (behaviour/behaviour behaviour)]
    (host/start operation (.-label behaviour) #(loop/begin behaviour argument %1 %2) options how)))

(defn start-link
  "Starts a state machine, linked to this process, and waits for its init.

  Does not wait for the :enter event of the first state.

  Returns what `magnetar.gen-server/start-link` returns, [:ok pid] if all is well.

  Blocks until init has returned, at most for :timeout.

  Options:
    :name, :timeout, :debug, :spawn-opt  as in `magnetar.gen-server/start-link`
    :hosting                             :threaded or :activated. Default :threaded. An :activated machine is
                                         passivated while idle: it has no thread, and keeps its time-outs

  Example:

    (statem/start-link 'my.switch 0 {:name :switch}) ;=> [:ok pid]

  Erlang: gen_statem:start_link/3,4."
  {:erlang "gen_statem:start_link/4"}
  ([callback-module argument] (start-link callback-module argument nil))
  ([callback-module argument options]
   (start-with "start-link" callback-module argument options {:link true})))

(defn start
  "Starts a state machine without a link and waits until its init has returned.

  Like `start-link` in all else. It may be called outside of processes.

  Example:

    (statem/start 'my.switch 0) ;=> [:ok pid]

  Erlang: gen_statem:start/3,4."
  {:erlang "gen_statem:start/4"}
  ([callback-module argument] (start callback-module argument nil))
  ([callback-module argument options]
   (proc-lib/in-process #(start-with "start" callback-module argument options {}))))

(defn start-monitor
  "Starts a state machine without a link, and monitors it.

  Returns [:ok [pid reference]]; else what `start` returns.

  Example:

    (let [[_ [pid ref]] (statem/start-monitor 'my.switch 0)]
      (statem/stop pid)
      (receive [:DOWN ref :process _ reason] reason)) ;=> :normal

  Erlang: gen_statem:start_monitor/3,4."
  {:erlang "gen_statem:start_monitor/4"}
  ([callback-module argument] (start-monitor callback-module argument nil))
  ([callback-module argument options]
   (host/monitored (start-with "start-monitor" callback-module argument options {:keep-monitor true}))))

(defn enter-loop
  "Makes this process, started by `proc-lib`, a machine with the state and data.

  Never returns. Exits for :process-not-registered if this process does not have the :name.

  Options:
    :name     a name that this process has; reports show it
    :debug    as in `magnetar.gen-server/start-link`
    :actions  actions, as in [:ok state data actions] of init

  Example:

    (proc-lib/start-link (fn [] (proc-lib/init-ack [:ok (self)]) (statem/enter-loop 'my.switch :off 0))) ;=> [:ok pid]

  Erlang: gen_statem:enter_loop/4,5,6."
  {:erlang "gen_statem:enter_loop/4"}
  ([callback-module state data] (enter-loop callback-module state data nil))
  ([callback-module state data options]
   (arguments/options "enter-loop" [:name :debug :actions] options)
   (debug/check-debug (:debug options))
   (names/check-name (:name options))
   (LocalProcess/require "enter-loop")
   (names/check-own (:name options))
   (loop/enter-loop (behaviour/behaviour callback-module) state data options (proc-lib/parent))))

;; ---- ask

(defn call
  "Sends the request to a machine, waits for the reply and returns it.

  The machine gets it as an event of the type [:call from].

  Blocks until the reply is there, at most for :timeout. The machine may postpone the event, so there is no
  limit by default.

  Throws as `magnetar.gen-server/call`.

  Options:
    :timeout  how long to wait at most, a duration. Default :infinity
    :else     what to return when time runs out

  Example:

    (statem/call :switch :count {:timeout 1000}) ;=> 1

  Erlang: gen_statem:call/2,3."
  {:erlang "gen_statem:call/3"}
  ([machine request] (call machine request nil))
  ([machine request {:keys [timeout] :or {timeout :infinity} :as options}]
   (arguments/options "call" [:timeout :else] options)
   (request/call `call machine request timeout options)))

(defn cast
  "Sends the request to a machine without waiting for it, and returns :ok.

  The machine gets it as an event of the type :cast. Returns :ok also if there is no such machine.

  Example:

    (statem/cast :switch :push) ;=> :ok

  Erlang: gen_statem:cast/2."
  {:erlang "gen_statem:cast/2"}
  [machine request]
  (request/cast machine request))

(defn reply
  "Answers the call that came as [:call from], and returns :ok.

  With one argument it carries out actions [:reply from value], one or a list. Any process may answer, during
  the callback or later. An answer that is not awaited any more is dropped.

  Example:

    (defn on [[_ from] request data]
      (statem/reply from :done)
      [:keep-state data])

  Erlang: gen_statem:reply/1,2."
  {:erlang "gen_statem:reply/2"}
  ([replies]
   (run! (fn [[_ from value]] (reply/reply from value)) (loop/checked-replies replies))
   :ok)
  ([from value]
   (request/reply from value)))

(defn send-request
  "Sends the request to a machine and returns a handle for its answer.

  Takes the same addresses as `call`; fails outside of processes. `magnetar.gen-server/wait-response`,
  `receive-response` or `check-response` takes the answer.

  Example:

    (gs/receive-response (statem/send-request :switch :count)) ;=> [:reply 1]

  Erlang: gen_statem:send_request/2."
  {:erlang "gen_statem:send_request/2"}
  [machine request]
  (request/send-request machine request))

(defn return
  "Leaves the running callback at any depth, with this value as its return value.

  Works by a throw, so `finally` blocks run.

  Example:

    (defn on [type content data]
      (when-not (valid? content) (statem/return [:next-state :failed data]))
      [:keep-state data])

  Erlang: throw/1 in a callback."
  {:erlang "erlang:throw/1"}
  [value]
  (throw (Return. value)))

(defn stop
  "Asks a machine to end, calling its terminate, and waits until it has.

  The reason is :normal if none is given.

  Returns :ok.

  Blocks until the machine has ended, at most for :timeout.

  Throws as `magnetar.gen-server/stop`.

  Options:
    :timeout  how long to wait at most, a duration. Default :infinity

  Example:

    (statem/stop :switch) ;=> :ok

  Erlang: gen_statem:stop/1,3."
  {:erlang "gen_statem:stop/3"}
  ([machine] (stop machine :normal nil))
  ([machine reason] (stop machine reason nil))
  ([machine reason options]
   (proc-lib/stop-as `stop machine reason options)))

;; ---- data

(defn machine
  "Returns the callback module of a state machine that is declared as data.

  It starts as any other callback module. The declaration is a map:

  :initial                           the first state
  :data                              the first data, or a function of the argument of the start. Default: the
                                     argument
  :states                            a map from states, any values, to maps with the keys below
  :on                                fallback transitions, used if the current state has none for the event
                                     whose :when holds
  :unexpected                        a callback as handle-event, for an event without a transition. By default
                                     a call is answered [:error [:unexpected-event content :in state]], and
                                     other events are reported
  :name, :terminate, :format-status  as in every callback module

  A state is a map:

  :on        a map from events to transitions
  :after     [ms transition], if nothing leads out of the state before
  :enter     (enter data) returns the data when the state is entered; not when a transition leads back to it
  :postpone  a set of events that wait for another state
  :final     true: the machine ends here, normally
  :label     its name in the diagram

  An event is a message, a cast or a call; its name is its content, or the first of a vector. A transition is
  the next state, a map, or a vector of maps. Of a vector the first map whose condition holds is taken:

  :to       the next state; without it the state stays, and is not entered again
  :when     (when data content) is the condition
  :do       (do data content) returns the new data
  :reply    (reply new-data content) returns the answer to a call; :ok if left out
  :actions  (actions new-data content) returns further actions
  :label    what the diagram says

  Throws an IllegalArgumentException if the declaration is wrong. The message says where the error is and what
  may have been meant.

  Example:

    (statem/start-link (statem/machine {:initial :off
                                        :states {:off {:on {:push :on}}, :on {:on {:push :off}}}})
                       nil)

  See also `mermaid`. XState has statecharts as data, too."
  [declaration]
  (machine/behaviour (machine/full declaration)))

(defn mermaid
  "Returns the state diagram of a machine declared as data, as text for Mermaid.

  Takes a declaration or what `machine` made of it. A function is shown by the name that it has in the source.
  A :label on the transition is clearer.

  Example:

    (println (statem/mermaid {:initial :off, :states {:off {:on {:push :on}}, :on {:on {:push :off}}}}))

  Erlang: no counterpart."
  [machine]
  (mermaid/diagram (machine/of machine)))
