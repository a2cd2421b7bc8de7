(ns magnetar.net.reader
  "The data of a connection as messages."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.runtime]
   [magnetar.net.active :as active]
   [magnetar.net.connection :as connection]
   [magnetar.net.framing :as framing]
   [magnetar.net.transport :as transport])
  (:import
   (java.util.concurrent.locks ReentrantLock)
   (magnetar.net.connection Connection)))

(set! *warn-on-reflection* true)

(defn- failed [conn why]
  {:last? true :messages [[:tcp-error conn why] [:tcp-closed conn]]})

(defn- messages-of [conn packet active]
  (cond
    (nil? packet) {:last? (connection/closes-at-end? conn) :end? true :messages [[:tcp-closed conn]]}
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
  (messages-of-failure [conn cause] (failed conn (active/word (connection/cause-of conn cause)))))

;; T1 reads, and has begun with another :idle-timeout. T2 changes it. The read of T1 cannot be told, so a
;; fiber watches the time for it, as long as there is a read, and no later change.
(defn- watch-idle [^Connection conn token]
  (let [{:keys [closed watch]} (connection/state conn)
        left (clock/left (connection/idle-until conn))]
    (when-not (or closed (not= token watch) (not (.isLocked ^ReentrantLock (.-reading conn))))
      (if (zero? left)
        (do
          (swap! (.-state conn) assoc :idle? true)
          (transport/close-quietly (.-socket conn)))
        (do
          (clock/sleep left)
          (recur conn token))))))

(defn- apply-idle-timeout [^Connection conn timeout]
  (let [token (Object.)]
    (swap! (.-state conn) assoc :watch token)
    (when (and (not= :infinity timeout) (.isLocked ^ReentrantLock (.-reading conn)))
      (fibers/dispatch (str "idle time-out of " conn) #(watch-idle conn token)))))

(defn set-options
  "Changes the options of an open connection."
  [^Connection conn {:keys [active] :as given}]
  (connection/check-open "set-options" conn)
  (active/check-owner active (:owner (connection/state conn)))
  (transport/set-options (.-socket conn) given)
  (active/change-options conn given)
  (some->> (:idle-timeout given) (apply-idle-timeout conn)))
