(ns crawler.pool-of-8
  "core.async as it was before 1.8: all go blocks share eight threads.

  core.async asks the function that the property `clojure.core.async.executor-factory` names for its executors,
  once per kind of work."
  (:import
   (java.util.concurrent Executors ThreadFactory)))

(defn- daemon [work]
  (doto (Thread. ^Runnable work)
    (.setDaemon true)))

(defn executor
  "Returns a fixed pool of eight threads for go blocks, nil (core.async's own choice) for the rest."
  [work]
  (when (= :core-async-dispatch work)
    (Executors/newFixedThreadPool 8 (reify ThreadFactory (newThread [_ work] (daemon work))))))
