(ns magnetar.bench.workload.tables
  "What `magnetar.table` is measured with: beside Erlang's ets, which measures itself in a node of its own, and beside the other places for state."
  (:require
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.bench.erlang :as erlang]
   [magnetar.gen-server :as gs]
   [magnetar.table :as table]))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

(defn- in-process [f & args]
  (actor/join (apply actor/spawn* f args)))

;; ---- ours, beside ets

(defn- fill [t ^long n]
  (dotimes [i n] (table/insert t [i i]))
  t)

(defn- insert-all [n]
  (fill (table/create :set {:access :public}) n)
  nil)

;; A table lives as long as its owner: this one waits until the JVM ends.
(defn- kept
  "A filled table."
  [kind n]
  (let [made (promise)]
    (actor/spawn (fn []
                   (deliver made (fill (table/create kind {:access :public}) n))
                   (receive :never nil)))
    (delay @made)))

(defn- next-number
  "The same numbers here and in Erlang."
  ^long [^long x]
  (rem (+ (* x 1103515245) 12345) 2147483648))

(defn- lookups [t ^long n]
  (loop [i 0, x 1]
    (when (< i n)
      (when-not (seq (table/lookup t (rem x n)))
        (throw (ex-info "A row is missing." {:key (rem x n)})))
      (recur (inc i) (next-number x)))))

(defn- count-up [processes n]
  (let [t (table/create :set {:access :public})
        boss (self)
        each (quot (long n) (long processes))]
    (table/insert t [:n 0])
    (dotimes [_ processes]
      (actor/spawn (fn []
                     (dotimes [_ each] (table/update-counter t :n 1))
                     (! boss :done))))
    (dotimes [_ processes] (receive :done nil))
    (when-not (= (* each (long processes)) (table/lookup-element t :n 1))
      (throw (ex-info "A count was lost." {})))))

(defn- ranges [t ^long n ^long times]
  (loop [i 0, x 1]
    (when (< i times)
      (let [from (rem x (- n 100))
            sum (reduce (fn [^long sum [_ ^long v]] (+ sum v)) 0 (table/rows t {:from from :below (+ from 100)}))]
        (when-not (= sum (+ (* 100 from) 4950))
          (throw (ex-info "A row is missing." {:from from})))
        (recur (inc i) (next-number x))))))

;; ---- Erlang's

(def ^:private peer
  (erlang/peer "magnetar_tables"
    "work(\"inserts\", [N]) ->
  T = ets:new(t, [set, public, {read_concurrency, true}]),
  fill(T, 0, N),
  ets:delete(T);
work(\"lookups\", [N]) ->
  lookups(kept(set, N), 0, 1, N);
work(\"counters\", [Processes, N]) ->
  T = ets:new(t, [set, public, {read_concurrency, true}, {write_concurrency, true}]),
  ets:insert(T, {n, 0}),
  Me = self(),
  Each = N div Processes,
  [spawn(fun() -> times(Each, fun() -> ets:update_counter(T, n, 1) end), Me ! done end) || _ <- lists:seq(1, Processes)],
  times(Processes, fun() -> receive done -> ok end end),
  [{n, Count}] = ets:lookup(T, n),
  Count = Each * Processes,
  ets:delete(T);
work(\"ranges\", [N, Times]) ->
  ranges(kept(ordered_set, N), 0, 1, N, Times).
fill(_, N, N) -> ok;
fill(T, I, N) -> ets:insert(T, {I, I}), fill(T, I + 1, N).
kept(Kind, N) ->
  case ets:whereis(kept) of
    undefined -> T = ets:new(kept, [Kind, public, named_table, {read_concurrency, true}]), fill(T, 0, N), T;
    T -> T
  end.
next(X) -> (X * 1103515245 + 12345) rem 2147483648.
lookups(_, N, _, N) -> ok;
lookups(T, I, X, N) -> [_] = ets:lookup(T, X rem N), lookups(T, I + 1, next(X), N).
ranges(_, Times, _, _, Times) -> ok;
ranges(T, I, X, N, Times) ->
  From = X rem (N - 100),
  Sum = 100 * From + 4950,
  Sum = range(T, From, From + 100, 0),
  ranges(T, I + 1, next(X), N, Times).
range(_, Below, Below, Sum) -> Sum;
range(T, Key, Below, Sum) when Key < Below -> range(T, ets:next(T, Key), Below, Sum + ets:lookup_element(T, Key, 2));
range(_, _, _, Sum) -> Sum.
"))

(defn- beside-ets [f what numbers]
  (erlang/variant [["table" (fn [] (f) nil)]] peer what numbers))

;; ---- workloads beside ets

(defn inserts
  "n rows that are inserted into a new set.

  Example: (inserts 1000000)"
  [n]
  (beside-ets #(in-process insert-all n) "inserts" [n]))

(defn looked-up
  "n lookups in a set of n rows, in no order.

  Example: (looked-up 1000000)"
  [n]
  (let [t (kept :set n)]
    (beside-ets #(in-process lookups @t n) "lookups" [n])))

(defn counted
  "n times update-counter of one row, by so many processes.

  Example: (counted 100 1000000)"
  [processes n]
  (beside-ets #(in-process count-up processes n) "counters" [processes n]))

(defn ranged
  "So many ranges of 100 rows of an ordered set of n, from somewhere.

  Example: (ranged 1000000 20000)"
  [n times]
  (let [t (kept :ordered-set n)]
    (beside-ets #(in-process ranges @t n times) "ranges" [n times])))

;; ---- the other places for state: each adds n times one, by so many processes, and reads the sum

(defn- loop-of [^long n]
  (receive
    [:add k] (recur (+ n (long k)))
    [:get from] (! from [:sum n])))

(defn- asked [pid]
  (! pid [:get (self)])
  (receive [:sum n] n))

(def ^:private counter
  {:init (fn [n] [:ok n])
   :handle-call (fn [k _ n] (let [n (+ (long n) (long k))] [:reply n n]))
   :handle-cast (fn [k n] [:noreply (+ (long n) (long k))])})

(defn- place-for-state
  "[add sum] of a new counter in that kind of place."
  [place]
  (case place
    "loop" (let [pid (actor/spawn loop-of 0)] [#(! pid [:add 1]) #(asked pid)])
    "server, call" (let [[_ pid] (gs/start counter 0)] [#(gs/call pid 1) #(gs/call pid 0)])
    "server, cast" (let [[_ pid] (gs/start counter 0)] [#(gs/cast pid 1) #(gs/call pid 0 {:timeout :infinity})])
    "table" (let [t (table/create :set {:access :public})] (table/insert t [:n 0]) [#(table/update-counter t :n 1) #(table/lookup-element t :n 1)])
    "agent" (let [a (agent 0)] [#(send a inc) #(do (await a) @a)])
    "ref" (let [r (ref 0)] [#(dosync (alter r inc)) #(deref r)])
    "atom" (let [a (atom 0)] [#(swap! a inc) #(deref a)])))

(def places
  "Where state may be."
  ["loop" "server, call" "server, cast" "table" "agent" "ref" "atom"])

(defn- add-up [place processes n]
  (let [[add sum] (place-for-state place)
        boss (self)
        each (quot (long n) (long processes))]
    (dotimes [_ processes]
      (actor/spawn (fn []
                     (dotimes [_ each] (add))
                     (! boss :done))))
    (dotimes [_ processes] (receive :done nil))
    (sum)))

(defn kept-in
  "n additions to one number by so many processes, in each place for state.

  Example: (kept-in 1 100000)"
  [processes n]
  (for [place places]
    [place #(in-process add-up place processes n)]))
