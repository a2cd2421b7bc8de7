(ns magnetar.gen-statem
  "State machines: servers whose behaviour depends on a state, which may postpone events, and have timeouts of their own.

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
  ask       call cast reply send-request; the answers are taken with those of `magnetar.gen-server`
  stop      stop
  callback  return
  data      machine mermaid

  A behaviour is a map of functions, a var that holds one, or the symbol of a namespace whose vars are the callbacks. It has init and
  callback-mode; terminate, code-change and format-status it may have. callback-mode is :state-functions or :handle-event-function, or a
  vector of one of these and :state-enter. State functions are vars named like the states, or in a map the functions under :states.

    (init argument)                            [:ok state data], [:ok state data actions], [:stop why], [:error why] or :ignore
    (the-state type content data)              in the mode :state-functions
    (handle-event type content state data)     in the mode :handle-event-function, where a state is any value
    (terminate reason state data)              at the end, but for exit signals that are not trapped
    (code-change old state data extra)         [:ok state data]
    (format-status status)                     status, a map with :state :data :message :reason :log :queue :postponed, as others may see it

  The type of an event is :cast, [:call from], :info (any other message), :internal, :timeout, :state-timeout or [:timeout name]; with
  :state-enter also :enter, whose content is the old state, when a state is entered. State callbacks return

    [:next-state s d]  [:keep-state d]  :keep-state-and-data      each with actions behind: [:keep-state-and-data actions]
    [:repeat-state d]  :repeat-state-and-data                     the same, and the state is entered again
    :stop  [:stop why]  [:stop why d]  [:stop-and-reply why replies]  [:stop-and-reply why replies d]

  An action, or a list of them:

    [:reply from value]             answers a call
    :postpone                       the event is retried when the state has changed
    [:next-event type content]      an event before all others
    [:state-timeout ms content]     an event :state-timeout, unless the state changes before
    [:timeout ms content], or ms    an event :timeout, unless any event comes before
    [[:timeout name] ms content]    an event [:timeout name]
    :hibernate, [:change-callback-module m], [:push-callback-module m], :pop-callback-module

  :cancel instead of ms, without content, stops a timeout; :update changes its content. A state is left and another one entered where
  they are not `=`; then postponed events are retried.

  If you have no states, you need no state machine: `magnetar.gen-server` is less. Names are those of Erlang's module gen_statem."
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
  "Starts a state machine, linked to this process, and waits until its init has returned: [:ok pid].

  Options and outcomes are those of `magnetar.gen-server/start-link`; so is {:hosting :activated}: a machine that waits, also for a timeout,
  has no thread. The first state is entered after this has returned.

    (statem/start-link 'my.switch 0 {:name :switch}) ;=> [:ok pid]

  In Erlang: gen_statem:start_link/3,4."
  {:erlang "gen_statem:start_link/4"}
  ([behaviour argument] (start-link behaviour argument nil))
  ([behaviour argument options]
   (start-with "start-link" behaviour argument options {:link true})))

(defn start
  "Like `start-link`, without a link: for a machine that stands alone.

    (statem/start 'my.switch 0) ;=> [:ok pid]

  In Erlang: gen_statem:start/3,4."
  {:erlang "gen_statem:start/4"}
  ([behaviour argument] (start behaviour argument nil))
  ([behaviour argument options]
   (proc-lib/in-process #(start-with "start" behaviour argument options {}))))

(defn start-monitor
  "Like `start`, with a monitor: [:ok [pid reference]].

    (let [[:ok [pid ref]] (statem/start-monitor 'my.switch 0)] (receive [:DOWN ref :process _ why] why))

  In Erlang: gen_statem:start_monitor/3,4."
  {:erlang "gen_statem:start_monitor/4"}
  ([behaviour argument] (start-monitor behaviour argument nil))
  ([behaviour argument options]
   (host/monitored (start-with "start-monitor" behaviour argument options {:keep-monitor true}))))

(defn enter-loop
  "Makes this process, which `proc-lib` has started, a state machine with the state and the data; never returns.

  Options: :name, a name that this process has, under which it is known in reports; :debug; and :actions, as behind
  an init. Exits for :process-not-registered if the name is not its own.

    (proc-lib/start-link (fn [] (proc-lib/init-ack [:ok (self)]) (statem/enter-loop 'my.switch :off 0)))

  In Erlang: gen_statem:enter_loop/4,5,6."
  {:erlang "gen_statem:enter_loop/4"}
  ([behaviour state data] (enter-loop behaviour state data nil))
  ([behaviour state data options]
   (arguments/options "enter-loop" [:name :debug :actions] options)
   (debug/check-debug (:debug options))
   (names/check-name (:name options))
   (LocalProcess/require "enter-loop")
   (names/check-own (:name options))
   (loop/enter-loop (behaviour/behaviour behaviour) state data options (proc-lib/parent))))

;; ---- ask

(defn call
  "Sends the request to a machine, where it is an event [:call from], and waits for the reply, which it returns.

  As long as it takes, since the machine may postpone the event; {:timeout ms} says how long. Throws, and takes :else, as
  `magnetar.gen-server/call` does.

    (statem/call :switch :count {:timeout 1000}) ;=> 1

  In Erlang: gen_statem:call/2,3."
  {:erlang "gen_statem:call/3"}
  ([machine request] (call machine request nil))
  ([machine request {:keys [timeout] :or {timeout :infinity} :as options}]
   (arguments/options "call" [:timeout :else] options)
   (request/call `call machine request timeout options)))

(defn cast
  "Sends the request to a machine, where it is an event :cast; returns :ok at once, also if there is no such machine.

    (statem/cast :switch :push) ;=> :ok

  In Erlang: gen_statem:cast/2."
  {:erlang "gen_statem:cast/2"}
  [machine request]
  (request/cast machine request))

(defn reply
  "Answers the call that came as [:call from], or does what the actions [:reply from value], one or a list, say; returns :ok.

  From any process, then or later. If nobody waits any more it is dropped.

    (statem/reply from :done)

  In Erlang: gen_statem:reply/1,2."
  {:erlang "gen_statem:reply/2"}
  ([replies]
   (run! (fn [[_ from value]] (reply/reply from value)) (loop/checked-replies replies))
   :ok)
  ([from value]
   (request/reply from value)))

(defn send-request
  "Sends the request to a machine, as `call` does, and returns at once what `magnetar.gen-server/wait-response`, `receive-response` and
  `check-response` take the answer with.

    (gs/receive-response (statem/send-request :switch :count)) ;=> [:reply 1]

  In Erlang: gen_statem:send_request/2."
  {:erlang "gen_statem:send_request/2"}
  [machine request]
  (request/send-request machine request))

(defn return
  "Leaves the callback that runs now, from however deep, with this as what it returns. Throws, so `finally` blocks run.

    (statem/return [:next-state :failed data])

  In Erlang: throw/1 in a callback."
  {:erlang "erlang:throw/1"}
  [value]
  (throw (Return. value)))

(defn stop
  "Asks a machine to end for the reason, :normal if none is given, and waits until it has: :ok. Its terminate is called.

  {:timeout ms} says how long. Throws as `magnetar.gen-server/stop` does.

    (statem/stop :switch) ;=> :ok

  In Erlang: gen_statem:stop/1,3."
  {:erlang "gen_statem:stop/3"}
  ([machine] (stop machine :normal nil))
  ([machine reason] (stop machine reason nil))
  ([machine reason options]
   (proc-lib/stop machine reason options)))

;; ---- data

(defn machine
  "The behaviour of a state machine that is declared as data; it starts as any other.

  :initial     the first state
  :data        what it starts with, or a function of the argument of the start; else the argument
  :states      a map from states, any values, to maps:
    :on          a map from events to transitions
    :after       [ms transition], if nothing leads out of the state before
    :enter       (enter data): the data when the state is entered; not when a transition leads back to it
    :postpone    a set of events that wait for another state
    :final       true: the machine ends here, normally
    :label       its name in the diagram
  :on          transitions of all states, where the state has none for the event, or none whose condition holds
  :unexpected  a callback as handle-event, for an event without a transition; else a call is answered [:error [:unexpected-event content :in
               state]], and others are reported
  :name, :terminate, :format-status  as in every behaviour

  An event is a message, a cast or a call; its name is its content, or the first of a vector. A transition is the next state, or a map, or a
  vector of maps, of which the first whose condition holds is taken:

    :to       the next state; without it the state stays, and is not entered again
    :when     (when data content): the condition
    :do       (do data content): the new data
    :reply    (reply new-data content): the answer to a call, :ok if left out
    :actions  (actions new-data content): further actions
    :label    what the diagram says

  What is wrong is said with where it stands and what was meant.

    (statem/start-link (statem/machine {:initial :off, :states {:off {:on {:push :on}}, :on {:on {:push :off}}}}) nil)

  Counterpart: statecharts as data, as in XState."
  [declaration]
  (machine/behaviour (machine/full declaration)))

(defn mermaid
  "The state diagram of a machine that is declared as data, as the text that Mermaid draws. Takes a declaration or what `machine` made of it.

  Functions are shown by the names that they have in the source; a :label of the transition says it better.

    (println (statem/mermaid {:initial :off, :states {:off {:on {:push :on}}, :on {:on {:push :off}}}}))

  In Erlang there is none; the diagrams of its manual are drawn by hand."
  [machine]
  (mermaid/diagram (machine/of machine)))
