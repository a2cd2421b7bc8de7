(ns shop.orders
  "Orders, and the steps that each of them takes: payment, packing, mail. Each step is a job."
  (:require
   [clojure.java.jdbc :as jdbc]
   [shop.db :as db]
   [shop.jobs :as jobs])
  (:import
   (java.sql SQLException)))

(set! *warn-on-reflection* true)

(def articles
  "What the shop sells."
  [{:id "tea"   :name "Green tea, 100 g" :cents 650}
   {:id "cup"   :name "Cup of stoneware" :cents 1490}
   {:id "honey" :name "Honey, 250 g"     :cents 590}])

(def ^:private steps
  {"payment" {:reached "paid" :message "The payment has arrived." :next "packing"}
   "packing" {:reached "packed" :message "The parcel is packed." :next "mail"}
   "mail"    {:reached "done" :message "The parcel is on its way."}})

(def ended? "Does an order in this state stay as it is?" #{"done" "failed"})

(defn article
  "The article with this id, nil if there is none."
  [id]
  (first (filter #(= id (:id %)) articles)))

;; ---- what there is

(defn by-id
  "The order, nil if there is none."
  [db id]
  (first (db/query db ["select id, article, quantity, cents, state from orders where id = ?" id])))

(defn latest
  "The latest orders, newest first."
  [db]
  (db/query db ["select id, article, quantity, cents, state from orders order by id desc limit 20"]))

(defn events
  "The events of an order after that one, oldest first."
  [db id after]
  (db/query db ["select id, state, message from events where order_id = ? and id > ? order by id" id after]))

;; ---- what happens

(defn- tell [tx id state message]
  (jdbc/insert! tx :events {:order_id id :state state :message (subs message 0 (min 500 (count message)))}))

(defn- reach [tx id state message]
  (jdbc/update! tx :orders {:state state} ["id = ?" id])
  (tell tx id state message))

(defn- insert [db order]
  (db/transaction [tx db]
    (let [[{:keys [id]}] (jdbc/insert! tx :orders (assoc order :state "accepted"))]
      (tell tx id "accepted" "The order is accepted.")
      (jobs/add tx id "payment")
      id)))

(defn- by-key [db k]
  (first (db/query db ["select id, article, quantity, cents, state from orders where idempotency_key = ?" k])))

(defn place
  "Places an order with its first job. Returns [:new order], or [:old order] if an order has this key already."
  [db k article-id quantity]
  (let [cents (* (long quantity) (long (:cents (article article-id))))]
    (try
      [:new (by-id db (insert db {:idempotency_key k :article article-id :quantity quantity :cents cents}))]
      (catch SQLException e
        (if (db/duplicate? e)
          [:old (by-key db k)]
          (throw e))))))

(defn step-done
  "The job has done its step: the order goes on to the next one, or has ended."
  [db {:keys [order_id step] :as job}]
  (let [{:keys [reached message next]} (steps step)]
    (db/transaction [tx db]
      (when (jobs/settle tx job "done")
        (reach tx order_id reached message)
        (when next
          (jobs/add tx order_id next))))))

(defn step-failed
  "The job has failed: it is tried again after a pause, or is dead and the order with it."
  [db {:keys [order_id step attempts] :as job} why]
  (db/transaction [tx db]
    (if (< (long attempts) (long jobs/max-attempts))
      (when (jobs/settle tx job "ready" (jobs/backoff attempts))
        (tell tx order_id "retry" (str why " The " step " is tried again.")))
      (when (jobs/settle tx job "dead")
        (reach tx order_id "failed" (str why " The " step " was given up after " attempts " attempts."))))))
