(ns magnetar.impl.inspect.shown
  "Values of the program as text: short, without what the program hides, and without running its code.

  What is lazy stays so. An object that is no data is shown as its class."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang IPending Keyword Symbol)
   (java.time Duration)
   (java.util Date UUID)
   (magnetar.kernel.process Pid Ref)))

(set! *warn-on-reflection* true)

(defonce ^:private redaction (atom nil))

(defn redact-with [f]
  (reset! redaction f)
  nil)

(defn redacted
  "The value as the program lets it be shown."
  [x]
  (if-some [f @redaction]
    (f x)
    x))

(def ^:private most-elements 9)
(def ^:private most-levels 4)

(defn- lazy? [x]
  (and (instance? IPending x) (not (realized? x))))

(defn- plain? [x]
  (or (nil? x) (string? x) (number? x) (boolean? x) (char? x)
      (some #(instance? % x) [Keyword Symbol Pid Ref Date UUID Duration])))

(defn- class-of [x]
  (symbol (str "#object[" (.getName (class x)) "]")))

(declare still)

(defn- elements
  "The first elements, up to one that is not there yet."
  [xs level]
  (loop [xs xs, shown []]
    (cond
      (lazy? xs) (conj shown '..)
      (or (empty? xs) (= most-elements (count shown))) shown
      :else (recur (rest xs) (conj shown (still (first xs) (inc (long level))))))))

(defn- still
  "The value for which no code of the program runs when it is printed."
  [x level]
  (cond
    (plain? x) x
    (< (long most-levels) (long level)) '..
    (record? x) (tagged-literal (symbol (.getName (class x))) (still (into {} x) level))
    (map? x) (into (array-map) (map (fn [[k v]] [(still k (inc (long level))) (still v (inc (long level)))])) (take most-elements x))
    (vector? x) (elements (seq x) level)
    (set? x) (set (elements (seq x) level))
    (seq? x) (apply list (elements x level))
    :else (class-of x)))

(defn shown
  "The value as text. Where the program's redaction fails, nothing of it is shown."
  [x]
  (try
    (arguments/show (still (redacted x) 1))
    (catch Exception e
      (str "(not shown: " (.getName (class e)) ")"))))
