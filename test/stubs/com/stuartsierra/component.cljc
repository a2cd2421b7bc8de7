(ns com.stuartsierra.component
  "A stand-in for Component where that cannot be fetched: as much of its public protocol as the guide uses.")

(defprotocol Lifecycle
  (start [component] "Begins, and returns what it is then.")
  (stop [component] "Ends, and returns what it is then."))

(extend-protocol Lifecycle
  Object
  (start [component] component)
  (stop [component] component))

(defn using
  "The component, which depends on the components of these names."
  [component names]
  (vary-meta component assoc ::using names))

(defn- order [system]
  (letfn [(visit [done key] (if (some #{key} done) done (conj (reduce visit done (::using (meta (get system key)))) key)))]
    (reduce visit [] (keys system))))

(defn- with-dependencies [system component]
  (reduce #(assoc %1 %2 (get system %2)) component (::using (meta component))))

(defrecord SystemMap []
  Lifecycle
  (start [system]
    (reduce #(update %1 %2 (fn [c] (start (with-dependencies %1 c)))) system (order (into {} system))))
  (stop [system]
    (reduce #(update %1 %2 stop) system (reverse (order (into {} system))))))

(defn system-map
  "A system of names and components."
  [& keyvals]
  (into (->SystemMap) (apply hash-map keyvals)))
