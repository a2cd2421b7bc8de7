(ns magnetar.net.handover
  "Gives a connection to another process: its messages first, those under way included, then what arrives later."
  {:no-doc true}
  (:require
   [magnetar.actor :refer [after receive]]
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.net.connection :as connection]
   [magnetar.net.reader :as reader]
   [magnetar.net.refusals :as refusals])
  (:import
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.process Pid Refs Send)
   (magnetar.net.connection Connection)))

(set! *warn-on-reflection* true)

(defn- next-moved
  "The next message about the connection in the mailbox, :delivered for the end of the one under way; nil if no other is there, where `wait` is 0."
  [conn token wait]
  (receive
    [:tcp conn data] [:tcp conn data]
    [:tcp-closed conn] [:tcp-closed conn]
    [:tcp-error conn why] [:tcp-error conn why]
    [:tcp-passive conn] [:tcp-passive conn]
    [::reader/delivered token] :delivered
    (after wait nil)))

(defn- move-messages
  "Takes the messages about the connection out of the mailbox, and sends them on. A message under way is waited for. It arrives although the
  mailbox may be full, since room is made for it here."
  [conn to token under-way?]
  (loop [wait (if under-way? :infinity 0)]
    (when-some [message (next-moved conn token wait)]
      (if (= :delivered message)
        (recur 0)
        (do
          (Send/signal to message)
          (recur wait))))))

(defn- check [conn ^Pid me to]
  (let [owner (:owner (connection/state conn))]
    (when-not (instance? Pid to)
      (arguments/misuse :magnetar/not-a-pid
                        (str "`controlling-process` wants the pid of the new owner; this is " (arguments/show to) ".") {:value to :reason :badarg}))
    (when-not (or (nil? owner) (= owner me))
      (refusals/refuse-owner conn owner))))

(defn- own-next [conn to]
  (when-not (owned/own to conn)
    (arguments/misuse :magnetar/noproc
                      (str "`controlling-process` of " conn " to " to ", which is not alive: give it to a process that is.")
                      {:socket conn :pid to :reason :badarg})))

(defn- hand-over [^Connection conn owner to]
  (let [token (Refs/make)
        before (swap! (.-state conn) assoc :handing token)]
    (try
      (when owner
        (move-messages conn to token (:delivering? before)))
      (swap! (.-state conn) assoc :owner to)
      (finally
        (swap! (.-state conn) dissoc :handing)
        (reader/ensure-reader conn)))
    (some-> owner (owned/disown conn))
    (connection/settle-owner conn)))

(defn give
  "Makes another process the owner. It cannot be cancelled half way."
  [conn to]
  (let [me (connection/current-owner)
        owner (:owner (connection/state conn))]
    (check conn me to)
    (when-not (= owner to)
      (own-next conn to)
      (.shield (Fiber/current) ^Runnable #(hand-over conn owner to)))))
