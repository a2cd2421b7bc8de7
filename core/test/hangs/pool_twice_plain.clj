;; What hangs: the pool "accounts" has as many connections as there are transfers, 2 x cores. Each transfer
;; holds one connection and waits for a second one.
;;
;; Expected answer
;;   kind   :deadlock: all holders of the pool's connections wait for a connection of the same pool
;;   names  the forks of [transfers], as a group with their number; the pool "accounts"
;;   lines  [B] waits for the second connection
;;   should the line [A], where each took its first one
;;   victim the go block of [owner], which waits for the forks of its scope
;;   never  any other fiber
(ns pool-twice-plain
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

(defn- transfer [^HikariDataSource pool ^CountDownLatch all-hold]
  (with-open [debit (.getConnection pool)] ; [A]
    (.countDown all-hold)
    (.await all-hold)
    (with-open [credit (.getConnection pool)] ; [B]
      (and (.isValid debit 1) (.isValid credit 1)))))

(defn start []
  (let [n (* 2 (.availableProcessors (Runtime/getRuntime)))
        pool (open-pool "accounts" n)
        all-hold (CountDownLatch. n)
        opened (promise)]
    (a/go ; [owner]
      (scope/with-scope [s]
        (deliver opened s)
        (dotimes [_ n]
          (scope/fork s transfer pool all-hold)))) ; [transfers]
    {:ready #(= n (waiting-for-connection pool))
     :stop #(do
              (scope/cancel @opened :stopped)
              (.close pool))}))
