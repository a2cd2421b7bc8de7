(ns magnetar.otp.server-test
  "Scenarios of servers."
  (:require
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [! after exit flag receive self]]
   [magnetar.gen-server :as gs]
   [magnetar.global]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]
   [magnetar.otp.servers :as servers :refer [failure lone scripted server tells]]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.sys :as sys]))

(set! *warn-on-reflection* true)

(defn- trapping
  "[value of f, what is in the mailbox], in a process that traps exits."
  [f]
  (flag :trap-exit true)
  [(f) (actor/flush)])

(scenario GS-01 "a server that started is linked, and has the state that init returned"
  :expect [:st true]
  :ours (let [pid (server :st)]
          [(gs/call pid :get) (= [pid] (actor/process-info (self) :links))])
  :erl "P = server(st), {links, L} = process_info(self(), links), {gen_server:call(P, get), L =:= [P]}")

(scenario GS-02 "what init stops for is the error of the start, and leaves no message"
  :expect [[:error :why] []]
  :ours (trapping #(gs/start-link scripted (fn [] [:stop :why])))
  :erl "process_flag(trap_exit, true), X = gen_server:start_link(?MODULE, fun() -> {stop, why} end, []),
    receive {'EXIT', _, why} -> ok after 0 -> ok end, {X, flush()}")

(defn- start-error [f]
  (let [[how why] (gs/start scripted f)]
    [how (if (vector? why) (servers/messages-of-errors why) why)]))

(scenario GS-04 "an error, an exit and a return value that is thrown, in init"
  :expect [[:error [:e1 :stack]] [:error :e2] [:error :e3]]
  :ours [(start-error #(throw (ex-info "e1" {})))
         (start-error #(exit :e2))
         (start-error #(gs/return [:stop :e3]))]
  :erl "Start = fun(F) -> case gen_server:start(?MODULE, F, []) of {error, {E, S}} when is_list(S) -> {error, {E, stack}}; X -> X end end,
    {Start(fun() -> error(e1) end), Start(fun() -> exit(e2) end), Start(fun() -> throw({stop, e3}) end)}")

(scenario GS-07 "a name is given once"
  :expect [:error :already-started true]
  :ours (let [pid (server :st {:name :gs07})
              [how [what who]] (gs/start scripted (fn [] [:ok :st]) {:name :gs07})]
          [how what (= pid who)])
  :erl "{ok, P} = gen_server:start({local, gs07}, ?MODULE, fun() -> {ok, st} end, []),
    {error, {What, Who}} = gen_server:start({local, gs07}, ?MODULE, fun() -> {ok, st} end, []), gen_server:stop(P), {error, What, P =:= Who}")

(scenario GS-08 "a call returns the reply, and the state is the new one"
  :expect [:old :new]
  :ours (let [pid (server :old)]
          [(gs/call pid (fn [_ s] [:reply s :new])) (gs/call pid :get)])
  :erl "P = server(old), {gen_server:call(P, fun(_, S) -> {reply, S, new} end), gen_server:call(P, get)}")

(scenario GS-10 "a reply that comes late reaches no mailbox"
  :expect [:timeout []]
  :ours (let [pid (server :st)
              why (failure #(gs/call pid (fn [from s] [:noreply [from s]]) {:timeout 20}))]
          (gs/call pid (fn [_ [from s]] (gs/reply from :late) [:reply :ok s]))
          [why (actor/flush)])
  :erl "P = server(st), {exit, {Why, _}} = failure(fun() -> gen_server:call(P, fun(F, S) -> {noreply, {F, S}} end, 20) end),
    gen_server:call(P, fun(_, {F, S}) -> gen_server:reply(F, late), {reply, ok, S} end), {Why, flush()}")

(scenario GS-11 "a call waits for 5000 ms if nothing is said"
  :expect 5000
  :ours (let [pid (lone :st)
              [_ [_ _ arguments]] (scenarios/reason-of #(gs/call pid (fn [_ s] [:stop :why s])))]
          (peek arguments))
  :no-erl "There the default is no part of what a failed call says; it was observed by waiting.")

(scenario GS-12 "a call of the dead, or of a name that nobody has"
  :expect [:noproc :noproc]
  :ours [(failure #(gs/call (scenarios/dead) :x)) (failure #(gs/call :gs12-nobody :x))]
  :erl "W = fun(A) -> {exit, {Why, _}} = failure(fun() -> gen_server:call(A, x) end), Why end, {W(dead()), W(gs12_nobody)}")

(scenario GS-13 "the caller learns why the server died of its call, and which call that was"
  :expect [:boom true]
  :ours (let [pid (lone :st)
              [why [module f]] (scenarios/reason-of #(gs/call pid (fn [_ _] (exit :boom))))]
          [why (= ['magnetar.gen-server :call] [module f])])
  :erl "P = lone(st), {W, {gen_server, call, _}} = reason_of(fun() -> gen_server:call(P, fun(_, _) -> exit(boom) end) end), {W, true}")

(scenario GS-14 "an error of the callback is the reason that the caller learns, with its stack"
  :expect [:e :stack]
  :ours (let [pid (lone :st)]
          (servers/messages-of-errors (failure #(gs/call pid (fn [_ _] (throw (ex-info "e" {})))))))
  :erl "{exit, {{E, S}, _}} = failure(fun() -> gen_server:call(lone(st), fun(_, _) -> error(e) end) end),
    {E, case is_list(S) of true -> stack end}")

(scenario GS-15 "a server that calls itself is told at once"
  :expect :calling-self
  :ours (let [pid (server :st)]
          (gs/call pid (fn [_ s] [:reply (failure #(gs/call (self) :get)) s])))
  :erl "P = server(st),
    gen_server:call(P, fun(_, S) -> {exit, {W, _}} = failure(fun() -> gen_server:call(self(), get) end), {reply, W, S} end)")

(scenario GS-16 "another process may reply later"
  :expect :v
  :ours (let [pid (server :st)]
          (gs/call pid (fn [from s] (actor/spawn gs/reply from :v) [:noreply s])))
  :erl "gen_server:call(server(st), fun(F, S) -> spawn(fun() -> gen_server:reply(F, v) end), {noreply, S} end)")

(scenario GS-18 "a second reply is dropped"
  :expect [:a []]
  :ours (let [pid (server :st)
              v (gs/call pid (fn [from _] (gs/reply from :a) [:noreply from]))]
          (gs/call pid (fn [_ from] (gs/reply from :b) [:reply :ok from]))
          [v (actor/flush)])
  :erl "P = server(st), V = gen_server:call(P, fun(F, _) -> gen_server:reply(F, a), {noreply, F} end),
    gen_server:call(P, fun(_, F) -> gen_server:reply(F, b), {reply, ok, F} end), {V, flush()}")

(scenario GS-19 "a cast is ok at once, whoever gets it"
  :expect [:ok :ok :ok :n1]
  :ours (let [pid (server :st)
              set-state (fn [_] [:noreply :n1])]
          [(gs/cast pid set-state) (gs/cast (scenarios/dead) set-state) (gs/cast :gs19-nobody set-state) (gs/call pid :get)])
  :erl "P = server(st), F = fun(_) -> {noreply, n1} end,
    {gen_server:cast(P, F), gen_server:cast(dead(), F), gen_server:cast(gs19_nobody, F), gen_server:call(P, get)}")

(scenario GS-20 "handle-info gets a plain message"
  :expect [:info :hello]
  :ours (do (! (server :st) :hello) (tells))
  :erl "server(st) ! hello, tells()")

(scenario GS-21 "a timeout comes as :timeout, and any message before it cancels it"
  :expect [[:info :timeout] [:info :m] []]
  :ours (let [pid (server :st)]
          (gs/cast pid (fn [s] [:noreply s 20]))
          (let [first-told (tells)]
            (gs/cast pid (fn [s] [:noreply s 1000]))
            (! pid :m)
            [first-told (tells) (receive message [message] (after 1050 []))]))
  :erl "P = server(st), gen_server:cast(P, fun(S) -> {noreply, S, 20} end), A = tells(),
    gen_server:cast(P, fun(S) -> {noreply, S, 100} end), P ! m,
    {A, tells(), receive X -> [X] after 150 -> [] end}")

(scenario GS-22 "a timeout of 0 comes after the messages that are there"
  :expect [[:info :timeout] [:info :m]]
  :ours (let [me (self)
              quiet (second (gs/start scripted (fn [] (actor/pput :to me) [:ok :st 0])))
              first-told (tells)
              busy (second (gs/start scripted (fn [] (actor/pput :to me) (! (self) :m) [:ok :st 0])))]
          (when (and quiet busy)
            [first-told (tells)]))
  :erl "Me = self(), gen_server:start(?MODULE, fun() -> put(to, Me), {ok, st, 0} end, []), A = tells(),
    gen_server:start(?MODULE, fun() -> put(to, Me), self() ! m, {ok, st, 0} end, []), {A, tells()}")

(scenario GS-23 "handle-continue comes before any message"
  :expect [[:continue :c] [:info :early]]
  :ours (let [me (self)]
          (gs/start scripted (fn [] (actor/pput :to me) (! (self) :early) [:ok :st [:continue :c]]))
          [(tells) (tells)])
  :erl "Me = self(), gen_server:start(?MODULE, fun() -> put(to, Me), self() ! early, {ok, st, {continue, c}} end, []), {tells(), tells()}")

(scenario GS-24 "handle-continue after a reply comes before the next message"
  :expect [:v [:continue :c1] [:info :m]]
  :ours (let [pid (server :st)]
          [(gs/call pid (fn [_ s] (! (self) :m) [:reply :v s [:continue :c1]])) (tells) (tells)])
  :erl "P = server(st), {gen_server:call(P, fun(_, S) -> self() ! m, {reply, v, S, {continue, c1}} end), tells(), tells()}")

(scenario GS-25 "a stop with a reply: the caller gets it, terminate runs, the server ends"
  :expect [:bye [:terminate :normal] :normal]
  :ours (let [pid (server :st)
              ref (actor/monitor pid)
              answer (gs/call pid (fn [_ s] [:stop :normal :bye s]))]
          [answer
           (receive [:terminate why] [:terminate why])
           (receive [:DOWN ref :process _ why] why)])
  :erl "P = server(st), R = monitor(process, P), A = gen_server:call(P, fun(_, S) -> {stop, normal, bye, S} end),
    {A, receive {terminate, T} -> {terminate, T} end, receive {'DOWN', R, process, _, W} -> W end}")

(scenario GS-26 "a stop without a reply: the caller fails with the reason"
  :expect [:why [:terminate :why]]
  :ours (let [pid (lone :st)]
          [(failure #(gs/call pid (fn [_ s] [:stop :why s]))) (tells)])
  :erl "{exit, {W, _}} = failure(fun() -> gen_server:call(lone(st), fun(_, S) -> {stop, why, S} end) end), {W, tells()}")

(scenario GS-27 "what is no return value ends the server, and is in the reason"
  :expect [:bad-return-value :garbage true]
  :ours (let [pid (lone :st)
              [word value sentence] (servers/reason-of-end pid #(gs/cast pid (fn [_] :garbage)))]
          [word value (str/starts-with? sentence "handle-cast of scripted returned :garbage")])
  :erl "P = lone(st), R = monitor(process, P), gen_server:cast(P, fun(_) -> garbage end),
    receive {'DOWN', R, process, _, {W, V}} -> {W, V, true} end")

(scenario GS-28 "a return value may be thrown"
  :expect [:thrown :new]
  :ours (let [pid (server :st)]
          [(gs/call pid (fn [_ _] (gs/return [:reply :thrown :new]))) (gs/call pid :get)])
  :erl "P = server(st), {gen_server:call(P, fun(_, _) -> throw({reply, thrown, new}) end), gen_server:call(P, get)}")

(scenario GS-29 "stop calls terminate with the reason, and waits"
  :expect [:ok [:terminate :normal] :ok [:terminate [:shutdown :x]]]
  :ours [(gs/stop (lone :st)) (tells) (gs/stop (lone :st) [:shutdown :x] {:timeout 10000}) (tells)]
  :erl "{gen_server:stop(lone(st)), tells(), gen_server:stop(lone(st), {shutdown, x}, 10000), tells()}")

(scenario GS-33 "a server that traps exits is told of the end of another than its parent"
  :expect [:info :EXIT :boom]
  :ours (let [pid (server :st)
              other (scenarios/idle)]
          (gs/call pid (fn [_ s] (flag :trap-exit true) (actor/link other) [:reply :ok s]))
          (exit other :boom)
          (let [[_ [word _ why]] (tells)]
            [:info word why]))
  :erl "P = server(st), O = idle(), gen_server:call(P, fun(_, S) -> process_flag(trap_exit, true), link(O), {reply, ok, S} end),
    exit(O, boom), {info, {W, _, Why}} = tells(), {info, W, Why}")

(scenario GS-34 "an error of terminate is the reason"
  :expect [:e2 :stack]
  :ours (let [[_ pid] (gs/start (assoc scripted :terminate (fn [_ _] (throw (ex-info "e2" {})))) (fn [] [:ok :st]))]
          (servers/messages-of-errors (servers/reason-of-end pid #(gs/cast pid (fn [s] [:stop :r1 s])))))
  :no-erl "The module of the scenarios has one terminate.")

(scenario GS-35 "a server without terminate and handle-info stops, and says of a message that it was not expected"
  :expect [:st :ok [:unexpected-message]]
  :ours (let [[_ pid] (gs/start (select-keys scripted [:init :handle-call :handle-cast]) (fn [] [:ok :st]))]
          (! pid :unknown)
          [(gs/call pid :get) (gs/stop pid) (mapv :event (servers/reports))])
  :no-erl "The module of the scenarios has these callbacks.")

(scenario GS-36 "a server that hibernates waits, and answers the next call"
  :expect [true :st]
  :ours (let [pid (server :st)]
          (gs/cast pid (fn [s] [:noreply s :hibernate]))
          [(scenarios/wait-for #(scenarios/waits? pid)) (gs/call pid :get)])
  :erl "P = server(st), gen_server:cast(P, fun(S) -> {noreply, S, hibernate} end),
    {wait_for(fun() -> process_info(P, current_function) =:= {current_function, {erlang, hibernate, 3}} end), gen_server:call(P, get)}")

(scenario GS-37 "the requests of one process are handled in their order"
  :expect true
  :ours (let [pid (server 0)]
          (every? (fn [n] (gs/cast pid (fn [_] [:noreply n])) (= n (gs/call pid :get))) (range 100)))
  :erl "P = server(0),
    lists:all(fun(N) -> gen_server:cast(P, fun(_) -> {noreply, N} end), N =:= gen_server:call(P, get) end, lists:seq(1, 100))")

(scenario GS-38 "requests whose answers are taken later"
  :expect [[:reply :st] :late [:error :noproc] [:reply :st]]
  :ours (let [pid (server :st)
              silent (gs/send-request pid (fn [_ s] [:noreply s]))
              [_ [why _]] (gs/receive-response (gs/send-request (scenarios/dead) :get))
              asked (gs/send-request pid :get)]
          [(gs/receive-response (gs/send-request pid :get))
           (scenarios/late #(gs/receive-response silent {:timeout 10}))
           [:error why]
           (receive message (gs/check-response message asked))])
  :erl "P = server(st), Silent = gen_server:send_request(P, fun(_, S) -> {noreply, S} end),
    {error, {W, _}} = gen_server:receive_response(gen_server:send_request(dead(), get), infinity),
    A = gen_server:receive_response(gen_server:send_request(P, get), infinity),
    B = gen_server:receive_response(Silent, 10),
    Asked = gen_server:send_request(P, get),
    {A, B, {error, W}, receive M -> gen_server:check_response(M, Asked) end}"
  :erl-expect [[:reply :st] :timeout [:error :noproc] [:reply :st]]
  :differs "No answer in time is an error, unless :else says what to return.")

(scenario GS-39 "a request whose time is over may be waited for again"
  :expect [:late [:reply :x]]
  :ours (let [pid (server :st)
              request (gs/send-request pid (fn [from _] [:noreply from]))
              early (scenarios/late #(gs/wait-response request {:timeout 10}))]
          (gs/cast pid (fn [from] (gs/reply from :x) [:noreply :st]))
          [early (gs/wait-response request)])
  :erl "P = server(st), Q = gen_server:send_request(P, fun(F, _) -> {noreply, F} end), E = gen_server:wait_response(Q, 10),
    gen_server:cast(P, fun(F) -> gen_server:reply(F, x), {noreply, st} end), {E, gen_server:wait_response(Q, infinity)}"
  :erl-expect [:timeout [:reply :x]]
  :differs "No answer in time is an error, unless :else says what to return.")

(scenario GS-40 "multi-call asks the servers of a name on nodes"
  :expect [[:st] [] [] 1]
  :ours (do
          (server :st {:name :gs40})
          (let [[good bad] (gs/multi-call [(actor/node)] :gs40 :get)
                [none missing] (gs/multi-call [(actor/node)] :gs40-nobody :get)]
            [(mapv second good) bad none (count missing)]))
  :erl "register(gs40, server(st)), {G, B} = gen_server:multi_call([node()], gs40, get), {N, M} = gen_server:multi_call([node()], gs40_nobody, get),
    {[V || {_, V} <- G], B, N, length(M)}")

(scenario GS-41 "abcast casts to the servers of a name on nodes"
  :expect [:abcast :n9]
  :ours (do
          (server :st {:name :gs41})
          [(gs/abcast [(actor/node)] :gs41 (fn [_] [:noreply :n9])) (gs/call :gs41 :get)])
  :erl "register(gs41, server(st)), {gen_server:abcast([node()], gs41, fun(_) -> {noreply, n9} end), gen_server:call(gs41, get)}")

(scenario GS-42 "a process becomes a server"
  :expect [:ok :es]
  :ours (let [[how pid] (proc-lib/start-link #(do (proc-lib/init-ack [:ok (self)]) (gs/enter-loop scripted :es)))]
          [how (gs/call pid :get)])
  :erl "{How, P} = proc_lib:start_link(erlang, apply, [fun() -> proc_lib:init_ack({ok, self()}), gen_server:enter_loop(?MODULE, [], es) end, []]),
    {How, gen_server:call(P, get)}")

(scenario GS-43 "format-status decides what others see of the state"
  :expect [:hidden :hidden]
  :ours (let [[_ pid] (gs/start (assoc scripted :format-status #(assoc % :state :hidden)) (fn [] [:ok :secret]))
              status (:state (sys/get-status pid))]
          (servers/reason-of-end pid #(gs/cast pid (fn [_] (exit :boom))))
          [status (:state (first (servers/reports)))])
  :no-erl "The module of the scenarios has no format_status.")

(scenario GS-45 "start-monitor gives a monitor too"
  :expect [:ok :normal]
  :ours (let [[how [pid ref]] (gs/start-monitor scripted (fn [] [:ok :st]))]
          (gs/stop pid)
          [how (receive [:DOWN ref :process _ why] why)])
  :erl "{How, {P, R}} = gen_server:start_monitor(?MODULE, fun() -> {ok, st} end, []), gen_server:stop(P),
    {How, receive {'DOWN', R, process, _, W} -> W end}")

(scenario GS-46 "only an abnormal end is reported"
  :expect [:boom]
  :ours (do
          (doseq [why [:normal :shutdown [:shutdown :x] :boom]]
            (let [pid (lone :st)]
              (servers/reason-of-end pid #(gs/cast pid (fn [s] [:stop why s])))))
          (mapv :reason (servers/reports)))
  :no-erl "What is logged there goes to a handler of the logger, which this run has off; the scenario was observed with one.")

(scenario GS-48 "all forms of names reach the server"
  :expect [:s :s :s :s]
  :ours (do
          (server :s {:name :gs48})
          (server :s {:name [:global :gs48]})
          (server :s {:name [:via 'magnetar.global :gs48-via]})
          (mapv #(gs/call % :get) [:gs48 [:global :gs48] [:via 'magnetar.global :gs48-via] [:gs48 (actor/node)]]))
  :erl "Start = fun(N) -> {ok, _} = gen_server:start(N, ?MODULE, fun() -> {ok, s} end, []) end,
    Start({local, gs48}), Start({global, gs48}), Start({via, global, gs48_via}),
    [gen_server:call(N, get) || N <- [gs48, {global, gs48}, {via, global, gs48_via}, {gs48, node()}]]")
