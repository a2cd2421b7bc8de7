(ns magnetar.otp.task-test
  "Scenarios of tasks, as in Elixir."
  (:require
   [magnetar.actor :as actor :refer [! exit receive self]]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]
   [magnetar.task :as task]
   [magnetar.task.supervisor :as tasks])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(defn- failure
  "[:exit reason] of what awaits in f, or its value."
  [f]
  (try
    [:value (f)]
    (catch ExceptionInfo e
      [:exit (:reason (ex-data e))])))

(defn- forever []
  (receive ::never nil))

(scenario TSK-01 "the value of a task is awaited"
  :expect 42
  :ours (task/await (task/async * 6 7))
  :elixir "Task.await(Task.async(fn -> 6 * 7 end))")

(scenario TSK-02 "whoever awaits a task that is too slow exits"
  :expect [:exit :timeout]
  :ours (failure #(task/await (task/async forever) {:timeout 30}))
  :elixir "failure(fn -> Task.await(Task.async(&forever/0), 30) end)")

(scenario TSK-03 "who traps exits learns of the crash of a task where it awaits it, and by the link"
  :expect [[:exit :boom] :boom]
  :ours (do
          (actor/flag :trap-exit true)
          (let [{:keys [pid] :as crashing} (task/async exit :boom)]
            [(failure #(task/await crashing)) (receive [:EXIT pid why] why)]))
  :elixir "Process.flag(:trap_exit, true)
    task = Task.async(fn -> exit(:boom) end)
    pid = task.pid
    {failure(fn -> Task.await(task) end), receive do {:EXIT, ^pid, why} -> why end}")

(scenario TSK-04 "who does not trap exits dies with its task"
  :expect :boom
  :ours (scenarios/reason-of #(task/await (task/async exit :boom)))
  :elixir "reason_of(fn -> Task.async(fn -> exit(:boom) end); forever() end)")

(scenario TSK-05 "a task that is not ready in time can be shut down"
  :expect [:late nil false]
  :ours (let [{:keys [pid] :as slow} (task/async forever)]
          [(scenarios/late #(task/yield slow {:timeout 20})) (task/shutdown slow) (actor/alive? pid)])
  :elixir "task = Task.async(&forever/0)
    {Task.yield(task, 20), Task.shutdown(task), Process.alive?(task.pid)}"
  :erl-expect [nil nil false]
  :differs "No answer in time is an error, unless :else says what to return.")

(scenario TSK-06 "only its owner may await a task"
  :expect [:error :badarg]
  :ours (let [me (self)
              done (task/async inc 1)]
          (actor/spawn #(! me [:tried (scenarios/observe-error (fn [] (task/await done)))]))
          (receive [:tried outcome] outcome))
  :elixir "me = self()
    task = Task.async(fn -> 2 end)
    spawn(fn -> send(me, {:tried, try do {:ok, Task.await(task)} rescue ArgumentError -> {:error, :badarg} end}) end)
    receive do {:tried, outcome} -> outcome end")

(defn- peaked
  "Counts itself in and out, and keeps the most that were in."
  [counts n]
  (swap! counts (fn [{:keys [now most]}] {:now (inc now) :most (max most (inc now))}))
  (scenarios/pause 1)
  (swap! counts update :now dec)
  n)

(scenario TSK-07 "a stream of tasks runs so many at a time, and gives results in order"
  :expect [[[:ok 1] [:ok 2] [:ok 3] [:ok 4] [:ok 5] [:ok 6]] true]
  :ours (let [counts (atom {:now 0 :most 0})]
          [(into [] (task/async-stream (range 1 7) #(peaked counts %) {:max-concurrency 2}))
           (<= (:most @counts) 2)])
  :elixir "counts = :counters.new(1, [])
    run = fn n -> :counters.add(counts, 1, 1); most = :counters.get(counts, 1); Process.sleep(1); :counters.sub(counts, 1, 1); {n, most} end
    results = Enum.to_list(Task.async_stream(1..6, run, max_concurrency: 2))
    {Enum.map(results, fn {:ok, {n, _}} -> {:ok, n} end), Enum.all?(results, fn {:ok, {_, most}} -> most <= 2 end)}")

(defn- after-the-next
  "Waits until the task of the next number has ended, the third for no task; its own number."
  [pids n]
  (swap! pids assoc n (self))
  (when (< (long n) 3)
    (scenarios/wait-for #(@pids (inc (long n))))
    (actor/join (@pids (inc (long n)))))
  n)

(scenario TSK-08 "a stream that is not ordered gives results as they come"
  :expect [3 2 1]
  :ours (let [pids (atom {})]
          (into [] (map second) (task/async-stream [1 2 3] #(after-the-next pids %) {:max-concurrency 3 :ordered false})))
  :elixir "table = :ets.new(:pids, [:public])
    run = fn n -> :ets.insert(table, {n, self()}); if n < 3, do: after_end_of(table, n + 1); n end
    for {:ok, n} <- Task.async_stream([1, 2, 3], run, max_concurrency: 3, ordered: false), do: n")

(scenario TSK-09 "a task of a stream whose time is over is killed, and the others are not concerned"
  :expect [[:ok 1] [:exit :timeout] [:ok 3]]
  :ours (into [] (task/async-stream [1 2 3] #(if (= 2 %) (forever) %) {:timeout 1000 :on-timeout :kill-task}))
  :elixir "Enum.to_list(Task.async_stream([1, 2, 3], fn 2 -> forever(); n -> n end, timeout: 1000, on_timeout: :kill_task))")

(scenario TSK-10 "a task without a link does not take its owner along"
  :expect [[:exit :boom] [:exit :boom]]
  :ours (let [[_ s] (tasks/start-link)]
          [(failure (fn [] (task/await (tasks/async-nolink s #(exit :boom)))))
           (task/yield (tasks/async-nolink s #(exit :boom)))])
  :elixir "{:ok, s} = Task.Supervisor.start_link()
    {failure(fn -> Task.await(Task.Supervisor.async_nolink(s, fn -> exit(:boom) end)) end),
     Task.yield(Task.Supervisor.async_nolink(s, fn -> exit(:boom) end))}")

(scenario TSK-11 "the values of many tasks come in the order in which these were given"
  :expect [30 10 20]
  :ours (task/await-many (mapv (fn [ms] (task/async #(do (scenarios/pause ms) ms))) [30 10 20]))
  :elixir "Task.await_many(for ms <- [30, 10, 20], do: Task.async(fn -> Process.sleep(ms); ms end))")
