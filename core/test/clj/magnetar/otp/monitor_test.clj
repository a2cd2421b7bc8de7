(ns magnetar.otp.monitor-test
  "Scenarios of monitors and aliases."
  (:require
   [magnetar.actor :as actor :refer [! after alive? demonitor exit make-ref monitor receive register self spawn unregister]]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]))

(set! *warn-on-reflection* true)

(scenario MON-01 "the end of a monitored process is one DOWN, with its pid and reason"
  :expect [true :foo]
  :ours (let [pid (spawn #(receive :go (exit :foo)))
              ref (monitor pid)]
          (! pid :go)
          (receive [:DOWN ref :process who why] [(= pid who) why]))
  :erl "P = spawn(fun() -> receive go -> exit(foo) end end), R = monitor(process, P), P ! go,
    receive {'DOWN', R, process, Who, W} -> {Who =:= P, W} end")

(scenario MON-02 "a monitor of the dead gives noproc at once"
  :expect :noproc
  :ours (let [ref (monitor (scenarios/dead))]
          (receive [:DOWN ref :process _ why] why (after 0 :late)))
  :erl "R = monitor(process, dead()), receive {'DOWN', R, process, _, W} -> W end")

(scenario MON-04 "a monitor by name is answered with name and node"
  :expect [:mon04 :boom]
  :ours (let [pid (scenarios/idle)]
          (register :mon04 pid)
          (let [ref (monitor :mon04)
                here (actor/node)]
            (exit pid :boom)
            (receive [:DOWN ref :process [name here] why] [name why])))
  :erl "P = idle(), register(mon04, P), R = monitor(process, mon04), Here = node(), exit(P, boom),
    receive {'DOWN', R, process, {Name, Here}, W} -> {Name, W} end")

(scenario MON-05 "the end of a watcher does not concern the process that it watched"
  :expect true
  :ours (let [pid (scenarios/idle)]
          (scenarios/reason-of #(do (monitor pid) (exit :boom)))
          (alive? pid))
  :erl "P = idle(), boom = reason_of(fun() -> monitor(process, P), exit(boom) end), is_process_alive(P)")

(scenario MON-07 "after demonitor no DOWN comes"
  :expect []
  :ours (let [pid (scenarios/idle)]
          (demonitor (monitor pid))
          (scenarios/through-death pid #(exit pid :boom))
          (actor/flush))
  :erl "P = idle(), R = monitor(process, P), demonitor(R), exit(P, boom), receive after 50 -> ok end, flush()")

(defn- fired
  "A monitor whose DOWN is in the mailbox."
  []
  (let [pid (scenarios/idle)
        ref (monitor pid)]
    (exit pid :boom)
    (scenarios/wait-for #(scenarios/queued? 1))
    ref))

(scenario MON-08 "demonitor leaves a DOWN that is in the mailbox"
  :expect 1
  :ours (do (demonitor (fired)) (count (actor/flush)))
  :erl "demonitor(fired()), length(flush())")

(scenario MON-10 "demonitor with info says whether the monitor was active"
  :expect [true false false]
  :ours (let [active (monitor (scenarios/idle))
              over (fired)
              ask #(demonitor % {:info true})]
          [(ask active) (ask over) (ask active)])
  :erl "A = monitor(process, idle()), B = fired(), Ask = fun(R) -> demonitor(R, [info]) end, {Ask(A), Ask(B), Ask(A)}")

(scenario MON-11 "demonitor with flush takes a DOWN out of the mailbox"
  :expect [false []]
  :ours [(demonitor (fired) {:flush true :info true}) (actor/flush)]
  :erl "X = demonitor(fired(), [flush, info]), {X, flush()}")

(scenario MON-12 "demonitor of a reference that is no monitor does nothing"
  :expect true
  :ours (demonitor (make-ref))
  :erl "demonitor(make_ref())")

(scenario MON-14 "a monitor by name means the process that had the name then"
  :expect [:mon14 :boom]
  :ours (let [pid (scenarios/idle)]
          (register :mon14 pid)
          (let [ref (monitor :mon14)]
            (unregister :mon14)
            (register :mon14 (scenarios/idle))
            (exit pid :boom)
            (receive [:DOWN ref :process [name _] why] [name why])))
  :erl "P = idle(), register(mon14, P), R = monitor(process, mon14), unregister(mon14), register(mon14, idle()), exit(P, boom),
    receive {'DOWN', R, process, {Name, _}, W} -> {Name, W} end")

(scenario MON-15 "the message of a monitor with a tag begins with it"
  :expect :my-down
  :ours (let [pid (scenarios/idle)
              ref (monitor pid {:tag :my-down})]
          (exit pid :boom)
          (receive [tag ref :process _ _] tag))
  :erl "P = idle(), R = monitor(process, P, [{tag, my_down}]), exit(P, boom), receive {Tag, R, process, _, _} -> Tag end")

(scenario MON-16 "what a process has sent comes before its DOWN"
  :expect [true :down-last]
  :ours (let [me (self)
              [_ ref] (actor/spawn-monitor #(doseq [n (range 1 101)] (! me n)))]
          (scenarios/wait-for #(scenarios/queued? 101))
          (let [messages (actor/flush)]
            [(= (range 1 101) (butlast messages)) (when (= ref (second (peek messages))) :down-last)]))
  :erl "Me = self(), {_, R} = spawn_monitor(fun() -> [Me ! N || N <- lists:seq(1, 100)] end),
    Ms = [receive M -> M end || _ <- lists:seq(1, 101)],
    {'DOWN', R, process, _, normal} = lists:last(Ms),
    {lists:seq(1, 100) =:= lists:droplast(Ms), down_last}")

(scenario MON-18 "the DOWN of a killed process says killed"
  :expect :killed
  :ours (let [pid (scenarios/idle)
              ref (monitor pid)]
          (exit pid :kill)
          (receive [:DOWN ref :process _ why] why))
  :erl "P = idle(), R = monitor(process, P), exit(P, kill), receive {'DOWN', R, process, _, W} -> W end")

(scenario MON-19 "a process cannot end the monitor of another"
  :expect :z
  :ours (let [pid (scenarios/idle)
              ref (monitor pid)]
          (scenarios/reason-of #(demonitor ref))
          (exit pid :z)
          (receive [:DOWN ref :process _ why] why))
  :erl "P = idle(), R = monitor(process, P), reason_of(fun() -> demonitor(R) end), exit(P, z),
    receive {'DOWN', R, process, _, W} -> W end")

(scenario MON-20 "monitor wants a process, demonitor a reference"
  :expect [[:error :badarg] [:error :badarg]]
  :ours [(scenarios/observe-error #(monitor "a string")) (scenarios/observe-error #(demonitor :no-reference))]
  :erl "{failure(fun() -> monitor(unknown, self()) end), failure(fun() -> demonitor(no_reference) end)}")

(scenario MON-21 "each of 1000 watchers gets one DOWN"
  :expect 1000
  :ours (let [me (self)
              pid (scenarios/idle)]
          (dotimes [_ 1000]
            (spawn #(let [ref (monitor pid)]
                      (! me :watching)
                      (receive [:DOWN ref :process _ :boom] (! me :down)))))
          (dotimes [_ 1000] (receive :watching nil))
          (exit pid :boom)
          (dotimes [_ 1000] (receive :down nil))
          (+ 1000 (count (actor/flush))))
  :erl "Me = self(), P = idle(),
    [spawn(fun() -> R = monitor(process, P), Me ! watching, receive {'DOWN', R, process, _, boom} -> Me ! down end end)
     || _ <- lists:seq(1, 1000)],
    [receive watching -> ok end || _ <- lists:seq(1, 1000)],
    exit(P, boom),
    N = length([receive down -> ok end || _ <- lists:seq(1, 1000)]),
    N + length(flush())")

(scenario MON-22 "after demonitor neither process lists the monitor"
  :expect [[] []]
  :ours (let [pid (scenarios/idle)]
          (demonitor (monitor pid))
          [(actor/process-info (self) :monitors) (actor/process-info pid :monitored-by)])
  :erl "P = idle(), demonitor(monitor(process, P)),
    {_, A} = process_info(self(), monitors), {_, B} = process_info(P, monitored_by), {A, B}")

;; ---- aliases

(scenario ALI-02 "what is sent to an alias that was closed is dropped"
  :expect [true false []]
  :ours (let [alias (actor/make-alias)
              answers [(actor/unalias alias) (actor/unalias alias)]]
          (! alias :dropped)
          (conj answers (actor/flush)))
  :erl "A = alias(), X = unalias(A), Y = unalias(A), A ! dropped, receive after 20 -> ok end, {X, Y, flush()}")

(scenario ALI-03 "an alias for one reply is closed by the first message"
  :expect [:one]
  :ours (let [alias (actor/make-alias :reply)]
          (! alias :one)
          (! alias :two)
          (actor/flush))
  :erl "A = alias([reply]), A ! one, A ! two, receive after 20 -> ok end, flush()")

(scenario ALI-04 "a reply through the reference of a monitor ends the monitor"
  :expect [[:reply 1]]
  :ours (let [pid (spawn #(receive [:ask to] (! to [:reply 1])))
              ref (monitor pid {:alias :reply-demonitor})]
          (scenarios/through-death pid #(! pid [:ask ref]))
          (actor/flush))
  :erl "P = spawn(fun() -> receive {ask, To} -> To ! {reply, 1} end end),
    R = monitor(process, P, [{alias, reply_demonitor}]), P ! {ask, R}, receive after 50 -> ok end, flush()")

(scenario ALI-07 "what is sent to the alias of a dead process is dropped"
  :expect :ok
  :ours (let [alias (actor/join (spawn #(actor/make-alias)))]
          (! alias :dropped)
          (receive message message (after 0 :ok)))
  :erl "Me = self(), {P, R} = spawn_monitor(fun() -> Me ! {alias, alias()} end),
    A = receive {alias, X} -> X end, receive {'DOWN', R, process, P, _} -> ok end,
    A ! dropped, receive M -> M after 20 -> ok end")
