(ns shop.postgres-test
  "The shop with a PostgreSQL that goes away and comes back."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.drivers.servers :as servers]
   [magnetar.drivers.support :refer [eventually execute value]]
   [shop.support :as support :refer [get-page messages order request url with-shop]])
  (:import
   (java.sql DriverManager)))

(set! *warn-on-reflection* true)

(defn- allow-connections
  "Lets the database take connections or not, and ends those that there are."
  [server-url allowed?]
  (with-open [connection (DriverManager/getConnection server-url)]
    (execute connection (str "alter database shop allow_connections " allowed?))
    (value connection "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = 'shop'")))

(deftest ^{:limit 200000} orders-go-on-when-postgres-is-back
  (let [{server-url :url :keys [stop]} (servers/start-postgres)]
    (try
      (with-open [connection (DriverManager/getConnection server-url)]
        (execute connection "create database shop"))
      (with-shop {:db (.replace ^String server-url "/postgres?" "/shop?") :slow 20 :flaky 0.3}
        (dotimes [_ 20] (order "tea"))
        (allow-connections server-url false)
        (let [{:keys [status headers]} (request (url "/orders") "POST" "{\"article\": \"tea\"}")]
          (is (= [503 "2"] [status (headers "retry-after")])))
        (allow-connections server-url true)
        (is (eventually (= 200 (:status (get-page (url "/health"))))))
        (is (= #{"The parcel is on its way."}
               (set (map #(last (messages (url (str "/orders/" % "/events")))) (range 1 21))))))
      (finally (stop)))))
