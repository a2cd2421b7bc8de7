(ns clojure.core.async.impl.timers
  "Channels that close by themselves, which are Magnetar's."
  (:require
   [magnetar.async :as a]))

(set! *warn-on-reflection* true)

(defn timeout
  "A channel that closes after msecs milliseconds; it is the caller's own."
  [^long msecs]
  (a/timeout msecs))
