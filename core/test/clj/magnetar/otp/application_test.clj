(ns magnetar.otp.application-test
  "Scenarios of applications."
  (:require
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.application :as application]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]
   [magnetar.support :refer [with-hook]]))

(set! *warn-on-reflection* true)

(defn- idle
  "A tree of one process that waits."
  []
  [:ok (actor/spawn-link #(receive ::never nil))])

(defn- fresh
  "Loads an application in place of one that an earlier run has left."
  [spec]
  (application/unload (:name spec))
  (application/load spec))

(scenario APP-02 "an application that runs is not started again"
  :expect [:ok [:error [:already-started :a2]]]
  :ours (do
          (fresh {:name :a2 :start idle})
          [(application/start :a2) (application/start :a2)])
  :erl "app(a2, [{mod, {?MODULE, fun idle_tree/0}}]), {application:start(a2), application:start(a2)}")

(defn- start-of [name f]
  (fresh {:name name :start [f]})
  (let [[how [why]] (application/start name)]
    [how why]))

(scenario APP-05 "a start that returns an error, and one that fails"
  :expect [[:error :r] [:error :bad-return]]
  :ours [(start-of :a5 (constantly [:error :r])) (start-of :a5b #(throw (ex-info "x" {})))]
  :erl "app(a5, [{mod, {?MODULE, fun() -> {error, r} end}}]), app(a5b, [{mod, {?MODULE, fun() -> error(x) end}}]),
    {error, {A, _}} = application:start(a5), {error, {B, _}} = application:start(a5b), {{error, A}, {error, B}}")

(scenario APP-07 "the environment of an application"
  :expect [[:ok 1] nil :dflt [:ok 2] nil]
  :ours (do
          (fresh {:name :a7 :env {:k 1}})
          [(application/get-env :a7 :k) (application/get-env :a7 :nope) (application/get-env :a7 :nope :dflt)
           (do (application/put-env :a7 :k 2) (application/get-env :a7 :k))
           (do (application/unset-env :a7 :k) (application/get-env :a7 :k))])
  :erl "app(a7, [{env, [{k, 1}]}]),
    A = application:get_env(a7, k), B = application:get_env(a7, nope), C = application:get_env(a7, nope, dflt),
    application:set_env(a7, k, 2), D = application:get_env(a7, k), application:unset_env(a7, k), {A, B, C, D, application:get_env(a7, k)}")

(defn- known? [name applications]
  (boolean (some #{name} (map :name applications))))

(scenario APP-09 "an included application is loaded, and not started on its own"
  :expect [true false]
  :ours (do
          (fresh {:name :a9 :included-applications [{:name :a9b :start idle}]})
          (application/start :a9)
          [(known? :a9b (application/loaded-applications)) (known? :a9b (application/which-applications))])
  :erl "app(a9b, [{mod, {?MODULE, fun idle_tree/0}}]), app(a9, [{included_applications, [a9b]}]), application:start(a9),
    {lists:keymember(a9b, 1, application:loaded_applications()), lists:keymember(a9b, 1, application:which_applications())}")

(scenario APP-11 "a process in the tree knows its application, by its group leader"
  :expect [:ok :a11]
  :ours (let [me (self)]
          (fresh {:name :a11 :start (fn [] [:ok (actor/spawn-link #(do (! me [:app (application/get-application)]) (receive ::never nil)))])})
          (application/start :a11)
          (receive [:app app] app))
  :erl "Me = self(), app(a11, [{mod, {?MODULE, fun() -> {ok, spawn_link(fun() -> Me ! {app, application:get_application()}, receive never -> ok end end)} end}}]),
    application:start(a11), receive {app, A} -> A end")

(scenario APP-12 "when a permanent application ends, so does the node; here the hook is told, which `run` sets"
  :expect :node-down
  :ours (let [me (self)]
          (with-hook [:end #(! me [:over (:application %)])]
            (fresh {:name :a12 :start (fn [] (let [pid (actor/spawn-link #(receive ::go (actor/exit :boom)))] (! me pid) [:ok pid]))})
            (application/start :a12 :permanent)
            (! (receive pid pid) ::go) ; one that ends before its start has returned has not started
            (receive [:over :a12] :node-down (after 20000 :node-up))))
  :erl "node_of_permanent()")

(scenario APP-13 "to make sure that an application runs"
  :expect [:ok :ok true]
  :ours (do
          (fresh {:name :a13 :start idle})
          (application/start :a13)
          (let [running (application/ensure-started :a13)]
            (application/stop :a13)
            [running (application/ensure-started :a13) (known? :a13 (application/which-applications))]))
  :erl "app(a13, [{mod, {?MODULE, fun idle_tree/0}}]), application:start(a13), A = application:ensure_started(a13), application:stop(a13),
    {A, application:ensure_started(a13), lists:keymember(a13, 1, application:which_applications())}")

(scenario APP-14 "an optional application that is not there is not missed"
  :expect [:ok [:a14]]
  :ours (do
          (fresh {:name :a14 :applications [:a14-nowhere] :optional-applications [:a14-nowhere]})
          (application/ensure-all-started :a14))
  :erl "app(a14, [{applications, [kernel, stdlib, a14_nowhere]}, {optional_applications, [a14_nowhere]}]), application:ensure_all_started(a14)")

(scenario APP-15 "an application that runs is not unloaded"
  :expect [:error [:running :a15]]
  :ours (do
          (fresh {:name :a15 :start idle})
          (application/start :a15)
          (application/unload :a15))
  :erl "app(a15, [{mod, {?MODULE, fun idle_tree/0}}]), application:start(a15), application:unload(a15)")
