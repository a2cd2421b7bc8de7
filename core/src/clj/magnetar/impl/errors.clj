(ns magnetar.impl.errors
  "The one constructor of errors about misuse: a sentence that names culprit, place and remedy, with data."
  {:no-doc true}
  (:import (clojure.lang IExceptionInfo)))

(set! *warn-on-reflection* true)

(defn illegal-argument
  "An IllegalArgumentException with `ex-data`: `data` and the keyword `reason` under :magnetar/reason."
  [reason message data]
  (let [data (assoc data :magnetar/reason reason)]
    (proxy [IllegalArgumentException IExceptionInfo] [^String message]
      (getData [] data))))

(defn illegal-state
  "An IllegalStateException with `ex-data`: `data` and the keyword `reason` under :magnetar/reason."
  [reason message data]
  (let [data (assoc data :magnetar/reason reason)]
    (proxy [IllegalStateException IExceptionInfo] [^String message]
      (getData [] data))))
