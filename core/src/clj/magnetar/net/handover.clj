(ns magnetar.net.handover
  "Gives a connection or a UDP socket to another process: its messages first, those under way included, then
  what arrives later."
  {:no-doc true}
  (:require
   [magnetar.actor :refer [after receive]]
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.net.active :as active]
   [magnetar.net.refusals :as refusals])
  (:import
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.process Pid Refs Send)))

(set! *warn-on-reflection* true)

(defn- next-moved
  "The next message about the connection in the mailbox, :delivered for the end of the one under way; nil if
  no other is there, where `wait` is 0."
  [conn token wait]
  (receive
    [:tcp conn data] [:tcp conn data]
    [:tcp-closed conn] [:tcp-closed conn]
    [:tcp-error conn why] [:tcp-error conn why]
    [:tcp-passive conn] [:tcp-passive conn]
    [:udp conn host port data] [:udp conn host port data]
    [:udp-error conn why] [:udp-error conn why]
    [:udp-passive conn] [:udp-passive conn]
    [::active/delivered token] :delivered
    (after wait nil)))

(defn- move-messages
  "Takes the messages about the connection out of the mailbox, and sends them on. The thread that is
  delivering one is interrupted, in case that it waits for room, and waited for."
  [conn to token ^Thread delivering]
  (some-> delivering .interrupt)
  (loop [wait (if delivering :infinity 0)]
    (when-some [message (next-moved conn token wait)]
      (if (= :delivered message)
        (recur 0)
        (do
          (Send/signal to message)
          (recur wait)))))
  (run! #(Send/signal to %) (:undelivered @(active/state-of conn))))

(defn- check [conn ^Pid me to]
  (let [owner (:owner @(active/state-of conn))]
    (when-not (instance? Pid to)
      (arguments/misuse :magnetar/not-a-pid
                        (str "`controlling-process` wants the pid of the new owner; this is "
                             (arguments/show to) ".") {:value to :reason :badarg}))
    (when-not (or (nil? owner) (= owner me))
      (refusals/refuse-owner conn owner))))

(defn- own-next [conn to]
  (when-not (owned/own to conn)
    (arguments/misuse :magnetar/noproc
                      (str "`controlling-process` of " conn " to " to ", which is not alive: give it to a "
                           "process that is.")
                      {:socket conn :pid to :reason :badarg})))

(defn- hand-over [conn owner to]
  (let [token (Refs/make)
        before (swap! (active/state-of conn) assoc :handing token)]
    (try
      (when owner
        (move-messages conn to token (:delivering before)))
      (swap! (active/state-of conn) assoc :owner to)
      (finally
        (swap! (active/state-of conn) dissoc :handing :undelivered)
        (active/ensure-reader conn)))
    (some-> owner (owned/disown conn))
    (active/settle-owner conn)))

(defn give
  "Makes another process the owner. It cannot be cancelled half way."
  [conn to]
  (let [me (active/current-owner)
        owner (:owner @(active/state-of conn))]
    (check conn me to)
    (when-not (= owner to)
      (own-next conn to)
      (.shield (Fiber/current) ^Runnable #(hand-over conn owner to)))))
