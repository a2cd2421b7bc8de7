(ns magnetar.supervisor
  "Supervisors: they start processes, and start them again when they die.

    (sup/start-link {:strategy :one-for-one
                     :children [{:id :counter :start [gs/start-link 'my.counter 0 {:name :counter}]}
                                {:id :cache :start [actor/spawn-link* serve {}] :restart :transient}]}
                    {:name :app}) ;=> [:ok pid]

  start     start-link
  as child  scope-link pipeline-link
  children  start-child terminate-child restart-child delete-child
  look      which-children which-child count-children get-childspec history
  specs     child-spec check-childspecs

  A spec is a map:

  :strategy       :one-for-one (the default), :one-for-all, :rest-for-one; :simple-one-for-one, whose children all are made by one
                  template; :dynamic, whose children are started by specs of their own and have no ids
  :intensity      how many restarts in the :period are borne, else the supervisor stops all and ends with :shutdown. The defaults are OTP's,
  :period         1 in 5000 ms; those of :dynamic are Elixir's, 3 in 5000 ms. A period is above 0
  :auto-shutdown  :never (the default), :any-significant, :all-significant; not where children are made by a template, or are :dynamic
  :children       child specs, started in this order and stopped in the reverse one
  :max-children   the most children of a :dynamic supervisor
  :extra-arguments  what stands before the arguments of each start of a :dynamic supervisor
  :history        how many deaths are remembered, 50

  A child spec is a map, or the symbol of a namespace, or [symbol argument], see `child-spec`:

  :id           any value but nil
  :start        [f & args], or f without arguments: called in the supervisor, it starts a process linked to it and returns [:ok pid],
                [:ok pid info], the pid, :ignore or [:error why]. `gs/start-link`, `sup/start-link`, `actor/spawn-link`, `proc-lib/start-link`, `sup/scope-link` and
                `sup/pipeline-link` do
  :restart      :permanent (the default), :transient (after an abnormal end only), :temporary (never)
  :shutdown     how long it may take to end after the exit signal :shutdown, before it is killed: 5000 for a worker, :infinity for a supervisor;
                :brutal-kill
  :type         :worker (the default) or :supervisor
  :significant  true if its end counts for :auto-shutdown

  A start runs in the context of the supervisor, never in the bindings of its caller. Other keys are refused, and so is a start whose process
  is not linked to the supervisor. Names are those of Erlang's module supervisor."
  (:require
   [magnetar.gen-server :as gs]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.scope :as scope]
   [magnetar.supervisor.behaviour :as behaviour]
   [magnetar.supervisor.requests :as requests]
   [magnetar.supervisor.specs :as specs]
   [magnetar.supervisor.stages :as stages]))

(set! *warn-on-reflection* true)

(defn start-link
  "Starts a supervisor with its children, linked to this process; returns [:ok pid] when all have started.

  spec is the map described above, or a function without arguments that returns it, or :ignore. If a child does not come up, the others are
  stopped: [:error [:shutdown [:failed-to-start-child id why]]]. Else as `magnetar.gen-server/start-link`. The option is :name.

  Throws an IllegalArgumentException if the spec is wrong, also one that the function returned. Its `ex-data` has :magnetar/reason, which is
  :magnetar/bad-supervisor-spec or :magnetar/bad-child-spec, :path (where the flaw is, as [:children 1 :restart]), :value, :why and :meant. Where
  the caller is a supervisor, its child does not start: for [:start-spec flaw], [:supervisor-data flaw] or [:bad-start-spec flaw].

    (sup/start-link {:children []} {:name :app}) ;=> [:ok pid]

  In Erlang: supervisor:start_link/2,3."
  {:erlang "supervisor:start_link/3"}
  ([spec] (start-link spec nil))
  ([spec {:keys [name] :as options}]
   (when-not (sequential? spec) ; Elixir's children; that is told first
     (arguments/options "start-link" [:name] options))
   (let [[how flags] (if (or (map? spec) (sequential? spec)) (specs/supervisor spec) [:ok])]
     (if (= :error how)
       (specs/refuse flags)
       (specs/unless-flawed (gs/start-link behaviour/behaviour [spec name flags] {:name name :spawn-opt {:bindings :none}}))))))

(defn child-spec
  "Returns the child spec of a namespace as a map, with the keys of `overrides` in place of its own.

  x is the symbol of a namespace, or [symbol argument]. What its function `child-spec` returns for the argument is the spec. Without one the
  id is the symbol, or the :name in the options of a registry, supervisor or pool, and the start is its `start-link` with the argument, or a gen-server with its callbacks. A map is taken as it is. Wherever
  a child spec may stand the symbol or the vector may stand as well.

  Throws an IllegalArgumentException if there is no such namespace, or it has neither `child-spec`, `start-link` nor the callbacks of a server.

    (sup/child-spec ['my.counter 0] {:id :visits :restart :transient})
    (sup/start-link {:children ['my.cache ['my.counter 0]]})

  In Elixir: Supervisor.child_spec/2."
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
  "Checks child specs without starting them: :ok, or [:error flaw].

  The flaw is a map with :why, :path (where it is), :value, :meant and :message.

  auto-shutdown is that of the supervisor which they are for. Without it a significant child is not checked against it.

    (sup/check-childspecs [{:id :a :start [gs/start-link 'my.counter 0]}]) ;=> :ok

  In Erlang: supervisor:check_childspecs/1,2."
  {:erlang "supervisor:check_childspecs/2" :added "0.2"}
  ([childspecs] (check-childspecs childspecs :any-significant))
  ([childspecs auto-shutdown]
   (if-some [flaw (specs/children childspecs auto-shutdown)]
     [:error flaw]
     :ok)))

;; ---- children that are no servers

(defn scope-link
  "Starts a process, linked to this one, that opens a scope and calls (f scope & args): [:ok pid]. It is for a child that is a scope.

  It ends when the scope does: normally, or because a fork or the body failed, or by an exit signal, which cancels all that is in the scope.

    {:id :import :start [sup/scope-link (fn [s] (scope/fork s watch-folder) (scope/fork s upload))]}"
  [f & args]
  (arguments/function "scope-link" f "(sup/scope-link (fn [s] (scope/fork s watch)))")
  [:ok (proc-lib/spawn-link #(scope/with-scope [s] (apply f s args)))])

(defn pipeline-link
  "Starts a process, linked to this one, that is a pipeline: [:ok pid].

  It is like `magnetar.async/pipeline`, except that its workers end with it.

  n workers take from `from`, pass each value through the transducer xf, and put what comes of it on `to`, in the order of the inputs. When
  `from` is at an end it closes `to` and ends normally, so it wants {:restart :transient}; it ends when `to` is closed, too. If xf throws it fails,
  and what its workers had in hand is lost; one that a supervisor starts in its place goes on with the same channels.

    {:id :parse :restart :transient :start [sup/pipeline-link 4 parsed (map parse) lines]}"
  [n to xf from]
  (stages/check n to xf from)
  [:ok (proc-lib/spawn-link stages/run n to xf from)])

(defn start-child
  "Adds a child and starts it: what its start returns, [:ok nil] for :ignore.

  x is a child spec; for :simple-one-for-one a vector of more arguments. [:error [:already-started pid]] or [:error :already-present] if the id is
  taken, [:error [why spec]] if it does not start, the spec in a form for readers, [:error :max-children] if there are enough; then nothing is kept. Waits for the start.

  Throws as `start-link` if the child spec is wrong, else as `magnetar.gen-server/call`.

    (sup/start-child :app {:id :b :start [gs/start-link 'my.counter 0]}) ;=> [:ok pid]

  In Erlang: supervisor:start_child/2."
  {:erlang "supervisor:start_child/2"}
  [supervisor x]
  (specs/unless-flawed (requests/ask supervisor [:start-child x])))

(defn terminate-child
  "Stops a child, given by id, or by pid where children have none: :ok, or [:error :not-found]. Its spec stays, unless it is :temporary or has no id.

  The last pid of a child whose start is tried again stops that. Under :simple-one-for-one a pid that is dead is :ok.

    (sup/terminate-child :app :b) ;=> :ok

  In Erlang: supervisor:terminate_child/2."
  {:erlang "supervisor:terminate_child/2"}
  [supervisor x]
  (requests/terminate-child supervisor x))

(defn restart-child
  "Starts a child that does not run: what its start returns; [:error :running], [:error :restarting] or [:error :not-found].

    (sup/restart-child :app :b) ;=> [:ok pid]

  In Erlang: supervisor:restart_child/2."
  {:erlang "supervisor:restart_child/2"}
  [supervisor id]
  (requests/restart-child supervisor id))

(defn delete-child
  "Forgets a child that does not run: :ok; [:error :running], [:error :restarting] or [:error :not-found].

    (sup/delete-child :app :b) ;=> :ok

  In Erlang: supervisor:delete_child/2."
  {:erlang "supervisor:delete_child/2"}
  [supervisor id]
  (requests/delete-child supervisor id))

(defn which-children
  "The children in the order of their start, each {:id :pid :type :restart}; :pid is nil if it does not run, :restarting while its start is tried.

  The :id is nil where children have none, under :simple-one-for-one and :dynamic.

    (sup/which-children :app) ;=> [{:id :b :pid pid :type :worker :restart :permanent}]

  In Erlang: supervisor:which_children/1, in the other order."
  {:erlang "supervisor:which_children/1"}
  [supervisor]
  (requests/which-children supervisor))

(defn which-child
  "[:ok child] of one child as `which-children` shows it, or [:error :not-found].

  x is an id, or a pid where children have no ids.

    (sup/which-child :app :b) ;=> [:ok {:id :b :pid pid :type :worker :restart :permanent}]

  In Erlang: supervisor:which_child/2."
  {:erlang "supervisor:which_child/2" :added "0.2"}
  [supervisor x]
  (requests/ask supervisor [:which-child x]))

(defn count-children
  "How many children there are: {:specs :active :supervisors :workers}.

    (sup/count-children :app) ;=> {:specs 1 :active 1 :supervisors 0 :workers 1}

  In Erlang: supervisor:count_children/1."
  {:erlang "supervisor:count_children/1"}
  [supervisor]
  (requests/ask supervisor [:count-children]))

(defn get-childspec
  "[:ok spec] of a child, with all keys, or [:error :not-found].

    (sup/get-childspec :app :b) ;=> [:ok {:id :b ..}]

  In Erlang: supervisor:get_childspec/2."
  {:erlang "supervisor:get_childspec/2"}
  [supervisor x]
  (requests/ask supervisor [:get-childspec x]))

(defn history
  "The deaths of children, the oldest first: {:at :id :pid :restart :reason}, and of servers that crashed :last-message and :state.

  All is plain data of bounded size; the callback format-status decides what of the state is in it. What a supervisor itself has stopped is no
  death.

    (sup/history :app) ;=> [{:at #inst .. :id :b :reason :boom ..}]"
  [supervisor]
  (requests/ask supervisor [:history]))
