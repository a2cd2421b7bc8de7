(ns magnetar.task.supervisor
  "Supervisors of tasks: whoever starts a task need not be linked to it, and when the program ends, tasks are ended in order.

    (tasks/start-link {:name :tasks})
    (let [task (tasks/async-nolink :tasks fetch url)]
      (or (task/yield task {:timeout 1000 :else nil}) (task/shutdown task))) ;=> [:ok page]

  start     start-link
  tasks     async async-nolink async-opt async-stream async-stream-nolink; start-child, whose value is not awaited
  children  children terminate-child

  It is a `magnetar.supervisor` with the strategy :dynamic. Its tasks see its context values, and the root values of dynamic vars. Names are
  those of Elixir's module Task.Supervisor."
  (:require
   [magnetar.impl.arguments :as arguments]
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
  "Starts a supervisor of tasks, linked to this process: [:ok pid].

  Options: :name, and :max-children, :intensity and :period of a :dynamic `magnetar.supervisor`. As a child:
  {:id :tasks :type :supervisor :start [tasks/start-link {:name :tasks}]}.

    (tasks/start-link {:name :tasks :max-children 100}) ;=> [:ok pid]

  In Elixir: Task.Supervisor.start_link/1."
  {:elixir "Task.Supervisor.start_link/1"}
  ([] (start-link nil))
  ([options]
   (arguments/options "start-link" [:name :max-children :intensity :period] options)
   (sup/start-link (assoc (dissoc options :name) :strategy :dynamic) (select-keys options [:name]))))

;; ---- tasks

(defn- spawn-child
  "The start of a child: in the supervisor."
  [site body]
  [:ok (proc-lib/spawn-at "start-child" site {:link true :bindings :none} body)])

(defn- child [supervisor site body options]
  (sup/start-child supervisor (merge {:restart :temporary} options {:start [spawn-child site body]})))

(defn- check-shutdown [operation {:keys [shutdown] :as options}]
  (when (contains? options :shutdown)
    (arguments/shutdown operation shutdown)))

(defn- async-in [operation supervisor site f args link? options]
  (let [[how x] (child supervisor site (work/child-body operation f args) options)]
    (cond
      (= :ok how) (work/adopt site x link?)
      (= :max-children x) (throw (work/too-many supervisor))
      :else (throw (errors/failure (str "The task supervisor " (arguments/show supervisor) " did not start the " site ": " (arguments/show x) ".")
                     {:magnetar/reason :magnetar/task-not-started :reason x :supervisor supervisor})))))

(defn ^:no-doc async-at
  "`async` or `async-nolink`, which the operation tells, with the task named after the site."
  [operation supervisor site f args link?]
  (async-in operation supervisor site f args link? nil))

(defn async
  "Starts a task by the supervisor that calls (f & args), linked to this process as well; returns the task, for `magnetar.task/await`.

  Waits for the supervisor. Throws as `magnetar.gen-server/call` if there is none, and an IllegalStateException if it has as many as :max-children.

    (task/await (tasks/async :tasks fetch url))

  In Elixir: Task.Supervisor.async/2,4."
  {:elixir "Task.Supervisor.async/2"
   :inline (fn [supervisor f & args] `(async-at "async" ~supervisor ~(fibers/line-here "task") ~f ~(when args (vec args)) true))
   :inline-arities #(<= 2 (long %))}
  [supervisor f & args]
  (async-at "async" supervisor (fibers/site-of "task" f) f args true))

(defn async-nolink
  "Like `async`, without a link: if the task dies, `await` throws, `yield` gives [:exit reason], and this process goes on.

    (task/yield (tasks/async-nolink :tasks fetch url)) ;=> [:ok page]

  In Elixir: Task.Supervisor.async_nolink/2,4."
  {:elixir "Task.Supervisor.async_nolink/2"
   :inline (fn [supervisor f & args] `(async-at "async-nolink" ~supervisor ~(fibers/line-here "task") ~f ~(when args (vec args)) false))
   :inline-arities #(<= 2 (long %))}
  [supervisor f & args]
  (async-at "async-nolink" supervisor (fibers/site-of "task" f) f args false))

(defn ^:no-doc async-opt-at
  "`async-opt`, with the task named after the site."
  [supervisor site options f args]
  (arguments/options "async-opt" [:link :shutdown] options)
  (check-shutdown "async-opt" options)
  (arguments/flag :link (:link options))
  (async-in "async-opt" supervisor site f args (:link options true) (select-keys options [:shutdown])))

(defn async-opt
  "Like `async`, with options before the function. Options:

  :shutdown  how long the task may take to end when its supervisor stops, as in a child spec: 5000 unless told, :brutal-kill, :infinity
  :link      false for a task without a link to this process, as `async-nolink`; true

    (tasks/async-opt :tasks {:shutdown :brutal-kill} fetch url)

  In Elixir: Task.Supervisor.async/3."
  {:elixir "Task.Supervisor.async/3" :added "0.2"
   :inline (fn [supervisor options f & args] `(async-opt-at ~supervisor ~(fibers/line-here "task") ~options ~f ~(when args (vec args))))
   :inline-arities #(<= 3 (long %))}
  [supervisor options f & args]
  (async-opt-at supervisor (fibers/site-of "task" f) options f args))

(defn ^:no-doc async-stream-at
  "`async-stream`, without links unless link? is true, with its tasks named after the site."
  [supervisor site coll f options link?]
  (let [of-child (when (map? options) (select-keys options [:shutdown]))]
    (check-shutdown "async-stream" of-child)
    (stream/stream site coll f
                   (fn [item] (async-in "async-stream" supervisor site f [item] link? of-child))
                   (if (map? options) (dissoc options :shutdown) options))))

(defn async-stream
  "Like `magnetar.task/async-stream`, with tasks that the supervisor starts, linked to this process as well.

  One more option is :shutdown, as of `async-opt`.

    (into [] (tasks/async-stream :tasks urls fetch))

  In Elixir: Task.Supervisor.async_stream/4."
  {:elixir "Task.Supervisor.async_stream/4"
   :arglists '([supervisor coll f] [supervisor coll f options])
   :inline (fn [supervisor coll f & [options]] `(async-stream-at ~supervisor ~(fibers/line-here "task") ~coll ~f ~options true))
   :inline-arities #{3 4}}
  ([supervisor coll f] (async-stream-at supervisor (fibers/site-of "task" f) coll f nil true))
  ([supervisor coll f options] (async-stream-at supervisor (fibers/site-of "task" f) coll f options true)))

(defn async-stream-nolink
  "Like `async-stream`, without links: a task that dies gives [:exit reason], and the others go on.

    (into [] (tasks/async-stream-nolink :tasks urls fetch)) ;=> [[:ok page] [:exit [{:type ..} ..]]]

  In Elixir: Task.Supervisor.async_stream_nolink/4."
  {:elixir "Task.Supervisor.async_stream_nolink/4"
   :arglists '([supervisor coll f] [supervisor coll f options])
   :inline (fn [supervisor coll f & [options]] `(async-stream-at ~supervisor ~(fibers/line-here "task") ~coll ~f ~options false))
   :inline-arities #{3 4}}
  ([supervisor coll f] (async-stream-at supervisor (fibers/site-of "task" f) coll f nil false))
  ([supervisor coll f options] (async-stream-at supervisor (fibers/site-of "task" f) coll f options false)))

(defn ^:no-doc start-child-at
  "`start-child`, with the process named after the site."
  [supervisor site f options]
  (work/check-function "start-child" f)
  (arguments/options "start-child" [:restart :shutdown] options)
  (check-shutdown "start-child" options)
  (child supervisor site (work/with-callers f) options))

(defn start-child
  "Lets the supervisor start a process that calls f, of which nobody awaits anything: [:ok pid], or [:error :max-children].

  Options are :restart, :temporary unless told, and :shutdown, both as in a child spec.

    (tasks/start-child :tasks send-mail {:restart :transient}) ;=> [:ok pid]

  In Elixir: Task.Supervisor.start_child/3."
  {:elixir "Task.Supervisor.start_child/3"
   :arglists '([supervisor f] [supervisor f options])
   :inline (fn [supervisor f & [options]] `(start-child-at ~supervisor ~(fibers/line-here "task") ~f ~options))
   :inline-arities #{2 3}}
  ([supervisor f] (start-child-at supervisor (fibers/site-of "task" f) f nil))
  ([supervisor f options] (start-child-at supervisor (fibers/site-of "task" f) f options)))

;; ---- children

(defn children
  "The pids of the tasks that run, the oldest first.

    (tasks/children :tasks) ;=> [pid]

  In Elixir: Task.Supervisor.children/1."
  {:elixir "Task.Supervisor.children/1"}
  [supervisor]
  (filterv #(instance? Pid %) (map :pid (sup/which-children supervisor))))

(defn terminate-child
  "Ends a task: :ok, or [:error :not-found].

    (tasks/terminate-child :tasks pid) ;=> :ok

  In Elixir: Task.Supervisor.terminate_child/2."
  {:elixir "Task.Supervisor.terminate_child/2"}
  [supervisor pid]
  (sup/terminate-child supervisor pid))
