(ns magnetar.otp.receive-test
  "Scenarios of receive, its guards and its timeouts."
  (:require
   [magnetar.actor :as actor :refer [! after demonitor monitor receive self spawn]]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]))

(set! *warn-on-reflection* true)

(defn- put-in-mailbox [& messages]
  (run! #(! (self) %) messages))

(scenario RCV-03 "the order of the mailbox counts, not that of the clauses"
  :expect :m1
  :ours (do
          (put-in-mailbox :m1 :m2)
          (receive
            :m2 :m2
            :m1 :m1))
  :erl "self() ! m1, self() ! m2, receive m2 -> m2; m1 -> m1 end")

(scenario RCV-05 "after 0 does not wait"
  :expect :tmo
  :ours (receive :never nil (after 0 :tmo))
  :erl "receive never -> ok after 0 -> tmo end")

(scenario RCV-09 "a message that a guard refuses stays"
  :expect [3 [[:n 1] [:n 2]]]
  :ours (do
          (put-in-mailbox [:n 1] [:n 2] [:n 3])
          [(receive [:n (x :guard #(< 2 %))] x) (actor/flush)])
  :erl "self() ! {n, 1}, self() ! {n, 2}, self() ! {n, 3}, X = receive {n, N} when N > 2 -> N end, {X, flush()}")

(scenario RCV-10 "a guard that throws does not match"
  :expect [:ok [:notalist]]
  :ours (do
          (put-in-mailbox :notalist)
          [(receive (_x :guard #(= 1 (first %))) :taken (after 0 :ok)) (actor/flush)])
  :erl "self() ! notalist, X = receive M when hd(M) =:= 1 -> taken after 0 -> ok end, {X, flush()}")

(scenario RCV-12 "a body that throws has had its message"
  :expect [:boom [:b]]
  :ours (do
          (put-in-mailbox :a :b)
          [(try
             (receive :a (throw (ex-info "boom" {:what :boom})))
             (catch clojure.lang.ExceptionInfo e (:what (ex-data e))))
           (actor/flush)])
  :erl "self() ! a, self() ! b, X = try receive a -> error(boom) end catch error:E -> E end, {X, flush()}")

(scenario RCV-13 "a receive in a body begins at the head of what is left"
  :expect [:a :x [:b]]
  :ours (do
          (put-in-mailbox :b :a :x)
          (receive
            :a (receive
                 :x [:a :x (actor/flush)])))
  :erl "self() ! b, self() ! a, self() ! x, receive a -> receive x -> {a, x, flush()} end end")

(scenario RCV-14 "a receive without patterns lets time pass and takes nothing"
  :expect [true [:m]]
  :ours (let [begin (System/nanoTime)]
          (put-in-mailbox :m)
          (receive (after 30 nil))
          [(<= 30000000 (- (System/nanoTime) begin)) (actor/flush)])
  :erl "self() ! m, A = erlang:monotonic_time(millisecond), receive after 30 -> ok end,
    B = erlang:monotonic_time(millisecond), {B - A >= 30, flush()}")

(scenario RCV-15 "the time of a receive is evaluated once"
  :expect 1
  :ours (let [me (self)
              times (atom 0)]
          (spawn #(dotimes [n 5] (! me [:other n])))
          (receive :never nil (after (do (swap! times inc) 50) nil))
          @times)
  :erl "Me = self(), put(times, 0), spawn(fun() -> [Me ! {other, N} || N <- [1, 2, 3, 4, 5]] end),
    receive never -> ok after begin put(times, get(times) + 1), 50 end -> ok end, get(times)")

(defn- wait-for-time [ms]
  (receive :never nil (after ms nil)))

(scenario RCV-16 "a time is no keyword but :infinity, and not negative"
  :expect [[:error :badarg] [:error :badarg]]
  :ours [(scenarios/observe-error #(wait-for-time :soon)) (scenarios/observe-error #(wait-for-time -1))]
  :erl "Wait = fun(T) -> failure(fun() -> receive never -> ok after T -> ok end end) end, {Wait(soon), Wait(-1)}"
  :erl-expect [[:error :timeout-value] [:error :timeout-value]]
  :differs "An error in an argument is an IllegalArgumentException, whose ex-data say :magnetar/bad-duration.")

(defn- echo []
  (spawn #(loop []
            (receive [ref from] (! from [ref :ok]))
            (recur))))

(defn- ask [server]
  (let [ref (monitor server)]
    (! server [ref (self)])
    (receive [ref answer] (do (demonitor ref {:flush true}) answer))))

(defn- looked-at
  "A message of two elements that counts in the atom how often it is looked at."
  [looks]
  (proxy [clojure.lang.APersistentVector] []
    (count [] (swap! looks inc) 2)
    (nth ([_] (swap! looks inc) nil) ([_ _] (swap! looks inc) nil))))

(scenario RCV-17 "a request that waits for a fresh reference does not look at an old backlog"
  :expect [2000 0]
  :ours (let [server (echo)
              looks (atom 0)]
          (dotimes [_ 100000] (! (self) (looked-at looks)))
          [(count (filter #{:ok} (repeatedly 2000 #(ask server)))) @looks])
  :erl "S = spawn(fun L() -> receive {R, From} -> From ! {R, ok} end, L() end),
    Ask = fun() -> R = monitor(process, S), S ! {R, self()}, receive {R, ok} -> demonitor(R, [flush]) end end,
    Batch = fun() -> element(1, timer:tc(fun() -> [Ask() || _ <- lists:seq(1, 2000)] end)) end,
    Best = fun() -> lists:min([Batch() || _ <- lists:seq(1, 15)]) end,
    Empty = Best(),
    [self() ! {unrelated, N} || N <- lists:seq(1, 100000)],
    {2000, case Best() < 10 * Empty of true -> 0; false -> all end}")

(scenario RCV-18 "a message that comes in time leaves no timeout behind"
  :expect [:hit []]
  :ours (let [me (self)]
          (spawn #(do (scenarios/wait-for (fn [] (scenarios/waits? me))) (! me :hit)))
          [(receive :hit :hit (after 20000 :timeout)) (actor/flush)])
  :erl "Me = self(), spawn(fun() -> wait_for(fun() -> process_info(Me, status) =:= {status, waiting} end), Me ! hit end),
    X = receive hit -> hit after 500 -> timeout end, receive after 600 -> ok end, {X, flush()}")

(scenario RCV-19 "after :infinity waits for a message"
  :expect :late
  :ours (let [me (self)]
          (spawn #(do (scenarios/wait-for (fn [] (scenarios/waits? me))) (! me :late)))
          (receive :late :late (after :infinity :timeout)))
  :erl "Me = self(), spawn(fun() -> wait_for(fun() -> process_info(Me, status) =:= {status, waiting} end), Me ! late end),
    receive late -> late after infinity -> timeout end")

(scenario RCV-20 "the pattern 1 does not match 1.0"
  :expect [[1.0] 1]
  :ours (do
          (put-in-mailbox 1.0 1)
          (let [x (receive 1 1)]
            [(actor/flush) x]))
  :erl "self() ! 1.0, self() ! 1, X = receive 1 -> 1 end, {flush(), X}")

(defn- text [bytes]
  (String. ^bytes bytes "ISO-8859-1"))

(scenario RCV-22 "a binary pattern takes a message apart; one that is too short stays"
  :expect ["abc" "z" [[0 9 1]]]
  :ours (do
          (put-in-mailbox (byte-array [0 9 1]) (byte-array [0 3 97 98 99 122]))
          (receive
            (bits [[len 16] [body :binary len] [others :binary]])
            [(text body) (text others) (mapv vec (actor/flush))]))
  :erl "self() ! <<9:16, 1>>, self() ! <<3:16, \"abcz\">>,
    receive <<Len:16, Body:Len/binary, Rest/binary>> -> {Body, Rest, [binary_to_list(B) || B <- flush()]} end")
