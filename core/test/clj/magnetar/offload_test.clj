(ns magnetar.offload-test
  "Work on platform threads: owned, bounded, cancelled and seen as all work is."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope :refer [fork offload offload-on with-scope]]
   [magnetar.scope.context :refer [defcontext with-context]]
   [magnetar.support :refer [eventually start-thread taken value-of with-failures]])
  (:import
   (java.util.concurrent CountDownLatch)
   (java.util.concurrent.atomic AtomicInteger)
   (magnetar.kernel.fiber Cancelled)
   (magnetar.kernel.scope Offload)))

(set! *warn-on-reflection* true)

(defcontext user)
(def ^:dynamic *dynamic* :root)

(defmacro error-of [& body]
  `(try [:no-error (do ~@body)] (catch Throwable e# e#)))

(defn- pool ^Offload [n]
  (Offload. (int n)))

(defn- info [^Offload pool]
  (let [i (.info pool)]
    {:threads (.threads i) :running (.running i) :queued (.queued i)}))

(deftest work-runs-on-a-platform-thread-and-gives-its-value
  (is (= [false true 3] (taken (a/go [(offload #(.isVirtual (Thread/currentThread)))
                                      (str/starts-with? (offload #(.getName (Thread/currentThread))) "magnetar-offload-")
                                      (offload + 1 2)]))))
  (is (nil? (offload (fn [])))))

(deftest the-caller-says-what-it-waits-for
  (let [release (promise)
        [thread outcome] (start-thread :virtual #(offload (fn [] (value-of release))))]
    (is (eventually (= "end of offloaded work" (:waits-for (inspect/fiber-info thread)))))
    (is (eventually (re-find #"#<Offload of .* on Thread\[" (str (:on (inspect/fiber-info thread))))))
    (deliver release :released)
    (is (= :released (value-of outcome)))))

(deftest ^{:spec ["C35"]} offloaded-work-that-does-not-end-is-named-with-the-stack-of-its-thread
  (with-failures [failures]
    (let [release (CountDownLatch. 1)
          started (promise)
          stubborn (fn []
                     (deliver started true)
                     (while (not (try (.await release) true (catch InterruptedException _ false)))))
          [_ outcome] (start-thread :virtual #(with-scope [s {:patience 10}] (scope/daemon s offload stubborn) (value-of started)))]
      (is (eventually (seq @failures)))
      (is (some #(str/includes? (str %) "CountDownLatch") (.getStackTrace ^Throwable (:error (first @failures)))))
      (.countDown release)
      (is (true? (value-of outcome))))))

(deftest what-the-work-throws-is-thrown-to-the-caller
  (let [boom (ex-info "boom" {})]
    (is (identical? boom (error-of (offload #(throw boom)))))))

(deftest ^{:spec ["C44"]} work-sees-the-context-values-and-the-bindings-of-its-caller-and-leaves-none-to-the-next
  (let [p (pool 1)
        seen #(vector (try @user (catch IllegalArgumentException _ :unbound)) *dynamic*)]
    (is (= ["ada" :bound] (with-context [user "ada"] (binding [*dynamic* :bound] (offload-on p seen)))))
    (is (= [:unbound :root] (offload-on p seen)))
    (is (= 1 (:threads (info p))))))

(deftest ^{:spec ["C49"]} no-more-threads-work-than-the-limit-and-the-queue-can-be-seen
  (let [p (pool 2)
        release (CountDownLatch. 1)
        at-once (AtomicInteger.)
        most (atom 0)
        work (fn [] (swap! most max (.incrementAndGet at-once)) (.await release) (.decrementAndGet at-once) :done)]
    (is (= (repeat 6 :done)
           (with-scope [s]
             (let [forks (mapv (fn [_] (fork s offload-on p work)) (range 6))]
               (is (eventually (= {:threads 2 :running 2 :queued 4} (info p))))
               (is (eventually (= 2 @most)))
               (.countDown release)
               (mapv deref forks)))))
    (is (= 2 @most))
    (is (eventually (= {:threads 2 :running 0 :queued 0} (info p))))))

(deftest any-amount-of-work-can-be-queued
  (let [p (pool 2)
        n 5000]
    (is (= (reduce + (range n))
           (with-scope [s] (reduce + (mapv deref (mapv (fn [i] (fork s offload-on p (fn [] i))) (range n)))))))
    (is (<= (:threads (info p)) 2))
    (is (= 0 (:queued (info p))))))

(deftest ^{:spec ["C49"]} cancelling-interrupts-the-work-and-waits-until-it-has-ended
  (let [started (promise)
        ended (promise)
        e (error-of (with-scope [s]
                      (fork s offload (fn []
                                        (deliver started true)
                                        (try (Thread/sleep 100000)
                                          (finally
                                            (try (Thread/sleep 5) (catch InterruptedException _))
                                            (deliver ended (.isInterrupted (Thread/currentThread)))))))
                      (value-of started)
                      (scope/cancel s :stop)
                      (scope/sleep 100000)))]
    (is (realized? ended) "the scope did not end before the work")
    (is (= :stop (:cause (ex-data e))))
    (is (= [] (vec (.getSuppressed ^Throwable e))))))

(deftest work-that-ignores-its-interrupt-is-waited-for-and-cancelled-at-its-next-operation
  (let [started (promise)
        interrupted (promise)
        release (CountDownLatch. 1)
        seen (promise)
        c (channel/chan {:size 1})
        [_ outcome] (start-thread
                      :virtual
                      #(error-of (with-scope [s]
                                   (fork s offload (fn []
                                                     (deliver started true)
                                                     (loop []
                                                       (when-not (try (.await release) true (catch InterruptedException _ (deliver interrupted true) false))
                                                         (recur)))
                                                     (deliver seen (error-of (channel/put c 1)))))
                                   (value-of started)
                                   (throw (ex-info "body" {})))))]
    (value-of interrupted)
    (is (= :not-yet (deref outcome 20 :not-yet)))
    (.countDown release)
    (is (= "body" (ex-message (value-of outcome))))
    (is (instance? Cancelled @seen))))

(deftest ^{:spec ["C49"]} an-interrupt-does-not-reach-the-next-work-of-the-thread
  (let [p (pool 1)]
    (dotimes [_ 50]
      (let [started (promise)]
        (error-of (with-scope [s]
                    (fork s offload-on p #(do (deliver started true) (Thread/sleep 100000)))
                    (value-of started)
                    (scope/cancel s))))
      (is (= [false nil] (offload-on p #(vector (.isInterrupted (Thread/currentThread)) (scope/sleep 0))))))
    (offload-on p #(.interrupt (Thread/currentThread)))
    (is (false? (offload-on p #(.isInterrupted (Thread/currentThread)))))
    (is (= 1 (:threads (info p))))))

(deftest ^{:spec ["C49"]} work-that-is-cancelled-in-the-queue-never-runs
  (let [p (pool 1)
        release (promise)
        started (promise)
        ran (atom false)
        [_ first-one] (start-thread :virtual #(offload-on p (fn [] (deliver started true) (value-of release))))]
    (value-of started)
    (error-of (with-scope [s]
                (fork s offload-on p #(reset! ran true))
                (is (eventually (= 1 (:queued (info p)))))
                (scope/cancel s)))
    (is (= 0 (:queued (info p))))
    (deliver release :ok)
    (is (= :ok (value-of first-one)))
    (is (= :next (offload-on p (constantly :next))))
    (is (false? @ran))))

(deftest an-interrupt-from-outside-ends-the-work-too
  (let [ended (promise)
        started (promise)
        [^Thread thread outcome] (start-thread :virtual #(error-of (offload (fn []
                                                                              (deliver started true)
                                                                              (try (Thread/sleep 100000) (finally (deliver ended true)))))))]
    (value-of started)
    (.interrupt thread)
    (is (instance? InterruptedException (value-of outcome)))
    (is (realized? ended))))

(deftest a-failure-of-cancelled-work-is-not-forgotten
  (let [started (promise)
        e (error-of (with-scope [s]
                      (fork s offload (fn []
                                        (deliver started true)
                                        (try (Thread/sleep 100000) (finally (throw (ex-info "clean-up" {}))))))
                      (value-of started)
                      (throw (ex-info "body" {}))))]
    (is (= ["clean-up"] (mapv ex-message (.getSuppressed ^Throwable e))))))

(deftest offloading-inside-offloaded-work-uses-the-same-thread
  (let [p (pool 1)
        name #(.getName (Thread/currentThread))]
    (is (apply = (offload-on p #(vector (name) (offload-on p name)))))))

(deftest ^{:spec ["C49"]} work-that-waits-for-other-offloaded-work-does-not-keep-it-from-a-thread
  (let [p (pool 1)]
    (is (= 1 (offload-on p #(with-scope [s] @(fork s offload-on p (constantly 1))))))
    (is (= 2 (offload-on p #(taken (a/go (offload-on p (constantly 2)))))))
    (is (= 3 (with-scope [s] (offload-on p #(deref (fork s offload-on p (fn [] (deref (fork s offload-on p (constantly 3))))))))))
    (is (<= (:threads (info p)) 4))))

(deftest work-may-fork-in-the-scope-of-its-caller-and-has-its-deadline
  (is (= 2 (with-scope [s] (offload (fn [] @(fork s inc 1))))))
  (is (<= 0 (with-scope [_ {:deadline 50000}] (offload #(with-scope [t] (scope/time-left t)))) 50000))
  (is (= :magnetar/deadline (:magnetar/reason (ex-data (error-of (with-scope [_ {:deadline 5}] (offload #(Thread/sleep 100000)))))))))

(deftest a-shielded-caller-is-not-disturbed
  (let [started (promise)
        release (promise)
        got (promise)]
    (error-of (with-scope [s]
                (fork s (fn [] (deliver got (scope/shield (offload (fn [] (deliver started true) (value-of release)))))))
                (value-of started)
                (scope/cancel s)
                (deliver release :whole)))
    (is (= :whole @got))))

(deftest the-numbers-of-the-shared-threads-can-be-seen
  (offload (fn []))
  (is (= #{:limit :threads :running :queued} (set (keys (inspect/offload)))))
  (is (<= 8 (:limit (inspect/offload))))
  (is (pos? (offload #(:running (inspect/offload))))))
