(ns magnetar.kernel.hand-off-test
  "Invariants of HandOff: the two ways to wake a fiber."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.child :as child]
   [magnetar.impl.runtime]
   [magnetar.inspect :as inspect]
   [magnetar.kernel.checks :as checks :refer [green?]])
  (:import
   (magnetar.kernel.park HandOff)))

(def ^:private off "-Dmagnetar.hand-off=false")

(deftest one-plainly-parked-fiber-is-handed-over-between-two-parks-and-ends-before-its-waker-has-computed-for-a-second
  (green? 40 "hand-off-targets" "hand-off-bound"))

(deftest nobody-sleeps-on-in-either-way
  (green? 60 "hand-off-lost" "hand-off-ring")
  (green? 60 off "hand-off-lost" "hand-off-ring" "mailbox-wake-up"))

(deftest whoever-comes-from-outside-has-its-turn-among-those-that-hand-each-other-over
  (green? 40 "-Djdk.virtualThreadScheduler.parallelism=1" "hand-off-fair" "hand-off-together" "hand-off-outside")
  (green? 40 "-Djdk.virtualThreadScheduler.parallelism=2" "hand-off-crowded"))

(deftest while-one-carrier-works-nobody-stays-behind-with-those-that-rest-and-they-come-back-when-it-computes
  (green? 60 "-Djdk.virtualThreadScheduler.parallelism=2" "carriers-leave-nobody" "carriers-come-back" "carriers-are-fewer")
  (green? 60 "-Djdk.virtualThreadScheduler.parallelism=3" "carriers-see-strangers"))

(deftest where-java-lang-is-closed-fibers-are-woken-by-unpark
  (let [{:keys [exit out]} (child/run (cons @checks/classes (checks/class-path)) 60 "-Dmagnetar.check.seconds=25"
                                      "magnetar.check.Main" "hand-off-ring" "mailbox-wake-up")]
    (is (= 0 exit) out)))

(deftest the-runtime-says-which-way-it-took
  (let [off? (= "false" (System/getProperty "magnetar.hand-off"))
        known? (= 25 (.feature (Runtime/version)))]
    (is (= (if (HandOff/isOn) :hand-off :unpark) (:wake-up (inspect/runtime))))
    (testing "bin/magnetar opens java.lang, and the property turns it off"
      (is (= (and known? (not off?)) (HandOff/isOn))))))
