(ns magnetar.supervisor
  "Supervisors: they start processes, and start them again when they die.

    (sup/start-link {:strategy :one-for-one
                     :children [{:id :counter :start [gs/start-link 'my.counter 0 {:name :counter}]}
                                {:id :web :start [actor/spawn-link* serve 8080] :restart :transient}]}
                    {:name :app}) ;=> [:ok pid]

  start     start-link
  as child  start-scope-link start-pipeline-link
  children  start-child terminate-child restart-child delete-child
  look      which-children which-child count-children get-childspec history
  specs     child-spec check-childspecs

  A spec is a map:

  :strategy         :one-for-one, :one-for-all, :rest-for-one, :simple-one-for-one or :dynamic. Under
                    :simple-one-for-one one template makes all children. Under :dynamic each child has a spec
                    of its own, and no id. Default :one-for-one
  :intensity        how many restarts within :period are allowed; one more, and the supervisor stops all
                    children and ends with :shutdown. Default 1, as in OTP; 3 for :dynamic, as in Elixir
  :period           a duration above 0. Default 5000 ms
  :auto-shutdown    :never, :any-significant or :all-significant; not under :simple-one-for-one and :dynamic.
                    Default :never
  :children         child specs, started in this order and stopped in the reverse one
  :max-children     the most children of a :dynamic supervisor. Default :infinity
  :extra-arguments  arguments that a :dynamic supervisor puts before those of each child's :start, as Elixir's
                    :extra_arguments
  :history          how many deaths are remembered. Default 50

  A child spec is a map, the symbol of a namespace, or [symbol argument], see `child-spec`:

  :id           any value but nil
  :start        [f & args], or a function that takes no arguments. It is called in the supervisor, starts a
                process linked to it, and returns [:ok pid], [:ok pid info], the pid, :ignore or [:error why].
                Such functions are `gs/start-link`, `sup/start-link`, `actor/spawn-link*` (the function behind
                the macro `spawn-link`), `proc-lib/start-link`, `sup/start-scope-link` and
                `sup/start-pipeline-link`
  :restart      :permanent, :transient (after an abnormal end only) or :temporary (never). Default :permanent
  :shutdown     how long the child may take to end after the exit signal :shutdown, before it is killed: a
                duration, :infinity or :brutal-kill. Default 5000 ms for a worker, :infinity for a supervisor
  :type         :worker or :supervisor. Default :worker
  :significant  true if its end counts for :auto-shutdown. Default false

  A start runs in the context of the supervisor, never in the bindings of its caller. Other keys are refused,
  and so is a start whose process is not linked to the supervisor. The names follow Erlang's module
  supervisor.

  Require it as `[magnetar.supervisor :as sup]`."
  (:require
   [magnetar.gen-server :as gs]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.scope :as scope]
   [magnetar.supervisor.behaviour :as behaviour]
   [magnetar.supervisor.requests :as requests]
   [magnetar.supervisor.specs :as specs]
   [magnetar.supervisor.stages :as stages]))

(set! *warn-on-reflection* true)

(defn start-link
  "Starts a supervisor with its children, linked to this process.

  The spec is the map described in this namespace, or a function without arguments that returns the map or
  :ignore.

  Returns [:ok pid] when all children have started. If a child does not start, the others are stopped: [:error
  [:shutdown [:failed-to-start-child id why]]]. Else returns what `magnetar.gen-server/start-link` does.

  Blocks until all children have started.

  Throws an IllegalArgumentException if the spec is wrong, also one that the function returned. Its `ex-data`
  has :magnetar/reason, which is :magnetar/bad-supervisor-spec or :magnetar/bad-child-spec. Other keys are
  :path (where the error is, as [:children 1 :restart]), :value, :why and :meant. If a supervisor calls this
  to start a child, nothing is thrown. The child does not start, and the reason is [:start-spec error],
  [:supervisor-data error] or [:bad-start-spec error].

  Options:
    :name  as in `magnetar.gen-server/start-link`

  Example:

    (sup/start-link {:children []} {:name :app}) ;=> [:ok pid]

  See also `start-child`, `check-childspecs`.

  Erlang: supervisor:start_link/2,3."
  {:erlang "supervisor:start_link/3"}
  ([spec] (start-link spec nil))
  ([spec {:keys [name] :as options}]
   (when-not (sequential? spec) ; Elixir's children; that is told first
     (arguments/options "start-link" [:name] options))
   (let [[how flags] (if (or (map? spec) (sequential? spec)) (specs/supervisor spec) [:ok])]
     (if (= :error how)
       (specs/refuse flags)
       (specs/unless-refused (gs/start-link behaviour/behaviour [spec name flags] {:name name :spawn-opt {:bindings :none}}))))))

(defn child-spec
  "Returns the child spec of a namespace as a map, with the overrides merged in.

  x is the symbol of a namespace, [symbol argument], or a map, which is taken as it is. The symbol or the
  vector may stand wherever a child spec may stand.

  If the namespace has a function `child-spec`, the spec is what that returns for the argument. Else the start
  is its `start-link` with the argument, or a gen-server with its callbacks. The :id is then the symbol. For a
  registry, supervisor or pool with a :name it is that name.

  Throws an IllegalArgumentException if there is no such namespace, or it has neither `child-spec`,
  `start-link` nor the callbacks of a server.

  Example:

    (sup/child-spec ['my.counter 0] {:id :visits :restart :transient})
    (sup/start-link {:children ['my.cache ['my.counter 0]]}) ;=> [:ok pid]

  Elixir: Supervisor.child_spec/2."
  {:elixir "Supervisor.child_spec/2" :added "0.2"}
  ([x] (child-spec x nil))
  ([x overrides]
   (arguments/options "child-spec" specs/child-keys overrides)
   (let [[how given] (specs/caught #(specs/given [] x))]
     (cond
       (= :error how) (specs/refuse given)
       (map? given) (merge given overrides)
       :else (arguments/misuse :magnetar/bad-child-spec
                               (str "`child-spec` expects the symbol of a namespace, [symbol argument] or a map; this is " (arguments/show given) ".")
                               {:value x})))))

(defn check-childspecs
  "Checks child specs without starting them.

  auto-shutdown is the :auto-shutdown of their future supervisor. Without it, :significant is not checked
  against it.

  Returns :ok, or [:error error]. The error is a map with :why, :path (where it is), :value, :meant and
  :message.

  Example:

    (sup/check-childspecs [{:id :a :start [gs/start-link 'my.counter 0]}]) ;=> :ok

  Erlang: supervisor:check_childspecs/1,2."
  {:erlang "supervisor:check_childspecs/2" :added "0.2"}
  ([childspecs] (check-childspecs childspecs :any-significant))
  ([childspecs auto-shutdown]
   (if-some [error (specs/children childspecs auto-shutdown)]
     [:error error]
     :ok)))

;; ---- children that are no servers

(defn- start-after
  "Starts a linked process that calls (body site), where the site names `what` and f, a function of the program."
  [what f body]
  (let [site (fibers/site-of what f)]
    [:ok (proc-lib/spawn-link-at site body site)]))

(defn start-scope-link
  "Starts a linked process that opens a scope and calls (f scope & args) in it.

  It is the :start of a child that is a scope. The process is named after f. It ends when the scope does:
  normally, because a fork or the body failed, or by an exit signal. The exit signal cancels all that is in
  the scope.

  Returns [:ok pid].

  Example:

    {:id :import :start [sup/start-scope-link (fn [s] (scope/fork s watch-folder) (scope/fork s upload))]}"
  {:added "0.2"}
  [f & args]
  (arguments/function "start-scope-link" f "(sup/start-scope-link (fn [s] (scope/fork s watch)))")
  (start-after "start-scope-link" f (fn [site] (scope/scope* site nil #(apply f % args)))))

(defn start-pipeline-link
  "Starts a linked process that is a pipeline from one channel to another.

  It is like `magnetar.async/pipeline`, except that its workers end with it. n workers take values from `from`
  and pass each through the transducer xf. They put the results on `to`, in the order of the inputs.

  When `from` is closed and drained, it closes `to` and ends normally, so its child spec needs {:restart
  :transient}. It also ends normally when `to` is closed. If xf throws, the process fails, and the values that
  its workers held are lost. A restarted pipeline goes on with the same channels.

  Returns [:ok pid].

  Example:

    {:id :parse :restart :transient :start [sup/start-pipeline-link 4 parsed (map parse) lines]}"
  {:added "0.2"}
  [n to xf from]
  (stages/check n to xf from)
  (start-after "start-pipeline-link" xf #(stages/run % n to xf from)))

(defn scope-link
  "Deprecated: use `start-scope-link`, which does the same."
  {:deprecated "0.2"}
  [f & args]
  (apply start-scope-link f args))

(defn pipeline-link
  "Deprecated: use `start-pipeline-link`, which does the same."
  {:deprecated "0.2"}
  [n to xf from]
  (start-pipeline-link n to xf from))

;; ---- children

(defn start-child
  "Adds a child to a supervisor and starts it.

  x is a child spec; for :simple-one-for-one it is a vector of further arguments. A supervisor on another node
  takes such arguments only: functions do not travel, and it loads no namespace for this node. A supervisor on
  a node of Erlang also takes a map whose :start is [:module :function arguments].

  Returns what the start of the child returned. For :ignore that is [:ok nil], and :ignore under :dynamic. If
  no child was added, returns one of these:

    [:error [:already-started pid]]  the id is taken by a child that runs
    [:error :already-present]        the id is taken by a child that does not run
    [:error [why spec]]              the child did not start; the spec is in a form for readers. Only [:error
                                     why] where children have no ids
    [:error :max-children]           there are as many children as :max-children allows

  Blocks until the child has started.

  Throws an IllegalArgumentException if the child spec is wrong, as `start-link` does; else as
  `magnetar.gen-server/call`.

  Example:

    (sup/start-child :app {:id :b :start [gs/start-link 'my.counter 0]}) ;=> [:ok pid]

  See also `terminate-child`, `restart-child`.

  Erlang: supervisor:start_child/2."
  {:erlang "supervisor:start_child/2"}
  [supervisor x]
  (specs/unless-refused (requests/ask supervisor [:start-child (specs/from-here x)])))

(defn terminate-child
  "Stops a child, given by its id, or by its pid where children have no ids.

  The spec of the child stays, unless it is :temporary or has no id. If the start of a child is being retried,
  its last pid stops that.

  Returns :ok, or [:error :not-found]. Under :simple-one-for-one a dead pid gives :ok, and what is not a pid
  [:error :simple-one-for-one].

  Blocks until the child has ended.

  Example:

    (sup/terminate-child :app :b) ;=> :ok

  See also `restart-child`, `delete-child`.

  Erlang: supervisor:terminate_child/2."
  {:erlang "supervisor:terminate_child/2"}
  [supervisor x]
  (requests/terminate-child supervisor x))

(defn restart-child
  "Starts a child that does not run.

  Returns what its start returns, [:ok nil] for :ignore. If it cannot be started: [:error :running], [:error
  :restarting] or [:error :not-found]. Where children have no ids: [:error :simple-one-for-one] or [:error
  :dynamic].

  Blocks until the child has started.

  Example:

    (sup/restart-child :app :b) ;=> [:ok pid]

  Erlang: supervisor:restart_child/2."
  {:erlang "supervisor:restart_child/2"}
  [supervisor id]
  (requests/restart-child supervisor id))

(defn delete-child
  "Removes the spec of a child that does not run.

  Returns :ok, or [:error :running], [:error :restarting] or [:error :not-found]. Where children have no ids:
  [:error :simple-one-for-one] or [:error :dynamic].

  Example:

    (sup/delete-child :app :b) ;=> :ok

  Erlang: supervisor:delete_child/2."
  {:erlang "supervisor:delete_child/2"}
  [supervisor id]
  (requests/delete-child supervisor id))

(defn which-children
  "Returns the children of a supervisor in the order of their start, as maps.

  Each is {:id :pid :type :restart}. The :pid is nil if the child does not run, and :restarting while its
  start is retried. The :id is nil where children have none, under :simple-one-for-one and :dynamic. Children
  of a supervisor on a node of Erlang have :modules, and no :restart.

  Example:

    (sup/which-children :app) ;=> [{:id :b :pid pid :type :worker :restart :permanent}]

  See also `which-child`, `count-children`.

  Erlang: supervisor:which_children/1, in the other order."
  {:erlang "supervisor:which_children/1"}
  [supervisor]
  (requests/which-children supervisor))

(defn which-child
  "Returns one child of a supervisor, in the form that `which-children` has.

  x is an id, or a pid where children have no ids.

  Returns [:ok child], or [:error :not-found].

  Example:

    (sup/which-child :app :b) ;=> [:ok {:id :b :pid pid :type :worker :restart :permanent}]

  Erlang: supervisor:which_child/2."
  {:erlang "supervisor:which_child/2" :added "0.2"}
  [supervisor x]
  (requests/ask supervisor [:which-child x]))

(defn count-children
  "Returns how many children there are: {:specs :active :supervisors :workers}.

  Example:

    (sup/count-children :app) ;=> {:specs 1 :active 1 :supervisors 0 :workers 1}

  Erlang: supervisor:count_children/1."
  {:erlang "supervisor:count_children/1"}
  [supervisor]
  (requests/ask supervisor [:count-children]))

(defn get-childspec
  "Returns the child spec of a child, with all keys.

  Returns [:ok spec], or [:error :not-found].

  Example:

    (sup/get-childspec :app :b) ;=> [:ok {:id :b, ..}]

  Erlang: supervisor:get_childspec/2."
  {:erlang "supervisor:get_childspec/2"}
  [supervisor x]
  (requests/ask supervisor [:get-childspec x]))

(defn history
  "Returns the latest deaths of children, the oldest first.

  Each is a map {:at :id :pid :restart :reason}, with :last-message and :state for a server that crashed. All
  is plain data of bounded size. The callback format-status decides which part of the state is shown. A child
  that the supervisor itself has stopped does not count as a death.

  Example:

    (sup/history :app) ;=> [{:at instant, :id :b, :reason :boom, ..}]"
  [supervisor]
  (requests/ask supervisor [:history]))
