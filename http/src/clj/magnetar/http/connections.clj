(ns magnetar.http.connections
  "Closes connections on which no request arrives in time, and those that are left when the server has ended.

  Jetty's idle time-out begins again with each byte, so a client that sends a byte now and then would keep a connection for ever. Here the time
  counts that has passed since the last request of the connection.

  With HTTP/2 the head of a request may arrive byte by byte while other requests of the connection are in progress. So the time counts, too, that a
  frame takes which is not of a body, with the frames that continue it."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime])
  (:import
   (java.util Map)
   (org.eclipse.jetty.http2 ErrorCode HTTP2Connection)
   (org.eclipse.jetty.io Connection Connection$Listener Connection$UpgradeFrom)
   (org.eclipse.jetty.io.ssl SslConnection)
   (org.eclipse.jetty.server NegotiatingServerConnection)
   (org.eclipse.jetty.websocket.core WebSocketConnection)))

(set! *warn-on-reflection* true)

;; What is known of a connection: :messages that it had and :bytes at the instant :since, and :began, the instant at which more bytes were seen.
;; Of HTTP/2 also :frame, a map of the :place that it had reached with its :bytes, and :began, the instant at which more bytes were seen there.

(defn- first-sight [^Connection connection now]
  {:messages (.getMessagesIn connection) :bytes (.getBytesIn connection) :since now})

;; T1, a thread of Jetty, opens a connection that was accepted just before T2 ended the server. Jetty closes those that it knows then, and knows this one
;; later. T1 notes the connection, and then looks whether the server has ended. T2 ends the server, and then closes what is noted. At least one closes.
(defn listener
  "Jetty's listener, which keeps the open connections in the map, and closes one that opens once (ended?)."
  ^Connection$Listener [^Map connections ended?]
  (reify Connection$Listener
    (onOpened [_ connection]
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
           (instance? Connection$UpgradeFrom connection) ; Jetty's class of HTTP/1
           (< (long header) (- now (long began))))))

;; ---- frames of HTTP/2

(defn- place
  "What changes with each frame and each byte of a body: when the parser began to wait for a frame, and how many bytes of bodies may come."
  [^HTTP2Connection connection]
  (let [session (.getSession connection)]
    [(.getBeginNanoTime (.getParser session)) (.updateRecvWindow session 0)]))

;; T1, a fiber of Jetty, counts bytes, and then takes the frame apart. T2 looks in between, and takes the bytes for a part of a frame. The next look
;; finds another place.
(defn- frame-seen [frame ^HTTP2Connection connection now]
  (let [place (place connection)
        bytes (.getBytesIn connection)]
    (cond
      (not= place (:place frame)) {:place place :bytes bytes}
      (or (:began frame) (= bytes (:bytes frame))) frame
      :else (assoc frame :began now))))

(defn- slow-frame? [{:keys [frame]} {:keys [header]} ^long now]
  (when-some [began (:began frame)]
    (< (long header) (- now (long began)))))

(defn- cut
  "Ends a connection of HTTP/2 with all its streams. A close would wait for them. A session that closes already
  is told nothing, so its connection is ended in any case."
  [^HTTP2Connection connection]
  (.onConnectionFailure connection (.-code ErrorCode/ENHANCE_YOUR_CALM_ERROR) "slow_frame")
  (.disconnect (.getSession connection)))

;; ----

(defn- looked-at
  "What is known of a connection after another look."
  [^Connection connection {:keys [messages frame] :as known} busy? now]
  (let [after (if (or (busy? connection)
                      (instance? WebSocketConnection connection) ; has its own :idle-timeout
                      (not= messages (.getMessagesIn connection)))
                (first-sight connection now)
                (begun connection known now))]
    (if (instance? HTTP2Connection connection)
      (assoc after :frame (frame-seen frame connection now))
      after)))

(defn- look-at [^Map connections ^Connection connection limits busy? now]
  (when-some [known (.get connections connection)]
    (let [known (looked-at connection known busy? now)]
      (.replace connections connection known)
      (cond
        (slow-frame? known limits now) (cut connection)
        (late? connection known limits now) (.close connection)))))

(defn close-late
  "Closes connections without a request in time. `busy?` is true of one with a request in progress."
  [^Map connections limits busy? now]
  (doseq [connection (vec (.keySet connections))]
    (look-at connections connection limits busy? now)))
