(ns magnetar.impl.errors
  "The constructors of errors about misuse: a sentence that names culprit, place and remedy, with data."
  {:no-doc true}
  (:import
   (clojure.lang IExceptionInfo)))

(set! *warn-on-reflection* true)

(defn illegal-argument
  "An IllegalArgumentException with `ex-data`: `data` and the keyword `reason` under :magnetar/reason."
  ([reason message data] (illegal-argument reason message data nil))
  ([reason message data cause]
   (let [data (assoc data :magnetar/reason reason)]
     (proxy [IllegalArgumentException IExceptionInfo] [^String message ^Throwable cause]
       (getData [] data)
       (toString [] (str "java.lang.IllegalArgumentException: " message))))))

(defn illegal-state
  "An IllegalStateException with `ex-data`, as `illegal-argument`."
  [reason message data]
  (let [data (assoc data :magnetar/reason reason)]
    (proxy [IllegalStateException IExceptionInfo] [^String message]
      (getData [] data)
      (toString [] (str "java.lang.IllegalStateException: " message)))))
