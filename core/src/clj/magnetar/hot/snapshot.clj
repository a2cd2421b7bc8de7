(ns magnetar.hot.snapshot
  "All namespaces as they are, to put them back: mappings, aliases, metadata, and of each var its root, its metadata and whether it is dynamic.

  What the loading of code changes besides, the state inside of an atom for instance, is not in it. Putting back compares two snapshots, before
  and after the loading, and leaves alone what somebody has changed since."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (clojure.lang DynamicClassLoader MultiFn Namespace Var Var$Unbound)
   (java.lang.ref SoftReference)
   (java.util Map)))

(set! *warn-on-reflection* true)

(deftype VarState [root metadata dynamic? methods])

(defn- var-state [^Var v]
  (let [root (.getRawRoot v)]
    (VarState. root (meta v) (.isDynamic v) (when (instance? MultiFn root) (methods root)))))

(defn interned
  "The vars of the namespace itself."
  [^Namespace ns]
  (filter #(and (var? %) (identical? ns (.ns ^Var %))) (vals (.getMappings ns))))

(defn- namespace-state [^Namespace ns]
  {:mappings (.getMappings ns) :aliases (.getAliases ns) :metadata (meta ns)})

(defn take-snapshot
  "What all namespaces are now."
  []
  (let [namespaces (all-ns)]
    {:namespaces (into {} (map (juxt identity namespace-state)) namespaces)
     :vars (into {} (comp (mapcat interned) (map (juxt identity var-state))) namespaces)
     :libs @@#'clojure.core/*loaded-libs*}))

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
    (put-methods-back (.-root before) (.-methods before) (.-methods after))))

;; The compiler looks for a class of Clojure by its name in one map of all, where the class of a loading that failed would stay. There is no
;; other way to that map.
(def ^:private class-cache
  (delay (try
           (.get (doto (.getDeclaredField DynamicClassLoader "classCache") (.setAccessible true)) nil)
           (catch Exception _))))

(defn- put-class-back [^Class class]
  (when (and @class-cache (instance? DynamicClassLoader (.getClassLoader class)))
    (.put ^Map @class-cache (.getName class) (SoftReference. class))))

(defn- put-mapping-back [^Namespace ns symbol x]
  (ns-unmap ns symbol)
  (if (class? x)
    (do (put-class-back x) (.importClass ns symbol x))
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

(defn- forget-libs [before after]
  (let [new (remove before after)]
    (dosync (apply commute @#'clojure.core/*loaded-libs* disj new))))

(defn put-back
  "Makes of the namespaces what they were before, where they are what they were after."
  [before after]
  (doseq [[^Namespace ns state] (:namespaces after)]
    (if-some [old (get (:namespaces before) ns)]
      (put-namespace-back ns old state)
      (remove-ns (ns-name ns))))
  (doseq [[v state] (:vars before)
          :let [now (get (:vars after) v)]]
    (put-var-back v state (or now (var-state v))))
  (forget-libs (:libs before) (:libs after)))
