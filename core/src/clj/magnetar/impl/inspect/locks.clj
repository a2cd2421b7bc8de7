(ns magnetar.impl.inspect.locks
  "The owner of the lock or the monitor that a thread waits for.

  The owner of a ReentrantLock or of a write lock is in a private field of the JDK, which can be read with an option of the JVM. The monitors of a waiting
  virtual thread are in its frames, and the JDK's ThreadMXBean has the monitors of platform threads."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.inspect.reach :as reach]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.runtime])
  (:import
   (java.lang.management LockInfo ManagementFactory MonitorInfo ThreadInfo ThreadMXBean)
   (java.lang.reflect Field Method)
   (java.util IdentityHashMap)
   (java.util.concurrent.locks AbstractOwnableSynchronizer AbstractQueuedSynchronizer$ConditionObject ReentrantLock ReentrantReadWriteLock)
   (magnetar.kernel.inspect Locals Locals$Frame)))

(set! *warn-on-reflection* true)

;; ---- locks of java.util.concurrent

(defonce ^:private ^Method owner-method
  (try
    (doto (.getDeclaredMethod AbstractOwnableSynchronizer "getExclusiveOwnerThread" (make-array Class 0)) (.setAccessible true))
    (catch RuntimeException _ nil)))

(defn hides-owner?
  "Is it the synchronizer of a lock that has an owner, in a JVM that does not let us read it?"
  [synchronizer]
  (and (nil? owner-method)
       (contains? #{ReentrantLock ReentrantReadWriteLock} (.getEnclosingClass (class synchronizer)))))

(defn owner
  "The thread that owns the lock with this synchronizer; nil if none does, or if it cannot be read."
  ^Thread [synchronizer]
  (when (and owner-method (instance? AbstractOwnableSynchronizer synchronizer))
    (.invoke owner-method synchronizer (object-array 0))))

(defn- condition? [on]
  (instance? AbstractQueuedSynchronizer$ConditionObject on))

(defn- waiting-nodes
  "The nodes in the queue of a lock or of its condition, the last one first. None if they cannot be read."
  [on]
  (if (condition? on)
    (reverse (reach/linked (reach/field on "firstWaiter") "nextWaiter"))
    (reach/linked (reach/field on "tail") "prev")))

(defn- read-queue
  "The threads that wait for the lock or the condition: {:nodes {thread node} :first thread}, with their nodes in its queue. Without threads if it cannot be read."
  [on]
  (let [nodes (IdentityHashMap.)
        in-queue (into []
                       (keep (fn [node] (when-some [thread (reach/field node "waiter")]
                                          (.put nodes thread node)
                                          thread)))
                       (waiting-nodes on))]
    {:nodes nodes :first (peek in-queue)}))

(defn- queue-of
  "`read-queue`, done once for a snapshot; nil if this is neither a synchronizer nor a condition."
  [{:keys [^IdentityHashMap queues]} on]
  (when (or (instance? AbstractOwnableSynchronizer on) (condition? on))
    (or (.get queues on)
        (let [queue (read-queue on)]
          (.put queues on queue)
          queue))))

(defn queue-node
  "The node of the thread in the queue of the lock or the condition for which it waits; nil if that cannot be read. One is made for each wait, so it identifies
  the wait."
  [snapshot ^Thread thread on]
  (some-> ^IdentityHashMap (:nodes (queue-of snapshot on)) (.get thread)))

(defn first-node
  "The node of the thread that waits first in the queue of the lock; nil if that cannot be read."
  [snapshot synchronizer]
  (let [{:keys [first ^IdentityHashMap nodes]} (queue-of snapshot synchronizer)]
    (when first
      (.get nodes first))))

;; ---- locks for reading and writing

(def ^:private ^Class read-write-sync
  (first (filter #(= "Sync" (.getSimpleName ^Class %)) (.getDeclaredClasses ReentrantReadWriteLock))))

(defn read-write?
  "Is it the synchronizer of a ReentrantReadWriteLock?"
  [synchronizer]
  (instance? read-write-sync synchronizer))

(defn shared?
  "Does the thread wait in the queue of this lock to read?"
  [snapshot thread synchronizer]
  (when-some [node (queue-node snapshot thread synchronizer)]
    (str/ends-with? (.getName (class node)) "$SharedNode")))

(defn- number-field [^Class of field-name]
  (try
    (doto (.getDeclaredField of field-name) (.setAccessible true))
    (catch NoSuchFieldException _ nil)
    (catch RuntimeException _ nil)))

(defn- reader-of
  "The id of the thread whose holds this counter counts; nil if the thread no longer holds the lock."
  [counter]
  (let [[^Field holds ^Field id] (map #(number-field (class counter) %) ["count" "tid"])]
    (when (and holds id (pos? (.getInt holds counter)))
      (.getLong id counter))))

(defn readers
  "The ids of the threads that hold the lock for reading, as far as its fields name them: the thread that took it first, and the one that took it last."
  [synchronizer]
  (when (read-write? synchronizer)
    (into #{}
          (remove nil?)
          [(some-> ^Thread (reach/field synchronizer "firstReader") .threadId)
           (some-> (reach/field synchronizer "cachedHoldCounter") reader-of)])))

(defn first-writer
  "The thread that waits first in the queue of the lock, if it waits to write. No reader overtakes it."
  [snapshot synchronizer]
  (when-some [thread (:first (queue-of snapshot synchronizer))]
    (when (false? (shared? snapshot thread synchronizer))
      thread)))

;; ---- monitors

;; A mark identifies a monitor by the class and the identity hash of its object, since the ThreadMXBean has nothing else.
(defn- mark [x]
  [(.getName (class x)) (System/identityHashCode x)])

(defn- mark-of-info [^LockInfo info]
  [(.getClassName info) (.getIdentityHashCode info)])

(defn waits-so-far
  "How often a platform thread has waited so far: [for monitors, for anything else]. Nil if it has ended."
  [^Thread thread]
  (when-some [info (.getThreadInfo (ManagementFactory/getThreadMXBean) (.threadId thread))]
    [(.getBlockedCount info) (.getWaitedCount info)]))

(defn- infos-of-platform-threads []
  (.dumpAllThreads ^ThreadMXBean (ManagementFactory/getThreadMXBean) true false))

(defn- blocked? [node]
  (= :monitor (get-in node [:wait :why])))

(defn- notified? [snapshot node]
  (stacks/in? snapshot node "java.lang.Object" "wait"))

(defn- of-frames
  "The objects whose monitors are in the frames of a virtual thread, the outermost first."
  [snapshot node]
  (mapcat #(.monitors ^Locals$Frame %) (rseq (vec (:frames (stacks/of snapshot node))))))

(defn- virtual-monitors
  "The monitors that a virtual thread owns and the one that it awaits. The innermost monitor of its frames is the one that it enters, or in which it waits to be
  notified."
  [snapshot {:keys [id] :as node}]
  (let [all (mapv mark (of-frames snapshot node))
        inside? (and (seq all) (or (blocked? node) (notified? snapshot node)))]
    {:id id
     :owned (cond-> all inside? pop)
     :awaited (when (and inside? (blocked? node)) (peek all))}))

(defn- platform-monitors [{:keys [by-thread]} ^ThreadInfo info]
  (let [awaited (when (= Thread$State/BLOCKED (.getThreadState info)) (some-> (.getLockInfo info) mark-of-info))]
    {:id (by-thread (.getThreadId info))
     :owned (into [] (map mark-of-info) (.getLockedMonitors info))
     :awaited awaited}))

(defn- virtual? [{:keys [^Thread thread]}]
  (and thread (.isVirtual thread)))

(defn- by-mark
  "{:owner {mark id}, :awaited {id mark}} of the monitors of all these threads."
  [all]
  {:owner (into {} (for [{:keys [id owned awaited]} all, monitor owned :when (and id (not= monitor awaited))] [monitor id]))
   :awaited (into {} (for [{:keys [id awaited]} all :when (and id awaited)] [id awaited]))})

(defn- unknown?
  "Is the owner of a monitor for which one of the nodes waits not known?"
  [{:keys [owner awaited]} nodes]
  (some #(and (blocked? %) (nil? (owner (awaited (:id %))))) nodes))

(defn- unread
  "The ids of the virtual threads among the nodes that may own a monitor which cannot be read: they run, or wait to be
  notified. Nil if no local variables can be read."
  [snapshot]
  (when (Locals/isOn)
    (for [{:keys [id ^Thread thread wait] :as node} (vals (:nodes snapshot))
          :when (and (virtual? node)
                     (not (identical? thread (Thread/currentThread)))
                     (or (nil? wait)
                         (and (#{:park :sleep} (:why wait)) (notified? snapshot node))))]
      id)))

(defn monitors
  "The monitors of all platform threads, and of these nodes: {:owner {mark id}, :awaited {id mark}}. Reads the stack of each
  virtual thread among the nodes. If that does not show all owners, as of a virtual thread that runs, the ones that may own
  a monitor are in :unread."
  [snapshot nodes]
  (let [read (by-mark (concat (map #(platform-monitors snapshot %) (infos-of-platform-threads))
                              (map #(virtual-monitors snapshot %) (filter virtual? nodes))))]
    (cond-> read
      (unknown? read nodes) (assoc :unread (vec (unread snapshot))))))

(defn hides-monitors?
  "Does the JVM not let us read the monitors of all virtual threads?"
  []
  (not (Locals/isOn)))
