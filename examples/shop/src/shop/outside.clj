(ns shop.outside
  "Stands for the services of others: payment, packing, mail and refund. They are slow, and fail as often as they are told.

  A call has an idempotency key. So a call that is repeated, because its answer was lost, has no second effect. A refund uses up the key of
  its payment, too: a payment that timed out, and comes late, has no effect after its refund. The table `effects` stands for the books of
  these services."
  (:require
   [clojure.java.jdbc :as jdbc]
   [magnetar.scope :as scope]
   [shop.db :as db])
  (:import
   (java.sql SQLException)))

(set! *warn-on-reflection* true)

(defn- once
  "Has the effect with this key, unless it was there; returns whether it had it."
  [db k]
  (try
    (scope/shield (jdbc/insert! db :effects {:id k}))
    true
    (catch SQLException e
      (if (db/duplicate? e)
        false
        (throw e)))))

(defn- fail-sometimes [flaky sentence]
  (when (< (double (rand)) (double flaky))
    (throw (ex-info sentence {}))))

(defn- idempotency-key [order-id step]
  (str "order-" order-id "-" step))

(defn call
  "Does the step of the job; throws if the service does not answer, before or after the effect. False if the effect was there."
  [{:keys [db flaky slow]} {:keys [order_id step]}]
  (scope/sleep (rand-int (inc (long slow))))
  (fail-sometimes (/ (double flaky) 2) "The service did not answer.")
  (when (= "refund" step)
    (once db (idempotency-key order_id "payment")))
  (let [effect? (once db (idempotency-key order_id step))]
    (fail-sometimes (/ (double flaky) 2) "The answer of the service was lost.")
    effect?))
