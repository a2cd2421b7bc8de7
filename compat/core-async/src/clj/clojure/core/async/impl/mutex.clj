(ns clojure.core.async.impl.mutex
  "Locks for handlers that programs write themselves."
  (:import
   (java.util.concurrent.locks ReentrantLock)))

(set! *warn-on-reflection* true)

(defn mutex
  "A java.util.concurrent.locks.Lock."
  []
  (ReentrantLock.))
