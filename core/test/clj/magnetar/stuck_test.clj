(ns magnetar.stuck-test
  "What a stuck program answers when it is asked why: the programs of core/test/hangs."
  (:require
   [clojure.edn :as edn]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.async :as a]
   [magnetar.dev.child :as child]
   [magnetar.gen-server :as gs]
   [magnetar.hangs :as hangs]
   [magnetar.impl.inspect.awaited :as awaited]
   [magnetar.impl.inspect.locks :as locks]
   [magnetar.impl.inspect.reach :as reach]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.inspect.stuck :as stuck]
   [magnetar.impl.inspect.views :as views]
   [magnetar.impl.inspect.waits :as waits]
   [magnetar.inspect :as inspect]
   [magnetar.kernel.checks :as checks]
   [magnetar.scope :as scope]
   [magnetar.support :refer [eventually with-hook]]
   [magnetar.task :as task])
  (:import
   (com.zaxxer.hikari HikariConfig HikariDataSource)
   (java.net InetAddress ServerSocket)
   (java.sql SQLException)
   (java.util Random)
   (java.util.concurrent ArrayBlockingQueue CompletableFuture CountDownLatch CyclicBarrier Exchanger ExecutorService Executors LinkedBlockingQueue Semaphore TimeUnit)
   (java.util.concurrent.locks ReentrantLock ReentrantReadWriteLock)
   (java.util.function Function Supplier)
   (javax.sql DataSource)
   (magnetar MisuseException)
   (magnetar.kernel.channel Channel)
   (magnetar.kernel.inspect FiberInfo)))

(set! *warn-on-reflection* true)

;; ---- the programs

