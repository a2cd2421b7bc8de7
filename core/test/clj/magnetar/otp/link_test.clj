(ns magnetar.otp.link-test
  "Scenarios of links and of trapping exits."
  (:require
   [magnetar.actor :as actor :refer [! after alive? exit flag link receive self spawn spawn-link unlink]]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]))

(set! *warn-on-reflection* true)

(defn- mailbox-length [pid]
  (actor/process-info pid :message-queue-len))

(scenario LNK-02 "a normal end does nothing to a linked process that does not trap"
  :expect [true 0]
  :ours (let [pid (scenarios/idle)
              other (spawn #(do (link pid) (receive :go nil)))]
          (scenarios/through-death other (fn [] (! other :go)))
          [(alive? pid) (mailbox-length pid)])
  :erl "P = idle(), normal = reason_of(fun() -> link(P) end),
    {_, N} = process_info(P, message_queue_len), {is_process_alive(P), N}")

(scenario LNK-03 "a linked process that traps is told of a normal end"
  :expect :normal
  :ours (do
          (flag :trap-exit true)
          (let [pid (spawn-link (fn []))]
            (receive [:EXIT pid why] why)))
  :erl "process_flag(trap_exit, true), P = spawn_link(fun() -> ok end), receive {'EXIT', P, W} -> W end")

(defn- stay-linked-to [f]
  (spawn-link f)
  (receive :never nil))

(scenario LNK-04 "a reason travels along a chain of links unchanged"
  :expect :boom
  :ours (scenarios/reason-of #(stay-linked-to (fn [] (stay-linked-to (fn [] (exit :boom))))))
  :erl "Stay = fun(F) -> spawn_link(F), receive never -> ok end end,
    reason_of(fun() -> Stay(fun() -> Stay(fun() -> exit(boom) end) end) end)")

(scenario LNK-05 "after unlink the end of the other does nothing"
  :expect []
  :ours (let [pid (scenarios/idle)]
          (flag :trap-exit true)
          (link pid)
          (unlink pid)
          (scenarios/through-death pid #(exit pid :boom))
          (actor/flush))
  :erl "process_flag(trap_exit, true), P = idle(), link(P), unlink(P), exit(P, boom), receive after 50 -> ok end, flush()")

(defn- watch-in-a-crowd
  "Gives the process so many monitors that it takes a while until its links learn of its death."
  [pid]
  (let [me (self)]
    (spawn (fn []
             (dotimes [_ 100] (actor/monitor pid))
             (! me :crowd)
             (receive :never nil)))
    (receive :crowd nil)))

(defn- unlink-while-it-dies []
  (let [pid (spawn #(receive :go (exit :x)))]
    (watch-in-a-crowd pid)
    (link pid)
    (scenarios/through-death pid (fn []
                                   (! pid :go)
                                   (scenarios/wait-for #(not (alive? pid)))
                                   (unlink pid)
                                   (receive [:EXIT pid _] nil (after 0 nil))))))

(scenario LNK-06 "after unlink and one look into the mailbox no EXIT of that link comes"
  :expect []
  :ours (do
          (flag :trap-exit true)
          (dotimes [_ 300] (unlink-while-it-dies))
          (actor/flush))
  :erl "process_flag(trap_exit, true),
    [begin
        P = spawn(fun() -> receive go -> exit(x) end end),
        link(P), P ! go, unlink(P), receive {'EXIT', P, _} -> ok after 0 -> ok end
    end || _ <- lists:seq(1, 300)],
    receive after 50 -> ok end, flush()")

(scenario LNK-07 "a process that traps and links to the dead gets an EXIT with noproc"
  :expect [true :noproc]
  :ours (let [pid (scenarios/dead)]
          (flag :trap-exit true)
          [(link pid) (receive [:EXIT pid why] why)])
  :erl "process_flag(trap_exit, true), P = dead(), T = link(P), {T, receive {'EXIT', P, W} -> W end}")

(scenario LNK-08 "a process that does not trap and links to the dead gets an error"
  :expect [:error :noproc]
  :ours (let [pid (scenarios/dead)]
          (scenarios/observe-error #(link pid)))
  :erl "P = dead(), failure(fun() -> link(P) end)")

(scenario LNK-10 "links do not count"
  :expect []
  :ours (let [pid (scenarios/idle)]
          (flag :trap-exit true)
          (link pid)
          (link pid)
          (unlink pid)
          (scenarios/through-death pid #(exit pid :boom))
          (actor/flush))
  :erl "process_flag(trap_exit, true), P = idle(), link(P), link(P), unlink(P), exit(P, boom), receive after 50 -> ok end, flush()")

(scenario LNK-12 "a link to oneself is none"
  :expect [true []]
  :ours [(link (self)) (actor/process-info (self) :links)]
  :erl "T = link(self()), {links, L} = process_info(self(), links), {T, L}")

(scenario LNK-14 "a process that exits itself with the reason kill can be trapped"
  :expect :kill
  :ours (do
          (flag :trap-exit true)
          (let [pid (spawn-link #(exit :kill))]
            (receive [:EXIT pid why] why)))
  :erl "process_flag(trap_exit, true), P = spawn_link(fun() -> exit(kill) end), receive {'EXIT', P, W} -> W end")

(scenario LNK-15 "over a link the reason kill stays kill"
  :expect :kill
  :ours (scenarios/reason-of #(stay-linked-to (fn [] (exit :kill))))
  :erl "reason_of(fun() -> spawn_link(fun() -> exit(kill) end), receive never -> ok end end)")

(scenario LNK-19 "a message that looks like an EXIT is a message"
  :expect [true 1]
  :ours (let [pid (scenarios/idle)]
          (! pid [:EXIT (self) :fake])
          [(alive? pid) (mailbox-length pid)])
  :erl "P = idle(), P ! {'EXIT', self(), fake}, {_, N} = process_info(P, message_queue_len), {is_process_alive(P), N}")

(scenario LNK-20 "what a process has sent comes before the EXIT of its link"
  :expect [:m1 :m2 [:EXIT :r]]
  :ours (let [me (self)]
          (flag :trap-exit true)
          (let [pid (spawn-link (fn [] (! me :m1) (! me :m2) (exit :r)))]
            (vec (repeatedly 3 #(receive [:EXIT pid why] [:EXIT why] message message)))))
  :erl "Me = self(), process_flag(trap_exit, true),
    P = spawn_link(fun() -> Me ! m1, Me ! m2, exit(r) end),
    [receive {'EXIT', P, W} -> {'EXIT', W}; M -> M end || _ <- [1, 2, 3]]")

(scenario LNK-21 "all processes that are linked to one die with it"
  :expect [:boom :boom :boom]
  :ours (let [pid (spawn #(receive :go (exit :boom)))
              linked (fn [] (actor/spawn-monitor #(do (link pid) (receive :never nil))))
              started (vec (repeatedly 3 linked))]
          (scenarios/wait-for #(= 3 (count (actor/process-info pid :links))))
          (! pid :go)
          (mapv (fn [[_ ref]] (receive [:DOWN ref :process _ why] why)) started))
  :erl "P = spawn(fun() -> receive go -> exit(boom) end end),
    Rs = [element(2, spawn_monitor(fun() -> link(P), receive never -> ok end end)) || _ <- [1, 2, 3]],
    wait_for(fun() -> {links, L} = process_info(P, links), length(L) =:= 3 end),
    P ! go,
    [receive {'DOWN', R, process, _, W} -> W end || R <- Rs]")

(scenario LNK-22 "unlink where there is no link does nothing"
  :expect true
  :ours (unlink (scenarios/idle))
  :erl "unlink(idle())")
