(ns magnetar.channel
  "Makes, uses and closes channels, with time limits and causes.

  The channels are the same objects as in `magnetar.async`. Prefer these functions in new code. Prefer
  `magnetar.async` for code that is or may be core.async's, and for `go`, mults and pipelines.

  chan                     makes one
  put take select          wait; {:timeout ..} or {:deadline ..} limits the wait
  try-put try-take         never wait
  close closed? cause      end it, with a cause if something went wrong
  info                     how many values it holds, and the fibers that wait on it
  channel? port?           is this a channel, or a port?

  A duration is a number of milliseconds, a java.time.Duration or :infinity; a deadline is a
  java.time.Instant. A closed channel is not an error: `put` returns false, `take` nil. Time that runs out is
  an error, a magnetar.TimeoutException, or the value of :else. If a channel was closed for a cause, `take`
  throws it once the remaining values were taken.

  Require it with an alias: `[magnetar.channel :as channel]`."
  (:refer-clojure :exclude [take])
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.chans :as chans]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.impl.transactions :as transactions])
  (:import
   (java.time Duration Instant)
   (magnetar.kernel.channel Buffer Channel ChannelInfo)))

(set! *warn-on-reflection* true)

(def ^:private buffers
  {:fixed (fn [n] (Buffer/fixed n))
   :dropping (fn [n] (Buffer/dropping n))
   :sliding (fn [n] (Buffer/sliding n))
   :unbounded (fn [_] (Buffer/unbounded))
   :promise (fn [_] (Buffer/promise))})

