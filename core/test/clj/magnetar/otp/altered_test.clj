(ns magnetar.otp.altered-test
  "The proof that each scenario of the table can fail."
  {:slow true
   :limit 600000}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.otp.table-test :refer [altered stays-green]]))

(defn- ours-stays-green
  "The altered expectations that the scenario passes; it runs once more, and each is compared with what it shows."
  [scenario]
  (let [observed (scenarios/observe scenario)]
    (stays-green #(scenarios/check (assoc scenario :expect % :ours (constantly observed)))
                 (altered (:expect scenario)))))

(deftest each-scenario-fails-when-its-expectation-is-altered
  (doseq [{:keys [id] :as scenario} (scenarios/table)]
    (is (= [] (vec (ours-stays-green scenario))) id)))
