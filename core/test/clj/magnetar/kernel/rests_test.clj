(ns magnetar.kernel.rests-test
  "Processes that have no fiber while they wait: LocalProcess and Resting."
  (:require
   [clojure.test :refer [deftest]]
   [magnetar.kernel.checks :refer [green?]]))

(deftest no-message-and-no-signal-is-lost-between-rest-and-work
  (green? 60 "rests-again" "rests-messages" "rests-with-message" "rests-signals"))

(deftest work-of-a-process-at-rest-on-the-fiber-of-another-is-done-once-and-whole-whoever-dies
  (green? 60 "inline-work" "inline-deaths" "inline-signals" "inline-nested" "inline-interrupt"))

(deftest links-monitors-aliases-names-and-exits-of-those-at-rest-do-what-a-model-does
  (green? 60 "signals-at-rest"))
