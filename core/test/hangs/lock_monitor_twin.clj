;; What hangs: lock order inversion. The fiber that lends a book owns the ReentrantLock `shelf` and waits for
;; the monitor of `catalogue`. The fiber that edits the catalogue owns that monitor and waits for `shelf`.
;; Innocent beside it: a visitor waits for the same monitor and holds nothing. Two clerks take the lock `desk`
;; and then the monitor of `cards`, in the same order, all the time.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of two: ReentrantLock -> monitor -> ReentrantLock
;;   names  the go blocks of [lend] and [edit]
;;   lines  [A] waits for the monitor: Clojure's compiler gives `locking` the line of the call before it; [B] waits for the lock
;;   should the lines [C] and [D], where each took what it holds
;;   victim the go block of [visitor], which waits at [U]
;;   never  the go blocks of [clerk] and [clerk-2]
(ns lock-monitor-twin
  (:require
   [magnetar.async :as a]
   [magnetar.scope :as scope])
  (:import
   (java.util.concurrent.locks ReentrantLock)))

(defn- lend [^ReentrantLock shelf catalogue locked entered]
  (.lock shelf) ; [C]
  (try ; [A]
    (deliver locked true)
    @entered
    (locking catalogue
      (get @catalogue :dune))
    (finally (.unlock shelf))))

(defn- edit [^ReentrantLock shelf catalogue locked entered]
  (locking catalogue ; [D]
    (deliver entered true)
    @locked
    (.lockInterruptibly shelf) ; [B]
    (try
      (swap! catalogue assoc :dune :lent)
      (finally (.unlock shelf)))))

(defn- visit [catalogue entered]
  @entered
  (locking catalogue ; [U]
    (get @catalogue :dune)))

(defn- sort-cards [^ReentrantLock desk cards running]
  (while @running
    (.lock desk)
    (try
      (locking cards
        (swap! cards inc)
        (scope/sleep 2))
      (finally (.unlock desk)))))

(defn- blocked? [thread]
  (and (realized? thread) (= Thread$State/BLOCKED (.getState ^Thread @thread))))

(defn start []
  (let [shelf (ReentrantLock.)
        catalogue (atom {:dune :here})
        desk (ReentrantLock. true) ; fair, so that no clerk starves
        cards (atom 0)
        locked (promise)
        entered (promise)
        lender (promise)
        editor (promise)
        visitor (promise)
        running (atom true)
        sorted [(a/go (sort-cards desk cards running)) ; [clerk]
                (a/go (sort-cards desk cards running))]] ; [clerk-2]
    (a/go ; [lend]
      (deliver lender (Thread/currentThread))
      (lend shelf catalogue locked entered))
    (a/go ; [edit]
      (deliver editor (Thread/currentThread))
      (edit shelf catalogue locked entered))
    (a/go ; [visitor]
      (deliver visitor (Thread/currentThread))
      (visit catalogue entered))
    {:ready #(and (.hasQueuedThreads shelf) (blocked? lender) (blocked? visitor))
     :stop #(do
              (reset! running false)
              (run! a/<! sorted)
              (.interrupt ^Thread @editor))}))
