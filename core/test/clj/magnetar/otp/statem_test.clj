(ns magnetar.otp.statem-test
  "Scenarios of state machines."
  (:require
   [magnetar.actor :as actor :refer [self]]
   [magnetar.gen-server :as gs]
   [magnetar.gen-statem :as statem]
   [magnetar.impl.runtime]
   [magnetar.otp.machines :as machines :refer [act cast-all go lone machine told told-until-end]]
   [magnetar.otp.scenarios :refer [scenario]]
   [magnetar.otp.servers :as servers :refer [failure tells]]
   [magnetar.proc-lib :as proc-lib]))

(set! *warn-on-reflection* true)

(scenario GSM-01 "the function named by the state handles the event"
  :expect [[:off 0] :ok [:on 1]]
  :ours (let [[_ pid] (statem/start-link machines/switch 0)]
          [(statem/call pid :get) (statem/cast pid :push) (statem/call pid :get)])
  :erl "{ok, P} = gen_statem:start_link(?MODULE, fun() -> put(mode, state_functions), {ok, off, 0} end, []),
    {gen_statem:call(P, get), gen_statem:cast(P, push), gen_statem:call(P, get)}")

(defn- start-error [value]
  (let [outcome (statem/start (machines/scripted :handle-event-function) (fn [] value))]
    (if (vector? outcome)
      [:error (if (vector? (second outcome)) (subvec (second outcome) 0 2) (second outcome))]
      outcome)))

(scenario GSM-04 "what init stops for, ignores, or returns wrongly"
  :expect [[:error :why] :ignore [:error [:bad-return-from-init :garbage]]]
  :ours (mapv start-error [[:stop :why] :ignore :garbage])
  :erl "[gen_statem:start(?MODULE, fun() -> put(mode, handle_event_function), V end, []) || V <- [{stop, why}, ignore, garbage]]")

(scenario GSM-05 "with :state-enter each state is entered, the first one from itself"
  :expect [[:enter :a :a] [:cast :ev] [:enter :a :b]]
  :ours (let [pid (machine :a machines/entering nil)]
          (statem/cast pid :ev)
          (statem/cast pid (go :b))
          (told 3))
  :erl "P = machine(a, [handle_event_function, state_enter]), gen_statem:cast(P, ev), gen_statem:cast(P, go(b)), told(3)")

(scenario GSM-06 "a way from a state to itself enters nothing"
  :expect [[:enter :a :a] [:cast :same]]
  :ours (let [pid (machine :a machines/entering nil)]
          (statem/cast pid (go :a))
          (statem/cast pid :same)
          (told 2))
  :erl "P = machine(a, [handle_event_function, state_enter]), gen_statem:cast(P, go(a)), gen_statem:cast(P, same), told(2)")

(scenario GSM-09 "a postponed event is retried in the next state, before later ones"
  :expect [[:a :e1] [:a :go] [:b :e1] [:b :e2]]
  :ours (do (cast-all (machine) (machines/waiting-for :b :e1) (machines/telling :go :b) (machines/telling :e2))
            (told 4))
  :erl "cast_all(machine(a), [waiting_for(b, e1), telling(go, b), telling(e2, b)]), told(4)")

(scenario GSM-10 "a postponed event is not retried while the state stays"
  :expect [[[:a :e1] [:a :x]] []]
  :ours (let [pid (machine)]
          (cast-all pid (machines/waiting-for :b :e1) (machines/telling :x))
          (let [all (told 2)]
            (statem/call pid :get)
            [all (actor/flush)]))
  :erl "P = machine(a), cast_all(P, [waiting_for(b, e1), telling(x, a)]), All = told(2), gen_statem:call(P, get), {All, flush()}")

(scenario GSM-12 "the caller of a postponed call waits, and is answered in the next state"
  :expect [:postponed :late]
  :ours (let [pid (machine)
              me (self)
              ask (fn [[_ from] state _]
                    (if (= :a state)
                      (do (servers/tell :postponed) [:keep-state-and-data :postpone])
                      [:keep-state-and-data [:reply from :late]]))
              _ (actor/spawn #(actor/! me (statem/call pid ask)))
              first-told (tells)]
          (statem/cast pid (go :b))
          [first-told (tells)])
  :erl "P = machine(a), Me = self(),
    Ask = fun({call, _}, a, _) -> tell(postponed), {keep_state_and_data, postpone};
             ({call, F}, b, _) -> {keep_state_and_data, {reply, F, late}} end,
    spawn(fun() -> Me ! gen_statem:call(P, Ask) end), A = tells(), gen_statem:cast(P, go(b)), {A, tells()}")

(scenario GSM-13 "inserted events come in their order, before what is queued"
  :expect [[:internal :i1] [:cast :c1] [:cast :e2]]
  :ours (do (cast-all (machine) (act [:next-event :internal :i1] [:next-event :cast :c1]) :e2)
            (told 3))
  :erl "cast_all(machine(a), [act([{next_event, internal, i1}, {next_event, cast, c1}]), e2]), told(3)")

(scenario GSM-15 "a state timeout comes when its time has passed"
  :expect [:state-timeout :x]
  :ours (do (statem/cast (machine) (act [:state-timeout 50 :x])) (tells))
  :erl "gen_statem:cast(machine(a), act([{state_timeout, 50, x}])), tells()")

(scenario GSM-16 "events in the same state leave a state timeout alone"
  :expect [[:cast :e] [:state-timeout :x]]
  :ours (do (cast-all (machine) (act [:state-timeout 30 :x]) :e) (told 2))
  :erl "cast_all(machine(a), [act([{state_timeout, 30, x}]), e]), told(2)")

(scenario GSM-17 "a change of the state stops its timeout"
  :expect []
  :ours (do (cast-all (machine) (act [:state-timeout 20 :x]) (go :b [[:timeout :n] 60 :end]))
            (told-until-end))
  :erl "cast_all(machine(a), [act([{state_timeout, 20, x}]), go(b, [{{timeout, n}, 60, 'end'}])]), told_until_end()")

(scenario GSM-18 "any event stops an event timeout, also one that is a bare number"
  :expect [[[:cast :e]] [[:cast :e]]]
  :ours (mapv (fn [action]
                (cast-all (machine) (act action) :e (act [[:timeout :n] 60 :end]))
                (told-until-end))
              [[:timeout 20 :x] 20])
  :erl "[begin cast_all(machine(a), [act([A]), e, act([{{timeout, n}, 60, 'end'}])]), told_until_end() end || A <- [{timeout, 20, x}, 20]]")

(scenario GSM-19 "an event timeout comes if nothing else does"
  :expect [[:timeout :x] [:timeout 20]]
  :ours (mapv (fn [action] (statem/cast (machine) (act action)) (tells)) [[:timeout 20 :x] 20])
  :erl "[begin gen_statem:cast(machine(a), act([A])), tells() end || A <- [{timeout, 20, x}, 20]]")

(scenario GSM-21 "timeouts with names run beside each other"
  :expect [[[:timeout :n2] 2] [[:timeout :n1] 1]]
  :ours (do (statem/cast (machine) (act [[:timeout :n1] 60 1] [[:timeout :n2] 10 2])) (told 2))
  :erl "gen_statem:cast(machine(a), act([{{timeout, n1}, 60, 1}, {{timeout, n2}, 10, 2}])), told(2)")

(scenario GSM-22 "a timeout that is started again takes the place of the first"
  :expect [[[:timeout :n] :new]]
  :ours (do (cast-all (machine) (act [[:timeout :n] 20 :old]) (act [[:timeout :n] 20 :new]) (act [[:timeout :m] 60 :end]))
            (told-until-end))
  :erl "cast_all(machine(a), [act([{{timeout, n}, 20, old}]), act([{{timeout, n}, 20, new}]), act([{{timeout, m}, 60, 'end'}])]), told_until_end()")

(defn- after-start [action]
  (cast-all (machine) (act [[:timeout :n] 20 :old]) (act action) (act [[:timeout :m] 60 :end]))
  (told-until-end))

(scenario GSM-23 "a timeout is stopped, has its content changed, or is stopped by an infinite time"
  :expect [[] [[[:timeout :n] :new]] []]
  :ours (mapv after-start [[[:timeout :n] :cancel] [[:timeout :n] :update :new] [[:timeout :n] :infinity :never]])
  :erl "[begin cast_all(machine(a), [act([{{timeout, n}, 20, old}]), act([A]), act([{{timeout, m}, 60, 'end'}])]), told_until_end() end
     || A <- [{{timeout, n}, cancel}, {{timeout, n}, update, new}, {{timeout, n}, infinity, never}]]")

(scenario GSM-24 "a state timeout of no time comes after inserted events, before what is in the mailbox"
  :expect [[:internal :ins] [:state-timeout :st0] [:cast :ext]]
  :ours (do (cast-all (machine) (act [:state-timeout 0 :st0] [:next-event :internal :ins]) :ext) (told 3))
  :erl "cast_all(machine(a), [act([{state_timeout, 0, st0}, {next_event, internal, ins}]), ext]), told(3)")

(scenario GSM-25 "an event timeout of no time comes before what is in the mailbox"
  :expect [[:timeout :z] [:cast :ext]]
  :ours (do (cast-all (machine) (act [:timeout 0 :z]) :ext) (told 2))
  :erl "cast_all(machine(a), [act([{timeout, 0, z}]), ext]), told(2)")

(scenario GSM-26 "a machine that stops may answer before"
  :expect [:bye [:terminate :why :a]]
  :ours [(statem/call (lone) (fn [[_ from] _ _] [:stop-and-reply :why [[:reply from :bye]]])) (tells)]
  :erl "{gen_statem:call(lone_machine(a), fun({call, F}, _, _) -> {stop_and_reply, why, [{reply, F, bye}]} end), tells()}")

(scenario GSM-28 "what is no result ends the machine"
  :expect [:bad-return-from-state-function :garbage]
  :ours (let [pid (lone)]
          (subvec (servers/reason-of-end pid #(statem/cast pid (fn [_ _ _] :garbage))) 0 2))
  :erl "P = lone_machine(a), {Why, _} = reason_of_end(P, fun() -> gen_statem:cast(P, fun(_, _, _) -> garbage end) end), Why")

(scenario GSM-29 "what a callback throws is what it returns"
  :expect :thrown
  :ours (statem/call (machine) (fn [[_ from] _ _] (statem/return [:keep-state-and-data [[:reply from :thrown]]])))
  :erl "gen_statem:call(machine(a), fun({call, F}, _, _) -> throw({keep_state_and_data, [{reply, F, thrown}]}) end)")

(scenario GSM-30 "a reply that comes late reaches no mailbox"
  :expect [:timeout []]
  :ours (let [pid (machine)
              why (failure #(statem/call pid (fn [[_ from] _ _] [:keep-state from]) {:timeout 40}))]
          (statem/call pid (fn [[_ from] _ late] [:keep-state-and-data [[:reply late :late] [:reply from :ok]]]))
          [why (actor/flush)])
  :erl "P = machine(a), {exit, {Why, _}} = failure(fun() -> gen_statem:call(P, fun({call, F}, _, _) -> {keep_state, F} end, 40) end),
    gen_statem:call(P, fun({call, F}, _, Late) -> {keep_state_and_data, [{reply, Late, late}, {reply, F, ok}]} end), {Why, flush()}")

(scenario GSM-31 "a machine that is stopped terminates with the reason, the state and the data"
  :expect [:ok [:terminate [:shutdown :x] :a]]
  :ours [(statem/stop (lone) [:shutdown :x] {:timeout 1000}) (tells)]
  :erl "{gen_statem:stop(lone_machine(a), {shutdown, x}, 1000), tells()}")

(scenario GSM-32 "a machine that hibernates handles the next event"
  :expect [:a :data]
  :ours (let [pid (machine)]
          (statem/cast pid (act :hibernate))
          (statem/call pid :get))
  :erl "P = machine(a), gen_statem:cast(P, act([hibernate])), gen_statem:call(P, get)")

(scenario GSM-33 "a process of proc-lib becomes a machine in the state with the data"
  :expect [:st 9]
  :ours (let [[_ pid] (proc-lib/start-link (fn []
                                             (proc-lib/init-ack [:ok (self)])
                                             (statem/enter-loop (machines/scripted :handle-event-function) :st 9)))]
          (statem/call pid :get))
  :erl "{ok, P} = proc_lib:start_link(?MODULE, become_machine, [st, 9]), gen_statem:call(P, get)")

(scenario GSM-34 "any value is a state, and a change of any part of it a change of the state"
  :expect [[[:door :open 3] :e] [[:door :closed 0] :e]]
  :ours (do (cast-all (machine [:door :open 3]) (machines/waiting-for [:door :closed 0] :e) (go [:door :closed 0]))
            (told 2))
  :erl "cast_all(machine({door, open, 3}), [waiting_for({door, closed, 0}, e), go({door, closed, 0})]), told(2)")

(defn- push [[_ from] _ _]
  [:keep-state 0 [[:push-callback-module machines/switch] [:reply from :pushed]]])

(scenario GSM-35 "a module that is pushed handles the next event in the state, until the first one is back"
  :expect [:pushed :state-function [:off 0] :popped :handle-event]
  :ours (let [pid (machine :off)]
          [(statem/call pid push) (statem/call pid :which) (statem/call pid :get) (statem/call pid :pop) (statem/call pid :which)])
  :erl "P = machine(off), Push = fun({call, F}, _, _) -> put(mode, state_functions),
        {keep_state, 0, [{push_callback_module, ?MODULE}, {reply, F, pushed}]} end,
    [gen_statem:call(P, Request) || Request <- [Push, which, get, pop, which]]")

(scenario GSM-36 "a request to a machine is answered later"
  :expect [:reply :ok1]
  :ours (gs/receive-response (statem/send-request (machine) (fn [[_ from] _ _] [:keep-state-and-data [:reply from :ok1]])))
  :erl "gen_statem:receive_response(gen_statem:send_request(machine(a), fun({call, F}, _, _) -> {keep_state_and_data, {reply, F, ok1}} end))")

(scenario GSM-37 "a machine that crashes ends with the error and its stack, and terminates with the bare error"
  :expect [[:boom :stack] [:terminate :boom :a]]
  :ours (let [pid (lone)
              why (servers/reason-of-end pid #(statem/cast pid (fn [_ _ _] (throw (ex-info "boom" {})))))]
          [(servers/messages-of-errors why) (update (tells) 1 (comp keyword :message))])
  :erl "P = lone_machine(a), {Why, Stack} = reason_of_end(P, fun() -> gen_statem:cast(P, fun(_, _, _) -> error(boom) end) end),
    {{Why, case is_list(Stack) of true -> stack end}, tells()}")

(scenario GSM-38 "to enter a state is no event that can be postponed"
  :expect [:bad-state-enter-action-from-state-function :postpone]
  :ours (let [pid (lone :a machines/entering #(if (= :b %) [:keep-state-and-data :postpone] :keep-state-and-data))]
          (subvec (servers/reason-of-end pid #(statem/cast pid (go :b))) 0 2))
  :erl "P = lone_machine(a, [handle_event_function, state_enter],
        fun(b) -> {keep_state_and_data, postpone}; (_) -> keep_state_and_data end),
    {Why, _} = reason_of_end(P, fun() -> gen_statem:cast(P, go(b)) end), Why")

(scenario GSM-39 "a timeout that is started while a state is entered is one of that state"
  :expect [[[:enter :a :a] [:enter :a :b] [:state-timeout :x]] [:b :data]]
  :ours (let [pid (machine :a machines/entering #(if (= :b %) [:keep-state-and-data [:state-timeout 20 :x]] :keep-state-and-data))]
          (statem/cast pid (go :b))
          [(told 3) (statem/call pid :get)])
  :erl "P = machine(a, [handle_event_function, state_enter],
        fun(b) -> {keep_state_and_data, {state_timeout, 20, x}}; (_) -> keep_state_and_data end),
    gen_statem:cast(P, go(b)), {told(3), gen_statem:call(P, get)}")
