;; Healthy: contended locks. Six fibers take a ReentrantLock and then a monitor, in the same order, and sleep
;; inside. Four read and two write under a ReentrantReadWriteLock. Four share a semaphore of two permits. Two
;; wait for a condition that another fiber signals every 5 ms. One fiber takes the lock twice. Six take turns
;; at a monitor, so each waits there most of the times when it is looked at.
;;
;; Expected answer: nothing is stuck, deadlocked or leaked.
(ns healthy-9
  (:require
   [magnetar.async :as a]
   [magnetar.scope :as scope])
  (:import
   (java.util.concurrent Semaphore)
   (java.util.concurrent.locks Condition Lock ReentrantLock ReentrantReadWriteLock)))

(defn- with-lock [^Lock lock f]
  (.lock lock)
  (try
    (f)
    (finally (.unlock lock))))

(defn- transfer [from to]
  (with-lock from
    (fn []
      (locking to
        (scope/sleep 1)))))

(defn- transfer-twice [from to]
  (with-lock from #(transfer from to)))

(defn- read-or-write [lock]
  (with-lock lock #(scope/sleep 1)))

(defn- visit [^Semaphore seats]
  (.acquire seats)
  (try
    (scope/sleep 2)
    (finally (.release seats))))

(defn- await-train [lock ^Condition train]
  (with-lock lock #(.await train)))

(defn- signal-train [lock ^Condition train]
  (scope/sleep 5)
  (with-lock lock #(.signalAll train)))

(defn- pass [turnstile]
  (locking turnstile
    (scope/sleep 3))
  (scope/sleep 1))

(defn- repeatedly-do [running done f & args]
  (while @running
    (apply f args)
    (swap! done inc)))

(defn start []
  (let [running (atom true)
        signalling (atom true)
        done (atom 0)
        from (ReentrantLock. true) ; fair, so that none starves
        to (Object.)
        ledger (ReentrantReadWriteLock. true)
        seats (Semaphore. 2 true)
        platform (ReentrantLock.)
        train (.newCondition platform)
        turnstile (Object.)
        work (concat
               (repeat 6 [transfer from to])
               [[transfer-twice from to]]
               (repeat 4 [read-or-write (.readLock ledger)])
               (repeat 2 [read-or-write (.writeLock ledger)])
               (repeat 4 [visit seats])
               (repeat 2 [await-train platform train])
               (repeat 6 [pass turnstile]))
        fibers (vec (for [call work]
                      (a/go (apply repeatedly-do running done call))))
        signals (a/go (repeatedly-do signalling done signal-train platform train))]
    {:ready #(< 200 @done)
     :stop #(do
              (reset! running false)
              (run! a/<! fibers)
              (reset! signalling false)
              (a/<! signals))}))
