(ns magnetar.otp.proc-lib-test
  "Scenarios of starts and stops in step."
  (:require
   [magnetar.actor :as actor :refer [! exit flag receive self]]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]
   [magnetar.otp.servers :as servers]
   [magnetar.proc-lib :as proc-lib]))

(set! *warn-on-reflection* true)

(scenario PLB-01 "start-link gives what the child acknowledges; they are linked, and the caller is its ancestor"
  :expect [:ok true true]
  :ours (let [me (self)
              [how pid] (proc-lib/start-link #(do (! me [:ancestors (proc-lib/ancestors)])
                                                  (proc-lib/init-ack [:ok (self)])
                                                  (receive :never nil)))]
          [how
           (= [pid] (actor/process-info (self) :links))
           (receive [:ancestors [a & _]] (= me a))])
  :erl "Me = self(),
    {How, P} = proc_lib:start_link(erlang, apply, [fun() -> Me ! {ancestors, get('$ancestors')}, proc_lib:init_ack({ok, self()}),
                                                            receive never -> ok end end, []]),
    {links, L} = process_info(self(), links),
    {How, L =:= [P], receive {ancestors, [A | _]} -> A =:= Me end}")

(scenario PLB-02 "the end before the acknowledgement is an error, and leaves no message"
  :expect [[:error :boom] []]
  :ours (do (flag :trap-exit true)
            [(proc-lib/start-link #(exit :boom)) (actor/flush)])
  :erl "process_flag(trap_exit, true),
    X = proc_lib:start_link(erlang, apply, [fun() -> exit(boom) end, []]), {X, flush()}")

(scenario PLB-03 "a child that does not acknowledge in time is killed"
  :expect [[:error :timeout] true []]
  :ours (let [me (self)]
          (flag :trap-exit true)
          (let [answer (proc-lib/start-link #(do (! me [:i-am (self)]) (receive :never nil)) {:timeout 1000})]
            [answer (receive [:i-am pid] (not (actor/alive? pid))) (actor/flush)]))
  :erl "Me = self(), process_flag(trap_exit, true),
    X = proc_lib:start_link(erlang, apply, [fun() -> Me ! {i_am, self()}, receive never -> ok end end, []], 50),
    {X, receive {i_am, P} -> not is_process_alive(P) end, flush()}")

(scenario PLB-04 "a child that ends normally without an acknowledgement is the error normal"
  :expect [:error :normal]
  :ours (do (flag :trap-exit true)
            (proc-lib/start-link (fn [])))
  :erl "process_flag(trap_exit, true), proc_lib:start_link(erlang, apply, [fun() -> ok end, []])")

(scenario PLB-05 "a plain process does not know the message to stop: it stays"
  :expect [:timeout true]
  :ours (let [pid (scenarios/idle)]
          [(servers/failure #(proc-lib/stop pid :normal {:timeout 20})) (actor/alive? pid)])
  :erl "P = idle(), {exit, W} = failure(fun() -> proc_lib:stop(P, normal, 20) end), {W, is_process_alive(P)}")

(scenario PLB-06 "the dead cannot be stopped"
  :expect :noproc
  :ours (servers/failure #(proc-lib/stop (scenarios/dead)))
  :erl "{exit, W} = failure(fun() -> proc_lib:stop(dead()) end), W")

(scenario PLB-07 "only an abnormal end is a crash report"
  :expect [:boom]
  :ours (do
          (doseq [why [:normal :shutdown [:shutdown :x] :boom]]
            (let [pid (proc-lib/spawn #(receive :go (exit why)))]
              (servers/reason-of-end pid #(! pid :go))))
          (mapv :reason (filter #(= :crash (:event %)) (servers/reports))))
  :no-erl "What is logged there goes to a handler of the logger, which this run has off; the scenario was observed with one.")
