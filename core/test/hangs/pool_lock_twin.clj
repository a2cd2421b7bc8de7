;; What hangs: the fiber that books a ticket holds the only connection of the pool "tickets" and waits for the
;; lock `seats`. The fiber that plans the hall owns `seats` and waits for a connection of that pool.
;; Innocent beside it: an usher waits for the same lock and holds nothing. Two printers share the one
;; connection of the pool "archive", so one of them mostly waits for the other.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of two: connection of the pool "tickets" -> ReentrantLock -> connection
;;   names  the go blocks of [booking] and [planning]; the pool "tickets"
;;   lines  [A] waits for the lock; [B] waits for a connection
;;   should the lines [C] and [D], where each took what the other one waits for
;;   victim the go block of [usher]: it may be named as one that waits behind the cycle, not as a part of
;;          it. It waits at [U]
;;   never  the go blocks of [printer] and [printer-2]; the line [R]; the pool "archive"
(ns pool-lock-twin
  (:require
   [magnetar.async :as a]
   [magnetar.scope :as scope])
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

(defn- book [^HikariDataSource pool ^ReentrantLock seats connected locked]
  (with-open [connection (.getConnection pool)] ; [C]
    (deliver connected true)
    @locked
    (.lock seats) ; [A]
    (try
      (.isValid connection 1)
      (finally (.unlock seats)))))

(defn- plan-hall [^HikariDataSource pool ^ReentrantLock seats connected locked]
  (.lock seats) ; [D]
  (try
    (deliver locked true)
    @connected
    (with-open [connection (.getConnection pool)] ; [B]
      (.isValid connection 1))
    (finally (.unlock seats))))

(defn- count-seats [^ReentrantLock seats locked]
  @locked
  (.lock seats) ; [U]
  (.unlock seats))

(defn- print-old-tickets [^HikariDataSource archive running]
  (while @running
    (with-open [connection (.getConnection archive)] ; [R]
      (.isValid connection 1)
      (scope/sleep 3))))

(defn start []
  (let [pool (open-pool "tickets" 1)
        archive (open-pool "archive" 1)
        seats (ReentrantLock.)
        connected (promise)
        locked (promise)
        running (atom true)
        fibers (atom [])
        printers [(a/go (print-old-tickets archive running)) ; [printer]
                  (a/go (print-old-tickets archive running))]] ; [printer-2]
    (a/go ; [booking]
      (swap! fibers conj (Thread/currentThread))
      (book pool seats connected locked))
    (a/go ; [planning]
      (swap! fibers conj (Thread/currentThread))
      (plan-hall pool seats connected locked))
    (a/go ; [usher]
      (count-seats seats locked))
    {:ready #(and (= 2 (.getQueueLength seats)) (= 1 (waiting-for-connection pool)))
     :stop #(do
              (reset! running false)
              (doseq [^Thread fiber @fibers] (.interrupt fiber))
              (run! a/<! printers)
              (.close pool)
              (.close archive))}))
