(ns clojure.core.async.impl.channels
  "Makes channels, which are Magnetar's, and the references that ports answer with."
  (:require
   [magnetar.async]
   [magnetar.impl.chans :as chans]
   [magnetar.impl.ports :as ports]))

(set! *warn-on-reflection* true)

(defn box
  "A reference to val: what a port answers when the operation was done."
  [val]
  (ports/box val))

(defn chan
  "A channel behind the buffer buf, or without one for nil; xform and exh are the transducer and the handler of what it throws."
  ([buf] (chan buf nil))
  ([buf xform] (chan buf xform nil))
  ([buf xform exh] (chans/chan buf xform exh)))
