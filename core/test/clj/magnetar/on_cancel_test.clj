(ns magnetar.on-cancel-test
  "What a fiber does before its interrupt: in which cancellations, in which order, and for how long at most. And what a shield keeps from it."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.channel :as channel]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope :refer [daemon fork with-scope]]
   [magnetar.support :refer [eventually message-of refusal with-failures]])
  (:import
   (java.util.concurrent CountDownLatch)
   (magnetar.kernel.fiber Cancelled)
   (magnetar.kernel.scope Fork)))

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

(def ^:private ^:dynamic *tenant* nil)

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

;; ---- the order of things

(deftest the-function-ends-the-wait-and-the-interrupt-comes-after-the-work
  (let [told (atom [])
        query (latch)]
    (cancelled-in
      (fn [under-way]
        (try
          (scope/with-cancel #(do (swap! told conj :called) (.countDown query))
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
        (scope/with-cancel #(.countDown go-on)
          (under-way)
          (await-jdk go-on)
          (deliver told [(thrown #(scope/sleep 1)) (.isInterrupted (Thread/currentThread))]))))
    (let [[error interrupted?] @told]
      (is (instance? Cancelled error))
      (is (false? interrupted?)))))

(deftest an-operation-of-magnetar-that-waits-is-woken-at-once
  (let [told (promise)]
    (with-scope [s]
      (let [f (fork s (fn []
                        (scope/with-cancel* (fn [])
                          #(deliver told [(thrown (fn [] (channel/take (channel/chan))))
                                          (.isInterrupted (Thread/currentThread))])
                          {:timeout :infinity})))]
        (is (eventually (:waits-for (inspect/fiber-info (.get (.fiber ^Fork f))))))
        (scope/cancel f)))
    (let [[error interrupted?] @told]
      (is (instance? Cancelled error))
      (is (false? interrupted?)))))

(deftest a-function-that-does-not-end-the-wait-delays-the-interrupt-for-its-time-alone
  (let [waited (promise)]
    (cancelled-in
      (fn [under-way]
        (scope/with-cancel* (fn []) #(do (under-way) (deliver waited (await-jdk (latch)))) {:timeout 10})))
    (is (= :interrupted @waited))))

(deftest a-function-that-comes-before-the-work-leaves-the-end-to-the-interrupt
  (let [query (atom nil)
        called (latch)
        waited (promise)]
    (cancelled-in
      (fn [under-way]
        (scope/with-cancel* #(do (some-> ^CountDownLatch @query .countDown) (.countDown called))
          (fn []
            (under-way)
            (await-jdk called)
            (reset! query (latch))
            (deliver waited (await-jdk @query)))
          {:timeout 10})))
    (is (= :interrupted @waited))))

(deftest a-function-that-hangs-is-interrupted-and-the-end-does-not-wait-for-ever
  (let [waited (promise)
        hung (promise)]
    (cancelled-in
      (fn [under-way]
        (scope/with-cancel* #(deliver hung (await-jdk (latch)))
          #(do (under-way) (deliver waited (await-jdk (latch))))
          {:timeout 10})))
    (is (= :interrupted @waited))
    (is (= :interrupted @hung))))

(deftest the-end-waits-until-the-function-has-returned
  (let [query (latch)
        go-on (latch)
        told (atom [])]
    (with-scope [s]
      (let [under-way (promise)
            f (fork s (fn []
                        (scope/with-cancel* #(do (.countDown query) (await-jdk go-on) (swap! told conj :returned))
                          #(do (deliver under-way true) (await-jdk query) (swap! told conj :ends))
                          {:timeout :infinity})))]
        @under-way
        (scope/cancel f)
        (is (eventually (= [:ends] @told)))
        (is (= :running (:status (scope/result f))))
        (.countDown go-on)
        (is (eventually (= [:ends :returned] @told)))))))

(deftest a-function-that-fails-is-reported-and-the-wait-is-interrupted
  (with-failures [failures]
    (let [waited (promise)]
      (cancelled-in
        (fn [under-way]
          (scope/with-cancel* #(throw (ex-info "no" {})) #(do (under-way) (deliver waited (await-jdk (latch)))) {:timeout 10})))
      (is (= :interrupted @waited))
      (is (eventually (= ["no"] (map message-of @failures))))
      (is (re-find #"^with-cancel" (str (:site (first @failures))))))))

(deftest the-function-of-work-that-has-ended-is-not-called
  (let [called (atom 0)]
    (cancelled-in
      (fn [under-way]
        (scope/with-cancel #(swap! called inc))
        (under-way)
        (await-jdk (latch))))
    (is (= 0 @called))))

(deftest the-function-sees-the-bindings-of-its-caller-and-has-the-name-of-its-line
  (let [query (latch)
        seen (promise)]
    (cancelled-in
      (fn [under-way]
        (binding [*tenant* :acme]
          (scope/with-cancel #(do (deliver seen [*tenant* (.getName (Thread/currentThread))]) (.countDown query))
            (under-way)
            (await-jdk query)))))
    (let [[tenant site] @seen]
      (is (= :acme tenant))
      (is (re-find #"^with-cancel \S*on_cancel_test.clj:\d+$" site)))))

;; ---- what the work throws

(defn- refuse []
  (throw (java.sql.SQLException. "canceling statement due to user request")))

(defn- query-refused [wrap]
  (let [query (latch)]
    (cancelled-in
      (fn [under-way]
        (wrap (fn []
                (scope/with-cancel #(.countDown query)
                  (under-way)
                  (await-jdk query)
                  (refuse))))))))

(deftest the-exception-of-a-driver-after-the-call-is-the-cause-of-a-cancellation
  (doseq [[wrapped wrap] {"on a fiber" #(%) "offloaded" scope/offload}]
    (testing wrapped
      (let [{:keys [status ^Throwable error]} (query-refused wrap)]
        (is (= :cancelled status))
        (is (instance? Cancelled error))
        (is (re-find #"enough" (ex-message error)))))))

(deftest the-exception-of-a-driver-is-kept-as-the-cause
  (let [{:keys [^Throwable error]} (query-refused #(%))]
    (is (instance? java.sql.SQLException (ex-cause error)))))

(deftest an-offload-inside-ends-as-cancelled-too
  (let [query (latch)
        {:keys [status]} (cancelled-in
                           (fn [under-way]
                             (scope/with-cancel #(.countDown query)
                               (scope/offload #(do (under-way) (await-jdk query) (refuse))))))]
    (is (= :cancelled status))))

(deftest without-a-call-the-exception-stays-as-it-is
  (is (thrown-with-msg? java.sql.SQLException #"user request" (scope/with-cancel (fn []) (refuse)))))

(deftest an-error-that-is-not-an-exception-stays-as-it-is-after-the-call
  (let [query (latch)]
    (is (thrown-with-msg? Exception #"failed: a bug"
          (cancelled-in
            (fn [under-way]
              (scope/with-cancel #(.countDown query)
                (under-way)
                (await-jdk query)
                (throw (AssertionError. "a bug")))))))))

(deftest the-value-is-returned-also-after-the-call
  (let [query (latch)
        {:keys [status value]} (cancelled-in
                                 (fn [under-way]
                                   (scope/with-cancel #(.countDown query)
                                     (under-way)
                                     (await-jdk query)
                                     :committed)))]
    (is (= [:success :committed] [status value])))
  (is (= 7 (scope/with-cancel (fn []) 7))))

;; ---- which cancellations

(deftest the-innermost-comes-first-and-the-outer-one-after-its-end
  (let [told (atom [])
        inner (latch)
        outer (latch)]
    (cancelled-in
      (fn [under-way]
        (scope/with-cancel #(do (swap! told conj :outer) (.countDown outer))
          (scope/with-cancel #(do (swap! told conj :inner) (.countDown inner))
            (under-way)
            (await-jdk inner)
            (swap! told conj :inner-done))
          (swap! told conj (await-jdk outer)))))
    (is (= [:inner :inner-done :outer :done] @told))))

(deftest the-outer-one-comes-also-after-an-inner-one-whose-time-was-over
  (let [told (atom [])
        outer (latch)]
    (cancelled-in
      (fn [under-way]
        (scope/with-cancel #(.countDown outer)
          (scope/with-cancel* (fn [])
            (fn []
              (under-way)
              (swap! told conj (await-jdk (latch)))
              (Thread/interrupted)) ; as a driver that clears it
            {:timeout 10})
          (swap! told conj (await-jdk outer)))))
    (is (= [:interrupted :done] @told))))

(deftest a-cancellation-of-an-inner-scope-interrupts-at-once
  (let [called (atom 0)
        waited (promise)]
    (scope/with-cancel #(swap! called inc)
      (try
        (with-scope [_ {:deadline 5}]
          (deliver waited (await-jdk (latch))))
        (catch Exception _)))
    (is (= :interrupted @waited))
    (is (= 0 @called))))

(deftest the-deadline-of-a-clean-up-interrupts-at-once-also-after-the-call
  (let [query (latch)
        waited (promise)]
    (cancelled-in
      (fn [under-way]
        (scope/with-cancel* #(.countDown query)
          (fn []
            (under-way)
            (await-jdk query)
            (scope/shield
              (try
                (with-scope [_ {:deadline 5}]
                  (deliver waited (await-jdk (latch))))
                (catch Exception _))))
          {:timeout :infinity})))
    (is (= :interrupted @waited))))

(deftest a-deadline-calls-it
  (let [query (latch)]
    (is (thrown-with-msg? Exception #"deadline"
          (with-scope [_ {:deadline 5}]
            (scope/with-cancel #(.countDown query)
              (await-jdk query)))))
    (is (false? (.isInterrupted (Thread/currentThread))))))

(deftest a-cancelled-fiber-begins-nothing
  (let [called (atom 0)
        told (promise)]
    (cancelled-in
      (fn [under-way]
        (under-way)
        (await-jdk (latch))
        (deliver told (thrown #(scope/with-cancel (fn [] (swap! called inc)) (swap! called inc))))))
    (is (instance? Cancelled @told))
    (is (= 0 @called))))

(deftest a-process-that-is-killed-calls-it
  (let [query (latch)
        waited (promise)
        under-way (promise)
        pid (actor/spawn #(scope/with-cancel (fn [] (.countDown query))
                            (deliver under-way true)
                            (deliver waited (await-jdk query))))]
    @under-way
    (actor/exit pid :kill)
    (is (= :done @waited))))

(deftest a-kill-after-an-exit-signal-is-not-held-back
  (let [called (promise)
        waited (promise)
        under-way (promise)
        pid (actor/spawn #(scope/with-cancel* (fn [] (deliver called true))
                            (fn []
                              (deliver under-way true)
                              (deliver waited (await-jdk (latch))))
                            {:timeout :infinity}))]
    @under-way
    (actor/exit pid :shutdown)
    @called
    (actor/exit pid :kill)
    (is (= :interrupted @waited))))

(deftest work-on-a-platform-thread-has-it-too
  (let [query (latch)
        waited (promise)]
    (cancelled-in
      (fn [under-way]
        (scope/offload #(scope/with-cancel (fn [] (.countDown query))
                          (under-way)
                          (deliver waited (await-jdk query))))))
    (is (= :done @waited))))

(deftest a-daemon-is-ended-by-it
  (let [query (latch)
        waited (promise)]
    (with-scope [s]
      (let [under-way (promise)]
        (daemon s #(scope/with-cancel (fn [] (.countDown query))
                     (deliver under-way true)
                     (deliver waited (await-jdk query))))
        @under-way))
    (is (= :done @waited))))

;; An interrupt that ends a scope inside is not one of the cancellation that is held back.
(deftest the-end-of-a-scope-inside-leaves-no-interrupt
  (let [query (latch)
        told (promise)]
    (cancelled-in
      (fn [under-way]
        (scope/with-cancel #(.countDown query)
          (try
            (with-scope [s]
              (fork s #(await-jdk (latch)))
              (under-way)
              (await-jdk query))
            (finally
              (deliver told (.isInterrupted (Thread/currentThread))))))))
    (is (false? @told))))

(deftest the-deadline-of-a-clean-up-leaves-no-interrupt
  (let [query (latch)
        told (atom [])]
    (cancelled-in
      (fn [under-way]
        (scope/with-cancel #(.countDown query)
          (under-way)
          (await-jdk query)
          (scope/shield
            (try
              (with-scope [_ {:deadline 5}]
                (swap! told conj (await-jdk (latch))))
              (catch Exception _)))
          (swap! told conj (.isInterrupted (Thread/currentThread))))
        (swap! told conj (.isInterrupted (Thread/currentThread)))))
    (is (= [:interrupted false true] @told))))

;; ---- shields

(defn- in-shield
  "Cancels a fork while it waits in the JDK, in a shield: how the wait ends, and whether it is interrupted afterwards."
  [shield]
  (let [go-on (latch)
        told (atom [])]
    (with-scope [s]
      (let [under-way (promise)
            f (fork s (fn []
                        (shield #(do (deliver under-way true) (swap! told conj (await-jdk go-on))))
                        (swap! told conj (await-jdk (latch)))))]
        @under-way
        (scope/cancel f)
        (.countDown go-on)
        (try (scope/join f) (catch Exception _))))
    @told))

(deftest ^{:spec ["C39"]} a-shield-keeps-the-interrupt-from-a-wait-of-the-jdk-until-its-end
  (is (= [:done :interrupted] (in-shield #(scope/shield (%)))))
  (testing "in a shield"
    (is (= [:done :interrupted] (in-shield #(scope/shield (scope/shield (%)))))))
  (testing "of an on-exit"
    (is (= [:done] (in-shield #(with-scope [s] (scope/on-exit s %)))) "the end of the scope throws the cancellation")))

(deftest a-shield-keeps-the-interrupt-also-when-the-time-of-the-function-is-over
  (let [called (latch)
        told (atom [])]
    (cancelled-in
      (fn [under-way]
        (scope/with-cancel* #(.countDown called)
          (fn []
            (under-way)
            (await-jdk called)
            (scope/shield
              (scope/sleep 20)
              (swap! told conj (.isInterrupted (Thread/currentThread))))
            (swap! told conj (.isInterrupted (Thread/currentThread))))
          {:timeout 1})))
    (is (= [false true] @told))))

(deftest a-shield-keeps-the-function-from-the-work-inside-it
  (let [called (atom 0)
        go-on (latch)]
    (with-scope [s]
      (let [under-way (promise)
            f (fork s #(scope/shield
                         (scope/with-cancel (fn [] (swap! called inc))
                           (deliver under-way true)
                           (await-jdk go-on))))]
        @under-way
        (scope/cancel f)
        (.countDown go-on)
        (try (scope/join f) (catch Exception _))))
    (is (= 0 @called))))

(deftest the-function-around-a-shield-is-called-after-it
  (let [told (atom [])
        go-on (latch)
        query (latch)]
    (with-scope [s]
      (let [under-way (promise)
            f (fork s (fn []
                        (scope/with-cancel #(do (swap! told conj :called) (.countDown query))
                          (scope/shield
                            (deliver under-way true)
                            (await-jdk go-on)
                            (swap! told conj :rolled-back))
                          (swap! told conj (await-jdk query)))))]
        @under-way
        (scope/cancel f)
        (.countDown go-on)
        (try (scope/join f) (catch Exception _))))
    (is (= [:rolled-back :called :done] @told))))

;; ---- arguments

(deftest wrong-arguments-are-refused
  (is (= "`with-cancel` wants a function, as in (with-cancel #(.cancel statement) (.executeQuery statement)); this is 7."
         (:message (refusal #(scope/with-cancel 7)))))
  (testing "a body"
    (is (refusal #(scope/with-cancel* (fn []) 7))))
  (testing "options"
    (is (refusal #(scope/with-cancel* (fn []) (fn []) {:time-out 7})))
    (is (refusal #(scope/with-cancel* (fn []) (fn []) {:timeout -1})))))

;; ---- many in a row

;; A connection has one query at a time. A cancel that comes late would end the next one.
(defn- run-queries [connection under-way]
  (dotimes [i 3]
    (scope/with-cancel #(swap! connection update :met conj [i (:query @connection)])
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
