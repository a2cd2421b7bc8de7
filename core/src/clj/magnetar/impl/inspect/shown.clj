(ns magnetar.impl.inspect.shown
  "Values of the program as text: short, without what the program hides, and without running its code, except its redaction.

  A lazy value is not realized. An object that is not data is shown as its class."
  {:no-doc true}
  (:require
   [clojure.edn :as edn]
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

(defn redacts?
  "Does the program hide parts of its values?"
  []
  (some? @redaction))

(defn- not-shown [why]
  (str "(not shown: " why ")"))

(defn- allowed
  "(show y), with y the value as the program lets it be shown. If its redaction or `show` fails, also by overflowing the stack, a text that says so."
  [x show]
  (try
    (show (if-some [f @redaction] (f x) x))
    (catch Throwable e
      (not-shown (.getName (class e))))))

(defn redacted
  "The value as the program lets it be shown. If its redaction fails, a text that says so."
  [x]
  (allowed x identity))

(def ^:private most-elements 9)
(def ^:private most-levels 4)

(defn- lazy? [x]
  (and (instance? IPending x) (not (realized? x))))

(defn- plain? [x]
  (or (nil? x) (string? x) (number? x) (boolean? x) (char? x)
      (some #(instance? % x) [Keyword Symbol Pid Ref Date UUID Duration])))

(defn- class-of [x]
  (symbol (str "#object[" (.getName (class x)) "]")))

(declare cut)

(defn- elements
  "The first elements, up to the first one that is not realized."
  [xs level]
  (loop [xs xs, shown []]
    (cond
      (lazy? xs) (conj shown '..)
      (or (empty? xs) (= most-elements (count shown))) shown
      :else (recur (rest xs) (conj shown (cut (first xs) (inc (long level))))))))

(defn- cut
  "The value cut short, as data that runs no code of the program when it is printed."
  [x level]
  (cond
    (plain? x) x
    (< (long most-levels) (long level)) '..
    (record? x) (tagged-literal (symbol (.getName (class x))) (cut (into {} x) level))
    (map? x) (into (array-map) (map (fn [[k v]] [(cut k (inc (long level))) (cut v (inc (long level)))])) (take most-elements x))
    (vector? x) (elements (seq x) level)
    (set? x) (set (elements (seq x) level))
    (seq? x) (apply list (elements x level))
    :else (class-of x)))

(defn shown
  "The value as text. If the program's redaction fails, nothing of it is shown."
  [x]
  (allowed x #(arguments/show (cut % 1))))

(defn shown-text
  "A value that is kept as text only, as the program lets it be shown. Its redaction gets the value that is read from the text. What cannot be read is not shown
  if there is a redaction."
  [text]
  (if (redacts?)
    (if-some [[x] (try
                    [(edn/read-string {:default tagged-literal} text)]
                    (catch RuntimeException _ nil))]
      (shown x)
      (not-shown "it was kept as text"))
    text))
