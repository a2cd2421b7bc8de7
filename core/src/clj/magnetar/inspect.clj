(ns magnetar.inspect
  "Shows what the program is doing now, as plain data.

  runtime             what Magnetar runs on
  fibers, fiber-info  the fibers that have not ended, and what each waits for
  processes           the processes, and what each does
  tree, print-tree    all that runs or waits, and what belongs to what
  top                 what uses the processor and takes messages
  restarts            the deaths under each supervisor, and how many more it allows
  deadlocks           cycles of waits that nothing can end, and standstills
  why-stuck           the chain of waits that leads to a cause
  leaks               what waits for something that cannot come
  resource            wraps a connection pool, to record which threads hold its connections
  mailbox             the messages in the mailbox of a process, and why they are not taken
  dump                deadlocks, why-stuck, restarts, long mailboxes and tree as data to be written
  analyze             reads a dump, or a thread dump of the JDK
  on-signal           prints the state when a signal arrives
  redact-with         hides values of the program
  tables              the tables of processes
  zombies             processes that were killed and do not end
  dead-letters        messages that no process got
  offload             the threads for work that would hold a carrier
  start-watchdog      names fibers that hold their carrier

  Once it is loaded, `clojure.datafy/datafy` shows pids, references, scopes, forks and tables as maps. `nav`
  leads from a process to its children, and to the state of a server. The server is asked for its state only
  then.

  Require it as `[magnetar.inspect :as inspect]`."
  (:require
   [clojure.string :as str]
   [magnetar.impl.actor.info :as actor]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.hooks :as hooks]
   [magnetar.impl.inspect.analysis :as analysis]
   [magnetar.impl.inspect.data]
   [magnetar.impl.inspect.dump :as dump]
   [magnetar.impl.inspect.leaks :as leaks]
   [magnetar.impl.inspect.mailbox :as mailbox]
   [magnetar.impl.inspect.restarts :as restarts]
   [magnetar.impl.inspect.shown :as shown]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.inspect.standstill :as standstill]
   [magnetar.impl.inspect.stuck :as stuck]
   [magnetar.impl.inspect.top :as top]
   [magnetar.impl.inspect.tree :as tree]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest]
   [magnetar.impl.table.life :as life])
  (:import
   (java.io Writer)
   (java.util.function Consumer)
   (magnetar.kernel.channel Select Select$Operation)
   (magnetar.kernel.inspect FiberInfo RuntimeInfo Watchdog Watchdog$Holding)
   (magnetar.kernel.process DeadLetters DeadLetters$Letter LocalProcess Pid ProcessTable Zombie Zombies)
   (magnetar.kernel.scope Fork Offload)))

(set! *warn-on-reflection* true)

