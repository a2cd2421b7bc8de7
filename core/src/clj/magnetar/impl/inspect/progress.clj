(ns magnetar.impl.inspect.progress
  "Causes that end by themselves: a chain of waits whose last node only sleeps, and queues that move on."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.awaited :as awaited]
   [magnetar.impl.inspect.edges :as edges]
   [magnetar.impl.inspect.locks :as locks]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent Semaphore)))

(set! *warn-on-reflection* true)

(defn- pauses?
  "Does the node sleep, or wait with a time limit?"
  [{:keys [wait]}]
  (boolean (or (= :sleep (:why wait)) (:left-ms wait))))

(defn- other-semaphore?
  "Does a local variable of the node refer to another Semaphore than this one?"
  [snapshot node semaphore]
  (some #(and (instance? Semaphore %) (not (identical? semaphore %))) (stacks/locals snapshot node)))

(defn- permit-in-use?
  "Does the node wait for a permit, and does another one, which runs or pauses, use one? It seems to if it is in the
  function that waits for the permit, unless it has to do with another semaphore. Nothing records who has a permit."
  [{:keys [nodes] :as snapshot} {:keys [wait] :as node}]
  (when (= :semaphore (:why wait))
    (when-some [^StackTraceElement frame (stacks/frame-of (stacks/frames snapshot node))]
      (let [semaphore (awaited/object snapshot node)]
        (some (fn [{:keys [thread wait] :as other}]
                (and thread
                     (or (nil? wait) (pauses? other))
                     (stacks/in? snapshot other (.getClassName frame) (.getMethodName frame))
                     (not (other-semaphore? snapshot other semaphore))))
              (take edges/most-read (vals nodes)))))))

(def ^:private long-pause-ms
  "A fiber that sleeps for so long is worth naming."
  10000)

(defn- long-pause? [{{:keys [left-ms]} :wait}]
  (and (number? left-ms) (<= (long long-pause-ms) (long left-ms))))

(defn- goes-on? [snapshot node]
  (and (not (long-pause? node))
       (or (pauses? node) (permit-in-use? snapshot node))))

(defn- ends
  "The nodes of which one ends the chain: its last one, or those that can reach what that one waits for. None of a cycle."
  [{:keys [nodes]} {:keys [ids edges]}]
  (cond
    (< (count edges) (count ids)) [(nodes (peek ids))]
    (:any (peek edges)) (map nodes (:any (peek edges)))))

(defn ends-by-itself?
  "Does a node that ends this chain soon go on without another one? A slow tap does not count, since it slows the other
  taps of its mult each time."
  [snapshot {:keys [edges] :as chain}]
  (and (not-any? #(= :tap (:how %)) edges)
       (boolean (some #(goes-on? snapshot %) (ends snapshot chain)))))

(defn heads
  "From the id of each of these nodes that waits for a lock or a permit to the first node in the queue for it."
  [{:keys [nodes] :as snapshot} ids]
  (into {} (for [id ids
                 :let [{:keys [why on]} (:wait (nodes id))
                       head (when (#{:lock :semaphore} why) (locks/first-node snapshot on))]
                 :when head]
             [id head])))
