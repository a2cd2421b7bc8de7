(ns magnetar.otp.dynamic-test
  "Scenarios of supervisors whose children are made by a template, or have no ids."
  (:require
   [magnetar.actor :as actor :refer [! exit receive self]]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]
   [magnetar.otp.servers :as servers :refer [crash state-of supervisor]]
   [magnetar.supervisor :as sup]))

(set! *warn-on-reflection* true)

(defn- start-told
  "Starts a child that tells `to` of its start, with a number."
  [to n]
  (gs/start-link servers/kid {:id n :to to}))

(defn- simple [more]
  (supervisor {:strategy :simple-one-for-one :intensity 10 :children [(merge {:id :t :start [start-told (self)]} more)]}))

(defn- end-pid
  "Kills the child, and waits until the supervisor has acted on it."
  [s pid]
  (servers/reason-of-end pid #(exit pid :kill))
  (while (some #{pid} (map :pid (sup/which-children s)))))

(scenario SUP-41 "simple-one-for-one: a child is started again with its own arguments"
  :expect [[:started 2]]
  :ours (let [s (simple nil)
              [_ two] (do (sup/start-child s [1]) (sup/start-child s [2]))]
          (actor/flush)
          (end-pid s two)
          (servers/told))
  :erl "S = sup(#{strategy => simple_one_for_one, intensity => 10}, [#{id => t, start => {?MODULE, kid_start, [self()]}}]),
    supervisor:start_child(S, [1]), {ok, P} = supervisor:start_child(S, [2]), flush(), end_pid(S, P), told()")

(scenario SUP-42 "simple-one-for-one: children are stopped by pid, and have no ids"
  :expect [:ok [:error :simple-one-for-one] [:error :simple-one-for-one] [:error :simple-one-for-one] 0]
  :ours (let [s (simple nil)
              [_ pid] (sup/start-child s [1])]
          [(sup/terminate-child s pid) (sup/terminate-child s :t) (sup/delete-child s :t) (sup/restart-child s :t)
           (:active (sup/count-children s))])
  :erl "S = sup(#{strategy => simple_one_for_one}, [quiet(t)]), {ok, P} = supervisor:start_child(S, []),
    A = supervisor:terminate_child(S, P), B = supervisor:terminate_child(S, t), C = supervisor:delete_child(S, t), D = supervisor:restart_child(S, t),
    {A, B, C, D, proplists:get_value(active, supervisor:count_children(S))}")

(scenario SUP-43 "simple-one-for-one: a start that fails or ignores leaves nothing"
  :expect [[:error :r] [:ok nil] []]
  :ours (let [s (simple {:start [identity]})]
          [(sup/start-child s [[:error :r]]) (sup/start-child s [:ignore]) (sup/which-children s)])
  :erl "S = sup(#{strategy => simple_one_for_one}, [(quiet(t))#{start => {erlang, hd, []}}]),
    {supervisor:start_child(S, [[{error, r}]]), supervisor:start_child(S, [[ignore]]), supervisor:which_children(S)}")

(scenario SUP-44 "simple-one-for-one: there is one template"
  :expect [[:thrown :bad-start-spec] [:thrown :bad-start-spec]]
  :ours (mapv #(let [[how [kind]] (servers/thrown {:strategy :simple-one-for-one :children %})] [how kind])
              [[] [(servers/quiet :a) (servers/quiet :b)]])
  :erl-expect [:bad-start-spec :bad-start-spec]
  :differs "A wrong spec is a mistake of the program that gives it, which is told so where it gives it."
  :erl "W = fun(Cs) -> {error, {X, _}} = sup_start(fun() -> {ok, {#{strategy => simple_one_for_one}, Cs}} end), X end,
    {W([]), W([quiet(a), quiet(b)])}")

(scenario SUP-45 "simple-one-for-one: children are stopped at the same time"
  :expect [50 :shutdown]
  :ours (let [me (self)
              slow (assoc servers/kid :terminate (fn [_ _] (! me [:stopping (self)]) (receive :all-are nil)))
              s (simple {:start [gs/start-link slow] :shutdown :infinity})
              ref (actor/monitor s)]
          (dotimes [n 50] (sup/start-child s [{:id n}]))
          (exit s :shutdown)
          (let [stopping (vec (repeatedly 50 #(receive [:stopping pid] pid)))]
            (run! #(! % :all-are) stopping)
            [(count (distinct stopping)) (receive [:DOWN ref :process _ why] why)]))
  :no-erl "There it was observed by time: far below 50 times the time of one.")

;; ---- dynamic supervisors, as in Elixir

(defn- dynamic [more]
  (supervisor (merge {:strategy :dynamic} more)))

(defn- scripted-child [f]
  {:start [gs/start-link servers/scripted f]})

(scenario DYN-03 "a child that stops in init, or ignores, is not kept"
  :expect [[:error :r] :ignore 0]
  :ours (let [s (dynamic nil)]
          [(sup/start-child s (scripted-child (fn [] [:stop :r])))
           (sup/start-child s (scripted-child (fn [] :ignore)))
           (:active (sup/count-children s))])
  :elixir "s = dynamic()
    {DynamicSupervisor.start_child(s, scripted(fn -> {:stop, :r} end)), DynamicSupervisor.start_child(s, scripted(fn -> :ignore end)), active(s)}")

(scenario DYN-04 "children are stopped by pid, and not started again"
  :expect [:ok [:error :not-found] 0]
  :ours (let [s (dynamic nil)
              [_ pid] (sup/start-child s (scripted-child (fn [] [:ok 7])))]
          [(sup/terminate-child s pid) (sup/terminate-child s (self)) (:active (sup/count-children s))])
  :elixir "s = dynamic()
    {:ok, pid} = DynamicSupervisor.start_child(s, scripted(fn -> {:ok, 7} end))
    {DynamicSupervisor.terminate_child(s, pid), DynamicSupervisor.terminate_child(s, self()), active(s)}")

(scenario DYN-05 "a permanent child that crashes is started again with its arguments"
  :expect [true 7]
  :ours (let [s (dynamic nil)
              [_ old] (sup/start-child s (scripted-child (fn [] [:ok 7])))]
          (end-pid s old)
          (let [[{:keys [pid]}] (sup/which-children s)]
            [(not= old pid) (gs/call pid :get)]))
  :elixir "s = dynamic()
    {:ok, old} = DynamicSupervisor.start_child(s, scripted(fn -> {:ok, 7} end))
    end_child(DynamicSupervisor, s)
    [new] = pids(DynamicSupervisor, s)
    {old != new, GenServer.call(new, :get)}")

(scenario DYN-06 "extra arguments stand before those of the child"
  :expect [:x 1]
  :ours (let [s (dynamic {:extra-arguments [:x]})
              start (fn [& args] (gs/start-link servers/scripted (fn [] [:ok (vec args)])))
              [_ pid] (sup/start-child s {:start [start 1]})]
          (gs/call pid :get))
  :elixir "s = dynamic(extra_arguments: [:x])
    {:ok, pid} = DynamicSupervisor.start_child(s, %{id: :w, start: {Worker, :start_link, [1]}})
    GenServer.call(pid, :get)")

(defn- crash-any [s]
  (end-pid s (:pid (first (sup/which-children s)))))

(scenario DYN-07 "three restarts in 5 seconds are borne, the fourth ends the supervisor"
  :expect [:up :shutdown]
  :ours (let [s (dynamic nil)]
          (sup/start-child s (scripted-child (fn [] [:ok 7])))
          (dotimes [_ 3] (crash-any s))
          (let [before (state-of s)
                [{:keys [pid]}] (sup/which-children s)]
            [before (servers/reason-of-end s #(exit pid :kill))]))
  :elixir "s = dynamic()
    DynamicSupervisor.start_child(s, scripted(fn -> {:ok, 7} end))
    for _ <- 1..3, do: end_child(DynamicSupervisor, s)
    {state_of(s), end_last(DynamicSupervisor, s)}")

(scenario DYN-09 "with Elixir's intensity, three restarts in 5 seconds are borne by a supervisor with ids, too"
  :expect [:up :shutdown]
  :ours (let [s (supervisor {:intensity 3 :children [(servers/quiet :a)]})]
          (dotimes [_ 3] (crash s :a))
          (let [before (state-of s)]
            [before (servers/reason-of-end s #(crash s :a))]))
  :no-erl "This is observed on Elixir; the default of a supervisor with ids is OTP's, see SUP-03, so the intensity is given here."
  :elixir "Process.flag(:trap_exit, true)
    {:ok, s} = Supervisor.start_link([scripted(fn -> {:ok, 7} end)], strategy: :one_for_one)
    for _ <- 1..3, do: end_child(Supervisor, s)
    {state_of(s), end_last(Supervisor, s)}")
