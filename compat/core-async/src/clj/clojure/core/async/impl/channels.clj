(ns clojure.core.async.impl.channels
  "Makes channels, which are Magnetar's, and the references that ports answer with.

  Libraries ask whether something is a channel of core.async by its class, and extend protocols to that class. So while this
  namespace is loaded, all channels have ManyToManyChannel and the interfaces of the protocols among their supertypes."
  (:require
   [clojure.core.async.impl.protocols :as impl]
   [magnetar.async]
   [magnetar.impl.bridge :as bridge]
   [magnetar.impl.chans :as chans]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.channel Buffer Channel ChannelMaker TimeoutChannel Transform TransformChannel)
   (magnetar.kernel.park World)))

(set! *warn-on-reflection* true)

(gen-interface
  :name clojure.core.async.impl.channels.ManyToManyChannel
  :extends [clojure.core.async.impl.protocols.ReadPort
            clojure.core.async.impl.protocols.WritePort
            clojure.core.async.impl.protocols.Channel])

(import (clojure.core.async.impl.channels ManyToManyChannel))

(defmacro ^:private many-to-many
  "An instance of a subclass of the kernel's class that is a ManyToManyChannel too."
  [class & arguments]
  `(proxy [~class ManyToManyChannel] [~@arguments]
     (~'take_BANG_ [handler#] (bridge/take-by-handler ~'this handler#))
     (~'put_BANG_ [value# handler#] (bridge/put-by-handler ~'this value# handler#))
     (~'close_BANG_ [] (.close ~(with-meta 'this {:tag `Channel})))
     (~'closed_QMARK_ [] (.isClosed ~(with-meta 'this {:tag `Channel})))))

(ChannelMaker/use
  (reify ChannelMaker
    (channel [_ buffer] (many-to-many Channel ^Buffer buffer))
    (transforming [_ buffer transform] (many-to-many TransformChannel ^Buffer buffer ^Transform transform))
    (timeout [_ world due] (many-to-many TimeoutChannel ^World world (long due)))))

(defn box
  "A reference to val: what a port answers when the operation was done."
  [val]
  (ports/box val))

(defn chan
  "A channel behind the buffer buf, or without one for nil; xform and exh are the transducer and the handler of what it throws."
  ([buf] (chan buf nil))
  ([buf xform] (chan buf xform nil))
  ([buf xform exh] (chans/chan buf xform exh)))
