;; What hangs: the fiber that posts an order holds the only connection of the pool and waits for the lock
;; `ledger`. The fiber that closes the month owns `ledger` and waits for a connection of the pool.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of two: connection of the pool "orders" -> ReentrantLock -> connection
;;   names  the go blocks of [orders] and [month]; the pool "orders"
;;   lines  [A] waits for the lock; [B] waits for a connection
;;   should the lines [C] and [D], where each took what the other one waits for
;;   never  any other fiber, such as the threads of HikariCP and H2
(ns pool-lock-plain
  (:require
   [magnetar.async :as a])
  (:import
   (com.zaxxer.hikari HikariConfig HikariDataSource)
   (java.util.concurrent.locks ReentrantLock)))

(defn- open-pool ^HikariDataSource [^String name size]
  (HikariDataSource.
    (doto (HikariConfig.)
      (.setPoolName name)
      (.setJdbcUrl (str "jdbc:h2:mem:" name))
      (.setMaximumPoolSize (int size))
      (.setConnectionTimeout 0)))) ; wait for ever

(defn- waiting-for-connection [^HikariDataSource pool]
  (.getThreadsAwaitingConnection (.getHikariPoolMXBean pool)))

(defn- post-order [^HikariDataSource pool ^ReentrantLock ledger connected locked]
  (with-open [connection (.getConnection pool)] ; [C]
    (deliver connected true)
    @locked
    (.lock ledger) ; [A]
    (try
      (.isValid connection 1)
      (finally (.unlock ledger)))))

(defn- close-month [^HikariDataSource pool ^ReentrantLock ledger connected locked]
  (.lock ledger) ; [D]
  (try
    (deliver locked true)
    @connected
    (with-open [connection (.getConnection pool)] ; [B]
      (.isValid connection 1))
    (finally (.unlock ledger))))

(defn start []
  (let [pool (open-pool "orders" 1)
        ledger (ReentrantLock.)
        connected (promise)
        locked (promise)
        fibers (atom [])]
    (a/go ; [orders]
      (swap! fibers conj (Thread/currentThread))
      (post-order pool ledger connected locked))
    (a/go ; [month]
      (swap! fibers conj (Thread/currentThread))
      (close-month pool ledger connected locked))
    {:ready #(and (.hasQueuedThreads ledger) (= 1 (waiting-for-connection pool)))
     :stop #(do
              (doseq [^Thread fiber @fibers] (.interrupt fiber))
              (.close pool))}))
