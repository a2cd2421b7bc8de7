(ns magnetar.actor
  "Starts processes as in Erlang, sends to them, links and monitors them.

  A process has a mailbox, is isolated from the failures of other processes, and learns of the deaths it
  asked about.

    (defn counter [n]
      (receive
        [:add k] (recur (+ n k))
        [:get from] (do (! from [:count n]) (recur n))))

    (let [pid (spawn counter 0)]
      (! pid [:add 42])
      (! pid [:get (self)])
      (receive [:count n] n (after 1000 :no-answer)))

  start     spawn spawn-link spawn-monitor spawn-opt with-process join continue
  send      ! send-after start-timer cancel-timer read-timer
  receive   receive with its clauses `after` and `from`; with-message-context; flush
  die       exit exit-reason alive?
  links     link unlink monitor demonitor flag
  names     self register unregister whereis registered make-ref make-alias unalias node
  state     pget pput perase pdict process-info
  control   group-leader suspend-process resume-process trace

  A process is not its forks. In (fork ..), (go ..) and futures that a process starts, `self` and `receive`
  fail at once. Take the pid before: (let [me (self)] ..).

  A process that has to exit throws `magnetar.kernel.fiber.Exit` wherever it waits. That is an Error, so
  (catch Exception ..) does not swallow it.

  Work that needs no mailbox and no supervision is simpler as a fork or with a channel.

  Require it as `[magnetar.actor :as actor :refer [! receive self spawn after from]]`. `flush` is a name of
  clojure.core too: write `actor/flush`, or (:refer-clojure :exclude [flush]) beside a :refer of it. The
  names are those of Erlang's module `erlang`."
  (:refer-clojure :exclude [flush])
  (:require
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.actor.current :as current-process]
   [magnetar.impl.actor.info :as info]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.actor.receive :as receive]
   [magnetar.impl.actor.send :as send]
   [magnetar.impl.actor.start :as start]
   [magnetar.impl.actor.text :as text]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.context :as context]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.impl.timers :as timers]
   [magnetar.impl.transactions :as transactions]
   [magnetar.impl.versions :as versions])
  (:import
   (magnetar.kernel.process Aliases Hosting Links LocalProcess Pid Pid$Ended ProcessTable Receiver Ref Refs Send SendTimers)))

(set! *warn-on-reflection* true)

(defn- current ^LocalProcess [operation]
  (LocalProcess/require operation))

(defn- check-pid ^Pid [operation x]
  (when-not (instance? Pid x)
    (arguments/misuse :magnetar/not-a-pid
                      (str "`" operation "` wants a pid, as `spawn`, `self` or `whereis` return it; this is " (arguments/show x) ".") {:value x}))
  x)

(defn- check-here
  "The pid of a process of this node."
  ^Pid [operation x]
  (nodes/here operation (check-pid operation x)))

(defn- check-ref ^Ref [operation x]
  (when-not (instance? Ref x)
    (arguments/misuse :magnetar/not-a-reference
                      (str "`" operation "` wants a reference, as `make-ref` or `monitor` return it; this is " (arguments/show x) ".") {:value x}))
  x)

;; ---- who am I

(defn self
  "Returns the pid of the process that this thread runs.

  Never waits.

  Throws an IllegalArgumentException outside of processes, and in what a process has started: forks, go
  blocks, futures. The sentence names the fork and its owner. A go block and a future have no owner, so there
  it names the go block or the thread.

  Example:

    (! server [:get (self)])

  Erlang: self/0."
  {:erlang "erlang:self/0"}
  []
  (.pid (current "self")))

