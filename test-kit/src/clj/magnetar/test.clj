(ns magnetar.test
  "The simulator, and fixtures for clojure.test.

  simulate        runs a body under a seeded scheduler, in virtual time
  check           runs it under many, and shrinks what fails
  with-virtual-clock, now   real threads, but time passes when they all wait
  await-down, eventually    wait with a bound, and without sleeping
  restart-storm   kills the children of a supervisor again and again

  in-a-process    each test is a process: self, receive and links work in it
  without-leaks   fails a test that leaves processes or fibers behind
  without-deadlocks   fails a test that does not end, and says who waits for what

    (use-fixtures :each magnetar.test/without-leaks magnetar.test/in-a-process)"
  (:require
   [clojure.test :as t]
   [magnetar.actor :as actor]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope]
   [magnetar.test.clock :as clock]
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
  "Throws if f, run again so often, is not run as in `run`."
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
  "What became of f, run in a simulation, as a map.

  Keys: :value, :error (what f threw), :problem (what stopped it: :kind, :message, :waiting), :failures (what fibers threw), :left (fibers that
  had not ended), :steps, :ms (virtual), :schedule; with {:log true} also :log and :log-text, line by line the same for the same seed.
  The options are those of `simulate`.

    (simulate* {:seed 42 :log true} #(compute))"
  [options f]
  (checked/of-simulate options)
  (runs/refuse-here)
  (repeated (merge {:seed 0 :repeats 0} options) f))

(defn simulated-value
  "The value of a run of `simulate*`; throws what its body threw, or what stopped it."
  {:no-doc true}
  [run]
  (runs/throw-problem run)
  (runs/report-failures run)
  (if-let [error (:error run)] (throw error) (:value run)))

(defmacro simulate
  "The value of body, run by a seeded scheduler in virtual time: all fibers, actors, timers, scopes and channels of it on one thread.

  The same seed gives the same run. Time passes when nothing can run, and then at once. Throws what body throws; :magnetar.test/deadlock if
  nothing can ever run, with each fiber, what it waits for and where; and for what would not be the same in each run: :magnetar.test/timed-wait
  (Thread/sleep), /monitor, /foreign-thread; /endless after :max-steps, /stuck after :patience-ms without a step. What is left when body has ended
  is ended. Options: :seed, :strategy (:uniform, :priorities with :depth and :length), :max-steps, :log, :schedule (of an earlier run), :faults (a set of
  :kill, :lose-message, :delay-signals, :early-timers, :late-timers) with :fault-rate, :max-faults and :victims (a predicate on names of processes),
  :repeats (0): how often it is run again, which throws :magnetar.test/unrepeatable, with the first event that differs, if body is random by itself.

    (simulate {:seed 42} (let [c (a/chan)] (a/go (a/>! c 1)) (a/<! c)))"
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
  "Searches for a run of f that fails; see `check`."
  [options f]
  (checked/of-check options)
  (runs/refuse-here)
  (if-let [again (:replay options)]
    (replay (dissoc options :replay) f again)
    (searched options f)))

(defmacro check
  "Runs body in many simulations; the value of its last form, the property, must be true in each.

  Returns {:passed true :runs n}. A run that fails (the property, an error, a deadlock, one of :properties) is shrunk to the fewest preemptions found,
  and reported, to clojure.test where there is a test: the seed, the schedule, messages that nobody received, a sequence diagram in Mermaid. Then
  :passed is false, and there are :failure, :seed, :schedule, :repeatable (false if the schedule did not fail again: no seed decides it), :run (with its :log), :diagram, and :replay, a function that runs it again and prints the
  log; {:replay {:seed s :schedule [..]}} as options does that too. Options: :runs (1000), :seed (the first), :strategy (uniform choice and priorities in
  turn unless told; :exhaustive tries all schedules of up to :preemptions (2) preemptions and faults, and says :exhausted if there are no more), :properties
  (:no-unhandled-exit unless told; :no-leaked-fiber, :every-call-answered, [:mailbox-bounded n], functions of a run that return what is wrong), :report (a function of
  the text, instead of clojure.test and printing), :repeats, and those of `simulate`.

  A sample of the runs is done twice, :repeats of them (5; one in 20 at most). If the second one differs (rand-int, System/nanoTime, the order of a set of
  objects), the check fails: :kind :unrepeatable, with the :event that differs, how it was :first and :again. {:repeats 0} switches that off.

    (check {:runs 10000} (let [c (a/chan)] (a/go (a/>! c 1)) (= 1 (a/<! c))))"
  [options & body]
  `(check* ~options (fn [] ~@body)))

;; --- restart storms

(defn restart-storm
  "Kills children of a supervisor, and of the supervisors below it and these themselves, again and again; returns how many exit signals it has sent.

  It is over after :kills (100), or when the supervisor has ended, or has had no child that runs for 1000 looks. Each child is drawn, in a
  simulation from the seed. Blocks until then, and until the supervisor has dealt with the last death; start it on a fiber, beside what has to
  bear it.
  Options: :kills, :pause between two (0 ms), :reason (:kill). A supervisor bears its :intensity and no more. Throws what
  `magnetar.supervisor/which-children` throws for what is no address.

    (check {:runs 100}
      (let [[:ok app] (sup/start-link spec)]
        (restart-storm app {:kills 50})
        (serves? app)))"
  ([supervisor] (restart-storm supervisor nil))
  ([supervisor options] (storm/storm supervisor options)))

;; --- tests without a scheduler

(defn with-virtual-clock*
  "Calls f as `with-virtual-clock` does its body."
  [f]
  (runs/refuse-nested)
  (clock/simulated* f))

(defmacro with-virtual-clock
  "The value of body, done on a fiber whose time, and that of all it starts, passes only when they all wait: no test has to sleep, and every
  duration is exact.

  The fibers run on the JDK's scheduler, several at once: the order of what is not ordered differs from run to run, as in production. Fails after 30
  seconds. `simulate` is the other one: one thread, an order by the seed.

    (with-virtual-clock (a/<! (a/timeout 86400000)) (now)) ;=> 86400000"
  [& body]
  `(with-virtual-clock* (fn [] ~@body)))

(defn now
  "The milliseconds of virtual time that have passed; by the real clock, since some instant, elsewhere."
  []
  (clock/now))

(defn- wait-words [^Thread thread]
  (some-> thread FiberInfo/of .waitsFor))

(defn- waits-of
  "What the process waits for, in words, or nil."
  [pid]
  (some-> (ProcessTable/live pid) .fiber .get wait-words))

(defn- rest-a-little
  "Lets others run: where time is virtual it has to pass as well."
  []
  (if (clock/virtual?) (scope/sleep 1) (Thread/yield)))

(defn- patience-of
  "The milliseconds of a :timeout."
  ^long [timeout]
  (quot (arguments/nanos ":timeout" timeout) 1000000))

(defn wait-until
  "The first true value of f, called again and again, for :timeout ms at most (5000): then nil. Where time is virtual, in a simulation or by a
  virtual clock, so are the milliseconds."
  [{:keys [timeout] :or {timeout 5000} :as options} f]
  (arguments/options "eventually" [:timeout] options)
  (let [deadline (+ (long (now)) (patience-of timeout))]
    (loop []
      (or (f)
          (when (< (long (now)) deadline)
            (rest-a-little)
            (recur))))))

(defmacro eventually
  "The first true value of the expression, evaluated again and again for 5 seconds at most; then nil. Options come first.

    (is (eventually (zero? (:messages (actor/process-info p)))))
    (is (eventually {:timeout 100} (ready?)))"
  ([expression] `(eventually {} ~expression))
  ([options expression] `(wait-until ~options (fn [] ~expression))))

(defn await-down
  "The reason of the end of the process, once it has ended; it need not be a process that calls this.

  Waits for :timeout ms at most (5000), then throws an IllegalStateException that says what the process waits for. A pid whose process ended long ago
  gives its reason too, one that was read from text :noproc.

    (is (= :killed (await-down p)))"
  ([pid] (await-down pid {}))
  ([pid {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "await-down" [:timeout] options)
   (when-not (instance? Pid pid)
     (arguments/misuse :magnetar/not-a-pid
                       (str "`await-down` wants a pid, as `spawn` or `whereis` return it; this is " (arguments/show pid) ".") {:value pid}))
   (let [timeout (patience-of timeout)]
     (if-let [^Pid$Ended ended (ProcessTable/join pid (* 1000000 timeout))]
       (.reason ended)
       (throw (errors/illegal-state :magnetar.test/not-down
                                    (str pid " has not ended within " timeout " ms" (some->> (waits-of pid) (str "; it waits for ")) ".")
                                    {:pid pid}))))))

;; --- fixtures

(defn in-a-process
  "A fixture that makes each test a process, on the thread that runs it.

  Returns nothing of interest. If an exit signal ends the process, because of a linked child that crashes, that is an error of the test, with
  the reason. Links and monitors of a test end with it.

    (use-fixtures :each in-a-process)

  In Erlang: each test case of Common Test is a process."
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
  "What `now` gives and was not there before, once that is nothing or patience is over: a fiber may just be ending."
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
  "A fixture that fails a test which leaves processes or fibers behind, and says which.

  Waits for two seconds at most for those that are just ending. A fiber that a go block is counts until it ends, though it would be
  collected. What is found is not ended.

    (use-fixtures :each without-leaks)"
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
  "The fibers that wait, in words, but for those of before."
  [before]
  (sort (map words (filter wait-words (reduce disj (threads) before)))))

(defn- report-late [thread before]
  (t/do-report {:type :fail
                :message (str "The test has not ended after " longest-test-ms " ms. It, and these, wait:")
                :expected []
                :actual (vec (cons (words thread) (who-waits before)))}))

(defn without-deadlocks
  "A fixture that fails a test which has not ended after 30 seconds, says which fibers wait for what, and interrupts the test.

    (use-fixtures :each without-deadlocks)"
  [test]
  (let [before (threads)
        done (promise)
        thread (Thread/startVirtualThread (bound-fn* #(deliver done (try (test) nil (catch Throwable t t)))))
        thrown (deref done longest-test-ms ::late)]
    (cond
      (= ::late thrown) (do (report-late thread before) (.interrupt thread))
      thrown (throw thrown))))
