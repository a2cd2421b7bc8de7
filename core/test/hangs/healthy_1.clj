;; Healthy: two pools of HikariCP that are full most of the time. Eight fibers share two connections, each for
;; 3 ms. Four fibers take one connection of each pool, always in the same order, and the second pool has as
;; many connections as the first one. So a fiber that waits for a connection always gets one.
;;
;; Expected answer: nothing is stuck, deadlocked or leaked.
(ns healthy-1
  (:require
   [magnetar.async :as a]
   [magnetar.scope :as scope])
  (:import
   (com.zaxxer.hikari HikariConfig HikariDataSource)))

(defn- open-pool ^HikariDataSource [^String name size]
  (HikariDataSource.
    (doto (HikariConfig.)
      (.setPoolName name)
      (.setJdbcUrl (str "jdbc:h2:mem:" name))
      (.setMaximumPoolSize (int size))
      (.setConnectionTimeout 0)))) ; wait for ever

(defn- read-page [^HikariDataSource catalogue]
  (with-open [connection (.getConnection catalogue)]
    (.isValid connection 1)
    (scope/sleep 3)))

(defn- order [^HikariDataSource catalogue ^HikariDataSource orders]
  (with-open [from (.getConnection catalogue)
              to (.getConnection orders)]
    (.isValid from 1)
    (.isValid to 1)
    (scope/sleep 3)))

(defn- repeatedly-do [running done f & args]
  (while @running
    (apply f args)
    (swap! done inc)))

(defn start []
  (let [catalogue (open-pool "healthy-catalogue" 2)
        orders (open-pool "healthy-orders" 2)
        running (atom true)
        done (atom 0)
        fibers (into (vec (for [_ (range 8)]
                            (a/go (repeatedly-do running done read-page catalogue))))
                 (for [_ (range 4)]
                   (a/go (repeatedly-do running done order catalogue orders))))]
    {:ready #(< 50 @done)
     :stop #(do
              (reset! running false)
              (run! a/<! fibers)
              (.close catalogue)
              (.close orders))}))