(defn node
  "Returns the name of this node, or of the node that a process is on, a string.

  It is \"nonode@nohost\" while this node is not part of a cluster. The node of a reference is the node that
  made it. Of a pid or reference that was read from text, and whose node is not known, it is nil.

  Example:

    (! [:logger (actor/node pid)] \"hello\")

  Erlang: node/0, node/1."
  {:erlang "erlang:node/1"}
  ([] (address/node))
  ([x]
   (when-not (or (instance? Pid x) (instance? Ref x))
     (arguments/misuse :magnetar/not-a-pid (str "`node` wants a pid or a reference; this is " (arguments/show x) ".") {:value x}))
   (nodes/name-of x)))

;; ---- start

(defn ^:no-doc spawn-at
  "`spawn*`, with the process named after the site."
  [site f & args]
  (start/spawn site f args))

(def ^{:added "0.2" :arglists '([f & args])} spawn*
  "Does what `spawn` does, as a function.

  It serves `map`, `apply` and `with-redefs`; a redefinition of it reaches every `spawn`. The process is
  named after f, because no line is known."
  (fibers/starred spawn-at "spawn" f [f & args]))

(defmacro spawn
  "Starts a process that calls (f & args); returns its pid.

  The process sees the context values and the dynamic bindings of the caller, and shares nothing else with
  it. When f returns, the process ends with the reason :normal. When f throws, the process ends with the
  error as data, and the error is reported once. Only linked and monitoring processes are told.

  In a dosync the process is started at the commit, and the value is nil. `spawn` is a macro, so that the
  process has the name of its line. In a supervision tree prefer `magnetar.proc-lib/spawn`, whose process
  knows its ancestors.

  Never waits.

  Example:

    (spawn serve {:hits 0})

  See also `spawn-link`, `spawn-monitor`, and `spawn*`, the function: it can be mapped and applied, and
  `with-redefs` of it reaches every call.

  Erlang: spawn/1,3."
  {:erlang "erlang:spawn/1"}
  [f & args]
  (fibers/starting &form `spawn* "spawn" f args))

(defn ^:no-doc spawn-link-at
  "`spawn-link*`, with the process named after the site."
  [site f & args]
  (start/spawn-opt "spawn-link" site {:link true} f args))

(def ^{:added "0.2" :arglists '([f & args])} spawn-link*
  "Does what `spawn-link` does, as a function.

  It also serves as the :start of a child: [spawn-link* worker job].

  See also `spawn*`."
  (fibers/starred spawn-link-at "spawn-link" f [f & args]))

(defmacro spawn-link
  "Starts a process as `spawn` does, linked to this process from its beginning.

  If one of the two dies abnormally, so does the other, unless it traps exits.

  Throws an IllegalStateException in a dosync.

  Example:

    (actor/spawn-link worker job)

  See also `link`, and `spawn-link*`, the function: it can be mapped and applied, and `with-redefs` of it
  reaches every call.

  Erlang: spawn_link/1,3."
  {:erlang "erlang:spawn_link/1"}
  [f & args]
  (fibers/starting &form `spawn-link* "spawn-link" f args))

(defn ^:no-doc spawn-monitor-at
  "`spawn-monitor*`, with the process named after the site."
  [site f & args]
  (start/spawn-opt "spawn-monitor" site {:monitor true} f args))

(def ^{:added "0.2" :arglists '([f & args])} spawn-monitor*
  "Does what `spawn-monitor` does, as a function.

  See also `spawn*`."
  (fibers/starred spawn-monitor-at "spawn-monitor" f [f & args]))

(defmacro spawn-monitor
  "Starts a process as `spawn` does, and monitors it; returns [pid reference].

  Throws an IllegalStateException in a dosync.

  Example:

    (let [[pid ref] (actor/spawn-monitor job)] (receive [:DOWN ref :process _ reason] reason))

  See also `monitor`, and `spawn-monitor*`, the function: it can be mapped and applied, and `with-redefs` of
  it reaches every call.

  Erlang: spawn_monitor/1,3."
  {:erlang "erlang:spawn_monitor/1"}
  [f & args]
  (fibers/starting &form `spawn-monitor* "spawn-monitor" f args))

(defn- check-options-last [f more]
  (when-not (and (seq more) (not (map? f)) (or (nil? (peek more)) (map? (peek more))))
    (arguments/misuse :magnetar/bad-options
                      (str "`spawn-opt` takes the map of its options last, as in (spawn-opt serve state {:name :server}); this is "
                           (arguments/show (vec (cons f more))) ".")
                      {:arguments (vec (cons f more))})))

(defn ^:no-doc spawn-opt-at
  "`spawn-opt*`, with the process named after the site."
  [site f & more]
  (let [more (vec more)]
    (check-options-last f more)
    (start/spawn-opt "spawn-opt" site (peek more) f (pop more))))

(def ^{:added "0.2" :arglists '([f & args options])} spawn-opt*
  "Does what `spawn-opt` does, as a function.

  See also `spawn*`."
  (fibers/starred spawn-opt-at "spawn" f [f & more]))

(defmacro spawn-opt
  "Starts a process as `spawn` does, with a map of options as the last argument.

  The options are never left out: a map at the end is taken for them, not for an argument of f.

  Returns the pid, or with :monitor [pid reference].

  Throws an IllegalStateException in a dosync.

  Options:
    :name             a keyword or symbol to register, or [:via registry name], see `register`
    :link             true, as `spawn-link`
    :monitor          true, as `spawn-monitor`
    :trap-exit        true to begin with exit signals trapped
    :mailbox          {:capacity n :when-full :block}: how many messages it holds, and what happens to one
                      that finds no room. :block lets the sender wait, :drop-new drops it, :drop-old drops the
                      oldest, :fail throws in the sender. Signals, replies to aliases and timers are never
                      blocked or dropped.
    :platform-thread  true to run on a thread of the operating system, for work that holds a carrier. There
                      the JVM does not interrupt a read or an accept of a socket: an exit ends the process
                      when that returns, :kill at once.
    :context          :none, or a map of context values to add
    :bindings         :none to leave the dynamic bindings of the caller behind

  Examples:

    (actor/spawn-opt log {:name :logger :mailbox {:capacity 1000 :when-full :drop-old}})
    (actor/spawn-opt serve state {:name :server})

  See also `spawn-opt*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every
  call.

  Erlang: spawn_opt/2,4."
  {:erlang "erlang:spawn_opt/2" :arglists '([f & args options])}
  [f & more]
  (fibers/starting &form `spawn-opt* "spawn" f more))

(defn ^:no-doc with-process-at
  "`with-process*`, with the process named after the site."
  [site options f]
  (start/host site options f))

(def ^{:arglists '([options f])} with-process*
  "Calls f with this thread as a process.

  See also `with-process`."
  ^{::fibers/at with-process-at}
  (fn [options f]
    (start/host-here options f)))

(defmacro with-process
  "Makes this thread a process while it does body; returns the value of body.

  It serves platform threads too. There the JVM does not interrupt a read or an accept of a socket, so an
  exit waits for that to return. Within a process, the inner process has its own name and links, and ends
  when its body does. The death of the outer process reaches it as it reaches a called function, in what its
  body does next.

  Throws what body throws. If the process exits for another reason than :normal, by `exit` or by a signal,
  throws an ExceptionInfo with :reason and :pid.

  Options:
    :name, :mailbox, :trap-exit, :context   as of `spawn-opt`

  Example:

    (actor/with-process {:name :main}
      (actor/spawn-link worker (self))
      (receive [:done x] x))"
  [options & body]
  (fibers/starting &form `with-process* "with-process" options `[(fn [] ~@body)]))

(defn join
  "Waits until a process has ended, and returns the value of its function.

  Blocks until the process has ended, at most for :timeout.

  Throws an ExceptionInfo with :reason and :pid if the process ended for another reason than :normal. Throws
  a TimeoutException when time runs out and there is no :else. A pid that was read from text and is dead has
  the reason :noproc.

  Options:
    :timeout  how long to wait at most, a duration. Default :infinity
    :else     what to return when time runs out

  Example:

    (actor/join (spawn + 1 2)) ;=> 3

  Erlang: a monitor, and a receive of its message."
  ([pid] (join pid nil))
  ([pid {:keys [timeout] :or {timeout :infinity} :as options}]
   (arguments/options "join" [:timeout :else] options)
   (transactions/refuse "join")
   (let [^Pid$Ended ended (ProcessTable/join (check-here "join" pid) (arguments/nanos :timeout timeout))]
     (cond
       (nil? ended) (timeouts/outcome options `join pid timeout [pid options])
       (= :normal (.reason ended)) (.value ended)
       :else (throw (start/exited pid (.reason ended)))))))

(defn continue
  "Drops the stack of this process and calls (f & args) at once; never returns.

  It does not wait for a message; the function's own `receive` does. The pid, mailbox, links and dictionary
  stay the same. Given a var, the process goes on with the var's value at that time, so a process that loops
  this way takes new code. `finally` blocks and scopes around the call are left first.

  Example:

    (defn serve [state]
      (receive [:set x] (actor/continue #'serve x)))

  See also `magnetar.hot`.

  Erlang: a call in tail position to another module. hibernate/3 waits for a message before it calls."
  {:erlang "erlang:hibernate/3"}
  [f & args]
  (arguments/function "continue" f "(continue #'serve state)")
  (let [me (current "continue")]
    (versions/runs f)
    (Hosting/continueWith me #(apply f args))))

(defn run-agents-on-fibers
  "Deprecated: use `magnetar.agent/run-agents-on-fibers`, which does the same."
  {:deprecated "0.2"}
  []
  (fibers/run-agents))

;; ---- send

(defn !
  "Sends the message to a process; returns the message.

  `to` is a pid, an alias, a name, [name node], [:global name] or [:via registry name]. A message to a dead
  process, or to a [name node] that no process has, is dropped and counted (`magnetar.inspect/dead-letters`).
  In a dosync the message is sent at the commit.

  Blocks only while the mailbox is full and its :when-full is :block, or while too much waits to be sent to
  the other node. A message from another node never waits for a full mailbox: where a sender of this node
  would wait, it goes past the bound.

  Throws an IllegalArgumentException for another name that no process has, and for nil.

  Example:

    (! pid [:hello (self)])

  Erlang: the operator !."
  {:erlang "erlang:!/2"}
  [to message]
  (send/sending to message))

(defn send-after
  "Sends the message to a process after a duration; returns the timer's reference.

  `to` is a pid or a name, the duration a number of milliseconds or a Duration. A name is looked up when the
  time has passed; if no process has it then, the message is dropped. The timer does not end with the process
  that started it.

  Example:

    (actor/send-after 500 (self) :tick) ;=> timer

  See also `cancel-timer`.

  Erlang: erlang:send_after/3."
  {:erlang "erlang:send_after/3"}
  [duration to message]
  (transactions/refuse "send-after")
  (SendTimers/after (arguments/finite "send-after" duration) (send/check-address "send-after" to) message false))

(defn start-timer
  "Sends [:timeout reference message] after a duration; returns the reference.

  All else is as in `send-after`.

  Example:

    (let [timer (actor/start-timer 500 (self) :tick)] (receive [:timeout timer what] what)) ;=> :tick

  Erlang: erlang:start_timer/3."
  {:erlang "erlang:start_timer/3"}
  [duration to message]
  (transactions/refuse "start-timer")
  (SendTimers/after (arguments/finite "start-timer" duration) (send/check-address "start-timer" to) message true))

(defn- millis [^long nanos]
  (if (neg? nanos) false (clock/millis nanos)))

(defn cancel-timer
  "Stops a timer; returns the milliseconds that were left, or false.

  It is false if the timer has fired or was stopped. Timers of `magnetar.timer` are stopped too. Once this has
  returned, no call begins and no message of an interval comes; a call that has begun goes on. Of an interval
  that runs, the value is the time until the next call; it is false if the interval has ended with its owner.

  Blocks while an interval sends just then.

  Throws an IllegalArgumentException with :magnetar/not-a-timer for a reference that no function has started
  as a timer, such as one of `make-ref` or `monitor`.

  Example:

    (actor/cancel-timer timer) ;=> 480

  Erlang: erlang:cancel_timer/1."
  {:erlang "erlang:cancel_timer/1"}
  [timer]
  (millis (timers/cancel "cancel-timer" timer)))

(defn read-timer
  "Returns the milliseconds until a timer fires, or false.

  It is false if the timer has fired or was stopped. Timers of `magnetar.timer` are read too.

  Example:

    (actor/read-timer timer) ;=> 480

  Erlang: erlang:read_timer/1."
  {:erlang "erlang:read_timer/1"}
  [timer]
  (millis (timers/left "read-timer" timer)))

;; ---- receive

(defmacro receive
  "Takes the first message that a clause matches, and does the body of that clause.

    (receive
      [:add n] (recur (+ total n))
      [:get (from :guard pid?)] (! from total)
      :stop total
      (from ch v (handle v))
      (after 500 :silence))

  Messages are tried in the order of arrival. The clauses are pairs of a pattern and a body, see
  `magnetar.match`; a local that is already bound matches by value. A message that no clause matches stays in
  the mailbox. A guard that throws does not match, and is reported once.

  Then any number of (from channel value body..) may follow. They are waited for together with the messages,
  and one of them happens; the mailbox is tried first. The last clause may be (after milliseconds body..): 0
  does not wait, :infinity waits without end.

  Bodies are in tail position, so `recur` works.

  Blocks until a clause matches, a channel of a `from` is ready, or the time of `after` has passed.

  Throws at once outside of a process (IllegalArgumentException) and in a dosync (IllegalStateException).

  Cancellation: when the process has to exit, it throws.

  Erlang: receive .. after .. end."
  {:erlang "receive"}
  [& clauses]
  (receive/expand &env &form clauses))

(defmacro after
  "Ends a `receive` when no message came in time: (after milliseconds body..).

  It is the last clause of a `receive`. Anywhere else it is refused by the compiler."
  [& _]
  (throw (ex-info "(after ..) stands outside of a receive: move it into one, behind its last clause." {:magnetar/reason :magnetar/after-outside})))

(defmacro from
  "Takes from a channel in a `receive`: (from channel value body..).

  It is a clause of a `receive`, behind the patterns. Anywhere else it is refused by the compiler."
  [& _]
  (throw (ex-info "(from ..) stands outside of a receive: move it into one, behind its patterns." {:magnetar/reason :magnetar/from-outside})))

(defn flush
  "Takes all messages out of the mailbox; returns them in the order of arrival.

  Throws an IllegalStateException in a dosync, and an IllegalArgumentException outside of a process.

  Example:

    (actor/flush) ;=> [:a :b]

  Erlang: flush() of the shell."
  []
  (transactions/refuse "flush")
  (let [me (current "flush")]
    (loop [messages []]
      (let [message (.next me 0)]
        (cond
          (nil? message) messages
          (identical? Receiver/NULL message) (recur (conj messages nil))
          :else (recur (conj messages message)))))))

(defn with-message-context*
  "Calls f with the context values of the message that was received last.

  See also `with-message-context`."
  {:added "0.2"}
  [f]
  (let [me (current "with-message-context")]
    (if-some [context (.messageContext me)]
      (context/handle me context f)
      (f))))

(defmacro with-message-context
  "Does body with the context values of the message that was received last.

  They are those that the sender had at its `!`, and lie over the values of this process. A `receive` does
  not change the context of its process by itself. Servers need no such form, since their callbacks see the
  values of their callers.

  Throws an IllegalArgumentException outside of a process.

  Example:

    (defcontext user)
    (with-context [user \"ada\"] (! worker [:print \"report\"]))
    ;; in the worker
    (receive [:print what] (actor/with-message-context (log @user what))) ; \"ada\"

  See also `magnetar.scope.context/with-context`.

  Erlang: seq_trace:set_token/2, which each receive sets."
  {:added "0.2"}
  [& body]
  `(with-message-context* (fn [] ~@body)))

;; ---- die

(defn exit
  "Ends this process for the reason, or sends an exit signal to another one.

  (exit reason) throws. If it is not caught, links and monitors learn the reason.

  (exit pid reason) returns true at once, also for a dead pid. :normal is ignored by all processes except the
  sender itself. :kill cannot be trapped, and the process dies as :killed. Any other reason ends the process
  wherever it waits, unless it traps exits and gets the message [:EXIT from reason].

  Example:

    (actor/exit pid :shutdown)

  Erlang: exit/1, exit/2."
  {:erlang "erlang:exit/2"}
  ([reason]
   (current "exit")
   (throw (Send/exit reason)))
  ([pid reason]
   (Send/exit (check-pid "exit" pid) reason)
   true))

(defn exit-reason
  "Returns the exit reason that a caught exit or error carries.

  It is the reason for which this process would have died. Of a cancellation it is :cancelled. Of an
  ExceptionInfo with :magnetar/exit, as of a failed call, it is that exit. Of other errors it is [message of
  the error, its frames].

  An exit is an Error, so (catch Exception ..) does not catch it. If a signal told the process to end, its
  next operation that may wait throws the exit again.

  Example:

    (try (actor/exit :no-funds) (catch Throwable e (actor/exit-reason e))) ;=> :no-funds

  Erlang: the Reason of a clause `catch exit:Reason`."
  [error]
  (when-not (instance? Throwable error)
    (arguments/misuse :magnetar/not-an-error
                      (str "`exit-reason` wants what was caught, as in (catch Throwable e (exit-reason e)); this is "
                           (arguments/show error) ".")
                      {:value error}))
  (codec/reason error))

(defn alive?
  "Returns true until the process ends, or is told to end.

  Example:

    (actor/alive? (self)) ;=> true

  Erlang: is_process_alive/1."
  {:erlang "erlang:is_process_alive/1"}
  [pid]
  (info/alive? (check-here "alive?" pid)))

;; ---- links and monitors

(defn link
  "Links this process to another one; returns true.

  If one of the two dies abnormally, the other dies for the same reason, or gets [:EXIT pid reason] if it
  traps exits. Links do not count: once is enough. If the other process is dead and this one traps exits, it
  gets the message with the reason :noproc. A process of another node that is dead, or whose node is lost,
  sends its exit signal, with the reason :noproc or :noconnection.

  Throws an IllegalArgumentException if the other process is one of this node that is dead, and this one does
  not trap exits.

  Example:

    (actor/link pid)

  Erlang: link/1."
  {:erlang "erlang:link/1"}
  [pid]
  (or (Links/link (current "link") (check-pid "link" pid))
      (arguments/misuse :noproc (str "Cannot link " (self) " to " pid ", which is dead (:noproc): use `spawn-link`, or trap exits.") {:pid pid})))

(defn unlink
  "Ends a link, if there is one; returns true.

  From now on the death of the other process does nothing here.

  Example:

    (actor/unlink pid)

  Erlang: unlink/1."
  {:erlang "erlang:unlink/1"}
  [pid]
  (Links/unlink (current "unlink") (check-pid "unlink" pid))
  true)

(defn monitor
  "Watches a process; returns the reference of the monitor.

  When the process dies, this one gets [:DOWN reference :process what reason]. `target` is a pid or a name.
  `what` is the pid; or [name node] where a name was given; or the name in a registry as it was given. If the
  process is already dead, the message comes at once with :noproc. It comes with :noconnection when the node
  of the process is lost, or at once if this node cannot reach it.

  Options:
    :tag    another word than :DOWN
    :alias  makes the reference an address of this process: :explicit-unalias until `unalias`, :demonitor
            until the monitor ends, :reply-demonitor until the first message to it, which also ends the
            monitor

  Example:

    (let [ref (actor/monitor pid)] (receive [:DOWN ref :process _ reason] reason))

  Erlang: monitor/2,3."
  {:erlang "erlang:monitor/2"}
  ([target] (monitor target nil))
  ([target {:keys [alias tag] :as options}]
   (arguments/options "monitor" [:alias :tag] options)
   (monitors/monitor target alias tag)))

(defn demonitor
  "Ends a monitor; returns true.

  A message of the monitor that is already in the mailbox stays there, unless :flush is true.

  Options:
    :flush  true to take the message of the monitor out of the mailbox
    :info   true to return whether the monitor was active

  Example:

    (let [ref (actor/monitor pid)] (actor/demonitor ref {:flush true}))

  Erlang: demonitor/1,2."
  {:erlang "erlang:demonitor/2"}
  ([ref] (demonitor ref nil))
  ([ref {:keys [flush info] :as options}]
   (arguments/options "demonitor" [:flush :info] options)
   (when flush (transactions/refuse "demonitor"))
   (current "demonitor")
   (let [ref (check-ref "demonitor" ref)
         active? (if flush (monitors/forget ref) (monitors/demonitor ref))]
     (if info active? true))))

(defn flag
  "Sets a flag of this process; returns what it was.

  The one flag is :trap-exit, true or false. While it is true, exit signals become messages [:EXIT pid
  reason].

  Example:

    (actor/flag :trap-exit true) ;=> false

  Erlang: process_flag/2."
  {:erlang "erlang:process_flag/2"}
  [flag value]
  (when-not (and (= :trap-exit flag) (boolean? value))
    (arguments/misuse :magnetar/bad-flag
                      (str "The flag of a process is :trap-exit with true or false; this is " (arguments/show flag) " with " (arguments/show value) ".")
                      {:flag flag :value value}))
  (.trapExits (current "flag") value))

;; ---- names and references

(defn- kind-of [operation name]
  (let [kind (first (address/parts name))]
    (when-not (or (address/plain? name) (= :via kind))
      (arguments/misuse :magnetar/bad-name
                        (str "`" operation "` wants a keyword, a symbol or [:via registry name] as the name; this is " (arguments/show name) ".")
                        {:name name}))
    kind))

(defn register
  "Registers a process by a name that messages can be sent to; returns true.

  The name is free again when the process dies. [:via registry name] is a name in a registry: a namespace or
  a map with register-name, unregister-name and whereis-name, as `magnetar.registry` is. [:global name] is a
  name of `magnetar.global`. A process may have many names of these two kinds. They are accepted wherever a
  name is.

  Throws an IllegalArgumentException if the name is taken, if the process has one, or is dead.

  Example:

    (actor/register :logger (spawn log))

  Erlang: register/2."
  {:erlang "erlang:register/2"}
  [name pid]
  (let [kind (kind-of "register" name)
        pid (if (= :via kind) (check-pid "register" pid) (check-here "register" pid))]
    (if (= :via kind)
      (address/register-via name pid)
      (ProcessTable/register name pid))
    true))

(defn unregister
  "Frees a name; returns true.

  Throws an IllegalArgumentException if no process has the name.

  Example:

    (actor/unregister :logger) ;=> true

  Erlang: unregister/1."
  {:erlang "erlang:unregister/1"}
  [name]
  (let [via? (= :via (kind-of "unregister" name))]
    (when-not (if via? (address/find-pid name) (ProcessTable/unregister name))
      (arguments/misuse :magnetar/no-such-name (str "Cannot unregister " (arguments/show name) ": no process has this name.") {:name name}))
    (when via? (address/release-via name))
    true))

(defn whereis
  "Returns the pid of the process that has the name, or nil.

  Example:

    (actor/whereis :logger) ;=> pid

  Erlang: whereis/1."
  {:erlang "erlang:whereis/1"}
  [name]
  (if (= :via (kind-of "whereis" name))
    (address/find-pid name)
    (ProcessTable/whereis name)))

(defn registered
  "Returns a vector of the names that processes have, in no order.

  Example:

    (actor/registered) ;=> [:logger]

  Erlang: registered/0."
  {:erlang "erlang:registered/0"}
  []
  (vec (ProcessTable/names)))

(defn make-ref
  "Returns a new reference, a value that is equal to no other.

  A `receive` whose every clause asks for the reference does not look at messages that are older than it.

  Example:

    (let [ref (actor/make-ref)] (! server [:get ref (self)]) (receive [ref answer] answer))

  Erlang: make_ref/0."
  {:erlang "erlang:make_ref/0"}
  []
  (Refs/make))

(defn make-alias
  "Returns a reference that is an address of this process until `unalias`.

  With :reply it is an address until a message came. A reference that was read from text is not an address.

  Example:

    (let [me (actor/make-alias :reply)] (! server [:get me]) (receive [:value value] value))

  Erlang: alias/0,1."
  {:erlang "erlang:alias/1"}
  ([] (make-alias :explicit-unalias))
  ([mode]
   (when-not (#{:explicit-unalias :reply} mode)
     (arguments/misuse :magnetar/bad-alias (str "An alias is :explicit-unalias or :reply; this is " (arguments/show mode) ".") {:alias mode}))
   (Aliases/open (current "make-alias") (= :reply mode))))

(defn unalias
  "Ends an alias of this process; returns true if it was one.

  What is sent to it from now on is dropped.

  Example:

    (actor/unalias me)

  Erlang: unalias/1."
  {:erlang "erlang:unalias/1"}
  [alias]
  (Aliases/close (current "unalias") (check-ref "unalias" alias)))

(def ^:no-doc readers
  "How pids and references are read from text, for `clojure.edn/read-string`.

  A pid is looked for among all processes once, when it is read; one whose process is dead by then, each time it is used.

    (clojure.edn/read-string {:readers actor/readers} \"#magnetar/pid \\\"0.17.1699 logger\\\"\")"
  {'magnetar/pid text/read-pid
   'magnetar/ref text/read-ref})

;; ---- state

(defn pdict
  "Returns the dictionary of this process, a map.

  Erlang: get/0."
  {:erlang "erlang:get/0"}
  []
  (current-process/pdict))

(defn pget
  "Returns the value of a key in the dictionary of this process, or nil.

  Example:

    (actor/pget :request) ;=> 17

  Erlang: get/1."
  {:erlang "erlang:get/1"}
  [key]
  (current-process/pget key))

(defn pput
  "Sets a key in the dictionary of this process; returns what was there.

  Example:

    (actor/pput :request 17)

  Erlang: put/2."
  {:erlang "erlang:put/2"}
  [key value]
  (current-process/pput key value))

(defn perase
  "Removes a key, or all, from the process dictionary; returns what was there.

  Example:

    (actor/perase :request) ;=> 17

  Erlang: erase/0,1."
  {:erlang "erlang:erase/1"}
  ([] (current-process/perase))
  ([key] (current-process/perase key)))

(defn process-info
  "Returns what is known of a process, a map, or one item; nil if it is dead.

  The keys are :pid :label :status :registered-name :links :monitors :monitored-by :message-queue-len
  :trap-exit :group-leader :dictionary :current-function :code, and while it waits :waits-for and :since-ms.
  :status is :running, :waiting, :suspended or :exiting. :code is a map from namespace to version: the code
  that a server runs, or a process that was given a var.

  Never waits: nothing is asked of the process itself.

  Example:

    (actor/process-info pid :message-queue-len) ;=> 3

  Erlang: process_info/1,2."
  {:erlang "erlang:process_info/2"}
  ([pid] (info/of (check-here "process-info" pid)))
  ([pid item] (get (info/of (check-here "process-info" pid)) item)))

;; ---- control

(defn- live ^LocalProcess [operation pid]
  (or (ProcessTable/reach (check-here operation pid))
      (arguments/misuse :noproc (str "`" operation "`: " pid " is dead (:noproc).") {:pid pid})))

(defn- check-other
  "Refuses what a process cannot do to itself."
  [operation pid why]
  (when-some [me (LocalProcess/current)]
    (when (= pid (.pid me))
      (arguments/misuse :magnetar/oneself (str "`" operation "` was called by " pid " for itself: " why) {:pid pid}))))

(defn group-leader
  "Returns the group leader of this process, or sets one; then it returns true.

  The children of a process inherit its group leader. With two arguments it sets the group leader of a
  process.

  Example:

    (actor/group-leader pid (self))

  Erlang: group_leader/0,2."
  {:erlang "erlang:group_leader/0"}
  ([] (.leader (current "group-leader")))
  ([pid leader]
   (.setLeader (live "group-leader" pid) (check-pid "group-leader" leader))
   true))

(defn suspend-process
  "Stops a process from taking messages; returns true.

  The process takes none until it was resumed as often as it was suspended. What it does meanwhile goes on
  until it receives. It stays suspended when the process that suspended it dies: a process that monitors that
  one has to resume it.

  Throws an IllegalArgumentException for this process itself, which could not resume, and for a dead one.

  Example:

    (actor/suspend-process pid)

  Erlang: erlang:suspend_process/1, which also stops code that computes, and ends with the process that
  called it."
  {:erlang "erlang:suspend_process/1"}
  [pid]
  (check-other "suspend-process" pid "it could not resume itself. Let another process do it.")
  (.suspend (live "suspend-process" pid))
  true)

(defn resume-process
  "Undoes one `suspend-process`; returns true.

  Throws an IllegalArgumentException if the process is not suspended, or is dead.

  Example:

    (actor/resume-process pid)

  Erlang: erlang:resume_process/1."
  {:erlang "erlang:resume_process/1"}
  [pid]
  (or (.resume (live "resume-process" pid))
      (arguments/misuse :magnetar/not-suspended (str "`resume-process`: " pid " is not suspended. Resume a process as often as it was suspended.") {:pid pid})))

(defn trace
  "Sends this process a copy of what another receives and sends; returns true.

  The messages are [:trace pid :receive message] and [:trace pid :send message to]. With true they begin now,
  with false they end.

  Throws an IllegalArgumentException for this process itself, because each message would cause another one.

  Example:

    (actor/trace pid true)

  Erlang: erlang:trace/3 with send and 'receive'."
  {:erlang "erlang:trace/3"}
  [pid on?]
  (when on?
    (check-other "trace" pid "each message would be told of in another one, without end. Let another process trace it."))
  (.trace (live "trace" pid) (when on? (self)))
  true)
