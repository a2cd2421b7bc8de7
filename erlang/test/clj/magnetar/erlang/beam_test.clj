(ns magnetar.erlang.beam-test
  "This JVM and real BEAMs, in a run with --with-erl: processes of both sides call, watch and end each other."
  {:wakes false
   :limit 180000}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.beam :as beam :refer [ask end-beam got nothing-more? start-beam them us with-beam]]
   [magnetar.erlang.scripted :refer [eventually quietly]]
   [magnetar.gen-server :as gs])
  (:import
   (clojure.lang ExceptionInfo)
   (magnetar.kernel.process ForeignRef)))

(set! *warn-on-reflection* true)

(defn- server []
  (gs/start {:init (fn [_] [:ok 0])
             :handle-call (fn [request _ n]
                            (case request
                              :next [:reply n (inc (long n))]
                              :silence [:noreply n]
                              :stop [:stop :told n]
                              [:reply request n]))
             :handle-cast (fn [request n] (! :inbox [:cast request]) [:noreply n])}
            nil {:name :counter}))

(deftest nodes-meet
  (with-beam
    (fn [port b]
      (is (= :pong (erlang/ping them)))
      (is (= [them] (erlang/nodes)))
      (is (= (str "['" us "']") (ask b "nodes(hidden)")))
      (is (= "[]" (ask b "nodes()")))
      (is (= "pong" (ask b "net_adm:ping('" us "')")))
      (is (true? (erlang/disconnect them)))
      (is (eventually #(= "[]" (ask b "nodes(connected)"))))
      (is (= "pong" (ask b "net_adm:ping('" us "')")) "now the BEAM dials")
      (is (= [them] (erlang/nodes)))
      (is (false? (erlang/connect "c@127.0.0.1")) "EPMD knows no such node")
      (is (str/includes? (ask b "erl_epmd:names({127,0,0,1})") "\"m\""))
      (is (pos? (long port))))))

(deftest the-first-message-of-a-beam-connects
  (with-beam
    (fn [_ b]
      (ask b "{inbox, '" us "'} ! {hello, self(), [1, 2.5, <<\"x\">>, #{a => nil}]}")
      (let [[word pid items] (got)]
        (is (= [:hello '(1 2.5 "x" {:a nil})] [word items]))
        (is (= them (actor/node pid)))
        (! pid [:answer {"k" [:v 1]}])
        (is (= "{answer,#{<<\"k\">> => {v,1}}}" (ask b "receive Answer -> Answer after 10000 -> none end")))
        (! [:nobody them] :dropped)
        (is (nothing-more?))))))

(deftest the-first-signal-from-here-connects
  (with-beam
    (fn [port b]
      (ask b "register(shell, self())")
      (! [:shell them] [:hello (self)])
      (ask b "Pid = receive {hello, P} -> P after 10000 -> none end, Pid ! self()")
      (let [shell (got)
            lost #(do (is (true? (erlang/disconnect them)))
                      (is (eventually (fn [] (= "[]" (ask b "nodes(connected)"))))))]
        (lost)
        (! shell :by-pid)
        (is (= "'by-pid'" (ask b "receive X1 -> X1 after 10000 -> none end")))
        (lost)
        (let [ref (actor/monitor [:shell them])]
          (is (= [them] (erlang/nodes)))
          (lost)
          (is (= [:DOWN ref :process [:shell them] :noconnection] (got))))
        (ask b "{ok, S} = gen_server:start({local, counter}, erlang_peer, {inbox, '" us "'}, [])")
        (is (= 0 (gs/call [:counter them] :next)))
        (let [c (start-beam "c@127.0.0.1" port "-hidden")]
          (try
            (is (= "pong" (ask b "net_adm:ping('c@127.0.0.1')")))
            (ask c "register(shell, self())")
            (ask b "{shell, 'c@127.0.0.1'} ! self()")
            (ask c "receive B -> B ! self() after 10000 -> none end")
            (ask b "receive Third -> Pid ! {third, Third} after 10000 -> none end")
            (let [[_ third] (got)]
              (is (= "c@127.0.0.1" (actor/node third)))
              (! third [:from (self)])
              (is (= "ok" (ask c "receive {from, M} -> M ! hello, ok after 10000 -> none end")))
              (is (= :hello (got))))
            (finally (end-beam c)))
          (is (eventually #(= [them] (erlang/nodes))))
          (is (= [:DOWN :noconnection] ((juxt first peek) (do (actor/monitor [:shell "c@127.0.0.1"]) (got))))))
        (is (nothing-more?))))))

(deftest an-alias-of-a-beam-is-sent-to-and-references-come-back-identical
  (with-beam
    (fn [_ b]
      (ask b "A = alias(), R = make_ref(), {inbox, '" us "'} ! {self(), A, R}")
      (let [[pid alias ref] (got)]
        (is (= [ForeignRef ForeignRef] [(class alias) (class ref)]))
        (is (not= alias ref))
        (! alias [:by-alias alias ref])
        (is (= "true" (ask b "receive {'by-alias', A1, R1} -> A1 =:= A andalso R1 =:= R after 10000 -> none end")))
        (is (= "true" (ask b "unalias(A)")))
        (! alias :dropped)
        (! pid :next)
        (is (= "next" (ask b "receive X -> X after 10000 -> none end"))))
      (ask b "{inbox, '" us "'} ! {A, R}")
      (ask b "{inbox, '" us "'} ! {A, R}")
      (is (= (got) (got)) "equal here too")
      (is (nothing-more?)))))

(deftest servers-are-called-both-ways
  (with-beam
    (fn [_ b]
      (erlang/connect them)
      (ask b "{ok, S} = gen_server:start({local, counter}, erlang_peer, {inbox, '" us "'}, [])")
      (let [[_ ours] (server)
            theirs (gs/call [:counter them] :self)]
        (is (= [0 1 2] [(gs/call [:counter them] :next) (gs/call theirs :next) (gs/call [:counter them] :next {:timeout 5000})]))
        (is (= :ok (gs/cast [:counter them] [:fill 7])))
        (is (= [:cast [:fill 7]] (got)))
        (is (= :late (gs/call [:counter them] :silence {:timeout 50 :else :late})))
        (is (= :noproc (try (gs/call [:nobody them] :x) (catch ExceptionInfo e (:reason (ex-data e))))))
        (is (= "[0,1,2]" (ask b "[gen_server:call({counter, '" us "'}, next) || _ <- [1, 2, 3]]")))
        (is (= "{echo,[1,{a}]}" (ask b "gen_server:call({counter, '" us "'}, {echo, [1, {a}]}, infinity)")))
        (is (= "{reply,7}" (ask b "gen_server:receive_response(gen_server:send_request({counter, '" us "'}, 7), 5000)")))
        (is (= "ok" (ask b "gen_server:cast({counter, '" us "'}, <<\"text\">>)")))
        (is (= [:cast "text"] (got)))
        (is (str/starts-with? (ask b "catch gen_server:call({counter, '" us "'}, silence, 50)") "{'EXIT',{timeout,"))
        (is (str/starts-with? (ask b "catch gen_server:call({nobody, '" us "'}, x)") "{'EXIT',{noproc,"))
        (quietly #(is (str/starts-with? (ask b "catch gen_server:call({counter, '" us "'}, stop)") "{'EXIT',{told,")))
        (is (not (actor/alive? ours)))
        (is (nothing-more?))))))

(deftest monitors-and-links-both-ways
  (with-beam
    (fn [_ b]
      (erlang/connect them)
      (actor/flag :trap-exit true)
      (let [me (self)]
        (ask b "{inbox, '" us "'} ! spawn(fun() -> receive {die, R} -> exit(R) end end)")
        (let [far (got)
              ref (actor/monitor far)]
          (actor/link far)
          (! far [:die [:reason {:of "it"}]])
          (is (= #{[:DOWN ref :process far [:reason {:of "it"}]] [:EXIT far [:reason {:of "it"}]]} (set [(got) (got)])))
          (is (= [:DOWN :noproc] ((juxt first peek) (do (actor/monitor far) (got)))))
          (actor/link far)
          (is (= [:EXIT far :noproc] (got))))
        (let [child (actor/spawn #(receive :end nil))]
          (actor/register :child child)
          (is (= "true" (ask b "process_flag(trap_exit, true)")))
          (ask b "M = monitor(process, {child, '" us "'})")
          (! [:shell them] child)
          (ask b "{inbox, '" us "'} ! self()")
          (let [shell (got)]
            (! shell child)
            (ask b "C = receive Pid when is_pid(Pid) -> Pid after 10000 -> none end")
            (ask b "link(C), M2 = monitor(process, C), demonitor(M2, [flush])")
            (ask b "exit(C, because)")
            (is (= "{because,true,because}"
                   (ask b "receive {'DOWN', M, process, {child, '" us "'}, D} -> receive {'EXIT', C, E} -> {D, true, E} after 10000 -> none end end")))
            (ask b "receive X1 -> X1 after 0 -> none end")
            (is (not (actor/alive? child)))
            (is (= "{noproc,noproc}"
                   (ask b "M3 = monitor(process, C), link(C), {receive {'DOWN', M3, process, C, N} -> N after 10000 -> none end, "
                        "receive {'EXIT', C, N2} -> N2 after 10000 -> none end}")))))
        (is (= me (self)))
        (is (nothing-more?))))))

(deftest a-killed-beam-fires-each-link-and-monitor-once
  (with-beam
    (fn [port b]
      (erlang/connect them)
      (actor/flag :trap-exit true)
      (ask b "[{inbox, '" us "'} ! spawn(fun() -> receive x -> x end end) || _ <- lists:seq(1, 100)]")
      (let [far (vec (repeatedly 100 got))
            refs (mapv actor/monitor far)
            by-name (actor/monitor [:nobody-yet them])]
        (is (= [:DOWN by-name :process [:nobody-yet them] :noproc] (got)))
        (run! actor/link far)
        (is (= "0" (ask b "0")))
        (end-beam b)
        (let [all (repeatedly 200 got)]
          (is (= (set (concat (map (fn [ref pid] [:DOWN ref :process pid :noconnection]) refs far) (map (fn [pid] [:EXIT pid :noconnection]) far)))
                 (set all))))
        (is (eventually #(= [] (erlang/nodes))))
        (is (nothing-more?))
        (let [again (start-beam them port "-hidden")]
          (try
            (is (true? (erlang/connect them)))
            (! (first far) :x)
            (is (= [:DOWN :noconnection] ((juxt first peek) (do (actor/monitor (first far)) (got)))))
            (finally (end-beam again))))))))

(deftest the-end-of-this-node-fires-at-the-beam
  (with-beam
    (fn [_ b]
      (let [[_ _] (server)]
        (erlang/connect them)
        (ask b "M = monitor(process, {counter, '" us "'}), monitor_node('" us "', true)")
        (is (true? (erlang/disconnect them)))
        (is (= "{noconnection,ok}" (ask b "{receive {'DOWN', M, process, _, W} -> W after 10000 -> none end, "
                                        "receive {nodedown, _} -> ok after 10000 -> none end}")))
        (gs/stop :counter)))))

(deftest nodes-that-come-and-go-are-told-on-both-sides
  (with-beam {:visible true :words []}
    (fn [port b]
      (erlang/monitor-nodes true)
      (is (= "ok" (ask b "net_kernel:monitor_nodes(true)")))
      (is (true? (erlang/connect them)))
      (is (= [:nodeup them] (got)))
      (is (= (str "{nodeup,'" us "'}") (ask b "receive U -> U after 10000 -> none end")))
      (let [c (start-beam "c@127.0.0.1" port "-hidden")]
        (erlang/monitor-nodes true {:type :hidden})
        (is (= "pong" (ask c "net_adm:ping('" us "')")))
        (is (= [:nodeup "c@127.0.0.1"] (got)))
        (is (= "true" (ask c "monitor_node('" us "', true)")))
        (end-beam c)
        (is (= [:nodedown "c@127.0.0.1"] (got))))
      (is (= "true" (ask b "monitor_node('" us "', true)")))
      (is (true? (erlang/disconnect them)))
      (is (= (str "[{nodedown,'" us "'},{nodedown,'" us "'}]")
             (ask b "[receive {nodedown, _} = D -> D after 10000 -> none end || _ <- [1, 2]]")))
      (is (nothing-more?)))))

(deftest a-suspended-beam-is-lost-after-the-time-of-the-ticks
  (with-beam {:tick 1000 :words ["-hidden" "-kernel" "net_ticktime" "1"]}
    (fn [_ b]
      (erlang/connect them)
      (ask b "register(shell, self())")
      (let [ref (actor/monitor [:shell them])]
        (beam/suspend b)
        (! [:shell them] :not-read)
        (is (= [:DOWN ref :process [:shell them] :noconnection] (got)))
        (is (= [] (erlang/nodes)))
        (is (nothing-more?))
        (beam/resume b)
        (is (eventually #(= "[]" (ask b "nodes(connected)"))))
        (is (true? (erlang/connect them)))))))

(deftest large-messages-come-in-parts-between-others
  (with-beam
    (fn [_ b]
      (erlang/connect them)
      (ask b "register(mirror, spawn(fun F() -> receive {P, X} -> P ! X, F() end end))")
      (let [text (apply str (repeat 3000000 "ä"))]
        (! [:mirror them] [(self) text])
        (is (= text (got))))
      (ask b "[spawn(fun() -> {inbox, '" us "'} ! {N, binary:copy(<<N>>, 300000)} end) || N <- lists:seq(1, 50)]")
      (is (= (into {} (map (fn [n] [n 300000])) (range 1 51))
             (into {} (map (fn [[n ^String x]] [n (count x)])) (repeatedly 50 got)))))))

(deftest a-large-message-to-a-beam-lets-others-pass-and-outlives-its-sender
  (with-beam
    (fn [_ b]
      (let [large (byte-array 100000000 (byte -1)) ; no UTF-8
            sender (actor/spawn #(do (receive :begin nil) (! [:sink them] large) (! [:sink them] :not-sent)))]
        (actor/register :sender sender)
        (ask b "register(sink, spawn(fun() -> M = monitor(process, {sender, '" us "'}), {inbox, '" us "'} ! watched, "
             "L = [receive {'DOWN', M, _, _, R} -> R; X when is_binary(X) -> byte_size(X); X -> X after 60000 -> none end || _ <- [1, 2, 3]], "
             "{inbox, '" us "'} ! L end))")
        (is (= :watched (got)))
        (beam/suspend b)
        (! sender :begin)
        (is (eventually #(= (str "room in the stream to " them) (:waits-for (actor/process-info sender)))))
        (! [:sink them] :ping)
        (actor/exit sender :kill)
        (beam/resume b)
        (is (= [:ping 100000000 :killed] (got)))))))

(deftest a-beam-with-another-cookie-is-refused-with-one-line
  (with-beam
    (fn [_ b]
      (is (= "true" (ask b "erlang:set_cookie('" us "', another)")))
      (is (false? (erlang/connect them)))
      (is (= "pang" (ask b "net_adm:ping('" us "')")))
      (is (= "true" (ask b "erlang:set_cookie('" us "', " beam/cookie ")")))
      (is (= "pong" (ask b "net_adm:ping('" us "')"))))))

(deftest a-visible-node-is-listed
  (with-beam {:visible true :words []}
    (fn [_ b]
      (erlang/connect them)
      (is (= (str "['" us "']") (ask b "nodes()")))
      (is (= "pong" (ask b "net_adm:ping('" us "')"))))))
