(ns magnetar.otp.name-test
  "Scenarios of names: of this node, of the cluster, of groups."
  (:require
   [magnetar.actor :as actor :refer [! exit monitor receive register self spawn unregister whereis]]
   [magnetar.global :as global]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]
   [magnetar.pg :as pg]))

(set! *warn-on-reflection* true)

(scenario REG-01 "a name leads to its process"
  :expect [true [:got :hi]]
  :ours (let [pid (scenarios/trapper (self))]
          (register :reg01 pid)
          (! :reg01 :hi)
          [(= pid (whereis :reg01)) (receive message message)])
  :erl "P = trapper(self()), register(reg01, P), reg01 ! hi, {whereis(reg01) =:= P, receive M -> M end}")

(scenario REG-02 "a name that is taken stays with its process"
  :expect [[:error :badarg] true]
  :ours (let [pid (scenarios/idle)]
          (register :reg02 pid)
          [(scenarios/observe-error #(register :reg02 (scenarios/idle))) (= pid (whereis :reg02))])
  :erl "P = idle(), register(reg02, P), E = failure(fun() -> register(reg02, idle()) end), {E, whereis(reg02) =:= P}")

(scenario REG-04 "a name goes with its process"
  :expect nil
  :ours (let [pid (scenarios/idle)
              ref (monitor pid)]
          (register :reg04 pid)
          (exit pid :boom)
          (receive [:DOWN ref :process _ _] (whereis :reg04)))
  :erl "P = idle(), R = monitor(process, P), register(reg04, P), exit(P, boom), receive {'DOWN', R, _, _, _} -> whereis(reg04) end")

(scenario REG-05 "a message to a name that nobody has is an error of the sender"
  :expect [:error :badarg]
  :ours (scenarios/observe-error #(! :reg05 :hi))
  :erl "failure(fun() -> reg05 ! hi end)")

(scenario REG-07 "the dead cannot be registered"
  :expect [:error :badarg]
  :ours (let [pid (scenarios/dead)]
          (scenarios/observe-error #(register :reg07 pid)))
  :erl "P = dead(), failure(fun() -> register(reg07, P) end)")

(scenario REG-08 "nothing is no name"
  :expect [:error :badarg]
  :ours (scenarios/observe-error #(register nil (self)))
  :erl "failure(fun() -> register(undefined, self()) end)")

(defn- register-after-death []
  (let [pid (scenarios/idle)
        ref (monitor pid)]
    (register :reg10 pid)
    (exit pid :boom)
    (receive [:DOWN ref :process _ _] nil)
    (let [done (register :reg10 (scenarios/idle))]
      (unregister :reg10)
      done)))

(scenario REG-10 "whoever has got the DOWN may use the name again"
  :expect [true]
  :ours (vec (distinct (repeatedly 200 register-after-death)))
  :erl "lists:usort([begin
        P = idle(), R = monitor(process, P), register(reg10, P), exit(P, boom),
        receive {'DOWN', R, process, _, _} -> ok end,
        T = register(reg10, idle()), unregister(reg10), T
    end || _ <- lists:seq(1, 200)])")

(scenario REG-13 "a name of the cluster leads to its process as long as that lives, and to nobody else"
  :expect [:yes true :no true]
  :ours (let [pid (scenarios/idle)
              first-answer (global/register-name ::reg13 pid)
              found (global/whereis-name ::reg13)
              second-answer (global/register-name ::reg13 (self))]
          (exit pid :boom)
          [first-answer (= pid found) second-answer (scenarios/wait-for #(nil? (global/whereis-name ::reg13)))])
  :erl "P = idle(), A = global:register_name(reg13, P), F = global:whereis_name(reg13), B = global:register_name(reg13, self()),
    exit(P, boom), wait_for(fun() -> global:whereis_name(reg13) =:= undefined end), {A, F =:= P, B, true}")

(defn- membership [group]
  (count (pg/members group)))

(scenario REG-14 "a process is a member of a group as often as it has joined and not left, until it dies"
  :expect [2 1 0]
  :ours (let [pid (scenarios/idle)]
          (pg/join ::reg14 pid)
          (pg/join ::reg14 pid)
          (let [twice (membership ::reg14)
                once (do (pg/leave ::reg14 pid) (membership ::reg14))]
            (exit pid :boom)
            (scenarios/wait-for #(zero? (long (membership ::reg14))))
            [twice once (membership ::reg14)]))
  :erl "pg:start_link(), P = idle(), pg:join(reg14, P), pg:join(reg14, P),
    Two = length(pg:get_members(reg14)), pg:leave(reg14, P), One = length(pg:get_members(reg14)),
    exit(P, boom), wait_for(fun() -> pg:get_members(reg14) =:= [] end), {Two, One, length(pg:get_members(reg14))}")
