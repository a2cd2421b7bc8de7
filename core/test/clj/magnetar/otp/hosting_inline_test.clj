(ns magnetar.otp.hosting-inline-test
  "Servers that serve their callers inline: what the scenarios say holds for them as well."
  {:slow true
   :limit 600000}
  (:require
   [clojure.test :refer [deftest]]
   [magnetar.otp.hosting-test :refer [check-scenarios-of-servers]]))

(deftest each-scenario-of-servers-holds-for-those-that-serve-their-callers-inline
  (check-scenarios-of-servers {:hosting :activated :inline-calls true}))
