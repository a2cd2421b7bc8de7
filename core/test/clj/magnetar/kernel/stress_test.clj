(ns magnetar.kernel.stress-test
  (:require
   [clojure.test :refer [deftest]]
   [magnetar.kernel.checks :refer [green?]]))

;; Channel, invariants 1, 3 and 4. With ten thousand: magnetar.kernel.thousands-test.
(deftest a-thousand-fibers-at-random-lose-no-value-double-none-and-leave-no-ghost
  (green? 60 "stress"))
