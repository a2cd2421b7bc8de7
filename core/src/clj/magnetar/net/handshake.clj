(ns magnetar.net.handshake
  "The handshake of a connection, and what it has agreed on."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.net.connection :as connection]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.tcp :as tcp]
   [magnetar.net.tls :as tls]
   [magnetar.net.transport :as transport])
  (:import
   (java.io IOException)
   (java.net SocketTimeoutException)
   (magnetar.net.connection Connection)))

(set! *warn-on-reflection* true)

(defn- shake [operation ^Connection conn deadline]
  (when (and (tls/tls? (.-socket conn)) (not (tls/shaken? (.-socket conn))))
    (connection/check-open operation conn)
    (connection/using-socket operation conn (tls/shake (.-socket conn) deadline))))

(defn handshake
  "Does the handshake, unless it is done; returns the connection. A plain connection has none."
  [conn {:keys [timeout] :or {timeout :infinity} :as options}]
  (try
    (shake "handshake" conn (clock/deadline (arguments/nanos :timeout timeout)))
    conn
    (catch SocketTimeoutException _
      (timeouts/outcome options 'magnetar.net/handshake conn timeout [conn options]))))

(defn information
  "What both sides agreed on, after the handshake; nil of a plain connection."
  [^Connection conn]
  (shake "connection-information" conn clock/infinite)
  (when (tls/tls? (.-socket conn))
    (tls/information (.-socket conn))))

;; ---- of clients

(defn- shaken [socket host port deadline]
  (try
    (tls/shake socket deadline)
    socket
    (catch SocketTimeoutException _
      (transport/close-quietly socket)
      ::transport/timeout)
    (catch IOException e
      (transport/close-quietly socket)
      (transport/check-interrupt)
      (throw (refusals/tls-failed-to-connect host port e)))
    (catch Throwable e
      (transport/close-quietly socket)
      (throw e))))

(defn connect
  "A socket that is connected, after the handshake of TLS if that is wanted; ::transport/timeout after the
  deadline."
  [host port tls deadline]
  (let [secured (tls/client tls host port)
        socket (tcp/connect host port deadline)]
    (if (or (nil? secured) (= ::transport/timeout socket))
      socket
      (shaken (secured socket) host port deadline))))
