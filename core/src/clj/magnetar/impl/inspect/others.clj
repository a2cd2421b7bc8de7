(ns magnetar.impl.inspect.others
  "All threads of the JVM, and what the ones that are not nodes of a snapshot can still do.

  These others are the JVM's own threads, threads that the JDK has made, such as the workers of its pools, and virtual threads that the kernel has not started.

  A thread is a map of :id, :name, :state such as \"WAITING\", :frames, the innermost first, and :thread."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.inspect.containers :as containers]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Environment)
   (magnetar.kernel.scope Offload)))

(set! *warn-on-reflection* true)

;; ---- all threads

(defn- described [^Thread thread frames]
  {:id (.threadId thread) :name (.getName thread) :state (str (.getState thread)) :frames (vec frames) :thread thread})

(defn all
  "All threads of the JVM; nil if some virtual threads cannot be found."
  []
  (when-some [virtual (containers/virtual-threads)]
    (into (mapv (fn [[thread frames]] (described thread frames)) (Thread/getAllStackTraces))
          (map (fn [^Thread thread] (described thread (.getStackTrace thread))))
          virtual)))

;; ---- limits of what is known

(def most-nodes
  "The most nodes of a program in which a standstill is looked for, since all stacks are read."
  10000)

(def least-ms
  "How long each wait in the kernel must have lasted at a standstill."
  1000)

(defn asked-inside?
  "Is the thread that asks a thread of the program, which may act afterwards?"
  [{:keys [by-thread]}]
  (some? (by-thread (.threadId (Thread/currentThread)))))

(defn nothing-unseen?
  "Is there neither offloaded work nor a simulation, which has timers of its own? A snapshot and `all` do not show these."
  []
  (and (identical? Environment/REAL (Environment/current))
       (zero? (.running (.info Offload/SHARED)))))

;; ---- what they can do

(defn- in?
  ([thread beginning] (in? thread beginning nil))
  ([{:keys [frames]} beginning method] (stacks/in-frames? frames beginning method)))

(def ^:private names-in-jvm
  "Names of threads of the JVM that run no code of the program on their own. DestroyJavaVM is the main thread after it has returned."
  #{"Signal Dispatcher" "Notification Thread" "Attach Listener" "DestroyJavaVM"})

(defn- of-jvm? [{:keys [name ^Thread thread] :as described}]
  (or (in? described "java.lang.ref.Reference$ReferenceHandler" "run")
      (in? described "java.lang.ref.Finalizer$FinalizerThread" "run")
      (in? described "jdk.internal.ref.CleanerImpl" "run")
      (in? described "java.lang.VirtualThread" "unblockVirtualThreads")
      (in? described "sun.nio.ch.Poller" "pollerLoop")
      (in? described "sun.nio.ch.Poller" "subPollerLoop")
      (and thread
           (or (names-in-jvm name)
               (str/starts-with? name "JFR ")
               (str/starts-with? name "magnetar-")
               (= "jdk.internal.misc.CarrierThread" (.getName (class thread)))))))

(defn- idle?
  "Does it wait for work in a pool of the JDK? A time limit of that wait only ends the thread. In a pool of scheduled tasks it counts only if no task is
  scheduled."
  [{:keys [state] :as thread}]
  (and (not= "RUNNABLE" state)
       (or (in? thread "java.util.concurrent.ForkJoinPool" "awaitWork")
           (and (= "WAITING" state) (in? thread "java.util.concurrent.DelayScheduler" "loop"))
           (and (in? thread "java.util.concurrent.ThreadPoolExecutor" "getTask")
                (or (= "WAITING" state)
                    (not (in? thread "java.util.concurrent.ScheduledThreadPoolExecutor$DelayedWorkQueue")))))))

(defn harmless?
  "Is it a thread that holds nothing of the program: one of the JVM, or one that is idle in a pool?"
  [thread]
  (boolean (or (of-jvm? thread) (idle? thread))))

(defn quiet?
  "Is it a thread that does nothing until another thread wakes it?"
  [{:keys [state] :as thread}]
  (or (harmless? thread)
      (and (= "WAITING" state)
           (not (in? thread "sun.nio.")))))
