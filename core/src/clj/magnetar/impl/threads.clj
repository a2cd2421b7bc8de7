(ns magnetar.impl.threads
  "Threads for a workload: fibers, or platform threads of a cached pool for work that would pin a virtual thread."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.context :as context]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent ConcurrentHashMap Executor Executors ThreadFactory)
   (java.util.concurrent.atomic AtomicLong)
   (magnetar.kernel.channel Channel GoBody)
   (magnetar.kernel.fiber Fiber Fibers Fibers$Hold)))

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

;; ---- what runs on them

;; From the threads of the pools to the places in the program whose work they do now. The threads have the names that core.async gives them.
(defonce ^:private ^ConcurrentHashMap sites (ConcurrentHashMap.))

(defn site-of
  "What was started on this thread of a pool, and where; nil of any other thread."
  [thread]
  (.get sites thread))

(defn- yield
  "Puts the value of `f` on `out`, unless it is nil, and closes `out`; a failure is reported before."
  [site f ^Channel out]
  (let [thread (Thread/currentThread)]
    (try
      (.willBeFinishedBy out (Fiber/current))
      (.put sites thread site)
      (.finish out (f))
      (catch Throwable e
        (reports/report site e))
      (finally
        (.remove sites thread)
        (.close out)))))

(defn- keeping-context
  "`f` with the context that this thread has; a thread of an executor has none of its own, and keeps none."
  [f]
  (if-some [context (context/outgoing)]
    (^:once fn* [] (context/call-in context f))
    (^:once fn* [] (context/restored (f)))))

(defn- on-executor [site f ^Channel out workload]
  (.execute (executor-for workload)
            (^:once fn* [] (yield site f out))))

(defn- on-held-fiber [^String site ^Callable f out]
  (Fibers/start site Fibers$Hold/STRONG (GoBody. f out)))

(defn- on-fiber? [workload]
  (or (environment/simulated?)
      (and (= :io workload) (nil? (custom-executor :io)))))

(defn start-thread
  "Runs `f` on a thread for `workload`, with a copy of the bindings that `set!` may change; returns the channel of its result."
  [site f workload]
  (let [out (fibers/result-channel)
        bindings (get-thread-bindings)
        bound (^:once fn* [] (with-bindings* bindings f))]
    (if (on-fiber? workload)
      (on-held-fiber site bound out)
      (on-executor site (keeping-context bound) out workload))
    out))
