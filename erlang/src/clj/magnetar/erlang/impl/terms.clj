(ns magnetar.erlang.impl.terms
  "Failures of this node as terms that an Erlang program reads."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid Ref)))

(set! *warn-on-reflection* true)

(defn- finite? [x]
  (and (double? x) (Double/isFinite x)))

(def ^:private most-parts 10000)
(def ^:private deepest 100)

(defn- parts
  "The parts of a collection as a vector, in which (f part) has a term. It ends where no more parts are left."
  [left f coll]
  (into [] (comp (take-while (fn [_] (pos? (long @left)))) (map f)) coll))

(defn- near [left depth x]
  (vswap! left #(dec (long %)))
  (let [deeper #(near left (inc (long depth)) %)]
    (cond
      (or (nil? x) (keyword? x) (string? x) (boolean? x) (integer? x) (finite? x) (instance? Pid x) (instance? Ref x)) x
      (symbol? x) (keyword x)
      (or (record? x) (< (long deepest) (long depth))) (codec/text x)
      (map? x) (into {} (parts left (fn [[k v]] [(deeper k) (deeper v)]) x))
      (vector? x) (parts left deeper x)
      (or (seq? x) (set? x)) (apply list (parts left deeper x))
      :else (codec/text x))))

(defn unsendable
  "Stands for a value that has no term, with the error that says so."
  [^Throwable error]
  [:unsendable (if (ex-data error) (ex-message error) (str error))])

(defn sendable
  "The value, where what has no term in Erlang is an atom or text; [:unsendable text] if it has too many parts.

  Lazy sequences run code of the program here, which may fail."
  [x]
  (let [left (volatile! most-parts)
        sent (try
               (near left 0 x)
               (catch RuntimeException e (unsendable e)))]
    (if (pos? (long @left)) sent [:unsendable (codec/text x)])))

(defn of-error
  "An error as a map of its :type and :message, text, and its :data."
  [error]
  (let [{:keys [type message data]} (codec/error-term error)]
    (cond-> {:type (str type) :message (str message)}
      data (assoc :data (sendable data)))))

(defn line-of
  "Where in the function the error was thrown, as in a stack of Erlang; () if its frames are not there."
  [^Throwable error f]
  (let [name (.getName (class f))
        of-function? (fn [^StackTraceElement frame]
                       (or (= name (.getClassName frame)) (.startsWith (.getClassName frame) (str name "$"))))
        ^StackTraceElement frame (first (filter of-function? (.getStackTrace error)))]
    (if (and frame (.getFileName frame))
      (list [:file (map int (.getFileName frame))] [:line (.getLineNumber frame)])
      ())))
