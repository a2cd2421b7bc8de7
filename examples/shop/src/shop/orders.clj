(ns shop.orders
  "Orders, and the steps that each of them takes: payment, packing, mail. Each step is a job. If one is given up, a refund follows."
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
   "mail"    {:reached "done" :message "The parcel is on its way."}
   "refund"  {:reached "refunded" :message "What was paid has been returned."}})

(def states "The states of an order." ["accepted" "paid" "packed" "done" "refunding" "refunded" "failed"])

(def ended? "Does an order in this state stay as it is?" #{"done" "refunded" "failed"})

(defn article
  "The article with this id, or nil."
  [id]
  (first (filter #(= id (:id %)) articles)))

;; ---- what there is

(defn by-id
  "The order with this id, or nil."
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
  (tell tx id state message)
  (when (ended? state)
    (jobs/leave-place tx)))

(defn- insert
  "The id of the new order; nil if the queue is full."
  [db order max-queue]
  (db/transaction [tx db]
    (when (jobs/room? tx max-queue) ; an order that is refused has written nothing then
      (let [[{:keys [id]}] (jdbc/insert! tx :orders (assoc order :state "accepted"))]
        (tell tx id "accepted" "The order is accepted.")
        (jobs/add tx id "payment")
        (if (jobs/take-place tx max-queue)
          id
          (do (jdbc/db-set-rollback-only! tx)
              nil))))))

(defn- with-key
  "[:old order] if an order has this key, else nil."
  [db k]
  (when-some [[order] (seq (db/query db ["select id, article, quantity, cents, state from orders where idempotency_key = ?" k]))]
    [:old order]))

(defn- insert-once
  "What `place` returns. The same order may have been placed meanwhile."
  [db {:keys [idempotency_key] :as order} max-queue]
  (try
    (if-some [id (insert db order max-queue)]
      [:new (by-id db id)]
      (or (with-key db idempotency_key) [:full]))
    (catch SQLException e
      (if (db/duplicate? e)
        (with-key db idempotency_key)
        (throw e)))))

(defn place
  "Places an order with its first job. Returns [:new order]; [:old order] if an order has this key already; [:full] if so many orders
  wait, or more."
  [db k article-id quantity max-queue]
  (let [cents (* (long quantity) (long (:cents (article article-id))))]
    (or (with-key db k)
        (insert-once db {:idempotency_key k :article article-id :quantity quantity :cents cents} max-queue))))

(defn step-done
  "The job has done its step: the order goes on to the next one, or has ended."
  [db {:keys [order_id step] :as job}]
  (let [{:keys [reached message next]} (steps step)]
    (db/transaction [tx db]
      (when (jobs/done tx job)
        (reach tx order_id reached message)
        (when next
          (jobs/add tx order_id next))))))

(defn- give-up
  "The order ends by a refund, also after a payment that was given up: its answers may have been lost. A refund that is given up is left
  to a person."
  [tx {:keys [order_id step attempts]} why]
  (let [message (str why " The " step " was given up after " attempts " attempts.")]
    (if (= "refund" step)
      (reach tx order_id "failed" (str message " The shop will write to you."))
      (do (reach tx order_id "refunding" (str message " What was paid is returned."))
          (jobs/add tx order_id "refund")))))

(defn step-failed
  "The job has failed: it is tried again after a pause, or is dead, and the order is given up."
  [db {:keys [order_id step] :as job} why]
  (db/transaction [tx db]
    (case (jobs/failed tx job why)
      :again (tell tx order_id "retry" (str why " The " step " is tried again."))
      :dead (give-up tx job why)
      nil nil)))
