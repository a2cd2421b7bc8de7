(ns magnetar.resilience
  "Calls and streams that withstand failures, slowness and overload.

  call             a function under one policy or several
  retry            again after a failure; exponential, constant: the pauses between
  timeout          for a limited time
  circuit-breaker  not at all while most calls fail
  rate-limiter     a limited number of calls in a time
  bulkhead         a limited number of calls at once
  hedge            a second time in parallel if the first call is slow

  throttle debounce batch window    channels from channels
  start-breaker-link start-breaker subscribe    a circuit breaker that is a server, with a name or a
  supervisor

  A policy is made by retry and its like. It is a function of a function without arguments: `(policy f)` calls
  f, or does not. A policy with a state shows it by deref: `@breaker`. It is printed without its state.

  Policies use the clock and the random numbers of the runtime environment, so in a simulation they follow
  from the seed. Every wait can be cancelled. Cancellation and interrupts are not failures, and are never
  retried or counted. The terms come from Failsafe and resilience4j, whose documentation says what each policy
  is for.

  Require it as `[magnetar.resilience :as r :refer [call]]`."
  (:require
   [magnetar.channel :as channel]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.breaker :as breaker]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.loading :as loading]
   [magnetar.impl.outcomes :as outcomes]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.resilience.limiter :as limiter]
   [magnetar.resilience.stages :as stages]
   [magnetar.scope :as scope])
  (:import
   (clojure.lang IDeref IFn IPending)
   (java.io Writer)
   (java.util.concurrent ExecutionException)
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

;; ---- options

(defn- policy
  "A policy whose state can be looked at. It is of a kind, and of a server or nil.

  It is printed without the state: a look at that asks the server, which may be suspended. So its :type says how it is printed, and it is pending,
  which keeps clojure.pprint from a look."
  [kind server run look]
  (with-meta (reify
               IFn
               (invoke [_ f] (run f))
               IDeref
               (deref [_] (look))
               IPending
               (isRealized [_] false))
    {:type ::policy ::kind kind ::server server}))

(defmethod print-method ::policy [policy ^Writer out]
  (let [{::keys [kind server]} (meta policy)]
    (.write out (str "#<" kind (when server (str " " (arguments/show server))) ">"))))

(defn- check-policy [policy]
  (when (or (not (ifn? policy)) (coll? policy) (ident? policy))
    (arguments/misuse :magnetar/not-a-policy
                      (str "`call` wants a policy, such as (retry), or several in a vector, before the function; this is "
                           (arguments/show policy) ".")
                      {:policy policy})))

;; Policies get functions that `call` has made. They know the program's own, for errors to name.
(defn- on-behalf [f run]
  (with-meta run {::target f}))

(defn- target [f]
  (::target (meta f) f))

(defn call
  "Calls f with args under a policy, or several, and returns what f returned.

  Several policies are in a vector; the first one is outermost.

  Throws what f or a policy throws.

  Example:

    (call [(r/retry {:max-attempts 3}) breaker (r/timeout 200)] fetch url)

  Failsafe: Failsafe.with(retry, breaker, timeout).get(..)."
  [policies f & args]
  (let [policies (if (sequential? policies) policies [policies])]
    (run! check-policy policies)
    (arguments/function "call" f "(call (retry) fetch url)")
    ((reduce (fn [run policy] (on-behalf f #(policy run)))
             (on-behalf f #(apply f args))
             (reverse policies)))))

;; ---- retry

(defn- jittered ^double [^double millis ^double jitter]
  (let [chance (/ (.random (Fiber/current) 1000001) 1000000.0)]
    (* millis (+ 1.0 (* jitter (- (* 2.0 chance) 1.0))))))

(defn- between ^double [what n low high]
  (if (and (number? n) (<= (double low) (double n) (double high)))
    (double n)
    (arguments/misuse :magnetar/bad-option
                      (str (arguments/subject what) " a number from " low (if (= ##Inf high) " up" (str " to " high)) "; this is " (arguments/show n) ".")
                      {what n})))

(defn constant
  "Returns a back-off that always pauses for the same duration, in milliseconds.

  A back-off is a function of the number of the attempt that failed, from 1 up.

  Example:

    (r/retry {:backoff (r/constant 100)})"
  [millis]
  (arguments/nanos :delay millis)
  (fn [_] millis))

(defn exponential
  "Returns a back-off whose pauses grow with each failure, with a random share.

  Options:
    :initial  the pause after the first failure, a duration. Default 100 ms
    :factor   how many times as long each further pause is. Default 2
    :max      the longest pause, a duration. Default 60000 ms
    :jitter   by which share each pause may be longer or shorter, from 0 to 1. Default 0.5

  Example:

    (r/retry {:backoff (r/exponential {:initial 50 :max 2000})})

  See also `constant`.

  resilience4j: IntervalFunction.ofExponentialRandomBackoff."
  ([] (exponential nil))
  ([options]
   (arguments/options "exponential" [:initial :factor :max :jitter] options)
   (let [{:keys [initial factor max jitter] :or {initial 100 factor 2 max 60000 jitter 0.5}} options
         initial (/ (arguments/period :initial initial) 1e6)
         limit (/ (arguments/period :max max) 1e6)
         factor (between :factor factor 1 ##Inf)
         jitter (between :jitter jitter 0 1)]
     (fn [attempt]
       (min limit
            (jittered (min limit (* initial (Math/pow factor (dec (long attempt))))) jitter))))))

(defn- gave-up [attempts error why]
  (ex-info (str "Gave up after " attempts (if (= 1 attempts) " attempt" " attempts") why ": " (or (ex-message error) (class error)))
           {:magnetar/reason :magnetar/retries-exhausted :attempts attempts}
           error))

(defn- too-late? [pause]
  (when-some [left (scope/time-left)]
    (<= (long left) (clock/millis (arguments/nanos :backoff pause)))))

(defn- attempt-once [f]
  (try {:value (f)} (catch Throwable e {:error e})))

(defn- verdict
  "What to do after an attempt: :return, :throw, or :retry."
  [{:keys [retry-on retry-if]} {:keys [value error]}]
  (cond
    (outcomes/cancellation? error) :throw
    error (if (breaker/judged retry-on error false) :retry :throw)
    (retry-if value) :retry
    :else :return))

(defn- last-attempt [attempts {:keys [value error]} why]
  (if error
    (throw (gave-up attempts error why))
    value))

(defn- carrying
  "The value of f; what it throws carries the error of the attempt."
  [{:keys [error]} f]
  (try
    (f)
    (catch Exception e
      (throw (cond-> e error (outcomes/suppress [error]))))))

(defn- pause-after
  "The pause after the attempt, nil if there shall be no other."
  [{:keys [^long max-attempts backoff]} ^long n]
  (when (< n max-attempts)
    (let [pause (backoff n)]
      (arguments/nanos :backoff pause)
      pause)))

(defn- retrying [{:keys [on-retry] :as how} f]
  (loop [n 1]
    (let [{:keys [value error] :as outcome} (attempt-once f)]
      (case (verdict how outcome)
        :return value
        :throw (throw error)
        :retry (let [pause (carrying outcome #(pause-after how n))]
                 (cond
                   (nil? pause) (last-attempt n outcome nil)
                   (too-late? pause) (last-attempt n outcome ", since the next one would come after the deadline")
                   :else (do (carrying outcome #(on-retry (assoc outcome :attempt n :pause pause)))
                             (scope/sleep pause)
                             (recur (inc n)))))))))

(defn retry
  "Returns a policy that calls again after a failure, with a pause before.

  The policy returns what the first successful attempt returned. An error that is not to be retried is thrown
  as it is.

  Throws an ExceptionInfo of :magnetar/retries-exhausted when all attempts have failed, with the last failure
  as its cause. It does so at once if the next attempt would begin after the deadline of the scope.

  Options:
    :max-attempts  how many attempts, the first one included. Default 3
    :backoff       a function of the number of the failed attempt, which returns a duration. Default
                   `(exponential)`
    :retry-on      which errors are failures: a class, a predicate or several. Default Exception
    :retry-if      which values are failures, a predicate. When attempts run out, the last value is returned.
                   Default: no value is a failure
    :on-retry      a function that is called before each pause with {:attempt n :error e :pause ms}, or with
                   :value

  Example:

    (call (r/retry {:max-attempts 5 :retry-on java.io.IOException}) fetch url)"
  ([] (retry nil))
  ([{:keys [max-attempts backoff retry-on retry-if on-retry] :as options}]
   (arguments/options "retry" [:max-attempts :backoff :retry-on :retry-if :on-retry] options)
   (let [how {:max-attempts (arguments/whole :max-attempts (or max-attempts 3))
              :backoff (or (arguments/option-function :backoff backoff "(constant 100)") (exponential))
              :retry-on (breaker/failing retry-on)
              :retry-if (or (arguments/option-function :retry-if retry-if "#{:busy}") (fn [_] false))
              :on-retry (or (arguments/option-function :on-retry on-retry "println") (fn [_]))}]
     (fn [f] (retrying how f)))))

;; ---- timeout

(defn- too-long [f duration]
  (timeouts/error (str "The call of " (arguments/show f) " did not end within " (clock/millis (arguments/nanos :timeout duration))
                       " ms, the time that `timeout` gives it. Give `timeout` a longer time, or shorten what the function waits for.")
                  `timeout f duration [duration] nil))

(defn timeout
  "Returns a policy that cancels a call after a duration.

  The call runs on the fiber of the caller. It ends when it has reacted to its cancellation, as any body of a
  scope. See `magnetar.scope/with-scope` for what does not react on a platform thread.

  Throws a magnetar.TimeoutException when the call has been cancelled for the time. Its :target is the
  function.

  Example:

    (call (r/timeout 200) fetch url)"
  [duration]
  (arguments/nanos :timeout duration)
  (fn [f]
    (let [site (str "timeout of " (pr-str duration))]
      (try
        (scope/scope* site {:deadline duration} (fn [_] (f)))
        (catch clojure.lang.ExceptionInfo e
          (throw (if (and (= :magnetar/deadline (:magnetar/reason (ex-data e))) (identical? site (:site (ex-data e))))
                   (too-long (target f) duration)
                   e)))))))

;; ---- circuit breaker

(defn- move
  "Swaps the breaker by f, tells of a change of its state, and returns the breaker.

  An exception of :on-state-change is reported, and the call goes on, so that it counts in the end."
  [breaker {:keys [on-state-change]} f]
  (let [[before after] (swap-vals! breaker f)]
    (when-not (= (:state before) (:state after))
      (try
        (on-state-change (:state before) (:state after))
        (catch Exception e (reports/report e))))
    after))

(defn- guarded [breaker {:keys [fail-on] :as how} f]
  (let [{:keys [pass? epoch] :as admitted} (move breaker how #(breaker/admit % how (clock/now)))]
    (when-not pass?
      (throw (breaker/refusal admitted how (clock/now))))
    (let [{:keys [value error]} (attempt-once f)
          good? (breaker/good? fail-on error)]
      (move breaker how #(breaker/record % how epoch good? (clock/now)))
      (if error (throw error) value))))

(defn- value-breaker [{:keys [on-state-change] :as options}]
  (arguments/options "circuit-breaker" [:failure-threshold :success-threshold :delay :fail-on :on-state-change] options)
  (let [how (assoc (breaker/options options)
                   :on-state-change (or (arguments/option-function :on-state-change on-state-change "println") (fn [_ _])))
        breaker (atom breaker/closed)]
    (policy "circuit-breaker" nil #(guarded breaker how %) #(breaker/look @breaker))))

;; A breaker that is a server is loaded when it is used: with it come the servers, which load as long as all the rest.
(defn- served [word]
  (loading/value (symbol "magnetar.resilience.breaker" word)))

(defn- served-breaker [server]
  (let [run (served "run")
        status (served "status")]
    (policy "circuit-breaker" server #(run server %) #(status server))))

(defn- check-unserved [options]
  (when (some #(contains? options %) [:name :probe])
    (arguments/misuse :magnetar/bad-option
                      "A circuit breaker with a :name or a :probe is a server: start it by `start-breaker-link`, and use it by its name or pid, as in (circuit-breaker :payments)."
                      {:options options})))

(defn circuit-breaker
  "Returns a policy that refuses calls while most of them fail.

  Closed, the breaker lets calls pass. When too many of the last calls failed, it opens and refuses calls.
  After a delay it is half-open and lets a few calls pass on trial. If the trials succeed it closes, and one
  failure opens it again. Share one breaker among all that call the same thing.

  A call that is cancelled does not count, so a `timeout` belongs inside the breaker.

  Given the name or pid of a breaker that `start-breaker-link` has started, the policy uses that breaker.

  Throws an ExceptionInfo of :magnetar/circuit-open for a refused call. Its :retry-after-ms says when to come
  back.

  Options:
    :failure-threshold  how many failures in a row open it. Default 5. [failures calls] means that many among
                        the last calls
    :success-threshold  how many trials have to succeed. Default 1
    :delay              how long it stays open, a duration. Default 30000 ms
    :fail-on            which errors are failures: a class, a predicate or several. Default Exception. Other
                        errors, such as a StackOverflowError, count as a success, also in a trial. Throwable
                        includes them
    :on-state-change    a function of the state before and after, called by the fiber that changed it

  Example:

    (def breaker (r/circuit-breaker {:failure-threshold [5 20] :delay 10000}))
    (call breaker fetch url)
    @breaker ;=> {:state :closed, :calls 1, :failures 0, :trials 0}
    (call (r/circuit-breaker :payments) charge card)

  See also `start-breaker-link`."
  ([] (circuit-breaker nil))
  ([options]
   (cond
     (or (ident? options) (vector? options) (instance? Pid options)) (served-breaker options)
     (map? options) (do (check-unserved options) (value-breaker options))
     :else (value-breaker options))))

(defn start-breaker-link
  "Starts a circuit breaker as a server, closed, linked to this process.

  `circuit-breaker` makes a policy of its name or pid. Calls run on the fibers of their callers. Such a
  breaker differs from a breaker that is a value in four points:

    1. It is half-open when its delay is over, and not at the next call.
    2. It may test with a probe.
    3. It tells its subscribers of changes.
    4. It gives the trial of a caller that has died to another caller.

  Returns [:ok pid].

  Options:
    :name   a keyword or symbol, [:global name], or [:via registry name]
    :probe  a function without arguments, called in a process of its own when the breaker is half-open, as
            often as :success-threshold says. A return is a success; an exception opens the breaker again.
            Calls are refused meanwhile, so the probe needs a time limit
    others  as in `circuit-breaker`, except :on-state-change

  Example:

    {:id :payments :start [r/start-breaker-link {:name :payments :delay 10000}]}

  See also `subscribe`."
  {:added "0.2"}
  [options]
  ((served "start-link") options))

(defn start-breaker
  "Starts a circuit breaker as a server, without a link.

  Like `start-breaker-link` in all else.

  Example:

    (r/start-breaker {:name :payments}) ;=> [:ok pid]"
  {:added "0.2"}
  [options]
  ((served "start") options))

(defn subscribe
  "Lets a breaker send this process a message at each change of its state.

  The breaker is the name or pid of one that `start-breaker-link` or `start-breaker` has started. The message
  is [:breaker name before after]. A restarted breaker does not know the subscribers: subscribe again.

  Returns :ok.

  Blocks until the breaker has answered.

  Example:

    (r/subscribe :payments)"
  {:added "0.2"}
  [breaker]
  ((served "subscribe") breaker))

;; ---- rate limiter

(defn rate-limiter
  "Returns a policy that lets a limited number of calls begin in a time.

  Other calls wait for their turn, in the order in which they came.

  Throws an ExceptionInfo of :magnetar/rate-limited at once for a call whose turn would come after its
  :timeout.

  Options:
    :rate     how many calls; required
    :per      in which time, a duration. Default 1000 ms
    :burst    how many calls may begin at once after a quiet time. Default 1. With 1 calls are evenly spaced,
              as far as timers of a millisecond allow
    :timeout  how long a call waits at most, a duration. Default :infinity. With 0 each call that would have
              to wait is refused

  Example:

    (def limiter (r/rate-limiter {:rate 10 :burst 5}))
    (call limiter fetch url)
    @limiter ;=> {:available 4, :wait-ms 0}"
  [options]
  (arguments/options "rate-limiter" [:rate :per :burst :timeout] options)
  (let [how (limiter/limits options)
        limiter (atom {:full-at nil})]
    (policy "rate-limiter" nil
      (fn [f] (limiter/acquire limiter how) (f))
      #(limiter/look @limiter how))))

;; ---- bulkhead

(defn- bulkhead-full [max]
  (ex-info (str "The bulkhead refused the call: " max (if (= 1 max) " call runs" " calls run") ", and none ended in time.")
           {:magnetar/reason :magnetar/bulkhead-full :max max}))

(defn bulkhead
  "Returns a policy that lets a limited number of calls run at once.

  Other calls wait, in the order in which they came. Where each call needs a process of its own that owns a
  resource, such as a socket, prefer `magnetar.pool`.

  Throws an ExceptionInfo of :magnetar/bulkhead-full for a call that has waited for its :timeout.

  Options:
    :max      how many calls; required
    :timeout  how long a call waits at most, a duration. Default :infinity. With 0 each call that would have
              to wait is refused

  Example:

    (def two (r/bulkhead {:max 2}))
    (call two fetch url)
    @two ;=> {:max 2, :running 0, :waiting 0}"
  [{:keys [max timeout] :or {timeout :infinity} :as options}]
  (arguments/options "bulkhead" [:max :timeout] options)
  (let [running (channel/chan {:size (arguments/whole :max max Integer/MAX_VALUE)})]
    (arguments/nanos :timeout timeout)
    (policy "bulkhead" nil
      (fn [f]
        (when-not (channel/put running true {:timeout timeout :else nil})
          (throw (bulkhead-full max)))
        (try
          (f)
          (finally (scope/shield (channel/try-take running)))))
      #(let [{:keys [count putters]} (channel/info running)]
         {:max max :running count :waiting (clojure.core/count putters)}))))

;; ---- hedge

(defn- ended-within? [fork after]
  (try
    (scope/join fork {:timeout after :else nil})
    (catch ExecutionException _)))

(def ^:private first-success
  "The joiner `any`, except that the error of the first call is thrown as it is."
  (assoc scope/any :result
    (fn [winner value failures]
      (if (or winner (empty? failures))
        ((:result scope/any) winner value failures)
        (throw (outcomes/suppress (:error (first failures)) (map :error (rest failures))))))))

(defn- hedged [after ^long max-calls f]
  (scope/scope* "hedge" {:joiner first-success}
    (fn [s]
      (loop [n 1]
        (let [fork (scope/fork-at (str "hedge, call " n) s f)]
          (when (< n max-calls)
            (ended-within? fork after)
            (recur (inc n))))))))

(defn hedge
  "Returns a policy that calls again, in parallel, if a call is slow or fails.

  The first success counts, and the other calls are cancelled. It is for calls that may happen twice.

  Throws what the first call threw if all fail, with the other errors suppressed. So a `retry` or a breaker
  around it sees the error itself.

  Options:
    :after      how long to wait before the next call, a duration; required
    :max-calls  how many calls, the first one included. Default 2

  Example:

    (call (r/hedge {:after 50}) fetch url)"
  [{:keys [after max-calls] :as options}]
  (arguments/options "hedge" [:after :max-calls] options)
  (when (nil? after)
    (arguments/misuse :magnetar/bad-option "`hedge` needs :after, the time to wait before the next call." {:options options}))
  (arguments/nanos :after after)
  (let [max-calls (arguments/whole :max-calls (or max-calls 2))]
    (fn [f] (hedged after max-calls f))))

;; ---- channels

(def ^:private stage-options [:scope :size])

(defn throttle
  "Returns a channel that passes on a limited number of values of ch in a time.

  The other values wait, and so do their senders. The channel closes when ch closes, for the same cause.

  Without :scope no scope owns the fiber behind the channel. It ends when ch is closed. After the channel was
  closed it ends with the next value that it takes from ch, which is lost.

  Options:
    :rate, :per, :burst  as in `rate-limiter`
    :scope               a scope that owns the fiber behind the channel, as a daemon
    :size                the size of the channel's buffer. Default 0

  Example:

    (r/throttle ch {:rate 100})"
  [ch options]
  (arguments/options "throttle" (into [:rate :per :burst] stage-options) options)
  (let [how (limiter/limits options)
        limiter (atom {:full-at nil})]
    (stages/start "throttle" ch options #(stages/throttle ch (fn [] (limiter/acquire limiter how)) %))))

(defn debounce
  "Returns a channel with the latest value of ch, once ch is silent for a time.

  Earlier values are dropped. The value that is left when ch closes comes at once.

  Options:
    :scope, :size  as in `throttle`

  Example:

    (r/debounce keystrokes 200)"
  ([ch silence] (debounce ch silence nil))
  ([ch silence options]
   (arguments/options "debounce" stage-options options)
   (arguments/nanos :silence silence)
   (stages/start "debounce" ch options #(stages/debounce ch silence %))))

(defn batch
  "Returns a channel of vectors with the values of ch, limited in size or in time.

  A vector is complete when it has :size values, or when :within is over, whichever comes first. The values
  that are left when ch closes come at once.

  Throws an IllegalArgumentException if there is neither :size nor :within.

  Options:
    :size    how many values a vector has at most
    :within  how long after its first value a vector is complete, a duration
    :scope   as in `throttle`

  Example:

    (r/batch rows {:size 500 :within 100})"
  [ch {:keys [size within] :as options}]
  (arguments/options "batch" [:size :within :scope] options)
  (when-not (or size within)
    (arguments/misuse :magnetar/bad-option "`batch` needs a :size or a time :within, or both." {:options options}))
  (let [size (if size (arguments/whole :size size) Long/MAX_VALUE)
        within (if (contains? options :within) (arguments/nanos :within within) clock/infinite)]
    (stages/start "batch" ch (select-keys options [:scope]) #(stages/batch ch size within %))))

(defn window
  "Returns a channel of vectors with the last values of ch, by number or by time.

  Windows follow each other, or slide and overlap:

    {:size 10}                 10 values each, no value twice; the values that are left when ch closes come
                               last
    {:size 10 :step 5}         the last 10 values, after each 5
    {:length 1000}             the values of each second, counted from the first value on; no vector for a
                               second without values
    {:length 1000 :every 100}  the values of the last second, each tenth of a second while there are any

  Options:
    :size, :step     numbers of values
    :length, :every  durations
    :scope           as in `throttle`

  Example:

    (r/window samples {:length 1000 :every 100})"
  [ch {:keys [size step length every] :as options}]
  (arguments/options "window" [:size :step :length :every :scope] options)
  (when-not (= 1 (count (filter some? [size length])))
    (arguments/misuse :magnetar/bad-option "`window` needs either a :size or a :length." {:options options}))
  (when (or (and size every) (and length step))
    (arguments/misuse :magnetar/bad-option "`window` takes :step with :size, and :every with :length." {:options options}))
  (let [owner (select-keys options [:scope])]
    (if size
      (let [size (arguments/whole :size size)
            step (arguments/whole :step (or step size))]
        (stages/start "window" ch owner #(stages/count-window ch size step %)))
      (let [length (arguments/period :length length)
            every (if every (arguments/period :every every) length)]
        (stages/start "window" ch owner #(stages/time-window ch length every %))))))