(defn- marks
  "From each mark of a program to the FILE:LINE where it is written."
  [program]
  (into {}
        (for [[number line] (map-indexed vector (str/split-lines (slurp (hangs/folder (str program ".clj")))))
              :when (not (str/starts-with? line ";"))
              [_ mark] (re-seq #"; \[([\w-]+)\]" line)]
          [(str "[" mark "]") (str program ".clj:" (inc (long number)))])))

(def ^:private answers (edn/read-string (slurp (hangs/folder "answers.edn"))))

(defn- answer
  "The answer for a program, with lines in the place of marks."
  [program]
  (let [marks (marks program)
        resolved (fn [words] (mapv #(if (str/starts-with? % "[") (marks %) %) words))]
    (update-vals (answers program) #(cond-> % (vector? %) resolved))))

(defn- names? [text fragment]
  (some? (re-find (re-pattern (str (java.util.regex.Pattern/quote fragment) "(?![\\w-])")) text)))

(defn- nodes []
  (mapcat #(tree-seq :children :children %) (inspect/tree {:limit 1000})))

(defn- of-program?
  "Does a thread of the program live, or a process that it has started? A process that was killed is dead while its thread, a :fiber then, still reports."
  [program before]
  (some (fn [{:keys [kind name id]}]
          (or (str/includes? name program)
              (and (not (before id)) (#{:process :fiber} kind))))
        (nodes)))

(defn- silently
  "Calls f. The failures of what is stopped are dropped."
  [f]
  (with-hook [:failure (fn [_] nil)]
    (with-hook [:report (fn [_] nil)]
      (f))))

(defn- with-program
  "Calls f when the program is stuck."
  [program f]
  (silently
    #(let [before (set (map :id (nodes)))
           stop (hangs/start program)]
       (try
         (f)
         (finally
           (stop)
           (is (eventually (not (of-program? program before))) program))))))

(defn- thread-at
  "The number of the thread that was started at this FILE:LINE."
  [at]
  (second (:id (first (filter #(names? (:name %) at) (nodes))))))

(defn- asked [subject]
  (if (str/starts-with? subject ":")
    (inspect/why-stuck (edn/read-string subject))
    (inspect/why-stuck (thread-at subject))))

(defn- lasting-deadlocks
  "The deadlocks, once there is one: the last of the program may not have come to its wait when the program is ready."
  []
  (is (eventually (seq (inspect/deadlocks))))
  (inspect/deadlocks))

(defn- check-deadlock [program]
  (let [{:keys [ask names lines length never victims]} (answer program)]
    (with-program program
      (fn []
        (let [found (lasting-deadlocks)
              text (str (:text (first found)))]
          (is (= 1 (count found)) (str program " " (pr-str (map :text found))))
          (is (every? #(names? text %) (concat names lines)) text)
          (is (not-any? #(names? text %) (concat never victims)) text)
          (when length (is (= length (count (:chain (first found)))) text))
          (doseq [subject ask]
            (testing subject
              (let [text (str (:text (asked subject)))]
                (is (every? #(names? text %) (concat names lines)) text)
                (is (not-any? #(names? text %) never) text)))))))))

(deftest a-cycle-of-calls-is-found-and-nobody-else-is-blamed
  (run! check-deadlock ["call_cycle_plain" "call_cycle_hop" "call_cycle_twin"]))

(deftest a-connection-of-a-pool-and-a-lock-are-found-in-one-cycle
  (run! check-deadlock ["pool_lock_plain" "pool_lock_hop" "pool_lock_twin"]))

(deftest holders-of-all-connections-that-want-one-more-are-found
  (run! check-deadlock ["pool_twice_plain" "pool_twice_hop" "pool_twice_twin"]))

(deftest a-child-that-calls-its-own-supervisor-is-found
  (run! check-deadlock ["nested_start_child_plain" "nested_start_child_hop" "nested_start_child_twin"]))

(deftest locks-and-monitors-in-two-orders-are-found
  (run! check-deadlock ["lock_monitor_plain" "lock_monitor_hop" "lock_monitor_twin"]))

(deftest full-mailboxes-in-a-circle-are-found
  (run! check-deadlock ["mailbox_circle_plain" "mailbox_circle_hop" "mailbox_circle_twin"]))

(defn- finisher-of
  "The thread that the channel says will finish it; nil without one."
  [^Channel ch]
  (some-> (.finisher ch) .get))

(defn- hikari ^HikariDataSource [name]
  (HikariDataSource.
    (doto (HikariConfig.)
      (.setPoolName name)
      (.setJdbcUrl (str "jdbc:h2:mem:" name))
      (.setMaximumPoolSize 1))))

(defn- hold-and-lock [^DataSource database holds ^ReentrantLock lock locked]
  (with-open [_ (.getConnection database)]
    (deliver holds true)
    @locked
    (.lockInterruptibly lock)))

(defn- lock-and-ask [^DataSource database holds ^ReentrantLock lock locked]
  (.lock lock)
  (deliver locked true)
  @holds
  (with-open [_ (.getConnection database)]))

(deftest a-resource-knows-which-platform-thread-took-a-connection
  (let [pool (hikari "platform")
        database (inspect/resource pool)
        lock (ReentrantLock.)
        [holds locked] [(promise) (promise)]
        holder (doto (Thread. #(try (hold-and-lock database holds lock locked) (catch InterruptedException _)) "the holder") (.start))]
    (scope/with-scope [s]
      (let [asks (scope/fork s lock-and-ask database holds lock locked)]
        (is (eventually (seq (inspect/deadlocks))))
        (let [[{:keys [grade text chain]} :as found] (inspect/deadlocks)]
          (is (= 1 (count found)))
          (is (= :likely grade) "it may have handed the connection on, and its local variables cannot be read")
          (is (= 3 (count chain)))
          (is (re-find #"for a connection of the pool \"platform\", whose connection is held by the holder since stuck_test.clj:\d+" text) text))
        (.interrupt holder)
        (is (nil? (scope/join asks)))))
    (.join holder)
    (testing "what was closed is held by nobody"
      (with-open [_ (.getConnection ^DataSource database)])
      (is (= [] (inspect/deadlocks))))
    (is (identical? pool (.unwrap ^DataSource database HikariDataSource)))
    (.close ^java.lang.AutoCloseable database)
    (is (.isClosed pool))))

(deftest a-fiber-whose-local-variables-lead-to-what-it-took-holds-it-for-certain
  (let [pool (hikari "fibers")
        database (inspect/resource pool)
        lock (ReentrantLock.)
        [holds locked] [(promise) (promise)]
        fibers (mapv #(a/go (try (% database holds lock locked) (catch InterruptedException _)))
                     [hold-and-lock lock-and-ask])]
    (is (eventually (seq (inspect/deadlocks))))
    (let [[{:keys [grade chain]} :as found] (inspect/deadlocks)]
      (is (= [1 :exact 3] [(count found) grade (count chain)])))
    (Thread/.interrupt (finisher-of (fibers 0)))
    (run! a/<!! fibers)
    (.close pool)))

(defn- take-and-hand-on
  "A go block that puts the only connection on the channel, and wants another one."
  [^DataSource database jobs]
  (a/go
    (a/>! jobs (.getConnection database))
    (with-open [_ (.getConnection database)])))

(deftest a-connection-that-was-handed-on-is-not-held-by-the-one-that-took-it
  (doseq [[place jobs] {"to a fiber" (a/chan), "into a buffer" (a/chan 1)}]
    (testing place
      (let [pool (hikari (str "handed on " place))
            gate (promise)
            worker (when (= "to a fiber" place)
                     (a/go (with-open [_ ^java.sql.Connection (a/<! jobs)] @gate)))
            taker (take-and-hand-on (inspect/resource pool) jobs)
            text #(some->> (finisher-of taker) inspect/why-stuck :text)]
        (is (eventually (re-find #"for a connection of the pool" (str (text)))))
        (is (= [] (inspect/deadlocks)))
        (is (eventually (str/includes? (str (text)) (if worker "for a promise" "since stuck_test.clj"))))
        (if worker
          (deliver gate true)
          (.close ^java.sql.Connection (a/<!! jobs)))
        (is (nil? (a/<!! taker)))
        (.close pool)))))

(deftest a-resource-is-a-data-source
  (is (thrown-with-msg? MisuseException #"`resource` wants a javax.sql.DataSource, such as a connection pool; this is :pool" (inspect/resource :pool)))
  (let [database (inspect/resource (reify DataSource
                                     (getConnection [_] (throw (SQLException. "no such host")))))]
    (is (thrown-with-msg? SQLException #"no such host" (.getConnection ^DataSource database)))
    (is (= database database))
    (is (contains? #{database} database))))

(defn- check-stuck
  "Of a program that is stuck without a cycle: what `why-stuck` says."
  [program]
  (let [{:keys [ask names lines never]} (answer program)]
    (with-program program
      (fn []
        (is (= [] (inspect/deadlocks)) program)
        (doseq [subject ask]
          (testing subject
            (let [text (str (:text (asked subject)))]
              (is (every? #(names? text %) (concat names lines)) text)
              (is (not-any? #(names? text %) never) text))))))))

(deftest a-slow-tap-of-a-mult-is-named
  (run! check-stuck ["mult_slow_tap_plain" "mult_slow_tap_hop" "mult_slow_tap_twin"]))

(deftest a-lost-permit-is-named
  (run! check-stuck ["semaphore_lost_plain" "semaphore_lost_hop" "semaphore_lost_twin"]))

(deftest a-lost-promise-is-named
  (run! check-stuck ["promise_lost_plain" "promise_lost_hop" "promise_lost_twin"]))

(deftest a-channel-that-nobody-closes-is-named
  (run! check-stuck ["channel_unclosed_plain" "channel_unclosed_hop" "channel_unclosed_twin"]))

;; ---- results

(deftest a-channel-of-a-result-says-who-finishes-it-until-it-is-closed
  (scope/with-scope [s]
    (let [running #(deliver % (Thread/currentThread))]
      (doseq [start [(fn [runs gate] (a/go (running runs) @gate))
                     (fn [runs gate] (scope/go s (running runs) @gate))
                     (fn [runs gate] (a/thread (running runs) @gate))
                     (fn [runs gate] (a/io-thread (running runs) @gate))]
              :let [[runs gate] [(promise) (promise)]
                    out (start runs gate)]]
        (is (identical? @runs (finisher-of out)))
        (deliver gate :value)
        (is (= :value (a/<!! out)))
        (is (nil? (a/<!! out)))
        (is (nil? (finisher-of out))))
      (is (nil? (finisher-of (a/chan 1)))))))

(defn- take-from
  "A go block or the like, by `start`, that takes the values of the channels in the promise."
  [start channels]
  (start #(run! a/<!! @channels)))

(def ^:private starts
  {:go #(a/go (%))
   :thread #(a/thread (%))
   :io-thread #(a/io-thread (%))})

(deftest ^{:spec ["C33"]} results-that-wait-for-each-other-are-found-exactly-and-their-twin-is-not
  (doseq [[kind start] starts]
    (testing kind
      (let [stop (a/chan)
            [one other] (repeatedly 2 #(promise))
            ends (mapv #(take-from start %) [one other])
            twin (start #(a/<!! stop))
            waits-for-twin (start #(a/<!! twin))]
        (deliver one [(ends 1)])
        (deliver other [(ends 0)])
        (is (eventually (seq (inspect/deadlocks))))
        (let [[{:keys [grade text chain]} :as found] (inspect/deadlocks)]
          (is (= 1 (count found)) (pr-str (map :text found)))
          (is (= :exact grade))
          (is (= 2 (count chain)))
          (is (re-find #" waits at stuck_test.clj:\d+ for the value of " text) text))
        (run! a/close! (conj ends stop))
        (is (nil? (a/<!! waits-for-twin)))
        (is (eventually (= [] (inspect/deadlocks))))))))

(defn- info-of
  "What the fiber does that finishes the channel."
  [ch]
  (some-> (finisher-of ch) inspect/fiber-info))

(defn- select-of
  "A go block that takes from the first of the channels in the promise that has a value."
  [channels]
  (a/go (first (a/alts! (vec @channels)))))

(deftest a-select-over-results-is-stuck-only-if-nothing-else-can-end-it
  (let [channels (promise)
        chooser (select-of channels)
        [one other] (repeatedly 2 #(a/go (a/<! chooser)))
        gate (a/chan)
        waits-for-work (a/go (a/<! gate))]
    (testing "over all the results that wait for it"
      (deliver channels [one other])
      (is (eventually (seq (inspect/deadlocks))))
      (is (every? #(= [:exact 2] ((juxt :grade (comp count :chain)) %)) (inspect/deadlocks))))
    (run! a/close! [chooser one other])
    (is (eventually (= [] (inspect/deadlocks))))
    (testing "over one that waits for it, and one that can still come or a channel of its own"
      (doseq [escape [waits-for-work (a/chan)]
              :let [channels (promise)
                    chooser (select-of channels)
                    one (a/go (a/<! chooser))]]
        (deliver channels [one escape])
        (is (eventually (= "select over channels" (:waits-for (info-of chooser)))))
        (is (= [] (inspect/deadlocks)))
        (a/close! escape)
        (is (nil? (a/<!! chooser)))))
    (a/close! gate)))

;; ---- waits that something else ends

(defn- awaits? [words ch]
  (= words (:waits-for (info-of ch))))

(defn- fork-of-owner
  "A go block whose scope has two forks: one takes the value of the go block, the other one takes from the gate."
  [options gate]
  (let [owner (promise)
        waits (promise)
        out (a/go (scope/with-scope [s options]
                    (scope/fork s (fn [] (deliver waits true) (a/<! @owner)))
                    (scope/fork s (fn [] (a/<! gate)))))]
    (deliver owner out)
    @waits
    out))

(deftest a-scope-that-one-fork-can-end-waits-for-all-its-forks-only-if-all-are-stuck
  (let [[gate race-gate] (repeatedly 2 a/chan)
        race (fork-of-owner {:joiner scope/race} race-gate)]
    (is (eventually (awaits? "end of the forks of a scope" race)))
    (is (= [] (inspect/deadlocks)))
    (let [all (fork-of-owner {} gate)]
      (is (eventually (= [[:exact 2]] (map (juxt :grade (comp count :chain)) (inspect/deadlocks)))))
      (run! a/close! [gate race-gate all])
      (is (eventually (= [] (inspect/deadlocks)))))))

(deftest a-wait-in-a-scope-with-a-deadline-ends-by-itself
  (let [[one other] (repeatedly 2 promise)
        limited (fn [ch] (a/go (scope/with-scope [_ {:deadline 3600000}] (a/<! @ch))))
        [first-out second-out :as outs] [(limited one) (limited other)]]
    (deliver one second-out)
    (deliver other first-out)
    (is (eventually (every? #(awaits? "take from a channel" %) outs)))
    (is (= [] (inspect/deadlocks)))
    (is (< 3500000 (:left-ms (first (:chain (inspect/why-stuck (finisher-of first-out)))))))
    (run! a/close! outs)))

(deftest a-call-that-was-passed-on-is-answered-by-another-process
  (let [passed-on (promise)
        bank {:init (fn [_] [:ok nil])
              :handle-call (fn [_ client _] (deliver passed-on client) [:noreply nil])
              :handle-cast (fn [till _] [:noreply (gs/call till :address {:timeout :infinity})])}
        till {:init (fn [_] [:ok nil])
              :handle-call (fn [request _ _] [:reply (if (= :pay request) (gs/call :test-bank :pay {:timeout :infinity}) :home) nil])}
        calls (fn [name] (:waits-for (first (filter #(= name (:name %)) (nodes)))))]
    (gs/start bank nil {:name :test-bank})
    (gs/start till nil {:name :test-till})
    (let [paid (a/go (gs/call :test-till :pay {:timeout :infinity}))
          client @passed-on]
      (gs/cast :test-bank :test-till)
      (is (eventually (= ["answer of :test-till" "answer of :test-bank"] (map calls [":test-bank" ":test-till"]))))
      (is (= [] (inspect/deadlocks)))
      (gs/reply client :paid)
      (is (= :paid (a/<!! paid)))
      (run! gs/stop [:test-bank :test-till]))))

(defn- calls-back
  "A server that has a go block call :test-shop for each answer, after (given client). A call of its own would fail, since
  servers whose calls lead in a circle are told so."
  [given]
  {:init (fn [_] [:ok nil])
   :handle-call (fn [_ client _]
                  (given client)
                  [:reply (a/<! (a/go (try (gs/call :test-shop :address {:timeout :infinity}) (catch Exception _ :gone)))) nil])})

(defn- doorman []
  (actor/receive
    [:magnetar/call client _]
    (gs/reply client (gs/call :test-shop :address {:timeout :infinity}))))

(def ^:private shop
  {:init (fn [_] [:ok nil])
   :handle-call (fn [_ _ _] [:reply (gs/call :test-till :pay {:timeout :infinity}) nil])})

(deftest a-cycle-of-calls-is-likely-if-another-process-may-answer
  (let [[clients gate] [(a/chan) (promise)]
        helper (a/go (let [client (a/<! clients)] @gate (gs/reply client :paid)))
        server (fn [given] #(second (gs/start (calls-back given) nil {:name :test-till})))]
    (doseq [[grade because start] [[:exact #"^the kernel knows whom it calls$" (server identity)]
                                   [:likely #"lead to the client, so it may answer$" (server #(a/>! clients %))]
                                   [:likely #"that is no server" #(actor/spawn-opt doorman {:name :test-till})]]
            :let [pids [(start) (second (gs/start shop nil {:name :test-shop}))]
                  buyer (a/go (try (gs/call :test-shop :buy {:timeout :infinity}) (catch Exception _ :gone)))]]
      (is (eventually (= [grade] (map :grade (inspect/deadlocks)))))
      (is (some #(re-find because (str (:because (:edge %)))) (:chain (first (inspect/deadlocks)))))
      (silently #(do (run! (fn [pid] (actor/exit pid :kill)) (rseq pids))
                     (is (= :gone (a/<!! buyer)))
                     (is (eventually (not-any? actor/whereis [:test-till :test-shop]))))))
    (deliver gate true)
    (a/<!! helper)))

(deftest a-scope-that-another-fiber-may-cancel-is-likely-to-be-stuck
  (let [[scopes owner gate] [(a/chan) (promise) (promise)]
        out (a/go (try
                    (scope/with-scope [s]
                      (a/>! scopes s)
                      (scope/fork s (fn [] (a/<! @owner))))
                    (catch Exception _ :cancelled)))
        canceller (a/go (let [s (a/<! scopes)] @gate (scope/cancel s)))]
    (deliver owner out)
    (is (eventually (= [[:likely 2]] (map (juxt :grade (comp count :chain)) (inspect/deadlocks)))))
    (is (some #(re-find #"lead to that scope, so it may cancel it" (str (:because (:edge %)))) (:chain (first (inspect/deadlocks)))))
    (deliver gate true)
    (a/<!! canceller)
    (is (= :cancelled (a/<!! out)))))

(defn- two-peers
  "Two processes that monitor each other, and wait as (wait ref) does."
  [wait]
  (let [others (repeatedly 2 promise)
        pids (mapv #(actor/spawn (fn [] (wait (actor/monitor @%)))) others)]
    (run! (fn [[other pid]] (deliver other pid)) (map vector others (rseq pids)))
    (is (eventually (every? #(str/includes? (str (:text (inspect/why-stuck %))) " for a message") pids)))
    pids))

(deftest two-that-monitor-each-other-are-stuck-only-if-no-other-process-can-send-what-they-wait-for
  (doseq [[found wait] [[[] (fn [ref] (actor/receive [:work _] :worked, [:DOWN ref :process _ why] why))]
                        [[] (fn [ref] (actor/receive (:or [:DOWN ref :process _ _] :stop) :over))]
                        [[[:likely 2]] (fn [ref] (actor/receive [ref {:price price}] price, [:DOWN ref :process _ why] why))]]]
    (let [pids (two-peers wait)]
      (is (if (seq found)
            (eventually (= found (map (juxt :grade (comp count :chain)) (inspect/deadlocks))))
            (= [] (inspect/deadlocks))))
      (run! #(actor/exit % :kill) pids))))

;; ---- woken threads

(deftest a-thread-that-was-woken-does-not-wait-even-if-it-has-not-run-yet
  (let [wait-of (fn [thread] (waits/of (FiberInfo. thread nil "CHANNEL_TAKE" "take from a channel" (a/chan) 0 1 0) {}))
        held (promise)
        waiting (doto (Thread. ^Runnable (fn [] @held)) (.start))]
    (is (nil? (wait-of (Thread/currentThread))))
    (is (eventually (= :channel-take (:why (wait-of waiting)))))
    (deliver held :value)
    (.join waiting)))

(defn- with-forks
  "Calls f with a scope whose forks run these functions, and cancels it then."
  [fs f]
  (is (thrown-with-msg? clojure.lang.ExceptionInfo #"was cancelled"
                        (scope/with-scope [s]
                          (let [forks (mapv (fn [waits] (scope/fork s (fn [] (try (waits) (catch Exception _ nil))))) fs)]
                            (try
                              (f forks)
                              (finally (scope/cancel s))))))))

;; ---- many

(deftest a-cycle-of-a-thousand-is-found-beside-those-that-wait-for-it
  (let [last-of (fn [out n] (nth (iterate (fn [before] (a/go (a/<! before))) out) n))
        first-wait (promise)
        around (last-of (a/go (a/<! @first-wait)) 999)
        outside (last-of around 500)]
    (deliver first-wait around)
    (is (eventually (seq (inspect/deadlocks))))
    (let [[{:keys [grade chain text]} :as found] (inspect/deadlocks)]
      (is (= [1 :exact 1000] [(count found) grade (count (distinct (map :id chain)))]))
      (is (re-find #"^(go \S+ waits at \S+ for the value of go \S+, )(which waits [^,]+, ){2}\.\. 994 more \.\.(, which waits [^,]+){3}\.$" text) text))
    (let [{:keys [chain]} (inspect/why-stuck (finisher-of outside))]
      (is (= 1500 (count chain)))
      (is (= 1000 (count (drop-while #(not= (get-in (peek chain) [:edge :to]) (:id %)) chain)))))
    (a/close! around)
    (is (nil? (a/<!! outside)))))

(deftest all-that-put-on-one-channel-have-one-cause
  (let [[one other] (repeatedly 2 a/chan)
        puts (vec (for [ch [one one one other]] (a/go (a/>! ch :value))))]
    (is (eventually (every? #(= "put on a channel" (:waits-for (info-of %))) puts)))
    (is (= [3 1] (map :behind (filter #(re-find #"stuck_test\.clj:\d+ to put on a channel" (:text %)) (inspect/why-stuck {:at-least 0})))))
    (run! #(a/go (a/<! %)) [one one one other])
    (is (= [true true true true] (mapv a/<!! puts)))))

(deftest what-many-await-in-the-jdk-is-read-once
  (let [permits (Semaphore. 0)
        lot (mapv (fn [_] (a/go (.acquire permits))) (range 100))
        lone (promise)
        holder (a/go @lone (.release permits 100))
        reads (atom 0)
        object awaited/object]
    (is (eventually (= 100 (.getQueueLength permits))))
    (with-redefs [awaited/object (fn [snapshot {:keys [wait] :as node}]
                                   (when (= :semaphore (:why wait)) (swap! reads inc))
                                   (object snapshot node))]
      (let [found (filter #(re-find #"stuck_test\.clj:\d+ for a permit of a Semaphore that go magnetar/stuck_test" (:text %)) (inspect/why-stuck {:at-least 0}))]
        (is (= [100] (map :behind found)))
        (is (<= 1 (long @reads) 20) "in two snapshots, and some of other tests")))
    (deliver lone true)
    (run! a/<!! (cons holder lot))))

(defn- texts-of-blocked
  "The texts of the findings about this file."
  []
  (filterv #(str/includes? % "stuck_test.clj") (map :text (inspect/why-stuck {:at-least 1}))))

(defn- with-permit [^Semaphore permits f]
  (.acquire permits)
  (try (f) (finally (.release permits))))

(deftest what-ends-by-itself-blocks-nobody
  (let [nap #(Thread/sleep 3600000) ; its end is not known; `scope/sleep` records its end
        lock (ReentrantLock.)
        monitor (Object.)
        permits (Semaphore. 1)
        jobs (a/chan)
        locks? #(.isLocked lock)]
    (testing "a lock, a monitor, a permit and a channel of a fiber that sleeps"
      (with-forks
        [#(do (.lock lock) (nap))
         #(do (while (not (locks?)) (Thread/onSpinWait)) (.lockInterruptibly lock))
         #(locking monitor (nap))
         #(with-permit permits nap)
         #(with-permit permits nap)
         #(loop [] (a/<! jobs) (nap) (recur))
         #(loop [] (a/<! jobs) (nap) (recur))
         #(loop [] (a/>! jobs :job) (recur))]
        (fn [forks]
          (is (eventually (and (.hasQueuedThreads lock) (.hasQueuedThreads permits) (every? inspect/why-stuck forks))))
          (is (= [] (texts-of-blocked))))))
    (testing "a lock of a fiber that sleeps for long is told"
      (let [lock (ReentrantLock.)]
        (with-forks
          [#(do (.lock lock) (scope/sleep 3600000))
           #(do (while (not (.isLocked lock)) (Thread/onSpinWait)) (.lockInterruptibly lock))]
          (fn [_]
            (is (eventually (= 1 (count (texts-of-blocked)))))))))
    (testing "a permit that is lost is told beside another semaphore's that is in use"
      (let [[lost used] [(Semaphore. 0) (Semaphore. 1)]]
        (with-forks
          [#(with-permit lost nap) #(with-permit used nap)]
          (fn [_]
            (is (eventually (= 1 (count (filter #(re-find #"for a permit" %) (texts-of-blocked))))))))))))

(defn- ends?
  "Does the node of these edges end when those do that are not among the others?"
  [others edges]
  (let [ended? (complement #(contains? others (:to %)))]
    (or (every? ended? edges)
        (boolean (some #(and (:either %) (ended? %)) edges)))))

(defn- without-ends-slowly [graph]
  (if-some [ended (seq (for [[id edges] graph :when (ends? graph edges)] id))]
    (recur (apply dissoc graph ended))
    (update-vals graph (partial filterv #(contains? graph (:to %))))))

(deftest what-ends-is-found-as-by-taking-away-one-after-the-other
  (let [random (Random. 29)
        edges (fn [n kind] (vec (repeatedly (inc (.nextInt random 3)) #(hash-map :to (long (.nextInt random n)) kind true))))]
    (dotimes [_ 2000]
      (let [n (+ 2 (.nextInt random 10))
            graph (into {} (for [id (range n) :when (< (.nextInt random 4) 3)]
                             [id (edges n (if (.nextBoolean random) :one :either))]))]
        (is (= (without-ends-slowly graph) (#'stuck/without-ends graph)) (pr-str graph))))))

(deftest results-need-no-local-variables
  (let [form `(do (require '[magnetar.async :as ~'a] '[magnetar.inspect :as ~'inspect])
                  (let [~'other (promise)
                        ~'one (~'a/go (~'a/<! @~'other))]
                    (deliver ~'other (~'a/go (~'a/<! ~'one)))
                    (while (empty? (inspect/deadlocks)))
                    (println (map (juxt :grade (comp count :chain)) (inspect/deadlocks)))
                    (System/exit 0)))
        {:keys [exit out]} (child/run (checks/class-path) 100 "-Dmagnetar.locals=false" "clojure.main" "-e" (pr-str form))]
    (is (= 0 exit) out)
    (is (re-find #"\(\[:exact 2\]\)" out) out)))

(deftest a-wait-at-a-socket-is-told-without-local-variables
  (with-open [server (ServerSocket. 0 1 (InetAddress/getLoopbackAddress))]
    (scope/with-scope [s]
      (let [accepting (scope/daemon s #(.accept server))]
        (with-redefs [stacks/of (fn [& _] (throw (AssertionError. "Local variables were read.")))]
          (is (eventually (re-find #" waits at stuck_test.clj:\d+ for a connection to a server socket\.$" (str (:text (inspect/why-stuck accepting)))))))))))

(deftest without-local-variables-nobody-is-blamed
  (let [form `(do (load-file ~(str (hangs/folder "call_cycle_hop.clj")))
                  (require '[magnetar.inspect :as ~'inspect])
                  (let [{:keys [~'ready]} ((ns-resolve '~'call-cycle-hop '~'start))]
                    (while (not (~'ready)))
                    (println [(count (inspect/deadlocks)) (:text (inspect/why-stuck :tickets))])
                    (System/exit 0)))
        {:keys [exit out]} (child/run (checks/class-path) 100 "-Dmagnetar.locals=false" "clojure.main" "-e" (pr-str form))]
    (is (= 0 exit) out)
    (is (re-find #"\[0 :tickets calls :halls .* which waits at call_cycle_hop.clj:\d+ for a message\.\]" out) out)))

(deftest what-cannot-be-asked-is-refused-by-its-name
  (let [pid (actor/spawn-opt #(actor/receive :stop nil) {:name :stock-taking})]
    (try
      (is (thrown-with-msg? MisuseException #"no process has the name :stock-takin\. Is :stock-taking meant\?" (inspect/why-stuck :stock-takin)))
      (is (thrown-with-msg? MisuseException #"no process has the name nothing-like-it\.$" (inspect/why-stuck 'nothing-like-it)))
      (is (thrown-with-msg? MisuseException #"knows no fiber and no thread with the :id -1;" (inspect/why-stuck -1)))
      (finally (actor/exit pid :kill)))
    (is (eventually (not (actor/alive? pid))))
    (is (nil? (inspect/why-stuck pid)) "a dead pid")
    (is (= [] (inspect/why-stuck {:at-least :infinity})))))

(deftest a-fork-that-has-ended-does-not-wait
  (scope/with-scope [s]
    (let [ended (scope/fork s (constantly 1))]
      (scope/join ended)
      (is (nil? (inspect/why-stuck ended))))))

(defn- wait-for-lock
  "Calls f with a fork that waits for the lock, and takes and releases it again and again."
  [^ReentrantLock lock f]
  (scope/with-scope [s]
    (.lock lock)
    (let [again (atom true)
          taking (scope/fork s #(while @again (.lock lock) (.unlock lock)))]
      (try
        (is (eventually (.hasQueuedThreads lock)))
        (f taking)
        (finally
          (reset! again false)
          (.unlock lock))))))

(deftest an-owner-that-the-jvm-hides-is-told-with-the-option-that-shows-it
  (with-redefs [locks/owner-method nil]
    (let [lock (ReentrantLock.)]
      (wait-for-lock lock
        (fn [taking]
          (let [{:keys [text chain]} (inspect/why-stuck taking)
                lines ((second (views/all "stuck")) {:why-stuck (repeat 3 {:text text})})]
            (is (= 1 (count chain)))
            (is (str/ends-with? text " for a ReentrantLock, whose owner the JVM does not show (--add-opens java.base/java.util.concurrent.locks=ALL-UNNAMED shows it)."))
            (testing "the option is told once"
              (is (= [false true false false] (map #(str/includes? % "--add-opens") lines)))
              (is (str/ends-with? (last lines) " for a ReentrantLock, whose owner the JVM does not show."))
              (is (= 1 (count (filter #(str/includes? % "--add-opens")
                                      (views/overview {:deadlocks [{:text text}], :why-stuck [{:text text}], :restarts [], :tree []}))))))))))))

(deftest a-wait-for-a-lock-is-identified-by-its-node-in-the-queue
  (let [lock (ReentrantLock. true)
        node (fn [taking]
               (let [{:keys [nodes] :as snapshot} (stuck/with-edges)
                     {:keys [thread wait]} (nodes (:id (first (:chain (inspect/why-stuck taking)))))]
                 (locks/queue-node snapshot thread (:on wait))))]
    (wait-for-lock lock
      (fn [taking]
        (let [first (node taking)]
          (is (some? first))
          (is (identical? first (node taking)))
          (.unlock lock) ; it is fair, so the fork takes it first, and then waits again
          (.lock lock)
          (is (eventually (some-> (node taking) (identical? first) not))))))))

(deftest a-deadlock-over-locks-needs-no-local-variables
  (let [form `(do (require '[magnetar.async :as ~'a] '[magnetar.inspect :as ~'inspect])
                  (let [[~'left ~'right] (repeatedly #(java.util.concurrent.locks.ReentrantLock.))
                        ~'meet (java.util.concurrent.CyclicBarrier. 2)
                        ~'both (fn [~'one ~'other]
                                 (.lock ~'one)
                                 (.await ~'meet)
                                 (.lock ~'other))]
                    (~'a/go (~'both ~'left ~'right))
                    (~'a/go (~'both ~'right ~'left))
                    (while (empty? (inspect/deadlocks)))
                    (println (map (juxt :grade (comp count :chain)) (inspect/deadlocks)))
                    (System/exit 0)))
        {:keys [exit out]} (child/run (checks/class-path) 100 "-Dmagnetar.locals=false" "--add-opens" "java.base/java.util.concurrent.locks=ALL-UNNAMED"
                                      "clojure.main" "-e" (pr-str form))]
    (is (= 0 exit) out)
    (is (re-find #"\(\[:exact 2\]\)" out) out)))

;; ---- what the JDK knows

(deftest futures-that-wait-for-each-other-are-found-exactly
  (let [[one other] (repeatedly 2 promise)]
    (deliver one (future @@other))
    (deliver other (future @@one))
    (try
      (is (eventually (seq (inspect/deadlocks))))
      (let [[{:keys [grade chain text]} :as found] (inspect/deadlocks)]
        (is (= [1 :exact 2] [(count found) grade (count chain)]))
        (is (= 2 (count (re-seq #" waits at stuck_test\.clj:\d+ for a future that \S+ computes" text))) text))
      (finally
        (run! #(future-cancel @%) [one other])))
    (is (eventually (= [] (inspect/deadlocks))))))

(defn- waits-for-inner
  "Submits a task that waits for another task of the same pool, which has so many threads, while `blocked` tasks wait for `go-on`."
  [threads blocked go-on]
  (let [pool (Executors/newFixedThreadPool threads)]
    (dotimes [_ blocked] (.submit pool ^Runnable (fn [] @go-on)))
    (.submit pool ^Runnable (fn [] (.get (.submit pool ^Callable (fn [] 1)))))
    pool))

(deftest a-task-that-waits-in-the-queue-of-its-own-pool-is-found
  (let [go-on (promise)
        stuck (waits-for-inner 1 0 go-on)
        twin (waits-for-inner 2 1 go-on)] ; its inner task waits for a thread that can go on
    (try
      (is (eventually (seq (inspect/deadlocks))))
      (let [[{:keys [grade chain text]} :as found] (inspect/deadlocks)]
        (is (= [1 :likely 1] [(count found) grade (count chain)]) (pr-str (map :text found)))
        (is (re-find #"pool-\d+-thread-1 waits at stuck_test\.clj:\d+ for a future that is in the queue of its own pool, whose only thread waits\.$" text) text))
      (finally
        (deliver go-on true)
        (run! #(.shutdownNow ^ExecutorService %) [stuck twin])))
    (is (eventually (= [] (inspect/deadlocks))))))

(defn- full-of
  "A pool whose n threads all call (ask pool), at the same time."
  [n ask]
  (let [pool (Executors/newFixedThreadPool n)
        meet (CyclicBarrier. n)]
    (dotimes [_ n]
      (.submit pool ^Runnable (fn [] (.await meet) (ask pool))))
    pool))

(defn- supplied ^CompletableFuture [pool]
  (CompletableFuture/supplyAsync (reify Supplier (get [_] 1)) pool))

(deftest a-pool-whose-threads-all-wait-for-its-queue-is-one-deadlock
  (doseq [ask [(fn [^ExecutorService pool] (.get (.submit pool ^Callable (fn [] 1))))
               (fn [pool] (.get (supplied pool)))
               (fn [pool] (.join (.thenApply (supplied pool) (reify Function (apply [_ x] x)))))
               (fn [pool] (.join (CompletableFuture/allOf (into-array [(supplied pool) (CompletableFuture.)]))))]
          :let [pool (full-of 3 ask)]]
    (try
      (is (eventually (seq (inspect/deadlocks))))
      (let [[{:keys [grade text]} :as found] (inspect/deadlocks)]
        (is (= [1 :likely] [(count found) grade]) (pr-str (map :text found)))
        (is (re-find #" waits at stuck_test\.clj:\d+ for a future that is in the queue of its own pool, whose 3 threads all wait\.$" text) text))
      (finally (.shutdownNow ^ExecutorService pool)))
    (is (eventually (= [] (inspect/deadlocks))))))

(deftest a-future-that-completes-after-a-time-is-in-no-deadlock
  (let [asked (promise)
        pool (full-of 1 (fn [pool]
                          (let [future (.orTimeout (supplied pool) 1 TimeUnit/HOURS)]
                            (deliver asked (Thread/currentThread))
                            (.join future))))]
    (try
      (is (eventually (= Thread$State/WAITING (.getState ^Thread @asked))))
      (is (= [] (inspect/deadlocks)))
      (finally (.shutdownNow ^ExecutorService pool)))))

(deftest a-deadlock-over-a-queue-and-a-lock-names-both
  (let [lock (ReentrantLock.)
        pool (full-of 2 (fn [pool]
                          (if (.tryLock lock)
                            (.get (supplied pool))
                            (.lockInterruptibly lock))))]
    (try
      (is (eventually (seq (inspect/deadlocks))))
      (let [[{:keys [text]} :as found] (inspect/deadlocks)]
        (is (= 1 (count found)) (pr-str (map :text found)))
        (is (re-find #"a future that is in the queue of .*pool" text) text)
        (is (re-find #"for a ReentrantLock of" text) text))
      (finally (.shutdownNow ^ExecutorService pool)))
    (is (eventually (= [] (inspect/deadlocks))))))

(deftest a-thread-without-a-name-is-called-by-its-number
  (let [[lock other] (repeatedly 2 #(ReentrantLock.))
        meet (CyclicBarrier. 2)
        in-turn (fn [^ReentrantLock one ^ReentrantLock two]
                  (.lock one)
                  (try
                    (.await meet)
                    (.lockInterruptibly two)
                    (catch InterruptedException _ nil)
                    (finally (.unlock one))))
        thread (Thread/startVirtualThread #(in-turn lock other))]
    (with-forks
      [#(in-turn other lock)]
      (fn [_]
        (is (eventually (seq (inspect/deadlocks))))
        (is (re-find (re-pattern (str "virtual thread " (.threadId thread) " waits ")) (str (:text (first (inspect/deadlocks))))))
        (.interrupt thread)))))

(deftest a-reader-that-wants-to-write-waits-for-itself
  (let [[lock twin] (repeatedly 2 #(ReentrantReadWriteLock.))]
    (with-forks
      [(fn []
         (.lock (.readLock ^ReentrantReadWriteLock lock))
         (.lockInterruptibly (.writeLock ^ReentrantReadWriteLock lock)))
       (fn []
         (.lock (.writeLock ^ReentrantReadWriteLock twin))
         (.lock (.readLock ^ReentrantReadWriteLock twin))
         @(promise))]
      (fn [_]
        (is (eventually (seq (inspect/deadlocks))))
        (let [[{:keys [grade text]} :as found] (inspect/deadlocks)]
          (is (= [1 :exact] [(count found) grade]))
          (is (re-find #" waits at stuck_test\.clj:\d+ for the write lock of a ReentrantReadWriteLock that it holds for reading\.$" text) text))))))

(deftest a-reader-behind-a-writer-behind-a-reader-is-found
  (let [lock (ReentrantReadWriteLock.)
        reads (promise)
        value (promise)]
    (with-forks
      [(fn []
         (.lock (.readLock lock))
         (deliver reads true)
         (while (not (.hasQueuedThreads lock)) (Thread/onSpinWait))
         (a/<! (a/go (.lockInterruptibly (.readLock lock)) (deliver value 1))))
       (fn []
         @reads
         (.lockInterruptibly (.writeLock lock)))]
      (fn [_]
        (is (eventually (seq (inspect/deadlocks))))
        (let [[{:keys [grade text chain]}] (inspect/deadlocks)]
          (is (= [:exact 3] [grade (count chain)]))
          (is (re-find #"for the read lock of a ReentrantReadWriteLock behind fork \S+, which waits" text) text)
          (is (re-find #"for the write lock of a ReentrantReadWriteLock that fork \S+ holds for reading" text) text))))))

(deftest a-server-that-awaits-a-task-which-calls-it-is-found
  (let [server {:init (fn [_] [:ok nil])
                :handle-call (fn [message _ state]
                               (let [me (actor/self)
                                     asks #(gs/call me :count {:timeout :infinity})]
                                 [:reply (if (= :total message) (task/await (task/async asks) {:timeout :infinity}) 1) state]))}
        [_ pid] (gs/start server nil)
        client (a/go (try (gs/call pid :total {:timeout :infinity}) (catch Exception _ :gone)))]
    (is (eventually (seq (inspect/deadlocks))))
    (let [[{:keys [grade text chain]} :as found] (inspect/deadlocks)]
      (is (= [1 :likely 2] [(count found) grade (count chain)]))
      (is (re-find #" for the answer of task \S+stuck_test\.clj:\d+, which calls " text) text))
    (actor/exit pid :kill)
    (is (= :gone (a/<!! client)))))

(deftest what-is-waited-for-in-the-jdk-is-told-as-the-program-calls-it
  (let [queue (ArrayBlockingQueue. 1)
        cases {" for a promise\\." #(deref (promise))
               " for a future that \\S+ computes, which waits at \\S+ for a promise\\." #(deref (future @(promise)))
               " to put into an ArrayBlockingQueue\\." #(do (.put queue 1) (.put queue 2))
               " to take from a LinkedBlockingQueue\\." #(.take (LinkedBlockingQueue.))
               " for the other parties of a CyclicBarrier\\." #(.await (CyclicBarrier. 2))
               " for the other party of an Exchanger\\." #(.exchange (Exchanger.) 1)
               " for a CompletableFuture\\." #(.get (CompletableFuture.))
               " for a CountDownLatch\\." #(.await (CountDownLatch. 1))
               " for a permit of a Semaphore\\." #(.acquire (Semaphore. 0))}]
    (with-forks (vals cases)
      (fn [forks]
        (doseq [[words fork] (map vector (keys cases) forks)]
          (is (eventually (re-find (re-pattern words) (str (:text (inspect/why-stuck fork))))) words))
        (testing "what waits for a permit or for room in a queue is blocked, what waits for a promise is not"
          (let [blocked (map :text (inspect/why-stuck {:at-least 10}))
                waiting (fn [words] (count (filter #(re-find (re-pattern (str "^fork \\S+stuck_test\\S+ waits at \\S+ " words)) %) blocked)))]
            (is (= [1 1 0] (map waiting ["for a permit" "to put into" "for a (promise|future)"])))))))))

(deftest an-owner-that-has-ended-is-named
  (let [lock (ReentrantLock.)]
    (with-forks [#(.lock lock)]
      (fn [_]
        (is (eventually (.isLocked lock)))
        (scope/with-scope [s]
          (let [waits (scope/daemon s #(.lockInterruptibly lock))]
            (is (eventually (re-find #" for a ReentrantLock of fork \S+stuck_test\.clj:\d+, which has ended\.$" (str (:text (inspect/why-stuck waits))))))
            (is (not-any? #(= :ended (:kind %)) (nodes)))))))))

(defn- both
  "Takes one lock, waits for the other thread to have taken the second one, and wants that."
  [^ReentrantLock one ^CyclicBarrier meet ^ReentrantLock other]
  (.lock one)
  (.await meet)
  (try
    (.lockInterruptibly other)
    (.unlock other)
    (catch InterruptedException _))
  (.unlock one))

(defn- check-two-names
  "Checks that there is one deadlock, of these two names, and interrupts one of the threads."
  [names ^Thread interrupted]
  (is (eventually (seq (inspect/deadlocks))))
  (let [[{:keys [grade text chain]} :as found] (inspect/deadlocks)]
    (is (= [1 :exact 2] [(count found) grade (count chain)]) text)
    (is (every? #(str/includes? (str text) %) names) text))
  (.interrupt interrupted))

(deftest a-deadlock-of-virtual-threads-that-the-kernel-has-not-started-is-found
  (let [[one other] (repeatedly 2 #(ReentrantLock.))
        meet (CyclicBarrier. 2)
        start (fn ^Thread [^String name ^Runnable f] (-> (Thread/ofVirtual) (.name name) (.start f)))
        pay (start "test-pay" #(both one meet other))
        refund (start "test-refund" #(both other meet one))]
    (scope/with-scope [s]
      (let [sees (scope/fork s (fn [] (while (not (.isLocked ^ReentrantLock one)) (Thread/onSpinWait))
                                 (try (.lockInterruptibly ^ReentrantLock one) (.unlock ^ReentrantLock one) (catch InterruptedException _))))]
        (check-two-names ["test-pay" "test-refund"] pay)
        (scope/join sees)))
    (run! #(.join ^Thread %) [pay refund])))

(deftest a-worker-of-the-common-pool-is-found-in-a-deadlock
  (let [[one other] (repeatedly 2 #(ReentrantLock.))
        meet (CyclicBarrier. 2)
        worker (promise)
        done (CompletableFuture/runAsync #(do (deliver worker (Thread/currentThread)) (both one meet other)))
        go (a/go (both other meet one))]
    (check-two-names ["worker" "go magnetar/stuck_test.clj"] @worker)
    (a/<!! go)
    (.get done)))

(deftest an-owner-of-a-monitor-that-runs-is-named-as-likely
  (let [monitor (Object.)
        spins (promise)
        again (atom true)]
    (scope/with-scope [s]
      (let [owner (scope/fork s #(locking monitor (deliver spins true) (while @again (Thread/onSpinWait))))]
        @spins
        (let [waits (scope/fork s #(locking monitor 1))]
          (is (eventually (re-find #" for the monitor of an Object that fork \S+ may own, which runs at \S+\.$" (str (:text (inspect/why-stuck waits)))))))
        (reset! again false)
        (scope/join owner)))))

(deftest a-stock-jvm-finds-a-deadlock-of-threads-over-monitors-and-names-the-options-for-fibers
  (let [form `(do (require '[magnetar.actor :as ~'actor] '[magnetar.inspect :as ~'inspect])
                  (let [[~'left ~'right] (repeatedly #(Object.))
                        ~'meet (java.util.concurrent.CyclicBarrier. 2)
                        ~'lock (java.util.concurrent.locks.ReentrantLock.)
                        ~'both (fn [~'one ~'other]
                                 (locking ~'one
                                   (.await ~'meet)
                                   (locking ~'other 1)))]
                    (.start (Thread. ^Runnable #(~'both ~'left ~'right)))
                    (.start (Thread. ^Runnable #(~'both ~'right ~'left)))
                    (while (empty? (inspect/deadlocks)))
                    (println (map (juxt :grade (comp count :chain)) (inspect/deadlocks)))
                    (.lock ~'lock)
                    (~'actor/spawn-opt #(.lock ~'lock) {:name :waits})
                    (~'actor/spawn-opt #(locking ~'left 1) {:name :enters})
                    (while (not (.hasQueuedThreads ~'lock)))
                    (while (> 2 (count (inspect/why-stuck {:at-least 10}))))
                    (run! (comp println :text) (inspect/why-stuck {:at-least 10}))
                    (System/exit 0)))
        {:keys [exit out]} (child/run (checks/class-path) 100 "clojure.main" "-e" (pr-str form))]
    (is (= 0 exit) out)
    (is (re-find #"\(\[:exact 2\]\)" out) out)
    (is (re-find #":waits waits .*whose owner the JVM does not show \(--add-opens java.base/java.util.concurrent.locks=ALL-UNNAMED" out) out)
    (is (re-find #":enters waits .*whose owner the JVM does not show \(--add-opens java.base/java.lang=ALL-UNNAMED" out) out)))

(deftest an-inner-lock-of-a-queue-is-told-as-such
  (let [queue (ArrayBlockingQueue. 1)
        ^ReentrantLock inner (reach/field queue "lock")]
    (with-forks [(fn [] (.lock inner) (try @(promise) (finally (.unlock inner))))]
      (fn [_]
        (is (eventually (.isLocked inner)))
        (with-forks [#(.put queue 1)]
          (fn [[puts]]
            (is (eventually (re-find #" to put into an ArrayBlockingQueue whose inner lock fork \S+ holds, which waits at \S+ for a promise"
                                     (str (:text (inspect/why-stuck puts))))))))))))

(deftest of-several-that-can-reach-a-permit-none-is-blamed
  (let [permits (Semaphore. 1)
        [rows work] (repeatedly 2 a/chan)
        export (fn [] (.acquire permits) (a/<! rows) (.release permits))
        later (fn [] (.acquire permits))
        idle (fn [] (a/<! work) (.release permits))]
    (with-forks [idle export]
      (fn [_]
        (is (eventually (zero? (.availablePermits permits))))
        (scope/with-scope [s]
          (let [waits (scope/daemon s later)
                pattern #" for a permit of a Semaphore that 2 others can reach: (fork \S+) at \S+:\d+, (fork \S+) at \S+:\d+\.$"]
            (is (eventually (re-find pattern (str (:text (inspect/why-stuck waits))))))
            (let [{:keys [grade chain]} (inspect/why-stuck waits)
                  {:keys [to any]} (:edge (peek chain))]
              (is (= [:likely 1 nil 2] [grade (count chain) to (count any)])))))))))

(deftest a-producer-that-shares-a-channel-is-not-said-to-hold-it
  (let [[jobs mails] (repeatedly 2 a/chan)]
    (with-forks [#(a/>! jobs (a/<! mails)) #(a/>! jobs 1)]
      (fn [[_ puts]]
        (is (eventually (re-find #" to put on a channel that fork \S+ can reach, which waits at \S+ to take from a channel\.$"
                                 (str (:text (inspect/why-stuck puts))))))))))

(deftest a-tap-from-which-nothing-takes-is-the-cause-behind-a-pub
  (let [[in slow] (repeatedly 2 a/chan)
        topics (a/pub in :topic)]
    (a/sub topics :orders slow)
    (with-forks [#(run! (fn [n] (a/>! in {:topic :orders :n n})) (range))]
      (fn [[puts]]
        (is (eventually (re-find #"can reach, which waits to put on a channel that mult \S+ can reach, which waits for a tap from which nothing takes\.$"
                                 (str (:text (inspect/why-stuck puts))))))
        (is (= 1 (count (re-seq #"pub stuck_test" (:text (inspect/why-stuck puts))))))))
    (a/unsub-all topics)
    (a/close! in)))

(deftest promises-that-are-delivered-after-each-other-lead-to-each-other
  (let [[one other] (repeatedly 2 promise)]
    (with-forks [#(deliver one @other) #(deliver other @one)]
      (fn [forks]
        (doseq [fork forks]
          (is (eventually (= 2 (count (re-seq #" for a promise that fork \S+ can reach" (str (:text (inspect/why-stuck fork)))))))))
        (is (= :likely (:grade (inspect/why-stuck (first forks)))))))))
