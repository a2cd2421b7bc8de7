(ns shop.outside
  "Stands for the services of others: payment, packing, mail and refund. They are slow, and fail as often as they are told.

  A call has an idempotency key. So a call that is repeated, because its answer was lost, has no second effect. The table `effects` stands
  for the books of these services."
  (:require
   [clojure.java.jdbc :as jdbc]
   [magnetar.scope :as scope]
   [shop.db :as db])
  (:import
   (java.sql SQLException)))

(set! *warn-on-reflection* true)

(defn- once
  "Has the effect with this key, unless it was there."
  [db k]
  (try
    (scope/shield (jdbc/insert! db :effects {:id k}))
    (catch SQLException e
      (when-not (db/duplicate? e)
        (throw e)))))

(defn- fail-sometimes [flaky sentence]
  (when (< (double (rand)) (double flaky))
    (throw (ex-info sentence {}))))

(defn call
  "Does the step of the job; throws if the service does not answer, before or after the effect."
  [{:keys [db flaky slow]} {:keys [order_id step]}]
  (scope/sleep (rand-int (inc (long slow))))
  (fail-sometimes (/ (double flaky) 2) "The service did not answer.")
  (once db (str "order-" order_id "-" step))
  (fail-sometimes (/ (double flaky) 2) "The answer of the service was lost."))
