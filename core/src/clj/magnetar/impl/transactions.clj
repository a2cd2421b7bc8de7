(ns magnetar.impl.transactions
  "Clojure's transactions, as seen by what must not happen inside one, or only once it has committed."
  {:no-doc true}
  (:require
   [magnetar.impl.errors :as errors])
  (:import
   (clojure.lang LockingTransaction)
   (java.util.concurrent.atomic AtomicLong)))

(set! *warn-on-reflection* true)

;; Asking a thread whether it is in a transaction makes an entry in its table of thread-locals, 250 bytes of a thread that has none. So the
;; thread is asked only if a transaction was ever begun: the counter of read points is 0 until then. Should it be gone, each thread is asked.
(def ^:private ^AtomicLong begun
  (try
    (.get (doto (.getDeclaredField LockingTransaction "lastPoint") (.setAccessible true)) nil)
    (catch Exception _ (AtomicLong. 1))))

(defn running?
  "True inside a dosync."
  []
  (and (pos? (.get begun)) (LockingTransaction/isRunning)))

(defn refuse
  "Throws in a dosync: it may run again, and what was received would be lost."
  [operation]
  (when (running?)
    (throw (errors/illegal-state :magnetar/in-transaction
             (str "`" operation "` was called in a transaction, which may run more than once: call it outside of the dosync.")
             {:operation operation}))))

(def ^:private ^ThreadLocal outbox (ThreadLocal/withInitial (fn [] nil)))

(defn- run-new
  "Called after the commit, on the thread that committed."
  [_ box _ actions]
  (remove-watch box ::commit)
  (dosync (ref-set box []))
  (run! #(%) actions))

(defn- box []
  (or (.get outbox)
      (let [box (ref [])]
        (.set outbox box)
        box)))

(defn on-commit
  "Calls f once, on this thread, after the transaction that it is in has committed; what was asked for first is done first."
  [f]
  (let [box (box)]
    (add-watch box ::commit run-new)
    (alter box conj f)
    nil))
