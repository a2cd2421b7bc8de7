(ns magnetar.actor
  "Processes as Erlang means them: each has a mailbox, is isolated from the failures of others, and is told of the deaths it asked about.

    (defn counter [n]
      (receive
        [:add k] (recur (+ n k))
        [:get from] (do (! from [:count n]) (recur n))))

    (let [pid (spawn counter 0)]
      (! pid [:add 42])
      (! pid [:get (self)])
      (receive [:count n] n (after 1000 :nobody)))

  start     spawn spawn-link spawn-monitor spawn-opt with-process join continue
  send      ! send-after start-timer cancel-timer read-timer
  receive   receive with its clauses `after` and `from`; flush
  die       exit exit-reason alive?
  links     link unlink monitor demonitor flag
  names     self register unregister whereis registered make-ref make-alias unalias node
  state     pget pput perase pdict process-info
  control   group-leader suspend-process resume-process trace

  A process is not its forks: in (fork ..), (go ..) and futures that a process starts, `self` and `receive` fail at once. Take the pid before:
  (let [me (self)] ..). A process that has to exit meets `magnetar.kernel.fiber.Exit`, an Error that (catch Exception ..) does not swallow,
  wherever it waits. If you need no mailbox and no supervision, a fork or a channel is less.

  Require it as `[magnetar.actor :as actor :refer [! receive self spawn after from]]`. `flush` is a name of
  clojure.core too: write `actor/flush`, or (:refer-clojure :exclude [flush]) beside a :refer of it. Names are those
  of Erlang's module `erlang`."
  (:refer-clojure :exclude [flush])
  (:require
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.current :as current-process]
   [magnetar.impl.actor.info :as info]
   [magnetar.impl.actor.language :as language]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.actor.receive :as receive]
   [magnetar.impl.actor.send :as send]
   [magnetar.impl.actor.start :as start]
   [magnetar.impl.actor.text :as text]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
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

(defn- check-ref ^Ref [operation x]
  (when-not (instance? Ref x)
    (arguments/misuse :magnetar/not-a-reference
                      (str "`" operation "` wants a reference, as `make-ref` or `monitor` return it; this is " (arguments/show x) ".") {:value x}))
  x)

;; ---- who am I

(defn self
  "The pid of the process that this thread is.

  Never waits. Fails outside of processes, and in what a process has started: forks, go blocks, futures. The sentence names the fork and its
  owner; a go block and a future have no owner, so there it names the go block or the thread.

    (! server [:get (self)])

  In Erlang: self/0."
  {:erlang "erlang:self/0"}
  []
  (.pid (current "self")))

