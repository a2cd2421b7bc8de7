(ns magnetar.on-cancel-test
  "What a fiber does before its interrupt: in which cancellations, in which order, and for how long at most."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.support :refer [eventually message-of refusal with-failures]])
  (:import
   (java.util.concurrent CountDownLatch)
   (magnetar.kernel.fiber Cancelled)))

(set! *warn-on-reflection* true)

(defn- await-jdk
  "Waits as a driver does, in the JDK: :done, or :interrupted."
  [^CountDownLatch latch]
  (try
    (.await latch)
    :done
    (catch InterruptedException _
      (.interrupt (Thread/currentThread))
      :interrupted)))

(defn- latch ^CountDownLatch []
  (CountDownLatch. 1))

(defn- thrown [f]
  (try
    (f)
    (catch Throwable t t)))

(defn- cancelled-in
  "Forks work, which calls its argument once it is under way, then cancels the fork and waits for its end: the outcome."
  [work]
  (with-scope [s]
    (let [under-way (promise)
          f (fork s #(work (fn [] (deliver under-way true))))]
      @under-way
      (scope/cancel f :enough)
      (try (scope/join f) (catch Exception _ nil))
      (scope/result f))))

(deftest the-function-ends-the-wait-and-the-interrupt-comes-after-the-close
  (let [told (atom [])
        query (latch)]
    (cancelled-in
      (fn [under-way]
        (try
          (with-open [_ (scope/on-cancel #(do (swap! told conj :called) (.countDown query)))]
            (under-way)
            (swap! told conj (await-jdk query) (.isInterrupted (Thread/currentThread))))
          (finally
            (swap! told conj (.isInterrupted (Thread/currentThread)) (thrown #(scope/sleep 1)))))))
    (let [[called waited during after error] @told]
      (is (= [:called :done false true] [called waited during after]))
      (is (instance? Cancelled error)))))

(deftest an-operation-of-magnetar-throws-at-once
  (let [go-on (latch)
        told (promise)]
    (cancelled-in
      (fn [under-way]
        (with-open [_ (scope/on-cancel #(.countDown go-on))]
          (under-way)
          (await-jdk go-on)
          (deliver told [(thrown #(scope/sleep 1)) (.isInterrupted (Thread/currentThread))]))))
    (let [[error interrupted?] @told]
      (is (instance? Cancelled error))
      (is (false? interrupted?)))))

(deftest a-function-that-does-not-end-the-wait-delays-the-interrupt-for-its-time-alone
  (let [waited (promise)]
    (cancelled-in
      (fn [under-way]
        (with-open [_ (scope/on-cancel (fn []) {:timeout 10})]
          (under-way)
          (deliver waited (await-jdk (latch))))))
    (is (= :interrupted @waited))))

(deftest a-function-that-hangs-is-interrupted-and-the-close-does-not-wait-for-ever
  (let [waited (promise)
        hung (promise)]
    (cancelled-in
      (fn [under-way]
        (with-open [_ (scope/on-cancel #(deliver hung (await-jdk (latch))) {:timeout 10})]
          (under-way)
          (deliver waited (await-jdk (latch))))))
    (is (= :interrupted @waited))
    (is (= :interrupted @hung))))

(deftest the-close-waits-until-the-function-has-returned
  (let [query (latch)
        go-on (latch)
        told (atom [])]
    (with-scope [s]
      (let [under-way (promise)
            f (fork s #(with-open [_ (scope/on-cancel (fn []
                                                        (.countDown query)
                                                        (await-jdk go-on)
                                                        (swap! told conj :returned))
                                                      {:timeout :infinity})]
                         (deliver under-way true)
                         (await-jdk query)
                         (swap! told conj :closes)))]
        @under-way
        (scope/cancel f)
        (is (eventually (= [:closes] @told)))
        (is (= :running (:status (scope/result f))))
        (.countDown go-on)
        (is (eventually (= [:closes :returned] @told)))))))

(deftest a-function-that-fails-is-reported-and-the-wait-is-interrupted
  (with-failures [failures]
    (let [waited (promise)]
      (cancelled-in
        (fn [under-way]
          (with-open [_ (scope/on-cancel #(throw (ex-info "no" {})) {:timeout 10})]
            (under-way)
            (deliver waited (await-jdk (latch))))))
      (is (= :interrupted @waited))
      (is (eventually (= ["no"] (map message-of @failures)))))))

(deftest what-is-closed-is-not-called
  (let [called (atom 0)]
    (cancelled-in
      (fn [under-way]
        (.close (scope/on-cancel #(swap! called inc)))
        (under-way)
        (await-jdk (latch))))
    (is (= 0 @called))))

(deftest what-is-left-open-ends-with-its-scope
  (let [called (atom 0)]
    (cancelled-in
      (fn [under-way]
        (with-scope [_] (scope/on-cancel #(swap! called inc)))
        (under-way)
        (await-jdk (latch))))
    (is (= 0 @called))))

(deftest the-innermost-comes-first-and-the-outer-one-after-its-close
  (let [told (atom [])
        inner (latch)
        outer (latch)]
    (cancelled-in
      (fn [under-way]
        (with-open [_ (scope/on-cancel #(do (swap! told conj :outer) (.countDown outer)))]
          (with-open [_ (scope/on-cancel #(do (swap! told conj :inner) (.countDown inner)))]
            (under-way)
            (await-jdk inner)
            (swap! told conj :inner-done))
          (swap! told conj (await-jdk outer)))))
    (is (= [:inner :inner-done :outer :done] @told))))

(deftest a-cancellation-of-an-inner-scope-interrupts-as-ever
  (let [called (atom 0)
        waited (promise)]
    (with-open [_ (scope/on-cancel #(swap! called inc))]
      (try
        (with-scope [_ {:deadline 5}]
          (deliver waited (await-jdk (latch))))
        (catch Exception _)))
    (is (= :interrupted @waited))
    (is (= 0 @called))))

(deftest a-deadline-calls-it
  (let [query (latch)]
    (is (thrown-with-msg? Exception #"deadline"
          (with-scope [_ {:deadline 5}]
            (with-open [_ (scope/on-cancel #(.countDown query))]
              (await-jdk query)))))
    (is (false? (.isInterrupted (Thread/currentThread))))))

(deftest a-shield-masks-it
  (let [called (atom 0)
        go-on (latch)]
    (with-scope [s]
      (let [under-way (promise)
            f (fork s #(scope/shield
                         (with-open [_ (scope/on-cancel (fn [] (swap! called inc)))]
                           (deliver under-way true)
                           (scope/await-callback (fn [resolve _] (future (.await go-on) (resolve :done)))))))]
        @under-way
        (scope/cancel f)
        (.countDown go-on)
        (try (scope/join f) (catch Exception _ nil))))
    (is (= 0 @called))))

(deftest a-cancelled-fiber-opens-none
  (let [called (atom 0)
        told (promise)]
    (cancelled-in
      (fn [under-way]
        (under-way)
        (await-jdk (latch))
        (deliver told (thrown #(scope/on-cancel (fn [] (swap! called inc)))))))
    (is (instance? Cancelled @told))
    (is (= 0 @called))))

(deftest a-process-that-is-killed-calls-it
  (let [query (latch)
        waited (promise)
        under-way (promise)
        pid (actor/spawn #(with-open [_ (scope/on-cancel (fn [] (.countDown query)))]
                            (deliver under-way true)
                            (deliver waited (await-jdk query))))]
    @under-way
    (actor/exit pid :kill)
    (is (= :done @waited))))

(deftest work-on-a-platform-thread-has-it-too
  (let [query (latch)
        waited (promise)]
    (cancelled-in
      (fn [under-way]
        (scope/offload #(with-open [_ (scope/on-cancel (fn [] (.countDown query)))]
                          (under-way)
                          (deliver waited (await-jdk query))))))
    (is (= :done @waited))))

(deftest only-the-fiber-that-opened-it-closes-it
  (with-open [opened (scope/on-cancel (fn []))]
    (with-scope [s]
      (is (re-find #"was opened in another fiber: close it there"
                   (ex-message (scope/join (fork s #(thrown (fn [] (.close opened)))))))))))

(deftest wrong-arguments-are-refused
  (is (= "`on-cancel` wants a function, as in (on-cancel (fn [] (.cancel statement))); this is 7." (:message (refusal #(scope/on-cancel 7)))))
  (testing "options"
    (is (refusal #(scope/on-cancel (fn []) {:time-out 7})))
    (is (refusal #(scope/on-cancel (fn []) {:timeout -1})))))

;; A connection has one query at a time. A cancel that comes late would end the next one.
(defn- run-queries [connection under-way]
  (dotimes [i 3]
    (with-open [_ (scope/on-cancel #(swap! connection update :met conj [i (:query @connection)]))]
      (swap! connection assoc :query i)
      (when (zero? i) (under-way))
      (Thread/yield))
    (swap! connection assoc :query :none)))

(deftest a-call-meets-only-the-work-that-it-was-opened-for
  (dotimes [_ 300]
    (let [connection (atom {:query :none :met []})]
      (cancelled-in #(run-queries connection %))
      (let [{:keys [met]} @connection]
        (is (<= (count met) 1))
        (is (every? (fn [[wanted query]] (contains? #{wanted :none} query)) met)))))) ; :none: it was cancelled before it began
