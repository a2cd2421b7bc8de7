(ns magnetar.impl.inspect.reach
  "Which of some objects can be reached from others, through the values of Clojure and the fields of the program's objects.

  The search changes nothing: it realizes nothing lazy, and waits for nothing. It is bounded, so an object that is not found may still be reachable."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (clojure.lang Atom IPersistentMap IPersistentSet IPersistentVector Keyword Namespace PersistentList PersistentQueue Symbol Var Volatile)
   (java.lang ClassValue)
   (java.lang.reflect Field Modifier)
   (java.util ArrayDeque Collection IdentityHashMap Map Map$Entry)
   (java.util.concurrent.atomic AtomicReference)))

(set! *warn-on-reflection* true)

(def ^:private most-objects 4000)
(def ^:private most-elements 500)

(defn- refers? [^Field field]
  (not (or (Modifier/isStatic (.getModifiers field))
           (.isPrimitive (.getType field)))))

(defn- accessible [^Field field]
  (try
    (.setAccessible field true)
    true
    (catch RuntimeException _ false)))

(defonce ^:private ^ClassValue fields
  (proxy [ClassValue] []
    (computeValue [^Class of]
      (into [] (comp (mapcat #(.getDeclaredFields ^Class %)) (filter refers?) (filter accessible))
            (take-while some? (iterate #(.getSuperclass ^Class %) of))))))

(defn- leaf? [x]
  (or (nil? x) (string? x) (number? x) (boolean? x) (instance? Keyword x) (instance? Symbol x) (instance? Class x) (instance? Thread x)
      (instance? Namespace x) (instance? ClassLoader x)))

(defn- of-jdk? [x]
  (nil? (.getClassLoader (class x))))

(defn- of-kernel? [x]
  (.startsWith (.getName (class x)) "magnetar.kernel."))

(defn- elements [xs]
  (try
    (into [] (take most-elements) xs)
    (catch RuntimeException _ [])))

(defn- pairs [^Map m]
  (elements (mapcat (fn [e] [(key e) (val e)]) m)))

(defn- values-of-fields [x]
  (into [] (map #(try (.get ^Field % x) (catch Exception _ nil))) (.get fields (class x))))

(defn field
  "The value of the field of this name, which may be private; nil without such a field."
  [x name]
  (when-some [^Field field (first (filter #(= name (.getName ^Field %)) (.get fields (class x))))]
    (.get field x)))

(defn parts
  "What the fields of an object of the program refer to, such as what a function has closed over."
  [x]
  (if (or (leaf? x) (of-kernel? x) (of-jdk? x)) [] (values-of-fields x)))

(defn- next-objects
  "What the object refers to."
  [x]
  (cond
    (instance? Map$Entry x) [(key x) (val x)]
    (instance? IPersistentMap x) (if (record? x) (values-of-fields x) (pairs x))
    (or (instance? IPersistentVector x) (instance? IPersistentSet x) (instance? PersistentList x) (instance? PersistentQueue x)) (elements x)
    (instance? Atom x) [@x]
    (instance? Volatile x) [@x]
    (instance? Var x) [(.getRawRoot ^Var x)]
    (instance? AtomicReference x) [(.get ^AtomicReference x)]
    (instance? (Class/forName "[Ljava.lang.Object;") x) (elements x)
    (of-kernel? x) []
    (of-jdk? x) (cond
                  (instance? Map x) (pairs x)
                  (instance? Collection x) (elements x)
                  :else [])
    :else (values-of-fields x)))

(defn found
  "The objects for which (target? x) is true that are reachable from the roots, a vector. The search does not go on behind such an object."
  [roots target?]
  (let [seen (IdentityHashMap.)
        queue (ArrayDeque.)
        visit (fn [x] (when-not (or (leaf? x) (.containsKey seen x))
                        (.put seen x x)
                        (.add queue x)))]
    (run! visit roots)
    (loop [found []]
      (let [x (.poll queue)]
        (cond
          (or (nil? x) (< (long most-objects) (.size seen))) found
          (target? x) (recur (conj found x))
          :else (do (run! visit (next-objects x))
                    (recur found)))))))
