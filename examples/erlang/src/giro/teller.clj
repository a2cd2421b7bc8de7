(ns giro.teller
  "A teller has a bank make one payment after another. If an answer is lost, it asks again with the same id."
  (:require
   [giro.ledger :as ledger]
   [magnetar.actor :as actor :refer [after receive]]
   [magnetar.gen-server :as gs]
   [magnetar.scope :as scope])
  (:import
   (clojure.lang ExceptionInfo)
   (java.util Random)))

(set! *warn-on-reflection* true)

(defn- ask [bank payment]
  (try
    (gs/call bank payment {:timeout 2000 :else :lost})
    (catch ExceptionInfo _ :lost))) ; the connection was lost

(defn- pay [bank payment]
  (when-not (#{:ok :refused} (ask bank payment))
    (scope/sleep 5)
    (recur bank payment)))

(defn- payment [id ^Random random]
  (let [account #(inc (.nextInt random (int ledger/accounts)))]
    [:pay id (account) (account) (inc (.nextInt random 20))]))

(defn run
  "Makes payments with the ids [word 1], [word 2] and so on, until it gets :stop."
  [bank word seed]
  (let [random (Random. seed)]
    (loop [n 1]
      (pay bank (payment [word n] random))
      (receive
        :stop n
        (after 0 (recur (inc n)))))))
