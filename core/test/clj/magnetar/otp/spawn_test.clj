(ns magnetar.otp.spawn-test
  "Scenarios of spawn, exit and exit signals."
  (:require
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [! after alive? exit flag receive self spawn]]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]])
  (:import
   (magnetar.kernel.process ProcessTable)))

(set! *warn-on-reflection* true)

(declare ^:private no-such-function)

(scenario SPN-01 "a function that returns ends its process normally; nobody is told its value"
  :expect :normal
  :ours (scenarios/reason-of (fn [] 42))
  :erl "reason_of(fun() -> 42 end)")

(scenario SPN-02 "the reason of an exit is the one that was given"
  :expect :foo
  :ours (scenarios/reason-of #(exit :foo))
  :erl "reason_of(fun() -> exit(foo) end)")

(scenario SPN-03 "the reason of an error is what the error says, and its stack"
  :expect [:foo :stack]
  :ours (let [[term frames] (scenarios/reason-of #(throw (ex-info "foo" {})))]
          [(keyword (:message term)) (when (every? string? frames) :stack)])
  :erl "{foo, Stack} = reason_of(fun() -> error(foo) end),
    {foo, case is_list(Stack) of true -> stack; false -> none end}")

(scenario SPN-06 "a killed process is dead at once, and what its clean-up sends is dropped"
  :expect [:killed :timeout]
  :ours (let [me (self)
              unwound (promise)
              [pid ref] (actor/spawn-monitor (fn []
                                               (try
                                                 (receive :never nil)
                                                 (finally
                                                   (try (! me :cleaned) (finally (deliver unwound true)))))))]
          (scenarios/wait-for #(scenarios/waits? pid))
          (exit pid :kill)
          (let [why (receive [:DOWN ref :process _ why] why)]
            (deref unwound)
            [why (receive :cleaned :cleaned (after 0 :timeout))]))
  :erl "Me = self(),
    {P, R} = spawn_monitor(fun() -> try receive never -> ok end after Me ! cleaned end end),
    wait_for(fun() -> process_info(P, status) =:= {status, waiting} end),
    exit(P, kill),
    Why = receive {'DOWN', R, process, _, W} -> W end,
    {Why, receive cleaned -> cleaned after 50 -> timeout end}")

(scenario SPN-07 "an exit signal with the reason normal from another process is ignored"
  :expect true
  :ours (let [pid (scenarios/idle)]
          (exit pid :normal)
          (alive? pid))
  :erl "P = idle(), exit(P, normal), is_process_alive(P)")

(scenario SPN-08 "a process that sends itself the exit signal normal ends"
  :expect :normal
  :ours (scenarios/reason-of (fn [] (exit (self) :normal) (receive :never nil)))
  :erl "reason_of(fun() -> exit(self(), normal), receive never -> ok end end)")

(scenario SPN-09 "an exit signal ends a process that does not trap"
  :expect :boom
  :ours (let [pid (scenarios/idle)
              ref (actor/monitor pid)]
          (exit pid :boom)
          (receive [:DOWN ref :process _ why] why))
  :erl "P = idle(), R = monitor(process, P), exit(P, boom), receive {'DOWN', R, process, _, W} -> W end")

(scenario SPN-10 "a process that traps gets the exit signal as a message, and lives"
  :expect [[:trapped :boom] true]
  :ours (let [pid (scenarios/trapper (self))]
          (exit pid :boom)
          [(receive message message) (alive? pid)])
  :erl "P = trapper(self()), exit(P, boom), M = receive X -> X end, {M, is_process_alive(P)}")

(scenario SPN-11 "a process that traps gets the exit signal normal as well"
  :expect [[:trapped :normal] true]
  :ours (let [pid (scenarios/trapper (self))]
          (exit pid :normal)
          [(receive message message) (alive? pid)])
  :erl "P = trapper(self()), exit(P, normal), M = receive X -> X end, {M, is_process_alive(P)}")

(scenario SPN-12 "a kill cannot be trapped"
  :expect :killed
  :ours (let [pid (scenarios/trapper (self))
              ref (actor/monitor pid)]
          (exit pid :kill)
          (receive [:DOWN ref :process _ why] why))
  :erl "P = trapper(self()), R = monitor(process, P), exit(P, kill), receive {'DOWN', R, process, _, W} -> W end")

(scenario SPN-13 "a kill cannot be trapped by the process that sends it to itself"
  :expect :killed
  :ours (scenarios/reason-of (fn [] (flag :trap-exit true) (exit (self) :kill) (receive :never nil)))
  :erl "reason_of(fun() -> process_flag(trap_exit, true), exit(self(), kill), receive never -> ok end end)")

(scenario SPN-14 "a process that exits itself with the reason kill has just this reason"
  :expect :kill
  :ours (scenarios/reason-of #(exit :kill))
  :erl "reason_of(fun() -> exit(kill) end)")

(scenario SPN-15 "signals and messages to the dead succeed"
  :expect [true :m]
  :ours (let [pid (scenarios/dead)]
          [(exit pid :x) (! pid :m)])
  :erl "P = dead(), {exit(P, x), P ! m}")

(scenario SPN-16 "whoever has killed a process sees it dead"
  :expect false
  :ours (let [pid (scenarios/idle)]
          (exit pid :kill)
          (alive? pid))
  :erl "P = idle(), exit(P, kill), is_process_alive(P)")

(scenario SPN-17 "a child without a link that crashes does not concern its parent"
  :expect []
  :ours (let [pid (spawn #(receive :go (throw (ex-info "crash" {}))))]
          (scenarios/through-death pid #(! pid :go))
          (actor/flush))
  :erl "spawn(fun() -> error(crash) end), receive after 50 -> ok end, flush()")

(scenario SPN-18 "spawn-monitor gives the true reason, however soon the process dies"
  :expect [:boom]
  :ours (vec (distinct (repeatedly 200 (fn [] (scenarios/reason-of #(exit :boom))))))
  :erl "lists:usort([reason_of(fun() -> exit(boom) end) || _ <- lists:seq(1, 200)])")

(defn- linked-reason []
  (let [pid (actor/spawn-link #(exit :boom))]
    (receive [:EXIT pid why] why)))

(scenario SPN-19 "spawn-link gives the true reason, however soon the process dies"
  :expect [:boom]
  :ours (do
          (flag :trap-exit true)
          (vec (distinct (repeatedly 200 linked-reason))))
  :erl "process_flag(trap_exit, true),
    lists:usort([begin P = spawn_link(fun() -> exit(boom) end), receive {'EXIT', P, W} -> W end end || _ <- lists:seq(1, 200)])")

(scenario SPN-20 "the value of a send is the message"
  :expect [:hello :hello]
  :ours [(! (self) :hello) (receive message message)]
  :erl "X = (self() ! hello), {X, receive Y -> Y end}")

(defn- named-in [text]
  (keyword (second (re-find #"(no-such-function)" (str text)))))

(scenario SPN-22 "a process whose function does not exist starts, and dies of it"
  :expect [:unbound :no-such-function]
  :ours (let [[term _] (scenarios/reason-of #'no-such-function)]
          [(when (str/includes? (:message term) "unbound") :unbound) (named-in (:message term))])
  :erl "{P, R} = spawn_monitor(nomod, nofun, [1]),
    receive {'DOWN', R, process, P, {undef, [{M, F, A, _} | _]}} -> {undef, {M, F, A}} end"
  :erl-expect [:undef [:nomod :nofun [1]]]
  :differs "A missing function is an unbound var, or a symbol that does not resolve, which the compiler refuses; the reason says which var.")

(scenario SPN-23 "a child does not inherit the dictionary"
  :expect nil
  :ours (let [me (self)]
          (actor/pput :key 1)
          (spawn #(! me [:child (actor/pget :key)]))
          (receive [:child value] value))
  :erl "put(key, 1), Me = self(), spawn(fun() -> Me ! {child, get(key)} end), receive {child, V} -> V end")

(scenario SPN-25 "a process dies of the first of two exit signals"
  :expect :a
  :ours (let [pid (scenarios/idle)
              ref (actor/monitor pid)]
          (exit pid :a)
          (exit pid :b)
          (receive [:DOWN ref :process _ why] why))
  :erl "P = idle(), R = monitor(process, P), exit(P, a), exit(P, b), receive {'DOWN', R, process, _, W} -> W end")

(defn- count-replies [n]
  (loop [left n replies 0]
    (if (zero? (long left))
      replies
      (recur (dec (long left)) (receive :reply (inc replies) (after 20000 replies))))))

(scenario SPN-26 "20000 processes reply once each, and are gone"
  :expect [20000 true]
  :ours (let [me (self)
              before (count (ProcessTable/all))]
          (dotimes [_ 20000] (spawn #(! me :reply)))
          [(count-replies 20000)
           (scenarios/wait-for #(<= (count (ProcessTable/all)) before))])
  :erl "Me = self(), Before = erlang:system_info(process_count),
    [spawn(fun() -> Me ! reply end) || _ <- lists:seq(1, 20000)],
    N = length([receive reply -> ok end || _ <- lists:seq(1, 20000)]),
    wait_for(fun() -> erlang:system_info(process_count) =< Before end),
    {N, true}")

(scenario SPN-27 "a process that computes without an end is dead for all others once it is killed"
  :expect :killed
  :ours (let [stop (volatile! false)
              [pid ref] (actor/spawn-monitor (fn [] (while (not @stop))))]
          (try
            (exit pid :kill)
            (receive [:DOWN ref :process _ why] why)
            (finally (vreset! stop true))))
  :erl "P = spawn(fun Loop() -> Loop() end), R = monitor(process, P), exit(P, kill), receive {'DOWN', R, process, _, W} -> W end")
