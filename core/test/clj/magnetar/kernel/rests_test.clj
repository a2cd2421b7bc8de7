(ns magnetar.kernel.rests-test
  "Processes that have no fiber while they wait: Hosting and Passivated."
  (:require
   [clojure.test :refer [deftest]]
   [magnetar.kernel.checks :refer [green?]]))

(deftest no-message-and-no-signal-is-lost-between-rest-and-work
  (green? 60 "rests-again" "rests-messages" "rests-with-message" "rests-signals"))

(deftest links-monitors-aliases-names-and-exits-of-those-at-rest-do-what-a-model-does
  (green? 60 "signals-at-rest"))
