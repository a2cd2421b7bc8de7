(ns magnetar.impl.bodies
  "Bodies of go blocks: what core.async's `go` accepts and Clojure's compiler does not.

  core.async analyses a body itself. Code that also runs in ClojureScript relies on two things that it lets through: `(catch :default e ..)`,
  and hints such as ^boolean and ^long on locals."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.park Failures)))

(set! *warn-on-reflection* true)

(declare accepted)

(defn- macro-of
  "The macro of a program that the form calls, or nil. What those of Clojure and Magnetar make has nothing of the kind; their arguments may."
  [form]
  (when-some [v (and (symbol? (first form))
                     (try (resolve (first form)) (catch Exception _ nil)))]
    (when (and (var? v)
               (:macro (meta v))
               (Failures/isOfProgram (str (namespace-munge (namespace (symbol v))) "$")))
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
  [form]
  (if (and (seq? form) (= 'catch (first form)) (= :default (second form)))
    (listed form (list* 'catch `Throwable (map accepted (drop 2 form))))
    (accepted form)))

(def ^:private primitive '#{long double int float short byte char boolean})

(defn- bound-pair [[local value :as pair]]
  (cond
    (= 1 (count pair)) pair
    (and (symbol? local) (primitive (:tag (meta local)))) [local (list `identity (accepted value))]
    :else [local (accepted value)]))

(defn- bound
  "The bindings of a let or loop: Clojure refuses the hint of a primitive where the initial value is one already, core.async does not."
  [bindings]
  (kept bindings (into [] (comp (partition-all 2) (mapcat bound-pair)) bindings)))

(defn- binding-form [[head bindings & body :as form]]
  (if (vector? bindings)
    (listed form (list* head (bound bindings) (map accepted body)))
    (each form)))

(defn- call
  "The call of a macro of the program is replaced by its expansion where that holds something to rewrite, and only there."
  [form]
  (if-some [expansion (when (macro-of form) (expanded form))]
    (let [rewritten (accepted expansion)]
      (if (identical? expansion rewritten) form rewritten))
    (each form)))

(defn- of-seq [form]
  (case (when (symbol? (first form)) (first form))
    quote form
    try (listed form (map clause form))
    (let let* loop loop* clojure.core/let clojure.core/loop) (binding-form form)
    (call form)))

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
