(ns magnetar.impl.inspect.reach
  "Finds the objects that can be reached from other objects, through the values of Clojure and the fields of the program's objects.

  The search changes nothing: it realizes no lazy value, and waits for nothing. It is bounded, so an object that is not found may still be reachable."
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

(defn- elements
  "The first elements; nil if they cannot be read, for example because another thread changes the collection."
  [xs most]
  (try
    (into [] (take most) xs)
    (catch RuntimeException _ nil)))

(defn- pairs [^Map m most]
  (elements (mapcat (fn [e] [(key e) (val e)]) m) most))

(defn values-of-fields
  "What the fields of the object refer to, as far as they can be read."
  [x]
  (into [] (map #(try (.get ^Field % x) (catch Exception _ nil))) (.get fields (class x))))

(defn field
  "The value of the field of this name, which may be private; nil without such a field."
  [x name]
  (when-some [^Field field (first (filter #(= name (.getName ^Field %)) (.get fields (class x))))]
    (.get field x)))

(defn linked
  "The object, and what follows it by the field of this name."
  [x name]
  (take-while some? (iterate #(field % name) x)))

(defn parts
  "What the fields of an object of the program refer to, such as what a function has closed over."
  [x]
  (if (or (leaf? x) (of-kernel? x) (of-jdk? x)) [] (values-of-fields x)))

(defn- next-objects
  "What the object refers to, and at most so many elements of a collection; nil if that cannot be read."
  [x most]
  (cond
    (instance? Map$Entry x) [(key x) (val x)]
    (instance? IPersistentMap x) (if (record? x) (values-of-fields x) (pairs x most))
    (or (instance? IPersistentVector x) (instance? IPersistentSet x) (instance? PersistentList x) (instance? PersistentQueue x)) (elements x most)
    (instance? Atom x) (into [@x] (vals (.getWatches ^Atom x)))
    (instance? Volatile x) [@x]
    (instance? Var x) [(.getRawRoot ^Var x)]
    (instance? AtomicReference x) [(.get ^AtomicReference x)]
    (instance? (Class/forName "[Ljava.lang.Object;") x) (elements x most)
    (of-kernel? x) []
    (of-jdk? x) (cond
                  (instance? Map x) (pairs x most)
                  (instance? Collection x) (elements x most)
                  :else [])
    :else (values-of-fields x)))

(defn- search
  "What `found` and `all-found` return: {:found [..] :whole? true if the search came to its end}."
  [roots target? most-objects most-elements]
  (let [seen (IdentityHashMap.)
        queue (ArrayDeque.)
        visit (fn [x] (when-not (or (leaf? x) (.containsKey seen x))
                        (.put seen x x)
                        (.add queue x)))]
    (run! visit roots)
    (loop [found [], whole? true]
      (let [x (.poll queue)]
        (cond
          (nil? x) {:found found :whole? whole?}
          (< (long most-objects) (.size seen)) {:found found :whole? false}
          (target? x) (recur (conj found x) whole?)
          :else (let [next (next-objects x most-elements)]
                  (run! visit next)
                  (recur found (and whole? (some? next)))))))))

(defn found
  "The objects for which (target? x) is true that can be reached from the roots, a vector. What can be reached only through such an object is not found."
  [roots target?]
  (:found (search roots target? most-objects most-elements)))

(defn all-found
  "Like `found`, through at most so many objects; nil if there are more, or if a collection cannot be read."
  [roots target? most]
  (let [{:keys [found whole?]} (search roots target? most most)]
    (when whole? found)))
