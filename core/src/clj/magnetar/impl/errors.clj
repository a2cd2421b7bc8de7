(ns magnetar.impl.errors
  "The constructors of errors about misuse: a sentence that names culprit, place and remedy, with data."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (clojure.lang IExceptionInfo)
   (magnetar.kernel.park Failures)))

(set! *warn-on-reflection* true)

(defn- of-program? [^StackTraceElement frame]
  (Failures/isOfProgram (.getClassName frame)))

(defn- at-caller
  "The error, as if it was thrown where the program called the library: so that a prompt names that line."
  [^Throwable error]
  (let [frames (drop-while (complement of-program?) (.getStackTrace error))]
    (when (seq frames)
      (.setStackTrace error (into-array StackTraceElement frames)))
    error))

(defn illegal-argument
  "An IllegalArgumentException with `ex-data`: `data` and the keyword `reason` under :magnetar/reason."
  ([reason message data] (illegal-argument reason message data nil))
  ([reason message data cause]
   (let [data (assoc data :magnetar/reason reason)]
     (at-caller
       (proxy [IllegalArgumentException IExceptionInfo] [^String message ^Throwable cause]
         (getData [] data)
         (toString [] (str "java.lang.IllegalArgumentException: " message)))))))

(defn illegal-state
  "An IllegalStateException with `ex-data`, as `illegal-argument`."
  [reason message data]
  (let [data (assoc data :magnetar/reason reason)]
    (at-caller
      (proxy [IllegalStateException IExceptionInfo] [^String message]
        (getData [] data)
        (toString [] (str "java.lang.IllegalStateException: " message))))))