(defn- buffer-of [{:keys [buffer size] :or {buffer :fixed} :as options}]
  (let [make (or (buffers buffer)
                 (arguments/misuse :magnetar/unknown-buffer
                   (str "A channel's :buffer is one of " (sort (keys buffers)) "; this is " (arguments/show buffer) ".") options))]
    (cond
      (and size (#{:unbounded :promise} buffer))
      (arguments/misuse :magnetar/bad-size (str "A channel with :buffer " buffer " takes no :size; this gives " (arguments/show size) ".") options)
      (#{:unbounded :promise} buffer) (make nil)
      (and (pos-int? size) (<= (long size) Integer/MAX_VALUE)) (make size)
      (and (nil? size) (= :fixed buffer)) nil
      :else (arguments/misuse :magnetar/bad-size
              (str "A channel's :size is a whole number from 1 " (if (pos-int? size) "to 2147483647" "up") "; this is " (arguments/show size) ".") options))))

(defn chan
  "Returns a new channel; without a :size each put meets a take.

  Throws an IllegalArgumentException for other options or values.

  Options:
    :size      how many values the channel holds, from 1 up
    :buffer    what happens when it is full: :fixed (a put waits), :dropping (the newest value is dropped) or
               :sliding (the oldest is dropped). Two kinds take no :size: :unbounded, and :promise, whose
               first value is for every taker. Default :fixed
    :xform     a transducer that values pass on their way into the buffer
    :on-error  a function of what :xform throws; its value, unless nil, is put instead

  Examples:

    (channel/chan)
    (channel/chan {:size 10})
    (channel/chan {:size 1 :buffer :sliding})

  See also `put`, `take`.

  core.async: chan, promise-chan."
  ([] (chan {}))
  ([options]
   (arguments/options "chan" #{:size :buffer :xform :on-error} options)
   (let [{:keys [xform on-error]} options
         buffer (buffer-of options)]
     (when (and xform (nil? buffer))
       (arguments/misuse :magnetar/no-buffer "A channel with an :xform needs a :size, since a value may become many." options))
     (chans/chan buffer xform on-error))))

(defn- until ^long [deadline]
  (if (instance? Instant deadline)
    (let [left (Duration/between (Instant/now) deadline)]
      (if (.isNegative left) 0 (clock/nanos left)))
    (arguments/misuse :magnetar/bad-deadline
      (str "A :deadline is a java.time.Instant; this is " (arguments/show deadline) ". For a duration use :timeout.")
      {:deadline deadline})))

(defn- within
  "How many nanoseconds `operation` may wait."
  ^long [operation options]
  (arguments/options operation #{:timeout :deadline :else :priority} options)
  (let [{:keys [timeout deadline] :or {timeout :infinity}} options
        relative (arguments/nanos :timeout timeout)]
    (if (contains? options :deadline) (min relative (until deadline)) relative)))

(defn channel?
  "Returns true if x is a channel of Magnetar, as this namespace wants it.

  Example:

    (channel/channel? (channel/chan)) ;=> true

  See also `port?`."
  [x]
  (instance? Channel x))

(defn port?
  "Returns true if x is a channel, or another port that `select` accepts.

  That is a port of the program's own, or a channel of core.async where that is on the class path. The
  operations of `magnetar.async` accept the same. Use it where an argument may be a value or a channel.

  Example:

    (if (channel/port? x) (a/<! x) x)

  See also `channel?`."
  [x]
  (ports/port? x))

(defn- channel ^Channel [x operation]
  (if (instance? Channel x)
    x
    (arguments/misuse :magnetar/not-a-channel
      (str "`" operation "` wants a channel of Magnetar; this is " (arguments/show x)
           (when (some? x) (str " of " (.getName (class x)))) ". Make one with magnetar.channel/chan.")
      {:operation operation :value x})))

(defn- refuse-nil [ch value]
  (when (nil? value)
    (arguments/misuse :magnetar/nil-value "nil cannot be put on a channel, since it means closed: put a keyword instead." {:channel ch})))

(defn- timed-out
  "The outcome of an operation whose time is over; its arguments begin with the target, and end with the options."
  [operation [target :as args]]
  (let [{:keys [timeout deadline] :as options} (peek args)
        duration (if (and deadline (zero? (until deadline))) deadline timeout)]
    (timeouts/outcome options operation target duration args)))

(defn put
  "Puts a value on a channel.

  Returns true, or false if ch is closed.

  Blocks while there is neither a taker nor room, at most for :timeout.

  Throws a TimeoutException when time runs out and there is no :else; nothing was put then. Throws an
  IllegalArgumentException for nil.

  Cancellation: interrupted, it throws InterruptedException; cancelled, Cancelled. Either way nothing was
  put.

  Options:
    :timeout   how long to wait at most, a duration. Default :infinity
    :deadline  until when to wait at most, an Instant
    :else      what to return when time runs out

  Example:

    (channel/put ch :job {:timeout 50 :else :full}) ;=> true ; false if ch is closed, :full after 50 ms

  See also `try-put`, `take`.

  core.async: >!!."
  ([ch value] (put ch value nil))
  ([ch value options]
   (transactions/refuse "put")
   (refuse-nil ch value)
   (let [answer (.sendWithin (channel ch "put") value (within "put" options))]
     (if (ports/pending? answer)
       (timed-out `put [ch value options])
       answer))))

(defn- closed-for
  "Nil, the answer of a closed channel; throws if it was closed for a cause."
  [^Channel ch]
  (when-some [cause (.cause ch)]
    (throw (ex-info (str "The channel was closed for a cause: " (if (instance? Throwable cause) (ex-message cause) (arguments/show cause)))
                    {:magnetar/reason :magnetar/closed-for-cause :cause cause}
                    (when (instance? Throwable cause) cause)))))

(defn- taken [ch answer options]
  (cond
    (ports/pending? answer) (timed-out `take [ch options])
    (nil? answer) (closed-for ch)
    :else answer))

(defn take
  "Takes a value from a channel.

  Returns the value, or nil once ch is closed and drained.

  Blocks until there is a value, at most for :timeout.

  Throws a TimeoutException when time runs out and there is no :else. Throws an ExceptionInfo if ch was
  closed for a cause and is drained.

  Cancellation: interrupted, it throws InterruptedException; cancelled, Cancelled. Either way nothing was
  taken.

  Options:
    :timeout   how long to wait at most, a duration. Default :infinity
    :deadline  until when to wait at most, an Instant
    :else      what to return when time runs out; {:timeout 0 :else x} polls

  Example:

    (channel/take ch {:timeout 50 :else :late})

  See also `try-take`, `select`.

  core.async: <!!."
  ([ch] (take ch nil))
  ([ch options]
   (transactions/refuse "take")
   (taken ch (.receiveWithin (channel ch "take") (within "take" options)) options)))

(def ^:private at-once {:timeout 0 :else nil})

(defn try-put
  "Puts a value on a channel if that is possible now.

  Returns true, false if ch is closed, or nil if it would wait.

  Never waits.

  core.async: offer!."
  [ch value]
  (put ch value at-once))

(defn try-take
  "Takes a value from a channel if there is one now, else returns nil.

  Never waits.

  Throws as `take` does.

  core.async: poll!."
  [ch]
  (take ch at-once))

(defn- check-clause [clause]
  (let [[ch value] (if (vector? clause) clause [clause])]
    (when-not (and (ports/port? ch) (or (not (vector? clause)) (= 2 (count clause))))
      (arguments/misuse :magnetar/not-a-channel
        (str "`select` wants channels and [channel value] pairs; this is " (arguments/show clause) ".") {:clause clause}))
    (when (vector? clause) (refuse-nil ch value))))

(defn- check-clauses [clauses]
  (when-not (coll? clauses)
    (arguments/misuse :magnetar/no-clauses
                      (str "`select` wants a collection of channels and [channel value] pairs, as in (select [in [out x]]); this is "
                           (arguments/show clauses) ".")
                      {:clauses clauses}))
  (when (empty? clauses)
    (arguments/misuse :magnetar/no-clauses "`select` needs at least one channel or [channel value] pair." {:clauses clauses}))
  (run! check-clause clauses))

(defn select
  "Does one of several operations and returns [value port].

  clauses is a collection of channels to take from and of [channel value] pairs to put. If several are ready,
  one is chosen at random.

  Returns [value port]: the value taken, or true or false for a put. When time runs out no operation was
  done, and it returns [else nil].

  Blocks until one operation can be done, at most for :timeout.

  Throws a TimeoutException when time runs out and there is no :else.

  Cancellation: interrupted or cancelled, it throws, and no operation was done.

  Options:
    :priority  true to choose the first one in `clauses` that is ready
    :timeout   how long to wait at most, a duration. Default :infinity
    :deadline  until when to wait at most, an Instant
    :else      the value to return when time runs out

  Example:

    (channel/select [in [out x]] {:timeout 50 :else :late})

  core.async: alts!!. Go: select."
  ([clauses] (select clauses nil))
  ([clauses options]
   (check-clauses clauses)
   (or (ports/alts-within clauses (:priority options) (within "select" options))
       [(timed-out `select [clauses options]) nil])))

(defn close
  "Closes a channel, or closes it for a cause; returns nil.

  The cause is a Throwable or data. Takers learn of it once the remaining values were taken. Puts that wait
  can still be taken. Only the first close counts.

  Never waits.

  Example:

    (channel/close ch (ex-info \"feed lost\" {:feed 3}))

  core.async: close!."
  ([ch] (close ch nil))
  ([ch cause] (.close (channel ch "close") cause)))

(defn closed?
  "Returns true once a channel is closed, though values may be left to take."
  [ch]
  (.isClosed (channel ch "closed?")))

(defn cause
  "Returns what a channel was closed for, or nil."
  [ch]
  (.cause (channel ch "cause")))

(defn- waiting [threads]
  (mapv (fn [^Thread t] (if t (.getName t) "callback")) threads))

(defn info
  "Returns the state of a channel now, a map.

  Its keys are :closed? :cause :count :capacity :takers :putters. :capacity is 0 without a buffer, and nil
  for any number. :takers and :putters are the names of the fibers that wait, longest first.

  Example:

    (channel/info (channel/chan {:size 2})) ;=> {:closed? false, :cause nil, :count 0, :capacity 2, :takers [], :putters []}"
  [ch]
  (let [^ChannelInfo i (.info (channel ch "info"))
        capacity (.capacity i)]
    {:closed? (.closed i)
     :cause (.cause i)
     :count (.count i)
     :capacity (when-not (neg? capacity) capacity)
     :takers (waiting (.takers i))
     :putters (waiting (.putters i))}))
