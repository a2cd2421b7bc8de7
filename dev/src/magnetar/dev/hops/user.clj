(ns magnetar.dev.hops.user
  "The code of a user around the counted operations. It is counted with them, since `receive` compiles its matcher into it."
  (:require
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]))

(set! *warn-on-reflection* true)

(defn put-order
  "Puts an order on the channel."
  [c]
  (a/>! c :order))

(defn take-order
  "Takes an order from the channel."
  [c]
  (a/<! c))

(defn send-order
  "Sends an order to the process."
  [pid]
  (! pid :order))

(defn receive-order
  "Receives an order."
  []
  (receive :order :done))

(def server
  "A behaviour; its state is its thread, and so is each reply."
  {:init (fn [_] [:ok (Thread/currentThread)])
   :handle-call (fn [_ _ thread] [:reply thread thread])
   :handle-cast (fn [_ thread] [:noreply thread])})

(defn thread-of
  "Calls the server; returns its thread."
  [pid]
  (gs/call pid :thread))

(defn kill
  "Kills the process."
  [pid]
  (actor/exit pid :kill))
