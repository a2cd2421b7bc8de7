(ns magnetar.impl.inspect.resources
  "Resources, such as pools, that tell which threads wait for what they give, and which ones hold it.

  The list of resources holds each weakly, so one that the program no longer refers to leaves it."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.stacks :as stacks])
  (:import
   (java.util ArrayList Collections Map Set WeakHashMap)
   (java.util.concurrent ConcurrentHashMap)))

(set! *warn-on-reflection* true)

;; `waiting` is a map from threads to true, `held` one from what was given to {:thread .. :at ..}. Both change while they are read.
(deftype Resource [name size ^Map waiting ^Map held])

(defonce ^:private ^Set all-resources
  (Collections/synchronizedSet (Collections/newSetFromMap (WeakHashMap.))))

(defn resource
  "A new resource with this name, which gives at most `size` things at a time; nil if that is not known."
  [name size]
  (let [resource (Resource. name size (ConcurrentHashMap.) (ConcurrentHashMap.))]
    (.add all-resources resource)
    resource))

(defn all []
  (locking all-resources
    (vec (ArrayList. all-resources))))

(defn take-from
  "Returns what (f) gives. Meanwhile the thread counts as waiting for the resource, and afterwards as the holder of what was given."
  [^Resource resource f]
  (let [thread (Thread/currentThread)
        ^Map waiting (.-waiting resource)]
    (.put waiting thread true)
    (try
      (let [given (f)]
        (.put ^Map (.-held resource) given {:thread thread :at (stacks/line-of (.getStackTrace thread))})
        given)
      (finally
        (.remove waiting thread)))))

(defn give-back [^Resource resource given]
  (.remove ^Map (.-held resource) given))
