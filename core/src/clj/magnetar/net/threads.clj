(ns magnetar.net.threads
  "Platform threads for calls of the JDK that hold a thread, in pools of their own. The pool of `offload` is
  for files."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent LinkedBlockingQueue ThreadFactory ThreadPoolExecutor TimeUnit)
   (java.util.concurrent.atomic AtomicLong)))

(set! *warn-on-reflection* true)

(def ^:private ^:const keep-alive-seconds 10)

(defn- factory ^ThreadFactory [name]
  (let [started (AtomicLong.)]
    (reify ThreadFactory
      (newThread [_ task]
        (doto (Thread. task (str name "-" (.incrementAndGet started)))
          (.setDaemon true))))))

(defn pool
  "An executor of at most so many threads, which are made as needed and end when they are idle. The rest of
  the work is queued."
  ^ThreadPoolExecutor [name most]
  (doto (ThreadPoolExecutor. (int most) (int most) keep-alive-seconds TimeUnit/SECONDS (LinkedBlockingQueue.)
                             (factory name))
    (.allowCoreThreadTimeOut true)))
