;; What hangs: a cycle of three. The fiber that sells owns the ReentrantLock `till` and waits for the monitor
;; of `basket`. The fiber that packs owns that monitor and waits for the write lock of `journal`. The fiber
;; that closes the day owns the write lock and waits for `till`.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of three: ReentrantLock -> monitor -> write lock -> ReentrantLock
;;   names  the go blocks of [sell], [pack] and [close-day]
;;   lines  [A] waits for the monitor: Clojure's compiler gives `locking` the line of the call before it; [B] waits for the write lock; [C] waits for the lock `till`
;;   should the lines [D], [E] and [F], where each took what it holds
;;   never  any other fiber
(ns lock-monitor-hop
  (:require
   [magnetar.async :as a])
  (:import
   (java.util.concurrent CountDownLatch)
   (java.util.concurrent.locks ReentrantLock ReentrantReadWriteLock)))

(defn- meet [^CountDownLatch all-hold]
  (.countDown all-hold)
  (.await all-hold))

(defn- sell [^ReentrantLock till basket all-hold]
  (.lock till) ; [D]
  (try
    (meet all-hold) ; [A]
    (locking basket
      (count @basket))
    (finally (.unlock till))))

(defn- pack [basket ^ReentrantReadWriteLock journal all-hold]
  (locking basket ; [E]
    (meet all-hold)
    (.lock (.writeLock journal)) ; [B]
    (try
      (reset! basket [])
      (finally (.unlock (.writeLock journal))))))

(defn- close-day [^ReentrantReadWriteLock journal ^ReentrantLock till all-hold]
  (.lock (.writeLock journal)) ; [F]
  (try
    (meet all-hold)
    (.lockInterruptibly till) ; [C]
    (try
      :closed
      (finally (.unlock till)))
    (finally (.unlock (.writeLock journal)))))

(defn- blocked? [thread]
  (and (realized? thread) (= Thread$State/BLOCKED (.getState ^Thread @thread))))

(defn start []
  (let [till (ReentrantLock.)
        basket (atom [:apple])
        journal (ReentrantReadWriteLock.)
        all-hold (CountDownLatch. 3)
        seller (promise)
        closer (promise)]
    (a/go ; [sell]
      (deliver seller (Thread/currentThread))
      (sell till basket all-hold))
    (a/go ; [pack]
      (pack basket journal all-hold))
    (a/go ; [close-day]
      (deliver closer (Thread/currentThread))
      (close-day journal till all-hold))
    {:ready #(and (.hasQueuedThreads till) (.hasQueuedThreads journal) (blocked? seller))
     :stop #(.interrupt ^Thread @closer)}))
