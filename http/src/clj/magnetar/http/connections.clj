(ns magnetar.http.connections
  "Closes connections on which no request arrives in time, and those that are left when the server has ended.

  Jetty's idle time-out begins again with each byte, so a client that sends a byte now and then would keep a connection for ever. Here the time
  counts that has passed since the last request of the connection."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime])
  (:import
   (java.util Map)
   (org.eclipse.jetty.io Connection Connection$Listener Connection$UpgradeFrom)
   (org.eclipse.jetty.io.ssl SslConnection)
   (org.eclipse.jetty.server NegotiatingServerConnection)
   (org.eclipse.jetty.websocket.core WebSocketConnection)))

(set! *warn-on-reflection* true)

;; What is known of a connection: :messages that it had and :bytes at the instant :since, and :began, the instant at which more bytes were seen.

(defn- first-sight [^Connection connection now]
  {:messages (.getMessagesIn connection) :bytes (.getBytesIn connection) :since now})

;; T1, a thread of Jetty, opens a connection that was accepted just before T2 ended the server. Jetty closes those that it knows then, and knows this one
;; later. T1 notes the connection, and then looks whether the server has ended. T2 ends the server, and then closes what is noted. At least one closes.
(defn listener
  "Jetty's listener, which keeps the open connections in the map, calls (opened) for each, and closes one that opens once (ended?)."
  ^Connection$Listener [^Map connections opened ended?]
  (reify Connection$Listener
    (onOpened [_ connection]
      (opened)
      (when-not (instance? SslConnection connection) ; below a connection of HTTP, which is the one that counts
        (.put connections connection {:messages 0 :bytes 0 :since (clock/now)})
        (when (ended?)
          (.close connection))))
    (onClosed [_ connection]
      (.remove connections connection))))

(defn close-all
  "Closes the connections that are open."
  [^Map connections]
  (doseq [^Connection connection (vec (.keySet connections))]
    (.close connection)))

(defn- begun
  "What is known of a connection without a request: notes the instant at which the head of one began to arrive."
  [^Connection connection {:keys [bytes began] :as known} now]
  (if (and (nil? began) (not= bytes (.getBytesIn connection)))
    (assoc known :began now)
    known))

(defn- late? [^Connection connection {:keys [since began]} {:keys [idle header handshake]} ^long now]
  (or (< (long (if (instance? NegotiatingServerConnection connection) handshake idle)) (- now (long since)))
      (and began
           (instance? Connection$UpgradeFrom connection) ; Jetty's class of HTTP/1; HTTP/2 has pings
           (< (long header) (- now (long began))))))

(defn- look-at [^Map connections ^Connection connection limits busy? now]
  (when-some [known (.get connections connection)]
    (if (or (busy? connection)
            (instance? WebSocketConnection connection) ; has its own :idle-timeout
            (not= (:messages known) (.getMessagesIn connection)))
      (.replace connections connection (first-sight connection now))
      (let [known (begun connection known now)]
        (.replace connections connection known)
        (when (late? connection known limits now)
          (.close connection))))))

(defn close-late
  "Closes connections without a request in time. `busy?` is true of one with a request in progress."
  [^Map connections limits busy? now]
  (doseq [connection (vec (.keySet connections))]
    (look-at connections connection limits busy? now)))
