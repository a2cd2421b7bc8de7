(ns magnetar.erlang.elixir-test
  "This JVM and a real node of Elixir, in a run with --with-erl."
  {:wakes false
   :limit 180000}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.beam :refer [ask got nothing-more? them us with-elixir]]
   [magnetar.erlang.scripted :refer [eventually failures-of quietly]]
   [magnetar.gen-server :as gs]
   [magnetar.global :as global]
   [magnetar.pg :as pg]
   [magnetar.supervisor :as sup]
   [magnetar.sys :as sys]
   [magnetar.task :as task]
   [magnetar.task.supervisor :as tasks])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(def ^:private here
  "This node in Elixir."
  (str ":\"" us "\""))

(def ^:private shelf-there [:Elixir.Shelf them])

(defn- shelf
  "A server here that does what the module Shelf of the other side does."
  [n]
  (gs/start {:name 'shelf
             :init (fn [n] [:ok n])
             :handle-call (fn [[word x] _ n]
                            (case word
                              :take [:reply [:ok (- (long n) (long x))] (- (long n) (long x))]
                              :echo [:reply x n]
                              :raise (throw (ex-info x {:left 0}))
                              :wait [:noreply n]
                              :stop [:stop x n]))
             :handle-cast (fn [[_ x] n] [:noreply (+ (long n) (long x))])}
            n {:name :shelf}))

(defn- reason-of [f]
  (try (f) (catch ExceptionInfo e (:reason (ex-data e)))))

;; ---- servers

(defn- calls-from-elixir [e]
  (shelf 12)
  (is (= "{:ok, 7}" (ask e "GenServer.call({:shelf, " here "}, {:take, 5})")))
  (is (= ":ok" (ask e "GenServer.cast({:shelf, " here "}, {:add, 3})")))
  (is (= (str "{[\"" us "\": {:ok, 9}], [:\"x@127.0.0.1\"]}")
         (ask e "GenServer.multi_call([" here ", :\"x@127.0.0.1\"], :shelf, {:take, 1})")))
  (is (= ":abcast" (ask e "GenServer.abcast([" here "], :shelf, {:add, 1})")))
  (is (= "10" (ask e ":sys.get_state({:shelf, " here "})")))
  (is (= "{:status, :shelf, :running}"
         (ask e "{:status, _, {:module, m}, [_, s | _]} = :sys.get_status({:shelf, " here "}); {:status, m, s}")))
  (gs/stop :shelf))

(defn- calls-to-elixir [e]
  (is (str/starts-with? (ask e "{:ok, shelf} = Shelf.start(12)") "{:ok, #PID<"))
  (is (= [:ok 7] (gs/call shelf-there [:take 5])))
  (is (= :ok (gs/cast shelf-there [:add 3])))
  (is (= [[[them [:ok 9]]] ["x@127.0.0.1"]] (gs/multi-call [them "x@127.0.0.1"] :Elixir.Shelf [:take 1])))
  (is (= :abcast (gs/abcast [them] :Elixir.Shelf [:add 1])))
  (is (= 10 (sys/get-state shelf-there)))
  (is (= :running (:status (sys/get-status shelf-there))))
  (is (= :ok (gs/stop shelf-there)))
  (is (= "nil" (ask e "Process.whereis(Shelf)"))))

(deftest servers-are-called-both-ways
  (with-elixir
    (fn [_ e]
      (calls-from-elixir e)
      (calls-to-elixir e)
      (is (nothing-more?)))))

;; ---- nodes and processes

(defn- nodes-come-and-go [e]
  (is (= "true" (ask e "Node.connect(" here ")")))
  (is (= (str "{[], [" here "]}") (ask e "{Node.list(), Node.list(:hidden)}")))
  (is (= [":pong" :pong] [(ask e "Node.ping(" here ")") (erlang/ping them)]))
  (erlang/monitor-nodes true)
  (is (= "true" (ask e "Node.monitor(" here ", true)")))
  (is (= "true" (ask e "Node.disconnect(" here ")")))
  (is (= here (ask e "receive do {:nodedown, n} -> n after 10_000 -> :none end")))
  (is (= [:nodedown them] (got)))
  (is (= "true" (ask e "Node.connect(" here ")")))
  (is (= [:nodeup them] (got)))
  (erlang/monitor-nodes false))

