(ns magnetar.task
  "Tasks: processes that do one piece of work, whose value their owner awaits.

    (let [page (task/async fetch url)
          user (task/async load-user id)]
      (render (task/await page) (task/await user)))

  start    async; start start-link, whose value is not awaited; completed
  value    await await-many; yield yield-many, which go on after a time; shutdown ignore
  stream   async-stream
  look     callers

  A task is linked to its owner, the process that starts it: if one dies abnormally, so does the other. The
  value goes to the owner, which alone may await it, once. A task is a record with :pid, :ref, :owner and
  :site, the line that started it.

  A server that must not wait may take the answer in handle-info: [ref value], or [:DOWN ref :process pid
  reason].

  `magnetar.task.supervisor` starts tasks whose death does not end their owner. Where no process waits, or
  nothing has to be linked, a fork in a scope or `magnetar.fold/pmap` is simpler. The names follow Elixir's
  module Task.

  Require it as `[magnetar.task :as task]`."
  (:refer-clojure :exclude [await])
  (:require
   [magnetar.actor :as actor :refer [!]]
   [magnetar.impl.actor.start :as start]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.runtime]
   [magnetar.task.stream :as stream]
   [magnetar.task.work :as work])
  (:import
   (magnetar.kernel.process Aliases LocalProcess)))

(set! *warn-on-reflection* true)

;; ---- start

(defn ^:no-doc async-at
  "`async*`, with the task named after the site."
  [site f & args]
  (work/async site f args))

