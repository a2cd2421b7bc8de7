(ns shop.postgres-test
  "The shop with a PostgreSQL that goes away and comes back."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.drivers.servers :as servers]
   [magnetar.drivers.support :refer [eventually execute value]]
   [shop.db :as db]
   [shop.program :as program]
   [shop.support :as support :refer [get-page messages order request with-shop]])
  (:import
   (java.sql DriverManager)))

(set! *warn-on-reflection* true)

(defn- allow-connections
  "Lets the database take connections or not, and ends those that there are."
  [server-url allowed?]
  (with-open [connection (DriverManager/getConnection server-url)]
    (execute connection (str "alter database shop allow_connections " allowed?))
    (value connection "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = 'shop'")))

(defn- start-with-shop-database
  "Starts a PostgreSQL; returns {:url :stop} of its database shop."
  []
  (let [{:keys [url] :as server} (servers/start-postgres)]
    (with-open [connection (DriverManager/getConnection url)]
      (execute connection "create database shop"))
    (assoc server :server-url url :url (.replace ^String url "/postgres?" "/shop?"))))

(defn- ended?
  "Was this the last message of an order that is done or refunded? Of a thousand orders one or two are refunded, since a call may fail six times."
  [message]
  (#{"The parcel is on its way." "What was paid has been returned."} message))

(deftest several-programs-create-the-tables-at-once
  (let [{:keys [url stop]} (start-with-shop-database)]
    (try
      (let [opened (mapv deref (doall (repeatedly 8 #(future (try (db/open url) (catch Exception e (ex-message e)))))))]
        (is (every? map? opened) "none failed at a table of another one")
        (run! db/close (filter map? opened))
        (with-open [connection (DriverManager/getConnection url)]
          (is (= 1 (value connection "select count(*) from queue")))))
      (finally (stop)))))

(deftest ^{:limit 200000} two-programs-share-a-database-and-one-ends-what-the-other-had-claimed
  (let [{:keys [url stop]} (start-with-shop-database)]
    (try
      (let [[killed other] (doall (repeatedly 2 #(program/start "--db" url "--slow" "300" "--flaky" "0.3" "--workers" "8")))
            ports (mapv program/port [killed other])
            place (fn [port k] (support/order (support/url port "/orders") "tea" k))]
        (dotimes [n 20]
          (place (ports (mod n 2)) (str "k" n)))
        (messages (support/url (ports 0) "/orders/1/events"))
        (program/kill killed)
        (is (every? ended? (map #(last (messages (support/url (ports 1) (str "/orders/" % "/events")))) (range 1 21))))
        (is (= 0 (program/terminate other)))
        (with-open [connection (DriverManager/getConnection url)]
          (is (= 20 (value connection "select count(*) from events where state in ('done', 'refunded')")) "each has ended once")
          (is (= 0 (value connection "select count(*) from jobs where state in ('ready', 'running')")))))
      (finally (stop)))))

(deftest ^{:limit 200000} orders-go-on-when-postgres-is-back
  (let [{:keys [url server-url stop]} (start-with-shop-database)]
    (try
      (with-shop {:db url :slow 20 :flaky 0.3}
        (dotimes [_ 20] (order "tea"))
        (allow-connections server-url false)
        (let [{:keys [status headers]} (request (support/url "/orders") "POST" "{\"article\": \"tea\"}")]
          (is (= [503 "2"] [status (headers "retry-after")])))
        (allow-connections server-url true)
        (is (eventually (= 200 (:status (get-page (support/url "/health"))))))
        (is (every? ended? (map #(last (messages (support/url (str "/orders/" % "/events")))) (range 1 21)))))
      (finally (stop)))))
