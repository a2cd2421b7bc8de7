(ns magnetar.task
  "Tasks: work done in a process of its own, by somebody who wants its value.

    (let [page (task/async fetch url)
          user (task/async load-user id)]
      (render (task/await page) (task/await user)))

  start    async; start start-link, whose value is not awaited; completed
  value    await await-many; yield yield-many, which go on after a time; shutdown ignore
  stream   async-stream
  look     callers

  A task is linked to the process that starts it, its owner: if one dies abnormally, so does the other. Its answer goes to the owner, who alone
  may await it, once. A task is a record with :pid, :ref, :owner and :site, the line that started it. A server that does not want to wait may
  take the answer in handle-info: [ref value], or [:DOWN ref :process pid reason].

  Tasks that shall not take their owner along are started by `magnetar.task.supervisor`. If no process waits, or nothing has to be linked, a
  fork in a scope or `magnetar.fold/pmap` is less. Names are those of Elixir's module Task."
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
  "Does what `async` does, as a function: for `map`, `apply` and `with-redefs`, which reaches every `async`.

  The task is named after f, as no line is known.

    (task/await-many (mapv task/async* fetches))"
  ^{::fibers/at async-at}
  (fn [f & args]
    (apply async-at (fibers/site-of "task" f) f args)))

(defmacro async
  "Starts a task that calls (f & args), linked to this process; returns the task.

  Never waits. If the call throws, the task dies, and this process with it unless it traps exits. The task sees the context values and the
  dynamic bindings of the caller. Fails outside of processes. A macro, so that the task has the name of its line; the function is `async*`.

    (task/await (task/async + 1 2)) ;=> 3

  In Elixir: Task.async/1,3."
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
  ^{::fibers/at start-at}
  (fn [f & args]
    (apply start-at (fibers/site-of "task" f) f args)))

(defmacro start
  "Starts a process that calls (f & args), whose value is not awaited: [:ok pid]. If it throws, that is reported.

    (task/start send-mail order) ;=> [:ok pid]

  In Elixir: Task.start/1,3. The function is `start*`."
  {:elixir "Task.start/1"}
  [f & args]
  (fibers/starting &form `start* "task" f args))

(defn ^:no-doc start-link-at
  "`start-link*`, with the process named after the site."
  [site f & args]
  (start-in "start-link" site {:link true} f args))

(def ^{:added "0.2" :arglists '([f & args])} start-link*
  "Does what `start-link` does, as a function; see `async*`. For the :start of a child too: [task/start-link* warm-up]."
  ^{::fibers/at start-link-at}
  (fn [f & args]
    (apply start-link-at (fibers/site-of "task" f) f args)))

(defmacro start-link
  "Like `start`, with a link. A child of a supervisor does something once: {:id :warm-up :start [task/start-link* warm-up] :restart :temporary}.

    (task/start-link warm-up) ;=> [:ok pid]

  In Elixir: Task.start_link/1,3. The function is `start-link*`."
  {:elixir "Task.start_link/1"}
  [f & args]
  (fibers/starting &form `start-link* "task" f args))

(defn completed
  "A task that has done its work already, with this value: for code that sometimes needs no process.

    (task/await (task/completed 3)) ;=> 3

  In Elixir: Task.completed/1."
  {:elixir "Task.completed/1"}
  [value]
  (let [ref (actor/make-alias :reply)]
    (! ref [ref value])
    (work/->Task nil ref (actor/self) "task that was completed when it was made")))

;; ---- the value

(defn- given-up
  "What `await` gives when time is over. The value of the task counts if it comes while the error is worded."
  [me task timeout options]
  (let [late (when-not (contains? options :else) (work/late `await task timeout))
        result (work/give-up me task)]
    (cond
      result (work/value-or-throw `await task timeout result)
      late (throw late)
      :else (:else options))))

(defn await
  "Waits for the value of a task, and returns it.

  {:timeout ms} says how long, 5000 if left out; then the task is given up, and goes on unless this process dies: throws a TimeoutException
  that says what the task is doing, or returns :else if that is given. Throws an ExceptionInfo with :reason and :task if the task dies. A
  process that dies of either has the reason [reason call]. If the task dies that it is linked to, a process that does not trap exits dies for the same reason. Fails at
  once in another process than the owner. A task that was awaited has no value any more.

    (task/await (task/async fetch url) {:timeout 1000})

  In Elixir: Task.await/2."
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
       open? (given-up me task timeout options)
       :else (throw (work/no-more task timeout))))))

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