(def ^{:added "0.2" :arglists '([f & args])} async*
  "Does what `async` does, as a function: for `map`, `apply` and `with-redefs`.

  A `with-redefs` of it reaches every `async`. The task is named after f, since the line of the call is not
  known.

  Example:

    (task/await-many (mapv task/async* fetches))"
  (fibers/starred async-at "task" f [f & args]))

(defmacro async
  "Starts a task that calls (f & args), linked to this process; returns the task.

  The task sees the context values and the dynamic bindings of the caller. If the call throws, the task dies,
  and this process with it unless it traps exits. It is a macro, so that the task has the name of its line.

  Never waits.

  Throws an IllegalArgumentException outside of processes.

  Example:

    (task/await (task/async + 1 2)) ;=> 3

  See also `await`, `start`, `magnetar.task.supervisor/async-nolink`, and `async*`, the function: it can be
  mapped and applied, and `with-redefs` of it reaches every call.

  Elixir: Task.async/1,3."
  {:elixir "Task.async/1"}
  [f & args]
  (fibers/starting &form `async* "task" f args))

(defn- start-in [operation site options f args]
  (work/check-function operation f)
  [:ok (work/start operation site options #(apply f args))])

(defn ^:no-doc start-at
  "`start*`, with the process named after the site."
  [site f & args]
  (start-in "start" site {} f args))

(def ^{:added "0.2" :arglists '([f & args])} start*
  "Does what `start` does, as a function; see `async*`."
  (fibers/starred start-at "task" f [f & args]))

(defmacro start
  "Starts a process that calls (f & args), whose value is not awaited.

  The process is not linked. If the call throws, that is reported.

  Returns [:ok pid].

  Example:

    (task/start send-mail order) ;=> [:ok pid]

  See also `start*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every call.

  Elixir: Task.start/1,3."
  {:elixir "Task.start/1"}
  [f & args]
  (fibers/starting &form `start* "task" f args))

(defn ^:no-doc start-link-at
  "`start-link*`, with the process named after the site."
  [site f & args]
  (start-in "start-link" site {:link true} f args))

(def ^{:added "0.2" :arglists '([f & args])} start-link*
  "Does what `start-link` does, as a function; see `async*`.

  It is also the :start of a child.

  Example:

    {:id :warm-up :start [task/start-link* warm-up] :restart :temporary}"
  (fibers/starred start-link-at "task" f [f & args]))

(defmacro start-link
  "Starts a linked process that calls (f & args), whose value is not awaited.

  Under a supervisor it does something once.

  Returns [:ok pid].

  Example:

    (task/start-link warm-up) ;=> [:ok pid]
    {:id :warm-up :start [task/start-link* warm-up] :restart :temporary} ; as a child

  See also `start-link*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every
  call.

  Elixir: Task.start_link/1,3."
  {:elixir "Task.start_link/1"}
  [f & args]
  (fibers/starting &form `start-link* "task" f args))

(defn completed
  "Returns a task that has done its work already, with this value.

  It is for code that needs a process only sometimes.

  Example:

    (task/await (task/completed 3)) ;=> 3

  Elixir: Task.completed/1."
  {:elixir "Task.completed/1"}
  [value]
  (let [ref (actor/make-alias :reply)]
    (! ref [ref value])
    (work/->Task nil ref (actor/self) "task that was completed when it was made")))

;; ---- the value

(defn- given-up
  "What `await` gives when time is over. The value of the task counts if it comes while the error is worded."
  [me task timeout]
  (let [late (work/late `await task timeout)]
    (if-some [result (work/give-up me task)]
      (work/value-or-throw `await task timeout result)
      (throw late))))

(defn await
  "Waits for the value of a task, and returns it.

  An awaited task has no value any more. When time runs out the task is given up: it goes on, unless this
  process dies. With :else it is not given up, and may be awaited again.

  Blocks until the task has ended, at most for :timeout.

  Throws a magnetar.TimeoutException when time runs out and there is no :else; the message says what the task
  is doing. Throws an ExceptionInfo with :reason and :task if the task dies, or has been awaited before.
  Throws at once in a process that is not the owner.

  A process that does not catch the exception exits with the reason [reason call]. If the task is linked and
  dies, a process that does not trap exits dies for the same reason.

  Options:
    :timeout  how long to wait at most, a duration. Default 5000 ms
    :else     what to return when time runs out; {:timeout 0 :else nil} polls

  Example:

    (task/await (task/async fetch url) {:timeout 1000})

  See also `await-many`, `yield`.

  Elixir: Task.await/2."
  {:elixir "Task.await/2"}
  ([task] (await task nil))
  ([task {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "await" [:timeout :else] options)
   (let [nanos (arguments/nanos :timeout timeout)
         me (work/check-owner "await" task)
         open? (Aliases/isOpen me (:ref task))
         result (work/take-answer me task (if open? nanos 0))]
     (cond
       result (work/value-or-throw `await task timeout result)
       (not open?) (throw (work/no-more `await task timeout))
       (contains? options :else) (:else options)
       :else (given-up me task timeout)))))

(defn- check-owners ^LocalProcess [operation tasks]
  (when-not (sequential? tasks)
    (arguments/misuse :magnetar/not-tasks
                      (str "`" operation "` wants tasks in a vector or a list; this is " (arguments/show tasks) ".") {:value tasks}))
  (or (last (mapv #(work/check-owner operation %) tasks))
      (LocalProcess/current)))

(defn- collect
  "From references to results: of all tasks, or so many as come until the deadline, `most`, or (enough? result)."
  [me tasks deadline most enough?]
  (let [mark (work/mark me (map :ref tasks))]
    (loop [waiting (zipmap (map :ref tasks) tasks) results {}]
      (let [more? (and (seq waiting) (< (count results) (long most)))
            [ref result :as answer] (when more? (work/take-any me waiting mark (clock/left deadline)))]
        (if answer
          (let [results (assoc results ref result)]
            (work/die-of me (waiting ref) result)
            (if (enough? result)
              results
              (recur (dissoc waiting ref) results)))
          results)))))

(defn- collect-all
  "From references to results, of all tasks or up to the first death. A task whose answer was taken before is refused at once."
  [me tasks nanos timeout]
  (let [closed (remove #(Aliases/isOpen me (:ref %)) tasks) ; their answers are in the mailbox, or were taken
        died? #(= :exit (first %))
        early (collect me closed (clock/deadline 0) Long/MAX_VALUE died?)
        death? (some died? (vals early))
        spent (first (remove (comp early :ref) closed))]
    (when (and spent (not death?))
      (throw (work/no-more `await-many spent timeout)))
    (if death?
      early
      (merge early (collect me (remove (set closed) tasks) (clock/deadline nanos) Long/MAX_VALUE died?)))))

(defn- death-among
  "The error of the first task that has died; nil if no task has."
  [tasks results timeout]
  (some (fn [{:keys [ref] :as task}]
          (let [[how why] (results ref)]
            (when (= :exit how) (work/failed `await-many task why timeout))))
        tasks))

(defn- given-up-all
  "Gives the tasks up, and throws the error."
  [me tasks error]
  (run! #(work/give-up me %) tasks)
  (throw error))

(defn await-many
  "Waits for the values of all tasks, and returns them in a vector, in their order.

  Tasks that have not ended when it throws are given up. They go on, unless this process dies. When it returns
  the value of :else, no task is given up and no value is lost: all tasks may be awaited again.

  Blocks until all tasks have ended or one has died, at most for :timeout.

  Throws as `await` as soon as one task dies; a magnetar.TimeoutException when time runs out and there is no
  :else.

  Options:
    :timeout  how long to wait for all tasks together at most, a duration. Default 5000 ms
    :else     what to return when time runs out; {:timeout 0 :else nil} polls

  Example:

    (task/await-many [(task/async fetch a) (task/async fetch b)])

  See also `await`, `yield-many`.

  Elixir: Task.await_many/2."
  {:elixir "Task.await_many/2"}
  ([tasks] (await-many tasks nil))
  ([tasks {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "await-many" [:timeout :else] options)
   (let [nanos (arguments/nanos :timeout timeout)
         me (check-owners "await-many" tasks)
         results (collect-all me tasks nanos timeout)
         unfinished (remove (comp results :ref) tasks)
         death (death-among tasks results timeout)]
     (cond
       death (given-up-all me unfinished death)
       (empty? unfinished) (mapv (comp second results :ref) tasks)
       (contains? options :else) (do (work/put-back me results) (:else options))
       :else (given-up-all me unfinished (work/late `await-many (first unfinished) timeout))))))

(defn yield
  "Waits for the outcome of a task, which may be awaited again when time runs out.

  Returns [:ok value], or [:exit reason] if the task died.

  Blocks until the task has ended, at most for :timeout.

  Throws a magnetar.TimeoutException when time runs out and there is no :else; an ExceptionInfo if the task
  has been awaited before.

  Options:
    :timeout  how long to wait at most, a duration. Default 5000 ms
    :else     what to return when time runs out; {:timeout 0 :else nil} asks whether the task has ended

  Example:

    (or (task/yield task {:timeout 100 :else nil}) (task/shutdown task)) ;=> [:ok 3]

  See also `await`, `yield-many`, `shutdown`.

  Elixir: Task.yield/2."
  {:elixir "Task.yield/2"}
  ([task] (yield task nil))
  ([task {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "yield" [:timeout :else] options)
   (let [nanos (arguments/nanos :timeout timeout)
         me (work/check-owner "yield" task)
         open? (Aliases/isOpen me (:ref task))
         result (work/take-answer me task (if open? nanos 0))]
     (cond
       result result
       (not open?) (throw (work/no-more `yield task timeout))
       (contains? options :else) (:else options)
       :else (throw (work/late `yield task timeout))))))

(defn- end-of
  "The result of a task that has been told to end, once there is one."
  [me {:keys [pid] :as task} nanos]
  (or (work/take-answer me task nanos)
      (do
        (actor/exit pid :kill)
        (work/take-answer me task clock/infinite))))

(defn- shut-down [^LocalProcess me {:keys [pid ref] :as task} shutdown]
  (let [brutal? (= :brutal-kill shutdown)
        open? (Aliases/isOpen me ref)]
    (when pid ; a completed one has none
      (actor/unlink pid)
      (actor/exit pid (if brutal? :kill :shutdown)))
    (let [nanos (cond (not open?) 0, brutal? clock/infinite, :else (arguments/nanos :shutdown shutdown))
          result (if open? (end-of me task nanos) (work/take-answer me task 0))]
      (cond
        (nil? result) [:exit :noproc]
        (= result [:exit (if brutal? :killed :shutdown)]) nil
        :else result))))

(defn shutdown
  "Ends a task, and waits until it is dead.

  The task is unlinked and gets the exit signal :shutdown. After the time of :shutdown it is killed.

  Returns nil, or the outcome that the task had before: [:ok value] or [:exit reason]. A task that was killed
  because it took longer than :shutdown gives [:exit :killed]. A task that was awaited before gives [:exit
  :noproc].

  Blocks until the task is dead.

  Options:
    :shutdown  how long the task may take to end, a duration. Default 5000 ms. :brutal-kill kills it at once

  Example:

    (task/shutdown task {:shutdown :brutal-kill})

  See also `ignore`, `yield`.

  Elixir: Task.shutdown/2."
  {:elixir "Task.shutdown/2"}
  ([task] (shutdown task nil))
  ([task {:keys [shutdown] :or {shutdown 5000} :as options}]
   (arguments/options "shutdown" [:shutdown] options)
   (arguments/shutdown "shutdown" shutdown)
   (shut-down (work/check-owner "shutdown" task) task shutdown)))

(defn ignore
  "Lets a task go on without this process: unlinks it and drops its answer.

  Returns nil, or the outcome that the task had before: [:ok value] or [:exit reason]. Never waits.

  Example:

    (task/ignore task)

  See also `shutdown`.

  Elixir: Task.ignore/1."
  {:elixir "Task.ignore/1"}
  [task]
  (let [me (work/check-owner "ignore" task)]
    (when (:pid task) (actor/unlink (:pid task)))
    (work/give-up me task)))

(defn- check-on-timeout [on-timeout]
  (when-not (#{:nothing :ignore :kill-task} on-timeout)
    (arguments/misuse :magnetar/bad-option
                      (str "The :on-timeout of `yield-many` is :nothing, :ignore or :kill-task; this is " (arguments/show on-timeout) ".")
                      {:on-timeout on-timeout})))

(defn- at-the-time
  "What becomes of a task that has not ended in time."
  [on-timeout me task]
  (case on-timeout
    :nothing nil
    :ignore (ignore task)
    :kill-task (shut-down me task :brutal-kill)))

(defn yield-many
  "Waits for the outcomes of tasks, as `yield` gives them.

  Returns pairs [task outcome] in the order of the tasks. The outcome is nil for a task that has not ended.
  Such a task may be awaited again, unless :on-timeout says otherwise.

  Blocks until all tasks, or :limit of them, have ended, at most for :timeout.

  Options:
    :timeout     how long to wait for all tasks together at most, a duration. Default 5000 ms
    :limit       return once so many tasks have ended
    :on-timeout  what becomes of tasks that have not ended: :nothing; :ignore lets them go on without this
                 process; :kill-task kills them. Default :nothing

  Example:

    (task/yield-many tasks {:timeout 100 :on-timeout :kill-task})

  See also `await-many`, `yield`.

  Elixir: Task.yield_many/2."
  {:elixir "Task.yield_many/2"}
  ([tasks] (yield-many tasks nil))
  ([tasks {:keys [timeout limit on-timeout] :or {timeout 5000 limit Long/MAX_VALUE on-timeout :nothing} :as options}]
   (arguments/options "yield-many" [:timeout :limit :on-timeout] options)
   (check-on-timeout on-timeout)
   (let [nanos (arguments/nanos :timeout timeout)
         most (arguments/whole ":limit" limit)
         me (check-owners "yield-many" tasks)
         results (collect me tasks (clock/deadline nanos) most (constantly false))]
     (mapv (fn [{:keys [ref] :as task}]
             [task (or (results ref) (at-the-time on-timeout me task))])
           tasks))))

;; ---- streams

(defn ^:no-doc async-stream-at
  "`async-stream*`, with its tasks named after the site."
  ([site coll f] (async-stream-at site coll f nil))
  ([site coll f options] (stream/stream site coll f (fn [item] (work/async site f [item])) options)))

(def ^{:added "0.2" :arglists '([coll f] [coll f options])} async-stream*
  "Does what `async-stream` does, as a function; see `async*`."
  (fibers/starred async-stream-at "task" f [coll f] [coll f options]))

(defmacro async-stream
  "Returns the results of (f x) for each x of coll, a task each, to reduce over.

  A result is [:ok value], or [:exit reason] of a task that died.

  Nothing runs until the results are reduced, in a process, by `into`, `reduce`, `transduce`, `run!` or an
  eduction. Elements are taken from coll as tasks end. The tasks that still run when the reduction ends, in
  whatever way, are killed. Tasks are linked to the process: if one dies, so does the process, unless it traps
  exits.

  Throws as `await`, during the reduction, if the time of a task is over and :on-timeout is :exit.

  Options:
    :max-concurrency    how many tasks run at a time. Default: as many as there are processors
    :ordered            true: results in the order of coll, so results behind a slow one are kept. false:
                        results as they come. Default true
    :timeout            how long each task may take, a duration. Default 5000 ms. It is checked while the
                        reduction waits
    :on-timeout         :exit throws as `await`; :kill-task kills the task, whose result is [:exit :timeout].
                        Default :exit
    :zip-input-on-exit  true: a task that died gives [:exit [x reason]] instead of [:exit reason]

  Example:

    (into [] (task/async-stream [1 2 3] inc {:max-concurrency 2})) ;=> [[:ok 2] [:ok 3] [:ok 4]]

  See also `async-stream*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every
  call.

  Elixir: Task.async_stream/3."
  {:elixir "Task.async_stream/3"}
  ([coll f] (fibers/starting &form `async-stream* "task" [coll f]))
  ([coll f options] (fibers/starting &form `async-stream* "task" [coll f options])))

;; ---- look

(defn callers
  "Returns the pids of the processes that started this task, the nearest first.

  The first is the process that started the task. If that is a task too, its own starter follows, and so on.
  Returns [] outside of tasks.

  A task that a supervisor has started for a process has that process as its caller.
  `magnetar.proc-lib/ancestors` begins with the supervisor there.

  Example:

    (task/await (task/async task/callers)) ;=> [pid]

  Elixir: the key $callers of the dictionary."
  {:elixir "Task"}
  []
  (work/callers))
