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

(defn sendable
  "The value, where what has no term in Erlang is an atom or text."
  [x]
  (cond
    (or (nil? x) (keyword? x) (string? x) (boolean? x) (integer? x) (finite? x) (instance? Pid x) (instance? Ref x)) x
    (symbol? x) (keyword x)
    (record? x) (codec/text x)
    (map? x) (into {} (map (fn [[k v]] [(sendable k) (sendable v)])) x)
    (vector? x) (mapv sendable x)
    (or (seq? x) (set? x)) (apply list (map sendable x))
    :else (codec/text x)))

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
