(ns magnetar.compat.vars
  "Shows the public vars of one namespace under the same names in another."
  {:no-doc true})

(set! *warn-on-reflection* true)

(defn- copy [to-ns sym source]
  (intern to-ns (with-meta sym (dissoc (meta source) :ns :name)) @source))

(defn- follow
  "Gives target the value of source whenever that changes: a protocol and its methods get new values when it is extended."
  [target source]
  (add-watch source target
             (fn [_ _ _ value]
               (alter-var-root target (constantly value)))))

(defn show
  "Makes every public var of the namespace from a var of the namespace to, with its value and metadata, now and later.

  Both are symbols; both namespaces exist.

    (show 'magnetar.async 'clojure.core.async)"
  [from to]
  (doseq [[sym source] (ns-publics from)]
    (follow (copy to sym source) source)))
