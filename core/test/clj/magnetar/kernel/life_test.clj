(ns magnetar.kernel.life-test
  "What the garbage collector may take, that no fiber is starved, and that each wait can be named."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.dev.child :as child]
   [magnetar.kernel.checks :as checks :refer [green?]]))

(deftest an-abandoned-fiber-that-nobody-can-reach-is-collected-and-an-owned-one-is-not
  (green? 60 "reachability"))

(deftest it-is-collected-also-where-the-jvm-does-not-track-all-threads
  (green? 60 "-Djdk.trackAllThreads=false" "reachability"))

(deftest it-is-collected-also-through-an-executor-of-its-own
  (green? 60 "-Dmagnetar.hand-off=false" "reachability"))

(deftest it-is-collected-also-where-java-lang-is-closed
  (let [{:keys [exit out]} (child/run (cons @checks/classes (checks/class-path)) 60 "-Dmagnetar.check.seconds=25" "magnetar.check.Main" "reachability")]
    (is (= 0 exit) out)))

(deftest a-channel-names-the-fiber-that-will-finish-it-and-does-not-keep-it
  (green? 60 "finishers"))

(deftest a-quiet-fiber-makes-progress-among-more-flooded-loops-than-cores
  (green? 60 "fairness" "fairness-pairs"))

;; Of 100,000: magnetar.kernel.thousands-test.
(deftest each-of-2000-parked-fibers-says-what-it-waits-for-on-which-object-and-since-when
  (green? 60 "blockers" "waits" "waits-in-turn" "waited-for-once"))
