(ns magnetar.hot.snapshot
  "All namespaces as they are, to put them back: mappings, aliases, metadata, and of each var its root, its metadata and whether it is dynamic;
  and which class the name of a record, a type or a protocol means.

  What the loading of code changes besides, the state inside of an atom for instance, is not in it. Putting back compares two snapshots, before
  and after the loading, and leaves alone what somebody has changed since."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.privates :as privates]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang DynamicClassLoader MultiFn Namespace Var Var$Unbound)
   (java.lang.ref Reference SoftReference)
   (java.util Map)))

(set! *warn-on-reflection* true)

;; Of a multimethod also what is in it, which changes in place.
(deftype VarState [root metadata dynamic? methods prefers])

(defn- var-state [^Var v]
  (let [root (.getRawRoot v)
        multi? (instance? MultiFn root)]
    (VarState. root (meta v) (.isDynamic v) (when multi? (methods root)) (when multi? (prefers root)))))

(defn interned
  "The vars of the namespace itself."
  [^Namespace ns]
  (filter #(and (var? %) (identical? ns (.ns ^Var %))) (vals (.getMappings ns))))

(defn- namespace-state [^Namespace ns]
  {:mappings (.getMappings ns) :aliases (.getAliases ns) :metadata (meta ns)})

;; The compiler looks for a class of Clojure by its name in one map of all, where the classes of a loading that is taken back would stay: what is
;; compiled later would implement a protocol that is never called. There is no other way to that map.
(def ^:private ^Map class-cache
  (.get (privates/field DynamicClassLoader "classCache") nil))

(defn- types
  "The map from name to class, without the classes of functions, which no source names."
  []
  (into {}
        (keep (fn [[name ^Reference reference]]
                (when-not (str/includes? name "$")
                  (when-some [class (.get reference)] [name class]))))
        class-cache))

(defn take-snapshot
  "What all namespaces are now."
  []
  (let [namespaces (all-ns)]
    {:namespaces (into {} (map (juxt identity namespace-state)) namespaces)
     :vars (into {} (comp (mapcat interned) (map (juxt identity var-state))) namespaces)
     :libs @@#'clojure.core/*loaded-libs*
     :types (types)}))

;; ---- what is stale

(defn stale
  "The vars of the namespace that were there before and that the loading has not touched: the new source does not have them any more."
  [before ns]
  (filter (fn [^Var v]
            (when-some [^VarState state (get (:vars before) v)]
              (and (identical? (.-metadata state) (meta v))
                   (identical? (.-root state) (.getRawRoot v)))))
          (interned ns)))

;; ---- back

(defn- put-methods-back [^MultiFn multi before after]
  (doseq [[value _] after :when (not (contains? before value))]
    (.removeMethod multi value))
  (doseq [[value f] before :when (not (identical? f (get after value)))]
    (.addMethod multi value f)))

(defn- put-prefers-back
  "A preference cannot be taken back but so; removing a method that there is not lets the multimethod forget what it has concluded."
  [^MultiFn multi before]
  (.set (privates/field MultiFn "preferTable") multi before)
  (.removeMethod multi (Object.)))

(defn- put-root-back [^Var v ^VarState before]
  (let [root (.-root before)]
    (if (instance? Var$Unbound root)
      (.unbindRoot v)
      (.bindRoot v root))
    (.resetMeta v (.-metadata before))
    (.setDynamic v (.-dynamic? before))))

(defn- put-var-back [^Var v ^VarState before ^VarState after]
  (when (and (identical? (.-root after) (.getRawRoot v))
             (not (and (identical? (.-root before) (.-root after)) (identical? (.-metadata before) (.-metadata after)))))
    (put-root-back v before))
  (when (and (.-methods before) (not= (.-methods before) (.-methods after)))
    (put-methods-back (.-root before) (.-methods before) (.-methods after)))
  (when (and (.-prefers before) (identical? (.-root before) (.-root after)) (not= (.-prefers before) (.-prefers after)))
    (put-prefers-back (.-root before) (.-prefers before))))

(defn- put-mapping-back [^Namespace ns symbol x]
  (ns-unmap ns symbol)
  (if (class? x)
    (.importClass ns symbol x)
    (.refer ns symbol x)))

(defn- put-mappings-back [^Namespace ns before after]
  (doseq [[symbol _] after :when (not (contains? before symbol))]
    (ns-unmap ns symbol))
  (doseq [[symbol x] before :when (not (identical? x (get after symbol)))]
    (put-mapping-back ns symbol x)))

(defn- put-aliases-back [^Namespace ns before after]
  (doseq [[symbol _] after :when (not (contains? before symbol))]
    (ns-unalias ns symbol))
  (doseq [[symbol to] before :when (not (identical? to (get after symbol)))]
    (ns-unalias ns symbol)
    (.addAlias ns symbol to)))

(defn- put-namespace-back [^Namespace ns before after]
  (when-not (identical? (:mappings before) (:mappings after))
    (put-mappings-back ns (:mappings before) (:mappings after)))
  (when-not (identical? (:aliases before) (:aliases after))
    (put-aliases-back ns (:aliases before) (:aliases after)))
  (when-not (identical? (:metadata before) (:metadata after))
    (.resetMeta ns (:metadata before))))

(defn- type-now [name]
  (some-> ^Reference (.get class-cache name) .get))

(defn- put-types-back [before after]
  (doseq [[name ^Class class] after
          :let [old (get before name)]
          :when (and (not (identical? class old)) (identical? class (type-now name)))]
    (if old
      (.put class-cache name (SoftReference. old))
      (.remove class-cache name))))

(defn- forget-libs [before after]
  (let [new (remove before after)]
    (dosync (apply commute @#'clojure.core/*loaded-libs* disj new))))

(defn put-back
  "Makes of the namespaces what they were before, where they are what they were after."
  [before after]
  (put-types-back (:types before) (:types after))
  (doseq [[^Namespace ns state] (:namespaces after)]
    (if-some [old (get (:namespaces before) ns)]
      (put-namespace-back ns old state)
      (remove-ns (ns-name ns))))
  (doseq [[v state] (:vars before)
          :let [now (get (:vars after) v)]]
    (put-var-back v state (or now (var-state v))))
  (forget-libs (:libs before) (:libs after)))
