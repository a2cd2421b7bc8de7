(ns magnetar.otp.sys-test
  "Scenarios of the looks into servers."
  (:require
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [! exit flag receive self]]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]
   [magnetar.otp.servers :as servers :refer [failure scripted server]]
   [magnetar.sys :as sys])
  (:import
   (java.io StringWriter)))

(set! *warn-on-reflection* true)

(scenario SYS-01 "get-state gives the state"
  :expect :st
  :ours (sys/get-state (server :st))
  :erl "sys:get_state(server(st))")

(scenario SYS-02 "replace-state returns the new state, and installs it"
  :expect [:new :new]
  :ours (let [pid (server :st)]
          [(sys/replace-state pid (fn [_] :new)) (gs/call pid :get)])
  :erl "P = server(st), {sys:replace_state(P, fun(_) -> new end), gen_server:call(P, get)}")

(scenario SYS-04 "a suspended server handles nothing until it is resumed, then all in order"
  :expect [:timeout :s2]
  :ours (let [pid (server :st)]
          (sys/suspend pid)
          (gs/cast pid (fn [_] [:noreply :s1]))
          (let [early (failure #(gs/call pid :get {:timeout 30}))]
            (gs/cast pid (fn [s] [:noreply (if (= :s1 s) :s2 :disorder)]))
            (sys/resume pid)
            [early (gs/call pid :get)]))
  :erl "P = server(st), sys:suspend(P), gen_server:cast(P, fun(_) -> {noreply, s1} end),
    {exit, {E, _}} = failure(fun() -> gen_server:call(P, get, 30) end),
    gen_server:cast(P, fun(s1) -> {noreply, s2} end), sys:resume(P), {E, gen_server:call(P, get)}")

(scenario SYS-06 "change-code of a suspended server changes the state"
  :expect [:ok [:changed :v1 :s :x]]
  :ours (let [pid (server :s)]
          (sys/suspend pid)
          (let [answer (sys/change-code pid :v1 :x)]
            (sys/resume pid)
            [answer (sys/get-state pid)]))
  :erl "P = server(s), sys:suspend(P), A = sys:change_code(P, ?MODULE, v1, x), sys:resume(P), {A, sys:get_state(P)}")

(scenario SYS-07 "change-code of a server that is not suspended is an error"
  :expect [:error :unknown-system-msg]
  :ours (let [[how [why]] (sys/change-code (server :s) :v1 :x)]
          [how why])
  :erl "{How, {Why, _}} = sys:change_code(server(s), ?MODULE, v1, x), {How, Why}")

(scenario SYS-09 "there are no statistics unless they were asked for"
  :expect [[:ok :no-statistics] :ok 1 1]
  :ours (let [pid (server :st)
              before (sys/statistics pid :get)
              on (sys/statistics pid true)]
          (gs/call pid :get)
          (let [[_ {:keys [messages-in messages-out]}] (sys/statistics pid :get)]
            [before on messages-in messages-out]))
  :erl "P = server(st), A = sys:statistics(P, get), B = sys:statistics(P, true), gen_server:call(P, get),
    {ok, S} = sys:statistics(P, get), {A, B, proplists:get_value(messages_in, S), proplists:get_value(messages_out, S)}")

(scenario SYS-10 "the log has the events in their order"
  :expect [:ok [:in :out]]
  :ours (let [pid (server :st)
              on (sys/log pid true)]
          (gs/call pid :get)
          [on (mapv first (second (sys/log pid :get)))])
  :erl "P = server(st), On = sys:log(P, true), gen_server:call(P, get), {ok, L} = sys:log(P, get),
    {On, [element(1, E) || E <- L, element(1, E) =/= noreply]}")

(scenario SYS-11 "an installed function sees the events, until it is done"
  :expect [[:saw :in] [:saw :out] []]
  :ours (let [pid (server :st)
              me (self)]
          (sys/install pid :probe (fn [n [kind] _] (! me [:saw kind]) (if (= 2 n) :done (inc n))) 1)
          (gs/call pid :get)
          (gs/call pid :get)
          [(servers/tells) (servers/tells) (actor/flush)])
  :erl "P = server(st), Me = self(),
    sys:install(P, {fun(N, E, _) -> Me ! {saw, element(1, E)}, case N of 2 -> done; _ -> N + 1 end end, 1}),
    gen_server:call(P, get), gen_server:call(P, get), {tells(), tells(), flush()}")

(defn- printed-by
  "[value of f, whether something was printed], where f is given a server that prints there."
  [f]
  (let [out (StringWriter.)]
    (binding [*out* out]
      (let [pid (server :st)]
        [(f pid) (str/includes? (str out) "*DBG*")]))))

(scenario SYS-12 "a trace prints events, until it is ended"
  :expect [[[:ok :st] true] [[:ok :st] false]]
  :ours [(printed-by (fn [pid] [(sys/trace pid true) (gs/call pid :get)]))
         (printed-by (fn [pid] [(sys/trace pid false) (gs/call pid :get)]))]
  :no-erl "What is printed there is on the output that the scenarios answer on.")

(scenario SYS-16 "a suspended server ends with its parent"
  :expect :boom
  :ours (let [me (self)
              parent (actor/spawn #(let [[_ pid] (gs/start-link scripted (fn [] (flag :trap-exit true) [:ok :st]))]
                                     (! me [:server pid])
                                     (receive :never nil)))
              pid (receive [:server pid] pid)]
          (sys/suspend pid)
          (servers/reason-of-end pid #(exit parent :boom)))
  :erl "Me = self(),
    Parent = spawn(fun() -> {ok, P} = gen_server:start_link(?MODULE, fun() -> process_flag(trap_exit, true), {ok, st} end, []),
                            Me ! {server, P}, receive never -> ok end end),
    P = receive {server, X} -> X end, sys:suspend(P), R = monitor(process, P), exit(Parent, boom),
    receive {'DOWN', R, process, _, W} -> W end")
