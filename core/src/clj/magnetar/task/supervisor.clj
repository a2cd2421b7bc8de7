(ns magnetar.task.supervisor
  "Task supervisors: they start tasks, and end them in order with the program.

  The owner of a task need not be linked to it.

    (tasks/start-link {:name :tasks})
    (let [task (tasks/async-nolink :tasks #(fetch url))]
      (or (task/yield task {:timeout 1000 :else nil}) (task/shutdown task))) ;=> [:ok page]

  start     start-link
  tasks     async async-nolink async-stream async-stream-nolink; start-child, whose value is not awaited
  children  children terminate-child

  A task supervisor is a `magnetar.supervisor` with the strategy :dynamic. Its tasks see the context values of
  their caller over those of the supervisor, and the root values of dynamic vars. The names follow Elixir's
  module Task.Supervisor.

  Require it as `[magnetar.task.supervisor :as tasks]`."
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.context :as context]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.supervisor :as sup]
   [magnetar.task.stream :as stream]
   [magnetar.task.work :as work])
  (:import
   (magnetar.kernel.process Pid)))

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

;; ---- tasks

(defn- spawn-child
  "The start of a child: in the supervisor."
  [site body]
  [:ok (proc-lib/spawn-with "start-child" site {:link true :bindings :none} body)])

(defn- child [supervisor site body options]
  (sup/start-child supervisor (merge {:restart :temporary} options {:start [spawn-child site body]})))

(defn- check-shutdown [operation {:keys [shutdown] :as options}]
  (when (contains? options :shutdown)
    (arguments/shutdown operation shutdown)))

(defn- async-in [operation supervisor site f args link? options]
  (let [[how x] (child supervisor site (context/carried (work/child-body operation f args)) options)]
    (cond
      (= :ok how) (work/adopt site x link?)
      (= :max-children x) (throw (work/too-many supervisor))
      :else (throw (errors/failure (str "The task supervisor " (arguments/show supervisor) " did not start the " site ": " (arguments/show x) ".")
                     {:magnetar/reason :magnetar/task-not-started :reason x :supervisor supervisor})))))

(defn- options-of
  "The options among what comes behind the function of a task, which is called without arguments."
  [operation known f [options :as more]]
  (when (or (next more) (not (or (nil? options) (map? options))) (map? f))
    (arguments/misuse :magnetar/bad-options
                      (str "`" operation "` takes a function without arguments, then options, as in (" operation
                           " :tasks #(fetch url) {:shutdown 1000}); this is " (arguments/show (vec (cons f more))) ".")
                      {:arguments (vec (cons f more))}))
  (arguments/options operation known options)
  (check-shutdown operation options)
  options)

(defn ^:no-doc async-at
  "`async*`, with the task named after the site."
  [site supervisor f & more]
  (async-in "async" supervisor site f nil true (options-of "async" [:shutdown] f more)))

(def ^{:added "0.2" :arglists '([supervisor f] [supervisor f options])} async*
  "Does what `async` does, as a function: for `map`, `apply` and `with-redefs`.

  The task is named after f, since the line of the call is not known."
  (fibers/starred async-at "task" f [supervisor f & more]))

(defmacro async
  "Lets the supervisor start a task that calls f, linked to this process as well.

  f has no arguments.

  Returns the task, for `magnetar.task/await`.

  Blocks until the supervisor has started it.

  Throws an ExceptionInfo if there is no such supervisor, as `magnetar.gen-server/call`; an
  IllegalStateException if it has :max-children tasks already.

  Options:
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
  (async-in "async-nolink" supervisor site f nil false (options-of "async-nolink" [:shutdown] f more)))

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
  process as well.

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
  (child supervisor site (work/with-callers f) (options-of "start-child" [:restart :shutdown] f more)))

(def ^{:added "0.2" :arglists '([supervisor f] [supervisor f options])} start-child*
  "Does what `start-child` does, as a function; see `async*`."
  (fibers/starred start-child-at "task" f [supervisor f & more]))

(defmacro start-child
  "Lets the supervisor start a process that calls f, whose value is not awaited.

  f has no arguments.

  Returns [:ok pid], or [:error :max-children].

  Blocks until the supervisor has started it.

  Options:
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
