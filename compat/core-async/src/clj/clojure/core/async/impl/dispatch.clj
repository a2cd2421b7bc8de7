(ns clojure.core.async.impl.dispatch
  "Where core.async runs code: executors for workloads, which are Magnetar's."
  (:require
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.threads :as threads])
  (:import
   (java.util.concurrent Executor ThreadFactory)
   (java.util.concurrent.atomic AtomicLong)))

(set! *warn-on-reflection* true)

(def virtual-threads-available?
  "True: Magnetar needs them."
  true)

(defn executor-for
  "The executor for a workload: :io, virtual threads; :compute or :mixed, platform threads; or :core-async-dispatch. The same one
  each time. The system property `clojure.core.async.executor-factory` can name a function that gives others."
  ^Executor [workload]
  (threads/executor-for workload))

(defn exec
  "Runs r on the executor for workload."
  [^Runnable r workload]
  (.execute ^Executor (executor-for workload) r))

(defn ex-handler
  "Reports the failure of a go block; returns nil."
  [ex]
  (reports/report ex)
  nil)

(defn run
  "Runs r on this thread if its metadata has :on-caller?, else on a virtual thread."
  [^Runnable r]
  (if (:on-caller? (meta r))
    (try (.run r)
         (catch Throwable t (ex-handler t)))
    (exec r :core-async-dispatch)))

(defonce ^{:doc "Set by go blocks that were compiled with core.async's own `go` and go-checking. Not read."} in-go-dispatch
  (ThreadLocal.))

(defn in-dispatch-thread?
  "False: a go block of Magnetar has a virtual thread of its own, which may block."
  []
  false)

(defn check-blocking-in-dispatch
  "Does nothing: any go block may block."
  [])

(defmacro with-dispatch-thread-marking
  "Does body."
  [& body]
  `(do ~@body))

(defn counted-thread-factory
  "A ThreadFactory of threads that are named by the format name-format and a counter, daemons or not.
  Option :init-fn is called first on each new thread."
  (^ThreadFactory [name-format daemon] (counted-thread-factory name-format daemon nil))
  (^ThreadFactory [name-format daemon {:keys [init-fn]}]
   (let [counter (AtomicLong.)]
     (reify ThreadFactory
       (newThread [_ task]
         (let [^Runnable body (if init-fn (fn [] (init-fn) (.run task)) task)]
           (doto (Thread. body ^String (format name-format (.incrementAndGet counter)))
             (.setDaemon daemon))))))))
