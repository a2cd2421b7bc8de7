(ns magnetar.async
  "The 88 names of clojure.core.async, on virtual threads.

  Change the `require`, keep the program. Some things differ, and are better. `go` starts a fiber. So a body
  may block, call functions that take and put, lock, and be as large as any function. `<!` and `<!!` are one
  function; so are `>!` and `>!!`, `alts!` and `alts!!`. An interrupted operation leaves nothing behind. Code
  of the program that throws is reported and hangs nothing. docs/parity/core-async.md lists it all.

  Channels      chan promise-chan timeout buffer dropping-buffer sliding-buffer unblocking-buffer? close!
  Operations    <! >! <!! >!! alts! alts!! alt! alt!! take! put! poll! offer!
  Starting      go go-loop thread io-thread thread-call
  Plumbing      pipe pipeline pipeline-blocking pipeline-async split merge map take into reduce transduce
  onto-chan! to-chan!
  One to many   mult tap untap · pub sub unsub · many to one: mix admix toggle

  `magnetar.channel` has the same channels: prefer it in new code, for waits with a time limit and for
  closing with a cause.

  Its names shadow nine of clojure.core's: require it with an alias, `[magnetar.async :as a]`."
  (:refer-clojure :exclude [into map merge partition partition-by reduce take transduce])
  (:require
   [clojure.core :as core]
   [clojure.java.io :as io]
   [magnetar.impl.bodies :as bodies]
   [magnetar.impl.chans :as chans]
   [magnetar.impl.durable :refer [durable]]
   [magnetar.impl.fibers :as fibers :refer [background]]
   [magnetar.impl.mix :as mix]
   [magnetar.impl.mult :as mult]
   [magnetar.impl.pipeline :as pipeline]
   [magnetar.impl.plumbing :as plumbing]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.pub :as pub]
   [magnetar.impl.refusals :as refusals]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.transactions :as transactions])
  (:import
   (java.util.concurrent.atomic AtomicReferenceArray)
   (magnetar.kernel.channel Buffer Callback Handler Port Ports ReadPort WritePort)
   (magnetar.kernel.fiber Fiber)))

(set! *warn-on-reflection* true)

;; ---- channels

(defn buffer
  "Returns a buffer of n values; a put waits while it is full.

  A buffer belongs to one channel.

  Throws an AssertionError unless n is positive.

  Example:

    (a/chan (a/buffer 10))"
  [n]
  (chans/buffer n))

(defn dropping-buffer
  "Returns a buffer of n values that drops the newest when it is full.

  A put never waits and returns true.

  Example:

    (a/chan (a/dropping-buffer 10))"
  [n]
  (Buffer/dropping (min (long (refusals/number "dropping-buffer" n)) Integer/MAX_VALUE)))

(defn sliding-buffer
  "Returns a buffer of n values that drops the oldest when it is full.

  A put never waits and returns true.

  Example:

    (a/chan (a/sliding-buffer 1))   ; the latest value"
  [n]
  (Buffer/sliding (min (long (refusals/number "sliding-buffer" n)) Integer/MAX_VALUE)))

(defn unblocking-buffer?
  "Returns true if a put on a channel with this buffer never waits.

  Example:

    (a/unblocking-buffer? (a/sliding-buffer 1)) ;=> true"
  [buff]
  (chans/unblocking? buff))

(defn chan
  "Returns a channel; without a buffer each put meets a take.

  With a buffer, puts wait only while it is full. buf-or-n is a number or a buffer. xform is a transducer
  that each value passes on its way into the buffer, which it needs. ex-handler is called with what xform
  throws; its value, unless nil, is put instead. Without ex-handler the failure is reported, as a failure of
  a go block is, and the value is dropped. nil is not a value; false is. `clojure.datafy/datafy` shows the
  state.

  Example:

    (def c (a/chan 10 (comp (filter even?) (map inc))))"
  ([] (chan nil))
  ([buf-or-n] (chan buf-or-n nil))
  ([buf-or-n xform] (chan buf-or-n xform nil))
  ([buf-or-n xform ex-handler]
   (chans/of buf-or-n xform ex-handler)))

(defn promise-chan
  "Returns a channel that gives its first value to every taker, now and later.

  Later puts return true and are dropped. Takes wait until there is a value or the channel is closed, then
  give nil.

  Example:

    (let [p (a/promise-chan)] (a/>! p 1) [(a/<! p) (a/<! p)]) ;=> [1 1]"
  ([] (promise-chan nil))
  ([xform] (promise-chan xform nil))
  ([xform ex-handler] (chan (Buffer/promise) xform ex-handler)))

