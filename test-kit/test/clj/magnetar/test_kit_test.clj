(ns magnetar.test-kit-test
  (:require
   [clojure.test :as t :refer [are deftest is testing]]
   [magnetar.actor :as actor :refer [receive spawn]]
   [magnetar.async :as a]
   [magnetar.test :as mt]
   [magnetar.test.clock :as clock])
  (:import
   (magnetar TimeoutException)))

(defn- reports
  "What the fixture reports of a test that does f."
  [fixture f]
  (let [reported (atom [])]
    (with-redefs [t/do-report #(swap! reported conj (select-keys % [:type :message :actual]))]
      (fixture f))
    @reported))

(deftest time-of-the-virtual-clock-passes-when-all-wait
  (is (= 86400000 (mt/with-virtual-clock (a/<! (a/timeout 86400000)) (mt/now))))
  (is (= [30 :value] (mt/with-virtual-clock
                       (let [c (a/go (a/<! (a/timeout 30)) :value)]
                         (let [v (a/<! c)] [(mt/now) v]))))))

(deftest what-is-waited-for-by-looking-comes-by-the-virtual-clock-too
  (is (true? (mt/with-virtual-clock
               (let [done (atom false)]
                 (a/go (a/<! (a/timeout 4000)) (reset! done true))
                 (mt/eventually @done)))))
  (is (= [:late 5000] (mt/with-virtual-clock [(mt/eventually false {:else :late}) (mt/now)]))))

(defn- timer-threads []
  (count (filter #(= "magnetar-timer" (.getName ^Thread %)) (keys (Thread/getAllStackTraces)))))

(deftest a-virtual-clock-leaves-no-thread-behind
  (let [before (timer-threads)]
    (dotimes [_ 20] (mt/with-virtual-clock (a/<! (a/timeout 10))))
    (is (mt/eventually (<= (timer-threads) before)))))

(deftest a-body-by-the-virtual-clock-that-does-not-end-is-told-with-what-waits
  (with-redefs-fn {#'clock/longest-nanos 1000000000}
    #(is (thrown-with-msg? IllegalStateException #"has not ended after .*\n  simulated waits for take from a channel"
                           (mt/with-virtual-clock (a/<! (a/chan)))))))

(deftest now-is-virtual-in-a-simulation-too
  (is (<= 500 (long (mt/simulate {} (a/<! (a/timeout 500)) (mt/now))) 501)))

(deftest await-down-gives-the-reason
  (is (= :normal (mt/await-down (spawn (fn [] 1)))))
  (let [p (spawn (fn [] (receive :never nil)))]
    (actor/exit p :kill)
    (is (= :killed (mt/await-down p)))
    (is (= :killed (mt/await-down p)))))

(deftest await-down-is-bounded-and-says-what-the-process-waits-for
  (let [p (spawn (fn [] (receive :stop nil)))]
    (is (thrown-with-msg? TimeoutException #"has not ended within 5000 ms; it waits for message"
                          (mt/simulate {} (mt/await-down (spawn (fn [] (receive :stop nil)))))))
    (actor/! p :stop)
    (is (= :normal (mt/await-down p)))
    (is (= :late (mt/simulate {} (mt/await-down (spawn (fn [] (receive :stop nil))) {:else :late}))))))

(deftest eventually-gives-the-first-true-value-and-throws-when-none-comes
  (let [n (atom 0)]
    (is (= 3 (mt/eventually (let [v (swap! n inc)] (when (= 3 v) v))))))
  (is (thrown-with-msg? TimeoutException #"^`magnetar.test/eventually` has waited for \(= 1 2\) and did not complete within 1 ms"
                        (mt/eventually (= 1 2) {:timeout 1})))
  (testing "in a simulation, where time is virtual"
    (is (true? (mt/simulate {} (let [done (volatile! false)] (a/go (a/<! (a/timeout 4000)) (vreset! done true)) (mt/eventually @done)))))
    (is (nil? (mt/simulate {} (mt/eventually false {:timeout 100000 :else nil}))))))

(deftest a-wait-takes-its-options-last-and-refuses-the-order-of-before
  (is (= :there (mt/wait-until (constantly :there)) (mt/wait-until (constantly :there) {:timeout 1})))
  (is (= :late (mt/wait-until (constantly false) {:timeout 1 :else :late})))
  (is (thrown-with-msg? IllegalArgumentException #"^`wait-until` takes its options last, as in \(wait-until ready\? \{:timeout 100\}\)"
                        (mt/wait-until {:timeout 1} (constantly :there))))
  (is (thrown-with-msg? IllegalArgumentException #"^`eventually` takes its options last"
                        (try (macroexpand '(magnetar.test/eventually {:timeout 1} :there)) (catch Exception e (throw (or (ex-cause e) e))))))
  (is (thrown-with-msg? TimeoutException #"^`magnetar.test/wait-until` has waited" (mt/wait-until (constantly false) {:timeout 1}))))

(deftest a-wrong-option-of-a-wait-is-answered-with-its-name
  (are [sentence wait] (thrown-with-msg? IllegalArgumentException sentence wait)
    #"^`magnetar.test/wait-until` does not know :els" (mt/wait-until (constantly 1) {:els 1})
    #"^`magnetar.test/eventually` does not know :els" (mt/eventually 1 {:els 1})
    #"^`magnetar.test/wait-until`: :timeout is" (mt/wait-until (constantly 1) {:timeout nil})
    #"^`magnetar.test/eventually`: :timeout is" (mt/eventually 1 {:timeout nil})
    #"^`magnetar.test/await-down`: :timeout is" (mt/await-down (spawn (fn [] 1)) {:timeout nil})))

(deftest a-test-that-leaves-a-process-behind-is-told-so
  (let [p (promise)
        [{:keys [type message]}] (with-redefs-fn {#'mt/patience-ms 1}
                                   #(reports mt/without-leaks (fn [] (deliver p (spawn (fn [] (receive :stop nil)))))))]
    (is (= :fail type))
    (is (re-find #"leaves 1 processes behind" message))
    (actor/! @p :stop)
    (mt/await-down @p))
  (is (= [] (reports mt/without-leaks (fn [] (mt/await-down (spawn (fn [] 1))))))))

(deftest a-test-that-never-ends-is-told-so-with-what-waits
  (let [c (a/chan)
        [{:keys [type message actual]}] (with-redefs-fn {#'mt/longest-test-ms 1000}
                                          #(reports mt/without-deadlocks (fn [] (a/<! c))))]
    (is (= :fail type))
    (is (re-find #"has not ended" message))
    (is (some #(re-find #"waits for take from a channel" %) actual)))
  (is (= [] (reports mt/without-deadlocks (fn [] 1)))))

(deftest what-a-test-throws-comes-through-the-fixture
  (is (thrown-with-msg? clojure.lang.ExceptionInfo #"broken" (mt/without-deadlocks (fn [] (throw (ex-info "broken" {})))))))
