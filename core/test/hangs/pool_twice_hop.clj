;; What hangs: the pool "payments" has as many connections as there are payments, 2 x cores. Each payment
;; holds one connection and waits for a go block that looks up the rate. That go block waits for a connection
;; of the same pool.
;;
;; Expected answer
;;   kind   :deadlock: the holders of all connections wait for go blocks that wait for a connection of the
;;          same pool
;;   names  the forks of [payments] and the go blocks of [rates], as groups with their numbers;
;;          the pool "payments"
;;   lines  [B] takes from the channel of the go block; [C] waits for a connection
;;   should the line [A], where each payment took its connection
;;   victim the go block of [owner], which waits for the forks of its scope
;;   never  any other fiber
(ns pool-twice-hop
  (:require
   [magnetar.async :as a]
   [magnetar.scope :as scope])
  (:import
   (com.zaxxer.hikari HikariConfig HikariDataSource)
   (java.util.concurrent CountDownLatch)))

(defn- open-pool ^HikariDataSource [^String name size]
  (HikariDataSource.
    (doto (HikariConfig.)
      (.setPoolName name)
      (.setJdbcUrl (str "jdbc:h2:mem:" name))
      (.setMaximumPoolSize (int size))
      (.setConnectionTimeout 0)))) ; wait for ever

(defn- waiting-for-connection [^HikariDataSource pool]
  (.getThreadsAwaitingConnection (.getHikariPoolMXBean pool)))

(defn- look-up-rate [^HikariDataSource pool]
  (with-open [connection (.getConnection pool)] ; [C]
    (if (.isValid connection 1) 1.1 1.0)))

(defn- pay [^HikariDataSource pool ^CountDownLatch all-hold]
  (with-open [connection (.getConnection pool)] ; [A]
    (.countDown all-hold)
    (.await all-hold)
    (let [rate (a/go (look-up-rate pool))] ; [rates]
      (when (.isValid connection 1)
        (a/<! rate))))) ; [B]

(defn start []
  (let [n (* 2 (.availableProcessors (Runtime/getRuntime)))
        pool (open-pool "payments" n)
        all-hold (CountDownLatch. n)
        opened (promise)]
    (a/go ; [owner]
      (scope/with-scope [s]
        (deliver opened s)
        (dotimes [_ n]
          (scope/fork s pay pool all-hold)))) ; [payments]
    {:ready #(= n (waiting-for-connection pool))
     :stop #(do
              (scope/cancel @opened :stopped) ; the payments give back what the go blocks wait for
              (while (pos? (waiting-for-connection pool)) (Thread/yield))
              (.close pool))}))