(defn node
  "The name of this node, a string: \"nonode@nohost\" while it is no part of a cluster.

    (! [:logger (node)] \"hello\")

  In Erlang: node/0."
  {:erlang "erlang:node/0"}
  []
  address/node)

;; ---- start

(defn ^:no-doc spawn-at
  "`spawn*`, with the process named after the site."
  [site f & args]
  (start/spawn site f args))

(def ^{:added "0.2" :arglists '([f & args])} spawn*
  "Does what `spawn` does, as a function: for `map`, `apply` and `with-redefs`, which reaches every `spawn`.

  The process is named after f, as no line is known."
  ^{::fibers/at spawn-at}
  (fn [f & args]
    (apply spawn-at (fibers/site-of "spawn" f) f args)))

(defmacro spawn
  "Starts a process that calls (f & args); returns its pid.

  Never waits. The process sees the context values and the dynamic bindings of the caller, and nothing else of it; it ends with the reason
  :normal when f returns, and with what it threw as data when f throws, which is reported once. Nobody is told unless linked or monitoring.
  In a dosync it is started at the commit, and the value is nil. A macro, so that the process has the name of its line; the function is `spawn*`.
  Prefer `magnetar.proc-lib/spawn` in a supervision tree: it knows its ancestors.

    (spawn serve {:hits 0})

  In Erlang: spawn/1,3. See `spawn-link`, `spawn-monitor`."
  {:erlang "erlang:spawn/1"}
  [f & args]
  (fibers/starting &form `spawn* "spawn" f args))

(defn ^:no-doc spawn-link-at
  "`spawn-link*`, with the process named after the site."
  [site f & args]
  (start/spawn-opt "spawn-link" site {:link true} f args))

(def ^{:added "0.2" :arglists '([f & args])} spawn-link*
  "Does what `spawn-link` does, as a function; see `spawn*`. For the :start of a child too: [spawn-link* worker job]."
  ^{::fibers/at spawn-link-at}
  (fn [f & args]
    (apply spawn-link-at (fibers/site-of "spawn-link" f) f args)))

(defmacro spawn-link
  "Like `spawn`, with a link between this process and the new one from its beginning: if one dies abnormally, so does the other, unless it
  traps exits.

    (spawn-link worker job)

  In Erlang: spawn_link/1,3. The function is `spawn-link*`."
  {:erlang "erlang:spawn_link/1"}
  [f & args]
  (fibers/starting &form `spawn-link* "spawn-link" f args))

(defn ^:no-doc spawn-monitor-at
  "`spawn-monitor*`, with the process named after the site."
  [site f & args]
  (start/spawn-opt "spawn-monitor" site {:monitor true} f args))

(def ^{:added "0.2" :arglists '([f & args])} spawn-monitor*
  "Does what `spawn-monitor` does, as a function; see `spawn*`."
  ^{::fibers/at spawn-monitor-at}
  (fn [f & args]
    (apply spawn-monitor-at (fibers/site-of "spawn-monitor" f) f args)))

(defmacro spawn-monitor
  "Like `spawn`, with a monitor of the new process: returns [pid reference].

    (let [[pid ref] (spawn-monitor work)] (receive [:DOWN ref :process _ reason] reason))

  In Erlang: spawn_monitor/1,3. The function is `spawn-monitor*`."
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
  "Does what `spawn-opt` does, as a function; see `spawn*`."
  ^{::fibers/at spawn-opt-at}
  (fn [f & more]
    (apply spawn-opt-at (fibers/site-of "spawn" f) f more)))

(defmacro spawn-opt
  "Like `spawn`, with a map of options as the last argument; returns the pid, or with :monitor [pid reference].

  :name             a keyword or symbol to register, or [:via registry name], see `register`
  :link :monitor    true, as `spawn-link` and `spawn-monitor`
  :trap-exit        true to begin with exit signals trapped
  :mailbox          {:capacity n :when-full :block}: how many messages it holds, and what happens to one that finds no room. :block lets
                    the sender wait, :drop-new drops it, :drop-old the oldest, :fail throws in the sender. Signals, replies to aliases and
                    timers are never blocked or dropped.
  :platform-thread  true to run on a thread of the operating system, for work that holds a carrier. There the JVM does not interrupt a read
                    or an accept of a socket: an exit ends the process when that returns, :kill at once
  :context          :none, or a map of context values to add
  :bindings         :none to leave the dynamic bindings of the caller behind

    (spawn-opt log {:name :logger :mailbox {:capacity 1000 :when-full :drop-old}})
    (spawn-opt serve state {:name :server})

  In Erlang: spawn_opt/2,4. The function is `spawn-opt*`."
  {:erlang "erlang:spawn_opt/2" :arglists '([f & args options])}
  [f & more]
  (fibers/starting &form `spawn-opt* "spawn" f more))

(defn ^:no-doc host-at
  "`with-process*`, with the process named after the site."
  [site options f]
  (start/host site options f))

(defn with-process*
  "Makes this thread a process while it calls f; see `with-process`."
  [options f]
  (start/host-here options f))

(defmacro with-process
  "Makes the calling thread a process while it does body, platform threads too; returns the value of body.

  The options are :name, :mailbox, :trap-exit and :context of `spawn-opt`. What body throws is thrown on. If the process exits for another
  reason than :normal, by `exit` or by a signal, throws an ExceptionInfo with :reason and :pid. On a platform thread the JVM does not
  interrupt a read or an accept of a socket: there an exit waits for that to return. Within a process the inner one is told of the death of
  the outer by what its body meets, as a called function is: it has its own name and links, and ends when its body does.

    (with-process {:name :main}
      (spawn-link worker (self))
      (receive [:done x] x))"
  [options & body]
  `(host-at ~(fibers/site "with-process" &form) ~options (fn [] ~@body)))

(defn join
  "Waits until the process has ended, and returns the value of its function.

  If it ended for another reason than :normal, throws an ExceptionInfo with :reason and :pid. With {:timeout ms} it waits so long at most, and
  then throws a TimeoutException, or returns :else if that is given. A pid that was read from text and is dead has the reason :noproc.

    (join (spawn + 1 2)) ;=> 3

  In Erlang: a monitor, and a receive of its message."
  ([pid] (join pid nil))
  ([pid {:keys [timeout] :or {timeout :infinity} :as options}]
   (arguments/options "join" [:timeout :else] options)
   (transactions/refuse "join")
   (let [^Pid$Ended ended (ProcessTable/join (check-pid "join" pid) (arguments/nanos :timeout timeout))]
     (cond
       (nil? ended) (timeouts/outcome options `join pid timeout [pid options])
       (= :normal (.reason ended)) (.value ended)
       :else (throw (start/exited pid (.reason ended)))))))

(defn continue
  "Drops the stack of this process and goes on with (f & args): same pid, mailbox, links and dictionary. Never returns.

  Give it the var, and the process goes on with what the var is then: so a process that loops this way takes new code. What stands around the
  call, `finally` blocks and scopes, is left first. See `magnetar.hot`.

    (defn serve [state]
      (receive [:set x] (continue #'serve x)))

  In Erlang: a call in tail position to another module, or hibernate/3."
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
  "Sends the message to a pid, an alias, a name, [name node] or [:via registry name]; returns the message.

  Does not wait, unless the mailbox has a bound and lets senders wait. To a dead process: the message is dropped and counted
  (`magnetar.inspect/dead-letters`); so is one to a [name node] that no process has.
  To another name that no process has, or nil: an IllegalArgumentException. In a dosync it is sent at the commit.

    (! pid [:hello (self)])

  In Erlang: the operator !."
  {:erlang "erlang:!/2"}
  [to message]
  (send/sending to message))

(defn send-after
  "Sends the message to a pid or a name when so many milliseconds have passed; returns the reference of the timer.

  A name is looked up then; if nobody has it, the message is dropped. The timer does not end with the process that started it.

    (send-after 500 (self) :tick)

  In Erlang: erlang:send_after/3."
  {:erlang "erlang:send_after/3"}
  [duration to message]
  (transactions/refuse "send-after")
  (SendTimers/after (arguments/finite "send-after" duration) (send/check-address "send-after" to) message false))

(defn start-timer
  "Like `send-after`, but what it sends is [:timeout reference message].

    (let [timer (start-timer 500 (self) :tick)] (receive [:timeout timer what] what))

  In Erlang: erlang:start_timer/3."
  {:erlang "erlang:start_timer/3"}
  [duration to message]
  (transactions/refuse "start-timer")
  (SendTimers/after (arguments/finite "start-timer" duration) (send/check-address "start-timer" to) message true))

(defn- millis [^long nanos]
  (if (neg? nanos) false (clock/millis nanos)))

(defn cancel-timer
  "Stops a timer, also one of `magnetar.timer`: the milliseconds that were left, or false if it has fired or was stopped.

  Once it has returned, nothing is sent and no call begins any more; a call that runs goes on. Of an interval that runs, it is
  the time until the next call, and false if the interval has ended with its owner. Fails with :magnetar/not-a-timer for what
  no function has started as a timer, such as a reference of `make-ref` or `monitor`.

    (cancel-timer timer) ;=> 480

  In Erlang: erlang:cancel_timer/1."
  {:erlang "erlang:cancel_timer/1"}
  [timer]
  (millis (timers/cancel "cancel-timer" timer)))

(defn read-timer
  "The milliseconds until a timer fires, also one of `magnetar.timer`, or false if it has fired or was stopped.

    (read-timer timer) ;=> 480

  In Erlang: erlang:read_timer/1."
  {:erlang "erlang:read_timer/1"}
  [timer]
  (millis (timers/left "read-timer" timer)))

;; ---- receive

(defmacro receive
  "Takes the first message, in the order of arrival, that a clause matches, and does the body of that clause; waits if there is none.

    (receive
      [:add n] (recur (+ total n))
      [:get (from :guard pid?)] (! from total)
      :stop total
      (from ch v (handle v))
      (after 500 :silence))

  The clauses are pairs of a pattern and a body, see `magnetar.match`; a local that is bound already matches by value. Then any number
  of (from channel value body..), which are waited for together with the messages, and one of them happens: the mailbox is looked through
  first. At last (after milliseconds body..): 0 does not wait, :infinity waits without end. Bodies are in tail position, so `recur` works. What no
  clause matches stays in the mailbox. A guard that throws does not match, which is reported once.

  Fails at once outside of a process and in a dosync. Throws when the process has to exit.

  In Erlang: receive .. after .. end."
  {:erlang "receive"}
  [& clauses]
  (receive/expand &env &form clauses))

(defmacro after
  "The last clause of a `receive`: (after milliseconds body..). Anywhere else it is a mistake."
  [& _]
  (throw (ex-info "(after ..) stands outside of a receive: move it into one, behind its last clause." {:magnetar/reason :magnetar/after-outside})))

(defmacro from
  "A clause of a `receive`: (from channel value body..). Anywhere else it is a mistake."
  [& _]
  (throw (ex-info "(from ..) stands outside of a receive: move it into one, behind its patterns." {:magnetar/reason :magnetar/from-outside})))

(defn flush
  "Takes all messages out of the mailbox; returns them, in the order of arrival. Fails in a dosync.

    (flush) ;=> [:a :b]

  In Erlang's shell: flush()."
  []
  (transactions/refuse "flush")
  (let [me (current "flush")]
    (loop [messages []]
      (let [message (.next (.receiver me) 0)]
        (cond
          (nil? message) messages
          (identical? Receiver/NULL message) (recur (conj messages nil))
          :else (recur (conj messages message)))))))

;; ---- die

(defn exit
  "Ends this process for the reason, or sends an exit signal to another one.

  (exit reason) throws; if nobody catches it, links and monitors learn the reason. (exit pid reason) returns true at once: :normal is
  ignored by others than the sender itself, :kill cannot be trapped and lets the process die as :killed, any other reason ends it wherever it
  waits, unless it traps exits and gets the message [:EXIT from reason]. To a dead pid: true.

    (exit pid :shutdown)

  In Erlang: exit/1, exit/2."
  {:erlang "erlang:exit/2"}
  ([reason]
   (current "exit")
   (throw (Send/exit reason)))
  ([pid reason]
   (Send/exit (check-pid "exit" pid) reason)
   true))

(defn exit-reason
  "Returns the exit reason that a caught exit or error carries.

  It is what this process would have died for. Of a cancellation it is :cancelled; of an ExceptionInfo with
  :magnetar/exit, as of a failed call, it is that; of other errors [what the error says, its frames]. An exit is
  an Error, so (catch Exception ..) does not see it. The exit of a process that was told to end by a signal is
  thrown again by its next operation that may wait.

    (try (exit :no-funds) (catch Throwable e (actor/exit-reason e))) ;=> :no-funds

  In Erlang: the Reason of a clause `catch exit:Reason`."
  [error]
  (when-not (instance? Throwable error)
    (arguments/misuse :magnetar/not-an-error
                      (str "`exit-reason` wants what was caught, as in (catch Throwable e (exit-reason e)); this is "
                           (arguments/show error) ".")
                      {:value error}))
  (language/reason error))

(defn alive?
  "True until the process ends, or is told to.

    (alive? (self)) ;=> true

  In Erlang: is_process_alive/1."
  {:erlang "erlang:is_process_alive/1"}
  [pid]
  (info/alive? (check-pid "alive?" pid)))

;; ---- links and monitors

(defn link
  "Links this process and another: if one dies abnormally, the other does for the same reason, or gets [:EXIT pid reason] if it traps exits.
  Returns true.

  Once is enough; links do not count. To a dead process: the message with the reason :noproc if this process traps exits, else an
  IllegalArgumentException.

    (link pid)

  In Erlang: link/1."
  {:erlang "erlang:link/1"}
  [pid]
  (or (Links/link (current "link") (check-pid "link" pid))
      (arguments/misuse :noproc (str "Cannot link " (self) " to " pid ", which is dead (:noproc): use `spawn-link`, or trap exits.") {:pid pid})))

(defn unlink
  "Undoes a link, if there is one: from now on the death of the other does nothing here. Returns true.

    (unlink pid)

  In Erlang: unlink/1."
  {:erlang "erlang:unlink/1"}
  [pid]
  (Links/unlink (current "unlink") (check-pid "unlink" pid))
  true)

(defn monitor
  "Watches a process, given by pid or name: when it dies, this process gets [:DOWN reference :process what reason]. Returns the reference.

  `what` is the pid, or [name node] where a name was given, or the name in a registry as it was given. If it is
  dead already, the message comes at once with :noproc; of a name on another node, with :noconnection. Options:
  :tag, another word than :DOWN; :alias, which makes the reference an address of this process: :explicit-unalias
  until `unalias`, :demonitor until the monitor ends, :reply-demonitor until the first message to it, which ends
  the monitor too.

    (let [ref (monitor pid)] (receive [:DOWN ref :process _ reason] reason))

  In Erlang: monitor/2,3."
  {:erlang "erlang:monitor/2"}
  ([target] (monitor target nil))
  ([target {:keys [alias tag] :as options}]
   (arguments/options "monitor" [:alias :tag] options)
   (monitors/monitor target alias tag)))

(defn demonitor
  "Ends a monitor; returns true.

  A message of it that is in the mailbox stays, but with {:flush true}. With {:info true} it returns whether the monitor was active.

    (demonitor ref {:flush true})

  In Erlang: demonitor/1,2."
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
  "Sets a flag of this process; returns what it was. The one flag is :trap-exit, true or false: exit signals become messages [:EXIT pid reason].

    (flag :trap-exit true)

  In Erlang: process_flag/2."
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
  "Gives a process a name that messages can be sent to; returns true.

  The name is free again when the process dies. Fails with an IllegalArgumentException if the name is taken, if the process has one, or is dead.
  [:via registry name] is a name in a registry: a namespace or a map with register-name, unregister-name and whereis-name, as
  `magnetar.registry` is; [:global name] one of `magnetar.global`. Of those a process may have many. Wherever a name will do, these will.

    (register :logger (spawn log))

  In Erlang: register/2."
  {:erlang "erlang:register/2"}
  [name pid]
  (let [kind (kind-of "register" name)
        pid (check-pid "register" pid)]
    (if (= :via kind)
      (address/register-via name pid)
      (ProcessTable/register name pid))
    true))

(defn unregister
  "Takes a name back; returns true. Fails if nobody has it.

    (unregister :logger)

  In Erlang: unregister/1."
  {:erlang "erlang:unregister/1"}
  [name]
  (let [via? (= :via (kind-of "unregister" name))]
    (when-not (if via? (address/find-pid name) (ProcessTable/unregister name))
      (arguments/misuse :magnetar/no-such-name (str "Cannot unregister " (arguments/show name) ": no process has this name.") {:name name}))
    (when via? (address/release-via name))
    true))

(defn whereis
  "The pid of the process that has the name, or nil.

    (whereis :logger)

  In Erlang: whereis/1."
  {:erlang "erlang:whereis/1"}
  [name]
  (if (= :via (kind-of "whereis" name))
    (address/find-pid name)
    (ProcessTable/whereis name)))

(defn registered
  "The names that processes have, in no order.

    (registered) ;=> [:logger]

  In Erlang: registered/0."
  {:erlang "erlang:registered/0"}
  []
  (vec (ProcessTable/names)))

(defn make-ref
  "A reference: a value that is equal to no other. A receive whose every clause asks for it does not look at older messages.

    (let [ref (make-ref)] (! server [:get ref (self)]) (receive [ref answer] answer))

  In Erlang: make_ref/0."
  {:erlang "erlang:make_ref/0"}
  []
  (Refs/make))

(defn make-alias
  "A reference that is an address of this process until `unalias`, or with :reply until a message came. One read from text is no address.

    (let [me (make-alias :reply)] (! server [:get me]) ..)

  In Erlang: alias/0,1."
  {:erlang "erlang:alias/1"}
  ([] (make-alias :explicit-unalias))
  ([mode]
   (when-not (#{:explicit-unalias :reply} mode)
     (arguments/misuse :magnetar/bad-alias (str "An alias is :explicit-unalias or :reply; this is " (arguments/show mode) ".") {:alias mode}))
   (Aliases/open (current "make-alias") (= :reply mode))))

(defn unalias
  "Ends an alias of this process: what is sent to it from now on is dropped. True if it was one.

    (unalias me)

  In Erlang: unalias/1."
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
  "The dictionary of this process, a map.

  In Erlang: get/0."
  {:erlang "erlang:get/0"}
  []
  (current-process/pdict))

(defn pget
  "The value of a key in the dictionary of this process, or nil.

    (pget :request)

  In Erlang: get/1."
  {:erlang "erlang:get/1"}
  [key]
  (current-process/pget key))

(defn pput
  "Sets a key in the dictionary of this process; returns what was there.

    (pput :request 17)

  In Erlang: put/2."
  {:erlang "erlang:put/2"}
  [key value]
  (current-process/pput key value))

(defn perase
  "Removes a key from the dictionary of this process, or all; returns what was there.

    (perase :request)

  In Erlang: erase/0,1."
  {:erlang "erlang:erase/1"}
  ([] (current-process/perase))
  ([key] (current-process/perase key)))

(defn process-info
  "What is known of a process, as a map, or one item of it; nil if it is dead. Asks nothing of the process itself.

  :pid :label :status :registered-name :links :monitors :monitored-by :message-queue-len :trap-exit :group-leader :dictionary
  :current-function, :code (from namespace to version: what a server, or a process that was given a var, runs), and while it waits :waits-for and :since-ms. :status is :running, :waiting, :suspended or :exiting.

    (process-info pid :message-queue-len) ;=> 3

  In Erlang: process_info/1,2."
  {:erlang "erlang:process_info/2"}
  ([pid] (info/of (check-pid "process-info" pid)))
  ([pid item] (get (info/of (check-pid "process-info" pid)) item)))

;; ---- control

(defn- live ^LocalProcess [operation pid]
  (or (ProcessTable/reach (check-pid operation pid))
      (arguments/misuse :noproc (str "`" operation "`: " pid " is dead (:noproc).") {:pid pid})))

(defn- check-other
  "Refuses what a process cannot do to itself."
  [operation pid why]
  (when-some [me (LocalProcess/current)]
    (when (= pid (.pid me))
      (arguments/misuse :magnetar/oneself (str "`" operation "` was called by " pid " for itself: " why) {:pid pid}))))

(defn group-leader
  "The group leader of this process, which its children inherit; with two arguments sets that of a process and returns true.

    (group-leader pid (self))

  In Erlang: group_leader/0,2."
  {:erlang "erlang:group_leader/0"}
  ([] (.leader (current "group-leader")))
  ([pid leader]
   (.setLeader (live "group-leader" pid) (check-pid "group-leader" leader))
   true))

(defn suspend-process
  "Lets a process take no message until it was resumed as often as suspended; returns true. What it does meanwhile goes on until it receives.

  It stays suspended when the process that suspended it dies: who watches over it has to resume it. Fails for oneself, who could not resume.

    (suspend-process pid)

  In Erlang: erlang:suspend_process/1, which also stops code that computes, and ends with the process that called it."
  {:erlang "erlang:suspend_process/1"}
  [pid]
  (check-other "suspend-process" pid "nobody would be there to resume it. Let another process do it.")
  (.suspend (.receiver (live "suspend-process" pid)))
  true)

(defn resume-process
  "Takes one `suspend-process` back; returns true. Fails if there is none.

    (resume-process pid)

  In Erlang: erlang:resume_process/1."
  {:erlang "erlang:resume_process/1"}
  [pid]
  (or (.resume (.receiver (live "resume-process" pid)))
      (arguments/misuse :magnetar/not-suspended (str "`resume-process`: " pid " is not suspended.") {:pid pid})))

(defn trace
  "Sends this process [:trace pid :receive message] and [:trace pid :send message to] for what a process receives and sends from now on; with
  false no longer. Returns true. Fails for oneself: each message would be told of in another one.

    (trace pid true)

  In Erlang: erlang:trace/3 with send and 'receive'."
  {:erlang "erlang:trace/3"}
  [pid on?]
  (when on?
    (check-other "trace" pid "each message would be told of in another one, without end. Let another process trace it."))
  (.trace (.receiver (live "trace" pid)) (when on? (self)))
  true)
