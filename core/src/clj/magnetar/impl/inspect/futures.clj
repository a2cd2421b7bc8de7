(ns magnetar.impl.inspect.futures
  "The thread that runs a future of the JDK, or the threads of the pool that has it in its queue. A future of Clojure is one of the JDK.

  Both are in private fields of java.util.concurrent, which can be read with an option of the JVM."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.reach :as reach]
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent FutureTask ThreadPoolExecutor)))

(set! *warn-on-reflection* true)

(defn runner
  "The thread that runs the future; nil if none does, or if it cannot be read."
  ^Thread [future]
  (when (instance? FutureTask future)
    (reach/field future "runner")))

(defn- pool-of
  "The pool of this platform thread; nil for another thread."
  [^Thread thread]
  (when-not (.isVirtual thread)
    (let [worker (some-> (reach/field thread "holder") (reach/field "task"))
          pool (some-> worker (reach/field "this$0"))]
      (when (instance? ThreadPoolExecutor pool)
        pool))))

(defn pools
  "From each pool to the nodes of its threads, among these nodes. A node of no pool is left out."
  [nodes]
  (dissoc (group-by #(some-> (:thread %) pool-of) nodes) nil))

(defn- waits-in? [^ThreadPoolExecutor pool future]
  (.contains (.getQueue pool) future))

(defn workers
  "The nodes of the threads of the pool in whose queue the future is; nil if it is in no queue, or if the pool may add a thread for it."
  [pools future]
  (when (and (instance? FutureTask future) (nil? (runner future)))
    (some (fn [[^ThreadPoolExecutor pool nodes]]
            (when (and (waits-in? pool future) (<= (.getCorePoolSize pool) (count nodes)))
              nodes))
          pools)))
