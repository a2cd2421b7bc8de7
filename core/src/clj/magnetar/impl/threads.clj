(ns magnetar.impl.threads
  "Platform threads for work that virtual threads cannot give back: one cached pool for each kind of workload."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent Executor Executors ThreadFactory)
   (java.util.concurrent.atomic AtomicLong)))

(set! *warn-on-reflection* true)

(defn- named-factory ^ThreadFactory [prefix]
  (let [counter (AtomicLong.)]
    (reify ThreadFactory
      (newThread [_ task]
        (doto (Thread. task (str prefix (.incrementAndGet counter)))
          (.setDaemon true))))))

(defn- cached-pool [workload]
  (Executors/newCachedThreadPool (named-factory (str "async-" (name workload) "-"))))

(defn- virtual-threads []
  (reify Executor
    (execute [_ task] (Thread/startVirtualThread task))))

(defn- default-executor [workload]
  (case workload
    :compute (cached-pool :compute)
    :mixed (cached-pool :mixed)
    :io (virtual-threads)
    (arguments/misuse :magnetar/wrong-value (str "A workload is :mixed, :compute or :io; this is " (arguments/show workload) ".")
                      {:operation "thread-call" :value workload})))

(defn- ask-factory [workload]
  (when-let [factory (System/getProperty "clojure.core.async.executor-factory")]
    ((requiring-resolve (symbol factory)) workload)))

(defonce ^:private answers (atom {}))

(defn- once
  "The value of (f k), computed once for each k, nil included."
  [cache k f]
  (when-not (contains? @cache k)
    (locking cache
      (when-not (contains? @cache k)
        (swap! cache assoc k (f k)))))
  (@cache k))

(defn custom-executor
  "The executor that the program's own factory gives for a workload, or nil; asked once for each. The factory is the function that
  the system property `clojure.core.async.executor-factory` names, as in core.async."
  ^Executor [workload]
  (once answers workload ask-factory))

(defonce ^:private pools (atom {}))

(defn executor-for
  "The executor of a workload, :io, :compute or :mixed, or one that the program's factory knows; the same one each time."
  ^Executor [workload]
  (or (custom-executor workload)
      (if (= workload :core-async-dispatch)
        (executor-for :io)
        (once pools workload default-executor))))
