(ns magnetar.erlang.behaviours-test
  "Servers, state machines, event managers and supervisors of this JVM and of a real BEAM, in a run with --with-erl."
  {:wakes false
   :limit 180000}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [!]]
   [magnetar.dev.processes :as processes]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.beam :as beam :refer [ask got nothing-more? them us with-beam]]
   [magnetar.erlang.scripted :refer [quietly]]
   [magnetar.gen-event :as ge]
   [magnetar.gen-server :as gs]
   [magnetar.gen-statem :as statem]
   [magnetar.supervisor :as sup]
   [magnetar.sys :as sys])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(defn- meeting
  "Calls f with a BEAM that has the module erlang_behaviours."
  [f]
  (with-beam
    (fn [_ b]
      (erlang/connect them)
      (ask b "{ok, Mod, Bin} = compile:file(\"" processes/home "/erlang/test/resources/erlang_behaviours.erl\", [binary])")
      (ask b "code:load_binary(Mod, \"erlang_behaviours\", Bin)")
      (ask b "register(shell, self())")
      (f b))))

(defn- reason-of [f]
  (try (f) (catch ExceptionInfo e (:reason (ex-data e)))))

(defn- misused [f]
  (try (f) (catch IllegalArgumentException e (:magnetar/reason (ex-data e)))))

(defn- at [name]
  (str "{" name ", '" us "'}"))

;; ---- servers

(defn- counter
  "A server that counts, and answers :later by `reply`, through the process that it tells."
  []
  (gs/start {:name 'counter
             :init (fn [n] [:ok n])
             :handle-call (fn [request from n]
                            (case request
                              :next [:reply n (inc (long n))]
                              :later (do (! :inbox [:from from]) [:noreply n])
                              :die [:stop [:shutdown :told] n]
                              [:reply request n]))
             :handle-cast (fn [request n] (! :inbox [:cast request]) [:noreply n])}
            0 {:name :counter}))

(defn- requests-to-several-servers [b]
  (counter)
  (ask b "gen_server:start({local, counter}, erlang_peer, {inbox, '" us "'}, [])")
  (is (= "{[{'m@127.0.0.1',0}],['x@127.0.0.1']}" (ask b "gen_server:multi_call(['" us "', 'x@127.0.0.1'], counter, next)")))
  (is (= "{[{'m@127.0.0.1',1}],[]}" (ask b "gen_server:multi_call(['" us "'], counter, next, 10000)")))
  (is (= "{[],['m@127.0.0.1']}" (ask b "gen_server:multi_call(['" us "'], nobody, next)")))
  (is (= "abcast" (ask b "gen_server:abcast(['" us "'], counter, {all, 1})")))
  (is (= [:cast [:all 1]] (got)))
  (is (= [[[us 2] [them 0]] ["x@127.0.0.1"]] (gs/multi-call [us them "x@127.0.0.1"] :counter :next)))
  (is (= [[] [them]] (gs/multi-call [them] :nobody :next {:timeout 10000})))
  (is (= :abcast (gs/abcast [us them] :counter :all)))
  (is (= [[:cast :all] [:cast :all]] [(got) (got)]))
  (run! gs/stop [:counter [:counter them]]))

(defn- requests-whose-answers-are-taken-later [b]
  (counter)
  (ask b "{ok, S} = gen_server:start({local, counter}, erlang_peer, {inbox, '" us "'}, [])")
  (let [a (gs/send-request [:counter them] :next)
        c (gs/send-request [:counter them] :silence)
        d (gs/send-request [:nobody them] :next)]
    (is (= [[:reply 0] :late] [(gs/wait-response a) (gs/wait-response c {:timeout 0 :else :late})]))
    (is (= [:error [:noproc [:nobody them]]] (gs/receive-response d)))
    (ask b "exit(S, kill)")
    (is (= [:error [:killed [:counter them]]] (gs/receive-response c))))
  (ask b "Q = gen_server:send_request(" (at "counter") ", later), R = gen_server:send_request(" (at "counter") ", next)")
  (is (= "{reply,0}" (ask b "gen_server:wait_response(R, 10000)")))
  (is (= "timeout" (ask b "gen_server:wait_response(Q, 0)")))
  (let [[_ from] (got)]
    (gs/reply from :done)
    (is (= "{reply,done}" (ask b "gen_server:receive_response(Q, 10000)"))))
  (gs/stop :counter))

