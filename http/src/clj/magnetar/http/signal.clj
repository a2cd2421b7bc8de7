(ns magnetar.http.signal
  "Tells a fiber that waits at a channel, from a fiber that may be cancelled."
  {:no-doc true}
  (:require
   [magnetar.channel :as channel]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope]))

(set! *warn-on-reflection* true)

(defn send-now
  "Puts the value on a channel if there is room. An operation of a cancelled fiber throws, and the one that waits would wait for ever."
  [ch value]
  (scope/shield (channel/try-put ch value)))
