(ns magnetar.scope
  "Structured concurrency: a scope returns only after all its work has ended.

    (with-scope [s {:deadline 500}]
      (let [user   (fork s fetch-user id)
            orders (fork s fetch-orders id)]
        {:user @user :orders @orders}))

  with-scope        opens a scope, and does not return before all that was started in it has ended
  fork daemon go    start work in it
  join result       wait for a fork, look at it
  cancel            end a scope or a fork, with a cause
  all any race      joiners: when a scope has what it wants
  shield on-exit    clean up
  with-cancel       end a query, or another wait, before the interrupt would break its connection
  await-callback, offload, sleep   wait for what is not a fiber

  A failing fork cancels its siblings and the body. The owner sees the first failure, with the others
  suppressed.

  Cancellation reaches a fiber wherever it waits. An operation of Magnetar throws
  `magnetar.kernel.fiber.Cancelled`, an Error, so (catch Exception ..) does not catch it. Every later
  operation throws it again. A blocking call of the JDK throws its usual exception for an interrupt, often an
  InterruptedException, which (catch Exception ..) does catch: do not go on after that one. The interrupt also
  closes the socket or file channel that a fiber blocks on.

  Require it with an alias: `[magnetar.scope :as scope :refer [with-scope fork]]`."
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.callbacks :as callbacks]
   [magnetar.impl.chans]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.outcomes :as outcomes]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts])
  (:import
   (clojure.lang Var)
   (java.lang ScopedValue ScopedValue$CallableOp ScopedValue$Carrier)
   (java.time Duration Instant)
   (java.util.concurrent CompletableFuture CompletionStage)
   (java.util.function BiFunction)
   (magnetar.kernel.channel Channel)
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.scope Fork Offload OnCancel Scope)))

(set! *warn-on-reflection* true)

;; ---- outcomes

(defn result
  "Returns what has become of a fork, as data.

  It is {:status :running}, {:status :success :value v}, {:status :failure :error e} or {:status :cancelled
  :error e}. Each has :site and :fork too.

  Never waits.

  Example:

    (scope/result f) ;=> {:status :success, :value 42, ..}"
  [fork]
  (when-not (instance? Fork fork)
    (arguments/misuse :magnetar/not-a-fork (str "`result` wants a fork; this is " (arguments/show fork) ".") {:value fork}))
  (if (.isReleased ^Fork fork)
    (outcomes/outcome fork)
    {:status :running :site (.site ^Fork fork) :fork fork}))

;; ---- joiners

(def all
  "The joiner that wants all forks to succeed, the default.

  The first failure cancels the others and is thrown. Without a failure the scope has the value of its body.

  A joiner is a map of three:

    :init    a state
    :step    a function of the state and the outcome of a fork that has ended, as `result` gives it. It
             returns the next state; (reduced state) cancels the other forks. It runs under a lock, on the
             fiber of the fork: keep it short.
    :result  a function of the state, the value of the body, and a vector of the outcomes that are failures.
             What it returns or throws is the result of the scope."
  {:init nil
   :step outcomes/until-failure
   :result (fn [_ value failures]
             (if (seq failures) (throw (outcomes/fork-failed failures)) value))})

(def any
  "The joiner that wants one fork to succeed.

  The scope has the value of the first fork that succeeds, and the others are cancelled. If all fail, the
  first failure is thrown.

  See also `all` for what a joiner is."
  {:init nil
   :step (fn [state {:keys [status] :as outcome}] (if (= :success status) (reduced outcome) state))
   :result (fn [winner _ failures]
             (cond
               winner (:value winner)
               (seq failures) (throw (outcomes/fork-failed failures))
               :else (throw (outcomes/nothing-forked))))})

