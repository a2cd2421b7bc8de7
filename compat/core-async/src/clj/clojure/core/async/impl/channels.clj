(ns clojure.core.async.impl.channels
  "Makes channels, which are Magnetar's, and the references that ports answer with.

  Libraries ask whether something is a channel of core.async by its class, and extend protocols to that class. So channels that are made once this
  namespace is loaded have ManyToManyChannel among their supertypes, besides the interfaces of the protocols, which all have (impl.bridge)."
  (:require
   [clojure.core.async.impl.protocols]
   [magnetar.async]
   [magnetar.impl.bridge :as bridge]
   [magnetar.impl.chans :as chans]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang RT)))

(set! *warn-on-reflection* true)

(gen-interface
  :name clojure.core.async.impl.channels.ManyToManyChannel
  :extends [clojure.core.async.impl.protocols.ReadPort
            clojure.core.async.impl.protocols.WritePort
            clojure.core.async.impl.protocols.Channel])

(bridge/make-channels-of [(Class/forName "clojure.core.async.impl.channels.ManyToManyChannel" true (RT/baseLoader))])

(defn box
  "A reference to val: what a port answers when the operation was done."
  [val]
  (ports/box val))

(defn chan
  "A channel behind the buffer buf, or without one for nil; xform and exh are the transducer and the handler of what it throws."
  ([buf] (chan buf nil))
  ([buf xform] (chan buf xform nil))
  ([buf xform exh] (chans/chan buf xform exh)))
