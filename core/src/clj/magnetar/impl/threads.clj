(ns magnetar.impl.threads
  "Platform threads for work that virtual threads cannot give back: one cached pool for each kind of workload."
  {:no-doc true}
  (:require [magnetar.impl.runtime])
  (:import (java.util.concurrent Executor Executors ThreadFactory)
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
    :io (virtual-threads)))

(defn custom-executor
  "The executor that the program's own factory gives for a workload, or nil. The factory is the function that the system
  property `clojure.core.async.executor-factory` names, as in core.async."
  [workload]
  (when-let [factory (System/getProperty "clojure.core.async.executor-factory")]
    ((requiring-resolve (symbol factory)) workload)))

(defonce ^:private executors (atom {}))

(defn executor-for
  "The executor of a workload, :io, :compute or :mixed; the same one each time."
  ^Executor [workload]
  (or (@executors workload)
      (locking executors
        (or (@executors workload)
            (let [executor (or (custom-executor workload)
                               (if (= workload :core-async-dispatch)
                                 (executor-for :io)
                                 (default-executor workload)))]
              (swap! executors assoc workload executor)
              executor)))))
