(ns magnetar.otp.order-test
  "Scenarios of the order of messages and signals."
  (:require
   [magnetar.actor :as actor :refer [! exit flag link monitor receive register self spawn spawn-link]]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]])
  (:import
   (java.util.concurrent CountDownLatch)))

(set! *warn-on-reflection* true)

(scenario ORD-01 "messages by pid and by name keep their order"
  :expect true
  :ours (let [me (self)]
          (register :ord01 me)
          (spawn #(doseq [n (range 200)] (! (if (even? n) me :ord01) n)))
          (= (range 200) (repeatedly 200 #(receive message message))))
  :erl "Me = self(), register(ord01, Me),
    spawn(fun() -> [case N rem 2 of 0 -> Me ! N; 1 -> ord01 ! N end || N <- lists:seq(1, 200)] end),
    lists:seq(1, 200) =:= [receive M -> M end || _ <- lists:seq(1, 200)]")

(defn- message-then-exit []
  (let [pid (scenarios/trapper (self))]
    (! pid :m)
    (exit pid :x)
    [(receive m m) (receive m m)]))

(scenario ORD-02 "a process that traps sees a message before the exit that was sent after it"
  :expect [[[:got :m] [:trapped :x]]]
  :ours (vec (distinct (repeatedly 200 message-then-exit)))
  :erl "Me = self(),
    lists:usort([begin P = trapper(Me), P ! m, exit(P, x), [receive M -> M end, receive N -> N end] end || _ <- lists:seq(1, 200)])")

(defn- forwarded-before-death
  "What a process forwards that gets a message, then an exit signal."
  []
  (let [me (self)
        [pid ref] (actor/spawn-monitor #(loop [] (receive message (! me [:forwarded message])) (recur)))]
    (! pid :m)
    (exit pid :x)
    (receive [:DOWN ref :process _ :x] (actor/flush))))

(scenario ORD-03 "a message is handled before the exit that was sent after it, or never"
  :expect :ok
  :ours (let [seen (into #{} (repeatedly 200 forwarded-before-death))]
          (if (and (every? #{[] [[:forwarded :m]]} seen) (empty? (actor/flush))) :ok seen))
  :erl "Me = self(),
    Seen = lists:usort([begin
        {P, R} = spawn_monitor(fun L() -> receive M -> Me ! {forwarded, M} end, L() end),
        P ! m, exit(P, x), receive {'DOWN', R, process, _, x} -> flush() end
    end || _ <- lists:seq(1, 200)]),
    case {Seen -- [[], [{forwarded, m}]], flush()} of {[], []} -> ok; Else -> Else end")

(defn- reason-after-exit []
  (let [pid (scenarios/idle)]
    (exit pid :boom)
    (let [ref (monitor pid)]
      (receive [:DOWN ref :process _ why] why))))

(scenario ORD-04 "a monitor after an exit signal gives its reason, or noproc"
  :expect true
  :ours (every? #{:boom :noproc} (repeatedly 200 reason-after-exit))
  :erl "lists:all(fun(W) -> W =:= boom orelse W =:= noproc end,
        [begin P = idle(), exit(P, boom), R = monitor(process, P), receive {'DOWN', R, process, _, W} -> W end end
         || _ <- lists:seq(1, 200)])")

(defn- message-before-down? []
  (let [me (self)
        pid (spawn #(receive :go (! me :m)))
        ref (monitor pid)]
    (! pid :go)
    (= [:m :down] [(receive m m) (receive [:DOWN ref :process _ _] :down)])))

(scenario ORD-06 "a message comes before the DOWN of its sender"
  :expect [true]
  :ours (vec (distinct (repeatedly 300 message-before-down?)))
  :erl "Me = self(),
    lists:usort([begin
        P = spawn(fun() -> receive go -> Me ! m end end), R = monitor(process, P), P ! go,
        {m, down} =:= {receive M -> M end, receive {'DOWN', R, process, _, _} -> down end}
    end || _ <- lists:seq(1, 300)])")

(defn- slow-to-die
  "Waits for messages; when it has to exit, it tells and waits for the latch as long as it can."
  [exiting ^CountDownLatch latch]
  (try
    (receive :never nil)
    (finally
      (deliver exiting true)
      (.await latch))))

(scenario ORD-08 "a kill does not change the reason for which a process is exiting"
  :expect :r
  :ours (let [exiting (promise)
              latch (CountDownLatch. 1)]
          (flag :trap-exit true)
          (let [pid (spawn-link slow-to-die exiting latch)]
            (scenarios/wait-for #(scenarios/waits? pid))
            (exit pid :r)
            (deref exiting)
            (exit pid :kill)
            (.countDown latch)
            (receive [:EXIT pid why] why)))
  :erl "process_flag(trap_exit, true), P = spawn_link(fun() -> receive never -> ok end end), exit(P, r), exit(P, kill),
    receive {'EXIT', P, W} -> W end")

(defn- per-sender [messages]
  (update-vals (group-by first messages) #(map second %)))

(scenario ORD-09 "ten senders to one process: all messages, each sender's in order"
  :expect true
  :ours (let [me (self)]
          (dotimes [sender 10]
            (spawn #(dotimes [n 500] (! me [sender n]))))
          (= (zipmap (range 10) (repeat (range 500)))
             (per-sender (doall (repeatedly 5000 #(receive message message))))))
  :erl "Me = self(),
    [spawn(fun() -> [Me ! {S, N} || N <- lists:seq(1, 500)] end) || S <- lists:seq(1, 10)],
    Ms = [receive M -> M end || _ <- lists:seq(1, 5000)],
    lists:all(fun(S) -> [N || {T, N} <- Ms, T =:= S] =:= lists:seq(1, 500) end, lists:seq(1, 10)) andalso flush() =:= []")

(defn- reason-over-link []
  (let [pid (spawn #(receive :go (exit :boom)))]
    (link pid)
    (! pid :go)
    (receive [:EXIT pid why] why)))

(scenario ORD-10 "a link that was made before the message that ends the other gives the true reason"
  :expect [:boom]
  :ours (do
          (flag :trap-exit true)
          (vec (distinct (repeatedly 200 reason-over-link))))
  :erl "process_flag(trap_exit, true),
    lists:usort([begin
        P = spawn(fun() -> receive go -> exit(boom) end end), link(P), P ! go, receive {'EXIT', P, W} -> W end
    end || _ <- lists:seq(1, 200)])")

(scenario ORD-11 "of two messages on different ways both come, in any order"
  :expect true
  :ours (let [me (self)
              middle (spawn #(receive message (! me message)))]
          (spawn #(do (! me :m1) (! middle :m2)))
          (= #{:m1 :m2} (set (repeatedly 2 #(receive message message)))))
  :erl "Me = self(), B = spawn(fun() -> receive M -> Me ! M end end), spawn(fun() -> Me ! m1, B ! m2 end),
    [m1, m2] =:= lists:sort([receive M -> M end || _ <- [1, 2]])")
