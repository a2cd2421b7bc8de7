(ns magnetar.erlang.impl.nodes
  "Messages to a service about nodes that come and go."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (magnetar.erlang.wire Links Links$Watcher)
   (magnetar.kernel.process Send)))

(set! *warn-on-reflection* true)

(defn watch
  "Lets the process be sent [:nodeup node visible?] and [:nodedown node], also for the nodes that are connected already. A :nodeup may come twice."
  [^Links links pid]
  (.watch links (reify Links$Watcher
                  (up [_ node visible?] (Send/signal pid [:nodeup node visible?]))
                  (down [_ node] (Send/signal pid [:nodedown node])))))
