(ns magnetar.impl.propagation
  "Thread-locals that travel with the context values: each part of the library that lets some travel is their owner."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Propagation Propagation$Accessor)))

(set! *warn-on-reflection* true)

;; From an owner, a keyword, to its accessors.
(defonce ^:private owners (atom (sorted-map)))

(defn use-accessors
  "Lets the thread-locals of these accessors travel from now on, and no others of this owner."
  [owner accessors]
  (locking owners
    (let [all (mapcat val (if (seq accessors)
                            (swap! owners assoc owner (vec accessors))
                            (swap! owners dissoc owner)))]
      (Propagation/use (when (seq all) (Propagation. (into-array Propagation$Accessor all)))))))

(defn accessors
  "The accessors of this owner, a vector."
  [owner]
  (get @owners owner []))
