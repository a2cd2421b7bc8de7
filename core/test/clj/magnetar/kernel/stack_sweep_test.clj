(ns magnetar.kernel.stack-sweep-test
  "An operation that overflows the stack anywhere on its way loses no wake-up, compiled and interpreted."
  {:slow true}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.child :as child]
   [magnetar.kernel.checks :as checks]
   [magnetar.kernel.stack-sweep :as sweep]))

(deftest an-operation-that-overflows-the-stack-loses-no-wake-up
  (doseq [kind (keys sweep/kinds)
          thread [sweep/on-virtual sweep/on-platform]]
    (testing kind
      (let [{:keys [overflowed lost]} (sweep/sweep kind thread 600)]
        (is (pos? overflowed) "the sweep did not come near the end of the stack")
        (is (zero? lost))))))

(def ^:private all-interpreted
  '(do (require 'magnetar.kernel.stack-sweep)
       (magnetar.kernel.stack-sweep/all 150)
       (System/exit 0)))

(deftest an-interpreted-operation-that-overflows-the-stack-loses-no-wake-up
  (let [{:keys [exit out]} (apply child/run (checks/class-path) 100
                             (concat ["-Xint"] child/opens ["clojure.main" "-e" (pr-str all-interpreted)]))]
    (is (= 0 exit) out)
    (is (= (repeat (* 2 (count sweep/kinds)) "0 lost") (map #(re-find #"\d+ lost" %) (str/split-lines out))) out)))
