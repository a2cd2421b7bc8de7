(ns magnetar.kernel.computing-test
  "Fibers that compute get carriers of their own, in both ways to wake a fiber.

  Each JVM has loops that compute for seconds on both cores, which takes a busy machine longer than a test may take as a rule."
  {:slow true
   :limit 240000}
  (:require
   [clojure.test :refer [deftest]]
   [magnetar.impl.runtime]
   [magnetar.kernel.checks :refer [green?]]))

(defn- carriers [n]
  (str "-Djdk.virtualThreadScheduler.parallelism=" n))

(defn- get-carriers [& options]
  (apply green? 180 (concat options ["computing" "computing-busy-afterwards" "computing-host"])))

(deftest ^{:spec ["C31"]} fibers-that-compute-get-carriers-of-their-own-and-no-others-do
  (get-carriers (carriers 1))
  (get-carriers (carriers 2)))

(deftest fibers-that-compute-get-carriers-where-fibers-are-woken-by-unpark
  (get-carriers (carriers 2) "-Dmagnetar.hand-off=false"))

(deftest without-carriers-to-add-fibers-that-compute-keep-theirs
  (green? 180 (carriers 1) "-Dmagnetar.added-carriers=0" "computing-off")
  (green? 180 "-Dmagnetar.added-carriers=0" "timers-in-backlog"))
