;; What hangs: the pool "bookings" has as many connections as there are bookings, 2 x cores. Each booking
;; holds one connection and waits for a second one.
;; Innocent beside it: an auditor holds nothing and waits for a connection of the same pool. Reporters hold
;; one connection each of the pool "reports" and wait for questions, which come every 20 ms.
;;
;; Expected answer
;;   kind   :deadlock: all holders of the pool's connections wait for a connection of the same pool
;;   names  the forks of [bookings], as a group with their number; the pool "bookings"
;;   lines  [B] waits for the second connection
;;   should the line [A], where each took its first one
;;   victim the go block of [owner]; the go block of [auditor], which waits at [U]
;;   never  the forks of [reporters]; the go blocks of [questions] and [reports-owner]; the line [Q];
;;          the pool "reports"
(ns pool-twice-twin
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

(defn- book [^HikariDataSource pool ^CountDownLatch all-hold]
  (with-open [room (.getConnection pool)] ; [A]
    (.countDown all-hold)
    (.await all-hold)
    (with-open [flight (.getConnection pool)] ; [B]
      (and (.isValid room 1) (.isValid flight 1)))))

(defn- audit [^HikariDataSource pool ^CountDownLatch all-hold]
  (.await all-hold)
  (with-open [connection (.getConnection pool)] ; [U]
    (.isValid connection 1)))

(defn- report [^HikariDataSource reports questions]
  (with-open [connection (.getConnection reports)]
    (loop []
      (when (a/<! questions) ; [Q]
        (.isValid connection 1)
        (recur)))))

(defn start []
  (let [n (* 2 (.availableProcessors (Runtime/getRuntime)))
        pool (open-pool "bookings" n)
        reports (open-pool "reports" n)
        questions (a/chan)
        all-hold (CountDownLatch. n)
        auditor (promise)
        opened (promise)
        open-too (promise)
        asked (a/go-loop [question 1] ; [questions]
                (scope/sleep 20)
                (when (a/>! questions question)
                  (recur (inc question))))
        reported (a/go ; [reports-owner]
                   (scope/with-scope [s]
                     (deliver open-too s)
                     (dotimes [_ n]
                       (scope/fork s report reports questions))))] ; [reporters]
    (a/go ; [owner]
      (scope/with-scope [s]
        (deliver opened s)
        (dotimes [_ n]
          (scope/fork s book pool all-hold)))) ; [bookings]
    (a/go ; [auditor]
      (deliver auditor (Thread/currentThread))
      (audit pool all-hold))
    {:ready #(= (inc n) (waiting-for-connection pool))
     :stop #(do
              (scope/cancel @opened :stopped)
              (.interrupt ^Thread @auditor)
              (a/close! questions)
              (run! a/<! [asked reported])
              (.close pool)
              (.close reports))}))
