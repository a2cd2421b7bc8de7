(ns magnetar.http.transmission
  "Messages and control frames to the client of a WebSocket."
  {:no-doc true}
  (:refer-clojure :exclude [send])
  (:require
   [magnetar.http.refusals :as refusals]
   [magnetar.http.socket :as socket]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.runtime])
  (:import
   (java.io IOException)
   (java.nio ByteBuffer)
   (java.nio.charset StandardCharsets)
   (java.util ArrayDeque)
   (magnetar.http.socket WebSocket)
   (org.eclipse.jetty.websocket.api Callback Session)))

(set! *warn-on-reflection* true)

(defn- buffer
  "The bytes as a buffer; nil if it holds none."
  ^ByteBuffer [data]
  (cond
    (bytes? data) (ByteBuffer/wrap data)
    (instance? ByteBuffer data) (.slice ^ByteBuffer data)))

(defn- writer
  "A function that hands the message to Jetty."
  [message]
  (if (instance? CharSequence message)
    (let [text (str message)]
      (fn [^Session session ^Callback callback] (.sendText session text callback)))
    (let [data (or (buffer message) (refusals/not-sendable "send" "a string, an array of bytes or a ByteBuffer" message))]
      (fn [^Session session ^Callback callback] (.sendBinary session data callback)))))

(defn send
  "Sends a message: true, or false if the socket is closed or gets closed because the client does not read."
  [socket message]
  (boolean (socket/transmit socket (writer message))))

(def ^:private ^:const most-control-bytes 125)

(defn- control [operation data]
  (let [data (if (string? data) (ByteBuffer/wrap (.getBytes ^String data StandardCharsets/UTF_8)) (buffer data))]
    (when-not (and data (<= (.remaining ^ByteBuffer data) (long most-control-bytes)))
      (refusals/not-sendable operation "at most 125 bytes, as an array of bytes, a ByteBuffer or a string" data))
    data))

(defn ping
  "Sends a ping, as `send` sends a message."
  [socket data]
  (let [data (control "ping" data)]
    (boolean (socket/transmit socket (fn [^Session session ^Callback callback] (.sendPing session data callback))))))

(defn pong
  "Sends a pong, as `send` sends a message."
  [socket data]
  (let [data (control "pong" data)]
    (boolean (socket/transmit socket (fn [^Session session ^Callback callback] (.sendPong session data callback))))))

(defn- check-code [code]
  (when-not (and (int? code) (or (contains? #{1000 1001 1002 1003 1007 1008 1009 1010 1011 1012 1013 1014} (long code)) (<= 3000 (long code) 4999)))
    (arguments/misuse :magnetar/bad-option
                      (str "The code of `close` is one that may be sent, as 1000, 1001, 1011, or a number from 3000 to 4999; this is "
                           (arguments/show code) ".") {:value code})))

(def ^:private ^:const most-reason-bytes 123)

(defn close
  "Closes with a code and a reason."
  [socket code reason]
  (check-code code)
  (when-not (and (string? reason) (<= (alength (.getBytes ^String reason StandardCharsets/UTF_8)) (long most-reason-bytes)))
    (arguments/misuse :magnetar/bad-option
                      (str "The reason of `close` is a string of at most 123 bytes in UTF-8; this is " (arguments/show reason) ".") {:value reason}))
  (socket/close socket code reason))

;; ---- as Ring wants it

(defn failure
  "What a send of Ring's protocol throws if the client has gone. It is kept, since it is no failure of the program."
  [^WebSocket socket]
  (let [e (IOException. "The WebSocket is closed.")]
    (swap! (.-state socket) assoc :write-failure e)
    e))

(defn- check-sent [socket sent?]
  (when-not sent?
    (throw (failure socket))))

(defn send-or-throw
  "Sends a message; throws an IOException if the socket is closed."
  [socket message]
  (check-sent socket (send socket message)))

(defn ping-or-throw
  "Sends a ping, or throws."
  [socket data]
  (check-sent socket (ping socket data)))

(defn pong-or-throw
  "Sends a pong, or throws."
  [socket data]
  (check-sent socket (pong socket data)))

;; Messages of `send-later` wait in a queue. The thread that adds the first starts a fiber, which sends until the queue is empty.

(def ^:private ^:const most-waiting
  "How many messages of `send-later` may wait."
  64)

(defn- added [^ArrayDeque queue entry]
  (locking queue
    (when (< (.size queue) (long most-waiting))
      (.add queue entry)
      (.size queue))))

(defn- first-in [^ArrayDeque queue]
  (locking queue (.peek queue)))

(defn- without-first [^ArrayDeque queue]
  (locking queue
    (.poll queue)
    (.isEmpty queue)))

(defn- send-queued [socket queue]
  (let [[message succeed fail] (first-in queue)
        e (try
            (send-or-throw socket message)
            nil
            (catch Throwable e e))]
    (try
      (if e (fail e) (succeed))
      (finally
        (when-not (without-first queue)
          (fibers/dispatch "http ws send" #(send-queued socket queue)))))))

(defn- queue-of ^ArrayDeque [^WebSocket socket]
  (:queue (swap! (.-memory socket) #(if (:queue %) % (assoc % :queue (ArrayDeque.))))))

(defn send-later
  "Sends a message without waiting. Calls (succeed) or (fail error) on another fiber, in the order of the calls."
  [^WebSocket socket message succeed fail]
  (writer message) ; refuses what cannot be sent
  (let [queue (queue-of socket)]
    (case (long (or (added queue [message succeed fail]) -1))
      -1 (fail (IOException. (str "More than " most-waiting " messages wait to be sent to a client that does not read.")))
      1 (fibers/dispatch "http ws send" #(send-queued socket queue))
      nil)
    nil))
