(ns magnetar.inspect
  "What the program is doing now, as plain data.

  runtime             what Magnetar runs on
  fibers, fiber-info  who is there, and what each waits for
  set-failure-hook    where failures go that nobody caught"
  (:require [magnetar.impl.errors :as errors]
            [magnetar.impl.runtime])
  (:import (java.util.function Consumer)
           (magnetar.kernel.inspect FiberInfo)
           (magnetar.kernel.channel Select Select$Operation)
           (magnetar.kernel.park Failures Failures$Failure Fibers WaitReason World)
           (magnetar.kernel.time Wheel)))

(set! *warn-on-reflection* true)

(defn- carriers []
  (Long/getLong "jdk.virtualThreadScheduler.parallelism" (.availableProcessors (Runtime/getRuntime))))

(defn runtime
  "What Magnetar runs on: {:wake-up :jdk :java-home :clojure :carriers :fibers :timers}.

  :wake-up says how fibers are woken, by :unpark; :carriers is the number of platform threads that fibers share; :fibers and
  :timers are the numbers of those that have not ended.

    (runtime) ;=> {:wake-up :unpark, :jdk \"25.0.3\", :clojure \"1.12.6\", :carriers 2, :fibers 0, ..}"
  []
  {:wake-up :unpark
   :jdk (System/getProperty "java.version")
   :java-home (System/getProperty "java.home")
   :clojure (clojure-version)
   :carriers (carriers)
   :fibers (Fibers/count)
   :timers (.size (Wheel/of World/REAL))})

(defn- operation-data [^Select$Operation operation]
  (if-some [item (.item operation)]
    [(.port operation) item]
    (.port operation)))

(defn- waited-on [on]
  (if (instance? Select on) (mapv operation-data (.operations ^Select on)) on))

(defn- info-data [^FiberInfo info]
  (let [thread (.thread info)
        ^WaitReason reason (.reason info)]
    (cond-> {:name (.getName thread)
             :id (.threadId thread)
             :state (keyword (.toLowerCase (str (.getState thread))))}
      reason (assoc :waits-for (.words reason)
                    :on (waited-on (.on info))
                    :since-ms (quot (.waitedNanos info) 1000000)))))

(defn fiber-info
  "What a thread does: {:name :id :state}, and if it waits in an operation of Magnetar also {:waits-for :on :since-ms}.

  :on is the channel, or for a select the vector of its clauses. Asks nothing of the thread itself.

    (fiber-info (Thread/currentThread))"
  [thread]
  (when-not (instance? Thread thread)
    (throw (errors/illegal-argument :magnetar/not-a-thread
                                    (str "`fiber-info` wants a Thread; this is " (pr-str thread) ".") {:value thread})))
  (info-data (FiberInfo/of thread)))

(defn fibers
  "A vector of `fiber-info` of all fibers that have not ended, in the order they were started.

  Asks nothing of the fibers themselves. In Erlang: processes/0 with process_info/1."
  []
  (into [] (map info-data) (sort-by #(.threadId (.thread ^FiberInfo %)) (FiberInfo/all))))

(defn- failure-data [^Failures$Failure failure]
  {:site (.site failure)
   :thread (.thread failure)
   :error (.error failure)})

(defn set-failure-hook
  "Calls f with each failure that nobody caught, {:site :thread :error}: what a go block, a thread, a callback or a function
  handed to Magnetar threw. :site names the source line that started it where that is known. With nil: the default again, the
  thread's or the default UncaughtExceptionHandler if the program has set one, else a report on standard error.

  Returns nil. f runs on the thread that failed, once for each failure; if it throws itself, both are printed. Cancellation and
  exit are no failures.

    (set-failure-hook (fn [{:keys [site error]}] (log/error error site)))"
  [f]
  (Failures/setHook (when f
                      (reify Consumer
                        (accept [_ failure] (f (failure-data failure))))))
  nil)
