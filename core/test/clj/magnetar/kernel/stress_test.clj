(ns magnetar.kernel.stress-test
  (:require
   [clojure.test :refer [deftest]]
   [magnetar.kernel.checks :refer [green?]]))

;; Channel, invariants 1, 3 and 4. `bin/magnetar proofs` runs it twenty times as long.
(deftest ten-thousand-fibers-at-random-lose-no-value-double-none-and-leave-no-ghost
  (green? 60 "stress-10000"))
