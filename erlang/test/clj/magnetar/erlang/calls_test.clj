(ns magnetar.erlang.calls-test
  "Functions and processes of this JVM for real BEAMs, and of BEAMs for this JVM, in a run with --with-erl."
  {:wakes false
   :limit 180000}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.beam :as beam :refer [ask got nothing-more? them us with-beam]]
   [magnetar.erlang.scripted :refer [eventually failures-of]]
   [magnetar.gen-server :as gs])
  (:import
   (clojure.lang ExceptionInfo)
   (java.io StringWriter)
   (magnetar TimeoutException)))

(set! *warn-on-reflection* true)

;; ---- what BEAMs may call

(defn price [item] [:price item 12])

(defn total [& numbers] (apply + numbers))

(defn one-or-two ([a] [:one a]) ([a b] [:two a b]))

(defn fail [how]
  (case how
    :error (throw (ex-info "no such item" {:item :tea :of 'shelf}))
    :exit (actor/exit [:closed 7])
    :call (gs/call :nobody-there :x)
    :unsendable #{1}
    :lazy [:items (map #(/ 6 %) [3 0])]
    :arity (price 1 2)))

(defn tell [x]
  (! :inbox [:told x (self)]))

(defn wait-for-end []
  (! :inbox [:waits (self)])
  (receive :end :ended))

(defn greet [text]
  (println "Hello," text)
  (print "bye")
  :ok)

(def ^:private allowed
  #{#'price #'total #'one-or-two #'fail #'tell #'wait-for-end #'greet})

(def ^:private module "'magnetar.erlang.calls-test'")

(defn- with-functions [f]
  (with-beam {:spawnable allowed}
    (fn [_ b]
      (ask b "N = '" us "', Mod = " module)
      (f b))))

(defn- asked
  "What the BEAM says of the expression, in which `call` is the call of the function with the arguments by the module."
  [b by args]
  (ask b "(fun() -> try " by ":call(N, Mod, " args ") catch Cl:Re -> {Cl, Re} end end)()"))

(deftest beams-call-functions-of-the-list
  (with-functions
    (fn [b]
      (doseq [by ["rpc" "erpc"]]
        (is (= "{price,tea,12}" (asked b by "price, [tea]")))
        (is (= "6" (asked b by "total, [1, 2, 3]")) "a list of small numbers as the arguments")
        (is (= "0" (asked b by "total, []")))
        (is (= "{two,[],#{}}" (asked b by "'one-or-two', [[], #{}]")))
        (is (= "{price,tea,12}" (asked b by "price, [tea], 20000"))))
      (is (= "{price,tea,12}" (ask b "rpc:block_call(N, Mod, price, [tea])")))
      (is (= "{price,tea,12}" (ask b "rpc:yield(rpc:async_call(N, Mod, price, [tea]))")))
      (is (= (str "{[{price,1,12},{badrpc,{'EXIT',{undef,[{" module ",price,[1],[]}]}}}],['c@127.0.0.1']}")
             (ask b "rpc:multicall([N, node(), 'c@127.0.0.1'], Mod, price, [1])")))
      (is (= "[{ok,{price,1,12}}]" (ask b "erpc:multicall([N], Mod, price, [1])")))
      (is (= "{response,{price,1,12}}" (ask b "erpc:wait_response(erpc:send_request(N, Mod, price, [1]), 20000)")))
      (is (= "[true,ok,ok,abcast]" (ask b "[rpc:cast(N, Mod, tell, [1]), erpc:cast(N, Mod, tell, [2]), erpc:multicast([N], Mod, tell, [3]), rpc:abcast([N], inbox, four)]")))
      (is (= #{1 2 3 :four} (set (map (fn [x] (if (vector? x) (second x) x)) (repeatedly 4 got)))))
      (is (= "{[N],[]}" (str/replace (ask b "rpc:sbcast([N], inbox, five)") (str "'" us "'") "N")))
      (is (= :five (got)))
      (is (= "{[],[N]}" (str/replace (ask b "rpc:sbcast([N], nobody_there, six)") (str "'" us "'") "N")))
      (is (= "{badrpc,timeout}" (ask b "rpc:call(N, Mod, 'wait-for-end', [], 50)")))
      (is (= :waits (first (got))))
      (is (nothing-more?)))))

(deftest a-c-node-asks-rex-by-a-message
  (with-functions
    (fn [b]
      (ask b "{rex, N} ! {self(), {call, Mod, price, [tea], user}}")
      (is (= "{price,tea,12}" (ask b "receive {rex, Ra} -> Ra after 20000 -> none end")))
      (ask b "{rex, N} ! {self(), {call, Mod, nothing, [tea], user}}")
      (is (= (str "{badrpc,{'EXIT',{undef,[{" module ",nothing,[tea],[]}]}}}") (ask b "receive {rex, Rb} -> Rb after 20000 -> none end")))
      (ask b "{rex, N} ! {self(), features_request}")
      (is (= (str "{features_reply,'" us "',[erpc]}") (ask b "receive Rc -> Rc after 20000 -> none end"))))))

;; ---- what is not allowed

(def ^:private modules
  ["erlang" "lists" "os" "init" "code" "global" "rpc" "'clojure.core'" "'clojure.java.shell'" "'magnetar.actor'" "'magnetar.erlang.impl.builtins'"
   "'magnetar.erlang.calls-test'" "'java.lang.System'" "'Elixir.System'" "''" "'a b'" "'ä'" "nil" "undefined" "true"])

(def ^:private functions
  ["eval" "spit" "slurp" "'load-string'" "str" "inc" "println" "exit" "halt" "stop" "cmd" "sh" "sum" "apply" "spawn" "send" "node" "processes" "whereis"
   "price" "total" "'one-or-two'" "fail" "'with-functions'" "'clojure.core/eval'" "''" "'ä'" "nil"])

(def ^:private answered
  "From [module function] of what may be called of these to the numbers of arguments."
  {["erlang" "node"] #{0 1}, ["erlang" "processes"] #{0}, ["erlang" "whereis"] #{1}
   ["'magnetar.erlang.calls-test'" "price"] #{1}, ["'magnetar.erlang.calls-test'" "total"] #{0 1 2 3 4}
   ["'magnetar.erlang.calls-test'" "'one-or-two'"] #{1 2}, ["'magnetar.erlang.calls-test'" "fail"] #{1}})

(def ^:private terms
  ["1" "-7" "<<\"text\">>" "<<1:3>>" "[]" "[1,2]" "{}" "{a,[b|c]}" "#{a => 1}" "self()" "N" "\"ls\"" "1.5" "123456789012345678901234567890" "fun lists:map/2"
   "fun() -> ok end"])

(defn- random-call
  "A call drawn at random, and whether this node has no such function: {Module, Function, Arguments, Undefined}."
  [^java.util.Random random]
  (let [pick #(nth % (.nextInt random (count %)))
        module (pick modules)
        function (pick functions)
        args (repeatedly (.nextInt random 5) #(pick terms))]
    (str "{" module ", " function ", [" (str/join ", " args) "], " (not (contains? (answered [module function]) (count args))) "}")))

(defn- calls-of
  "A list of Erlang of so many calls drawn at random."
  [random n]
  (str "[" (str/join ", " (repeatedly n #(random-call random))) "]"))

(deftest of-calls-drawn-at-random-those-of-the-list-are-made
  (with-functions
    (fn [b]
      (let [random (java.util.Random. 7)]
        (ask b "ByRpc = fun(M, F, A) -> rpc:call(N, M, F, A) =:= {badrpc,{'EXIT',{undef,[{M, F, A, []}]}}} end")
        (ask b "ByErpc = fun(M, F, A) -> try erpc:call(N, M, F, A, 20000), false catch error:{exception, undef, [{M, F, A, []}]} -> true; _:_ -> false end end")
        (dotimes [_ 10]
          (is (= "[]" (ask b "lists:usort([{M, F, A, U} || {M, F, A, U} <- " (calls-of random 100) ", ByRpc(M, F, A) =/= U orelse ByErpc(M, F, A) =/= U])"))))
        (is (nothing-more?))))))

(deftest what-a-beam-has-and-this-node-does-not-allow-is-undefined
  (with-functions
    (fn [b]
      (doseq [mfa ["os, cmd, [\"ls\"]" "erlang, halt, []" "init, stop, []" "code, load_binary, [a, \"a\", <<>>]" "'clojure.core', eval, [a]"
                   "erlang, apply, [fun() -> ok end, []]" "erlang, apply, [lists, sum, [[1]]]" "erlang, node, [1, 2]" "erpc, call, [N, erlang, node, []]"
                   "erpc, execute_call, [a, b]" "nil, undefined, [true]"]]
        (is (= "true" (ask b "(fun({M0, F0, A0}) -> {badrpc,{'EXIT',{undef,[{M0, F0, A0, []}]}}} =:= rpc:call(N, M0, F0, A0) end)({" mfa "})")) mfa)
        (is (= "true" (ask b "(fun({M1, F1, A1}) -> try erpc:call(N, M1, F1, A1), false catch error:{exception, undef, [{M1, F1, A1, []}]} -> true end end)({" mfa "})"))
            mfa))
      (is (= (str "{badrpc,{'EXIT',{undef,[{" module ",price,[1,2],[]}]}}}") (asked b "rpc" "price, [1, 2]")) "another number of arguments")
      (is (= (str "{badrpc,{'EXIT',{undef,[{" module ",'one-or-two',[],[]}]}}}") (asked b "rpc" "'one-or-two', []"))))))

;; ---- failures

(deftest failures-of-a-function-arrive-with-their-class
  (with-functions
    (fn [b]
      (let [line "{'EXIT',{#{message => <<\"no such item\">>,type => <<\"clojure.lang.ExceptionInfo\">>,data => #{'of' => shelf,item => tea}},"]
        (is (= "{#{data => #{item => tea,'of' => shelf},message => <<\"no such item\">>,type => <<\"clojure.lang.ExceptionInfo\">>},fail,1,\"calls_test.clj\",true}"
               (ask b "begin {badrpc,{'EXIT',{Ra, [{Mod, Fa, Na, [{file, Fi}, {line, Li}]}]}}} = rpc:call(N, Mod, fail, [error]), {Ra, Fa, Na, Fi, is_integer(Li)} end"))
            line)
        (is (= "{error,{fail,1}}"
               (ask b "try erpc:call(N, Mod, fail, [error]) catch error:{exception, #{message := <<\"no such item\">>}, [{Mod, Fb, Nb, _}]} -> {error, {Fb, Nb}} end"))))
      (is (= "{badrpc,{'EXIT',{closed,7}}}" (asked b "rpc" "fail, [exit]")))
      (is (= "{exit,{exception,{closed,7}}}" (asked b "erpc" "fail, [exit]")))
      (is (= "noproc" (ask b "try erpc:call(N, Mod, fail, [call]) catch exit:{exception, {noproc, _}} -> noproc end")))
      (is (= "{<<\"clojure.lang.ArityException\">>,fail}"
             (ask b "try erpc:call(N, Mod, fail, [arity]) catch error:{exception, #{type := Ty}, [{Mod, Fc, 1, _}]} -> {Ty, Fc} end"))
          "the function was called with the right number of arguments")
      (is (str/starts-with? (asked b "erpc" "fail, [unsendable]") "{error,{exception,{unsendable,<<\"") "the value has no term")
      (is (str/starts-with? (asked b "rpc" "fail, [unsendable]") "{badrpc,{'EXIT',{{unsendable,<<\""))
      (is (= "{badrpc,{'EXIT',{{unsendable,<<\"java.lang.ArithmeticException: Divide by zero\">>},[]}}}" (asked b "rpc" "fail, [lazy]"))
          "its error comes when it is written")
      (ask b "Wr = erpc:send_request(N, Mod, 'wait-for-end', [])")
      (let [[_ pid] (got)]
        (actor/exit pid :stopped)
        (is (= "{exit,{signal,stopped}}" (ask b "try erpc:receive_response(Wr, 20000) catch Cd:Rd -> {Cd, Rd} end"))))
      (is (nothing-more?)))))

;; ---- processes that a BEAM starts here

(deftest beams-start-processes-here
  (with-functions
    (fn [b]
      (is (= "{true,true}" (ask b "begin P1 = spawn(N, Mod, 'wait-for-end', []), {is_pid(P1), node(P1) =:= N} end")))
      (let [[_ pid] (got)]
        (is (actor/alive? pid))
        (ask b "P1 ! 'end'")
        (is (eventually #(not (actor/alive? pid)))))
      (ask b "process_flag(trap_exit, true)")
      (is (= "normal" (ask b "begin P2 = spawn_link(N, Mod, 'wait-for-end', []), P2 ! 'end', receive {'EXIT', P2, R2} -> R2 after 20000 -> none end end")))
      (is (= :waits (first (got))))
      (ask b "P3 = spawn_link(N, Mod, 'wait-for-end', [])")
      (is (= :waits (first (got))) "it runs")
      (is (= "because" (ask b "begin exit(P3, because), receive {'EXIT', P3, R3} -> R3 after 20000 -> none end end")))
      (is (= "{closed,7}" (ask b "begin {P4, M4} = spawn_monitor(N, Mod, fail, [exit]), receive {'DOWN', M4, process, P4, R4} -> R4 after 20000 -> none end end")))
      (is (= (str "{undef,[{" module ",nothing,[1],[]}]}")
             (ask b "begin {P5, M5} = spawn_opt(N, Mod, nothing, [1], [monitor, {priority, high}]), receive {'DOWN', M5, process, P5, R5} -> R5 after 20000 -> none end end")))
      (is (= "{ok,true}" (ask b "begin Q6 = spawn_request(N, Mod, 'wait-for-end', [], [link, monitor]), "
                              "receive {spawn_reply, Q6, W6, P6} -> {W6, lists:member(P6, element(2, process_info(self(), links)))} after 20000 -> none end end")))
      (is (= :waits (first (got))))
      (is (= "{down,exit}" (ask b "begin exit(P6, kill), {receive {'DOWN', Q6, process, P6, killed} -> down after 20000 -> none end, "
                                "receive {'EXIT', P6, killed} -> exit after 20000 -> none end} end")))
      (is (= "none" (ask b "begin spawn_request(N, Mod, tell, [7], [{reply, no}]), receive X7 -> X7 after 0 -> none end end")))
      (is (= [:told 7] (pop (got))))
      (failures-of
        (fn [failures]
          (is (= "<<\"no such item\">>" (ask b "begin {P8, M8} = spawn_monitor(N, Mod, fail, [error]), "
                                                  "receive {'DOWN', M8, process, P8, {#{message := R8}, [{Mod, fail, 1, _}]}} -> R8 after 20000 -> none end end")))
          (is (= ["no such item"] (map #(ex-message (:error %)) @failures)))))
      (is (nothing-more?)))))

(deftest what-is-printed-for-a-beam-goes-to-its-group-leader
  (with-functions
    (fn [b]
      (ask b "begin Me = self(), G = spawn(fun Gl() -> receive {io_request, F, A, {put_chars, unicode, T}} -> Me ! {printed, T}, F ! {io_reply, A, ok}, Gl() end end), ok end")
      (ask b "spawn(fun() -> group_leader(G, self()), Me ! rpc:call(N, Mod, greet, [<<\"Till\">>]) end)")
      (is (= "{<<\"Hello, Till\\n\">>,<<\"bye\">>,ok}"
             (ask b "{receive {printed, Pa} -> Pa after 20000 -> none end, receive {printed, Pb} -> Pb after 20000 -> none end, receive ok -> ok after 20000 -> none end}"))))))

(deftest data-of-this-node-are-answered
  (with-functions
    (fn [b]
      (is (= (str "'" us "'") (ask b "rpc:call(N, erlang, node, [])")))
      (is (= "true" (ask b "lists:member(rpc:call(N, erlang, whereis, [inbox]), rpc:call(N, erlang, processes, []))")))
      (is (= "undefined" (ask b "rpc:call(N, erlang, whereis, [nobody_there])")))
      (is (= "[inbox,net_kernel,rex]" (ask b "[X || X <- [inbox, net_kernel, rex], lists:member(X, rpc:call(N, erlang, registered, []))]")))
      (ask b "Pi = rpc:call(N, erlang, whereis, [inbox])")
      (is (= "{registered_name,inbox}" (ask b "rpc:call(N, erlang, process_info, [Pi, registered_name])")))
      (is (= "[{message_queue_len,0},{trap_exit,false},{links,[]}]" (ask b "rpc:call(N, erlang, process_info, [Pi, [message_queue_len, trap_exit, links]])")))
      (is (= "[registered_name,status,message_queue_len,links,trap_exit,group_leader]" (ask b "[K || {K, _} <- rpc:call(N, erlang, process_info, [Pi])]")))
      (is (= "badarg" (ask b "begin {badrpc, {'EXIT', {Bi, [{erlang, process_info, [Pi, heap], _}]}}} = rpc:call(N, erlang, process_info, [Pi, heap]), Bi end")))
      (is (= "{true,undefined}" (ask b "begin P9 = spawn(N, Mod, total, []), M9 = monitor(process, P9), receive {'DOWN', M9, _, _, _} -> ok end, "
                                     "{rpc:call(N, erlang, is_process_alive, [Pi]), rpc:call(N, erlang, process_info, [P9])} end")))
      (is (= "true" (ask b "rpc:call(N, erlang, memory, [total]) > 1000000 andalso is_list(rpc:call(N, erlang, memory, []))")))
      (is (= "true" (ask b "rpc:call(N, erlang, system_info, [process_count]) > 3 andalso rpc:call(N, erlang, system_info, [schedulers]) > 0")))
      (is (= (str "['" them "']") (ask b "rpc:call(N, erlang, nodes, [connected])"))))))

;; ---- functions and processes of a BEAM

(defn- failure [f]
  (try
    (f)
    (catch ExceptionInfo e (select-keys (ex-data e) [:node :module :function :args :class :reason]))))

(deftest functions-of-a-beam-are-called
  (with-functions
    (fn [b]
      (is (= 6 (erlang/call them :lists :sum ['(1 2 3)])))
      (is (= [:ok "x" {:a '(1)}] (erlang/call them :erlang :list_to_tuple [(list :ok "x" {:a '(1)})] {:timeout :infinity})))
      (is (= {:node them :module :lists :function :sum :args ['(:x)] :class :error :reason :badarith}
             (dissoc (failure #(erlang/call them :lists :sum ['(:x)])) :stack)))
      (is (= [:error :undef] ((juxt :class :reason) (failure #(erlang/call them :lists :absent [1])))))
      (is (= [:exit [:why 1]] ((juxt :class :reason) (failure #(erlang/call them :erlang :exit [[:why 1]])))))
      (is (= [:throw "x"] ((juxt :class :reason) (failure #(erlang/call them :erlang :throw ["x"])))))
      (is (= [:erpc :noconnection] ((juxt :class :reason) (failure #(erlang/call "c@127.0.0.1" :lists :sum ['()])))))
      (is (= "The call of lists:absent/1 on the node \"b@127.0.0.1\" has failed: there is no such function."
             (try (erlang/call them :lists :absent [1]) (catch ExceptionInfo e (ex-message e)))))
      (is (= :late (erlang/call them :timer :sleep [60000] {:timeout 50 :else :late})))
      (is (thrown? TimeoutException (erlang/call them :timer :sleep [60000] {:timeout 0})))
      (ask b "register(shell, self())")
      (is (= :ok (erlang/cast them :erlang :send [:shell :hello])))
      (is (= "hello" (ask b "receive Hi -> Hi after 20000 -> none end")))
      (is (= :ok (erlang/cast "c@127.0.0.1" :erlang :send [:shell :lost])))
      (is (= 3 @(future (erlang/call them :erlang :length ['(:a :b :c)]))) "from a thread that is no process")
      (is (nothing-more?)))))

(deftest processes-are-started-on-a-beam
  (with-functions
    (fn [b]
      (let [pid (erlang/spawn them :timer :sleep [:infinity])]
        (is (= them (actor/node pid)))
        (is (true? (erlang/call them :erlang :is_process_alive [pid]))))
      (actor/flag :trap-exit true)
      (let [pid (erlang/spawn them :erlang :exit [:because] {:link true})]
        (is (= [:EXIT pid :because] (got))))
      (let [[pid ref] (erlang/spawn them :timer :sleep [:infinity] {:link true :monitor true})]
        (actor/exit pid :kill)
        (is (= #{[:DOWN ref :process pid :killed] [:EXIT pid :killed]} (set [(got) (got)]))))
      (let [[pid ref] (erlang/spawn them :lists :absent [1] {:monitor true})
            [_ down _ from [why stack]] (got)]
        (is (= [ref pid :undef [:lists :absent '(1) ()]] [down from why (first stack)])))
      (is (= :noconnection (:reason (try (erlang/spawn "c@127.0.0.1" :a :b []) (catch ExceptionInfo e (ex-data e))))))
      (let [owner (actor/spawn (fn [] (! :inbox (erlang/spawn them :timer :sleep [:infinity] {:link true})) (receive :end nil)))
            pid (got)]
        (actor/monitor pid)
        (actor/exit owner :gone)
        (is (= [:DOWN :gone] ((juxt first peek) (got))))
        (is (nothing-more?)))
      (is (some? b)))))

(deftest what-a-process-on-a-beam-prints-is-printed-here
  (let [out (StringWriter.)]
    (binding [*out* out]
      (with-functions
        (fn [_]
          (is (= :ok (erlang/call them :io :format ["~s is ~p years, ~ts~n" (list "Emma" 7 "ä€")])))
          (is (= :ok (erlang/call them :io :put_chars ["plain\n"])))
          (is (= :eof (erlang/call them :io :get_line ["? "])))
          (is (= [:error :request] (erlang/call them :io :setopts ['(:binary)])))
          (let [[_ ref] (erlang/spawn them :io :write [{:k '(1)}] {:monitor true})]
            (is (= [:DOWN ref :normal] ((juxt first second peek) (got))))))))
    (when-not (beam/missing)
      (is (= "Emma is 7 years, ä€\nplain\n#{k => [1]}" (str out))))))
