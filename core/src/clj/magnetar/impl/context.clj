(ns magnetar.impl.context
  "Context values of a fiber: a map from names to values. The fibers that it starts share the map."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Fiber)))

(set! *warn-on-reflection* true)

(defn- key-of [x]
  (or (::name (meta x))
      (throw (errors/illegal-argument :magnetar/not-a-context
                                      (str "with-context binds names made by defcontext; this is " (arguments/show x) ".")
                                      {:value x}))))

(defn with
  "Calls f with the context values in pairs, a map from context to value."
  [pairs f]
  (let [fiber (Fiber/current)
        before (.context fiber)]
    (.setContext fiber (into (or before {}) (map (fn [[k v]] [(key-of k) v])) pairs))
    (try
      (f)
      (finally (.setContext fiber before)))))

(defn without
  "Calls f with no context values."
  [f]
  (let [fiber (Fiber/current)
        before (.context fiber)]
    (.setContext fiber nil)
    (try
      (f)
      (finally (.setContext fiber before)))))
