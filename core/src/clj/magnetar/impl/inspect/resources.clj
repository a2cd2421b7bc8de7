(ns magnetar.impl.inspect.resources
  "Pools that tell who waits for what they give, and who holds it.

  A resource is in the list as long as the program has it."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (java.lang StackWalker StackWalker$StackFrame)
   (java.util ArrayList Collections Map Set WeakHashMap)
   (java.util.concurrent ConcurrentHashMap)
   (java.util.function Function)
   (java.util.stream Stream)
   (magnetar.kernel.report Frames)))

(set! *warn-on-reflection* true)

;; `waiting` is a map from threads to true, `held` one from what was given to {:thread .. :at ..}. Both change while somebody reads them.
(deftype Resource [name size ^Map waiting ^Map held])

(defonce ^:private ^Set all-resources
  (Collections/synchronizedSet (Collections/newSetFromMap (WeakHashMap.))))

(defn resource
  "A new resource with this name, which gives at most `size` things at a time; nil if nobody knows."
  [name size]
  (let [resource (Resource. name size (ConcurrentHashMap.) (ConcurrentHashMap.))]
    (.add all-resources resource)
    resource))

(defn all []
  (locking all-resources
    (vec (ArrayList. all-resources))))

(defn- of-program? [^StackWalker$StackFrame frame]
  (and (pos? (.getLineNumber frame))
       (Frames/isOfProgram (.getClassName frame))))

(defn- line
  "FILE:LINE of the program that calls; nil if there is none."
  []
  (let [^StackWalker$StackFrame frame (.walk (StackWalker/getInstance)
                                             (reify Function
                                               (apply [_ frames]
                                                 (first (filter of-program? (iterator-seq (.iterator ^Stream frames)))))))]
    (when frame
      (str (.getFileName frame) ":" (.getLineNumber frame)))))

(defn take-from
  "What (f) gives. Meanwhile the thread waits for the resource, and holds what was given afterwards."
  [^Resource resource f]
  (let [thread (Thread/currentThread)
        ^Map waiting (.-waiting resource)]
    (.put waiting thread true)
    (try
      (let [given (f)]
        (.put ^Map (.-held resource) given {:thread thread :at (line)})
        given)
      (finally
        (.remove waiting thread)))))

(defn give-back [^Resource resource given]
  (.remove ^Map (.-held resource) given))
