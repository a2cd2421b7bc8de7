;; What hangs: a cycle of three. The process :importer holds the only connection and waits for the lock
;; `stock`. :stocktaker owns `stock` and waits for the lock `prices`. :pricer owns `prices` and waits for a
;; connection.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of three: connection -> ReentrantLock -> ReentrantLock -> connection
;;   names  :importer, :stocktaker, :pricer; the pool "warehouse"
;;   lines  [A] waits for `stock`; [B] waits for `prices`; [C] waits for a connection
;;   should the lines [D], [E] and [F], where each took what it holds
;;   never  any other fiber
(ns pool-lock-hop
  (:require
   [magnetar.actor :as actor])
  (:import
   (com.zaxxer.hikari HikariConfig HikariDataSource)
   (java.util.concurrent CountDownLatch)
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

(defn- meet [^CountDownLatch all-hold]
  (.countDown all-hold)
  (.await all-hold))

(defn- import-goods [^HikariDataSource pool ^ReentrantLock stock all-hold]
  (with-open [connection (.getConnection pool)] ; [D]
    (meet all-hold)
    (.lock stock) ; [A]
    (try
      (.isValid connection 1)
      (finally (.unlock stock)))))

(defn- take-stock [^ReentrantLock stock ^ReentrantLock prices all-hold]
  (.lock stock) ; [E]
  (try
    (meet all-hold)
    (.lock prices) ; [B]
    (try
      :counted
      (finally (.unlock prices)))
    (finally (.unlock stock))))

(defn- set-prices [^HikariDataSource pool ^ReentrantLock prices all-hold]
  (.lock prices) ; [F]
  (try
    (meet all-hold)
    (with-open [connection (.getConnection pool)] ; [C]
      (.isValid connection 1))
    (finally (.unlock prices))))

(defn start []
  (let [pool (open-pool "warehouse" 1)
        stock (ReentrantLock.)
        prices (ReentrantLock.)
        all-hold (CountDownLatch. 3)
        pids [(actor/spawn-opt import-goods pool stock all-hold {:name :importer})
              (actor/spawn-opt take-stock stock prices all-hold {:name :stocktaker})
              (actor/spawn-opt set-prices pool prices all-hold {:name :pricer})]]
    {:ready #(and (.hasQueuedThreads stock) (.hasQueuedThreads prices) (= 1 (waiting-for-connection pool)))
     :stop #(do
              (doseq [pid pids] (actor/exit pid :kill))
              (.close pool))}))
