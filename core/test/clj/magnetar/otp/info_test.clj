(ns magnetar.otp.info-test
  "Scenarios of what is known of a process, and of control from outside."
  (:require
   [clojure.edn :as edn]
   [magnetar.actor :as actor :refer [! after process-info receive self spawn]]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]))

(set! *warn-on-reflection* true)

(scenario PRC-01 "a process in a receive is waiting; of the dead nothing is known"
  :expect [[:status :waiting] nil]
  :ours (let [pid (scenarios/idle)]
          (scenarios/wait-for #(scenarios/waits? pid))
          [[:status (process-info pid :status)] (process-info (scenarios/dead) :status)])
  :erl "P = idle(), wait_for(fun() -> process_info(P, status) =:= {status, waiting} end),
    {process_info(P, status), process_info(dead(), status)}")

(defn- leader-of-child []
  (let [me (self)]
    (spawn #(! me [:leader (actor/group-leader)]))
    (receive [:leader leader] leader)))

(scenario PRC-03 "a child has the group leader that its parent has"
  :expect [true true]
  :ours (let [inherited (= (actor/group-leader) (leader-of-child))
              other (scenarios/idle)]
          (actor/group-leader (self) other)
          [inherited (= other (leader-of-child))])
  :erl "Me = self(),
    Child = fun() -> spawn(fun() -> Me ! {leader, group_leader()} end), receive {leader, L} -> L end end,
    A = Child() =:= group_leader(), O = idle(), group_leader(O, self()), {A, Child() =:= O}")

(scenario PRC-06 "a suspended process takes its messages when it was resumed"
  :expect [:timeout [:got :m]]
  :ours (let [pid (scenarios/trapper (self))]
          (scenarios/wait-for #(scenarios/waits? pid))
          (actor/suspend-process pid)
          (! pid :m)
          (let [meanwhile (receive message message (after 50 :timeout))]
            (actor/resume-process pid)
            [meanwhile (receive message message)]))
  :erl "P = trapper(self()), erlang:suspend_process(P), P ! m, X = receive M -> M after 50 -> timeout end,
    erlang:resume_process(P), {X, receive N -> N end}")

(scenario PRC-08 "what is known of a process is known without its help"
  :expect [:message-queue-len :links :monitors]
  :ours (let [busy? (volatile! true)
              pid (spawn (fn [] (while @busy?)))
              known (process-info pid)]
          (vreset! busy? false)
          (filterv #(contains? known %) [:message-queue-len :links :monitors]))
  :erl "P = spawn(fun L() -> L() end),
    Known = [K || {K, _} <- process_info(P, [message_queue_len, links, monitors])], exit(P, kill), Known")

(scenario PRC-09 "a pid can be read from what it prints as"
  :expect true
  :ours (= (self) (edn/read-string {:readers actor/readers} (pr-str (self))))
  :erl "self() =:= list_to_pid(pid_to_list(self()))"
  :differs "The text is #magnetar/pid \"node.number.incarnation name\".")

(scenario PRC-10 "a traced process tells what it receives and sends"
  :expect [:receive :send]
  :ours (let [pid (spawn #(receive [:ask from] (! from :answer)))]
          (actor/trace pid true)
          (! pid [:ask (self)])
          (let [traces (repeatedly 2 #(receive [:trace pid what & _] what))]
            (vec traces)))
  :erl "P = spawn(fun() -> receive {ask, From} -> From ! answer end end),
    erlang:trace(P, true, [send, 'receive']), P ! {ask, self()},
    [receive T when element(1, T) =:= trace -> element(3, T) end || _ <- [1, 2]]")