(defn runtime
  "Returns what Magnetar runs on, a map.

    :wake-up    how fibers are woken: by :hand-off, on the carrier of the thread that wakes them, or else by
                :unpark. :hand-off needs a JVM that was started with --add-opens
                java.base/java.lang=ALL-UNNAMED (bin/magnetar does) and without -Dmagnetar.hand-off=false.
    :go-blocks  how go blocks are started, so that the garbage collector can collect a lost one: :untracked,
                past the JVM's set of threads, where that is open and known; else each by an :executor of its
                own
    :carriers   the number of carriers now, the platform threads that run fibers, with the added ones
    :added-carriers  how many of them were added because fibers held all others and more waited, at
                most 8 or -Dmagnetar.added-carriers=N. They are removed when fewer fibers hold one, one a
                second.
    :fibers     the number of fibers that have not ended
    :lost-go-blocks  how many go blocks the garbage collector has removed since the start, because nothing
                could reach what they waited for; 0 with -Dmagnetar.track-go-blocks=true
    :timers     the number of timers that have not ended
    :jdk :java-home :clojure   the versions, and the folder of the JDK

  Example:

    (inspect/runtime) ;=> {:wake-up :hand-off, :jdk \"25.0.3\", :clojure \"1.12.6\", :carriers 2, :fibers 0, ..}"
  []
  (let [info (RuntimeInfo/now)]
    {:wake-up (if (.handsOver info) :hand-off :unpark)
     :go-blocks (if (.startsUntracked info) :untracked :executor)
     :jdk (System/getProperty "java.version")
     :java-home (System/getProperty "java.home")
     :clojure (clojure-version)
     :carriers (RuntimeInfo/carriers)
     :added-carriers (.addedCarriers info)
     :fibers (.fibers info)
     :lost-go-blocks (leaks/lost-so-far)
     :timers (.timers info)}))

(defn- operation-data [^Select$Operation operation]
  (if-some [item (.item operation)]
    [(.port operation) item]
    (.port operation)))

(defn- waited-on [on]
  (if (instance? Select on) (mapv operation-data (.operations ^Select on)) on))

(defn- info-data [^FiberInfo info]
  (let [thread (.thread info)
        words (.waitsFor info)]
    (cond-> {:name (.getName thread)
             :id (.threadId thread)
             :state (keyword (.toLowerCase (str (.getState thread))))}
      words (assoc :waits-for words
                   :on (waited-on (.on info))
                   :since-ms (quot (.waitedNanos info) 1000000)))))

(defn fiber-info
  "Returns what a thread does, a map.

  Its keys are :name :id :state, and if the thread waits in an operation of Magnetar also :waits-for :on
  :since-ms. :on is the channel, or for a select the vector of its clauses.

  Never waits: nothing is asked of the thread itself.

  Throws an IllegalArgumentException for what is not a Thread.

  Example:

    (inspect/fiber-info (Thread/currentThread))"
  [thread]
  (when-not (instance? Thread thread)
    (throw (errors/illegal-argument :magnetar/not-a-thread
                                    (str "`fiber-info` wants a Thread; this is " (arguments/show thread) ".") {:value thread})))
  (info-data (FiberInfo/of thread)))

(defn fibers
  "Returns a vector of `fiber-info` of all fibers that have not ended.

  They are in the order in which they were started.

  Never waits: nothing is asked of the fibers themselves.

  Erlang: processes/0 with process_info/1."
  []
  (into [] (map info-data) (sort-by #(.threadId (.thread ^FiberInfo %)) (FiberInfo/all))))

(defn processes
  "Returns a vector of `magnetar.actor/process-info` of all processes that live.

  They are in the order in which they were started. Reading the stack of each takes some microseconds a
  process.

  Never waits: nothing is asked of the processes themselves.

  Example:

    (keep :registered-name (inspect/processes)) ;=> (:logger)

  Erlang: processes/0 with process_info/1."
  []
  (into [] (keep actor/of) (sort (map #(.pid ^LocalProcess %) (ProcessTable/all)))))

(defn- pid-of-name [operation name]
  (or (ProcessTable/whereis name)
      (arguments/misuse :magnetar/no-such-name
                        (str "`" operation "` wants what lives, and no process has the name " (arguments/show name) "."
                             (when-some [near (suggest/closest name (filter keyword? (ProcessTable/names)))] (str " Is " near " meant?")))
                        {:name name})))

(defn- in-id
  "The pid or the number in an :id of the tree, such as [:process pid]; anything else as it is."
  [x]
  (if (and (vector? x) (= 2 (count x)) (#{:process :go :fork :fiber :thread} (first x))) (second x) x))

(defn- pid-of
  "The pid of a process that is given by its pid, its registered name, or the :id of `tree`."
  ^Pid [operation x]
  (cond
    (instance? Pid x) x
    (instance? Pid (in-id x)) (in-id x)
    (or (keyword? x) (symbol? x)) (pid-of-name operation x)
    :else (throw (errors/illegal-argument :magnetar/not-a-pid
                                          (str "`" operation "` wants a registered name, a pid as `spawn`, `self` or `whereis` return it, or the :id of a process in `tree`; this is "
                                               (arguments/show x) ".")
                                          {:value x}))))

(defn mailbox
  "Returns what is in the mailbox of a process, a map; nil if the process is dead.

  The argument is a pid, a registered name, or the :id of a process in `tree`.

    :messages         the number of messages in it
    :capacity         the most it holds; nil if it has no limit
    :when-full        what happens to a message when it is full, as in `magnetar.actor/spawn-opt`
    :dropped          how many messages were dropped because it was full. With :drop-old, the message to be
                      dropped may be the one that the process is taking. It counts as dropped until the
                      process has taken it.
    :waiting-senders  the number of senders that wait for room
    :oldest           the oldest messages as text, at most 10, each of some 120 characters at most
    :skipped-by       only if the process waits in a receive although it has messages: that receive, a map of
                      :at and :clauses. It has tried each message, and no clause matched. The clauses are
                      known where local variables can be read, see `why-stuck`.

  Call it twice to see whether the mailbox grows. `redact-with` hides what must not be shown.

  Never waits: nothing is asked of the process.

  Throws an IllegalArgumentException for a name that no process has, and for what is neither a name nor a pid.

  Example:

    (select-keys (inspect/mailbox pid) [:messages :oldest]) ;=> {:messages 1, :oldest [\"[:stop]\"]}

  Erlang: process_info(Pid, messages)."
  [process]
  (when-some [process (ProcessTable/reach (pid-of "mailbox" process))]
    (mailbox/of process)))

(defn analyze
  "Returns what a dump says, of this program or of another one.

  x is what `dump` returned, or a java.io.File, a java.nio.file.Path, or the name of a file. The file has what
  `dump` returned, as EDN, or a thread dump of the JDK: from `jcmd PID Thread.dump_to_file FILE`, also as JSON
  with -format=json, from `jstack -l PID`, or what the program printed on `kill -QUIT PID`.

  The answer is a map. With :source :magnetar it has the keys of `dump`. With :source :jdk it has

    :threads    the number of threads in the dump
    :deadlocks  as `deadlocks` returns them: cycles over monitors, and with `jstack -l` over locks
    :why-stuck  as `why-stuck` returns it, over the same. A thread dump does not have the time that a wait has
                lasted, so short waits are among them.
    :waiting    what the other threads of the program wait for: maps of :text and :count, one for each line
    :tree       the threads, as `tree` returns them. The thread of a process of OTP is named by the path to
                it, such as :shop/:shop-supervisor/:stock, and the tree is made from these names.
    :not-shown  a sentence about what such a dump does not show
    :go-blocks-not-shown-at-least  the least number of go blocks that it does not show: those that ran, or one
                if there are monitors without a known owner

  `jstack` and `kill -QUIT` stop all threads at one instant, so findings in such a dump are :exact. The jcmd
  command reads one thread after the other, so findings in its dump are :likely.

  The JDK shows go blocks only if the program was started with -Dmagnetar.track-go-blocks=true. With it, lost
  go blocks are not collected.

  Throws an IllegalArgumentException if x is not a dump.

  Example:

    (map :text (:deadlocks (inspect/analyze \"threads.txt\")))
    ;=> (\"thread a waits at shop.clj:7 for the monitor of a Till of thread b, which waits ..\")

  Erlang: crashdump_viewer."
  {:added "0.2"}
  [x]
  (analysis/of x))

(defn on-signal
  "Prints the state of the program on standard error whenever a signal arrives.

  The state is what `bin/magnetar inspect PID` prints: deadlocks, what is blocked, restarts and the tree.
  Returns a java.lang.AutoCloseable, whose `close` restores the former handler.

  Never waits. A signal is handled on a thread of the JVM, also while all carriers are occupied. Throws an
  IllegalArgumentException for an unknown signal or option. Throws an IllegalStateException for a signal that
  the JVM uses itself, such as \"QUIT\" and \"USR2\", that ends a program, such as \"TERM\", or that no program can
  handle.

  Options:

    :signal  the name without SIG, by default \"USR1\": `kill -USR1 PID` sends it
    :out     the java.io.Writer to print on, by default *err* as it is now

  Example:

    (def printing (inspect/on-signal {:signal \"USR1\"}))
    (.close printing)

  Erlang: has no such function. Go: SIGQUIT prints all stacks, and ends the program."
  {:added "0.2" :arglists '([] [{:keys [signal out]}])}
  ([] (on-signal {}))
  ([{:keys [signal out] :or {signal "USR1", out *err*} :as options}]
   (arguments/options "on-signal" [:signal :out] options)
   (when-not (string? signal)
     (arguments/misuse :magnetar/bad-signal (str "`on-signal` wants the name of a signal, such as \"USR1\"; this is " (arguments/show signal) ".") {:value signal}))
   (when-not (instance? Writer out)
     (arguments/misuse :magnetar/bad-writer (str "`on-signal` prints on a java.io.Writer, such as *err*; this is " (arguments/show out) ".") {:value out}))
   ((requiring-resolve 'magnetar.impl.inspect.signals/on-signal) signal out)))

(defn redact-with
  "Sets a function that hides parts of the program's values before they are shown.

  f gets a message, a reason or another value of the program, and returns what is shown in its place. It
  applies to `mailbox`, `restarts`, `zombies`, `dead-letters`, `dump` and `datafy`, to `magnetar.trace` and
  `report/pst`, and to the context values of a crash report, where f gets the whole map. If f throws, a text
  such as \"(not shown: java.lang.ClassCastException)\" is shown. nil removes the function. Returns nil.

  Example:

    (inspect/redact-with (fn [x] (if (:card x) (assoc x :card \"..\") x)))
    (inspect/redact-with nil)"
  {:added "0.2"}
  [f]
  (when f (arguments/function "redact-with" f "(inspect/redact-with (fn [x] \"..\"))"))
  (shown/redact-with f))

(defn tree
  "Returns all that runs or waits, as trees of what belongs to what.

  The answer is a vector of maps.

    :kind       :application, :supervisor, :process, :scope, :fork, :go, :fiber (another virtual thread) or
                :thread
    :name       a registered name, or what was started and where
    :id         as in the chain of `deadlocks`
    :waits-for  what it waits for, in words; not there if it runs, nor of a scope
    :at         FILE:LINE of the innermost frame that belongs to the program
    :since-ms   for how long it has waited, and :left-ms until its time limit
    :messages   of a process, how many are in its mailbox
    :children   what belongs to it

  An application has its supervisor below it, a supervisor its children, a fiber the scopes that it has
  opened, and a scope its forks. A server is below the process that started it. Other processes, go blocks
  and threads are at the top, and so is a server whose parent has ended.

  Siblings are alike if they have the same name and the same kind of wait, and nothing below them. The first
  :limit of them are shown, by default 20. A map with :more, the number of the others, follows. Of a deep tree
  100 levels are shown. Below them stands a map with :levels, the number of the others.

  Never waits: no message is sent to what is shown. Reads the stacks of the nodes that are shown.

  Example:

    (map (juxt :kind :name) (inspect/tree)) ;=> ([:application \":shop\"] [:go \"go shop.clj:12\"] [:thread \"main\"])

  See also `print-tree`.

  Erlang: the tab Applications of observer."
  {:added "0.2" :arglists '([] [{:keys [limit]}])}
  ([] (tree {}))
  ([options]
   (arguments/options "tree" [:limit] options)
   (tree/tree (snapshot/now) (arguments/whole ":limit" (:limit options tree/usual-limit)))))

(defn print-tree
  "Prints trees, by default what `tree` returns, a line for each node; returns nil.

  Throws an IllegalArgumentException for what is not a sequence of such trees."
  {:added "0.2"}
  ([] (print-tree (tree)))
  ([trees]
   (when-some [[culprit] (tree/no-node trees)]
     (arguments/misuse :magnetar/no-tree
                       (str "`print-tree` wants trees as `tree` returns them, a vector of maps with :kind, a keyword, and :name, a string; this is "
                            (arguments/show culprit) ".")
                       {:value culprit}))
   (println (tree/text trees))))

(defn top
  "Measures for a while, and returns which processes, fibers and threads did most.

  The answer is a vector of maps, in the order of :by. Each has the keys of a node of `tree`, except
  :children, and

    :cpu             the cores it used on average, such as 0.5
    :messages-per-s  of a process, the messages it took each second
    :messages        of a process, how many are in its mailbox
    :age-ms          how long ago Magnetar started it, to about a tenth of a second

  Fibers that have ended meanwhile are in no row. :cpu is an estimate: the JDK's flight recorder samples the
  threads that run, each 10 ms, and the processor time of the JVM is divided in proportion to the samples.

  Blocks for :for, and for half a second more when the JVM has not recorded before. Throws an
  IllegalArgumentException for another option or value, an IllegalStateException in a JVM without the flight
  recorder, and what `magnetar.scope/sleep` throws if it is cancelled.

  Options:

    :for   for how long, as milliseconds or a java.time.Duration; by default 1000
    :by    which of the four keys orders the rows; by default :cpu
    :most  the number of rows, by default 20

  Example:

    (map (juxt :name :cpu) (inspect/top {:for 500, :by :cpu, :most 2})) ;=> ([\":prices\" 0.97] [\"main\" 0.01])

  Erlang: etop, and the tab Processes of observer."
  {:added "0.2" :arglists '([] [{:keys [for by most]}])}
  ([] (top {}))
  ([{:keys [for by most] :or {for top/usual-ms, by :cpu, most top/usual-most} :as options}]
   (arguments/options "top" [:for :by :most] options)
   (when-not (some #{by} top/orders)
     (throw (errors/illegal-argument :magnetar/unknown-order
                                     (str "`top` orders its rows by " (str/join ", " top/orders) "; this is " (arguments/show by) ".") {:value by})))
   (let [most (arguments/whole ":most" most)]
     (top/rows (top/measure (arguments/period ":for" for)) by most))))

(defn- redacted-death [death]
  (merge (update-vals death shown/redacted) (select-keys death [:at])))

(defn restarts
  "Returns the latest deaths under each supervisor, and what it still allows.

  The answer is a vector of maps, one for each supervisor.

    :name :pid  of the supervisor
    :strategy   as in its spec, and :intensity, and the period as :period-ms
    :restarts   how many there were within the last period. The supervisor ends if there is one more than
                :intensity.
    :history    the latest deaths, as in `magnetar.supervisor/history`

  Never waits: a supervisor publishes this, so it can be read also while the supervisor is stuck in the start
  of a child.

  Example:

    (map (juxt :name :restarts :intensity) (inspect/restarts)) ;=> ([\":app\" 1 1])

  Erlang: has no such function; its supervisors report each restart."
  {:added "0.2"}
  []
  (restarts/of (snapshot/now) redacted-death))

(defn deadlocks
  "Returns a vector of cycles of waits that nothing can end, and of standstills.

  Each is a map.

    :kind   :deadlock for a cycle, :standstill for a wait for ever without one
    :of     of a standstill, :program or :scope
    :grade  :exact, or :likely if one of the edges is. A standstill is :likely, and :because says why.
    :text   one sentence that names the members of the cycle and their lines
    :chain  the members: fibers, processes, threads and pools, a vector of maps of :id :name :waits-for :at
            :since-ms. :at is FILE:LINE. The :edge of each, a map of :to :how :grade :because, leads to the
            next member, which has to act before the wait can end. :to is its :id, and :how the kind of wait,
            such as :call or :lock. From a pool, or from an alts over several results, the edge leads to one
            of several that can end the wait; all of them are stuck.

  A cycle leads over calls, starts of processes, ends of processes, full mailboxes, joins, scopes, results of
  go blocks and `a/thread`, futures, locks, monitors, thread pools and connection pools. It is exact where the
  kernel, the JDK or a `resource` knows what can end a wait. Some kinds of edges are likely. A process waits
  for a message, each clause of its receive names a reference, and it monitors the process of such a
  reference. The owner of a task waits for the task. A fiber holds a connection, as its local variables
  suggest. A call of a plain process is likely too, since that may have passed it on, and so are a call that
  another fiber may answer and a scope that another fiber may cancel.

  A wait with a time limit is in no cycle, nor is a wait in Magnetar within a scope that has a deadline, nor a
  call that a server has passed on with :noreply. The exception is a wait for a connection with a limit of a
  second or more. Its map has :limit-ms if the limit is known. A pool is in a cycle if all its connections are
  in use, and all their holders are known and wait.

  A cycle of go blocks to which nothing else leads is found until the next garbage collection, which collects
  the go blocks. With -Dmagnetar.track-go-blocks=true they are kept.

  The owner of a lock of java.util.concurrent.locks is known if the JVM was started with --add-opens
  java.base/java.util.concurrent.locks=ALL-UNNAMED, as bin/magnetar does. Of the readers of a
  ReentrantReadWriteLock at most two are known. With java.base/java.util.concurrent=ALL-UNNAMED it is known
  which thread runs a future, or which pool has it in its queue.

  The owner of a monitor is read from the stack of a waiting virtual thread, which needs --add-opens
  java.base/java.lang=ALL-UNNAMED. A thread that runs is only said to be one that may own it.

  The program is at a standstill if all its fibers, processes and threads wait, in Magnetar for a second or
  more, without a time limit and not for input. No timer is pending, no work is offloaded, and one of them is
  blocked as in `why-stuck`. The :text names the longest chain from a blocked one. If the caller is no thread
  of the program, as with `bin/magnetar inspect` and `on-signal`, joins and waits for the results of go blocks
  count as well, unless their chain ends at a wait for work. A caller that is a thread of the program could
  itself end these.

  A scope is at a standstill if its owner waits for its forks, all of which wait for channels and for each
  other, and nothing else leads to these channels. The rest of the program may go on. It is reported only if
  the caller is no thread of the program, and if all can be read that could hold the channels. So it is not
  reported in a program with tables, with timers that are no time limits, or with offloaded work. Nor is it if
  a thread outside of the scope runs, or is a platform thread of the program that is not idle in a pool.

  No standstill is reported if a cycle explains it, nor in a program of more than 10,000 fibers and threads,
  nor in a simulation. The JVM needs --add-exports java.base/jdk.internal.vm=ALL-UNNAMED, as bin/magnetar has,
  so that all virtual threads can be listed.

  Reads only the stacks of fibers that may be in a cycle, some 20 µs each, and all stacks if all of a program
  or of a scope waits.

  Blocks for some 40 ms if it finds a cycle or a standstill: it checks twice more, after 20 ms each, and
  returns what was there each time. Throws an InterruptedException if the thread is interrupted meanwhile.

  Example:

    (map :text (inspect/deadlocks))
    ;=> (\":billing calls :stock at shop.clj:21, which calls :billing at stock.clj:27.\")

  Erlang: has no such function. Go: \"all goroutines are asleep\"."
  {:added "0.2"}
  []
  (standstill/deadlocks (stuck/with-edges)))

(defn- millis-of
  "The duration in milliseconds; nil for :infinity, and for so many years that their end cannot be computed."
  [what duration]
  (let [nanos (arguments/nanos what duration)]
    (when (< nanos (quot clock/infinite 2))
      (clock/millis nanos))))

(defn leaks
  "Returns a vector of what waits for something that cannot come.

  There is a map for each place.

    :kind     :leak
    :of       :go, :process or :fork
    :grade    :exact for go blocks, :likely for processes and forks
    :because  how that is known
    :name     what was started and where, and :at, FILE:LINE where it waits
    :count    how many there are. The map with the most comes first.
    :text     one sentence

  A go block is lost if nothing can reach what it waits for. The garbage collector proves that, by collecting
  the go block. `leaks` asks the JVM to collect. The go blocks that it names are gone afterwards, as they are
  after any collection. Go blocks that were collected before are not in the answer; `runtime` counts all, as
  :lost-go-blocks. As a control, `leaks` starts a fiber that is lost, and waits until that is collected. With
  -Dmagnetar.track-go-blocks=true no go block is collected, so none is found.

  Without :after that is all. With it, the answer also has what has waited for so long and seems forgotten. A
  process seems forgotten if it has no name, no link and no monitor, waits for a message without a time limit,
  and no waiting fiber is known to hold its pid. A fork seems forgotten if it waits for a channel and no fiber
  is known that can end its wait. A platform thread, a var or an atom may still hold the pid or the channel,
  so an idle server of a healthy program may be among them.

  Blocks for some full collections, in which the whole program may stand still. Throws an
  IllegalStateException if the control is not collected, as with -XX:+DisableExplicitGC.

  Options:

    :after  milliseconds or a java.time.Duration, such as 60000. :infinity is the same as no :after.

  Example:

    (map :text (inspect/leaks))
    ;=> (\"12 of go shop.clj:9 can never go on: nothing can reach the channel that it takes from at shop.clj:10.\")

  Erlang: has no such function. Go: the goroutine leak profile."
  {:added "0.2" :arglists '([] [{:keys [after]}])}
  ([] (leaks {}))
  ([{:keys [after] :as options}]
   (arguments/options "leaks" [:after] options)
   (leaks/now (when (contains? options :after)
                (millis-of ":after" after)))))

(defn resource
  "Returns a javax.sql.DataSource that wraps this one, usually a connection pool.

  It records for `deadlocks` and `why-stuck` which threads wait for a connection, which threads hold one that
  is not closed yet, and at which line they took it. Give it to the code that takes connections. All methods
  go to the pool; `unwrap` gives the pool's own type, and `close` closes a pool that can be closed.

  Without it, only the connections of HikariCP that virtual threads hold are found, in their local variables,
  and the answers are :likely.

  Each connection costs a walk of the stack to its line, and an entry in two maps.

  Throws an IllegalArgumentException if pool is not a DataSource.

  Example:

    (def database (inspect/resource (HikariDataSource. config)))
    (with-open [connection (.getConnection database)] ..)

  Erlang: has no such function."
  {:added "0.2"}
  [pool]
  ((requiring-resolve 'magnetar.impl.inspect.data-source/watched) pool))

(defn- id-of-fiber [{:keys [by-thread]} id]
  (or (by-thread id)
      (arguments/misuse :magnetar/no-such-fiber (str "`why-stuck` knows no fiber and no thread with the :id " id "; `inspect/fibers` has those that have not ended.")
                        {:value id})))

(defn- id-of
  "The id of the node for an argument of `why-stuck`; nil if what it names has ended."
  [snapshot x]
  (let [named (in-id x)]
    (cond
      (int? named) (id-of-fiber snapshot named)
      (instance? Thread x) (snapshot/id-of-thread snapshot x)
      (instance? Fork x) (snapshot/id-of-fork snapshot x)
      (instance? Pid named) (snapshot/id-of-process snapshot named)
      (or (keyword? x) (symbol? x)) (snapshot/id-of-process snapshot (pid-of-name "why-stuck" x))
      :else (throw (errors/illegal-argument :magnetar/nothing-that-waits
                                            (str "`why-stuck` wants a pid, the name of a process, a fork, a Thread, or the :id of a process, fiber or thread; this is "
                                                 (arguments/show x) ".")
                                            {:value x})))))

(defn why-stuck
  "Returns the chain of waits from a fiber or process to its cause, a map.

  Without an argument, or with options, returns a vector of such maps for all that are blocked, one for each
  cause. The cause that blocks the most comes first.

    :kind    :wait
    :grade   :exact, or :likely if one of the edges is
    :text    one sentence that names the members of the chain and their lines
    :chain   the fibers, processes, threads and pools, as in `deadlocks`. The last one has no :edge: it runs,
             or it has ended and still owns a lock, or it waits for something that no fiber is known to do. If
             the chain ends in a cycle, the last :edge leads back into it. If several fibers can reach what
             the last one waits for, and it is not known which of them is to act, its :edge has their ids
             under :any, and no :to.
    :behind  how many are blocked by the same cause, this one included; without an argument only. The cause is
             the last member of the chain, or the object that it waits on. So all fibers that put on a channel
             from which nothing takes have one cause.

  The argument is a pid, the name of a process, a fork, a Thread, an :id of `fibers`, or the :id of a process,
  fiber or thread in `tree`. The answer is nil if it runs, and if a process, fork or Thread has ended.

  Blocked means waiting to go on with something: to put on a channel, to send to a full mailbox, for an
  answer, for a process to be ready, for a lock, a monitor, a connection or a permit of a Semaphore, or to put
  into a queue of java.util.concurrent. A wait for work, for time, for a promise or for the own forks does not
  count. The wait must have lasted for :at-least, a duration, by default 1000 milliseconds. With :infinity the
  answer is empty. A cause that ends by itself is left out: a fiber that sleeps or has a time limit, a queue
  that moves on, or a permit in use. A sleep of ten seconds and more, and a slow tap of a mult, are not.

  An edge over the channel of a result is exact: it leads to the go block or the thread that delivers it. An
  edge over another channel is likely: it leads to a fiber whose local variables lead to the channel, so
  that it can put or take. The :text says that the fiber can reach it. So is an edge over a promise, a latch
  or another object of the JDK. Local variables can be read of virtual threads only, and only if the JVM was
  started with --add-opens java.base/java.lang=ALL-UNNAMED, as bin/magnetar does. They are read of at most
  10,000 fibers, some 40 µs each, the fibers first that few others resemble.

  Blocks for :at-least if there are blocked waits in the JDK, which does not say when a wait began. The answer
  has the ones that still last then. Throws an IllegalArgumentException for an argument of another kind, for
  a name that no process has, and for an :id that no fiber or thread has, or has any more.

  Example:

    (:text (inspect/why-stuck :stock))
    ;=> \":stock calls :courier at stock.clj:27, which waits at courier.clj:9 for a message.\"

  Erlang: process_info(Pid, current_stacktrace), one process at a time."
  {:added "0.2" :arglists '([] [x] [{:keys [at-least]}])}
  ([] (why-stuck {}))
  ([x]
   (let [snapshot (stuck/with-edges)]
     (if (map? x)
       (do
         (arguments/options "why-stuck" [:at-least] x)
         (if-some [ms (millis-of ":at-least" (:at-least x 1000))] (stuck/blocked snapshot ms) []))
       (some->> (id-of snapshot x) (stuck/why snapshot))))))

(defn dump
  "Returns the state of the program as data that can be written as EDN.

  A map of :at, :pid, :jdk, of :lost-go-blocks as in `runtime`, and of :deadlocks :why-stuck :restarts :tree,
  with what the functions of these names return. :mailboxes has what `mailbox` returns, with the :id and :name
  of the process, for the 20 longest mailboxes that have messages. Pids are strings. Values of the program,
  such as the reasons in :restarts, are short text. `bin/magnetar inspect PID dump` prints the same from
  outside.

  Leaks are left out unless they are asked for, since `leaks` asks the JVM for full collections, which stop
  the program and remove lost go blocks. So is `top`, since it starts a recording and takes a second.

  Blocks for a second if there is a blocked wait in the JDK, such as for a lock, as `why-stuck` does. Throws
  what `leaks` and `top` throw.

  Options:

    :leaks  true for :leaks, what `leaks` returns
    :top    for how long to measure, as the :for of `top`: for :top, what `top` returns

  Example:

    (:deadlocks (inspect/dump)) ;=> []"
  {:added "0.2" :arglists '([] [{:keys [leaks top]}])}
  ([] (dump {}))
  ([{:keys [leaks top] :as options}]
   (arguments/options "dump" [:leaks :top] options)
   (dump/now {:leaks? (arguments/flag ":leaks" leaks)
              :top-nanos (when (some? top) (arguments/period ":top" top))})))

(defn tables
  "Returns a vector of `magnetar.table/info` of all tables.

  They are in the order of their owners' pids.

  Never waits: nothing is asked of the owners.

  Example:

    (map (juxt :name :owner :size) (inspect/tables))

  Erlang: ets:all/0, and ets:i/0."
  {:added "0.1"}
  []
  (into [] (keep life/info) (life/all)))

(defn- zombie-data [^Zombie zombie]
  (let [thread (.thread zombie)]
    {:pid (.pid zombie)
     :reason (shown/redacted (.reason zombie))
     :since-ms (quot (.nanos zombie) 1000000)
     :thread thread
     :stack (if thread (vec (.getStackTrace ^Thread thread)) [])}))

(defn zombies
  "Returns a vector of the processes that were killed and whose threads run on.

  Each is a map of :pid :reason :since-ms :thread :stack, the longest first. For all other processes a zombie
  is dead: what it sends is dropped. A process that catches the kill, or computes without ever calling the
  library, stays a zombie until it ends by itself; :stack says where it is. A simulation has zombies of its
  own, and virtual time.

  Example:

    (inspect/zombies) ;=> [{:pid pid, :reason :killed, :since-ms 5000, ..}]

  Erlang: has no zombies, because a process can be stopped anywhere."
  []
  (mapv zombie-data (Zombies/all)))

(defn- letter-data [^DeadLetters$Letter letter]
  {:to (.to letter)
   :message (shown/shown-text (.message letter))
   :from (.from letter)
   :line (.line letter)})

(defn dead-letters
  "Returns the messages that no process got, {:count n :last [..]}.

  A message is one if the process was dead or its mailbox dropped the message. :count counts all. :last has
  the last 100 that were kept, at most ten a second, the oldest first. Each is a map of :to and :message as
  text, :from the thread that sent it, :line the source line. A simulation has dead letters of its own, in
  virtual time. Only the text of a message is kept. The function of `redact-with` gets the data that is read
  from the text, and what cannot be read, such as a text that was cut, is then not shown.

  Example:

    (inspect/dead-letters) ;=> {:count 1, :last [{:to pid, :message \":hello\", :line line, ..}]}

  Erlang: such messages vanish. Akka has dead letters."
  []
  {:count (DeadLetters/count)
   :last (mapv letter-data (DeadLetters/last))})

(defn offload
  "Returns the state of the threads of `magnetar.scope/offload`, a map.

  :limit is how many may work at a time. :threads is how many there are, :running how many have work. :queued
  pieces of work wait for a thread.

  Example:

    (inspect/offload) ;=> {:limit 8, :threads 2, :running 1, :queued 0}"
  []
  (let [info (.info Offload/SHARED)]
    {:limit (.limit info)
     :threads (.threads info)
     :running (.running info)
     :queued (.queued info)}))

(defn set-failure-hook
  "Deprecated: use `magnetar.report/add-hook`, which serves several libraries.

  Adds a hook of failures in place of the one that this has added before; nil adds none. Returns nil.

  Example:

    (inspect/set-failure-hook nil) ; (report/remove-hook :failure f)"
  {:deprecated "0.2"}
  [f]
  (hooks/set-one :failure f)
  nil)

(defn- holding-data [^Watchdog$Holding holding]
  {:site (.site holding)
   :thread (.thread holding)
   :carrier (.carrier holding)
   :held-ms (quot (.nanos holding) 1000000)
   :stack (vec (.stack holding))})

(defn- report-holding [{:keys [site ^Thread thread held-ms carrier stack]}]
  (let [^Throwable error
        (ex-info (str "The " site " has held its carrier, " carrier ", for " held-ms
                   " ms: let it wait in a way that releases the carrier, or run it with magnetar.scope/offload.")
          {:magnetar/reason :magnetar/holds-carrier :site site :held-ms held-ms :carrier carrier})]
    (.setStackTrace error (into-array StackTraceElement stack))
    (reports/notice site thread error)))

(defn- limit-nanos ^long [limit]
  (let [nanos (try (clock/nanos limit) (catch IllegalArgumentException _ 0))]
    (if (< 0 nanos clock/infinite)
      nanos
      (throw (errors/illegal-argument :magnetar/bad-duration
                                      (str "The :limit of a watchdog is a duration above 0; this is " (arguments/show limit) ".") {:limit limit})))))

(defn start-watchdog
  "Starts a watchdog that names fibers which hold their carrier for too long.

  Such a fiber computes, or waits in a call in which a virtual thread does not release its carrier: reading a
  file, native code, the initializer of a class. The watchdog checks eight times within the limit. It names a
  fiber once for each time. Started with the system property magnetar.watchdog, in milliseconds, a program
  has a watchdog from the moment that this namespace is loaded.

  Returns the watchdog; end it with `stop-watchdog`.

  Throws an IllegalArgumentException for a :limit that is not a duration above 0.

  Options:
    :limit   how long a fiber may hold its carrier, a duration. Default 100 ms
    :report  a function of {:site :thread :carrier :held-ms :stack}, called on the watchdog's thread. Default:
             hands a failure with that stack to the hooks of failures (`magnetar.report`)

  Example:

    (inspect/start-watchdog {:limit 50
                     :report (fn [{:keys [site held-ms]}] (println site \"held its carrier for\" held-ms \"ms\"))})

  Erlang: long_schedule of system_monitor/2. Go has the preemption requests of sysmon."
  ([] (start-watchdog nil))
  ([{:keys [limit report] :or {limit 100} :as options}]
   (arguments/options "start-watchdog" [:limit :report] options)
   (let [report (or (arguments/option-function :report report "println") report-holding)]
     (doto (Watchdog. (limit-nanos limit) (reify Consumer (accept [_ holding] (report (holding-data holding)))))
       (.start)))))

(defn stop-watchdog
  "Ends a watchdog; returns nil.

  Throws an IllegalArgumentException for what is not a watchdog.

  Example:

    (inspect/stop-watchdog (inspect/start-watchdog))"
  [watchdog]
  (when-not (instance? Watchdog watchdog)
    (throw (errors/illegal-argument :magnetar/not-a-watchdog
                                    (str "`stop-watchdog` wants what `start-watchdog` returned; this is " (arguments/show watchdog) ".") {:value watchdog})))
  (.close ^Watchdog watchdog))

(defonce ^:private watchdog-of-the-property
  (let [limit (Watchdog/limitOfProperty)]
    (when (pos? limit) (start-watchdog {:limit limit}))))