(def race
  "The joiner that wants one fork to end.

  The scope has the value of the first fork that ends, or throws its failure. The others are cancelled.

  See also `all` for what a joiner is."
  {:init nil
   :step (fn [state {:keys [status] :as outcome}] (if (= :cancelled status) state (reduced outcome)))
   :result (fn [winner _ _]
             (cond
               (nil? winner) (throw (outcomes/nothing-forked))
               (outcomes/failed? winner) (throw (outcomes/fork-failed [winner]))
               :else (:value winner)))})

;; ---- scopes

(defn- check-joiner [joiner]
  (when-not (and (map? joiner) (ifn? (:step joiner)) (ifn? (:result joiner)))
    (arguments/misuse :magnetar/not-a-joiner
      (str "A :joiner is `all`, `any`, `race` or a map with :step and :result; this is " (arguments/show joiner) ".") {:joiner joiner})))

(defn- nanos-to ^long [deadline]
  (if (instance? Instant deadline)
    (let [left (Duration/between (Instant/now) deadline)]
      (if (.isNegative left) 0 (clock/nanos left)))
    (arguments/nanos :deadline deadline)))

(defn- check-inherit [scoped-values]
  (when-not (and (or (nil? scoped-values) (sequential? scoped-values) (set? scoped-values))
                 (every? #(instance? ScopedValue %) scoped-values))
    (arguments/misuse :magnetar/not-a-scoped-value
      (str (arguments/subject :inherit) " a collection of java.lang.ScopedValue; this is " (arguments/show scoped-values) ".") {:inherit scoped-values})))

(defn- carrier
  "The values that this thread has for the ScopedValues; nil if for none."
  ^ScopedValue$Carrier [scoped-values]
  (check-inherit scoped-values)
  (reduce (fn [carrier ^ScopedValue sv]
            (cond
              (not (.isBound sv)) carrier
              carrier (.where ^ScopedValue$Carrier carrier sv (.get sv))
              :else (ScopedValue/where sv (.get sv))))
          nil scoped-values))

(defn- check-bindings [bindings]
  (when-not (contains? #{nil :frame :none} bindings)
    (arguments/misuse :magnetar/bad-option
                      (str (arguments/subject :bindings) " :frame, so that forks see the dynamic bindings of their starter, or :none; this is "
                           (arguments/show bindings) ".")
                      {:bindings bindings})))

(defn- in-frame
  "The work with the dynamic bindings of its starter."
  [work]
  (if-some [bindings (fibers/shared-frame)]
    (^:once fn* []
      (fibers/install bindings)
      (work))
    work))

(defn- conveyance
  "What the forks of a scope take along: a function of their work, called by the starter, that gives what their fibers shall do."
  [{:keys [inherit bindings]}]
  (check-bindings bindings)
  (let [carrier (carrier inherit)
        framed (if (= :none bindings) identity in-frame)]
    (if carrier
      (fn [work]
        (let [work (framed work)]
          (^:once fn* [] (.call ^ScopedValue$Carrier carrier (reify ScopedValue$CallableOp (call [_] (work)))))))
      framed)))

(defn- scope-of ^Scope [x what]
  (if (instance? Scope x)
    x
    (arguments/misuse :magnetar/not-a-scope (str "`" what "` wants a scope, as with-scope binds it; this is " (arguments/show x) ".") {:value x})))

(defn- refuse-past
  "A scope whose time has passed before it begins does not begin."
  [site deadline]
  (.check (Fiber/current))
  (when (and (instance? Instant deadline) (zero? (nanos-to deadline)))
    (throw (errors/failure (str "The " site " ran out of time before it began: its :deadline, " deadline ", lies in the past. Give it one that lies ahead.")
             {:magnetar/reason :magnetar/deadline :site site :deadline deadline}))))

(defn scope*
  "Calls f with a new scope, as `with-scope` does with its body."
  [site options f]
  (arguments/options "with-scope" [:deadline :joiner :inherit :bindings :patience] options)
  (let [{:keys [deadline joiner patience] :or {joiner all}} options
        _ (check-joiner joiner)
        state (volatile! (outcomes/beginning joiner))
        convey (conveyance options)
        patience (if (contains? options :patience) (arguments/nanos :patience patience) Scope/PATIENCE_NANOS)
        nanos (if (nil? deadline) clock/infinite (nanos-to deadline))
        _ (refuse-past site deadline)
        scope (Scope/open site (outcomes/joining joiner state) nanos)]
    (.attach scope convey)
    (.setPatience scope patience)
    (let [body (outcomes/of-body scope f)
          thrown (.end scope)]
      (outcomes/conclude scope joiner @state body thrown))))

(defn ^:no-doc check-binding
  "Refuses what does not bind a scope."
  [binding]
  (when-not (and (vector? binding) (<= 1 (count binding) 2) (symbol? (first binding)))
    (arguments/misuse :magnetar/bad-binding
                      (str "`with-scope` binds a scope to a symbol, as in (with-scope [s {:deadline 500}] ..); this is "
                           (arguments/show binding) ".")
                      {:binding binding})))

(defmacro with-scope
  "Does body in a new scope; returns its value once all forks have ended.

  s is bound to the scope. If a fork or the body fails, all that still runs is cancelled. A fork that ends
  because it was cancelled does not count as failed. A body on a platform thread, such as the main thread,
  cannot be interrupted while it reads from a socket. Put such a read into a fork.

  Blocks until the body and all forks have ended, however long that takes.

  Throws the first failure: an ExceptionInfo whose message and :site name the fork, the other failures
  suppressed. If the deadline passes, or the scope is cancelled, it throws an ExceptionInfo with that
  :magnetar/reason.

  Options:
    :deadline  a duration from now (milliseconds, a Duration) or an Instant; an enclosing scope's deadline
               counts as well
    :joiner    `all`, `any`, `race` or your own. Default `all`
    :inherit   ScopedValues of the JDK that forks of this scope shall see as they are bound here. A scope
               inside a fork, `pmap` and `offload` take none along: name them there again.
    :bindings  :frame: forks see the dynamic bindings of their starter. :none: they see the root values of
               dynamic vars, and do not keep those bindings alive. Default :frame
    :patience  how long a fork may run after its cancellation before it is reported with its stack, as a
               :failure of `magnetar.report`. The scope waits for it all the same. A body is not reported.
               Default 5000 ms

  Example:

    (with-scope [s {:joiner scope/race}] (fork s ask primary) (fork s ask replica))

  See also `fork`, `cancel`.

  Erlang: links between a process and the workers it starts."
  {:arglists '([[s options] & body])}
  [binding & body]
  (check-binding binding)
  (let [[s options] binding]
    `(scope* ~(fibers/site "scope" &form) ~options (fn [~s] ~@body))))

(defn- scope-ended [^Scope scope]
  (arguments/misuse :magnetar/scope-ended
    (str "A fork in the " (.site scope) ", which has ended: fork inside the body of with-scope.") {:site (.site scope)}))

(defn- thread-name []
  (let [named (.getName (Thread/currentThread))]
    (if (= "" named) "a virtual thread without a name" named)))

(defn- refuse-fork [^Scope scope]
  (cond
    (.isClosed scope) (scope-ended scope)
    (not (.admits scope (Fiber/current))) (arguments/misuse :magnetar/outside-scope
                                            (str "A fork in the " (.site scope) " by a fiber that it does not own, "
                                                 (thread-name) ": open a scope there, or fork that work too.")
                                            {:site (.site scope)})))

(defn- refused
  "Throws why the scope takes no fork."
  [^Scope scope]
  (.check (Fiber/current))
  (if (.isCancelled scope)
    (throw (outcomes/cancelled-error scope))
    (scope-ended scope)))

(defn- verb
  "What was called at the site of a fork."
  [site]
  (re-find #"^\S+" site))

(defn- start
  "Starts `work`, which calls f."
  [s ^String site daemon? f work]
  (let [^Scope scope (if (instance? Scope s) s (scope-of s (verb site)))]
    (when-not (ifn? f)
      (arguments/function (verb site) f (str "(" (verb site) " s fetch-user id)")))
    (refuse-fork scope)
    (or (.fork scope site daemon? ((.attachment scope) work))
        (refused scope))))

(defn ^:no-doc fork-at
  "`fork*`, with the fiber named after the site."
  ([site s f] (start s site false f f))
  ([site s f arg] (start s site false f (^:once fn* [] (f arg))))
  ([site s f arg & args] (start s site false f (^:once fn* [] (apply f arg args)))))

(def ^{:added "0.2" :arglists '([s f & args])} fork*
  "Does what `fork` does, as a function.

  It serves `map`, `apply` and `with-redefs`; a redefinition of it reaches every `fork`. The fork is named
  after f, because no line is known.

  Example:

    (mapv (partial scope/fork* s) fetches)"
  (fibers/starred fork-at "fork" f [s f & args]))

(defmacro fork
  "Starts (f & args) on a fiber that a scope owns; returns the fork.

  `@fork` and `join` wait for it; a failure cancels the scope. The fiber sees the context values and the
  dynamic bindings of the caller. `fork` is a macro, so that the fork has the name of its line.

  Never waits.

  Throws an IllegalArgumentException in a scope that has ended, and on a fiber that the scope does not own.

  Example:

    (fork s fetch-user id)

  See also `daemon`, `join`, and `fork*`, the function: it can be mapped and applied, and `with-redefs` of it
  reaches every call.

  Erlang: spawn_link/1,3."
  [s f & args]
  (fibers/starting &form `fork* "fork" s f args))

(defn ^:no-doc daemon-at
  "`daemon*`, with the fiber named after the site."
  [site s f & args]
  (start s site true f (^:once fn* [] (apply f args))))

(def ^{:added "0.2" :arglists '([s f & args])} daemon*
  "Does what `daemon` does, as a function.

  See also `fork*`."
  (fibers/starred daemon-at "daemon" f [s f & args]))

(defmacro daemon
  "Starts (f & args) as `fork` does, for work that the scope does not wait for.

  It is cancelled when the other forks have ended.

  Example:

    (scope/daemon s tick-every 1000)

  See also `daemon*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every call."
  [s f & args]
  (fibers/starting &form `daemon* "daemon" s f args))

(defn ^:no-doc close-after
  "Closes the channel when the fork has ended, also if it failed, or was cancelled before it began."
  [^Fork fork ^Channel out]
  (.whenEnded fork #(.close out)))

(defn- finish-with
  "Puts the value of (f) on `out`, and closes it. The channel says meanwhile that this fiber will do so."
  [f ^Channel out]
  (.willBeFinishedBy out (Fiber/current))
  (.finish out (f)))

(defn ^:no-doc go-at
  "`go*`, with the fiber named after the site."
  [site s f]
  (arguments/function "scope/go*" f "(scope/go* s #(fetch-user id))")
  (let [^Channel out (fibers/result-channel)]
    (close-after (fork-at site s #(finish-with f out)) out)
    out))

(def ^{:added "0.2" :arglists '([s f])} go*
  "Does what `go` does, with a function without arguments as the body.

  See also `fork*`."
  (fibers/starred go-at "scope/go" f [s f]))

(defmacro go
  "Does body on a fiber that a scope owns; returns a channel of its value.

  A failure cancels the scope. The channel closes when the body has ended, even if it was cancelled before it
  began. Prefer `go` where the work has an owner, and `magnetar.async/go` where the work may outlive the code
  that started it. Prefer `fork` where the result is a value to wait for and no channel is needed.

  Never waits.

  Example:

    (scope/go s (fetch-user id))

  See also `go*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every call."
  [s & body]
  (fibers/starting &form `go* "scope/go" s `[(fn [] ~@body)]))

(defn cancel
  "Cancels a scope with its forks, a fork, or a CompletionStage; returns nil.

  The body of the scope is cancelled too. The work ends where it waits next, or waits now. cause is data or a
  Throwable, and is named by the error that the scope throws. Only the first call counts.

  Never waits.

  Example:

    (scope/cancel s :user-left)"
  ([x] (cancel x nil))
  ([x cause]
   (cond
     (instance? Fork x) (.cancel ^Fork x ^Object cause)
     (instance? CompletionStage x) (.cancel (.toCompletableFuture ^CompletionStage x) true)
     :else (.cancel (scope-of x "cancel") cause))
   nil))

(defn cancelled?
  "Returns true once the scope was cancelled, for whatever reason."
  [s]
  (.isCancelled (scope-of s "cancelled?")))

(defn- millis-to [^long instant]
  (when-not (= instant clock/infinite)
    (max 0 (quot (- instant (.nanoTime (.environment (Fiber/current)))) 1000000))))

(defn ^{:added "0.2"} time-left
  "Returns the milliseconds until the deadline of a scope, or of this fiber.

  It is nil if there is no limit. Without a scope it is the time left to the work that this fiber does now. An
  enclosing scope's deadline counts as well, unless a `shield` masks it.

  Example:

    (with-scope [s {:deadline 500}]
      (scope/sleep 20)
      (scope/time-left)) ;=> 480"
  ([] (millis-to (Scope/deadlineOf (Fiber/current))))
  ([s] (millis-to (.deadline (scope-of s "time-left")))))

(def ^{:deprecated "0.2" :arglists '([] [s])} deadline
  "Deprecated: use `time-left`, which does the same."
  time-left)

(defn on-exit
  "Registers f to be called when all forks of a scope have ended; returns nil.

  f takes no arguments. Several such functions are called in reverse order: the one that was added last comes
  first. Cancellation is masked meanwhile. If the scope has failed, an exception of f is attached to that
  failure as suppressed. Otherwise the scope throws it.

  Never waits.

  Throws an IllegalArgumentException in a scope that has ended.

  Example:

    (let [c (open-connection)] (scope/on-exit s #(.close c)) (send-orders c))"
  [s f]
  (arguments/function "on-exit" f "(on-exit s (fn [] (close connection)))")
  (when-not (.onExit (scope-of s "on-exit") f)
    (arguments/misuse :magnetar/scope-ended "on-exit in a scope that has ended: add it inside the body of with-scope." {}))
  nil)

(defn shield*
  "Calls f with cancellation masked.

  See also `shield`."
  [f]
  (let [value (volatile! nil)]
    (.shieldFromInterrupts (Fiber/current) #(vreset! value (f)))
    @value))

(defmacro shield
  "Does body with the cancellation of this fiber masked, so that clean-up may wait.

  A cancellation that comes meanwhile takes effect after body, and its interrupt is sent then. Limit the
  wait with a scope inside it.

  Example:

    (try (serve client)
      (finally (scope/shield (with-scope [s {:deadline 100}] (say-goodbye client)))))"
  [& body]
  `(shield* (fn [] ~@body)))

(defn- conveying
  "f with the dynamic bindings of this thread, to be called on another."
  [f]
  (let [frame (fibers/shared-frame)]
    (fn []
      (fibers/install frame)
      (f))))

(defn ^:no-doc with-cancel-at
  "`with-cancel*`, with the fiber of f named after the site."
  ([site f body] (with-cancel-at site f body nil))
  ([site f body {:keys [timeout] :or {timeout 1000} :as options}]
   (arguments/function "with-cancel" f "(with-cancel #(.cancel statement) (.executeQuery statement))")
   (arguments/function "with-cancel*" body "(with-cancel* #(.cancel statement) #(.executeQuery statement))")
   (arguments/options "with-cancel*" [:timeout] options)
   (let [nanos (arguments/nanos :timeout timeout)]
     (.enter (Fiber/current))
     (OnCancel/call site (conveying f) nanos body))))

(def ^{:added "0.2" :arglists '([f body] [f body options])} with-cancel*
  "Does what `with-cancel` does, with a function without arguments as the body.

  Options:
    :timeout  for how long after the cancellation the interrupt is held back at most; then f is interrupted
              too. Default 1000 ms

  Example:

    (scope/with-cancel* #(.cancel statement) #(.executeQuery statement) {:timeout 200})"
  (fibers/starred with-cancel-at "with-cancel" f [f body] [f body options]))

(defmacro ^{:added "0.2"} with-cancel
  "Calls f if the fiber is cancelled during body, and holds the interrupt back.

  An interrupt closes the socket that a fiber waits on. A driver often has a gentler way, such as the
  `cancel` of a JDBC statement, after which the connection can be used again. f takes no arguments. It is
  called at most once, on a fiber of its own, which sees the context values and the dynamic bindings of
  the caller. The interrupt comes when body has ended, and at the latest after 1000 ms; f is interrupted
  then, too. Operations of Magnetar throw at once, except one that waits in a socket: let f close that. A
  kill that follows another cancellation is not held back, nor is a cancellation of a scope inside body.

  If f was called, `with-cancel` returns only after f has returned, so f cannot hit later work. Put only the
  work that f ends into body. A value that body returns is returned, even after a cancellation. If f runs
  before the work begins, it has no effect; the interrupt then ends the work.

  Returns the value of body.

  Blocks after body until f has returned, if it was called, and at most until its time is over.

  Throws what body throws. If f was called, an exception of body is the cause of the cancellation that is
  thrown instead: the driver throws it because of f. What f throws is reported as a failure of its fiber.

  Example:

    (with-open [statement (.prepareStatement connection \"select pg_sleep(60)\")]
      (scope/with-cancel #(.cancel statement)
        (.executeQuery statement)))

  See also `with-cancel*`, the function: it takes another :timeout."
  [f & body]
  (fibers/starting &form `with-cancel* "with-cancel" f `[(fn [] ~@body)]))

(defn sleep
  "Parks the fiber for a duration; returns nil.

  The duration is a number of milliseconds or a java.time.Duration. In a simulation it takes no time.

  Cancellation: cancelled, it throws at once.

  Example:

    (scope/sleep 50)"
  [duration]
  (clock/sleep (arguments/nanos :duration duration))
  nil)

;; ---- what is no fiber

(defn- limit
  "The nanoseconds of the option :timeout."
  ^long [operation timeout options]
  (arguments/options operation [:timeout :else] options)
  (arguments/nanos :timeout timeout))

(defn- endless-join
  "The error of a join that would wait for itself; the kernel calls it for `deref` too."
  [message ^Fork fork]
  (errors/illegal-state :magnetar/endless-join message {:site (.site fork) :fork fork :joiner (.getName (Thread/currentThread))}))

(Fork/setRefusal (reify BiFunction (apply [_ message fork] (endless-join message fork))))

(defn- not-joined [x timeout options]
  (timeouts/outcome options `join x timeout [x options]))

(defn join
  "Waits until a fork or a CompletionStage has ended, and returns its value.

  Blocks until it has ended, at most for :timeout.

  Throws an ExecutionException that names a fork that failed or was cancelled, with its error as the cause. If
  a stage failed, throws the failure itself. Throws a TimeoutException when time runs out and there is no
  :else. A fork that would wait for itself is refused, also from a scope or an `offload` inside it. Forks that
  wait for each other are not detected: give their scope a deadline.

  Cancellation: if the fiber is cancelled while it waits for a stage, the stage is cancelled.

  Options:
    :timeout  how long to wait at most, a duration. Default :infinity
    :else     what to return when time runs out

  Example:

    (scope/join (.sendAsync client request handler))"
  ([x] (join x nil))
  ([x {:keys [timeout] :or {timeout :infinity} :as options}]
   (let [limit (limit "join" timeout options)]
     (cond
       (instance? Fork x) (if (.await ^Fork x limit) (.get ^Fork x) (not-joined x timeout options))
       (instance? CompletionStage x) (callbacks/await-stage x limit #(not-joined x timeout options))
       :else (arguments/misuse :magnetar/not-joinable (str "`join` wants a fork or a CompletionStage; this is " (arguments/show x) ".") {:value x})))))

(defn late-callbacks
  "Returns how many calls of callbacks of `await-callback` came too late.

  A call is late if the callback had been called before, or its time had run out."
  []
  (callbacks/late))

(defn await-callback
  "Calls f with two functions, resolve and reject, and waits until one is called.

  A second call is ignored and counted (`late-callbacks`).

  Returns what resolve was called with.

  Blocks until one of them is called, at most for :timeout.

  Throws what reject was called with, and a TimeoutException when time runs out and there is no :else.

  Options:
    :timeout  how long to wait at most, a duration. Default :infinity
    :else     what to return when time runs out

  Example:

    (scope/await-callback (fn [resolve reject] (.get client url (handler resolve reject))) {:timeout 500})"
  ([f] (await-callback f nil))
  ([f {:keys [timeout] :or {timeout :infinity} :as options}]
   (arguments/function "await-callback" f "(await-callback (fn [resolve reject] ..))")
   (callbacks/await-call f (limit "await-callback" timeout options)
                         #(timeouts/outcome options `await-callback f timeout [f options]))))

(defn ^:no-doc offload-on
  "Calls f on one of the threads of `pool`; see `offload`."
  [^Offload pool f]
  (let [frame (Var/cloneThreadBindingFrame)]
    (.run pool (^:once fn* []
                 (let [before (Var/getThreadBindingFrame)]
                   (Var/resetThreadBindingFrame frame)
                   (try
                     (f)
                     (finally (Var/resetThreadBindingFrame before))))))))

(defn offload
  "Calls f with args on a platform thread; returns its value.

  Use it for work that holds the carrier thread of a fiber: reading and writing files, native calls, long
  computations. At most 4 threads for each core, and at least 8, work at a time. The system
  property magnetar.offload.threads sets another number. The rest is queued, see `magnetar.inspect/offload`.

  f sees the context values and the dynamic bindings of the caller, and may fork in its scopes. Do not
  offload reads of sockets. On a platform thread they do not react to an interrupt, and a fiber waits for
  them at no cost.

  Blocks until f has ended; a fiber parks.

  Throws what f threw.

  Cancellation: cancelled or interrupted, it interrupts f and waits until f has ended.

  Example:

    (scope/offload slurp \"big.edn\")"
  [f & args]
  (arguments/function "offload" f "(offload slurp \"big.edn\")")
  (offload-on Offload/SHARED #(apply f args)))

(defn- check-stage [stage]
  (when-not (instance? CompletionStage stage)
    (arguments/misuse :magnetar/not-a-stage (str "`stage->chan` wants a CompletionStage; this is " (arguments/show stage) ".") {:value stage})))

(defn stage->chan
  "Returns a channel of the value of a CompletionStage, which closes after it.

  If the stage fails, the channel is closed for that cause."
  [stage]
  (check-stage stage)
  (callbacks/to-channel stage))

(defn chan->stage
  "Returns a CompletableFuture of the next value of a channel.

  The value is null if the channel is closed. If the future is cancelled before, it takes nothing.

  Example:

    (.thenAccept (scope/chan->stage answers) println)"
  ^CompletableFuture [ch]
  (when-not (ports/port? ch)
    (arguments/misuse :magnetar/not-a-channel (str "`chan->stage` wants a channel; this is " (arguments/show ch) ".") {:value ch}))
  (callbacks/to-stage ch))
