(ns magnetar.scope-test
  "Scopes: who owns what, what a failure, a deadline and a cancellation do, and that nothing is left behind."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.channel :as channel]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.support :refer [eventually message-of start-thread taken value-of waiting-putters waiting-takers with-failures]])
  (:import
   (java.lang.ref WeakReference)
   (java.net InetAddress ServerSocket Socket)
   (java.time Duration Instant)
   (java.util.concurrent CompletableFuture CountDownLatch ExecutionException TimeUnit)
   (java.util.concurrent.locks ReentrantLock)
   (java.util.function Function)
   (magnetar.kernel.fiber Cancelled)
   (magnetar.kernel.scope Fork)))

(set! *warn-on-reflection* true)

(defn- left-behind
  "The fibers that tests of this file started and that have not ended."
  []
  (filterv #(str/includes? (:name %) "scope_test.clj") (inspect/fibers)))

(use-fixtures :each
  (fn [test]
    (test)
    (is (eventually (empty? (left-behind))) "a test left fibers behind")
    (is (not (.isInterrupted (Thread/currentThread))) "a test left the thread interrupted")))

(defmacro error-of
  "What body throws, or [:no-error value]."
  [& body]
  `(try [:no-error (do ~@body)] (catch Throwable e# e#)))

(defn- reason [error]
  (:magnetar/reason (ex-data error)))

(defn- suppressed [^Throwable error]
  (mapv ex-message (.getSuppressed error)))

(defn- thread-of ^Thread [^Fork fork]
  (.get (.fiber fork)))

(defn- waits?
  "True once the fork is parked."
  [fork]
  (eventually (some-> (thread-of fork) .getState str (str/ends-with? "WAITING"))))

(defn- fail [message]
  (throw (ex-info message {:failed message})))

(defn- for-ever []
  (scope/sleep 100000000))

;; ---- values

(deftest a-scope-has-the-value-of-its-body
  (is (= {:a 2 :b [1 2 3]}
         (with-scope [s]
           (let [a (fork s inc 1)
                 b (fork s vector 1 2 3)]
             {:a @a :b @b}))))
  (is (nil? (with-scope [_])))
  (is (= [] (with-scope [s] (fork s inc 1) []))))

(deftest a-fork-is-a-function-and-can-be-applied-and-mapped
  (is (= [2 3 4] (with-scope [s] (mapv deref (mapv (partial scope/fork* s inc) [1 2 3])))))
  (is (= 6 (with-scope [s] @(apply scope/fork* s + [1 2 3])))))

(deftest a-fork-is-named-after-its-line-where-that-is-known
  (with-scope [s]
    (is (re-matches #"fork magnetar/scope_test\.clj:\d+" @(fork s #(.getName (Thread/currentThread)))))
    (is (= "fork magnetar.scope-test/fn" @(apply scope/fork* s [#(.getName (Thread/currentThread))])))
    (is (re-matches #"daemon magnetar/scope_test\.clj:\d+" @(scope/daemon s #(.getName (Thread/currentThread)))))))

(deftest the-result-of-a-fork-is-data
  (let [gate (channel/chan)
        cancelled (promise)]
    (is (= :forked
           (reason
             (error-of
               (with-scope [s {:joiner {:step (fn [_ _]) :result (fn [_ v _] v)}}]
                 (let [f (fork s channel/take gate)
                       good (fork s inc 1)
                       bad (fork s fail "boom")
                       gone (fork s for-ever)]
                   (is (= :running (:status (scope/result f))))
                   (channel/put gate 42)
                   (is (= 42 @f))
                   (is (= {:status :success :value 42} (select-keys (scope/result f) [:status :value :error])))
                   (is (str/starts-with? (:site (scope/result f)) "fork magnetar/scope_test.clj:"))
                   (is (identical? f (:fork (scope/result f))))
                   (is (= 2 @good))
                   (is (thrown? ExecutionException @bad))
                   (is (= [:failure "boom"] ((juxt :status (comp ex-message :error)) (scope/result bad))))
                   (scope/cancel gone :enough)
                   (is (thrown? ExecutionException @gone))
                   (deliver cancelled (scope/result gone))
                   (throw (ex-info "out" {:magnetar/reason :forked}))))))))
    (is (= :cancelled (:status @cancelled)))
    (is (= :enough (.why ^Cancelled (:error @cancelled))))))

;; ---- failures

(deftest ^{:spec ["C36"]} a-failing-fork-cancels-its-siblings-and-the-body-and-its-failure-names-its-line
  (let [ended (atom #{})
        mark (fn [k] (try (for-ever) (finally (swap! ended conj k))))
        e (error-of (with-scope [s]
                      (fork s mark :a)
                      (fork s mark :b)
                      (fork s fail "boom")
                      (mark :body)))]
    (is (= :magnetar/fork-failed (reason e)))
    (is (re-find #"The fork magnetar/scope_test\.clj:\d+ failed: boom$" (ex-message e)))
    (is (re-find #"scope_test\.clj:\d+" (:site (ex-data e))))
    (is (= {:failed "boom"} (ex-data (ex-cause e))))
    (is (= [] (suppressed e)))
    (is (empty? (disj @ended :a :b :body)))
    (is (contains? @ended :body))))

(deftest ^{:spec ["C36"]} the-first-failure-is-thrown-and-the-others-are-suppressed-and-named
  (let [ready (CountDownLatch. 2)
        late (fn [message] (try (.countDown ready) (for-ever) (finally (fail message))))
        e (error-of (with-scope [s]
                      (fork s late "second")
                      (fork s late "third")
                      (fork s #(do (.await ready) (fail "first")))))]
    (is (= "first" (ex-message (ex-cause e))))
    (is (= #{"second" "third"} (set (suppressed e))))
    (is (re-find #"failed: first \(and so did fork .*:\d+, fork .*:\d+\)" (ex-message e)))
    (is (= 2 (count (:also (ex-data e)))))))

(deftest ^{:spec ["C36"]} a-failure-that-the-body-learns-of-by-deref-is-told-once
  (dotimes [_ 50]
    (let [e (error-of (with-scope [s] @(fork s fail "boom")))]
      (is (= "boom" (ex-message (ex-cause e))))
      (is (= [] (suppressed e)))))
  (let [e (error-of (with-scope [s {:joiner scope/any}] @(fork s fail "boom")))]
    (is (= ["boom" []] [(ex-message (ex-cause e)) (suppressed e)]))))

(deftest ^{:spec ["C36"]} what-ends-by-the-interrupt-of-its-cancellation-has-not-failed
  (let [ready (CountDownLatch. 3)
        e (error-of (with-scope [s]
                      (fork s #(do (.countDown ready) (Thread/sleep 100000)))
                      (fork s #(do (.countDown ready) (.take (java.util.concurrent.LinkedBlockingQueue.))))
                      (fork s #(do (.countDown ready) @(promise)))
                      (fork s #(do (.await ready) (fail "first")))))]
    (is (= "first" (ex-message (ex-cause e))))
    (is (= [] (suppressed e)))
    (is (not (str/includes? (ex-message e) "and so did")))))

(deftest ^{:spec ["C36"]} a-failing-body-cancels-its-forks-and-throws-what-it-threw
  (let [ended (promise)
        started (promise)
        e (error-of (with-scope [s]
                      (fork s #(try (deliver started true) (for-ever) (finally (deliver ended true))))
                      (value-of started)
                      (fail "body")))]
    (is (= {:failed "body"} (ex-data e)))
    (is (realized? ended))))

(deftest a-body-that-fails-while-it-is-cancelled-is-not-forgotten
  (let [e (error-of (with-scope [s]
                      (fork s fail "fork")
                      (try (for-ever) (finally (fail "body")))))]
    (is (= "fork" (ex-message (ex-cause e))))
    (is (= ["body"] (suppressed e)))))

(deftest a-clean-up-that-fails-under-an-outer-cancellation-is-not-forgotten
  (let [started (promise)
        e (error-of (with-scope [outer]
                      (fork outer (fn [] (with-scope [s]
                                           (scope/on-exit s #(fail "clean-up"))
                                           (deliver started true)
                                           (for-ever))))
                      (value-of started)
                      (fail "outer")))]
    (is (= ["outer" ["clean-up"]] [(ex-message e) (suppressed e)]))))

(deftest an-error-of-java-is-a-failure-like-any-other
  (is (= "stack" (ex-message (ex-cause (error-of (with-scope [s] (fork s #(throw (StackOverflowError. "stack"))))))))))

;; ---- the end

(deftest ^{:spec ["C35"]} a-scope-does-not-return-before-a-fork-that-ignores-its-interrupt-has-ended
  (let [release (CountDownLatch. 1)
        started (promise)
        stubborn (fn []
                   (deliver started true)
                   (loop []
                     (when-not (try (.await release) true (catch InterruptedException _ false))
                       (recur))))
        [owner outcome] (start-thread :virtual #(error-of (with-scope [s] (fork s stubborn) (value-of started) (fail "body"))))]
    (value-of started)
    (is (eventually (= "end of the forks of a scope" (:waits-for (inspect/fiber-info owner)))))
    (is (not (realized? outcome)))
    (.countDown release)
    (is (= "body" (ex-message (value-of outcome))))))

(deftest ^{:spec ["C35"]} a-fork-that-does-not-end-is-named-with-its-stack
  (with-failures [failures]
    (let [release (CountDownLatch. 1)
          started (promise)
          stubborn (fn []
                     (deliver started true)
                     (loop []
                       (when-not (try (.await release) true (catch InterruptedException _ false))
                         (recur))))
          [_ outcome] (start-thread :virtual #(error-of (with-scope [s {:patience 10}] (fork s stubborn) (value-of started) (fail "body"))))]
      (is (eventually (seq @failures)))
      (is (re-find #"^fork .*scope_test\.clj:\d+ does not end: it was cancelled 10 ms ago, and the scope .*scope_test\.clj:\d+ waits for it"
                   (message-of (first @failures))))
      (is (some #(str/includes? (str %) "CountDownLatch") (.getStackTrace ^Throwable (:error (first @failures)))))
      (is (not (realized? outcome)))
      (.countDown release)
      (is (= "body" (ex-message (value-of outcome))))
      (is (= 1 (count @failures))))))

;; ---- cancellation reaches a fiber wherever it waits

(defn- cancelled-while
  "Forks f, cancels the scope when f waits, and returns what became of the fork and of the scope."
  [f]
  (let [seen (promise)
        e (error-of (with-scope [s]
                      (let [w (fork s #(try (f) (catch Throwable e (deliver seen e) (throw e))))]
                        (is (waits? w))
                        (scope/cancel s :stop)
                        (for-ever))))]
    [(reason e) (:cause (ex-data e)) (value-of seen) (suppressed e)]))

(defn- cancelled-in-kernel? [f]
  (let [[reason cause error others] (cancelled-while f)]
    (and (= [:magnetar/cancelled :stop []] [reason cause others]) (instance? Cancelled error))))

(deftest cancellation-reaches-a-fiber-on-a-channel-and-leaves-no-ghost
  (let [in (channel/chan)
        out (channel/chan)]
    (is (cancelled-in-kernel? #(channel/take in)))
    (is (cancelled-in-kernel? #(channel/put out 1)))
    (is (cancelled-in-kernel? #(channel/select [in [out 2]])))
    (is (cancelled-in-kernel? #(channel/take in {:timeout 1000000})))
    (is (= [0 0 0 0] [(waiting-takers in) (waiting-putters in) (waiting-takers out) (waiting-putters out)]))
    (let [[_ got] (start-thread :virtual #(channel/take in))]
      (channel/put in :first-real-value)
      (is (= :first-real-value (value-of got))))))

(deftest cancellation-reaches-a-fiber-in-the-waits-of-scopes
  (is (cancelled-in-kernel? for-ever))
  (is (cancelled-in-kernel? #(scope/await-callback (fn [_ _]))))
  (is (cancelled-in-kernel? #(scope/join (CompletableFuture.))))
  (is (cancelled-in-kernel? #(with-scope [s] @(fork s for-ever))))
  (is (cancelled-in-kernel? #(with-scope [s] (fork s (fn [] (with-scope [t] (fork t for-ever))))))))

(deftest cancellation-reaches-a-fiber-in-the-waits-of-the-jdk
  (let [interrupted? #(let [[reason _ error others] (cancelled-while %)]
                        (and (= :magnetar/cancelled reason) (= [] others) (instance? InterruptedException error)))
        lock (ReentrantLock.)
        release (promise)]
    (is (interrupted? #(Thread/sleep 1000000)))
    (is (interrupted? #(deref (promise))))
    (is (interrupted? #(.await (CountDownLatch. 1))))
    (let [f (future (value-of release))]
      (is (interrupted? #(deref f)))
      (deliver release true)
      @f)
    (.lock lock)
    (is (interrupted? #(.lockInterruptibly lock)))
    (.unlock lock)))

(deftest ^{:spec ["C38"]} cancellation-reaches-a-fiber-in-a-socket-read-and-in-an-accept
  (with-open [server (ServerSocket. 0 1 (InetAddress/getLoopbackAddress))
              client (Socket. (InetAddress/getLoopbackAddress) (.getLocalPort server))
              accepted (.accept server)]
    (let [[reason _ error others] (cancelled-while #(.read (.getInputStream accepted)))]
      (is (= [:magnetar/cancelled []] [reason others]))
      (is (instance? java.net.SocketException error))
      (is (.isClosed accepted)))
    (is (= :magnetar/cancelled (first (cancelled-while #(.accept server)))))
    (is (not (.isClosed client)))))

(deftest ^{:spec ["C38"]} a-fiber-that-swallows-its-interrupt-is-cancelled-at-its-next-operation
  (let [c (channel/chan {:size 10})
        [reason cause error] (cancelled-while (fn []
                                                (try (Thread/sleep 1000000) (catch InterruptedException _))
                                                (channel/put c 1)))]
    (is (= [:magnetar/cancelled :stop] [reason cause]))
    (is (instance? Cancelled error))
    (is (= 0 (:count (channel/info c))))))

(deftest ^{:spec ["C38"]} catching-exception-does-not-swallow-a-cancellation-and-every-later-operation-throws-it
  (let [throws (atom 0)
        attempt #(try (for-ever) (catch Exception _ :swallowed) (catch Cancelled _ (swap! throws inc)))]
    (cancelled-while (fn [] (attempt) (attempt) (attempt) (for-ever)))
    (is (= 3 @throws))))

(deftest one-fork-can-be-cancelled-alone
  (is (= :done (with-scope [s]
                 (let [a (fork s for-ever)
                       b (fork s #(scope/sleep 1))]
                   (scope/cancel a :not-needed)
                   (scope/join b)
                   (is (instance? Cancelled (ex-cause (error-of @a))))
                   (is (.isCancelled ^Fork a))
                   :done)))))

(deftest a-cancelled-fork-says-so-however-it-ended
  (doseq [wait [for-ever #(Thread/sleep 100000000) #(.acquire (java.util.concurrent.Semaphore. 0))]]
    (with-scope [s]
      (let [f (fork s wait)]
        (is (waits? f))
        (scope/cancel f :not-needed)
        (is (re-find #"^fork .*scope_test\.clj:\d+ was cancelled: :not-needed$" (ex-message (error-of @f))))
        (is (future-cancelled? f))
        (is (= :cancelled (:status (scope/result f)))))))
  (with-scope [s {:joiner {:step (fn [_ _]) :result (fn [_ v _] v)}}]
    (let [f (fork s #(try (for-ever) (finally (fail "clean-up"))))]
      (is (waits? f))
      (scope/cancel f)
      (is (re-find #"failed: clean-up$" (ex-message (error-of @f))))
      (is (not (future-cancelled? f)))
      :ok)))

(deftest a-fork-that-has-its-value-keeps-no-fiber-and-no-other-fork
  (with-scope [s]
    (let [forks (mapv (fn [i] (fork s (fn [] i))) (range 3))]
      (is (= [0 1 2] (mapv deref forks)))
      (is (every? nil? (map #(.fiber ^Fork %) forks)))
      (scope/cancel (first forks) :too-late)
      (is (= [:success :success :success] (map (comp :status scope/result) forks)))
      (is (= [false false false] (map #(.isCancelRequested ^Fork %) forks)))))
  (testing "a fork that ended while the other ran"
    (with-scope [s]
      (let [go-on (promise)
            other (WeakReference. (fork s deref go-on))
            kept (fork s (fn [] :kept))]
        (is (= :kept @kept))
        (deliver go-on :now)
        (is (eventually (do (System/gc) (nil? (.get other)))))
        (is (= {:status :success :value :kept} (select-keys (scope/result kept) [:status :value])))))))

(deftest ^{:spec ["C38"]} the-interrupt-of-a-cancellation-never-leaks-to-the-owner
  (let [clean? #(not (.isInterrupted (Thread/currentThread)))
        rounds (fn [f] (every? true? (repeatedly 100 #(do (error-of (f)) (clean?)))))]
    (is (rounds #(with-scope [s] (fork s fail "x") (Thread/sleep 100000))))
    (is (rounds #(with-scope [s] (fork s fail "x") 1)))
    (is (rounds #(with-scope [s] (scope/daemon s for-ever) 1)))
    (is (rounds #(with-scope [s] (fork s (fn [] (scope/cancel s))) (loop [] (when-not (scope/cancelled? s) (recur))))))
    (is (rounds #(with-scope [s {:joiner scope/race}] (fork s inc 1) (fork s for-ever) (for-ever))))
    (is (rounds #(with-scope [s {:deadline 1}] (Thread/sleep 100000))))))

(deftest ^{:spec ["C36"]} an-interrupt-from-outside-is-the-failure-of-the-body-and-cancels-the-forks
  (let [started (promise)
        [^Thread t outcome] (start-thread :virtual #(error-of (with-scope [s]
                                                                (fork s for-ever)
                                                                (deliver started true)
                                                                (for-ever))))]
    (value-of started)
    (.interrupt t)
    (is (instance? InterruptedException (value-of outcome)))))

;; ---- deadlines

(deftest ^{:spec ["C40"]} a-deadline-cancels-the-scope-and-says-so
  (let [e (error-of (with-scope [s {:deadline 5}] (fork s for-ever) (for-ever)))]
    (is (= :magnetar/deadline (reason e)))
    (is (re-matches #"The scope magnetar/scope_test\.clj:\d+ ran out of time: its deadline has passed\. Give it a later one.*" (ex-message e))))
  (is (= :magnetar/deadline (reason (error-of (with-scope [s {:deadline (Duration/ofMillis 5)}] (fork s for-ever))))))
  (is (= :magnetar/deadline (reason (error-of (with-scope [s {:deadline (.plusMillis (Instant/now) 5)}] (fork s for-ever))))))
  (is (= :in-time (with-scope [s {:deadline 100000}] @(fork s (constantly :in-time))))))

(deftest ^{:spec ["C40"]} nested-deadlines-shrink
  (with-scope [outer {:deadline 50000}]
    (is (<= 0 (scope/time-left outer) 50000))
    (with-scope [inner {:deadline 100000}]
      (is (<= (scope/time-left inner) 50000))
      (is (<= @(fork inner #(with-scope [s] (scope/time-left s))) 50000)))
    (with-scope [inner {:deadline 10}]
      (is (<= (scope/time-left inner) 10))))
  (is (nil? (with-scope [s] (scope/time-left s))))
  (is (nil? (with-scope [s {:deadline :infinity}] (scope/time-left s)))))

(deftest ^{:spec ["C39"]} a-shield-masks-the-deadline-too
  (let [lefts (fn [] [(scope/time-left) (with-scope [s] (scope/time-left s)) (with-scope [s] @(fork s scope/time-left))
                      (scope/offload scope/time-left)])
        limited? #(and (some? %) (<= 0 (long %) 50000))]
    (with-scope [outer {:deadline 50000}]
      (is (every? limited? (lefts)))
      (is (every? nil? (scope/shield (lefts))))
      (is (every? nil? @(fork outer #(scope/shield (lefts)))))
      (is (every? nil? (scope/offload #(scope/shield (lefts)))))
      (is (limited? (scope/shield (scope/time-left outer))) "of a scope that is named, its own")
      (is (every? limited? (scope/shield (with-scope [_ {:deadline 40000}] (lefts)))) "a scope in the shield has its own")
      (is (every? nil? (scope/shield (with-scope [_ {:deadline 40000}] (scope/shield (lefts))))))
      (is (every? limited? (lefts))))
    (let [in-clean-up (promise)]
      (with-scope [s {:deadline 50000}]
        (scope/on-exit s #(deliver in-clean-up (lefts))))
      (is (every? nil? @in-clean-up)))))

(deftest ^{:spec ["C40"]} the-scope-whose-deadline-passed-is-the-one-that-fails
  (let [inner-error (promise)
        e (error-of (with-scope [_ {:deadline 10}]
                      (try
                        (with-scope [s {:deadline 1000000}] (fork s for-ever))
                        (catch Throwable e (deliver inner-error e) (throw e)))))]
    (is (= :magnetar/deadline (reason e)))
    (is (instance? Cancelled @inner-error)))
  (is (= [:magnetar/deadline :outer-goes-on]
         (with-scope [_ {:deadline 1000000}]
           [(reason (error-of (with-scope [s {:deadline 1}] (fork s for-ever)))) :outer-goes-on]))))

(deftest ^{:spec ["C40"]} a-deadline-in-the-past-cancels-at-once
  (dotimes [_ 50]
    (is (= :magnetar/deadline (reason (error-of (with-scope [s {:deadline (.minusSeconds (Instant/now) 5)}] @(fork s inc 1)))))))
  (is (= :magnetar/deadline (reason (error-of (with-scope [_ {:deadline 0}] 1))))))

(deftest ^{:spec ["C40"]} a-deadline-may-be-too-far-to-count
  (doseq [instant [(Instant/parse "2500-01-01T00:00:00Z") Instant/MAX]]
    (is (= :v (with-scope [_ {:deadline instant}] :v)))))

(deftest a-deadline-that-is-no-duration-is-refused-with-a-sentence
  (let [e (error-of (with-scope [_ {:deadline -5}] :ran))]
    (is (= :magnetar/bad-duration (reason e)))
    (is (re-find #":deadline is a number of milliseconds .* this is -5" (ex-message e))))
  (is (= :magnetar/bad-duration (reason (error-of (with-scope [_ {:deadline "soon"}] :ran)))))
  (is (= :magnetar/bad-duration (reason (error-of (scope/sleep -1))))))

;; ---- clean-up

(deftest ^{:spec ["C42"]} clean-ups-run-in-reverse-order-after-all-forks-have-ended
  (let [events (atom [])
        note #(swap! events conj %)]
    (is (= :v (with-scope [s]
                (scope/on-exit s #(note :first-added))
                (scope/on-exit s #(note :last-added))
                (fork s #(do (scope/sleep 1) (note :fork-ended)))
                (note :body-ended)
                :v)))
    (is (= [:fork-ended :last-added :first-added] (filterv (complement #{:body-ended}) @events)))))

(deftest ^{:spec ["C42"]} clean-ups-run-however-the-scope-ends-and-may-wait
  (doseq [end [#(fail "body") #(scope/cancel % :x) (fn [s] (fork s fail "fork") (for-ever))
               (fn [_] (Thread/sleep 100000))]]
    (let [cleaned (atom [])
          c (channel/chan {:size 1})]
      (error-of (with-scope [s {:deadline 20}]
                  (scope/on-exit s #(do (channel/put c 1) (scope/sleep 1) (swap! cleaned conj (channel/take c))))
                  (end s)))
      (is (= [1] @cleaned)))))

(deftest ^{:spec ["C42"]} a-clean-up-that-fails-is-the-failure-of-the-scope-or-is-suppressed-by-it
  (let [ran (atom [])
        e (error-of (with-scope [s]
                      (scope/on-exit s #(do (swap! ran conj :a) (fail "a")))
                      (scope/on-exit s #(do (swap! ran conj :b) (fail "b")))
                      1))]
    (is (= [:b :a] @ran))
    (is (= ["b" ["a"]] [(ex-message e) (suppressed e)])))
  (let [e (error-of (with-scope [s]
                      (scope/on-exit s #(fail "clean-up"))
                      (fail "body")))]
    (is (= ["body" ["clean-up"]] [(ex-message e) (suppressed e)]))))

(deftest ^{:spec ["C39"]} a-shield-lets-clean-up-wait-and-the-cancellation-comes-after-it
  (let [c (channel/chan {:size 1})
        said (promise)
        after (promise)]
    (cancelled-while (fn []
                       (try (for-ever)
                         (finally
                           (deliver said (scope/shield (channel/put c :goodbye) (scope/sleep 1) (channel/take c)))
                           (deliver after (try (scope/sleep 1) (catch Cancelled e e)))))))
    (is (= :goodbye @said))
    (is (instance? Cancelled @after)))
  (is (= 3 (scope/shield 1 2 3)))
  (is (= "out" (ex-message (error-of (scope/shield (fail "out")))))))

(deftest ^{:spec ["C39"]} a-cancellation-that-comes-during-a-shield-waits-for-its-end
  (let [in-shield (promise)
        go-on (channel/chan)
        got (promise)]
    (error-of (with-scope [s]
                (fork s (fn [] (scope/shield (deliver in-shield true) (deliver got (channel/take go-on))) (for-ever)))
                (value-of in-shield)
                (scope/cancel s)
                (scope/shield (channel/put go-on :not-disturbed))))
    (is (= :not-disturbed @got))))

(deftest ^{:spec ["C39"]} a-scope-inside-a-shield-limits-the-clean-up
  (let [outcome (promise)]
    (cancelled-while (fn []
                       (try (for-ever)
                         (finally
                           (deliver outcome (scope/shield (error-of (with-scope [_ {:deadline 5}] (for-ever)))))))))
    (is (= :magnetar/deadline (reason @outcome))))
  (is (= "boom" (ex-message (ex-cause (error-of (scope/shield (with-scope [s] (fork s fail "boom") (for-ever)))))))
      "a failing fork reaches a body inside a shield")
  (let [seen (promise)]
    (error-of (with-scope [s]
                (scope/on-exit s #(deliver seen (error-of (with-scope [_ {:deadline 5}] (Thread/sleep 100000)))))
                (scope/cancel s)))
    (is (= :magnetar/deadline (reason (value-of seen))))))

(deftest a-shield-inside-a-scope-inside-a-shield-masks-both
  (let [said (promise)]
    (is (= :magnetar/cancelled
           (reason (scope/shield
                     (error-of (with-scope [s]
                                 (scope/cancel s)
                                 (deliver said (scope/shield (scope/sleep 1) :said))
                                 (for-ever)))))))
    (is (= :said @said))
    (is (nil? (scope/sleep 1)))))

(deftest ^{:spec ["C42"]} a-clean-up-cannot-start-a-fork
  (let [seen (promise)]
    (with-scope [s]
      (scope/on-exit s #(deliver seen (error-of (fork s for-ever)))))
    (is (= :magnetar/scope-ended (reason @seen)))))

;; ---- daemons

(deftest ^{:spec ["C43"]} a-daemon-ends-with-the-others
  (let [ended (promise)
        beats (atom 0)]
    (is (= :v (with-scope [s]
                (scope/daemon s #(try (loop [] (swap! beats inc) (scope/sleep 1) (recur)) (finally (deliver ended true))))
                @(fork s (fn [] (while (< (long @beats) 3) (scope/sleep 1))))
                :v)))
    (is (realized? ended))))

(deftest ^{:spec ["C43"]} a-daemon-that-fails-fails-the-scope
  (is (= "boom" (ex-message (ex-cause (error-of (with-scope [s] (scope/daemon s fail "boom") (for-ever))))))))

(deftest ^{:spec ["C43"]} a-daemon-that-ends-wins-nothing
  (doseq [joiner [scope/any scope/race]]
    (is (= :fork (with-scope [s {:joiner joiner}]
                   @(scope/daemon s (constantly :daemon))
                   (fork s (constantly :fork)))))))

;; ---- joiners

(deftest ^{:spec ["C41"]} any-takes-the-first-success-and-cancels-the-others
  (let [ended (promise)]
    (is (= :good (with-scope [s {:joiner scope/any}]
                   (fork s #(try (for-ever) (finally (deliver ended true))))
                   (fork s fail "bad")
                   (fork s #(do (scope/sleep 2) :good)))))
    (is (contains? #{true :late} (deref ended 0 :late))))
  (testing "all fail: the first failure, the others suppressed"
    (let [e (error-of (with-scope [s {:joiner scope/any}]
                        (let [a (fork s fail "first")]
                          (error-of @a)
                          (fork s fail "second"))))]
      (is (= "first" (ex-message (ex-cause e))))
      (is (= ["second"] (suppressed e)))))
  (testing "a success may be nil or false"
    (is (nil? (with-scope [s {:joiner scope/any}] (fork s (constantly nil)))))
    (is (false? (with-scope [s {:joiner scope/any}] (fork s (constantly false)))))))

(deftest ^{:spec ["C41"]} race-takes-the-first-end-also-a-failure
  (is (= :fast (with-scope [s {:joiner scope/race}]
                 (fork s for-ever)
                 (fork s (constantly :fast)))))
  (is (= "fast" (ex-message (ex-cause (error-of (with-scope [s {:joiner scope/race}]
                                                  (fork s for-ever)
                                                  (fork s fail "fast"))))))))

(deftest ^{:spec ["C41"]} any-and-race-of-nothing-say-so
  (doseq [joiner [scope/any scope/race]]
    (is (= :magnetar/no-fork (reason (error-of (with-scope [_ {:joiner joiner}] 1)))))))

(def ^:private two
  "A joiner of the first two values."
  {:init []
   :step (fn [values {:keys [status value]}]
           (let [values (cond-> values (= :success status) (conj value))]
             (if (= 2 (count values)) (reduced values) values)))
   :result (fn [values _ _] values)})

(deftest ^{:spec ["C41"]} a-joiner-of-ones-own-is-a-value-of-the-same-kind
  (is (= [1 2] (sort (with-scope [s {:joiner two}]
                       (fork s for-ever)
                       (fork s (constantly 1))
                       (fork s (constantly 2)))))))

(deftest ^{:spec ["C41"]} a-joiner-whose-step-throws-fails-the-scope
  (is (= "bad joiner" (ex-message (error-of (with-scope [s {:joiner {:step (fn [_ _] (fail "bad joiner")) :result (fn [_ v _] v)}}]
                                              (fork s inc 1)
                                              (fork s for-ever)))))))

(deftest what-is-no-joiner-is-refused
  (doseq [joiner [:all inc {} {:step inc}]]
    (is (= :magnetar/not-a-joiner (reason (error-of (with-scope [_ {:joiner joiner}] 1)))))))

;; ---- go

(deftest ^{:spec ["C35"]} a-go-of-a-scope-is-a-channel-and-the-scopes-own
  (is (= [42 nil] (with-scope [s] (let [c (scope/go s 42)] [(taken c) (taken c)]))))
  (is (nil? (with-scope [s] (taken (scope/go s nil)))))
  (let [ended (promise)
        started (promise)]
    (error-of (with-scope [s]
                (scope/go s (deliver started true) (try (for-ever) (finally (deliver ended true))))
                (value-of started)
                (scope/cancel s)))
    (is (realized? ended)))
  (is (= "boom" (ex-message (ex-cause (error-of (with-scope [s] (taken (scope/go s (fail "boom"))) (for-ever))))))))

(deftest the-channel-of-a-go-closes-also-if-it-was-cancelled-before-it-began
  (let [channels (promise)]
    (error-of (with-scope [s]
                (deliver channels (vec (repeatedly 100 #(scope/go s (for-ever)))))
                (scope/cancel s)))
    (is (= #{nil} (set (map taken @channels))))))

;; ---- who may fork

(deftest ^{:spec ["C37"]} a-fork-by-a-fork-belongs-to-the-same-scope
  (let [ended (atom 0)]
    (with-scope [s]
      (fork s (fn [] (dotimes [_ 10] (fork s #(do (scope/sleep 1) (swap! ended inc)))))))
    (is (= 10 @ended)))
  (testing "also through scopes of its own"
    (is (= 3 (with-scope [s] @(fork s (fn [] (with-scope [t] @(fork t (fn [] @(fork s inc 2)))))))))))

(deftest ^{:spec ["C37"]} a-fork-of-an-inner-scope-may-fork-in-the-scope-around-it
  (is (= 2 (with-scope [outer] (with-scope [inner] @(fork inner (fn [] @(fork outer inc 1))))))))

(deftest ^{:spec ["C37"]} a-fork-in-an-inner-scope-by-a-fork-of-the-outer-one-is-refused
  (with-scope [outer]
    (with-scope [inner]
      (is (= :magnetar/outside-scope (reason @(fork outer #(error-of (fork inner inc 1)))))))))

(deftest ^{:spec ["C37"]} a-fork-from-outside-is-refused-with-a-sentence
  (with-scope [s]
    (let [[_ outcome] (start-thread :virtual #(error-of (fork s inc 1)))
          e (value-of outcome)]
      (is (instance? IllegalArgumentException e))
      (is (= :magnetar/outside-scope (reason e)))
      (is (re-find #"A fork in the scope .* by a fiber that it does not own" (ex-message e))))))

(deftest ^{:spec ["C37"]} a-fork-after-the-end-is-refused-with-a-sentence
  (let [ended (with-scope [s] s)]
    (is (= :magnetar/scope-ended (reason (error-of (fork ended inc 1)))))
    (is (re-find #"which has ended: fork inside the body of with-scope" (ex-message (error-of (fork ended inc 1)))))
    (is (= :magnetar/scope-ended (reason (error-of (scope/on-exit ended (fn []))))))
    (is (nil? (scope/cancel ended)) "cancelling it has no effect")))

(deftest ^{:spec ["C37"]} a-fork-in-a-cancelled-scope-throws
  (error-of (with-scope [s]
              (scope/cancel s :over)
              (is (instance? Cancelled (error-of (fork s inc 1))))
              (is (scope/cancelled? s)))))

(deftest what-is-no-scope-is-refused
  (is (= :magnetar/not-a-scope (reason (error-of (fork :s inc 1)))))
  (is (= :magnetar/not-a-scope (reason (error-of (scope/cancel 5))))))

(deftest a-scope-with-a-bad-option-was-never-opened
  (is (= :magnetar/not-a-scoped-value (reason (error-of (with-scope [_ {:inherit [1] :deadline 1}] 1)))))
  (is (= :magnetar/bad-duration (reason (error-of (with-scope [_ {:patience -1 :deadline 1}] 1)))))
  (is (nil? (scope/sleep 5)) "no deadline of theirs comes later"))

;; ---- join

(deftest join-waits-so-long-at-most
  (with-scope [s]
    (let [f (scope/daemon s for-ever)]
      (is (= :late (scope/join f {:timeout 1 :else :late})))
      (is (= :late (deref f 1 :late)))))
  (is (= :magnetar/not-joinable (reason (error-of (scope/join 5)))))
  (is (= :magnetar/bad-duration (reason (error-of (scope/join (CompletableFuture.) {:timeout -1}))))))

(deftest a-failed-fork-throws-an-execution-exception-that-names-it
  (with-scope [s {:joiner {:step (fn [_ _]) :result (fn [_ v _] v)}}]
    (let [e (error-of (scope/join (fork s fail "boom")))]
      (is (instance? ExecutionException e))
      (is (re-find #"fork .*scope_test\.clj:\d+ failed: boom" (ex-message e)))
      (is (= "boom" (ex-message (ex-cause e)))))))

(deftest a-fork-that-joins-itself-is-told-so
  (with-scope [s]
    (let [me (promise)
          f (fork s #(error-of (scope/join @me)))]
      (deliver me f)
      (is (re-find #"waits for its own end, which would never come" (ex-message @f))))))

(deftest a-fork-that-is-joined-from-inside-itself-says-so
  (let [me (promise)
        seen (promise)]
    (with-scope [s]
      (deliver me (fork s (fn [] (with-scope [t] (fork t #(deliver seen (error-of (deref @me))))))))
      (is (instance? IllegalStateException (value-of seen)))
      (is (re-find #"waits for the end of the fork .*, which waits for it" (ex-message (value-of seen)))))))

(deftest a-fork-prints-as-its-line
  (with-scope [s]
    (is (re-matches #"#<Fork fork magnetar/scope_test\.clj:\d+>" (str (fork s inc 1))))))

;; ---- completion stages

(deftest ^{:spec ["C48"]} a-stage-can-be-joined
  (is (= 1 (scope/join (CompletableFuture/completedFuture 1))))
  (is (= 2 (scope/join (CompletableFuture/supplyAsync (fn [] 2)))))
  (is (= "boom" (ex-message (error-of (scope/join (CompletableFuture/supplyAsync (fn [] (fail "boom"))))))))
  (is (= "boom" (ex-message (error-of (scope/join (CompletableFuture/failedFuture (ex-info "boom" {})))))))
  (is (= :late (scope/join (CompletableFuture.) {:timeout 1 :else :late}))))

(deftest ^{:spec ["C48"]} stages-can-be-raced-and-the-losers-are-cancelled
  (let [loser (CompletableFuture.)
        waiting (promise)]
    (is (= :fast (with-scope [s {:joiner scope/race}]
                   (let [l (fork s #(scope/join loser))]
                     (deliver waiting (waits? l))
                     (fork s #(scope/join (CompletableFuture/completedFuture :fast)))))))
    (is (true? @waiting))
    (is (.isCancelled loser))))

(deftest ^{:spec ["C48"]} a-stage-can-be-cancelled
  (let [stage (CompletableFuture.)]
    (is (nil? (scope/cancel stage)))
    (is (.isCancelled stage))))

(deftest ^{:spec ["C48"]} a-stage-becomes-a-channel
  (is (= [1 nil] (let [c (scope/stage->chan (CompletableFuture/completedFuture 1))] [(taken c) (taken c)])))
  (is (nil? (taken (scope/stage->chan (CompletableFuture/completedFuture nil)))))
  (let [failed (scope/stage->chan (CompletableFuture/failedFuture (ex-info "boom" {})))]
    (is (eventually (channel/closed? failed)))
    (is (= "boom" (ex-message (channel/cause failed)))))
  (testing "of one that depends on another the failure itself"
    (let [failed (scope/stage->chan (.thenApply (CompletableFuture/failedFuture (ex-info "boom" {})) (Function/identity)))]
      (is (eventually (channel/closed? failed)))
      (is (= "boom" (ex-message (channel/cause failed)))))))

(deftest ^{:spec ["C48"]} a-channel-becomes-a-stage
  (let [c (channel/chan)
        stage (scope/chan->stage c)]
    (channel/put c 5)
    (is (= 5 (.get stage 20 TimeUnit/SECONDS))))
  (let [c (channel/chan)]
    (channel/close c)
    (is (nil? (.get (scope/chan->stage c) 20 TimeUnit/SECONDS))))
  (let [c (channel/chan)
        stage (scope/chan->stage c)]
    (channel/close c (ex-info "lost" {}))
    (is (= "lost" (ex-message (ex-cause (error-of (.get stage 20 TimeUnit/SECONDS))))))))

(deftest ^{:spec ["C48"]} a-cancelled-stage-of-a-channel-takes-nothing-from-it
  (let [c (channel/chan {:size 1})
        stage (scope/chan->stage c)]
    (scope/cancel stage)
    (channel/put c :kept)
    (is (= :kept (channel/try-take c)))))

;; ---- callbacks

(deftest ^{:spec ["C47"]} a-callback-is-awaited
  (is (= 1 (scope/await-callback (fn [resolve _] (resolve 1)))))
  (is (nil? (scope/await-callback (fn [resolve _] (resolve nil)))))
  (is (= 2 (scope/await-callback (fn [resolve _] (start-thread :platform #(resolve 2))))))
  (is (= "no" (ex-message (error-of (scope/await-callback (fn [_ reject] (reject (ex-info "no" {}))))))))
  (is (= {:reason :no} (ex-data (error-of (scope/await-callback (fn [_ reject] (reject :no))))))))

(deftest ^{:spec ["C47"]} a-second-call-of-a-callback-is-ignored-and-counted
  (let [before (scope/late-callbacks)]
    (is (= 1 (scope/await-callback (fn [resolve reject] (resolve 1) (resolve 2) (reject (ex-info "late" {}))))))
    (is (= 2 (- (scope/late-callbacks) before)))))

(deftest ^{:spec ["C47"]} a-callback-after-its-time-is-ignored-and-counted
  (let [before (scope/late-callbacks)
        later (promise)]
    (is (= :late (scope/await-callback (fn [resolve _] (deliver later resolve)) {:timeout 1 :else :late})))
    (is (nil? (@later 1)))
    (is (= 1 (- (scope/late-callbacks) before)))))

(deftest what-registers-a-callback-may-fail
  (is (= "register" (ex-message (error-of (scope/await-callback (fn [_ _] (fail "register"))))))))

;; ---- nothing is left behind

(deftest ^{:spec ["C35"]} a-program-that-forks-fails-times-out-and-is-interrupted-leaves-no-fiber-behind
  (let [c (channel/chan)
        work (fn [s] (dotimes [_ 5] (fork s #(channel/take c))) (scope/daemon s for-ever) (scope/go s (channel/put c 1)))
        started (promise)]
    (error-of (with-scope [s] (work s) (fail "body")))
    (error-of (with-scope [s] (work s) (fork s fail "fork")))
    (error-of (with-scope [s {:deadline 5}] (work s)))
    (let [[^Thread t outcome] (start-thread :virtual #(error-of (with-scope [s] (work s) (deliver started true) (for-ever))))]
      (value-of started)
      (.interrupt t)
      (value-of outcome))
    (is (= [] (left-behind)))
    (is (= [0 0] [(waiting-takers c) (waiting-putters c)]))))

;; ---- stress

(defn- random-work
  "A tree of scopes that fail, wait, run out of time and are cancelled, drawn from the random numbers."
  [^java.util.Random random depth ch]
  (case (.nextInt random (if (pos? (long depth)) 9 6))
    0 (fail "random")
    1 (scope/sleep (.nextInt random 3))
    2 (channel/take ch {:timeout 2})
    3 (channel/put ch 1 {:timeout 2})
    4 (Thread/sleep (long (.nextInt random 2)))
    5 :value
    (6 7 8) (let [depth (dec (long depth))
                  seeds (repeatedly (.nextInt random 4) #(.nextLong random))
                  ending (.nextInt random 5)
                  options (case (.nextInt random 5)
                            0 {:deadline (.nextInt random 5)}
                            1 {:joiner scope/any}
                            2 {:joiner scope/race}
                            nil)]
              (with-scope [s options]
                (doseq [seed seeds]
                  ((if (zero? (long (mod seed 5))) scope/daemon* scope/fork*) s random-work (java.util.Random. seed) depth ch))
                (scope/on-exit s #(scope/sleep 0))
                (case ending
                  0 (scope/cancel s :random)
                  1 (fail "body")
                  2 (scope/sleep 1)
                  (random-work random depth ch))))))

(deftest ^{:spec ["C35"]} two-thousand-random-trees-of-scopes-end-and-leave-nothing-behind
  (let [ch (channel/chan)
        run (fn [seed] (error-of (with-scope [s] (fork s random-work (java.util.Random. seed) 3 ch))))
        workers (for [n (range 4)]
                  (start-thread :virtual
                                (fn []
                                  (doseq [seed (range n 2000 4)]
                                    (run seed)
                                    (when (.isInterrupted (Thread/currentThread)) (fail (str "interrupted after " seed))))
                                  :ended)))]
    (is (= [:ended :ended :ended :ended] (mapv (fn [[_ outcome]] (deref outcome 50000 :hangs)) (doall workers))))
    (is (= [] (left-behind)))
    (is (= [0 0] [(waiting-takers ch) (waiting-putters ch)]))))