(def ^{:arglists '([msecs])} timeout
  "Returns a channel that closes after msecs milliseconds.

  It closes at once if msecs is not positive. It is the caller's own; core.async's may be shared with other
  callers. While no operation waits on it, it costs no timer.

  Throws an IllegalArgumentException for ##NaN and what a long cannot hold.

  Example:

    (a/alts! [c (a/timeout 100)])"
  plumbing/timeout-function)

(defn close!
  "Closes a channel; returns nil.

  Later puts return false. Values in the buffer and puts that wait can still be taken, in order; after them
  takes give nil. Takers that wait get nil at once. Closing again has no effect."
  [chan]
  (ports/close chan))

;; ---- operations

(defn <!!
  "Takes a value from port; returns nil once the port is closed and drained.

  It works in any function on any thread: a virtual thread parks, another blocks. `<!` is the same function.

  Blocks until there is a value.

  Cancellation: interrupted, it throws InterruptedException and has taken nothing.

  Example:

    (a/<!! (a/go 1)) ;=> 1"
  [port]
  (transactions/check "<!")
  (Ports/take port))

(defn >!!
  "Puts val on port; returns true, or false if the port is closed.

  It works in any function on any thread: a virtual thread parks, another blocks. `>!` is the same function.

  Blocks while there is neither a taker nor room.

  Throws an IllegalArgumentException for nil.

  Cancellation: interrupted, it throws InterruptedException and has put nothing.

  Example:

    (a/>!! (a/chan 1) :x) ;=> true"
  [port val]
  (transactions/check ">!")
  (Ports/put port val))

(def ^{:arglists '([port])} <!
  "Takes a value from port; returns nil once the port is closed and drained.

  It is the same function as `<!!`, and works in any function on any thread, also outside of `go`.

  Blocks until there is a value."
  <!!)

(def ^{:arglists '([port val])} >!
  "Puts val on port; returns true, or false if the port is closed.

  It is the same function as `>!!`, and works in any function on any thread, also outside of `go`.

  Blocks while there is neither a taker nor room."
  >!!)

(defn alts!!
  "Does the first of several operations that can be done; returns [val port].

  ports is a collection of ports to take from and of [port val] to put. If several are ready, one is chosen
  at random. The operations that were not chosen have no effect and leave nothing behind. `alts!` is the same
  function.

  Returns [val port]. val is the value taken (nil: closed), or true or false for a put.

  Blocks until one operation can be done.

  Throws an AssertionError without ports or with a nil to put.

  Cancellation: interrupted, it throws InterruptedException and none had an effect.

  Options:
    :priority  true: the earlier one is chosen
    :default   returns [x :default] for :default x if no operation is ready, instead of waiting

  Example:

    (a/alts!! [in [out x] (a/timeout 50)])
    (a/alts!! [in] :default :nothing)"
  {:arglists '([ports & opts])}
  ([ports] (ports/alts ports nil))
  ([ports & {:as opts}] (ports/alts ports opts)))

(def ^{:arglists '([ports & {:as opts}])} alts!
  "Does the first of several operations that can be done; returns [val port].

  It is the same function as `alts!!`, and works in any function on any thread, also outside of `go`.

  Blocks until one operation can be done."
  alts!!)

(defn- take-at-once [port fn1 on-caller?]
  (let [target (ports/completion fn1)
        value (ports/take-later port (Callback. target on-caller?))]
    (when-not (ports/pending? value)
      (if on-caller?
        (.call (Fiber/current) #(fn1 value))
        (Callback/run target value false)))
    nil))

(defn take!
  "Takes a value from port and calls fn1 with it, now or later; returns nil.

  fn1 gets nil once the port is closed. If there is a value now, fn1 is called before this returns: on this
  thread, or on a fiber of its own if on-caller? is false. Else it is called by the thread that puts the
  value, or on a fiber of its own. What it throws then is reported as the failure of a go block is. Chains of
  callbacks of any length are fine. In a dosync it is done at the commit, and fn1 runs on a fiber.

  Throws an AssertionError if the channel already holds 1024 callbacks on this side."
  ([port fn1] (take! port fn1 true))
  ([port fn1 on-caller?]
   (refusals/function "take!" fn1)
   (if (transactions/running?)
     (transactions/on-commit #(take-at-once port fn1 false))
     (take-at-once port fn1 (boolean on-caller?)))))

(defn- put-at-once [port val fn1 on-caller?]
  (let [target (ports/completion fn1)
        accepted? (ports/put-later port val (Callback. target on-caller?))]
    (cond
      (ports/pending? accepted?) true
      on-caller? (do (.call (Fiber/current) #(fn1 accepted?)) accepted?)
      :else (do (Callback/run target accepted? false) accepted?))))

(defn put!
  "Puts val on port now or later; returns true, or false if the port is closed.

  Then fn1, if given, is called with true, or with false if the port is closed. `take!` says where fn1 runs.
  In a dosync it is done at the commit, and the answer is true.

  Throws an IllegalArgumentException for nil, and an AssertionError beyond 1024 callbacks, as `take!` does."
  ([port val] (put! port val (fn [_])))
  ([port val fn1] (put! port val fn1 true))
  ([port val fn1 on-caller?]
   (refusals/function "put!" fn1)
   (if (transactions/running?)
     (do (ports/check-put port val)
         (transactions/on-commit #(put-at-once port val fn1 false))
         true)
     (put-at-once port val fn1 (boolean on-caller?)))))

(defn offer!
  "Puts val on port if that is possible now.

  Returns true, false if the port is closed, or nil if it would have to wait."
  [port val]
  (transactions/refuse "offer!")
  (let [answer (ports/offer port val)]
    (when-not (ports/pending? answer) answer)))

(defn poll!
  "Takes a value from port if there is one now, else returns nil."
  [port]
  (transactions/refuse "poll!")
  (let [answer (ports/poll port)]
    (when-not (ports/pending? answer) answer)))

;; ---- alt

(defn- bind-port
  "Binds the expressions of a port to names, so that each is evaluated once: [port-form bindings]."
  [port]
  (let [p (gensym "port") v (gensym "val")]
    (if (vector? port)
      [[p v] [p (first port) v (second port)]]
      [p [p port]])))

(defn- bind-clause [[ports expr]]
  (let [bound (core/map bind-port (if (vector? ports) ports [ports]))]
    {:ports (mapv first bound)
     :bindings (core/into [] (mapcat second) bound)
     :expr expr}))

(defn- clause-test [chosen {:keys [ports]}]
  `(or ~@(core/map (fn [port] `(= ~chosen ~(if (vector? port) (first port) port))) ports)))

(defn- clause-result [result {:keys [expr]}]
  (if (and (seq? expr) (vector? (first expr)))
    `(let [~(first expr) ~result] ~@(rest expr))
    expr))

(defn ^:no-doc do-alt
  "Returns the form that `alt!` and `alt!!` expand to.

  `alts` is the symbol of the function that waits. For writers of macros."
  [alts clauses]
  (assert (even? (count clauses)) "unbalanced clauses")
  (let [pairs (core/partition 2 clauses)
        option? (comp keyword? first)
        clauses (mapv bind-clause (remove option? pairs))
        chosen (gensym "port")
        result (gensym "result")]
    `(let [~@(mapcat :bindings clauses)
           [value# ~chosen :as ~result] (~alts [~@(mapcat :ports clauses)] ~@(apply concat (filter option? pairs)))]
       (cond
         ~@(mapcat (juxt #(clause-test chosen %) #(clause-result result %)) clauses)
         (= ~chosen :default) value#))))

(defmacro alt!!
  "Does an operation as `alts!!` does; returns the value of the form beside it.

  See also `alt!`."
  [& clauses]
  (do-alt `alts!! clauses))

(defmacro alt!
  "Does an operation as `alts!` does; returns the value of the form beside it.

  A clause is a port to take from, or a vector of ports and [port val] pairs, then a form. A list that begins
  with a vector binds it to [val port]. :default x and :priority true are as in `alts!`.

  Example:

    (a/alt!
      [c t]         ([val port] (handle val port))
      [[out \"x\"]] :written
      :default      :nothing)"
  [& clauses]
  (do-alt `alts! clauses))

(defn ^:no-doc do-alts
  "Does one of the operations now and returns a reference to [val port], or calls fret with it later and returns nil.

  fret runs on the thread that completes the operation if its metadata has :on-caller?, else on a fiber. opts is a map as in
  `alts!`. For writers of ports."
  [fret ports opts]
  (ports/alts-later fret ports opts (boolean (:on-caller? (meta fret)))))

(defn ^:no-doc fn-handler
  "A handler that takes part in one operation and yields f, the function of its result; blockable says whether it may be queued.
  For writers of ports."
  ([f] (fn-handler f true))
  ([f blockable]
   (let [completion (ports/completion f)]
     (reify Handler
       (active [_] true)
       (blockable [_] blockable)
       (lockId [_] 0)
       (commit [_] completion)
       (lock [_])
       (unlock [_])))))

(defn ^:no-doc ioc-alts!
  "Does one of the operations for a go block that was compiled with core.async's own `go`, and lets it go on at cont-block.

  Only such code calls it, which the module magnetar-core-async runs.

  Throws an UnsupportedOperationException if state does not belong to such a block: call `alts!`."
  [state cont-block ports & {:as opts}]
  (when-not (instance? AtomicReferenceArray state)
    (throw (UnsupportedOperationException.
             "ioc-alts! resumes a go block that was rewritten by core.async; go blocks of magnetar.async are fibers. Call alts! instead.")))
  (doto ^AtomicReferenceArray state
    (.set 2 (ports/alts ports opts))
    (.set 1 cont-block))
  :recur)

(defmacro ^:no-doc defblockingop
  "Defines the function op with a docstring; kept for macros of others that use it."
  [op doc arglist & body]
  `(defn ~op ~doc ~arglist ~@body))

;; ---- starting

(defmacro go
  "Starts body on a fiber; returns a channel that gives its value, then closes.

  The fiber is a virtual thread named after this line. The body may do what any code may: block, call
  functions that take and put, hold locks. If its value is nil the channel just closes. If it throws, the
  channel closes and the failure is reported once, with this line (`magnetar.report`). It sees the dynamic
  bindings of the caller. Closing the channel does not stop it. A fiber that waits only on channels which no
  code can reach any more is collected with them.

  Prefer `magnetar.scope/go` where the work has an owner, which waits for it, learns of its failure and may
  cancel it.

  Example:

    (a/<! (a/go (+ 1 (a/<! (a/go 1))))) ;=> 2"
  [& body]
  `(background ~(fibers/site "go" &form) ~@(bodies/all &env body)))

(defmacro go-loop
  "Starts a loop on a fiber, like (go (loop bindings ..body)).

  Example:

    (a/go-loop [n 0] (if (a/<! in) (recur (inc n)) n))"
  [bindings & body]
  `(background ~(fibers/site "go-loop" &form) ~@(bodies/all &env [`(loop ~bindings ~@body)])))

(def ^{:arglists '([f] [f workload])} thread-call
  "Calls f on another thread; returns a channel that gives its value, then closes.

  workload is :mixed (the default) or :compute, on platform threads, or :io, on a fiber. f sees a copy of the
  caller's dynamic bindings, which `set!` changes. If f throws, the channel closes and the
  failure is reported, with the line of the caller.

  A `with-redefs` of it reaches every `thread` and `io-thread`."
  (fibers/with-site plumbing/start-thread
    (fn
      ([f] (thread-call f :mixed))
      ([f workload] (plumbing/start-thread (fibers/site-here "thread-call" f) f workload)))))

(defmacro thread
  "Runs body on a platform thread; returns a channel of its value.

  The channel closes after the value. It serves code that computes at length or blocks in native code: it
  does not keep fibers from running.

  See also `thread-call`, the function: `with-redefs` of it reaches every call."
  [& body]
  (fibers/starting &form `thread-call "thread" `[(^:once fn* [] ~@body) :mixed]))

(defmacro io-thread
  "Runs body on a fiber; returns a channel that gives its value, then closes.

  The fiber lives until it ends, reachable or not. `set!` works on conveyed bindings, as in `thread`.

  See also `thread-call`, the function: `with-redefs` of it reaches every call."
  [& body]
  (fibers/starting &form `thread-call "io-thread" `[(^:once fn* [] ~@body) :io]))

;; ---- plumbing

(defn pipe
  "Moves the values of from to to; returns to.

  Closes to after the last value unless close? is false. Stops when to is closed; by then it has taken one
  value more."
  ([from to] (pipe from to true))
  ([from to close?] (plumbing/pipe (fibers/site-here "pipe") from to close?)))

(defn pipeline
  "Moves values through a transducer with n platform threads, in the order of from.

  The values go from `from` to `to`. xf is applied to each value by itself and may give any number of values.
  `to` is closed after the last one unless close? is false. Once `to` is closed, no more is taken from
  `from`. What xf throws goes to ex-handler, as in `chan`. The pipeline has no owner.

  Returns a channel that closes when all is done.

  Throws an AssertionError unless n is positive.

  Example:

    (a/pipeline 4 out (map parse) in)

  See also `magnetar.fold/pmap`, which is cancelled with its caller and ended by its first failure."
  ([n to xf from] (pipeline n to xf from true))
  ([n to xf from close?] (pipeline n to xf from close? nil))
  ([n to xf from close? ex-handler] (pipeline/transducing (fibers/site-here "pipeline") n to xf from close? ex-handler)))

(defn pipeline-blocking
  "Moves values as `pipeline` does, through a transducer that blocks."
  ([n to xf from] (pipeline-blocking n to xf from true))
  ([n to xf from close?] (pipeline-blocking n to xf from close? nil))
  ([n to xf from close? ex-handler] (pipeline/transducing (fibers/site-here "pipeline-blocking") n to xf from close? ex-handler)))

(defn pipeline-async
  "Moves values through the function af, n at a time, in the order of from.

  af is called with a value and a channel. It puts the results on the channel and closes it, now or later. If
  af throws, that is reported and the value gives nothing more.

  See also `pipeline` for the rest."
  ([n to af from] (pipeline-async n to af from true))
  ([n to af from close?] (pipeline/asynchronous (fibers/site-here "pipeline-async" af) n to af from close?)))

(defn split
  "Sends values for which p is true to one channel, the others to another.

  Both channels close with ch, or when p throws, which is reported. It stops when the channel that a value is
  for is closed.

  Returns [true-chan false-chan]."
  ([p ch] (split p ch nil nil))
  ([p ch t-buf-or-n f-buf-or-n] (plumbing/split (fibers/site-here "split" p) p ch t-buf-or-n f-buf-or-n)))

(defn reduce
  "Returns a channel of the value of f reduced over init and the values of ch.

  The value comes once ch is closed or f returns a `reduced`."
  [f init ch]
  (plumbing/reduce (fibers/site-here "reduce" f) f init ch))

(defn transduce
  "Returns a channel of (xform f) reduced over init and the values of ch.

  The value is completed, and comes once ch is closed.

  Example:

    (a/<! (a/transduce (map inc) + 0 (a/to-chan! [1 2 3]))) ;=> 9"
  [xform f init ch]
  (plumbing/transduce (fibers/site-here "transduce" f) xform f init ch))

(defn onto-chan!
  "Puts the values of coll on ch, then closes it unless close? is false.

  Stops when ch is closed. A nil in coll fails, which is reported, after ch was closed.

  Returns a channel that closes when that is done."
  ([ch coll] (onto-chan! ch coll true))
  ([ch coll close?] (plumbing/onto (fibers/site-here "onto-chan!") ch coll close?)))

(defn to-chan!
  "Returns a channel of the values of coll, which closes after them."
  [coll]
  (plumbing/to-chan (fibers/site-here "to-chan!") coll))

(defn onto-chan
  "Deprecated: use `onto-chan!`."
  {:deprecated "1.2"}
  ([ch coll] (onto-chan ch coll true))
  ([ch coll close?] (plumbing/onto (fibers/site-here "onto-chan") ch coll close?)))

(defn to-chan
  "Deprecated: use `to-chan!`."
  {:deprecated "1.2"}
  [coll]
  (plumbing/to-chan (fibers/site-here "to-chan") coll))

(defn onto-chan!!
  "Puts values as `onto-chan!` does, on a platform thread.

  It serves a coll whose elements compute at length or block natively."
  ([ch coll] (onto-chan!! ch coll true))
  ([ch coll close?] (plumbing/onto-blocking (fibers/site-here "onto-chan!!") ch coll close?)))

(defn to-chan!!
  "Returns a channel as `to-chan!` does, filled on a platform thread.

  It serves a coll whose elements compute at length or block natively."
  [coll]
  (plumbing/to-chan-blocking (fibers/site-here "to-chan!!") coll))

;; ---- one to many

(defprotocol Mux
  "What has a channel at its end."
  :extend-via-metadata true
  (muxch* [_] "The channel."))

(defprotocol Mult
  "What copies a channel to its taps; see `mult`."
  :extend-via-metadata true
  (tap* [m ch close?] "Adds a tap.")
  (untap* [m ch] "Removes a tap.")
  (untap-all* [m] "Removes all taps."))

(defn- mult-named [site ch]
  (let [taps (atom {})
        m (durable
            Mux
            (muxch* [_] ch)
            Mult
            (tap* [_ tap close?] (mult/tap taps tap close?))
            (untap* [_ tap] (mult/untap taps tap))
            (untap-all* [_] (mult/untap-all taps)))]
    (mult/start site ch taps)
    m))

(defn mult
  "Returns a mult, which copies each value of ch to every channel tapped to it.

  A value goes to all taps at once. The next value follows when all taps have accepted it or were untapped.
  Values that come while there is no tap are dropped. A tap that is closed is removed.

  See also `tap`."
  [ch]
  (mult-named (fibers/site-here "mult") ch))

(defmacro ^:private asking
  "Does body, which calls a method of a protocol on x; says what is wanted if x does not fulfil it."
  [method operation wanted x remedy & body]
  `(try
     ~@body
     (catch IllegalArgumentException e#
       (throw ^Throwable (refusals/no-such-party e# ~method ~operation ~wanted ~x ~remedy)))))

(defmacro ^:private asking-mult [method operation x & body]
  `(asking ~method ~operation "a mult" ~x "Make one with (mult ch)." ~@body))

(defmacro ^:private asking-mix [method operation x & body]
  `(asking ~method ~operation "a mix" ~x "Make one with (mix out)." ~@body))

(defmacro ^:private asking-pub [method operation x & body]
  `(asking ~method ~operation "a publication" ~x "Make one with (pub ch topic-fn)." ~@body))

(defn tap
  "Copies the values of mult to ch; returns ch.

  It closes ch with the source unless close? is false."
  ([mult ch] (tap mult ch true))
  ([mult ch close?]
   (asking-mult "tap*" "tap" mult (tap* mult ch close?))
   ch))

(defn untap
  "Removes ch from mult.

  A value that ch had not accepted yet is left for the next take from ch; the other taps go on."
  [mult ch]
  (asking-mult "untap*" "untap" mult (untap* mult ch)))

(defn untap-all
  "Removes all channels from mult."
  [mult]
  (asking-mult "untap-all*" "untap-all" mult (untap-all* mult)))

(defprotocol Mix
  "What mixes channels into one; see `mix`."
  :extend-via-metadata true
  (admix* [m ch] "Adds an input.")
  (unmix* [m ch] "Removes an input.")
  (unmix-all* [m] "Removes all inputs.")
  (toggle* [m state-map] "Changes modes of inputs.")
  (solo-mode* [m mode] "Sets what soloing does to the others."))

(defn- mix-named [site out]
  (let [state (mix/state)
        m (durable
            Mux
            (muxch* [_] out)
            Mix
            (admix* [_ ch] (mix/change-inputs state assoc ch {}))
            (unmix* [_ ch] (mix/change-inputs state dissoc ch))
            (unmix-all* [_] (mix/change-inputs state empty))
            (toggle* [_ modes] (mix/change-inputs state (partial merge-with core/merge) (mix/modes modes)))
            (solo-mode* [_ mode] (mix/change-solo-mode state mode)))]
    (mix/start site state out)
    m))

(defn mix
  "Returns a mix, which puts the values of all inputs on out, until out is closed.

  `admix` adds an input. `toggle` gives each input modes. With :mute its values are taken and dropped; with
  :pause they are not taken. With :solo only soloed inputs are heard, and the others are muted or paused as
  `solo-mode` says."
  [out]
  (mix-named (fibers/site-here "mix") out))

(defn admix
  "Adds ch to the inputs of mix."
  [mix ch]
  (asking-mix "admix*" "admix" mix (admix* mix ch)))

(defn unmix
  "Removes ch from the inputs of mix."
  [mix ch]
  (asking-mix "unmix*" "unmix" mix (unmix* mix ch)))

(defn unmix-all
  "Removes all inputs of mix."
  [mix]
  (asking-mix "unmix-all*" "unmix-all" mix (unmix-all* mix)))

(defn toggle
  "Changes modes of inputs at once.

  state-map is channel -> {:mute b :pause b :solo b}, merged with what is set. A channel that is not yet an
  input becomes one."
  [mix state-map]
  (asking-mix "toggle*" "toggle" mix (toggle* mix state-map)))

(defn solo-mode
  "Sets what happens to the other inputs while one is soloed: :mute or :pause."
  [mix mode]
  (asking-mix "solo-mode*" "solo-mode" mix (solo-mode* mix mode)))

(defprotocol Pub
  "What sends values to the subscribers of their topics; see `pub`."
  :extend-via-metadata true
  (sub* [p v ch close?] "Adds a subscriber.")
  (unsub* [p v ch] "Removes a subscriber.")
  (unsub-all* [p] [p v] "Removes all subscribers, of a topic or at all."))

(defn- ensure-mult [mults buf-fn topic]
  (or (get @mults topic)
      (get (swap! mults #(if (contains? % topic) % (assoc % topic (mult (chan (buf-fn topic)))))) topic)))

(defn- drop-mults
  "Changes the mults by topic, and frees those that are no longer among them."
  [mults f & args]
  (let [[before after] (apply swap-vals! mults f args)]
    (run! untap-all (vals (apply dissoc before (keys after))))
    after))

(defn- pub-named [site ch topic-fn buf-fn]
  (let [mults (atom {})
        buf-fn (refusals/callable "pub" "a function as its buf-fn" buf-fn)
        p (durable
            Mux
            (muxch* [_] ch)
            Pub
            (sub* [_ topic sub close?] (tap (ensure-mult mults buf-fn topic) sub close?))
            (unsub* [_ topic sub] (when-let [m (get @mults topic)] (untap m sub)))
            (unsub-all* [_] (drop-mults mults empty))
            (unsub-all* [_ topic] (drop-mults mults dissoc topic)))]
    (pub/start site ch (refusals/callable "pub" "a function as its topic-fn" topic-fn) mults muxch*)
    p))

(defn pub
  "Returns a publication, which sends values of ch to subscribers of their topics.

  The topic of a value is (topic-fn value). A topic is served like a `mult`: the next value follows when all
  its subscribers have accepted, unless buf-fn, called with the topic, gives a buffer. Values without
  subscribers are dropped. If topic-fn throws, that is reported and the value is dropped.

  See also `sub`."
  ([ch topic-fn] (pub ch topic-fn (constantly nil)))
  ([ch topic-fn buf-fn] (pub-named (fibers/site-here "pub" topic-fn) ch topic-fn buf-fn)))

(defn sub
  "Subscribes ch to a topic of the publication p; returns ch.

  It closes ch with the source unless close? is false."
  ([p topic ch] (sub p topic ch true))
  ([p topic ch close?] (asking-pub "sub*" "sub" p (sub* p topic ch close?))))

(defn unsub
  "Removes ch from the subscribers of a topic."
  [p topic ch]
  (asking-pub "unsub*" "unsub" p (unsub* p topic ch)))

(defn unsub-all
  "Removes all subscribers, of one topic or of all."
  ([p] (asking-pub "unsub-all*" "unsub-all" p (unsub-all* p)))
  ([p topic] (asking-pub "unsub-all*" "unsub-all" p (unsub-all* p topic))))

;; ---- names of clojure.core, last, so that nothing above means these by accident

(defn map
  "Returns a channel of f applied to the values of all chs.

  f is applied to the first values of all, then to the second ones. It ends when one of chs is closed. If f
  throws or returns nil, that is reported and the channel closes."
  ([f chs] (map f chs nil))
  ([f chs buf-or-n] (plumbing/map (fibers/site-here "map" f) f chs buf-or-n)))

(defn merge
  "Returns a channel of the values of all chs, as they come.

  It closes when all of them have closed."
  ([chs] (merge chs nil))
  ([chs buf-or-n] (plumbing/merge (fibers/site-here "merge") chs buf-or-n)))

(defn into
  "Returns a channel of coll with the values of ch conjoined, once ch is closed.

  Example:

    (a/<! (a/into [] (a/to-chan! [1 2]))) ;=> [1 2]"
  [coll ch]
  (plumbing/into (fibers/site-here "into") coll ch))

(defn take
  "Returns a channel of the first n values of ch; it closes after them, or with ch."
  ([n ch] (take n ch nil))
  ([n ch buf-or-n] (plumbing/take (fibers/site-here "take") n ch buf-or-n)))

;; ---- deprecated upstream, kept for old programs

(defn- guarded
  "The value of f; nil, so that the taker goes on, if f throws, which is reported: it runs on the thread that puts."
  [f v]
  (try
    (f v)
    (catch Throwable e
      (reports/report e))))

(defn- mapped-handler
  "The handler h of a take, with f applied to the value that comes later."
  [^Handler h f]
  (reify Handler
    (active [_] (.active h))
    (blockable [_] (.blockable h))
    (lockId [_] (.lockId h))
    (lock [_] (.lock h))
    (unlock [_] (.unlock h))
    (commit [_]
      (let [target (.commit h)]
        (ports/completion #(.complete target (when (some? %) (guarded f %))))))))

(defn- take-from [ch handler]
  (.take (Ports/readPort ch) ^Handler handler))

(defn- put-on [ch v handler]
  (.put (Ports/writePort ch) v ^Handler handler))

(defn- port-over
  "A port that closes with ch; on-take is called with a handler, on-put with a value and a handler."
  [ch on-take on-put]
  (reify
    Port
    (close [_] (close! ch))
    (isClosed [_] (ports/closed? ch))
    ReadPort
    (take [_ handler] (on-take handler))
    WritePort
    (put [_ v handler] (on-put v handler))))

(defn map<
  "Deprecated: use a transducer.

  Returns a port that takes from ch and gives f of the value."
  {:deprecated "0.1.319.0-6b1aca-alpha"}
  [f ch]
  (let [f (refusals/callable "map<" f)]
    (port-over ch
               (fn [handler]
                 (let [v (take-from ch (mapped-handler handler f))]
                   (if (or (nil? v) (ports/pending? v)) v (f v))))
               (fn [v handler] (put-on ch v handler)))))

(defn map>
  "Deprecated: use a transducer.

  Returns a port that puts f of the value on ch."
  {:deprecated "0.1.319.0-6b1aca-alpha"}
  [f ch]
  (let [f (refusals/callable "map>" f)]
    (port-over ch
               (fn [handler] (take-from ch handler))
               (fn [v handler] (put-on ch (f v) handler)))))

(defn- filtered-out
  "The answer of a put whose value is dropped on the way."
  [ch handler]
  (if (ports/commit handler)
    (not (ports/closed? ch))
    Port/PENDING))

(defn filter>
  "Deprecated: use a transducer.

  Returns a port that puts the value on ch if p is true of it."
  {:deprecated "0.1.319.0-6b1aca-alpha"}
  [p ch]
  (port-over ch
             (fn [handler] (take-from ch handler))
             (fn [v handler] (if ((refusals/function "filter>" p) v) (put-on ch v handler) (filtered-out ch handler)))))

(defn remove>
  "Deprecated: use a transducer.

  Returns a port that puts the value on ch unless p is true of it."
  {:deprecated "0.1.319.0-6b1aca-alpha"}
  [p ch]
  (filter> (complement (refusals/callable "remove>" p)) ch))

(defn filter<
  "Deprecated: use a transducer.

  Returns a channel of the values of ch that p is true of."
  {:deprecated "0.1.319.0-6b1aca-alpha"}
  ([p ch] (filter< p ch nil))
  ([p ch buf-or-n] (plumbing/filter-from (fibers/site-here "filter<" p) p ch buf-or-n)))

(defn remove<
  "Deprecated: use a transducer.

  Returns a channel of the values of ch that p is not true of."
  {:deprecated "0.1.319.0-6b1aca-alpha"}
  ([p ch] (remove< p ch nil))
  ([p ch buf-or-n] (plumbing/remove-from (fibers/site-here "remove<" p) p ch buf-or-n)))

(defn mapcat<
  "Deprecated: use a transducer.

  Returns a channel of the values in f of each value of in."
  {:deprecated "0.1.319.0-6b1aca-alpha"}
  ([f in] (mapcat< f in nil))
  ([f in buf-or-n] (plumbing/mapcat-from (fibers/site-here "mapcat<" f) f in buf-or-n)))

(defn mapcat>
  "Deprecated: use a transducer.

  Returns a channel whose values are replaced by the values in f of each, on their way to out."
  {:deprecated "0.1.319.0-6b1aca-alpha"}
  ([f out] (mapcat> f out nil))
  ([f out buf-or-n] (plumbing/mapcat-onto (fibers/site-here "mapcat>" f) f out buf-or-n)))

(defn unique
  "Deprecated: use `dedupe`.

  Returns a channel of the values of ch without repetitions that follow each other."
  {:deprecated "0.1.319.0-6b1aca-alpha"}
  ([ch] (unique ch nil))
  ([ch buf-or-n] (plumbing/unique (fibers/site-here "unique") ch buf-or-n)))

(defn partition
  "Deprecated: use `partition-all`.

  Returns a channel of vectors of n values of ch; the last may be shorter."
  {:deprecated "0.1.319.0-6b1aca-alpha"}
  ([n ch] (partition n ch nil))
  ([n ch buf-or-n] (plumbing/partition (fibers/site-here "partition") n ch buf-or-n)))

(defn partition-by
  "Deprecated: use `clojure.core/partition-by` as a transducer.

  Returns a channel of vectors of neighbours with the same value of f."
  {:deprecated "0.1.319.0-6b1aca-alpha"}
  ([f ch] (partition-by f ch nil))
  ([f ch buf-or-n] (plumbing/partition-by (fibers/site-here "partition-by" f) f ch buf-or-n)))

(when (or (io/resource "clojure/core/async/impl/protocols.clj") (io/resource "clojure/core/async/impl/protocols__init.class"))
  (when-not (find-ns 'clojure.core.async.impl.protocols)
    (require 'clojure.core.async.impl.protocols)) ; never a second time: :reload-all would define core.async's protocols again
  (require 'magnetar.impl.bridge))
