(ns magnetar.kernel.hand-off-test
  "Invariants of HandOff: the two ways to wake a fiber."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.child :as child]
   [magnetar.impl.runtime]
   [magnetar.inspect :as inspect]
   [magnetar.kernel.checks :as checks :refer [green?]])
  (:import
   (magnetar.kernel.sched HandOff)))

(def ^:private off "-Dmagnetar.hand-off=false")

(deftest one-plainly-parked-fiber-is-handed-over-between-two-parks-and-ends-before-its-waker-has-computed-for-a-second
  (green? 60 "hand-off-targets" "hand-off-bound"))

(deftest nobody-sleeps-on-in-either-way
  (green? 60 "hand-off-lost" "hand-off-ring")
  (green? 60 off "hand-off-lost" "hand-off-ring" "mailbox-wake-up"))

(deftest whoever-comes-from-outside-has-its-turn-among-those-that-hand-each-other-over
  (green? 60 "-Djdk.virtualThreadScheduler.parallelism=1" "-Dmagnetar.added-carriers=0"
          "hand-off-fair" "hand-off-together" "hand-off-outside" "timers-in-backlog-of-one-carrier")
  (green? 60 "-Djdk.virtualThreadScheduler.parallelism=2" "hand-off-crowded"))

(deftest where-java-lang-is-closed-fibers-are-woken-by-unpark
  (let [{:keys [exit out]} (child/run (cons @checks/classes (checks/class-path)) 60 "-Dmagnetar.check.seconds=25"
                                      "magnetar.check.Main" "hand-off-ring" "mailbox-wake-up")]
    (is (= 0 exit) out)))

;; There a virtual thread is a platform thread of a class of its own.
(deftest without-continuations-hand-off-turns-itself-off-says-so-once-and-all-works
  (let [options (->> (str/split-lines (slurp (io/file (System/getProperty "magnetar.home") "kernel/java.options")))
                     (remove #(or (str/blank? %) (str/starts-with? % "#")))
                     (mapcat #(str/split % #" ")))
        form '(do (require '[magnetar.actor :as actor] '[magnetar.async :as a] '[magnetar.inspect :as inspect])
                  (let [in (a/chan), out (a/go (inc (a/<! in))), answer (promise)]
                    (a/>!! in 1)
                    (actor/spawn (fn [] (actor/! (actor/self) 3) (deliver answer (actor/receive x x))))
                    (println [(:wake-up (inspect/runtime)) (a/<!! out) @answer]))
                  (System/exit 0))
        {:keys [exit out]} (apply child/run (checks/class-path) 100
                                  (concat options ["-XX:+UnlockExperimentalVMOptions" "-XX:-VMContinuations" "clojure.main" "-e" (pr-str form)]))]
    (is (= 0 exit) out)
    (is (str/includes? out "[:unpark 2 3]") out)
    (is (= 1 (count (re-seq #"magnetar: this version of Magnetar does not know the virtual threads of JDK 25" out))) out)))

(deftest the-runtime-says-which-way-it-took
  (let [off? (= "false" (System/getProperty "magnetar.hand-off"))
        known? (= 25 (.feature (Runtime/version)))]
    (is (= (if (HandOff/isOn) :hand-off :unpark) (:wake-up (inspect/runtime))))
    (testing "bin/magnetar opens java.lang, and the property turns it off"
      (is (= (and known? (not off?)) (HandOff/isOn))))))
