(ns magnetar.cluster.impl.registries
  "The server that brings registries of all nodes together: it tells the registries of this node which nodes come, and
  hands on what registries of other nodes look for. The rest is in `magnetar.registry.nodes`."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [receive self]]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.cluster.impl.status :as status]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.runtime]
   [magnetar.registry.nodes :as registries])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(def server-name
  "The name of the server."
  registries/server-name)

(defn- serve []
  (receive
    [:nodeup node] (do (registries/node-up node) (recur))
    [::registries/discover name keys peer] (do
                                             (when (instance? Pid peer)
                                               (registries/discovered name keys peer))
                                             (recur))
    _ (recur)))

(defn- run []
  (registries/check-with (self) status/check-value)
  (gs/call hub/server-name :watch {:timeout :infinity})
  (run! registries/node-up (nodes/of-cluster))
  (serve))

(defn start-link
  "Starts the server, linked to this process, which is the node's membership; returns its pid."
  []
  (actor/spawn-opt run {:link true :name server-name}))
