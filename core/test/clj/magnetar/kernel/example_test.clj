(ns magnetar.kernel.example-test
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.kernel.checks :as checks]))

(deftest the-kernel-is-usable-from-java-alone
  (let [{:keys [exit out]} (checks/run 60 "magnetar.example.Numbers")]
    (is (= 0 exit) out)
    (is (= ["[1, 4, 9, 16, 25]" "branch 1: job"] (str/split-lines out)))))
