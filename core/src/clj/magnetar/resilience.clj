(ns magnetar.resilience
  "Calls and streams that stand failures, slowness and too much of everything.

  call             a function under one policy or several
  retry            again after a failure; exponential, constant: the pauses between
  timeout          so long at most
  circuit-breaker  not at all while most calls fail
  rate-limiter     so many in a time
  bulkhead         so many at once
  hedge            a second time in parallel if the first is slow

  throttle debounce batch window    channels from channels
  start-breaker-link start-breaker subscribe    a circuit breaker that is a server, with a name or a supervisor

  A policy is a function of a function without arguments, as retry and its like make it: `(policy f)` calls f, or does not. Those with a
  state show it: `@breaker`. Time is the clock of the fiber's world, chance its random numbers. Every wait can be cancelled; cancellation and
  interrupts are no failures, and are never retried or counted. Learn from Failsafe and resilience4j what each is for; their words are used here."
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
   (clojure.lang IDeref IFn)
   (java.util.concurrent ExecutionException)
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

;; ---- options

(defn- policy
  "A policy whose state can be looked at."
  [run look]
  (reify
    IFn
    (invoke [_ f] (run f))
    IDeref
    (deref [_] (look))))

(defn- check-policy [policy]
  (when (or (not (ifn? policy)) (coll? policy) (ident? policy))
    (arguments/misuse :magnetar/not-a-policy
                      (str "`call` wants a policy, such as (retry), or several in a vector, before the function; this is "
                           (arguments/show policy) ".")
                      {:policy policy})))

(defn call
  "Calls f with args under a policy, or under several, the first one outermost; returns what f returned.

    (call [(retry {:max-attempts 3}) breaker (timeout 200)] fetch url)

  In Failsafe: Failsafe.with(retry, breaker, timeout).get(..)"
  [policies f & args]
  (let [policies (if (sequential? policies) policies [policies])]
    (run! check-policy policies)
    (arguments/function "call" f "(call (retry) fetch url)")
    ((reduce (fn [f policy] (fn [] (policy f)))
             (fn [] (apply f args))
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
  "A back-off that always pauses for the same milliseconds. A back-off is a function of the number of the attempt that failed, from 1 up.

    (retry {:backoff (constant 100)})"
  [millis]
  (arguments/nanos :delay millis)
  (fn [_] millis))

(defn exponential
  "A back-off that grows: :initial ms (100) after the first failure, :factor (2) times as long after each further one, :max ms (60000) at
  most, and each pause longer or shorter by chance, by up to the share :jitter (0.5).

    (retry {:backoff (exponential {:initial 50 :max 2000})})

  In resilience4j: IntervalFunction.ofExponentialRandomBackoff"
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
  (when-some [left (scope/deadline)]
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
  "A policy that calls again after a failure, with a pause before; returns what the first good attempt returned.

  When attempts run out it throws an ExceptionInfo of :magnetar/retries-exhausted, with the last failure as its cause; it does so at once if the next
  attempt would begin after the deadline of the scope. An error that is not to be retried is thrown as it is. Options:

    :max-attempts  3, the first one counted
    :backoff       a function of the number of the failed attempt to a duration; `(exponential)`
    :retry-on      which errors are failures: a class, a predicate or several; Exception
    :retry-if      which values are failures, a predicate; none. The last value is returned in the end
    :on-retry      a function of {:attempt n :error e :pause ms}, or with :value, called before each pause

    (call (retry {:max-attempts 5 :retry-on java.io.IOException}) fetch url)"
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

(defn timeout
  "A policy that gives a call so long at most, then cancels it and throws a magnetar.TimeoutException.

  The call runs on the fiber of the caller; it is over when it has reacted to its cancellation, as any body of a scope (see `with-scope` for
  what does not react on a platform thread).

    (call (timeout 200) fetch url)"
  [duration]
  (arguments/nanos :timeout duration)
  (fn [f]
    (let [site (str "timeout of " (pr-str duration))]
      (try
        (scope/scope* site {:deadline duration} (fn [_] (f)))
        (catch clojure.lang.ExceptionInfo e
          (throw (if (and (= :magnetar/deadline (:magnetar/reason (ex-data e))) (identical? site (:site (ex-data e))))
                   (timeouts/error (str "The call did not end within its time-out, " (clock/millis (arguments/nanos :timeout duration)) " ms.")
                                   `timeout f duration [duration] nil)
                   e)))))))

;; ---- circuit breaker

(defn- move
  "Swaps the breaker by f and tells of a change of its state; returns the breaker then. What telling throws is reported: the call goes on,
  so that it counts in the end."
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
      (move breaker how #(breaker/settle % how epoch good? (clock/now)))
      (if error (throw error) value))))

(defn- value-breaker [{:keys [on-state-change] :as options}]
  (arguments/options "circuit-breaker" [:failure-threshold :success-threshold :delay :fail-on :on-state-change] options)
  (let [how (assoc (breaker/options options)
                   :on-state-change (or (arguments/option-function :on-state-change on-state-change "println") (fn [_ _])))
        breaker (atom breaker/closed)]
    (policy #(guarded breaker how %) #(breaker/look @breaker))))

;; A breaker that is a server is loaded when it is used: with it come the servers, which load as long as all the rest.
(defn- served [word]
  (loading/value (symbol "magnetar.resilience.breaker" word)))

(defn- served-breaker [server]
  (let [run (served "run")
        status (served "status")]
    (policy #(run server %) #(status server))))

(defn- check-unserved [options]
  (when (some #(contains? options %) [:name :probe])
    (arguments/misuse :magnetar/bad-option
                      "A circuit breaker with a :name or a :probe is a server: start it by `start-breaker-link`, and use it by its name or pid, as in (circuit-breaker :payments)."
                      {:options options})))

(defn circuit-breaker
  "A policy that refuses calls while most fail, with an ExceptionInfo of :magnetar/circuit-open that says when to come back.

  Closed, it lets calls pass; when too many of the last ones failed it opens and refuses; after a delay it is half-open and lets a few pass on trial:
  they close it, or one failure opens it again. A call that is cancelled counts for nothing, so a `timeout` belongs
  inside the breaker. `@breaker` ;=> {:state :closed, :calls 7, :failures 1, :trials 0}. Share one among all that
  call the same thing. Given the name or pid of a breaker that `start-breaker-link` has started, it is the policy of that one. Options:

    :failure-threshold  5 in a row; [failures calls] for so many among the last calls
    :success-threshold  1, the trials that have to succeed
    :delay              30000, how long it stays open
    :fail-on            which errors are failures: a class, a predicate or several; Exception. Others, such as a StackOverflowError, count
                        as a success, also in a trial: for those too it is Throwable
    :on-state-change    a function of the state before and after, called by the fiber that changed it

    (def breaker (circuit-breaker {:failure-threshold [5 20] :delay 10000}))
    (call breaker fetch url)
    (call (circuit-breaker :payments) charge card)"
  ([] (circuit-breaker nil))
  ([options]
   (cond
     (or (ident? options) (vector? options) (instance? Pid options)) (served-breaker options)
     (map? options) (do (check-unserved options) (value-breaker options))
     :else (value-breaker options))))

(defn start-breaker-link
  "Starts a circuit breaker as a server, closed, linked to this process: [:ok pid]. For children of a supervisor.

  `circuit-breaker` makes a policy of its name or pid. Against a breaker that is a value, it is half-open at its time, and not at the next call; it may
  try with a probe; it tells its subscribers of changes; and the trial of a caller that has died is given to another. Calls run on the fibers of their
  callers. Options: those of `circuit-breaker` except :on-state-change, and:

    :name   a keyword or symbol, [:global name], or [:via registry name]
    :probe  a function without arguments that is called, in a process of its own, when the breaker is half-open, as often as :success-threshold says.
            A return is a success; if it throws, the breaker is open again. Calls are refused meanwhile, so give it a bound

    {:id :payments :start [start-breaker-link {:name :payments :delay 10000}]}"
  [options]
  ((served "start-link") options))

(defn start-breaker
  "Like `start-breaker-link`, without a link.

    (start-breaker {:name :payments}) ;=> [:ok pid]"
  [options]
  ((served "start") options))

(defn subscribe
  "Lets the breaker with the name or pid send this process [:breaker name before after] at each change of its state; returns :ok.

  The breaker was started by `start-breaker-link` or `start-breaker`. One that is started in its place does not know the subscribers: subscribe again.

    (subscribe :payments)"
  [breaker]
  ((served "subscribe") breaker))

;; ---- rate limiter

(defn rate-limiter
  "A policy that lets so many calls begin in a time, and makes others wait for their turn, in the order in which they came.

  `@limiter` ;=> {:available 2, :wait-ms 0}. Options:

    :rate     how many calls (there is no default)
    :per      in which time; 1000
    :burst    how many may begin at once after a quiet time; 1, so that calls are evenly spaced, as far as timers of a millisecond can
    :timeout  how long a call waits at most; :infinity. One whose turn would come later is refused at once with an ExceptionInfo of
              :magnetar/rate-limited, and 0 refuses whoever would wait

    (def limiter (rate-limiter {:rate 10 :burst 5}))
    (call limiter fetch url)"
  [options]
  (arguments/options "rate-limiter" [:rate :per :burst :timeout] options)
  (let [how (limiter/limits options)
        limiter (atom {:full-at nil})]
    (policy (fn [f] (limiter/acquire limiter how) (f))
      #(limiter/look @limiter how))))

;; ---- bulkhead

(defn- bulkhead-full [max]
  (ex-info (str "The bulkhead refused the call: " max (if (= 1 max) " call runs" " calls run") ", and none ended in time.")
           {:magnetar/reason :magnetar/bulkhead-full :max max}))

(defn bulkhead
  "A policy that lets so many calls run at once, and makes others wait, in the order in which they came.

  `@bulkhead` ;=> {:max 2, :running 1, :waiting 0}. Options: :max, the number of calls, without default, and :timeout, how long one waits at most
  before it is refused with an ExceptionInfo of :magnetar/bulkhead-full; :infinity, and 0 refuses whoever would wait. Where each call needs one of a
  few things with a state, such as a connection, prefer `magnetar.pool`.

    (def two (bulkhead {:max 2}))
    (call two fetch url)"
  [{:keys [max timeout] :or {timeout :infinity} :as options}]
  (arguments/options "bulkhead" [:max :timeout] options)
  (let [running (channel/chan {:size (arguments/whole :max max Integer/MAX_VALUE)})]
    (arguments/nanos :timeout timeout)
    (policy (fn [f]
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
  "The joiner `any`, but that what the first call threw is thrown as it is."
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
  "A policy that calls a second time, in parallel, if the first call has not ended in time or has failed: the first success counts, the
  others are cancelled. If all fail, what the first one threw is thrown as it is, the others suppressed, so that a `retry` or a breaker
  around it sees it. For calls that may happen twice. Options:

    :after      how long to wait before the next call (there is no default)
    :max-calls  2, all together

    (call (hedge {:after 50}) fetch url)"
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
  "A channel of the values of ch, of which so many pass in a time; the others wait, and so do those who put them. Options: those of
  `rate-limiter` but :timeout, and:

    :scope  a scope that owns the fiber behind the channel, as a daemon; else nobody does, and it ends when ch is closed, or with the
            first value that it takes from ch after the channel was closed, which is lost
    :size   the size of the channel's buffer; 0

  It closes when ch is closed, for the same cause.

    (throttle ch {:rate 100})"
  [ch options]
  (arguments/options "throttle" (into [:rate :per :burst] stage-options) options)
  (let [how (limiter/limits options)
        limiter (atom {:full-at nil})]
    (stages/start "throttle" ch options #(stages/throttle ch (fn [] (limiter/acquire limiter how)) %))))

(defn debounce
  "A channel of the latest value of ch, once that has been silent for a duration; earlier ones are dropped. What is left when ch closes
  comes at once. Options: :scope and :size, see `throttle`.

    (debounce keystrokes 200)"
  ([ch silence] (debounce ch silence nil))
  ([ch silence options]
   (arguments/options "debounce" stage-options options)
   (arguments/nanos :silence silence)
   (stages/start "debounce" ch options #(stages/debounce ch silence %))))

(defn batch
  "A channel of vectors of the values of ch: of :size values, or of those that came :within a duration after the first one, whichever comes
  first. At least one of the two is needed. What is left when ch closes comes at once. Also :scope; see `throttle`.

    (batch rows {:size 500 :within 100})"
  [ch {:keys [size within] :as options}]
  (arguments/options "batch" [:size :within :scope] options)
  (when-not (or size within)
    (arguments/misuse :magnetar/bad-option "`batch` needs a :size or a time :within, or both." {:options options}))
  (let [size (if size (arguments/whole :size size) Long/MAX_VALUE)
        within (if (contains? options :within) (arguments/nanos :within within) clock/infinite)]
    (stages/start "batch" ch (select-keys options [:scope]) #(stages/batch ch size within %))))

(defn window
  "A channel of vectors of the last values of ch, which tumble, or slide and overlap. Either of a number or of a time:

    {:size 10}               10 values each, none twice; what is left when ch closes comes last
    {:size 10 :step 5}       the last 10 values, after each 5
    {:length 1000}           the values of each second, counted from the first value on; none where there are no values
    {:length 1000 :every 100}  the values of the last second, each tenth of a second while there are any

  Also :scope; see `throttle`.

    (window samples {:length 1000 :every 100})"
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
