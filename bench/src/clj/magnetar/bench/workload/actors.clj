(ns magnetar.bench.workload.actors
  "What `magnetar.actor` is measured with, beside Erlang: each variant does one piece of work; Erlang measures itself, in a node of its own."
  (:require
   [magnetar.actor :as actor :refer [! receive self spawn spawn-link]]
   [magnetar.bench.erlang :as erlang])
  (:import
   (java.util.concurrent.atomic AtomicLong)))

(set! *warn-on-reflection* true)

;; ---- ours

(defn- hop [next]
  (receive
    message (do (! next message) (recur next))))

(defn- ring
  "The token goes `rounds` times around n processes, this one among them; the hops."
  [n rounds]
  (let [me (self)
        hops (doall (take (dec (long n)) (rest (iterate #(spawn hop %) me))))]
    (dotimes [_ rounds]
      (! (last hops) :token)
      (receive :token nil))
    (run! #(actor/exit % :kill) hops)
    (* (long n) (long rounds))))

(defn- send-all [to n]
  (dotimes [i n] (! to i)))

(defn- fan-in [senders messages]
  (let [me (self)
        each (quot (long messages) (long senders))]
    (dotimes [_ senders] (spawn send-all me each))
    (dotimes [_ (* each (long senders))] (receive _ nil))
    (* each (long senders))))

(defn- count-down [^AtomicLong left to]
  (when (zero? (.decrementAndGet left))
    (! to :done)))

(defn- spawn-and-exit [n]
  (let [left (AtomicLong. n)
        me (self)]
    (dotimes [_ n] (spawn count-down left me))
    (receive :done n)))

(defn- ping-pong [rounds]
  (let [me (self)
        pong (spawn (fn pong [] (receive _ (do (! me :pong) (recur)))))]
    (dotimes [_ rounds]
      (! pong :ping)
      (receive :pong nil))
    (actor/exit pong :kill)
    rounds))

(defn- chain
  "n processes, each linked to the next; the first one exits, and so all do."
  [n]
  (let [[first-pid ref] (actor/spawn-monitor
                          (fn link [left]
                            (when (pos? (long left)) (spawn-link link (dec (long left))))
                            (receive :boom (actor/exit :boom)))
                          n)
        _ ref
        start (System/nanoTime)]
    (! first-pid :boom)
    (receive [:DOWN ref :process _ _] (- (System/nanoTime) start))))

(defn- star
  "n processes linked to one that exits, and a monitor of each: all n messages."
  [n]
  (let [me (self)
        middle (spawn #(receive :boom (actor/exit :boom)))]
    (dotimes [_ n]
      (actor/spawn-monitor (fn [] (actor/link middle) (! me :linked) (receive :never nil))))
    (dotimes [_ n] (receive :linked nil))
    (! middle :boom)
    (dotimes [_ n] (receive [:DOWN _ :process _ _] nil))
    n))

(defn- process-value [f & args]
  (actor/join (apply actor/spawn* f args)))

;; ---- Erlang's

(def ^:private peer
  (erlang/peer "magnetar_peer"
    "work(\"ring\", [N, Rounds]) ->
  Me = self(),
  Hops = hops(N - 1, Me, []),
  times(Rounds, fun() -> hd(Hops) ! token, receive token -> ok end end),
  [exit(P, kill) || P <- Hops];
work(\"fan-in\", [Senders, Messages]) ->
  Me = self(),
  Each = Messages div Senders,
  [spawn(fun() -> times(Each, fun() -> Me ! x end) end) || _ <- lists:seq(1, Senders)],
  times(Each * Senders, fun() -> receive _ -> ok end end);
work(\"spawn\", [N]) ->
  Me = self(),
  Left = atomics:new(1, []),
  atomics:put(Left, 1, N),
  times(N, fun() -> spawn(fun() -> case atomics:sub_get(Left, 1, 1) of 0 -> Me ! done; _ -> ok end end) end),
  receive done -> ok end;
work(\"ping-pong\", [Rounds]) ->
  Me = self(),
  Pong = spawn(fun() -> pong(Me) end),
  times(Rounds, fun() -> Pong ! ping, receive pong -> ok end end),
  exit(Pong, kill);
work(\"star\", [N]) ->
  Me = self(),
  Middle = spawn(fun() -> receive boom -> exit(boom) end end),
  times(N, fun() -> spawn_monitor(fun() -> link(Middle), Me ! linked, receive never -> ok end end) end),
  times(N, fun() -> receive linked -> ok end end),
  Middle ! boom,
  times(N, fun() -> receive {'DOWN', _, process, _, _} -> ok end end);
work(\"memory\", [N]) ->
  erlang:garbage_collect(),
  Before = resident(),
  Me = self(),
  Idle = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, N)],
  [begin P ! {are_you_there, Me} end || P <- lists:sublist(Idle, 1)],
  timer:sleep(3000),
  io:format(\"~.1f~n\", [(resident() - Before) / length(Idle)]),
  halt().
hops(0, _, Hops) -> Hops;
hops(N, Next, Hops) -> P = spawn(fun() -> hop(Next) end), hops(N - 1, P, [P | Hops]).
hop(Next) -> receive M -> Next ! M, hop(Next) end.
pong(To) -> receive _ -> To ! pong, pong(To) end.
"))

(def in-erlang
  "What Erlang measures of a piece of work, or nil where it is not installed: milliseconds, or bytes for \"memory\"."
  (partial erlang/measure peer))

(defn- beside-erlang [what f numbers]
  (erlang/variant [["processes" (fn [] (apply process-value f numbers) nil)]] peer what numbers))

;; ---- workloads

(defn rings
  "A token around n processes.

  Example: (rings 1000 1000)"
  [n rounds]
  (beside-erlang "ring" ring [n rounds]))

(defn fan-ins
  "Senders to one mailbox without a bound.

  Example: (fan-ins 4 1000000)"
  [senders messages]
  (beside-erlang "fan-in" fan-in [senders messages]))

(defn spawns
  "n processes that do next to nothing, from the first start to the last end.

  Example: (spawns 100000)"
  [n]
  (beside-erlang "spawn" spawn-and-exit [n]))

(defn ping-pongs
  "Two processes that answer each other.

  Example: (ping-pongs 100000)"
  [rounds]
  (beside-erlang "ping-pong" ping-pong [rounds]))

(defn stars
  "n processes linked to one that exits, each of them monitored.

  Example: (stars 100000)"
  [n]
  (beside-erlang "star" star [n]))

(defn storms
  "Deaths along links, so many at once, and a tenth as many ten times: the same work if the time is linear.

  Example: (storms 100000)"
  [n]
  [["at once" (fn [] (process-value star n) nil)]
   ["in ten parts" (fn [] (dotimes [_ 10] (process-value star (quot (long n) 10))) nil)]])

;; ---- memory

(defn- idle []
  (receive :stop nil))

(defn- start-idle [options]
  (actor/spawn-opt idle options))

(defn park
  "n processes that wait for a message.

  Example: (park 1000)"
  [n]
  (vec (repeatedly n #(start-idle {:bindings :none}))))

(defn park-bound
  "The same, with the dynamic bindings of the caller.

  Example: (park-bound 1000)"
  [n]
  (vec (repeatedly n #(start-idle {}))))

(defn release
  "Lets them end; how many did.

  Example: (release (park 1000))"
  [pids]
  (run! #(! % :stop) pids)
  (count (filter #(nil? (actor/join % {:timeout 60000 :else :lost})) pids)))
