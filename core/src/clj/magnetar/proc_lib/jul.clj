(ns magnetar.proc-lib.jul
  "Events in java.util.logging, which names the logger as their source. Loaded where the JDK has that module."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime]
   [magnetar.proc-lib.text :as text])
  (:import
   (java.util.logging Level LogRecord Logger)))

(set! *warn-on-reflection* true)

(def ^:private levels
  {:error Level/SEVERE, :warning Level/WARNING, :info Level/INFO})

(defn- log-record ^LogRecord [level data]
  (doto (LogRecord. (levels level Level/WARNING) (text/event data))
    (.setLoggerName "magnetar")
    (.setSourceClassName nil)
    (.setSourceMethodName nil)))

(defn log
  "Logs the event, a map, at the level."
  [level data]
  (let [logger (Logger/getLogger "magnetar")]
    (when (.isLoggable logger (levels level Level/WARNING))
      (.log logger (log-record level data)))))
