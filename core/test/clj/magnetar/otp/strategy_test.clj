(ns magnetar.otp.strategy-test
  "Scenarios of supervisors: strategies, intensity, restarts that fail, significant children."
  (:require
   [magnetar.actor :as actor :refer [exit receive]]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]
   [magnetar.otp.servers :as servers :refer [child crash end pid-of quiet state-of supervisor told view]]
   [magnetar.supervisor :as sup]))

(set! *warn-on-reflection* true)

(defn- told-after-crash
  "What the children of the supervisor tell when this one crashes."
  [s id]
  (actor/flush)
  (crash s id)
  (told))

(scenario SUP-17 "one-for-all: the others are stopped in the reverse order, then all started"
  :expect [[:stopping :c :shutdown] [:stopping :a :shutdown] [:started :a] [:started :b] [:started :c]]
  :ours (told-after-crash (supervisor {:strategy :one-for-all :children [(child :a) (child :b) (child :c)]}) :b)
  :erl "told_after_crash(sup(#{strategy => one_for_all}, [child(a), child(b), child(c)]), b)")

(scenario SUP-18 "rest-for-one: those that were started later are stopped, then started again"
  :expect [[[:stopping :c :shutdown] [:started :b] [:started :c]] true]
  :ours (let [s (supervisor {:strategy :rest-for-one :children [(child :a) (child :b) (child :c)]})
              a (pid-of s :a)]
          [(told-after-crash s :b) (= a (pid-of s :a))])
  :erl "S = sup(#{strategy => rest_for_one}, [child(a), child(b), child(c)]), A = pid_of(S, a), T = told_after_crash(S, b), {T, A =:= pid_of(S, a)}")

(scenario SUP-19 "rest-for-one: the last child crashes, then the first"
  :expect [[[:started :c]] [[:stopping :c :shutdown] [:stopping :b :shutdown] [:started :a] [:started :b] [:started :c]]]
  :ours (let [s (supervisor {:strategy :rest-for-one :intensity 5 :children [(child :a) (child :b) (child :c)]})]
          [(told-after-crash s :c) (told-after-crash s :a)])
  :erl "S = sup(#{strategy => rest_for_one, intensity => 5}, [child(a), child(b), child(c)]), A = told_after_crash(S, c), {A, told_after_crash(S, a)}")

(scenario SUP-21 "one-for-all: a transient child that has ended is started again with the others"
  :expect [[[:p :up] [:t nil]] [[:p :up] [:t :up]]]
  :ours (let [s (supervisor {:strategy :one-for-all :children [(quiet :p) (quiet :t {:restart :transient})]})]
          (end s :t :normal)
          [(view s) (do (crash s :p) (view s))])
  :erl "S = sup(#{strategy => one_for_all}, [quiet(p), (quiet(t))#{restart => transient}]), stop(S, t, normal), A = view(S), crash(S, p), {A, view(S)}")

(scenario SUP-22 "one-for-all: a transient child that ends normally concerns no other"
  :expect [true [[:p :up] [:t nil]]]
  :ours (let [s (supervisor {:strategy :one-for-all :children [(quiet :p) (quiet :t {:restart :transient})]})
              p (pid-of s :p)]
          (end s :t :normal)
          [(= p (pid-of s :p)) (view s)])
  :erl "S = sup(#{strategy => one_for_all}, [quiet(p), (quiet(t))#{restart => transient}]), P = pid_of(S, p), stop(S, t, normal), {P =:= pid_of(S, p), view(S)}")

