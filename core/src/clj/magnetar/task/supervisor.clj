(ns magnetar.task.supervisor
  "Task supervisors: they start tasks, and end them in order with the program.

  The owner of a task need not be linked to it.

    (tasks/start-link {:name :tasks})
    (let [task (tasks/async-nolink :tasks #(fetch url))]
      (or (task/yield task {:timeout 1000 :else nil}) (task/shutdown task))) ;=> [:ok page]

  start     start-link
  tasks     async async-nolink async-stream async-stream-nolink; start-child, whose value is not awaited
  children  children terminate-child

  A task supervisor is a `magnetar.supervisor` with the strategy :dynamic. It may be on another node of a
  cluster, as [name node]. The work is then a var that the other node lists as :spawnable. On a node of Erlang
  it is a Task.Supervisor of Elixir, and the work a symbol such as 'Elixir.Prices/refresh. Tasks see the
  context values of their caller over the ones of the supervisor, and the root values of dynamic vars. The
  names follow Elixir's module Task.Supervisor.

  Require it as `[magnetar.task.supervisor :as tasks]`."
  (:require
   [magnetar.actor :as actor]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.context :as context]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.supervisor :as sup]
   [magnetar.task.elixir :as elixir]
   [magnetar.task.stream :as stream]
   [magnetar.task.work :as work])
  (:import
   (magnetar.kernel.process LocalProcess Pid Send)))

(set! *warn-on-reflection* true)

(defn start-link
  "Starts a supervisor of tasks, linked to this process.

  Returns [:ok pid].

  Options:
    :name                               as in `magnetar.supervisor/start-link`
    :max-children, :intensity, :period  as in the spec of a :dynamic `magnetar.supervisor`

  Example:

    (tasks/start-link {:name :tasks :max-children 100}) ;=> [:ok pid]
    {:id :tasks :type :supervisor :start [tasks/start-link {:name :tasks}]} ; as a child

  Elixir: Task.Supervisor.start_link/1."
  {:elixir "Task.Supervisor.start_link/1"}
  ([] (start-link nil))
  ([options]
   (arguments/options "start-link" [:name :max-children :intensity :period] options)
   (sup/start-link (assoc (dissoc options :name) :strategy :dynamic) (select-keys options [:name]))))

;; ---- supervisors on other nodes: the server of this name asks them to start work of theirs

(def ^:private server-there :magnetar.cluster/tasks)

(defn- elsewhere
  "[node supervisor] of a supervisor on another node, as that node knows it; nil of one on this node."
  [supervisor]
  (let [[kind [plain node]] (when (vector? supervisor) (address/parts supervisor))
        pid (if (= :via kind) (address/find-pid supervisor) supervisor)]
    (cond
      (= :remote kind) [node plain]
      (and (instance? Pid pid) (nodes/elsewhere? pid)) [(nodes/name-of pid) pid])))

(defn- check-var [operation f]
  (when-not (or (var? f) (qualified-symbol? f))
    (arguments/misuse :magnetar/not-a-var
                      (str "`" operation "` of a supervisor on another node wants a var, since functions do not travel, as in (" operation
                           " [:workers \"b@shop\"] #'my.work/fetch {:args [url]}); this is " (arguments/show f) ".")
                      {:value f})))

