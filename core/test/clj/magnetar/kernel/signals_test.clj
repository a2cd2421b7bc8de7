(ns magnetar.kernel.signals-test
  "Invariants of LocalProcess: signals act on arrival, a death has two phases, and no process is starved."
  (:require
   [clojure.test :refer [deftest]]
   [magnetar.kernel.checks :refer [green?]]))

(deftest links-monitors-aliases-names-and-exits-at-random-do-what-a-model-does
  (green? 60 "signals" "signals-random"))

;; LocalProcess, invariants 1 to 5
(deftest each-signal-that-meets-a-death-acts-once-and-in-order
  (green? 60 "signals-links" "signals-monitors" "signals-aliases" "signals-names" "signals-guests" "signals-traps" "signals-little-memory"))

;; A process that is ending runs its clean-up before its end is told, so its successor finds the port free; a kill does not wait.
(deftest a-kill-is-the-end-at-once-and-any-other-end-comes-after-the-clean-up-so-a-server-finds-its-port-free-1000-times
  (green? 60 "signals-kills" "signals-clean-ups" "deaths-listening-socket"))

;; `bin/magnetar proofs` runs a million of them, and of the next ones.
(deftest of-40000-linked-deaths-under-random-kills-each-is-told-once
  (green? 60 "storm"))

(deftest the-dead-leave-nothing-and-a-kept-pid-keeps-only-its-value
  (green? 60 "deaths-leave-nothing" "deaths-kept-pid"))

;; An operation that did not park spends some of a budget; at its end the fiber yields.
(deftest a-quiet-process-makes-progress-among-more-flooded-receive-loops-than-cores
  (green? 60 "fairness-processes"))

;; FullMemory, invariants 1 to 3
(deftest the-report-of-full-memory-names-what-fills-it-tells-no-old-news-and-holds-up-no-timer
  (green? 60 "memory-named" "memory-old-news" "memory-waits" "memory-brief-waits" "memory-reserved"))
