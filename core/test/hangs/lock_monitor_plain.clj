;; What hangs: lock order inversion. The fiber that reserves goods owns the ReentrantLock `stock` and waits
;; for the monitor of `prices`. The platform thread that sets prices owns that monitor and waits for `stock`.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of two: ReentrantLock -> monitor -> ReentrantLock
;;   names  the go block of [reserve]; the thread of [reprice]
;;   lines  [A] waits for the monitor: Clojure's compiler gives `locking` the line of the call before it; [B] waits for the lock
;;   should the lines [C] and [D], where each took what it holds
;;   never  any other fiber
(ns lock-monitor-plain
  (:require
   [magnetar.async :as a])
  (:import
   (java.util.concurrent.locks ReentrantLock)))

(defn- reserve [^ReentrantLock stock prices locked entered]
  (.lock stock) ; [C]
  (try ; [A]
    (deliver locked true)
    @entered
    (locking prices
      (get @prices :apple))
    (finally (.unlock stock))))

(defn- reprice [^ReentrantLock stock prices locked entered]
  (locking prices ; [D]
    (deliver entered true)
    @locked
    (.lockInterruptibly stock) ; [B]
    (try
      (swap! prices assoc :apple 2)
      (finally (.unlock stock)))))

(defn- blocked? [thread]
  (and (realized? thread) (= Thread$State/BLOCKED (.getState ^Thread @thread))))

(defn start []
  (let [stock (ReentrantLock.)
        prices (atom {:apple 1})
        locked (promise)
        entered (promise)
        reserver (promise)
        repricer (promise)]
    (a/go ; [reserve]
      (deliver reserver (Thread/currentThread))
      (reserve stock prices locked entered))
    (a/thread ; [reprice]
      (deliver repricer (Thread/currentThread))
      (reprice stock prices locked entered))
    {:ready #(and (.hasQueuedThreads stock) (blocked? reserver))
     :stop #(.interrupt ^Thread @repricer)}))
