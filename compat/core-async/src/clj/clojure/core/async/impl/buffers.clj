(ns clojure.core.async.impl.buffers
  "Makes buffers, which are Magnetar's; they fulfil `clojure.core.async.impl.protocols/Buffer`."
  (:require
   [magnetar.async]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.channel Buffer)))

(set! *warn-on-reflection* true)

(defn fixed-buffer
  "A buffer of n values; a put waits while it is full."
  [^long n]
  (Buffer/fixed n))

(defn dropping-buffer
  "A buffer of n values that drops the newest when it is full."
  [n]
  (Buffer/dropping n))

(defn sliding-buffer
  "A buffer of n values that drops the oldest when it is full."
  [n]
  (Buffer/sliding n))

(defn promise-buffer
  "A buffer that keeps its first value and hands it out any number of times."
  []
  (Buffer/promise))
