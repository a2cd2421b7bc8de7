(ns magnetar.impl.bodies
  "Bodies of go blocks: what core.async's `go` accepts and Clojure's compiler does not.

  core.async analyses a body itself. Code that also runs in ClojureScript relies on two things that it lets through: `(catch :default e ..)`,
  and hints such as ^boolean and ^long on locals."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.report Frames)))

(set! *warn-on-reflection* true)

(declare accepted)

;; ---- what a symbol means

(def ^:private ^:dynamic *locals*
  "The names that are bound where the form stands: none of them is a macro there."
  #{})

(defn- names-in
  "The names that a binding form binds, and maybe more. A default value is not one of them."
  [target]
  (cond
    (ident? target) [(symbol (name target))] ; a keyword as in {:keys [:a]}
    (map? target) (mapcat (fn [[k v]] (names-in [(when-not (keyword? k) k) (when (or (vector? v) (= :as k)) v)])) (dissoc target :or))
    (sequential? target) (mapcat names-in target)))

(defn- bind!
  "From here on the names in the target are bound, in the form whose `scoped` surrounds this."
  [target]
  (set! *locals* (into *locals* (names-in target))))

(defmacro ^:private scoped
  "Does body; names that it binds are bound in it alone."
  [& body]
  `(binding [*locals* *locals*] ~@body))

(defn- var-of
  "The var that the form calls, or nil."
  [[head]]
  (when (and (symbol? head) (not (contains? *locals* head)))
    (let [v (try (resolve head) (catch Exception _ nil))]
      (when (var? v) v))))

(defn- macro-of
  "The macro of a program that the form calls, or nil.

  Macros of Clojure and Magnetar expand to code without `:default` and such hints; only their arguments may have them."
  [form]
  (when-some [v (var-of form)]
    (when (and (:macro (meta v))
               (Frames/isOfProgram (str (namespace-munge (namespace (symbol v))) "$")))
      v)))

(defn- expanded
  "The expansion of a macro call, or nil if the macro fails, which the compiler then says better."
  [form]
  (try (macroexpand-1 form) (catch Throwable _ nil)))

(defn- kept
  "The form itself if all its parts are as they were, so that what the reader made stays; else `parts` with its metadata."
  [form parts]
  (if (every? true? (map identical? form parts))
    form
    (with-meta parts (meta form))))

(defn- listed [form parts]
  (kept form (apply list parts)))

(defn- each [form]
  (listed form (map accepted form)))

(defn- clause
  "A clause of a try: `:default` is every Throwable."
  [[head kind local & body :as form]]
  (if (= 'catch head)
    (scoped
      (bind! local)
      (listed form (list* head (if (= :default kind) `Throwable kind) local (map accepted body))))
    (accepted form)))

(defn- tried [form]
  (listed form (map #(if (and (seq? %) (seq %)) (clause %) (accepted %)) form)))

;; ---- bindings

(def ^:private primitive '#{long double int float short byte char boolean})

(defn- primitive? [local]
  (and (symbol? local) (primitive (:tag (meta local)))))

(defn- unhinted [local]
  (if (primitive? local) (vary-meta local dissoc :tag) local))

(defn- boxed-pair [local value]
  [local (if (primitive? local) (list `identity value) value)])

(defn- unhinted-pair [local value]
  [(unhinted local) value])

(declare bound)

(defn- bound-pair [pair-of [local value :as pair]]
  (cond
    (= 1 (count pair)) pair
    (= :let local) [local (bound boxed-pair value)]
    :else (let [value (accepted value)]
            (when-not (keyword? local) (bind! local))
            (pair-of local value))))

(defn- bound
  "The bindings of a let or loop: Clojure refuses the hint of a primitive where the initial value is one already, core.async does not."
  [pair-of bindings]
  (if (vector? bindings)
    (kept bindings (into [] (comp (partition-all 2) (mapcat #(bound-pair pair-of %))) bindings))
    (accepted bindings)))

(defn- binding-form [pair-of [head bindings & body :as form]]
  (if (vector? bindings)
    (scoped (listed form (list* head (bound pair-of bindings) (doall (map accepted body)))))
    (each form)))

(defn- threaded
  "An as->, which binds its name again and again."
  [[head init local & steps :as form]]
  (if (symbol? local)
    (let [init (accepted init)]
      (scoped
        (bind! local)
        (listed form (list* head init (unhinted local) (map accepted steps)))))
    (each form)))

(defn- function
  "A fn, or one in a letfn: its name and its parameters are bound."
  [form]
  (let [[names [parameters :as arities]] (split-with symbol? (rest form))]
    (scoped
      (bind! names)
      (bind! (if (vector? parameters) parameters (map first (filter seq? arities))))
      (each form))))

(defn- local-functions [[head functions & body :as form]]
  (if (and (vector? functions) (every? seq? functions))
    (scoped
      (bind! (map first functions))
      (listed form (list* head (kept functions (mapv function functions)) (doall (map accepted body)))))
    (each form)))

(def ^:private binders
  "How the forms and macros of Clojure that bind names are treated."
  (merge
    (zipmap '[let* loop* clojure.core/let clojure.core/loop clojure.core/when-let clojure.core/if-let clojure.core/when-some clojure.core/if-some
              clojure.core/when-first clojure.core/with-open]
            (repeat #(binding-form boxed-pair %)))
    {'clojure.core/dotimes #(binding-form unhinted-pair %) ; it is a long there
     'clojure.core/for #(binding-form vector %)
     'clojure.core/doseq #(binding-form vector %)
     'clojure.core/as-> threaded
     'clojure.core/fn function
     'fn* function
     'clojure.core/letfn local-functions}))

(defn- call
  "The call of a macro of the program is replaced by its expansion where that holds something to rewrite, and only there."
  [form]
  (if-some [expansion (when (macro-of form) (expanded form))]
    (let [rewritten (accepted expansion)]
      (if (identical? expansion rewritten) form rewritten))
    (each form)))

(defn- meaning
  "The special form or the var that the form calls, as a symbol."
  [[head :as form]]
  (if (and (symbol? head) (special-symbol? head))
    head
    (some-> (var-of form) symbol)))

(defn- of-seq [form]
  (let [means (meaning form)]
    (case means
      quote form
      try (tried form)
      (if-some [binder (binders means)]
        (binder form)
        (call form)))))

(defn accepted
  "The form with what core.async's `go` accepts in words of Clojure's compiler; the form itself where there is nothing of the kind."
  [form]
  (cond
    (seq? form) (if (seq form) (of-seq form) form)
    (map-entry? form) (mapv accepted form)
    (vector? form) (kept form (mapv accepted form))
    (record? form) form
    (or (map? form) (set? form)) (let [parts (into (empty form) (map accepted) form)]
                                   (if (= form parts) form (with-meta parts (meta form))))
    :else form))

(defn all
  "The forms, each as `accepted`, where the names in `env`, the &env of a macro, are bound."
  [env forms]
  (binding [*locals* (set (keys env))]
    (mapv accepted forms)))
