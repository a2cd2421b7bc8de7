(ns magnetar.impl.inspect.futures
  "The thread that runs a future of the JDK, or the threads of the pool that has it in its queue. A future of Clojure is one of the JDK.

  Both are in private fields of java.util.concurrent, which can be read with an option of the JVM."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.reach :as reach]
   [magnetar.impl.runtime])
  (:import
   (java.util IdentityHashMap)
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

(def ^:private most-objects
  "How many tasks in the queue of a pool are searched, and how many completions for each of them."
  10000)

(defn- completions
  "What is to be done when the CompletableFuture completes."
  [future]
  (reach/linked (reach/field future "stack") "next"))

(defn- completed-by
  "The CompletableFuture that the completion, or a task, completes; nil if it completes none."
  [x]
  (let [future (or (reach/field x "dep") (some-> (reach/field x "base") (reach/field "dep")))]
    (when (instance? CompletableFuture future)
      future)))

(defn- all-completions
  "What is to be done when the task has completed its future: by that future, and by those which are completed in turn."
  [task]
  (take most-objects (rest (tree-seq completed-by (comp completions completed-by) task))))

(defn- of-time-limit?
  "Does the completion show that the future completes by itself after some time?"
  [completion]
  (= "java.util.concurrent.CompletableFuture$Canceller" (some-> (reach/field completion "fn") class .getName)))

(defn- queued
  "The objects on which threads wait for what is in the queue of the pool, as the keys of a map: its tasks, and the completions of their futures."
  ^IdentityHashMap [^ThreadPoolExecutor pool]
  (let [found (IdentityHashMap.)]
    (doseq [task (take most-objects (.getQueue pool))]
      (.put found task true)
      (let [all (all-completions task)]
        (when (not-any? of-time-limit? all)
          (run! #(.put found % true) all))))
    found))

(defn- awaits-task?
  "Can a thread that waits on this object wait for a task of a pool?"
  [on]
  (or (and (instance? FutureTask on) (nil? (runner on)))
      (= "java.util.concurrent.CompletableFuture$Signaller" (some-> on class .getName))))

(defn pools
  "From each pool among the owners of these nodes to {:nodes its threads, :queued as in `queued`}."
  [nodes]
  (into {} (for [[pool nodes] (dissoc (group-by #(some-> (:thread %) pool-of) nodes) nil)]
             [pool {:nodes nodes :queued (delay (queued pool))}])))

(defn workers
  "[pool nodes]: the pool that has the task for which a thread waits on this object in its queue, and the nodes of its threads; nil if it is in no queue, or if
  the pool may add a thread for it."
  [pools on]
  (when (awaits-task? on)
    (first (for [[^ThreadPoolExecutor pool {:keys [nodes queued]}] pools
                 :when (and (<= (.getCorePoolSize pool) (count nodes))
                            (.containsKey ^IdentityHashMap @queued on))]
             [pool nodes]))))
