(ns magnetar.impl.transactions
  "Clojure's transactions, as seen by what must not happen inside one, or only once it has committed."
  {:no-doc true}
  (:require
   [magnetar.impl.errors :as errors]
   [magnetar.impl.privates :as privates]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang LockingTransaction)
   (magnetar.kernel.fiber ThreadLocals)))

(set! *warn-on-reflection* true)

(def ^:private ^ThreadLocal current
  "Where Clojure keeps the transaction of a thread; nil if this Clojure keeps it elsewhere."
  (some-> (privates/field-or-nil LockingTransaction "transaction") (.get nil)))

(defn running?
  "True inside a dosync. Looks first whether the thread has an entry at all, because `isRunning` adds one of 32 bytes."
  []
  (and (or (nil? current) (ThreadLocals/mayHold current))
       (LockingTransaction/isRunning)))

(defn refuse
  "Throws in a dosync: it may run again, and what was received would be lost."
  [operation]
  (when (running?)
    (throw (errors/illegal-state :magnetar/in-transaction
             (str "`" operation "` was called in a transaction, which may run more than once: call it outside of the dosync.")
             {:operation operation}))))

(defmacro check
  "Like `refuse`, without a call where the thread has no thread-locals: for what takes some ten nanoseconds itself."
  [operation]
  `(when (ThreadLocals/mayExist) (refuse ~operation)))

;; What a transaction wants done is the value of a ref that belongs to this thread: a retry takes it back, and the watch of a ref is called once,
;; after the commit, on the thread that committed.
(def ^:private ^ThreadLocal outbox (ThreadLocal.))

(defn- act
  "The transaction has committed: what cannot be done is reported, and does not keep the rest from being done."
  [action]
  (try
    (action)
    (catch Exception e
      (reports/report "commit of a dosync" e))))

(defn- run-actions
  "The watch of a box. The box is not used again: emptying it would take a transaction, and one in a watch makes Clojure forget the actions of
  agents that wait for the same commit."
  [_ box _ actions]
  (remove-watch box ::commit)
  (.remove outbox)
  (run! act actions))

(defn- box []
  (or (.get outbox)
      (let [box (ref [])]
        (add-watch box ::commit run-actions)
        (.set outbox box)
        box)))

(defn on-commit
  "Calls f once, on this thread, after the transaction that it is in has committed; what was asked for first is done first."
  [f]
  (alter (box) conj f)
  nil)
