(ns magnetar.impl.actor.info
  "What a process is doing, seen from outside."
  {:no-doc true}
  (:require
   [clojure.main :as main]
   [magnetar.impl.actor.codec]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.versions :as versions])
  (:import
   (magnetar.kernel.inspect FiberInfo)
   (magnetar.kernel.process LocalProcess Pid ProcessInfo ProcessTable)))

(set! *warn-on-reflection* true)

(defn alive?
  "True until the process ends or is told to; also for a pid that was read from text."
  [pid]
  (if-some [^LocalProcess p (ProcessTable/reach pid)]
    (.isAlive (.pid p))
    false))

(defn ended?
  "True if the process is known to have ended. Nothing is known of one on another node."
  [pid]
  (not (or (nodes/elsewhere? pid) (alive? pid))))

(defn- status [^ProcessInfo info ^Thread thread]
  (cond
    (not= "ALIVE" (.life info)) :exiting
    (.suspended info) :suspended
    (nil? thread) :waiting
    (#{Thread$State/WAITING Thread$State/TIMED_WAITING} (.getState thread)) :waiting
    :else :running))

(defn- current-function [^Thread thread]
  (when-some [frame (reports/frame-of thread)]
    (main/demunge (.getClassName frame))))

(defn- waiting [^Thread thread]
  (when thread
    (let [info (FiberInfo/of thread)]
      (when-some [words (.waitsFor info)]
        {:waits-for words
         :since-ms (quot (.waitedNanos info) 1000000)}))))

(defn- data [^ProcessInfo info]
  (let [thread (.thread info)
        ^Pid pid (.pid info)]
    (merge {:pid pid
            :label (.label pid)
            :status (status info thread)
            :registered-name (.name info)
            :links (vec (.links info))
            :monitors (vec (.monitors info))
            :monitored-by (vec (.monitoredBy info))
            :message-queue-len (.messages info)
            :trap-exit (.trapsExits info)
            :group-leader (.leader info)
            :dictionary (or (.dictionary info) {})
            :code (versions/of-dictionary (.dictionary info))
            :current-function (current-function thread)}
           (waiting thread))))

(defn of
  "What is known of the process as a map; nil if it is dead."
  [pid]
  (when-some [^LocalProcess p (ProcessTable/reach pid)]
    (data (.info p))))
