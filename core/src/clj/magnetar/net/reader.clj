(ns magnetar.net.reader
  "The data of a connection as messages."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.net.active :as active]
   [magnetar.net.connection :as connection]
   [magnetar.net.framing :as framing]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.transport :as transport])
  (:import
   (magnetar.net.connection Connection)))

(set! *warn-on-reflection* true)

(defn- failed [conn why]
  {:last? true :messages [[:tcp-error conn why] [:tcp-closed conn]]})

(defn- messages-of [conn packet active]
  (cond
    (nil? packet) {:last? true :messages [[:tcp-closed conn]]}
    (framing/packet? packet) {:messages (cond-> [[:tcp conn (connection/take-packet conn packet)]]
                                          (= 1 active) (conj [:tcp-passive conn]))}
    :else (failed conn (if (= :too-long packet) :emsgsize :einval))))

(extend-type Connection
  active/Source
  (state-of [conn] (.-state conn))
  (lock-of [conn] (.-reading conn))
  (close [conn] (connection/close conn))
  (await-packet [conn] (connection/await-packet conn nil clock/infinite))
  (messages-of [conn packet active] (messages-of conn packet active))
  (messages-of-failure [conn cause] (failed conn (refusals/reason cause :closed))))

(defn set-options
  "Changes the options of an open connection."
  [^Connection conn {:keys [active] :as given}]
  (connection/check-open "set-options" conn)
  (active/check-owner active (:owner (connection/state conn)))
  (transport/set-options (.-socket conn) given)
  (active/change-options conn given))
