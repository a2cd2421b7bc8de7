(ns magnetar.kernel.thousands-test
  "Checks of the kernel with as many fibers as a service has. `bin/magnetar proofs` runs those at random twenty times as long."
  {:slow true}
  (:require
   [clojure.test :refer [deftest]]
   [magnetar.kernel.checks :refer [green?]]))

;; Channel, invariants 1, 3 and 4
(deftest ten-thousand-fibers-at-random-lose-no-value-double-none-and-leave-no-ghost
  (green? 60 "stress-10000"))

(deftest ten-thousand-processes-at-random-lose-no-message-and-double-none
  (green? 60 "mailbox-stress-10000"))

;; The waiter is the blocker of its parked thread, so no second table of waits is kept.
(deftest each-of-100000-parked-fibers-says-what-it-waits-for-on-which-object-and-since-when
  (green? 60 "blockers-100000"))
