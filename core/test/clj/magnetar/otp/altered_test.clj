(ns magnetar.otp.altered-test
  "The proof that each scenario of the table can fail."
  {:slow true
   :limit 600000}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.otp.lanes :as lanes]
   [magnetar.otp.table-test :refer [altered stays-green]]))

(defn- ours-stays-green
  "The altered expectations that the scenario passes; it runs once more, and each is compared with what it shows."
  [scenario]
  (let [observed (lanes/observe scenario)]
    (stays-green #(lanes/check (assoc scenario :expect % :ours (constantly observed)))
                 (altered (:expect scenario)))))

(deftest each-scenario-fails-when-its-expectation-is-altered
  (doseq [{:keys [id] :as scenario} (lanes/table)]
    (is (= [] (vec (ours-stays-green scenario))) id)))
