(ns magnetar.impl.propagation
  "Thread-locals that travel with the context values: each part of the library that lets some travel is their owner."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Propagation Propagation$Accessor)))

(set! *warn-on-reflection* true)

;; From an owner, a keyword, to its accessors, or to a function that returns them.
(defonce ^:private owners (atom (sorted-map)))

(defn- all-of [owners]
  (let [{functions true, given false} (group-by fn? (vals owners))
        given (vec (mapcat identity given))]
    (into given (mapcat #(% given)) functions)))

(defn use-accessors
  "Lets the thread-locals of these accessors travel from now on, and no others of this owner. In their place may be a function that returns them, given
  those of the other owners; it is called again when these change."
  [owner accessors]
  (locking owners
    (let [all (all-of (if (or (fn? accessors) (seq accessors))
                        (swap! owners assoc owner (if (fn? accessors) accessors (vec accessors)))
                        (swap! owners dissoc owner)))]
      (Propagation/use (when (seq all) (Propagation. (into-array Propagation$Accessor all)))))))

(defn accessors
  "The accessors that this owner has given, a vector."
  [owner]
  (get @owners owner []))