(scenario SUP-23 "one restart more than the intensity ends the supervisor, which stops the others"
  :expect [:up :shutdown [[:stopping :b :shutdown]]]
  :ours (let [s (supervisor {:intensity 2 :period 3600000 :children [(quiet :a) (child :b)]})]
          (crash s :a)
          (crash s :a)
          (let [before (state-of s)
                why (servers/reason-of-end s #(crash s :a))]
            [before why (told)]))
  :erl "S = sup(#{intensity => 2, period => 3600}, [quiet(a), child(b)]), crash(S, a), crash(S, a), A = state_of(S), flush(),
    crash(S, a), W = state_of(S), {A, W, told()}")

(scenario SUP-38 "a child that was added later takes part in restarts"
  :expect [[:stopping :b :shutdown] [:started :a] [:started :b]]
  :ours (let [s (supervisor {:strategy :one-for-all :children [(child :a)]})]
          (sup/start-child s (child :b))
          (told-after-crash s :a))
  :erl "S = sup(#{strategy => one_for_all}, [child(a)]), supervisor:start_child(S, child(b)), told_after_crash(S, a)")

;; ---- significant children

(defn- significant [id restart]
  (quiet id {:restart restart :significant true}))

(scenario SUP-46 "any-significant: the normal end of a significant child ends the supervisor"
  :expect [:shutdown [[:stopping :b :shutdown]]]
  :ours (let [s (supervisor {:auto-shutdown :any-significant :children [(significant :a :transient) (child :b)]})]
          [(servers/reason-of-end s #(end s :a :normal)) (told)])
  :erl "S = sup(#{auto_shutdown => any_significant}, [(quiet(a))#{restart => transient, significant => true}, child(b)]),
    W = reason_of_end(S, fun() -> stop(S, a, normal) end), {W, told()}")

(scenario SUP-47 "any-significant: a significant transient child that crashes is started again"
  :expect [[[:a :up]] :up]
  :ours (let [s (supervisor {:auto-shutdown :any-significant :children [(significant :a :transient)]})]
          (crash s :a)
          [(view s) (state-of s)])
  :erl "S = sup(#{auto_shutdown => any_significant}, [(quiet(a))#{restart => transient, significant => true}]), crash(S, a), {view(S), state_of(S)}")

(scenario SUP-48 "any-significant: the crash of a significant temporary child ends the supervisor"
  :expect :shutdown
  :ours (let [s (supervisor {:auto-shutdown :any-significant :children [(significant :a :temporary)]})]
          (crash s :a)
          (state-of s))
  :erl "S = sup(#{auto_shutdown => any_significant}, [(quiet(a))#{restart => temporary, significant => true}]), crash(S, a), state_of(S)")

(scenario SUP-49 "all-significant: the end of the last significant child ends the supervisor"
  :expect [:up :shutdown]
  :ours (let [s (supervisor {:auto-shutdown :all-significant :children [(significant :a :transient) (significant :b :transient)]})
              first-state (do (end s :a :normal) (state-of s))]
          (end s :b :normal)
          [first-state (state-of s)])
  :erl "X = fun(I) -> (quiet(I))#{restart => transient, significant => true} end,
    S = sup(#{auto_shutdown => all_significant}, [X(a), X(b)]), stop(S, a, normal), A = state_of(S), stop(S, b, normal), {A, state_of(S)}")

(scenario SUP-50 "a significant child that was stopped on request ends nothing"
  :expect :up
  :ours (let [s (supervisor {:auto-shutdown :any-significant :children [(significant :a :transient)]})]
          (sup/terminate-child s :a)
          (view s)
          (state-of s))
  :erl "S = sup(#{auto_shutdown => any_significant}, [(quiet(a))#{restart => transient, significant => true}]), supervisor:terminate_child(S, a),
    view(S), state_of(S)")

(scenario SUP-51 "a significant child that was stopped for a restart of all ends nothing"
  :expect [[[:a :up] [:b :up]] :up]
  :ours (let [s (supervisor {:strategy :one-for-all :auto-shutdown :any-significant :children [(significant :a :transient) (quiet :b)]})]
          (crash s :b)
          [(view s) (state-of s)])
  :erl "S = sup(#{strategy => one_for_all, auto_shutdown => any_significant}, [(quiet(a))#{restart => transient, significant => true}, quiet(b)]),
    crash(S, b), {view(S), state_of(S)}")

(scenario SUP-53 "the end of a significant supervisor ends the one above it"
  :expect :shutdown
  :ours (let [inner {:auto-shutdown :any-significant :children [(significant :a :transient)]}
              s (supervisor {:auto-shutdown :any-significant
                             :children [{:id :inner :type :supervisor :restart :transient :significant true :start [sup/start-link inner]}]})
              in (pid-of s :inner)]
          (servers/reason-of-end s #(end in :a :normal)))
  :erl "I = fun() -> {ok, {#{auto_shutdown => any_significant}, [(quiet(a))#{restart => transient, significant => true}]}} end,
    S = sup(#{auto_shutdown => any_significant}, [#{id => inner, type => supervisor, restart => transient, significant => true,
                                                     start => {supervisor, start_link, [?MODULE, I]}}]),
    reason_of_end(S, fun() -> stop(pid_of(S, inner), a, normal) end)")

;; ---- restarts that fail

(defn- breakable
  "The spec of a child whose start fails while the atom says so."
  [id broken]
  {:id id :start [#(if @broken [:error :broken] (gs/start-link servers/kid {:id id}))]})

(scenario SUP-58 "each restart that fails counts"
  :expect [:shutdown true]
  :ours (let [broken (atom false)
              s (supervisor {:intensity 3 :children [(breakable :a broken)]})]
          (reset! broken true)
          [(servers/reason-of-end s #(crash s :a))
           (= 3 (count (filter #(= :start-error (:event %)) (servers/reports))))])
  :no-erl "Its start is a closure over an atom.")

(defn- restarting
  "A supervisor that tries the start of its child again and again."
  [broken]
  (let [s (supervisor {:intensity 100000000 :children [(breakable :a broken)]})]
    (reset! broken true)
    (crash s :a)
    s))

(scenario SUP-72 "a child whose restart is tried again and again can be stopped, and started when that works"
  :expect [:ok [[:a nil]] [[:a :up]]]
  :ours (let [broken (atom false)
              s (restarting broken)
              answer (sup/terminate-child s :a)
              stopped (view s)]
          (reset! broken false)
          (sup/restart-child s :a)
          [answer stopped (view s)])
  :no-erl "Its start is a closure over an atom.")

(scenario SUP-73 "a supervisor that tries a restart again and again ends when it is told to"
  :expect :shutdown
  :ours (let [s (restarting (atom false))]
          (servers/reason-of-end s #(exit s :shutdown)))
  :no-erl "Its start is a closure over an atom.")
