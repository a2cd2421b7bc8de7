(ns magnetar.test
  "The simulator, and fixtures for clojure.test.

  simulate        runs a body under a seeded scheduler, in virtual time
  check           runs it under many schedules, and shrinks what fails
  start-node, on-node, crash-node, restart-node, nodes   machines of a simulation
  network, endpoint, cut, heal, slow, end-faults   a network between them
  with-virtual-clock, now   real threads, but time passes when they all wait
  await-down, eventually    wait with a limit, and without sleeping
  restart-storm   kills the children of a supervisor again and again

  in-a-process    each test is a process: self, receive and links work in it
  without-leaks   fails a test that leaves processes or fibers behind
  without-deadlocks   fails a test that does not end, and says which fiber waits for what

    (use-fixtures :each magnetar.test/without-leaks magnetar.test/in-a-process)

  Require it as `[magnetar.test :as mt]`, beside `[clojure.test :refer [deftest is use-fixtures]]`."
  (:require
   [clojure.test :as t]
   [magnetar.actor :as actor]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.scope :as scope]
   [magnetar.test.clock :as clock]
   [magnetar.test.network :as network]
   [magnetar.test.nodes :as nodes]
   [magnetar.test.options :as checked]
   [magnetar.test.repeats :as repeats]
   [magnetar.test.report :as report]
   [magnetar.test.runs :as runs]
   [magnetar.test.search :as search]
   [magnetar.test.storm :as storm])
  (:import
   (magnetar.kernel.fiber Fibers)
   (magnetar.kernel.inspect FiberInfo)
   (magnetar.kernel.process LocalProcess Pid Pid$Ended ProcessTable)))

(set! *warn-on-reflection* true)

;; --- simulations

(defn- refuse-unlike
  "Throws if a further run of f differs from `run`; there are :repeats of them."
  [run {:keys [repeats seed]} run-once]
  (dotimes [_ repeats]
    (when-let [unlike (repeats/unlike run run-once)]
      (throw (errors/illegal-state :magnetar.test/unrepeatable (repeats/sentence seed unlike) (dissoc unlike :run))))))

(defn- repeated [{:keys [repeats] :as options} f]
  (if (pos? (long repeats))
    (let [run-once #(runs/run (update options :log (fn [log] (or log :lines))) f)
          run (run-once)]
      (refuse-unlike run options run-once)
      (cond-> run (not (:log options)) (dissoc :log-text)))
    (runs/run options f)))

