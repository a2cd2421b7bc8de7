(ns magnetar.impl.durable
  "Objects that outlive a reload of the namespace that defines their protocols."
  {:no-doc true})

(defn- method-entry [[method implementations]]
  [(list 'quote (symbol (str *ns*) (str method)))
   `(fn ~@(map rest implementations))])

(defmacro durable
  "Like `reify`, of protocols of this namespace that are extended through metadata. A reload defines the protocols again, and the
  object is not an instance of the new ones; its metadata carries the methods under names that do not change."
  [& specs]
  `(with-meta (reify ~@specs)
     ~(into {} (map method-entry) (group-by first (filter seq? specs)))))
