(ns magnetar.kernel.races-test
  "Invariants of Waiter, Parked, Fiber, Channel and Select, each in the race that could break it."
  (:require
   [clojure.test :refer [deftest]]
   [magnetar.kernel.checks :refer [green?]]))

;; Waiter, invariants 1 to 3
(deftest a-waiter-is-claimed-once-and-crossing-selects-neither-lock-up-nor-halve-a-transfer
  (green? 60 "pairs" "crossing" "ring"))

;; ForeignWaiter
(deftest a-select-that-crosses-a-choice-of-another-library-makes-one-transfer-a-round
  (green? 60 "crossing-foreign"))

;; Waiter, invariant 4
(deftest a-result-is-there-before-its-waiter-is-woken
  (green? 60 "publication" "wake-up"))

;; Channel: a check without the lock is repeated under it
(deftest what-came-between-the-look-without-the-lock-and-the-one-under-it-is-seen
  (green? 60 "look-again"))

;; NodeQueue: the second waiter makes it
(deftest the-first-waiters-of-a-channel-are-served-whatever-they-race-with
  (green? 60 "first-waiters"))

;; Parked, invariants 2 and 3
(deftest an-event-that-won-the-claim-is-delivered-in-spite-of-interrupt-and-time-out
  (green? 60 "interrupt-after-claim" "expiry-after-claim" "endings"))

;; Channel, invariant 4
(deftest an-interrupted-taker-putter-or-selector-leaves-nothing-behind
  (green? 60 "ghosts"))

;; Channel, invariant 5
(deftest closing-releases-the-takers-keeps-the-waiting-puts-and-is-seen
  (green? 60 "close" "close-is-visible"))

;; Channel, invariants 2 and 3
(deftest the-value-of-a-waiting-put-moves-into-the-room-a-take-makes
  (green? 60 "refill"))

(deftest a-put-wakes-the-taker-that-it-met-under-a-mutex
  (green? 60 "own-buffer"))

;; The cause to end is written before the thread is interrupted, so a thread that the interrupt wakes sees the cause.
(deftest the-cause-comes-before-the-interrupt-is-thrown-at-each-operation-and-masked-by-a-shield
  (green? 60 "cause-first" "level-triggered" "shielded"))

;; Scope, invariants 1 to 4
(deftest a-closed-scope-has-no-fork-and-no-interrupt-left-and-a-shield-masks-its-deadline
  (green? 60 "deadlines" "closing" "clean-ups" "unstarted" "on-cancel"))
