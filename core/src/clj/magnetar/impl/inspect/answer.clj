(ns magnetar.impl.inspect.answer
  "Answers as EDN that another JVM can read."
  {:no-doc true}
  (:require
   [clojure.walk :as walk]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(defn plain
  "The answer with pids as strings."
  [answer]
  (walk/postwalk #(if (instance? Pid %) (str %) %) answer))

(defn text
  "The plain answer as EDN."
  [answer]
  (binding [*print-length* nil *print-level* nil *print-meta* false *print-namespace-maps* false]
    (pr-str answer)))
