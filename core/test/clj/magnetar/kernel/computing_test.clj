(ns magnetar.kernel.computing-test
  "Fibers that compute get carriers of their own, in both ways to wake a fiber."
  {:slow true}
  (:require
   [clojure.test :refer [deftest]]
   [magnetar.impl.runtime]
   [magnetar.kernel.checks :refer [green?]]))

(deftest ^{:spec ["C31"]} fibers-that-compute-get-carriers-of-their-own-and-no-others-do
  (doseq [[carriers way] [[1 []] [2 []] [2 ["-Dmagnetar.hand-off=false"]]]]
    (apply green? 60 (concat way [(str "-Djdk.virtualThreadScheduler.parallelism=" carriers) "computing" "computing-busy-afterwards" "computing-host"])))
  (green? 60 "-Djdk.virtualThreadScheduler.parallelism=1" "-Dmagnetar.added-carriers=0" "computing-off")
  (green? 100 "-Dmagnetar.added-carriers=0" "timers-in-backlog"))
