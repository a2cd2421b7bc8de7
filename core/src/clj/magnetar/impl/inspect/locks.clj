(ns magnetar.impl.inspect.locks
  "The owner of the lock or the monitor that a thread waits for.

  The owner of a ReentrantLock or of a write lock is a field of the JDK that can be read with an option of the JVM. The monitors of a waiting virtual
  thread are in its frames, those of a platform thread in the JDK's ThreadMXBean."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.runtime])
  (:import
   (java.lang.management LockInfo ManagementFactory MonitorInfo ThreadInfo ThreadMXBean)
   (java.lang.reflect Method)
   (java.util IdentityHashMap)
   (java.util.concurrent.locks AbstractOwnableSynchronizer AbstractQueuedSynchronizer ReentrantLock ReentrantReadWriteLock)
   (magnetar.kernel.inspect Locals$Frame)))

(set! *warn-on-reflection* true)

;; ---- locks of java.util.concurrent

(defonce ^:private ^Method owner-method
  (try
    (doto (.getDeclaredMethod AbstractOwnableSynchronizer "getExclusiveOwnerThread" (make-array Class 0)) (.setAccessible true))
    (catch RuntimeException _ nil)))

(defn hides-owner?
  "Is it the synchronizer of a lock with an owner that this JVM does not tell?"
  [synchronizer]
  (and (nil? owner-method)
       (contains? #{ReentrantLock ReentrantReadWriteLock} (.getEnclosingClass (class synchronizer)))))

(defn owner
  "The thread that owns the lock with this synchronizer; nil if none does, or if it cannot be read."
  ^Thread [synchronizer]
  (when (and owner-method (instance? AbstractOwnableSynchronizer synchronizer))
    (.invoke owner-method synchronizer (object-array 0))))

(defn- field
  "A reader of a field of the JDK; nil if it cannot be read."
  [^Class of field-name]
  (try
    (let [field (doto (.getDeclaredField of field-name) (.setAccessible true))]
      #(.get field %))
    (catch NoSuchFieldException _ nil)
    (catch RuntimeException _ nil)))

(defonce ^:private queue
  (let [tail (field AbstractQueuedSynchronizer "tail")
        ^Class node (try (Class/forName "java.util.concurrent.locks.AbstractQueuedSynchronizer$Node") (catch ClassNotFoundException _ nil))
        [prev waiter] (when node [(field node "prev") (field node "waiter")])]
    (when (and tail prev waiter)
      {:tail tail :prev prev :waiter waiter})))

(defn- read-queue
  "From each thread that waits for the lock to its node in the queue of the lock."
  ^IdentityHashMap [synchronizer]
  (let [{:keys [tail prev waiter]} queue
        nodes (IdentityHashMap.)]
    (doseq [node (take-while some? (iterate prev (tail synchronizer)))
            :let [thread (waiter node)]
            :when thread]
      (.put nodes thread node))
    nodes))

(defn queue-node
  "The node of the thread in the queue of the lock for which it waits; nil if that cannot be read. A lock makes one for each wait, so it identifies the wait.
  A queue is read once for a snapshot."
  [{:keys [^IdentityHashMap queues]} ^Thread thread synchronizer]
  (when (and queue (instance? AbstractQueuedSynchronizer synchronizer))
    (let [^IdentityHashMap nodes (or (.get queues synchronizer)
                                     (let [nodes (read-queue synchronizer)]
                                       (.put queues synchronizer nodes)
                                       nodes))]
      (.get nodes thread))))

;; ---- monitors

;; A monitor is known by the class and the identity hash of its object, as the ThreadMXBean tells it.
(defn- mark [x]
  [(.getName (class x)) (System/identityHashCode x)])

(defn- mark-of-info [^LockInfo info]
  [(.getClassName info) (.getIdentityHashCode info)])

(defn waits-so-far
  "How often a platform thread has waited, [for monitors, otherwise]."
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
  "The monitors of a virtual thread, the outermost first."
  [snapshot node]
  (mapcat #(.monitors ^Locals$Frame %) (rseq (vec (:frames (stacks/of snapshot node))))))

(defn- virtual-monitors
  "The monitors that a virtual thread owns and awaits. The monitor that it enters, or in which it waits to be notified, is the innermost one of its frames."
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

(defn monitors
  "Of the platform threads and these nodes: {:owner {mark id}, :awaited {id mark}}. Reads the stack of each virtual thread."
  [snapshot nodes]
  (let [all (concat (map #(platform-monitors snapshot %) (infos-of-platform-threads))
                    (map #(virtual-monitors snapshot %) (filter virtual? nodes)))]
    {:owner (into {} (for [{:keys [id owned awaited]} all, monitor owned :when (and id (not= monitor awaited))] [monitor id]))
     :awaited (into {} (for [{:keys [id awaited]} all :when (and id awaited)] [id awaited]))}))
