(ns magnetar.impl.inspect.resources
  "Resources: things such as pools, with records of the threads that wait for a piece and of the threads that hold one.

  The list of resources holds each weakly, so a resource that the program no longer refers to leaves it."
  {:no-doc true}
  (:require
   [magnetar.impl.environment :as environment]
   [magnetar.impl.inspect.stacks :as stacks])
  (:import
   (java.util ArrayList Collections Map Set WeakHashMap)
   (java.util.concurrent ConcurrentHashMap)))

(set! *warn-on-reflection* true)

;; `waiting` is a map from threads to true, `held` a map from each piece to {:thread .. :at ..}. Both change while they are read.
(deftype Resource [name size ^Map waiting ^Map held])

(defn- no-resources []
  (Collections/synchronizedSet (Collections/newSetFromMap (WeakHashMap.))))

(defonce ^:private real-resources (atom (no-resources)))

(defn- all-resources ^Set []
  @(environment/local real-resources ::resources (no-resources)))

(defn resource
  "A new resource with this name. `size` is the most pieces that it gives at a time, or nil if that is not known."
  [name size]
  (let [resource (Resource. name size (ConcurrentHashMap.) (ConcurrentHashMap.))]
    (.add (all-resources) resource)
    resource))

(defn all []
  (let [all (all-resources)]
    (locking all
      (vec (ArrayList. all)))))

(defn take-from
  "Returns the piece that (f) returns. Meanwhile the thread counts as waiting for the resource, and afterwards as the holder of the piece."
  [^Resource resource f]
  (let [thread (Thread/currentThread)
        ^Map waiting (.-waiting resource)]
    (.put waiting thread true)
    (try
      (let [piece (f)]
        (.put ^Map (.-held resource) piece {:thread thread :at (stacks/line-of (.getStackTrace thread))})
        piece)
      (finally
        (.remove waiting thread)))))

(defn give-back [^Resource resource piece]
  (.remove ^Map (.-held resource) piece))