(defn simulate*
  "Runs f in a simulation, and returns a map that describes the run.

  Its keys are:

    :value           what f returned
    :error           what f threw
    :problem         what stopped the run: {:kind :message :waiting}
    :failures        what fibers threw
    :left            fibers that had not ended
    :steps, :ms      the number of steps, and the virtual milliseconds
    :schedule        the schedule, for the option :schedule of another run
    :log, :log-text  with {:log true} the events, and their lines; the same for the same seed

  Options: as in `simulate`.

  Example:

    (mt/simulate* {:seed 42 :log true} #(compute))"
  [options f]
  (checked/of-simulate options)
  (runs/refuse-here)
  (repeated (merge {:seed 0 :repeats 0} options) f))

(defn simulated-value
  "Returns the value of a run of `simulate*`.

  Throws what its body threw, or what stopped the run."
  {:no-doc true}
  [run]
  (runs/throw-problem run)
  (runs/report-failures run)
  (if-let [error (:error run)] (throw error) (:value run)))

(defmacro simulate
  "Runs body under a seeded scheduler in virtual time, and returns its value.

  All fibers, actors, timers, scopes and channels of body run on one thread. The same seed gives the same run.
  Time passes when nothing can run, and then at once. Fibers that are left when body has ended are ended.

  Throws what body throws. Throws :magnetar.test/deadlock if nothing can ever run, with each fiber, what it
  waits for and where. Other reasons, all in the namespace magnetar.test, are for what would differ from run
  to run or would not end:

    :timed-wait      Thread/sleep and other timed waits of the JDK
    :monitor         a wait for a monitor
    :foreign-thread  another thread takes part
    :endless         more than :max-steps steps
    :shared          two nodes share a channel, a process or a scope
    :stuck           no step for :patience-ms
    :unrepeatable    a repeated run differs, with the first event that differs

  Options:
    :seed         the seed, a number. Default 0
    :strategy     :uniform, or :priorities with :depth and :length
    :max-steps    how many steps the run may take
    :patience-ms  how many real milliseconds a step may take
    :log          true keeps the log
    :schedule     the schedule of an earlier run
    :faults       a set of :kill, :crash-node, :cut-link, :flap, :lose-message, :delay-signals,
                  :early-timers, :late-timers; with :fault-rate, :max-faults and :victims, a predicate on
                  names of processes and, for :crash-node, on names of nodes
    :repeats      how often body is run again, to find out whether it is random by itself. Default 0

  Example:

    (mt/simulate {:seed 42} (let [c (a/chan)] (a/go (a/>! c 1)) (a/<! c))) ;=> 1

  See also `check`, `start-node`."
  [options & body]
  `(simulated-value (simulate* ~options (fn [] ~@body))))

(defn- tell
  "Prints the report; in a test it is a failure of that test."
  [text]
  (if (seq t/*testing-vars*)
    (t/do-report {:type :fail :message text :expected 'no-failure :actual 'failure})
    (println text)))

(defn- replay [options body {:keys [seed schedule]}]
  (let [run (runs/run (assoc options :seed seed :schedule schedule :log true) body)]
    (run! println (:log-text run))
    run))

(defn- searched [options body]
  (let [found (search/search (merge {:runs 1000} options) body)]
    (if (:failure found)
      (do
        ((:report options tell) (report/text found))
        (-> found
            (assoc :passed false :diagram (report/diagram found) :replay #(replay options body found))))
      (do
        (when (seq t/*testing-vars*) (t/do-report {:type :pass}))
        (assoc found :passed true)))))

(defn check*
  "Does what `check` does, as a function, with f as the body."
  [options f]
  (checked/of-check options)
  (runs/refuse-here)
  (if-let [again (:replay options)]
    (replay (dissoc options :replay) f again)
    (searched options f)))

(defmacro check
  "Runs body in many simulations; the value of its last form must be true in each.

  That value is the property. A run also fails by an error, a deadlock or one of :properties. It is shrunk to
  the fewest preemptions found, and reported, to clojure.test inside of a test. The report has the seed, the
  schedule, messages that no process received, and a sequence diagram in Mermaid.

  A sample of the runs is done twice, :repeats of them, and at most one in 20. If the second run differs, the
  check fails with :kind :unrepeatable. The failure has the :event that differs, as it was :first and :again.
  Reasons are rand-int, System/nanoTime or the order of a set of objects.

  Returns {:passed true :runs n}. After a failure :passed is false, and there are these keys:

    :failure          what failed
    :seed, :schedule  what {:replay {:seed s :schedule [..]}} runs again
    :repeatable       false if the schedule did not fail again: no seed decides it
    :run              the run, with its :log
    :diagram          the sequence diagram
    :replay           a function that runs it again and prints the log

  Options:
    :runs        how many runs. Default 1000
    :seed        the first seed
    :strategy    :exhaustive tries all schedules of up to :preemptions preemptions and faults, by default 2;
                 the result has {:exhausted true} if it has tried them all. Default: uniform choice and
                 priorities in turn
    :properties  :no-unhandled-exit, :no-leaked-fiber, :every-call-answered, [:mailbox-bounded n], functions
                 of a run that return what is wrong. Default [:no-unhandled-exit]
    :report      a function of the text, instead of clojure.test and printing
    :repeats     how many runs are done twice. Default 5. 0 switches that off
    :replay      {:seed s :schedule [..]} runs this schedule again and prints its log
    others       as in `simulate`

  Example:

    (mt/check {:runs 10000} (let [c (a/chan)] (a/go (a/>! c 1)) (= 1 (a/<! c))))

  See also `simulate`."
  [options & body]
  `(check* ~options (fn [] ~@body)))

;; --- nodes

(defn start-node
  "Starts a node in a simulation, and returns its name.

  The name is a keyword. A node stands for a machine. It has processes, registered and global names, groups,
  tables, random numbers and a clock of its own. It shares the schedule, the log and the passing of time with
  the other nodes and the body. Its pids have a creation that no other start of a node has. In the log its
  fibers are named as in \"a/server\".

  A node shares no channel, process or scope with the body or another node. If it wakes a fiber there, the run
  ends with :magnetar.test/shared. It may share atoms and promises with the body, for what the test notes.

  Throws :magnetar.test/node-runs if a node of this name runs, and :magnetar.test/not-simulated outside of a
  simulation.

  Options:
    :skew  by how many milliseconds its clock is ahead; below 0 it is behind. Default 0
    :rate  how fast its clock is, from 0.5 to 2. Default 1

  Example:

    (mt/simulate {:seed 7}
      (mt/start-node :a)
      (mt/start-node :b {:skew 300 :rate 1.01})
      (mt/on-node :a #(actor/register :server (spawn (fn [] (receive :stop nil)))))
      (mt/on-node :b #(actor/whereis :server))) ;=> nil

  See also `on-node`, `crash-node`."
  {:added "0.2"}
  ([name] (start-node name nil))
  ([name options] (nodes/start name options)))

(defn on-node
  "Calls f on a fiber of the node, and returns its value.

  Bindings are conveyed. Context values, links and deadlines are not. A node may call it too, also for itself.

  Blocks until f has ended, or the node has crashed.

  Throws what f throws, :magnetar.test/node-crashed if the node crashes meanwhile, and :magnetar.test/no-node
  if it does not run.

  Cancellation: ends the wait. f goes on.

  Example:

    (mt/on-node :a #(gs/call :counter :next))

  See also `start-node`."
  {:added "0.2"}
  [name f]
  (nodes/call name f))

(defn crash-node
  "Ends the node at once, as a loss of power would; returns nil.

  None of its fibers runs again: no finally, no clean-up, no exit signal. None of its timers fires. What it
  has sent is not undone. On a fiber of the node itself it does not return.

  Throws :magnetar.test/no-node if the node does not run.

  Example:

    (mt/crash-node :a)

  See also `restart-node`."
  {:added "0.2"}
  [name]
  (nodes/crash name))

(defn restart-node
  "Starts a node again, and returns its name. If it runs, it crashes first.

  It keeps its clock. Otherwise it is as after `start-node`: nothing runs on it, and its pids have a new
  creation.

  Throws :magnetar.test/no-node if there never was a node of this name.

  Example:

    (mt/simulate {} (mt/start-node :a) (mt/restart-node :a)) ;=> :a

  See also `crash-node`."
  {:added "0.2"}
  [name]
  (nodes/restart name))

(defn nodes
  "Returns the names of the running nodes as a vector, in the order of starts.

  Throws :magnetar.test/not-simulated outside of a simulation.

  Example:

    (mt/simulate {} (mt/start-node :a) (mt/start-node :b) (mt/nodes)) ;=> [:a :b]

  See also `start-node`."
  {:added "0.2"}
  []
  (nodes/refuse-outside "nodes")
  (nodes/running))

;; --- a network

(defn network
  "Makes a network of bytes between the nodes of a simulation, and returns it.

  Frames from one node to another arrive in order, each at most once. The seed decides how long each takes. A
  silent member leaves the views of the others after the time of the detector, or up to a quarter later. If it
  can be reached again, it comes back, in a view that is merged. Members do not agree on views: a view may
  come late, or in another order than at another member.

  `simulate` and `check` have two faults of networks. :cut-link cuts the way from one node to another for up
  to 5 seconds when a frame is sent. :flap lets a member leave a view although it can be reached.

  Options:
    :latency   how long a frame takes, as the least and the most in milliseconds. Default [1 20]
    :detector  how many milliseconds a silent member stays in a view, at least. Default 1000
    :window    the bytes that may be under way from one member to another until senders wait. Default 262144

  Example:

    (def net (mt/network {:latency [1 5]}))

  See also `endpoint`, `cut`, `end-faults`."
  {:added "0.2"}
  ([] (network nil))
  ([options] (network/make options)))

(defn endpoint
  "Returns the network as the node sees it, a Network of the kernel.

  The node joins once by an endpoint. Another endpoint of the same node is another member. The methods of an
  endpoint are called on its node.

  Throws :magnetar.test/no-node if the node does not run.

  Options:
    :as  the name of the member, a string. Default: the name of the node

  Example:

    (let [n (mt/endpoint net :a)] (mt/on-node :a #(.join n events)))

  See also `network`."
  {:added "0.2"}
  ([network node] (endpoint network node nil))
  ([network node options] (network/endpoint network node options)))

(defn cut
  "Cuts the ways between the nodes of two groups; returns nil.

  Frames under way are held. They arrive after `heal`, unless one of the two members has left the view of the
  other meanwhile.

  Options:
    :one-way  true cuts only the ways from the first group to the second

  Example:

    (mt/cut net [:a] [:b :c])

  See also `heal`."
  {:added "0.2"}
  ([network from to] (cut network from to nil))
  ([network from to options] (network/cut network from to options)))

(defn heal
  "Undoes cuts between two groups, or all cuts; returns nil.

  Cuts of the fault :cut-link are undone as well.

  Options: as in `cut`.

  Example:

    (mt/heal net)

  See also `cut`, `end-faults`."
  {:added "0.2"}
  ([network] (network/heal network))
  ([network from to] (heal network from to nil))
  ([network from to options] (network/heal network from to options)))

(defn slow
  "Limits the bandwidth between two groups of nodes; returns nil.

  Options:
    :bytes-per-ms  how many bytes per millisecond go from one node to another, or nil for no limit
    :one-way       true limits only the ways from the first group to the second

  Example:

    (mt/slow net [:a] [:b] {:bytes-per-ms 10})

  See also `cut`."
  {:added "0.2"}
  [network from to options]
  (network/slow network from to options))

(defn end-faults
  "Undoes all cuts, and lets no more faults strike the network; returns nil.

  The faults are :cut-link and :flap of `simulate` and `check`. Other faults go on, and `cut` cuts as
  before. Nodes send for ever to learn which others are there. So without this call a fault may strike
  however long a test waits. After it, nodes that were cut off come back within a few times of the detector,
  and a test can compare what they know.

  Throws :magnetar.test/no-network if it is no network of this simulation.

  Example:

    (mt/end-faults net)

  See also `heal`, `network`."
  {:added "0.2"}
  [network]
  (network/end-faults network))

;; --- restart storms

(defn restart-storm
  "Kills children of a supervisor repeatedly; returns how many signals it has sent.

  It kills children of the supervisors below as well, and these supervisors themselves. Each child is drawn at
  random, in a simulation from the seed. A supervisor tolerates as many deaths as its :intensity allows.

  Blocks until :kills exit signals are sent, the supervisor has ended, or no running child was found in 1000
  checks. It also waits until the supervisor has handled the last death. Start it on a fiber beside the code
  under test.

  Throws what `magnetar.supervisor/which-children` throws for what is not an address.

  Options:
    :kills   how many exit signals are sent. Default 100
    :pause   the time between two of them, a duration. Default 0 ms
    :reason  their reason. Default :kill

  Example:

    (mt/check {:runs 100}
      (let [[_ app] (sup/start-link spec)]
        (mt/restart-storm app {:kills 50})
        (serves? app)))"
  ([supervisor] (restart-storm supervisor nil))
  ([supervisor options] (storm/storm supervisor options)))

;; --- tests without a scheduler

(defn with-virtual-clock*
  "Calls f on a fiber whose time passes only when all fibers wait.

  See `with-virtual-clock`."
  [f]
  (runs/refuse-nested)
  (clock/simulated* f))

(defmacro with-virtual-clock
  "Evaluates body on a fiber whose time passes only when all its fibers wait.

  Its fibers are the fiber of body and all that it starts, directly or not. So no test has to sleep, and every
  duration is exact. The fibers run on the JDK's scheduler, several at once. The order of concurrent events
  differs from run to run, as in production. `simulate` has one thread instead, and an order that follows from
  the seed.

  Returns the value of body.

  Throws if body has not ended after 30 real seconds.

  Example:

    (mt/with-virtual-clock (a/<! (a/timeout 86400000)) (mt/now)) ;=> 86400000"
  [& body]
  `(with-virtual-clock* (fn [] ~@body)))

(defn now
  "Returns the milliseconds of virtual time that have passed.

  Where time is not virtual, these are the milliseconds of the real clock since some instant."
  []
  (clock/now))

(defn- wait-words [^Thread thread]
  (some-> thread FiberInfo/of .waitsFor))

(defn- waits-of
  "What the process waits for, in words, or nil."
  [pid]
  (some-> (ProcessTable/live pid) .fiber .get wait-words))

(defn- rest-a-little
  "Lets other fibers run; where time is virtual, it has to pass as well."
  []
  (if (clock/virtual?) (scope/sleep 1) (Thread/yield)))

(defn- patience-of
  "The milliseconds of a :timeout."
  ^long [timeout]
  (quot (arguments/nanos :timeout timeout) 1000000))

(defn- refuse-options-first
  "Refuses the order of 0.1."
  [operation x]
  (when (map? x)
    (arguments/misuse :magnetar/bad-option
                      (str "`" operation "` takes its options last, as in (" operation " " (if (= "eventually" operation) "(ready?)" "ready?") " {:timeout 100}); "
                           "the first argument is " (arguments/show x) ".")
                      {:value x})))

(defn ^:no-doc eventually-at
  "Does what `wait-until` does, for the operation, which waits for the target."
  [operation target f {:keys [timeout] :or {timeout 5000} :as options}]
  (arguments/options (name operation) [:timeout :else] options)
  (let [deadline (+ (long (now)) (patience-of timeout))]
    (loop []
      (or (f)
          (if (< (long (now)) deadline)
            (do (rest-a-little) (recur))
            (timeouts/outcome options operation target timeout [target options]))))))

(defn wait-until
  "Calls f until its value is true, and returns that value.

  Where time is virtual, in a simulation or by a virtual clock, the duration is virtual as well.

  Blocks until then, at most for :timeout.

  Throws a TimeoutException when time runs out and there is no :else.

  Options:
    :timeout  how long to wait at most, a duration. Default 5000 ms
    :else     what to return when time runs out

  Example:

    (mt/wait-until #(ready?) {:timeout 100})

  See also `eventually`."
  ([f] (wait-until f nil))
  ([f options]
   (refuse-options-first "wait-until" f)
   (eventually-at `wait-until f f options)))

(defmacro eventually
  "Evaluates the expression until its value is true, and returns that value.

  Blocks until then, at most for :timeout.

  Throws a TimeoutException when time runs out and there is no :else.

  Options:
    :timeout  how long to wait at most, a duration. Default 5000 ms
    :else     what to return when time runs out

  Example:

    (is (mt/eventually (zero? (:messages (actor/process-info p)))))
    (is (mt/eventually (ready?) {:timeout 100}))"
  ([expression] `(eventually ~expression nil))
  ([expression options]
   (refuse-options-first "eventually" expression)
   `(eventually-at 'magnetar.test/eventually '~expression (fn [] ~expression) ~options)))

(defn- not-down [pid timeout options]
  (timeouts/error (str pid " has not ended within " (arguments/show-duration timeout) (some->> (waits-of pid) (str "; it waits for "))
                       ". Give `await-down` a longer :timeout, or {:else value} to get that value instead of this error.")
                  `await-down pid timeout [pid options] nil))

(defn- check-pid [pid]
  (when-not (instance? Pid pid)
    (arguments/misuse :magnetar/not-a-pid
                      (str "`await-down` wants a pid, as `spawn` or `whereis` return it; this is " (arguments/show pid) ".") {:value pid})))

(defn await-down
  "Waits until a process has ended, and returns the reason of its end.

  The caller need not be a process. A pid whose process ended long ago gives its reason too. A pid that was
  read from text gives :noproc.

  Blocks until the process has ended, at most for :timeout.

  Throws a TimeoutException when time runs out and there is no :else. It says what the process waits for.

  Options:
    :timeout  how long to wait at most, a duration. Default 5000 ms
    :else     what to return when time runs out

  Example:

    (is (= :killed (mt/await-down p)))"
  ([pid] (await-down pid nil))
  ([pid {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "await-down" [:timeout :else] options)
   (check-pid pid)
   (let [^Pid$Ended ended (ProcessTable/join pid (arguments/nanos :timeout timeout))]
     (cond
       ended (.reason ended)
       (contains? options :else) (:else options)
       :else (throw (not-down pid timeout options))))))

;; --- fixtures

(defn in-a-process
  "A fixture that makes each test a process, on the thread that runs it.

  Links and monitors of a test end with it. If an exit signal ends the process, because of a linked child that
  crashes, that is an error of the test, with the reason.

  Example:

    (use-fixtures :each mt/in-a-process)

  Erlang: each test case of Common Test is a process."
  [test]
  (try
    (actor/with-process {} (test))
    (catch Exception e
      (if (= :magnetar/exited (:magnetar/reason (ex-data e)))
        (t/do-report {:type :error :message "The process of the test has exited." :expected nil :actual e})
        (throw e)))))

(def ^:private patience-ms 2000)

(defn- processes []
  (into #{}
        (map #(.pid ^LocalProcess %))
        (ProcessTable/all)))

(defn- threads []
  (into #{}
        (remove #(identical? (Thread/currentThread) %))
        (Fibers/threads)))

(defn- left-behind [now before]
  (reduce disj now before))

(defn- await-none
  "What `now` gives beyond `before`, once that is nothing or patience is over.

  A fiber may just be ending."
  [now before]
  (let [deadline (+ (System/nanoTime) (* 1000000 (long patience-ms)))]
    (loop []
      (let [left (left-behind (now) before)]
        (if (or (empty? left) (< deadline (System/nanoTime)))
          left
          (do (Thread/sleep 5) (recur)))))))

(defn- words [^Thread thread]
  (str (.getName thread) (some->> (wait-words thread) (str ", which waits for "))))

(defn- report [what left]
  (when (seq left)
    (t/do-report {:type :fail
                  :message (str "The test leaves " (count left) " " what " behind: end what it has started.")
                  :expected []
                  :actual (vec (take 10 left))})))

(defn without-leaks
  "A fixture that fails a test which leaves processes or fibers behind.

  It says which. It waits for those that are just ending, for two seconds at most. The fiber of a go block
  counts until it ends, though it would be collected. The processes and fibers that it finds are not ended.

  Example:

    (use-fixtures :each mt/without-leaks)"
  [test]
  (let [pids (processes)
        fibers (threads)]
    (try
      (test)
      (finally
        (report "processes" (await-none processes pids))
        (report "fibers" (map words (await-none threads fibers)))))))

(def ^:private longest-test-ms 30000)

(defn- who-waits
  "The fibers that wait, in words, except the fibers of `before`."
  [before]
  (sort (map words (filter wait-words (reduce disj (threads) before)))))

(defn- report-late [thread before]
  (t/do-report {:type :fail
                :message (str "The test has not ended after " longest-test-ms " ms. It, and these, wait:")
                :expected []
                :actual (vec (cons (words thread) (who-waits before)))}))

(defn without-deadlocks
  "A fixture that fails a test which has not ended after 30 seconds.

  It says which fibers wait for what, and interrupts the test.

  Example:

    (use-fixtures :each mt/without-deadlocks)"
  [test]
  (let [before (threads)
        done (promise)
        thread (Thread/startVirtualThread (bound-fn* #(deliver done (try (test) nil (catch Throwable t t)))))
        thrown (deref done longest-test-ms ::late)]
    (cond
      (= ::late thrown) (do (report-late thread before) (.interrupt thread))
      thrown (throw thrown))))
