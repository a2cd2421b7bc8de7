(ns magnetar.bench.otp-test
  "The suite `otp` with little to do."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.bench.otp :as otp]
   [magnetar.bench.rounds :as rounds]
   [magnetar.bench.workload.servers :as servers]))

(def ^:private little
  '{magnetar.bench.workload.servers/called [2 40]
    magnetar.bench.workload.servers/cast-to [40]
    magnetar.bench.workload.servers/started [40]
    magnetar.bench.workload.servers/storms [40]})

(deftest each-group-has-a-workload-that-is-tested
  (is (= (set (keys little)) (set (map :workload otp/groups)))))

(deftest both-hostings-do-each-workload
  (doseq [[workload arguments] little]
    (testing (str workload)
      (let [variants (filter (comp #{"threaded" "activated"} first) (apply (requiring-resolve workload) arguments))
            round (first (rounds/run variants {:warm-ups 0 :rounds 1 :collect false}))]
        (is (seq variants))
        (is (every? number? (map (comp round first) variants)))))))

(deftest idle-servers-are-all-there
  (is (= 30 (servers/release (servers/park 30)) (servers/release (servers/park-threaded 30)))))