(defn- an-answer-by-a-process-of-the-other-node [b]
  (counter)
  (ask b "register(answers, spawn(fun F() -> receive {From, X} -> gen_server:reply(From, X), F() end end))")
  (actor/spawn #(! :inbox [:answered (gs/call :counter :later)]))
  (let [[_ from] (got)]
    (! [:answers them] [from :by-the-beam])
    (is (= [:answered :by-the-beam] (got))))
  (ask b "Q2 = gen_server:send_request(" (at "counter") ", later)")
  (let [[_ from] (got)]
    (! [:answers them] [from :to-and-fro])
    (is (= "{reply,'to-and-fro'}" (ask b "gen_server:receive_response(Q2, 10000)"))))
  (gs/stop :counter)
  (is (nothing-more?)))

(deftest servers-meet
  (meeting
    (fn [b]
      (requests-to-several-servers b)
      (requests-whose-answers-are-taken-later b)
      (an-answer-by-a-process-of-the-other-node b))))

;; ---- failures

(defn- failing
  "A server whose calls fail: the request says how."
  []
  (gs/start {:init (fn [_] [:ok nil])
             :handle-call (fn [request _ s]
                            (case request
                              :error (throw (ex-info "no stock" {:left 0}))
                              :call (gs/call :nobody [:take 5])
                              :far (gs/call [:hole them] :x {:timeout :infinity})
                              :set [:stop #{1} s]
                              [:stop request s]))
             :handle-cast (fn [_ s] [:noreply s])}
            nil {:name :failing}))

(defn- failure
  "The reason of a call of a fresh server in the BEAM, as the pattern shows it."
  [b request value]
  (quietly #(do (failing)
                (ask b "(fun() -> try gen_server:call(" (at "failing") ", " request ") "
                     "catch exit:{X, {gen_server, call, _}} -> " value " end end)()"))))

(defn- reasons-here-as-the-beam-has-them [b]
  (is (= "{shutdown,told}" (failure b "{shutdown, told}" "X")))
  (is (= "normal" (failure b "normal" "X")))
  (is (= "{unsendable,<<\"#{1}\">>}" (failure b "set" "X")))
  (is (= "{'clojure.lang.ExceptionInfo',<<\"no stock\">>,#{left => 0},true}"
         (failure b "error" "{#{type := Type, message := Text, data := Data}, Frames} = X, {Type, Text, Data, is_tuple(Frames)}")))
  (is (= "{noproc,{'magnetar.gen-server',call,[nobody,{take,5},5000]}}" (failure b "call" "X"))))

(defn- reasons-of-the-beam [b]
  (ask b "Start = fun(Name) -> {ok, Pid} = gen_server:start({local, Name}, erlang_peer, x, []), Pid end")
  (doseq [[request reason] {"{shutdown, told}" [:shutdown :told], "normal" :normal, "kill" :kill, "#{a => [1]}" {:a '(1)}}]
    (ask b "Start(failing)")
    (is (= reason (reason-of #(gs/call [:failing them] [:stop reason]))) request))
  (is (= :noproc (reason-of #(gs/call [:failing them] :x)))))

(defn- lost-nodes
  "A server here and a process of the BEAM wait for each other's node, which is lost."
  [b]
  (let [[_ pid] (failing)
        ref (actor/monitor pid)]
    (ask b "register(hole, spawn(fun F() -> receive {'$gen_call', _, _} -> {inbox, '" us "'} ! asked, F() end end))")
    (ask b "spawn(fun() -> shell ! {lost, catch gen_server:call(" (at "failing") ", far, infinity)} end)")
    (actor/spawn #(! :inbox [:lost (reason-of (fn [] (gs/call [:hole them] :x {:timeout :infinity})))]))
    (is (= [:asked :asked] [(got) (got)]))
    (quietly
      (fn []
        (erlang/disconnect them)
        (is (= #{[:lost [:nodedown them]] [:DOWN ref [:nodedown them]]}
               (set (map (fn [[word x _ _ [why]]] (if (= :DOWN word) [word x why] [word x])) [(got) (got)]))))))
    (is (str/starts-with? (ask b "receive {lost, Lost} -> Lost end") (str "{'EXIT',{{nodedown,'" us "'},{gen_server,call,")))
    (is (= [:nodedown "x@127.0.0.1"] (reason-of #(gs/call [:counter "x@127.0.0.1"] :next))))))

(deftest failures-meet
  (meeting
    (fn [b]
      (reasons-here-as-the-beam-has-them b)
      (reasons-of-the-beam b)
      (lost-nodes b))))

;; ---- state machines

(defn- lamp
  "The machine of erlang_behaviours, here."
  []
  (statem/start {:name 'lamp
                 :callback-mode :handle-event-function
                 :init (fn [_] [:ok :off 0])
                 :handle-event (fn [type content state n]
                                 (cond
                                   (= [:cast :push :off] [type content state]) [:next-state :on (inc (long n))]
                                   (= [:cast :push] [type content]) [:next-state :off n]
                                   (= :count content) [:keep-state-and-data [[:reply (second type) [state n]]]]
                                   :else [:stop-and-reply [:shutdown :told] [[:reply (second type) :bye]]]))}
                nil {:name :lamp}))

(defn- state-machines-meet [b]
  (lamp)
  (ask b "{ok, M} = gen_statem:start({local, lamp}, erlang_behaviours, {machine, {inbox, '" us "'}}, [])")
  (is (= [:off 0] (statem/call [:lamp them] :count)))
  (is (= :ok (statem/cast [:lamp them] :push)))
  (is (= [:on 1] (got)))
  (is (= [:reply [:on 1]] (gs/receive-response (statem/send-request [:lamp them] :count))))
  (is (= [:on [[:inbox (keyword us)] 1]] (sys/get-state [:lamp them])))
  (is (= :bye (statem/call [:lamp them] :stop)))
  (is (= :noproc (reason-of #(statem/call [:lamp them] :count {:timeout 10000}))))
  (is (= "{off,0}" (ask b "gen_statem:call(" (at "lamp") ", count)")))
  (is (= "ok" (ask b "gen_statem:cast(" (at "lamp") ", push)")))
  (is (= "{reply,{on,1}}" (ask b "gen_statem:receive_response(gen_statem:send_request(" (at "lamp") ", count), 10000)")))
  (is (= "{on,1}" (ask b "sys:get_state(" (at "lamp") ")")))
  (is (= "bye" (ask b "gen_statem:call(" (at "lamp") ", stop)")))
  (is (str/starts-with? (ask b "catch gen_statem:call(" (at "lamp") ", count)") "{'EXIT',{noproc,")))

(deftest machines-meet
  (meeting
    (fn [b]
      (state-machines-meet b))))

;; ---- event managers

(def ^:private tally
  {:name :tally
   :init (fn [n] [:ok n])
   :handle-event (fn [event n] (! :inbox [:event event]) [:ok (inc (long n))])
   :handle-call (fn [request n] [:ok (if (= :count request) n [:unknown request]) n])
   :terminate (fn [why n] [why n])})

(defn- managers-of-erlang [b]
  (ask b "{ok, E} = gen_event:start({local, events})")
  (let [events [:events them]]
    (is (= :ok (ge/add-handler events :erlang_behaviours [:tally [:inbox (keyword us)]])) "the name of a process here, as the BEAM has it")
    (is (= [:erlang_behaviours] (ge/which-handlers events)))
    (is (= [[:erlang_behaviours false [[:inbox (keyword us)] 0]]] (sys/get-state events)))
    (is (= :ok (ge/notify events :first)))
    (is (= :ok (ge/sync-notify events [:second])))
    (is (= [[:event :first] [:event [:second]]] [(got) (got)]))
    (is (= 2 (ge/call events :erlang_behaviours :count)))
    (is (= [:reply 2] (gs/receive-response (ge/send-request events :erlang_behaviours :count))))
    (is (= [:error :bad-module] (ge/call events :another :count)))
    (is (= [:error :module-not-found] (ge/delete-handler events :another :bye)))
    (is (= [:bye 2] (ge/delete-handler events :erlang_behaviours :bye)))
    (is (= :ok (ge/add-sup-handler events [:erlang_behaviours 1] [:tally [:inbox (keyword us)]])))
    (is (= :ok (ge/swap-sup-handler events [:erlang_behaviours 1] :swap [:erlang_behaviours 2] [:tally [:inbox (keyword us)]])))
    (is (= [:gen-event-EXIT [:erlang_behaviours 1]] (pop (got))) "it was swapped")
    (is (= [:erlang_behaviours 2] (first (ge/which-handlers events))))
    (is (= [:swap 0] (ge/delete-handler events [:erlang_behaviours 2] :swap)))
    (is (= [:gen-event-EXIT [:erlang_behaviours 2] :normal] (got)))
    (is (= [:EXIT :undef] (let [[how [why]] (ge/add-handler events :no_such_module 1)] [how why])))
    (is (= :magnetar/bad-handler (misused #(ge/add-handler events tally 0))))
    (is (= :ok (ge/stop events)))
    (is (= :ok (ge/notify events :dropped)))
    (is (= :noproc (reason-of #(ge/sync-notify events :x))))))

(defn- managers-here [b]
  (ge/start {:name :events})
  (ge/add-handler :events tally 0)
  (ge/add-handler :events [tally 7] 10)
  (let [m (at "events")]
    (is (= "[{tally,7},tally]" (ask b "gen_event:which_handlers(" m ")")))
    (is (= "[{tally,7,10},{tally,false,0}]" (ask b "sys:get_state(" m ")")))
    (is (= "ok" (ask b "gen_event:notify(" m ", {first, 1})")))
    (is (= [[:event [:first 1]] [:event [:first 1]]] [(got) (got)]))
    (is (= "ok" (ask b "gen_event:sync_notify(" m ", second)")))
    (is (= [[:event :second] [:event :second]] [(got) (got)]))
    (is (= "2" (ask b "gen_event:call(" m ", tally, count)")))
    (is (= "{reply,12}" (ask b "gen_event:receive_response(gen_event:send_request(" m ", {tally, 7}, count), 10000)")))
    (is (= "{error,bad_module}" (ask b "gen_event:call(" m ", another, count)")))
    (is (= "{error,module_not_found}" (ask b "gen_event:delete_handler(" m ", another, bye)")))
    (is (= "{bye,12}" (ask b "gen_event:delete_handler(" m ", {tally, 7}, bye)")))
    (is (= "{'EXIT',{undef,[{erlang_behaviours,init,[1],[]}]}}" (ask b "gen_event:add_handler(" m ", erlang_behaviours, 1)")))
    (is (= "{error,{'EXIT',{undef,[{new,init,[2],[]}]}}}" (ask b "gen_event:swap_handler(" m ", {tally, bye}, {new, 2})")))
    (is (= "[tally]" (ask b "gen_event:which_handlers(" m ")")) "a handler that cannot be replaced stays")
    (is (= "ok" (ask b "gen_event:stop(" m ")")))
    (is (nil? (actor/whereis :events)))
    (is (str/starts-with? (ask b "catch gen_event:call(" m ", tally, count)") "{'EXIT',{noproc,"))))

(deftest managers-meet
  (meeting
    (fn [b]
      (managers-of-erlang b)
      (managers-here b))))

;; ---- supervisors

(defn- worker [id]
  {:id id :start [gs/start-link {:init (fn [_] [:ok 0]) :handle-call (fn [r _ s] [:reply r s]) :handle-cast (fn [_ s] [:noreply s])} nil]})

(defn- supervisors-of-erlang [b]
  (ask b "Child = fun(Id) -> #{id => Id, start => {erlang_behaviours, start_worker, [{inbox, '" us "'}]}} end")
  (ask b "{ok, P} = gen_server:start({local, top}, supervisor, {{local, top}, erlang_behaviours, "
       "{supervisor, #{strategy => one_for_one}, [Child(a), Child(b)]}}, [])")
  (let [top [:top them]
        [[_ a] [_ b2]] [(got) (got)]]
    (is (= [{:id :a :pid a :type :worker :modules [:erlang_behaviours]} {:id :b :pid b2 :type :worker :modules [:erlang_behaviours]}]
           (sup/which-children top)))
    (is (= {:specs 2 :active 2 :supervisors 0 :workers 2} (sup/count-children top)))
    (is (= [:ok a] (update (sup/which-child top :a) 1 :pid)))
    (is (= [:error :not-found] (sup/which-child top :c)))
    (is (= [:error :running] (sup/restart-child top :a)))
    (is (= :ok (sup/terminate-child top :a)))
    (is (nil? (:pid (first (sup/which-children top)))))
    (is (= :ok (first (sup/restart-child top :a))))
    (let [[_ a] (got)]
      (is (= [:error [:already-started a]] (sup/start-child top {:id :a :start [:erlang_behaviours :start_worker [1]]}))))
    (is (= :ok (first (sup/start-child top {:id :c :start [:erlang_behaviours :start_worker [[:inbox (keyword us)]]] :restart :transient}))))
    (is (= :started (first (got))))
    (is (= [:ok :transient] (update (sup/get-childspec top :c) 1 :restart)))
    (is (= [:ok :error] [(sup/terminate-child top :c) (first (sup/terminate-child top :d))]))
    (is (= :ok (sup/delete-child top :c)))
    (is (= :magnetar/not-here (misused #(sup/start-child top 'my.worker))))
    (is (= :magnetar/not-here (misused #(sup/history top))))))

(defn- supervisors-here [b]
  (let [[_ top] (sup/start-link {:children [(worker :a) (assoc (worker 'my.b) :type :supervisor)]} {:name :top})
        s (at "top")]
    (is (= "[{'my.b',true,supervisor,dynamic},{a,true,worker,dynamic}]"
           (ask b "[{I, is_pid(C) andalso node(C) =:= '" us "', T, M} || {I, C, T, M} <- supervisor:which_children(" s ")]")))
    (is (= "[{specs,2},{active,2},{supervisors,1},{workers,1}]" (ask b "supervisor:count_children(" s ")")))
    (is (= "{error,running}" (ask b "supervisor:restart_child(" s ", a)")))
    (is (= "ok" (ask b "supervisor:terminate_child(" s ", 'my.b')")))
    (is (= "{'my.b',undefined,supervisor,dynamic}" (ask b "hd(supervisor:which_children(" s "))")))
    (is (= "{ok,true}" (ask b "{ok, C} = supervisor:restart_child(" s ", 'my.b'), {ok, is_pid(C)}")))
    (is (= "{error,not_found}" (ask b "supervisor:terminate_child(" s ", c)")))
    (is (str/starts-with? (ask b "supervisor:start_child(" s ", #{id => c, start => {m, f, []}})") "{error,{notsup,"))
    (is (= "permanent" (ask b "{ok, #{restart := Restart}} = supervisor:get_childspec(" s ", a), Restart")))
    (is (= "ok" (ask b "supervisor:terminate_child(" s ", a), supervisor:delete_child(" s ", a)")))
    (gs/stop top)))

(defn- children-with-more-arguments [b]
  (let [[_ top] (sup/start-link {:strategy :simple-one-for-one
                                 :children [{:id :w :start [(fn [& arguments] (! :inbox arguments) (second (:start (worker :x)))
                                                              (apply gs/start-link (rest (:start (worker :x)))))]}]}
                                {:name :top})
        s (at "top")]
    (ask b "{ok, W} = supervisor:start_child(" s ", [1, two])")
    (is (= [1 :two] (got)))
    (is (= "{[{undefined,true,worker,dynamic}],[{specs,1},{active,1},{supervisors,0},{workers,1}]}"
           (ask b "{[{I, C =:= W, T, M} || {I, C, T, M} <- supervisor:which_children(" s ")], supervisor:count_children(" s ")}")))
    (is (= "ok" (ask b "supervisor:terminate_child(" s ", W)")))
    (is (= "{error,simple_one_for_one}" (ask b "supervisor:terminate_child(" s ", w)")))
    (gs/stop top)))

(deftest supervisors-meet
  (meeting
    (fn [b]
      (supervisors-of-erlang b)
      (supervisors-here b)
      (children-with-more-arguments b))))

;; ---- sys

(defn- sys-of-servers-of-erlang [b]
  (ask b "{ok, S} = gen_server:start({local, counter}, erlang_peer, x, [])")
  (let [s [:counter them]]
    (is (= [:x 0] (sys/get-state s)))
    (is (= [:ok :no-statistics] (sys/statistics s :get)))
    (is (= [:ok :ok :ok] [(sys/trace s true) (sys/trace s false) (sys/remove s :nothing)]))
    (is (= [:ok :ok :ok] [(sys/statistics s true) (sys/log s 5) (sys/suspend s)]))
    (is (= :late (gs/call s :next {:timeout 50 :else :late})))
    (is (= [:suspended :gen_server] ((juxt :status :module) (sys/get-status s))))
    (is (= :ok (sys/resume s)))
    (is (= 1 (gs/call s :next)))
    (is (= [2 2] ((juxt :messages-in :messages-out) (second (sys/statistics s :get)))))
    (is (= 4 (count (second (sys/log s :get)))))
    (is (= [:ok :ok] [(sys/statistics s false) (sys/log s false)]))
    (is (= [:magnetar/not-here :magnetar/not-here :magnetar/not-here]
           (map misused [#(sys/replace-state s inc) #(sys/install s :f vector 0) #(sys/change-code s 1 nil)])))
    (is (= :ok (sys/terminate s [:shutdown :told])))
    (is (= :noproc (reason-of #(sys/get-state s {:timeout 10000}))))
    (ask b "{ok, S2} = gen_server:start({local, counter}, erlang_peer, x, [])")
    (is (= :ok (gs/stop s)))
    (is (= "undefined" (ask b "whereis(counter)")))
    (is (nothing-more?))))

(defn- sys-of-servers-here [b]
  (counter)
  (let [s (at "counter")]
    (is (= "0" (ask b "sys:get_state(" s ")")))
    (is (= "{ok,no_statistics}" (ask b "sys:statistics(" s ", get)")))
    (is (= "[ok,ok]" (ask b "[sys:trace(" s ", true), sys:trace(" s ", false)]")))
    (is (= "[ok,ok,ok]" (ask b "[sys:statistics(" s ", true), sys:log(" s ", {true, 5}), sys:suspend(" s ")]")))
    (is (str/starts-with? (ask b "catch gen_server:call(" s ", next, 50)") "{'EXIT',{timeout,"))
    (is (= (str "{status,'" us "',counter,suspended,[\"State\",0]}")
           (ask b "{status, P, {module, M}, [_, Status, _, _, [_, _, {data, [{Label, State}]}]]} = sys:get_status(" s "), "
                "{status, node(P), M, Status, [Label, State]}")))
    (is (= "ok" (ask b "sys:resume(" s ")")))
    (is (= "1" (ask b "gen_server:call(" s ", next)")))
    (is (= "{2,2}" (ask b "{ok, L} = sys:statistics(" s ", get), {proplists:get_value(messages_in, L), proplists:get_value(messages_out, L)}")))
    (is (= "true" (ask b "{{Y, _, _}, {_, _, _}} = proplists:get_value(start_time, L), is_integer(Y)")))
    (is (= "[in,out,in,out]" (ask b "{ok, Events} = sys:log(" s ", get), [element(1, E) || E <- Events, element(1, E) =/= noreply]")))
    (is (= "ok" (ask b "sys:no_debug(" s ")")))
    (is (= "{ok,[]}" (ask b "sys:log(" s ", get)")))
    (is (= "unknown_debug" (ask b "sys:log(" s ", print)")))
    (is (str/starts-with? (ask b "catch sys:replace_state(" s ", fun(N) -> N + 1 end)") "{'EXIT',{{notsup,"))
    (is (= "{error,{unknown_system_msg,nothing}}" (ask b "element(2, gen:call(" s ", system, nothing))")))
    (is (= "ok" (ask b "sys:terminate(" s ", {shutdown, told})")))
    (is (str/starts-with? (ask b "catch sys:get_state(" s ")") "{'EXIT',{noproc,"))
    (counter)
    (is (= "ok" (ask b "gen_server:stop(" s ")")))
    (is (nil? (actor/whereis :counter)))))

(deftest sys-meets
  (meeting
    (fn [b]
      (sys-of-servers-of-erlang b)
      (sys-of-servers-here b))))
