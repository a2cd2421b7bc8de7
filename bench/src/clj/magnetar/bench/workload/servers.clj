(ns magnetar.bench.workload.servers
  "What `magnetar.gen-server` and `magnetar.supervisor` are measured with, beside Erlang, which measures itself in a node of its own."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.bench.child :as child]
   [magnetar.gen-server :as gs]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.supervisor :as sup])
  (:import
   (java.io File)))

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

(defn- calls [hosting callers n]
  (let [pid (server hosting)
        each (quot (long n) (long callers))]
    (dotimes [_ callers] (actor/spawn call-all pid each (self)))
    (dotimes [_ callers] (receive :done nil))
    (gs/stop pid)))

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
  (let [before (proc-lib/set-report-hook (fn [_]))]
    (try
      (actor/join (apply actor/spawn f args))
      (finally (proc-lib/set-report-hook before)))))

;; ---- Erlang's

(def ^:private erlang-program
  "-module(magnetar_servers).
-export([main/1, init/1, handle_call/3, handle_cast/2, start_counter/1]).
main([What | Arguments]) ->
  logger:set_primary_config(level, none),
  Numbers = [list_to_integer(A) || A <- Arguments],
  work(What, Numbers),
  Times = lists:sort([one(What, Numbers) || _ <- lists:seq(1, 3)]),
  io:format(\"~.4f~n\", [lists:nth(2, Times) / 1.0e6]),
  halt().
one(What, Numbers) ->
  Me = self(),
  spawn(fun() -> erlang:garbage_collect(), T = erlang:monotonic_time(nanosecond), work(What, Numbers),
                 Me ! {took, erlang:monotonic_time(nanosecond) - T} end),
  receive {took, T} -> T end.
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
times(0, _) -> ok;
times(N, F) -> F(), times(N - 1, F).
resident() ->
  {ok, Text} = file:read_file(\"/proc/self/statm\"),
  [_, Pages | _] = string:split(binary_to_list(Text), \" \", all),
  list_to_integer(Pages) * 4096.
")

(defn- command
  "The path of a command, or nil."
  [named]
  (some (fn [folder] (let [file (io/file folder named)] (when (.canExecute file) (str file))))
        (str/split (or (System/getenv "PATH") "") (re-pattern File/pathSeparator))))

(def ^:private compiled
  "The folder with Erlang's side, compiled, or nil where Erlang is not installed."
  (delay
    (when-some [erlc (command "erlc")]
      (let [folder (.toFile (java.nio.file.Files/createTempDirectory "magnetar-servers" (make-array java.nio.file.attribute.FileAttribute 0)))
            source (io/file folder "magnetar_servers.erl")]
        (spit source erlang-program)
        (child/output [erlc "-o" folder source])
        (run! #(.deleteOnExit ^File %) [folder source (io/file folder "magnetar_servers.beam")])
        (str folder)))))

(defn erlang
  "What Erlang measures of a piece of work, or nil where it is not installed: milliseconds, or bytes for \"memory\".

  Example: (erlang \"casts\" 1000)"
  [what & numbers]
  (when-some [folder @compiled]
    (parse-double (str/trim (child/output (concat [(command "erl") "+P" "5000000" "-noshell" "-pa" folder "-run" "magnetar_servers" "main" what]
                                                  numbers))))))

(defn- beside-erlang [what f numbers]
  (cond-> [["threaded" (fn [] (quietly f (cons :threaded numbers)) nil)]
           ["activated" (fn [] (quietly f (cons :activated numbers)) nil)]]
    @compiled (conj ["Erlang" (fn [] {:ms (apply erlang what numbers)})])))

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
