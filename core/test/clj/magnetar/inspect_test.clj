(ns magnetar.inspect-test
  "What the program is doing now: the runtime, the fibers, and what each waits for."
  (:require
   [clojure.edn :as edn]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.dev.child :as child]
   [magnetar.inspect :as inspect]
   [magnetar.kernel.checks :as checks]
   [magnetar.resilience :as r]
   [magnetar.scope :as scope :refer [with-scope]]
   [magnetar.support :refer [eventually start-thread taken value-of waiting-takers]])
  (:import
   (magnetar.kernel.report Failures)))

(set! *warn-on-reflection* true)

(deftest runtime-says-what-magnetar-runs-on
  (let [{:keys [wake-up go-blocks jdk java-home clojure carriers added-carriers fibers timers] :as all} (inspect/runtime)]
    (is (= 10 (count all)))
    (is (contains? #{[:unpark :executor] [:hand-off :untracked] [:hand-off :executor]} [wake-up go-blocks]))
    (is (= [(System/getProperty "java.version") (System/getProperty "java.home") (clojure-version)] [jdk java-home clojure]))
    (is (pos-int? carriers))
    (is (every? nat-int? [added-carriers fibers timers]))))

(deftest runtime-tells-the-parallelism-that-the-program-has-set
  (let [form '(do (require '[magnetar.inspect :as inspect])
                  (let [scheduler (java.lang.management.ManagementFactory/getPlatformMXBean jdk.management.VirtualThreadSchedulerMXBean)
                        first (:carriers (inspect/runtime))]
                    (.setParallelism scheduler 5)
                    (println [first (:carriers (inspect/runtime))])))
        {:keys [exit out]} (child/run (checks/class-path) 100 "-Djdk.virtualThreadScheduler.parallelism=3" "-Dmagnetar.added-carriers=0"
                                      "clojure.main" "-e" (pr-str form))]
    (is (= 0 exit) out)
    (is (str/includes? out "[3 5]") out)))

(defn- fiber-of
  "Starts f on a go and returns what `inspect` says of it once it waits."
  [f]
  (let [thread (promise)]
    (a/go (deliver thread (Thread/currentThread)) (f))
    (let [thread (value-of thread)]
      (is (eventually (:waits-for (inspect/fiber-info thread))))
      (inspect/fiber-info thread))))

(deftest ^{:spec ["C33"]} a-fiber-that-waits-says-for-what-on-which-channel-since-when
  (let [c (channel/chan)
        d (channel/chan)]
    (let [{:keys [name id state waits-for on since-ms]} (fiber-of #(channel/take c))]
      (is (re-matches #"go magnetar/inspect_test\.clj:\d+" name))
      (is (pos-int? id))
      (is (= [:waiting c] [state on]))
      (is (string? waits-for))
      (is (nat-int? since-ms)))
    (is (= d (:on (fiber-of #(channel/put d 1)))))
    (is (= [c [d :x]] (:on (fiber-of #(channel/select [c [d :x]])))) "a select names its clauses")
    (is (= 3 (count (set (map :waits-for [(fiber-of #(channel/take c)) (fiber-of #(channel/put d 1)) (fiber-of #(channel/select [c]))])))))
    (channel/close c)))

(deftest a-thread-that-waits-for-nothing-of-ours-says-only-who-it-is
  (is (= #{:name :id :state} (set (keys (inspect/fiber-info (Thread/currentThread)))))))

(deftest ^{:spec ["C33"]} a-platform-thread-that-waits-is-seen-too
  (let [c (channel/chan)
        [thread outcome] (start-thread :platform #(channel/take c))]
    (is (eventually (= c (:on (inspect/fiber-info thread)))))
    (channel/put c 1)
    (is (= 1 (value-of outcome)))))

(deftest fibers-lists-those-that-have-not-ended-in-the-order-of-their-start
  (let [c (channel/chan)
        results (doall (repeatedly 100 #(a/go (channel/take c))))
        mine #(filter (fn [fiber] (= c (:on fiber))) (inspect/fibers))]
    (is (eventually (= 100 (count (mine)))))
    (is (apply < (map :id (mine))))
    (is (<= 100 (long (:fibers (inspect/runtime)))))
    (channel/close c)
    (run! taken results)
    (is (eventually (empty? (mine))))))

(deftest a-fiber-that-has-ended-leaves-the-list
  (let [thread (promise)
        c (a/go (deliver thread (Thread/currentThread)))
        id (.threadId ^Thread (value-of thread))]
    (taken c)
    (is (eventually (not-any? #(= id (:id %)) (inspect/fibers))))))

(deftest listing-ten-thousand-fibers-takes-no-time-to-speak-of
  (let [c (channel/chan)]
    (dotimes [_ 10000] (a/go (channel/take c)))
    (is (eventually (= 10000 (waiting-takers c))))
    (is (eventually (let [begin (System/nanoTime)] ; another program may hold one look up
                      (is (<= 10000 (count (inspect/fibers))))
                      (< (quot (- (System/nanoTime) begin) 1000000) 2000))))
    (channel/close c)))

(deftest misuse-of-fiber-info-is-told-with-data
  (let [e (try (inspect/fiber-info :me) (catch IllegalArgumentException e e))]
    (is (= "`fiber-info` wants a Thread; this is :me." (ex-message e)))
    (is (= {:magnetar/reason :magnetar/not-a-thread :value :me} (ex-data e)))))

(defn- thrown-by [class-name]
  (doto (Exception. "x")
    (.setStackTrace (into-array StackTraceElement [(StackTraceElement. class-name "invoke" "x.clj" 1)]))))

(deftest a-report-of-a-failure-shows-no-frame-of-a-namespace-of-the-library
  (let [namespaces (into #{} (map (comp str key)) (edn/read-string (slurp "api.edn")))]
    (is (contains? namespaces "magnetar.actor"))
    (is (= [] (remove #(not (re-find #"    at " (Failures/describe "x" (thrown-by (str (munge %) "$f"))))) namespaces)))
    (is (re-find #"    at magnetar.actor-users/f" (Failures/describe "x" (thrown-by "magnetar.actor_users$f"))))))

(deftest a-report-of-a-failure-has-an-end
  (let [length #(count (Failures/describe "x" %))
        ring (Exception. "ring")]
    (.initCause ring (Exception. "back" ring))
    (are [error] (< 10 (length error) 200000)
      (ex-info "endless" {:numbers (range)})
      (ex-info "wide" {:d (nth (iterate #(vec (repeat 32 %)) 1) 8)})
      (ex-info "deep" {:d (nth (iterate vector 1) 100000)})
      (Exception. ^String (apply str (repeat 1000000 "long")))
      (reduce (fn [^Throwable cause n] (Exception. (str n) cause)) (Exception. "first") (range 10000))
      ring)
    (testing "and says what it can of an error that does not print"
      (let [mute (proxy [RuntimeException] [] (toString [] (throw (IllegalStateException.))))]
        (is (re-find #"RuntimeException.* \(it does not print: java.lang.IllegalStateException\)" (Failures/describe "x" mute)))))))

(deftest a-report-of-a-failure-shows-the-users-own-frames
  (let [boom (fn [] (throw (ex-info "boom" {})))
        e (try (with-scope [s] (scope/fork s #(r/call (r/retry {:max-attempts 1}) boom))) (catch Throwable e e))
        frames (re-seq #"(?m)^    at (\S+)" (Failures/describe "a test" e))]
    (is (seq frames))
    (is (= [] (remove #(re-find #"^magnetar\.(inspect-test|dev)" (second %)) frames)))))
