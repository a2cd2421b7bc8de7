(ns magnetar.impl.inspect.futures
  "The thread that runs a future of the JDK, or the threads of the pool that has it in its queue. A future of Clojure is one of the JDK.

  Both are in private fields of java.util.concurrent, which can be read with an option of the JVM."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.reach :as reach]
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent CompletableFuture FutureTask ThreadPoolExecutor)))

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

(def ^:private most-tasks
  "How many tasks in the queue of a pool are searched."
  10000)

(defn- waiters-of
  "The objects on which threads wait for a CompletableFuture, with its other completions."
  [future]
  (take most-tasks (take-while some? (iterate #(reach/field % "next") (reach/field future "stack")))))

(defn- completes?
  "Does the task in a queue complete the CompletableFuture for which a thread waits on this object?"
  [on task]
  (let [future (reach/field task "dep")]
    (and (instance? CompletableFuture future)
         (some #(identical? on %) (waiters-of future)))))

(defn- has-queued?
  "Is the task for which a thread waits on this object in the queue of the pool?"
  [^ThreadPoolExecutor pool on]
  (if (instance? FutureTask on)
    (.contains (.getQueue pool) on)
    (some #(completes? on %) (take most-tasks (.getQueue pool)))))

(defn- awaits-task?
  "Can a thread that waits on this object wait for a task of a pool?"
  [on]
  (or (and (instance? FutureTask on) (nil? (runner on)))
      (= "java.util.concurrent.CompletableFuture$Signaller" (some-> on class .getName))))

(defn workers
  "[pool nodes]: the pool that has the task for which a thread waits on this object in its queue, and the nodes of its threads; nil if it is in no queue, or if
  the pool may add a thread for it."
  [pools on]
  (when (awaits-task? on)
    (first (filter (fn [[^ThreadPoolExecutor pool nodes]]
                     (and (<= (.getCorePoolSize pool) (count nodes)) (has-queued? pool on)))
                   pools))))