(defn- no-answer
  "[:error why] of a call of the server on the node that has failed."
  [node why]
  (cond
    (contains? #{:noconnection [:nodedown node]} why) [:error :noconnection]
    (= :noproc why) [:error [:refused (str "The node " (arguments/show node) " starts no tasks for other nodes. It is about to leave its cluster, "
                                           "or its version of Magnetar is older than tasks on other nodes.")]]
    :else [:error [:refused (str "The node " (arguments/show node) " has not answered: " (reasons/text why) ".")]]))

(defn- ask-there
  "The answer to the request. If this process waits no longer, a task that is started nevertheless is ended."
  [node {:keys [id] :as request}]
  (let [server [server-there node]]
    (try
      (gs/call server [:start request] {:timeout :infinity})
      (catch Throwable t
        (let [{:magnetar/keys [reason] why :reason} (ex-data t)]
          (if (= :magnetar/call-failed reason)
            (no-answer node why)
            (do
              (Send/signal (address/target server) [:abandon id])
              (throw t))))))))

(defn- child-there
  "As `child`, of a supervisor on another node."
  [operation [node supervisor] site f args owner options]
  (check-var operation f)
  (if node
    (ask-there node {:id (actor/make-ref)
                     :supervisor supervisor
                     :site site
                     :work (into [(symbol f)] args)
                     :owner owner
                     :callers (work/callers-from-here)
                     :options options})
    [:error :noconnection]))

;; ---- tasks

(defn- spawn-child
  "The start of a child: in the supervisor."
  [site body]
  [:ok (proc-lib/spawn-with "start-child" site {:link true :bindings :none} body)])

(defn- child [supervisor site body options]
  (sup/start-child supervisor (merge {:restart :temporary} options {:start [spawn-child site body]})))

(defn ^:no-doc start-for
  "Starts f for a process of another node: for the owner of a task, or without one as `start-child`. The answer of the supervisor."
  [supervisor site f owner callers options]
  (child supervisor site
         (context/carried (if owner (work/for-owner owner callers f nil) (work/called-by callers f)))
         options))

(defn- check-shutdown [operation {:keys [shutdown] :as options}]
  (when (contains? options :shutdown)
    (arguments/shutdown operation shutdown)))

(defn- why-not-started [supervisor why]
  (let [[how sentence] (when (vector? why) why)
        [node] (when (= :noconnection why) (elsewhere supervisor))]
    (cond
      (= :refused how) sentence
      (= :noconnection why) (str (if node (str "The node " (arguments/show node)) "Its node") " is not connected. Look with `cluster/nodes`.")
      :else (str (arguments/show why) "."))))

(defn- not-started [supervisor site why]
  (throw (errors/failure (str "The task supervisor " (arguments/show supervisor) " did not start the " site ": " (why-not-started supervisor why))
           {:magnetar/reason :magnetar/task-not-started :reason why :supervisor supervisor})))

(defn- elixir-at
  "The supervisor, if it is one of Elixir on another node."
  [operation supervisor f]
  (when (elsewhere supervisor)
    (when-some [found (elixir/found operation supervisor)]
      (check-var operation f)
      found)))

(defn- async-in [operation supervisor site f args link? options]
  (let [options (dissoc options :args)
        of-elixir (elixir-at operation supervisor f)
        there (elsewhere supervisor)
        [how x] (cond
                  of-elixir (elixir/start operation supervisor of-elixir options)
                  there (child-there operation there site f args (.pid (LocalProcess/require operation)) options)
                  :else (child supervisor site (context/carried (work/child-body operation f args)) options))]
    (cond
      (and of-elixir (= :ok how)) (elixir/adopt site x link? f args)
      (= :ok how) (work/adopt site x link?)
      (= :max-children x) (throw (work/too-many supervisor))
      :else (not-started supervisor site x))))

(defn- check-args [operation {:keys [args]}]
  (when-not (or (nil? args) (sequential? args))
    (arguments/misuse :magnetar/bad-option
                      (str "`" operation "`: :args is a list of arguments of the function, as in {:args [url]}; this is " (arguments/show args) ".")
                      {:path [:args] :value args})))

(defn- options-of
  "The options among what comes behind the function of a task."
  [operation known f [options :as more]]
  (when (or (next more) (not (or (nil? options) (map? options))) (map? f))
    (arguments/misuse :magnetar/bad-options
                      (str "`" operation "` takes a function, then options, as in (" operation
                           " :tasks #(fetch url) {:shutdown 1000}); this is " (arguments/show (vec (cons f more))) ".")
                      {:arguments (vec (cons f more))}))
  (arguments/options operation known options)
  (check-shutdown operation options)
  (check-args operation options)
  options)

(defn ^:no-doc async-at
  "`async*`, with the task named after the site."
  [site supervisor f & more]
  (let [{:keys [args] :as options} (options-of "async" [:args :shutdown] f more)]
    (async-in "async" supervisor site f args true options)))

(def ^{:added "0.2" :arglists '([supervisor f] [supervisor f options])} async*
  "Does what `async` does, as a function: for `map`, `apply` and `with-redefs`.

  The task is named after f, since the line of the call is not known."
  (fibers/starred async-at "task" f [supervisor f & more]))

(defmacro async
  "Lets the supervisor start a task that calls f, linked to this process as well.

  The supervisor may be on another node, as in (tasks/async [:tasks \"b@shop\"] #'fetch {:args [url]}).
  Functions do not travel, so f is then a var of both nodes, or the symbol of one there, and among the
  :spawnable of that node. If the node is lost, the task has died with the reason :noconnection.

  Returns the task, for `magnetar.task/await`.

  Blocks until the supervisor has started it.

  Throws an ExceptionInfo if there is no such supervisor, as `magnetar.gen-server/call`, or if its node
  refuses f or is not connected; an IllegalStateException if it has :max-children tasks already.

  Cancellation: if the call is cancelled, a task that the other node has already started does not call f, and
  is ended there.

  Options:
    :args      the arguments of f. Default []
    :shutdown  how long the task may take to end when its supervisor stops, as in a child spec: a duration,
               :infinity or :brutal-kill. Default 5000 ms

  Example:

    (task/await (tasks/async :tasks #(fetch url))) ;=> page

  See also `async-nolink`, and `async*`, the function: it can be mapped and applied, and `with-redefs` of it
  reaches every call.

  Elixir: Task.Supervisor.async/2,3."
  {:elixir "Task.Supervisor.async/2"
   :arglists '([supervisor f] [supervisor f options])}
  [supervisor f & more]
  (fibers/starting &form `async* "task" supervisor f more))

(defn ^:no-doc async-nolink-at
  "`async-nolink*`, with the task named after the site."
  [site supervisor f & more]
  (let [{:keys [args] :as options} (options-of "async-nolink" [:args :shutdown] f more)]
    (async-in "async-nolink" supervisor site f args false options)))

(def ^{:added "0.2" :arglists '([supervisor f] [supervisor f options])} async-nolink*
  "Does what `async-nolink` does, as a function; see `async*`."
  (fibers/starred async-nolink-at "task" f [supervisor f & more]))

(defmacro async-nolink
  "Lets the supervisor start a task that calls f, without a link to this process.

  Like `async` in all else. If the task dies, this process goes on: `await` throws, and `yield` returns [:exit
  reason].

  Example:

    (task/yield (tasks/async-nolink :tasks #(fetch url))) ;=> [:ok page]

  See also `async-nolink*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every
  call.

  Elixir: Task.Supervisor.async_nolink/2,3."
  {:elixir "Task.Supervisor.async_nolink/2"
   :arglists '([supervisor f] [supervisor f options])}
  [supervisor f & more]
  (fibers/starting &form `async-nolink* "task" supervisor f more))

(defn ^:deprecated async-opt
  "Throws: `async` and `async-nolink` replace it, with options last.

  They take a function without arguments."
  {:arglists '([supervisor options f & args])}
  [& _]
  (arguments/misuse :magnetar/removed
                    (str "`async-opt` was removed: write (tasks/async supervisor #(f x) options), or `async-nolink` "
                         "instead of {:link false}.")
                    {}))

(defn- stream-in [supervisor site coll f options link?]
  (let [of-child (when (map? options) (select-keys options [:shutdown]))]
    (check-shutdown "async-stream" of-child)
    (stream/stream site coll f
                   (fn [item] (async-in "async-stream" supervisor site f [item] link? of-child))
                   (if (map? options) (dissoc options :shutdown) options))))

(defn ^:no-doc async-stream-at
  "`async-stream*`, with its tasks named after the site."
  ([site supervisor coll f] (async-stream-at site supervisor coll f nil))
  ([site supervisor coll f options] (stream-in supervisor site coll f options true)))

(def ^{:added "0.2" :arglists '([supervisor coll f] [supervisor coll f options])} async-stream*
  "Does what `async-stream` does, as a function; see `async*`."
  (fibers/starred async-stream-at "task" f [supervisor coll f] [supervisor coll f options]))

(defmacro async-stream
  "Returns the results of (f x) for each x of coll, a task of the supervisor each.

  Like `magnetar.task/async-stream`, except that the supervisor starts the tasks. They are linked to this
  process as well. With a supervisor on another node f is a var, as in `async`.

  Options:
    :shutdown  as in `async`
    others     as in `magnetar.task/async-stream`

  Example:

    (into [] (tasks/async-stream :tasks urls fetch)) ;=> [[:ok page] [:ok page]]

  See also `async-stream*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every
  call.

  Elixir: Task.Supervisor.async_stream/4."
  {:elixir "Task.Supervisor.async_stream/4"}
  ([supervisor coll f] (fibers/starting &form `async-stream* "task" [supervisor coll f]))
  ([supervisor coll f options] (fibers/starting &form `async-stream* "task" [supervisor coll f options])))

(defn ^:no-doc async-stream-nolink-at
  "`async-stream-nolink*`, with its tasks named after the site."
  ([site supervisor coll f] (async-stream-nolink-at site supervisor coll f nil))
  ([site supervisor coll f options] (stream-in supervisor site coll f options false)))

(def ^{:added "0.2" :arglists '([supervisor coll f] [supervisor coll f options])} async-stream-nolink*
  "Does what `async-stream-nolink` does, as a function; see `async*`."
  (fibers/starred async-stream-nolink-at "task" f [supervisor coll f] [supervisor coll f options]))

(defmacro async-stream-nolink
  "Returns the results of (f x) for each x of coll, from tasks without a link.

  Like `async-stream`, except that a task that dies gives [:exit reason], and the others go on.

  Example:

    (into [] (tasks/async-stream-nolink :tasks urls fetch)) ;=> [[:ok page] [:exit [error ..]]]

  See also `async-stream-nolink*`, the function: it can be mapped and applied, and `with-redefs` of it reaches
  every call.

  Elixir: Task.Supervisor.async_stream_nolink/4."
  {:elixir "Task.Supervisor.async_stream_nolink/4"}
  ([supervisor coll f] (fibers/starting &form `async-stream-nolink* "task" [supervisor coll f]))
  ([supervisor coll f options] (fibers/starting &form `async-stream-nolink* "task" [supervisor coll f options])))

(defn ^:no-doc start-child-at
  "`start-child*`, with the process named after the site."
  [site supervisor f & more]
  (work/check-function "start-child" f)
  (let [{:keys [args] :as options} (options-of "start-child" [:args :restart :shutdown] f more)
        options (dissoc options :args)]
    (if-some [of-elixir (elixir-at "start-child" supervisor f)]
      (elixir/start-child "start-child" supervisor of-elixir f args options)
      (if-some [there (elsewhere supervisor)]
        (child-there "start-child" there site f args nil options)
        (child supervisor site (work/with-callers #(apply f args)) options)))))

(def ^{:added "0.2" :arglists '([supervisor f] [supervisor f options])} start-child*
  "Does what `start-child` does, as a function; see `async*`."
  (fibers/starred start-child-at "task" f [supervisor f & more]))

(defmacro start-child
  "Lets the supervisor start a process that calls f, whose value is not awaited.

  With a supervisor on another node f is a var, as in `async`.

  Returns [:ok pid], or [:error :max-children]. Of a supervisor on another node also [:error [:refused
  sentence]], if the node refuses f, and [:error :noconnection].

  Blocks until the supervisor has started it.

  Cancellation: another node may start it nevertheless.

  Options:
    :args      the arguments of f. Default []
    :restart   as in a child spec. Default :temporary
    :shutdown  as in `async`

  Example:

    (tasks/start-child :tasks send-mail {:restart :transient}) ;=> [:ok pid]

  See also `start-child*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every
  call.

  Elixir: Task.Supervisor.start_child/3."
  {:elixir "Task.Supervisor.start_child/3"
   :arglists '([supervisor f] [supervisor f options])}
  [supervisor f & more]
  (fibers/starting &form `start-child* "task" supervisor f more))

;; ---- children

(defn children
  "Returns the pids of the tasks that run, the oldest first.

  Example:

    (tasks/children :tasks) ;=> [pid]

  Elixir: Task.Supervisor.children/1."
  {:elixir "Task.Supervisor.children/1"}
  [supervisor]
  (filterv #(instance? Pid %) (map :pid (sup/which-children supervisor))))

(defn terminate-child
  "Ends a task of the supervisor, given by its pid.

  Returns :ok, or [:error :not-found].

  Blocks until the task has ended.

  Example:

    (tasks/terminate-child :tasks pid) ;=> :ok

  Elixir: Task.Supervisor.terminate_child/2."
  {:elixir "Task.Supervisor.terminate_child/2"}
  [supervisor pid]
  (sup/terminate-child supervisor pid))
