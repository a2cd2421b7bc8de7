(ns magnetar.otp.timer-test
  "Scenarios of timers."
  (:require
   [magnetar.actor :as actor :refer [! cancel-timer exit read-timer receive register self send-after spawn start-timer]]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]))

(set! *warn-on-reflection* true)

(defn- when-later
  "What is in the mailbox when a timer of so many milliseconds has fired."
  [ms]
  (send-after ms (self) ::later)
  (receive ::later (actor/flush)))

(scenario TMR-02 "the message of a started timer holds its reference"
  :expect true
  :ours (let [timer (start-timer 20 (self) :m)]
          (receive [:timeout timer :m] true))
  :erl "T = erlang:start_timer(20, self(), m), receive {timeout, T, m} -> true end")

(scenario TMR-03 "a timer that was stopped tells what was left, and does not send"
  :expect [true []]
  :ours (let [timer (send-after 1000 (self) :m)
              left (cancel-timer timer)]
          [(<= 0 (long left) 1000) (when-later 1050)])
  :erl "T = erlang:send_after(200, self(), m), L = erlang:cancel_timer(T), receive after 250 -> ok end, {is_integer(L), flush()}")

(scenario TMR-05 "read-timer tells what is left, false once the timer has sent"
  :expect [true false]
  :ours (let [timer (send-after 1000 (self) :m)
              left (read-timer timer)]
          (receive :m [(int? left) (read-timer timer)]))
  :erl "T = erlang:send_after(100, self(), m), L = erlang:read_timer(T), receive m -> {is_integer(L), erlang:read_timer(T)} end")

(scenario TMR-06 "a timer for a process that has died does nothing"
  :expect []
  :ours (let [pid (scenarios/idle)]
          (send-after 20 pid :m)
          (scenarios/through-death pid #(exit pid :kill))
          (when-later 40))
  :erl "P = idle(), erlang:send_after(20, P, m), exit(P, kill), receive after 50 -> ok end, flush()")

(scenario TMR-07 "a timer for a name sends to the one who has it then"
  :expect [:got :m]
  :ours (do
          (send-after 1000 :tmr07 :m)
          (register :tmr07 (scenarios/trapper (self)))
          (receive message message))
  :erl "erlang:send_after(100, tmr07, m), register(tmr07, trapper(self())), receive M -> M end")

(scenario TMR-08 "a timer for a name that nobody has does nothing"
  :expect []
  :ours (do
          (send-after 10 :tmr08 :m)
          (when-later 40))
  :erl "erlang:send_after(10, tmr08, m), receive after 50 -> ok end, flush()")

(scenario TMR-09 "a timer does not end with the process that started it"
  :expect :m
  :ours (let [me (self)
              pid (spawn #(receive :go (send-after 50 me :m)))]
          (scenarios/through-death pid #(! pid :go))
          (receive message message))
  :erl "Me = self(), normal = reason_of(fun() -> erlang:send_after(50, Me, m) end), receive M -> M end")

(scenario TMR-10 "timers fire in the order of their times"
  :expect [20 40 60]
  :ours (do
          (doseq [n [60 20 40]] (send-after (* 50 (long n)) (self) n))
          (vec (repeatedly 3 #(receive message message))))
  :erl "[erlang:send_after(N * 10, self(), N) || N <- [60, 20, 40]], [receive M -> M end || _ <- [1, 2, 3]]")

(scenario TMR-12 "a time in the past, and what is no time, are errors"
  :expect [:error :badarg]
  :ours (let [errors (for [time [-1 :soon nil :infinity]]
                       (scenarios/observe-error #(send-after time (self) :m)))]
          (if (apply = errors) (first errors) (vec errors)))
  :erl "[E] = lists:usort([failure(fun() -> erlang:send_after(T, self(), m) end) || T <- [-1, soon, undefined, infinity]]), E")

(scenario TMR-13 "a timer of 0 sends at once, in its own time"
  :expect :m
  :ours (do
          (send-after 0 (self) :m)
          (receive message message))
  :erl "erlang:send_after(0, self(), m), receive M -> M end")
