(ns magnetar.channel
  "Channels in our own words: the same objects as in magnetar.async, with time limits, and with closing for a cause.

  Prefer these functions in new code; prefer `magnetar.async` for code that is or may be core.async's, and for `go`, mults and pipelines.

  chan                     makes one
  put take select          wait; {:timeout ..} or {:deadline ..} limits the wait
  try-put try-take         never wait
  close closed? cause      end it, with a cause if something went wrong
  info                     what is in it and who waits
  channel? port?           is this one?

  A duration is a number of milliseconds, a java.time.Duration or :infinity; a deadline is a java.time.Instant. Closed is a value:
  `put` returns false, `take` nil. Time that runs out is an error, a magnetar.TimeoutException, or the value of :else. Once what is left was taken, `take` from a channel that was closed for a cause throws it.
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
  "A channel: without a :size each put meets a take.

  Options: :size, how many values it holds; :buffer, what happens when it is full: :fixed (a put waits, the default), :dropping
  (the newest is dropped), :sliding (the oldest is dropped); or :unbounded, or :promise (the first value, for every taker);
  :xform, a transducer that values pass on their way into the buffer; :on-error, a function of what that throws, whose value,
  unless nil, is put instead. Fails with an IllegalArgumentException on other values.

    (chan)  (chan {:size 10})  (chan {:size 1 :buffer :sliding})

  In core.async: chan, promise-chan. See also `put`, `take`."
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
    (if (some? deadline) (min relative (until deadline)) relative)))

(defn channel?
  "True if x is a channel of Magnetar, which is what the functions of this namespace want.

    (channel? (chan)) ;=> true

  See also `port?`."
  [x]
  (instance? Channel x))

(defn port?
  "True if x is a channel, or another port that `select` and the operations of magnetar.async accept.

  That is a port of the program's own, or a channel of core.async where that is on the class path. For code that takes a value or a channel:

    (if (port? x) (a/<! x) x)

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
        duration (if (and (some? deadline) (zero? (until deadline))) deadline timeout)]
    (timeouts/outcome options operation target duration args)))

(defn put
  "Puts value on ch: true, or false if ch is closed; waits while nobody takes it and there is no room.

  Options: :timeout, :deadline, and :else, what to return when time runs out. Throws a TimeoutException when it does and there is no
  :else; nothing was put then. Fails with an IllegalArgumentException for nil. Interrupted, it throws InterruptedException; cancelled,
  Cancelled; either way nothing was put.

    (put ch :job {:timeout 50 :else :full}) ;=> true, false if ch is closed, or :full after 50 ms

  In core.async: >!!"
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
  "Takes a value from ch, or nil if ch is closed and drained; waits while there is none.

  Options: :timeout, :deadline, and :else, what to return when time runs out; {:timeout 0 :else x} polls. Throws a TimeoutException when
  it does and there is no :else, and an ExceptionInfo if ch was closed for a cause and is drained. Interrupted, it throws InterruptedException; cancelled, Cancelled;
  either way nothing was taken.

    (take ch {:timeout 50 :else :late})

  In core.async: <!!"
  ([ch] (take ch nil))
  ([ch options]
   (transactions/refuse "take")
   (taken ch (.receiveWithin (channel ch "take") (within "take" options)) options)))

(def ^:private at-once {:timeout 0 :else nil})

(defn try-put
  "Puts value on ch if that is possible now: true, false if ch is closed, nil if it would wait.

  In core.async: offer!"
  [ch value]
  (put ch value at-once))

(defn try-take
  "Takes a value from ch if there is one now, else nil. Throws as `take` does.

  In core.async: poll!"
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
  "Does one of several operations and returns [value port]; waits while none can be done.

  clauses is a collection of channels to take from and of [channel value] to put. One of several that are ready is chosen at
  random, or the earlier one with {:priority true}. Options: :timeout, :deadline and :else. When time runs out none was done, and it
  returns [else nil], or throws a TimeoutException if there is no :else. Interrupted or cancelled, none was done.

    (select [in [out x]] {:timeout 50 :else :late})

  In core.async: alts!!. In Go: select."
  ([clauses] (select clauses nil))
  ([clauses options]
   (check-clauses clauses)
   (or (ports/alts-within clauses (:priority options) (within "select" options))
       [(timed-out `select [clauses options]) nil])))

(defn close
  "Closes ch; returns nil. With a cause, a Throwable or data, takers learn of it once what is left was taken.

  The first close counts. Puts that wait can still be taken.

    (close ch (ex-info \"feed lost\" {:feed 3}))

  In core.async: close!"
  ([ch] (close ch nil))
  ([ch cause] (.close (channel ch "close") cause)))

(defn closed?
  "True once ch is closed, though values may be left to take."
  [ch]
  (.isClosed (channel ch "closed?")))

(defn cause
  "What ch was closed for, or nil."
  [ch]
  (.cause (channel ch "cause")))

(defn- waiting [threads]
  (mapv (fn [^Thread t] (if t (.getName t) "callback")) threads))

(defn info
  "The state of ch now: {:closed? :cause :count :capacity :takers :putters}.

  :capacity is 0 without a buffer and nil for any number; :takers and :putters name the fibers that wait, longest first.

    (info (chan {:size 2})) ;=> {:closed? false, :cause nil, :count 0, :capacity 2, :takers [], :putters []}"
  [ch]
  (let [^ChannelInfo i (.info (channel ch "info"))
        capacity (.capacity i)]
    {:closed? (.closed i)
     :cause (.cause i)
     :count (.count i)
     :capacity (when-not (neg? capacity) capacity)
     :takers (waiting (.takers i))
     :putters (waiting (.putters i))}))
