(ns magnetar.bench.workload.servers
  "What `magnetar.gen-server` and `magnetar.supervisor` are measured with, beside Erlang, which measures itself in a node of its own."
  (:require
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.bench.erlang :as erlang]
   [magnetar.gen-server :as gs]
   [magnetar.report :as report]
   [magnetar.supervisor :as sup]))

(set! *warn-on-reflection* true)

;; ---- ours

(def ^:private counter
  {:init (fn [told] (when told (! told :started)) [:ok 0])
   :handle-call (fn [_ _ n] [:reply n n])
   :handle-cast (fn [_ n] [:noreply (inc (long n))])})

(defn- server [hosting]
  (second (gs/start counter nil {:hosting hosting})))

(defn- call-all [pid n boss]
  (dotimes [_ n] (gs/call pid :get))
  (! boss :done))

(defn- calls-of [pid callers n]
  (let [each (quot (long n) (long callers))]
    (dotimes [_ callers] (actor/spawn call-all pid each (self)))
    (dotimes [_ callers] (receive :done nil))
    (gs/stop pid)))

(defn- calls [hosting callers n]
  (calls-of (server hosting) callers n))

(defn- casts [hosting n]
  (let [pid (server hosting)]
    (dotimes [_ n] (gs/cast pid :more))
    (when-not (= n (gs/call pid :get {:timeout :infinity}))
      (throw (ex-info "A cast was lost." {})))
    (gs/stop pid)))

(defn- supervisor [hosting told]
  (actor/flag :trap-exit true)
  (second (sup/start-link {:strategy :simple-one-for-one :intensity 1000000000 :period 1000
                           :children [{:id :c :start [gs/start-link counter told {:hosting hosting}]}]})))

(defn- children [hosting n]
  (let [s (supervisor hosting nil)]
    (dotimes [_ n] (sup/start-child s []))
    (gs/stop s)))

(defn- storm [hosting n]
  (let [s (supervisor hosting (self))]
    (dotimes [_ n] (sup/start-child s []))
    (dotimes [_ n] (receive :started nil))
    (doseq [{:keys [pid]} (sup/which-children s)] (actor/exit pid :kill))
    (dotimes [_ n] (receive :started nil))
    (gs/stop s)))

(defn- quietly [f args]
  (let [silent (report/add-hook :report (fn [_]))]
    (try
      (actor/join (apply actor/spawn* f args))
      (finally (report/remove-hook :report silent)))))

;; ---- Erlang's

(def ^:private peer
  (erlang/peer "magnetar_servers"
    "-export([init/1, handle_call/3, handle_cast/2, start_counter/1]).
init({sup, Told}) ->
  {ok, {#{strategy => simple_one_for_one, intensity => 1000000000, period => 1},
        [#{id => c, start => {?MODULE, start_counter, [Told]}}]}};
init({counter, none}) -> {ok, 0};
init({counter, Told}) -> Told ! started, {ok, 0}.
handle_call(_, _, N) -> {reply, N, N}.
handle_cast(_, N) -> {noreply, N + 1}.
start_counter(Told) -> gen_server:start_link(?MODULE, {counter, Told}, []).
work(\"calls\", [Callers, N]) ->
  {ok, P} = gen_server:start(?MODULE, {counter, none}, []),
  Me = self(),
  [spawn(fun() -> times(N div Callers, fun() -> gen_server:call(P, get) end), Me ! done end) || _ <- lists:seq(1, Callers)],
  times(Callers, fun() -> receive done -> ok end end),
  gen_server:stop(P);
work(\"casts\", [N]) ->
  {ok, P} = gen_server:start(?MODULE, {counter, none}, []),
  times(N, fun() -> gen_server:cast(P, more) end),
  N = gen_server:call(P, get, infinity),
  gen_server:stop(P);
work(\"children\", [N]) ->
  S = sup(none),
  times(N, fun() -> {ok, _} = supervisor:start_child(S, []) end),
  gen_server:stop(S);
work(\"storm\", [N]) ->
  S = sup(self()),
  times(N, fun() -> {ok, _} = supervisor:start_child(S, []) end),
  times(N, fun() -> receive started -> ok end end),
  [exit(P, kill) || {_, P, _, _} <- supervisor:which_children(S)],
  times(N, fun() -> receive started -> ok end end),
  gen_server:stop(S);
work(\"memory\", [N]) ->
  erlang:garbage_collect(),
  Before = resident(),
  Idle = [element(2, gen_server:start(?MODULE, {counter, none}, [])) || _ <- lists:seq(1, N)],
  timer:sleep(3000),
  io:format(\"~.1f~n\", [(resident() - Before) / length(Idle)]),
  halt().
sup(Told) ->
  process_flag(trap_exit, true),
  {ok, S} = supervisor:start_link(?MODULE, {sup, Told}),
  S.
"))

(def in-erlang
  "What Erlang measures of a piece of work, or nil where it is not installed: milliseconds, or bytes for \"memory\"."
  (partial erlang/measure peer))

(defn- beside-erlang [what f numbers]
  (erlang/variant [["threaded" (fn [] (quietly f (cons :threaded numbers)) nil)]
                   ["activated" (fn [] (quietly f (cons :activated numbers)) nil)]]
    peer what numbers))

;; ---- workloads

(defn called
  "n calls of one server by so many callers.

  Example: (called 1 100000)"
  [callers n]
  (beside-erlang "calls" calls [callers n]))

(defn cast-to
  "n casts to one server, and one call.

  Example: (cast-to 100000)"
  [n]
  (beside-erlang "casts" casts [n]))

(defn started
  "n children of one supervisor, from the first start to the end of all.

  Example: (started 100000)"
  [n]
  (beside-erlang "children" children [n]))

(defn storms
  "n children that are killed at once, and started again by their supervisor.

  Example: (storms 10000)"
  [n]
  (beside-erlang "storm" storm [n]))

;; ---- memory

(defn- idle [hosting n]
  (actor/join (actor/spawn (fn [] (vec (repeatedly n #(server hosting)))))))

(defn park
  "n activated servers that wait.

  Example: (park 1000)"
  [n]
  (idle :activated n))

(defn park-threaded
  "n servers with a thread each that wait.

  Example: (park-threaded 1000)"
  [n]
  (idle :threaded n))

(defn release
  "Lets them end; how many did.

  Example: (release (park 1000))"
  [pids]
  (run! #(actor/exit % :kill) pids)
  (count pids))
