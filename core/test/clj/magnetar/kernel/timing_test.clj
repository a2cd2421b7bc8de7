(ns magnetar.kernel.timing-test
  "Invariants of Wheel and TimeoutChannel, and that no code of the program runs on the timer thread."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.impl.runtime]
   [magnetar.kernel.checks :refer [green?]])
  (:import
   (java.time Duration)
   (magnetar.kernel.time Durations)))

(deftest timers-fire-in-order-over-all-levels-never-early-and-none-is-forgotten
  (green? 60 "wheel-on-clock" "never-early"))

(deftest an-earlier-timer-wakes-the-timer-thread-and-an-idle-one-sleeps-without-limit
  (green? 60 "earlier-timer" "idle"))

(deftest the-wheel-holds-no-timer-of-a-wait-that-ended-and-no-timeout-channel-that-nobody-waits-on
  (green? 60 "released"))

(deftest a-timeout-channel-that-waiters-share-keeps-its-timer-while-one-is-left
  (green? 60 "shared-timeout"))

(deftest code-of-the-program-never-runs-on-the-timer-thread
  (green? 60 "not-on-timer-thread"))

(deftest a-duration-is-milliseconds-a-duration-or-infinity
  (is (= 5000000 (Durations/nanos 5)))
  (is (= 500000 (Durations/nanos 0.5)))
  (is (= 333333 (Durations/nanos 1/3)))
  (is (= 0 (Durations/nanos 0)))
  (is (= 1500000000 (Durations/nanos (Duration/ofMillis 1500))))
  (testing "without limit"
    (is (every? #(= Durations/INFINITE (Durations/nanos %))
                [:infinity Long/MAX_VALUE 1e300 (Duration/ofDays 1000000) (Duration/ofSeconds Long/MAX_VALUE) (bigint 1e30)]))))

(deftest what-is-no-duration-is-refused-by-name
  (doseq [wrong [nil -1 -0.5 ##NaN "5" :forever (Duration/ofMillis -1) (Duration/ofSeconds Long/MIN_VALUE)]]
    (is (thrown-with-msg? IllegalArgumentException #"A duration is a number of milliseconds" (Durations/nanos wrong)))))

(deftest an-instant-too-far-to-count-is-never
  (green? 60 "durations")
  (is (= Durations/INFINITE (Durations/deadline 1000 (dec Durations/INFINITE))))
  (is (= 5 (Durations/deadline -5 10))))