(defn- processes-of-elixir-end [e]
  (actor/flag :trap-exit true)
  (ask e "send({:inbox, " here "}, spawn(fn -> receive do {:die, why} -> exit(why) end end))")
  (let [far (got)
        ref (actor/monitor far)]
    (actor/link far)
    (! far [:die [:shutdown {:left 3}]])
    (is (= #{[:DOWN ref :process far [:shutdown {:left 3}]] [:EXIT far [:shutdown {:left 3}]]} (set [(got) (got)]))))
  (ask e "send({:inbox, " here "}, spawn(fn -> receive do :fail -> raise \"no stock\" end end))")
  (let [far (got)
        ref (actor/monitor far)]
    (! far :fail)
    (let [[_ of _ _ [error stack]] (got)]
      (is (= [ref {:__struct__ :Elixir.RuntimeError :__exception__ true :message "no stock"} true] [of error (seq? stack)]))))
  (actor/flag :trap-exit false))

(defn- processes-of-this-node-end [e]
  (let [child (actor/spawn #(receive [:die why] (actor/exit why)))]
    (actor/register :child child)
    (ask e "Process.flag(:trap_exit, true)")
    (ask e "ref = Process.monitor({:child, " here "})")
    (ask e "child = :erpc.call(" here ", :erlang, :whereis, [:child])")
    (is (= "true" (ask e "Process.link(child)")))
    (ask e "send(child, {:die, {:shutdown, :closed}})")
    (is (= "{:shutdown, :closed}" (ask e "receive do {:DOWN, ^ref, :process, {:child, _}, why} -> why after 10_000 -> :none end")))
    (is (= "{:shutdown, :closed}" (ask e "receive do {:EXIT, ^child, why} -> why after 10_000 -> :none end")))
    (ask e "late = Process.monitor(child)")
    (is (= ":noproc" (ask e "receive do {:DOWN, ^late, :process, _, why} -> why after 10_000 -> :none end")))))

(deftest nodes-and-processes-are-watched-both-ways
  (with-elixir
    (fn [_ e]
      (nodes-come-and-go e)
      (processes-of-elixir-end e)
      (processes-of-this-node-end e)
      (is (nothing-more?)))))

;; ---- functions

(defn price [item] (if (= "tea" item) 12 (throw (ex-info "no such item" {:item item}))))
(defn leave [why] (actor/exit why))
(defn announce [to] (! to [:announced (self)]))
(defn opaque [] #{1})
(defn hold [] (receive :end nil))

(def ^:private module ":\"magnetar.erlang.elixir-test\"")

(def ^:private allowed {:spawnable #{#'price #'leave #'announce #'opaque #'hold}})

(defn- functions-of-this-node [e]
  (let [call (fn [function args] (str ":erpc.call(" here ", " module ", " function ", " args ")"))]
    (is (= "12" (ask e (call ":price" "[\"tea\"]"))))
    (is (= "12" (ask e ":rpc.call(" here ", " module ", :price, [\"tea\"])")))
    (is (= "{12, 12}" (ask e "1..2 |> Enum.map(fn _ -> Task.async(fn -> " (call ":price" "[\"tea\"]") " end) end) |> Task.await_many() |> List.to_tuple()")))
    (is (= "%{data: %{item: \"mud\"}, message: \"no such item\", type: \"clojure.lang.ExceptionInfo\"}"
           (ask e "try do " (call ":price" "[\"mud\"]") " rescue x in ErlangError -> {:exception, map, _} = x.original; map end")))
    (is (= "{:exception, :closed}" (ask e "try do " (call ":leave" "[:closed]") " catch :exit, x -> x end")))
    (is (= "\"function :\\\"magnetar.erlang.elixir-test\\\".fetch/1 is undefined (module :\\\"magnetar.erlang.elixir-test\\\" is not available)\""
           (ask e "try do " (call ":fetch" "[1]") " rescue x in ErlangError -> {:exception, :undef, stack} = x.original; "
                "Exception.message(Exception.normalize(:error, :undef, stack)) end")))
    (ask e "pid = Node.spawn(" here ", " module ", :announce, [self()])")
    (is (= "true" (ask e "receive do {:announced, from} -> from == pid after 10_000 -> :none end")))
    (ask e "Process.flag(:trap_exit, true); pid = Node.spawn_link(" here ", " module ", :leave, [:closed])")
    (is (= ":closed" (ask e "receive do {:EXIT, ^pid, why} -> why after 10_000 -> :none end")))
    (is (= "{:undef, :fetch}" (ask e "{pid, ref} = Node.spawn_monitor(" here ", " module ", :fetch, []); "
                                   "receive do {:DOWN, ^ref, :process, ^pid, {why, [{_, f, _, _}]}} -> {why, f} after 10_000 -> :none end")))))

(defn- functions-of-elixir []
  (let [failed (fn [function & args]
                 (try (erlang/call them :Elixir.Work function args)
                      (catch ExceptionInfo e ((juxt :class :reason) (ex-data e)))))]
    (is (= 14 (erlang/call them :Elixir.Work :double [7])))
    (is (= "TEA" (erlang/call them :Elixir.String :upcase ["tea"])))
    (is (= [:error {:__struct__ :Elixir.ArgumentError :__exception__ true :message "too few"}] (failed :fail "too few")))
    (is (= [:exit :closed] (failed :leave :closed)))
    (is (= [:throw [:x 1]] (failed :toss [:x 1])))
    (is (= [:error :undef] (failed :fetch 1)))
    (is (= :ok (erlang/cast them :Elixir.Work :tell [(self) :by-cast])))
    (is (= :by-cast (got)))
    (let [pid (erlang/spawn them :Elixir.Work :tell [(self) :by-spawn])]
      (is (= [them :by-spawn] [(actor/node pid) (got)])))))

(deftest functions-are-called-both-ways
  (with-elixir allowed
    (fn [_ e]
      (quietly #(functions-of-this-node e))
      (functions-of-elixir)
      (is (nothing-more?)))))

(deftest tasks-of-this-node-run-under-a-supervisor-of-elixir
  (with-elixir
    (fn [_ e]
      (ask e "{:ok, _} = Task.Supervisor.start_link(name: Tasks)")
      (ask e "{:ok, _} = Task.Supervisor.start_link(name: Full, max_children: 1)")
      (let [there [:Elixir.Tasks them]
            refused #(try (tasks/async % 'Elixir.Work/double {:args [7]}) (catch ExceptionInfo x (ex-message x)))]
        (is (= 14 (task/await (tasks/async there 'Elixir.Work/double {:args [7]}))))
        (is (= [[:ok 2] [:ok 4] [:ok 6]] (into [] (tasks/async-stream there [1 2 3] 'Elixir.Work/double {:max-concurrency 1}))))
        (is (= [:exit {:__struct__ :Elixir.ArgumentError :__exception__ true :message "too few"}]
               (update (task/yield (tasks/async-nolink there 'Elixir.Work/fail {:args ["too few"]})) 1 first)))
        (is (= [:exit :undef] (update (task/yield (tasks/async-nolink there 'Elixir.Work/fetch)) 1 first)))
        (let [[how pid] (tasks/start-child there 'Elixir.Work/tell {:args [(self) :by-task]})]
          (is (= [:ok them :by-task] [how (actor/node pid) (got)])))
        (is (thrown-with-msg? ExceptionInfo #"no term" (tasks/async there 'Elixir.Work/double {:args [#{1}]})))
        (is (eventually #(= [] (tasks/children there))))
        (let [full [:Elixir.Full them]
              waiting (tasks/async-nolink full 'Elixir.Work/wait)]
          (is (= [(:pid waiting)] (tasks/children full)))
          (is (thrown-with-msg? IllegalStateException #":max-children" (tasks/async full 'Elixir.Work/double {:args [7]})))
          (is (= :ok (tasks/terminate-child full (:pid waiting))))
          (is (= [:exit :shutdown] (task/yield waiting))))
        (is (str/ends-with? (refused [:Elixir.Nobody them]) "The node \"b@127.0.0.1\" has no such process."))
        (is (str/includes? (refused [:Elixir.Tasks "x@127.0.0.1"]) "is not connected")))
      (is (nothing-more?)))))

(defn- tasks-of-this-node [e]
  (let [of (fn [how function args] (str "Task.Supervisor." how "({:tasks, " here "}, " module ", :" function ", " args ")"))]
    (is (= "12" (ask e (of "async" "price" "[\"tea\"]") " |> Task.await()")))
    (is (= "[ok: 12, ok: 12, ok: 12]"
           (ask e "Task.Supervisor.async_stream({:tasks, " here "}, List.duplicate(\"tea\", 3), " module ", :price, []) |> Enum.to_list()")))
    (is (= "{\"no such item\", \"mud\"}"
           (ask e "{:exit, {why, _}} = " (of "async_nolink" "price" "[\"mud\"]") " |> Task.yield(); {why.message, why.data.item}")))
    (is (= "{:exit, :closed}" (ask e (of "async_nolink" "leave" "[:closed]") " |> Task.yield()")))
    (is (= ":undef" (ask e "{:exit, {why, _}} = " (of "async_nolink" "fetch" "[1]") " |> Task.yield(); why")))
    (is (= "true" (ask e "{:exit, {why, _}} = " (of "async_nolink" "opaque" "[]") " |> Task.yield(); why.message =~ \"is a set\"")))
    (ask e "{:ok, pid} = " (of "start_child" "announce" "[self()]"))
    (is (= "true" (ask e "receive do {:announced, from} -> from == pid after 10_000 -> :none end")))
    (ask e "task = " (of "async" "hold" "[]"))
    (is (= "true" (ask e "task.pid in Task.Supervisor.children({:tasks, " here "})")))
    (is (= "nil" (ask e "Task.shutdown(task)")))))

(defn- tasks-that-are-refused [e]
  (let [start #(ask e "try do Task.Supervisor.async({" % ", " here "}, " module ", :price, [\"tea\"]) |> Task.await() "
                    "rescue x -> Exception.message(x) end")]
    (tasks/start-link {:name :full :max-children 1})
    (tasks/start-child :full #(receive :end nil))
    (is (str/includes? (start ":full") "reached the maximum number of tasks"))
    (sup/start-link {:children []} {:name :top})
    (is (str/includes? (start ":top") "no case clause matching: {:error, {:notsup,"))
    (run! gs/stop [:full :top])))

(deftest tasks-of-elixir-run-under-a-supervisor-here
  (with-elixir allowed
    (fn [_ e]
      (tasks/start-link {:name :tasks})
      (failures-of
        (fn [failures]
          (quietly #(do (tasks-of-this-node e)
                        (gs/stop :tasks)))
          (is (= ["no such item" true] (update (mapv #(ex-message (:error %)) @failures) 1 str/includes? "is a set")))))
      (tasks-that-are-refused e)
      (is (nothing-more?)))))

;; ---- values

(def ^:private values
  "What Elixir sends, and what comes here."
  {":ok" :ok
   "Order" :Elixir.Order
   "nil" nil
   "true" true
   ":undefined" :undefined
   "\"na\u00efve\"" "na\u00efve"
   "'tea'" '(116 101 97)
   "[a: 1, b: 2]" '([:a 1] [:b 2])
   "{:ok, []}" [:ok ()]
   "%{\"k\" => 1.5, 2 => nil}" {"k" 1.5, 2 nil}
   "%Order{id: 7, items: [\"tea\"]}" {:__struct__ :Elixir.Order :id 7 :items '("tea")}
   "1..3" {:__struct__ :Elixir.Range :first 1 :last 3 :step 1}
   "~D[2026-05-01]" {:__struct__ :Elixir.Date :calendar :Elixir.Calendar.ISO :year 2026 :month 5 :day 1}
   "~U[2026-05-01 12:30:00Z]" {:__struct__ :Elixir.DateTime :calendar :Elixir.Calendar.ISO :year 2026 :month 5 :day 1 :hour 12 :minute 30 :second 0
                               :microsecond [0 0] :std_offset 0 :utc_offset 0 :time_zone "Etc/UTC" :zone_abbr "UTC"}
   "123_456_789_012_345_678_901" 123456789012345678901N})

(deftest values-come-and-go-back
  (with-elixir
    (fn [_ e]
      (ask e "echo = spawn(fn -> Stream.repeatedly(fn -> receive do {to, x} -> send(to, x) end end) |> Stream.run() end)")
      (ask e "Process.register(echo, :echo)")
      (doseq [[there here-value] values]
        (ask e "send({:inbox, " here "}, " there ")")
        (let [x (got)]
          (is (= here-value x) there)
          (! [:echo them] [(self) x])
          (is (= here-value (got)) there)
          (ask e "send({:inbox, " here "}, {self(), " there "})")
          (let [[from x] (got)]
            (! from x))
          (is (= "true" (ask e "receive do x -> x === (" there ") after 10_000 -> :none end")) there)))
      (ask e "f = fn x -> x + 1 end; send({:inbox, " here "}, {self(), f, &String.upcase/1, MapSet.new([1])})")
      (let [[from & parts] (got)]
        (! from (vec parts)))
      (is (= "{true, 8, \"TEA\", true}" (ask e "receive do {g, u, set} -> {f == g, g.(7), u.(\"tea\"), MapSet.member?(set, 1)} end")))
      (is (nothing-more?)))))

;; ---- failures

(defn- exit-shown
  "What Elixir shows of the exit of the call, without its first words."
  [e call]
  (subs (read-string (ask e "try do " call " catch :exit, why -> Exception.format_exit(why) end"))
        (count "exited in: ")))

(deftest failures-are-readable-on-both-sides
  (with-elixir
    (fn [_ e]
      (let [at #(str "GenServer.call({" % ", " here "}, ")]
        (is (str/starts-with? (exit-shown e (str (at ":nobody") "{:take, 5})"))
                              (str (at ":nobody") "{:take, 5}, 5000)\n    ** (EXIT) no process: the process is not alive")))
        (quietly
          (fn []
            (doseq [[request why] {"{:stop, {:shutdown, :closed}}" "shutdown: :closed"
                                   "{:raise, \"no stock\"}" "{%{data: %{left: 0}, message: \"no stock\", type: :\"clojure.lang.ExceptionInfo\"}, {}}"}]
              (shelf 12)
              (is (= (str (at ":shelf") request ", 5000)\n    ** (EXIT) " why) (exit-shown e (str (at ":shelf") request ")")))))))
        (shelf 12)
        (is (= (str (at ":shelf") "{:wait, 0}, 50)\n    ** (EXIT) time out") (exit-shown e (str (at ":shelf") "{:wait, 0}, 50)"))))
        (ask e "Shelf.start(12)")
        (is (= [{:__struct__ :Elixir.ArgumentError :__exception__ true :message "no stock"} true]
               (update (reason-of #(gs/call shelf-there [:raise "no stock"])) 1 seq?)))
        (is (= :noproc (reason-of #(gs/call shelf-there [:take 1]))))
        (gs/stop :shelf)))))

;; ---- supervisors, names and groups

(defn- supervisors [e]
  (ask e "{:ok, top} = Supervisor.start_link([%{id: :shelf, start: {Shelf, :start_link, [1]}}], strategy: :one_for_one, name: Top)")
  (ask e "{:ok, _} = DynamicSupervisor.start_link(name: Crew)")
  (is (= [[:shelf them :worker [:Elixir.Shelf]]]
         (map (juxt :id (comp actor/node :pid) :type :modules) (sup/which-children [:Elixir.Top them]))))
  (is (= :ok (first (erlang/call them :Elixir.DynamicSupervisor :start_child [:Elixir.Crew {:id :shelf :start [:Elixir.Shelf :start_link '(2)]}]))))
  (is (= {:specs 1 :active 1 :supervisors 0 :workers 1} (sup/count-children [:Elixir.Crew them])))
  (is (= [:ok :ok] [(sup/terminate-child [:Elixir.Top them] :shelf) (first (sup/restart-child [:Elixir.Top them] :shelf))]))
  (let [[_ top] (sup/start-link {:children [{:id :shelf :start [gs/start-link {:init (fn [_] [:ok 0])} nil]}]} {:name :top})]
    (is (= (str "[{:shelf, " here ", :worker, :dynamic}]")
           (ask e "for {id, pid, type, modules} <- Supervisor.which_children({:top, " here "}), do: {id, node(pid), type, modules}")))
    (is (= "%{active: 1, specs: 1, supervisors: 0, workers: 1}" (ask e "Supervisor.count_children({:top, " here "})")))
    (is (= "{:ok, true}" (ask e ":ok = Supervisor.terminate_child({:top, " here "}, :shelf); "
                              "{:ok, pid} = Supervisor.restart_child({:top, " here "}, :shelf); {:ok, is_pid(pid)}")))
    (gs/stop top)))

(defn- names-and-groups [e]
  (ask e "{:ok, shelf} = GenServer.start(Shelf, 5, name: {:global, :shelf})")
  (is (= [:ok 4] (gs/call [:global :shelf] [:take 1])))
  (is (= :yes (global/register-name :inbox (self))))
  (ask e "send(:global.whereis_name(:inbox), :by_global)")
  (is (= :by_global (got)))
  (ask e "{:ok, _} = Registry.start_link(keys: :unique, name: Names)")
  (ask e "{:ok, _} = GenServer.start(Shelf, 7, name: {:via, Registry, {Names, \"tea\"}})")
  (let [[[pid]] (erlang/call them :Elixir.Registry :lookup [:Elixir.Names "tea"])]
    (is (= [:ok 6] (gs/call pid [:take 1]))))
  (ask e "{:ok, _} = :pg.start_link(); :pg.join(:shelves, shelf)")
  (is (eventually #(= 1 (count (pg/members :shelves)))))
  (is (= [:ok 3] (gs/call (first (pg/members :shelves)) [:take 1]))))

(deftest supervisors-names-and-groups-are-shared
  (with-elixir {:visible true :words []}
    (fn [_ e]
      (is (= "true" (ask e "Node.connect(" here ")")))
      (is (= ["ok" :ok] [(subs (ask e ":global.sync()") 1) (global/sync)]))
      (supervisors e)
      (names-and-groups e)
      (is (nothing-more?)))))
