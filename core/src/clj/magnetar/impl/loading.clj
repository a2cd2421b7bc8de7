(ns magnetar.impl.loading
  "Loads namespaces that are needed late, so that a failure is not kept: a namespace whose loading ended in the middle, as where the stack is full,
  counts as loaded for Clojure."
  {:no-doc true})

(set! *warn-on-reflection* true)

(def ^:private lock
  "Held while a namespace is loaded, since it counts as loaded from its `ns` on, when it has no vars yet. One of our own: the thread that loads
  the program may wait for a process that needs something here."
  (Object.))

(defn- use-stack
  "Uses the stack for n calls. Throws StackOverflowError if there is no room for them."
  ^long [^long n]
  (if (pos? n) (inc (use-stack (dec n))) 0))

(def ^:private ^:const calls-of-loading
  "How many calls of `use-stack` take as much of the stack as the loading of a namespace."
  3000)

(defn- check-stack
  "Throws StackOverflowError, with the stack of the caller, where there is too little room to load the namespace."
  [lib]
  (try
    (use-stack calls-of-loading)
    (catch StackOverflowError _
      (throw (StackOverflowError. (str "too little room to load " lib))))))

(defn- load-lib
  "Loads the namespace if the stack has room for that: if a compiled one ends in the middle, its classes can never be used again."
  [lib & options]
  (check-stack lib)
  (apply require lib options))

(defn- found
  "The var of the symbol if it has a value, or nil."
  [sym]
  (when-some [v (and (find-ns (symbol (namespace sym))) (resolve sym))]
    (when (bound? v) v)))

(defn var-of
  "The var of the qualified symbol; its namespace is loaded if the var has no value yet, again if it has none then. Waits for
  another thread that loads one here. Throws what the loading throws."
  [sym]
  (let [lib (symbol (namespace sym))]
    (or (found sym)
        (locking lock
          (or (do (load-lib lib) (found sym))
              (do (load-lib lib :reload) (found sym))))
        (throw (ex-info (str "There is no " sym ".") {:symbol sym})))))

(defn value
  "The value of the var of the qualified symbol, as `var-of`."
  [sym]
  @(var-of sym))