(defn- death-among
  "The error of the first task that has died, nil if there is none."
  [tasks results timeout]
  (some (fn [{:keys [ref] :as task}]
          (let [[how why] (results ref)]
            (when (= :exit how) (work/failed `await-many task why timeout))))
        tasks))

(defn await-many
  "Waits for the values of all tasks; a vector, in their order.

  {:timeout ms} says how long in all, 5000 if left out. Throws as `await` as soon as one of them dies. If not all end in time, throws a
  TimeoutException, or returns :else if that is given. Those that have not ended are given up then, and go on unless this process dies.

    (task/await-many [(task/async fetch a) (task/async fetch b)])

  In Elixir: Task.await_many/2."
  {:elixir "Task.await_many/2"}
  ([tasks] (await-many tasks nil))
  ([tasks {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "await-many" [:timeout :else] options)
   (let [nanos (arguments/nanos :timeout timeout)
         me (check-owners "await-many" tasks)
         results (collect me tasks (clock/deadline nanos) Long/MAX_VALUE #(= :exit (first %)))
         unfinished (remove (comp results :ref) tasks)
         death (death-among tasks results timeout)
         late (when (and (seq unfinished) (not death) (not (contains? options :else)))
                (work/late `await-many (first unfinished) timeout))]
     (run! #(work/give-up me %) unfinished)
     (cond
       (or death late) (throw (or death late))
       (seq unfinished) (:else options)
       :else (mapv (comp second results :ref) tasks)))))

(defn yield
  "The outcome of a task: [:ok value], or [:exit reason] if it died.

  {:timeout ms} says how long, 5000 if left out. If the task has not ended then, throws a TimeoutException, or returns :else if that is given;
  the task may be awaited again. {:timeout 0 :else nil} asks whether it has ended.

    (or (task/yield task {:timeout 100 :else nil}) (task/shutdown task)) ;=> [:ok 3]

  In Elixir: Task.yield/2."
  {:elixir "Task.yield/2"}
  ([task] (yield task nil))
  ([task {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "yield" [:timeout :else] options)
   (let [nanos (arguments/nanos :timeout timeout)
         me (work/check-owner "yield" task)
         result (work/take-answer me task nanos)]
     (cond
       result result
       (contains? options :else) (:else options)
       (Aliases/isOpen me (:ref task)) (throw (work/late `yield task timeout))
       :else (throw (work/no-more task timeout))))))

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
  "Ends a task, and waits until it is dead: nil, or what came of it before: [:ok value] or [:exit reason].

  The task is unlinked and gets the exit signal :shutdown; after 5000 ms, or {:shutdown ms}, it is killed, which gives [:exit :killed]. With
  {:shutdown :brutal-kill} it is killed at once. [:exit :noproc] if it was awaited before.

    (task/shutdown task {:shutdown :brutal-kill})

  In Elixir: Task.shutdown/2."
  {:elixir "Task.shutdown/2"}
  ([task] (shutdown task nil))
  ([task {:keys [shutdown] :or {shutdown 5000} :as options}]
   (arguments/options "shutdown" [:shutdown] options)
   (arguments/shutdown "shutdown" shutdown)
   (shut-down (work/check-owner "shutdown" task) task shutdown)))

(defn ignore
  "Lets a task go on without this process: it is unlinked, and its answer dropped. Returns nil, or what came of it before: [:ok value] or [:exit reason].

    (task/ignore task)

  In Elixir: Task.ignore/1."
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
  "The outcomes of tasks, as pairs [task outcome] in their order, as `yield` gives them: after {:timeout ms}, 5000 if left out, in all.

  {:limit n} returns once so many have ended. What has not ended in time may be awaited again; with {:on-timeout :ignore} it goes on without this
  process, with :kill-task it is killed.

    (task/yield-many tasks {:timeout 100 :on-timeout :kill-task})

  In Elixir: Task.yield_many/2."
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
  ^{::fibers/at async-stream-at}
  (fn
    ([coll f] (async-stream-at (fibers/site-of "task" f) coll f))
    ([coll f options] (async-stream-at (fibers/site-of "task" f) coll f options))))

(defmacro async-stream
  "The results of (f x) for each x of coll, a task each, as something to reduce over: [:ok value], or [:exit reason] of a task that died.

  Nothing runs until it is reduced, by `into`, `reduce`, `transduce`, `run!` or an eduction, in a process; then coll is taken from as tasks end,
  and what is left of them is killed however the reduction ends. Tasks are linked to the process: one that dies takes it along, unless it traps exits. Options:

  :max-concurrency    tasks at a time; as many as there are processors
  :ordered            true (the default): results in the order of coll, so that those behind a slow one are kept; false: as they come
  :timeout            the milliseconds of each task, 5000; looked at while the reduction waits
  :on-timeout         :exit (the default) throws as `await`; :kill-task kills the task, and its result is [:exit :timeout]
  :zip-input-on-exit  true: [:exit [x reason]] for [:exit reason]

    (into [] (task/async-stream [1 2 3] inc {:max-concurrency 2})) ;=> [[:ok 2] [:ok 3] [:ok 4]]

  In Elixir: Task.async_stream/3. The function is `async-stream*`."
  {:elixir "Task.async_stream/3"}
  ([coll f] (fibers/starting &form `async-stream* "task" [coll f]))
  ([coll f options] (fibers/starting &form `async-stream* "task" [coll f options])))

;; ---- look

(defn callers
  "The process that has started this task, and who started that one if it is a task too, the nearest first; [] outside of tasks.

  Also of a task that a supervisor has started for it: `magnetar.proc-lib/ancestors` begins with the supervisor there.

    (task/await (task/async task/callers)) ;=> [pid]

  In Elixir: the key $callers of the dictionary."
  {:elixir "Task"}
  []
  (work/callers))
