(ns magnetar.actor-continue-long-test
  "`continue` ten times as often as in magnetar.actor-continue-test."
  {:slow true}
  (:require
   [clojure.test :refer [deftest]]
   [magnetar.actor-continue-test :refer [goes-on-with-the-new-half-way]]))

(deftest ^{:spec ["C78"] :limit 240000} ten-million-times-in-constant-stack-with-the-var-redefined-half-way
  (goes-on-with-the-new-half-way 10000000))
