(ns magnetar.impl.privates
  "Reads private fields of Clojure, where it has no other way to what they hold."
  {:no-doc true}
  (:import
   (java.lang.reflect Field)))

(set! *warn-on-reflection* true)

(defn field
  "The field of the class, made accessible. Throws a NoSuchFieldException if this Clojure has none of that name."
  ^Field [^Class class ^String name]
  (doto (.getDeclaredField class name) (.setAccessible true)))

(defn field-or-nil
  "Like `field`, but nil if no such field may be read."
  ^Field [class name]
  (try (field class name) (catch Exception _ nil)))
