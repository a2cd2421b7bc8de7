(ns magnetar.http.websocket
  "WebSockets of `magnetar.http`: what a peer does with its socket.

  The functions have the names of ring.websocket.

  send   send ping pong
  end    close
  look   open? upgrade-request? request-protocols
  mode   set-options

    (defn handler [request]
      (if (ws/upgrade-request? request)
        (http/websocket {:on-message (fn [socket text] (ws/send socket (str \"you said \" text)))})
        {:status 200 :headers {} :body \"open a WebSocket\\n\"}))

  A socket comes from `magnetar.http/websocket`, whose functions get it. Any fiber or thread may use it.

  Require it as `[magnetar.http.websocket :as ws]`."
  {:added "0.2"}
  (:refer-clojure :exclude [send])
  (:require
   [clojure.string :as str]
   [magnetar.http.peers :as peers]
   [magnetar.http.refusals :as refusals]
   [magnetar.http.request :as request]
   [magnetar.http.socket :as socket]
   [magnetar.http.transmission :as transmission]
   [magnetar.http.upgrade :as upgrade]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (magnetar.http.socket WebSocket)))

(set! *warn-on-reflection* true)

(defn- checked ^WebSocket [operation x]
  (when-not (instance? WebSocket x)
    (refusals/not-a-websocket operation x))
  x)

;; ---- send

(defn send
  "Sends a message to the client of a WebSocket.

  A string is sent as text, an array of bytes or a ByteBuffer as binary.

  Returns true, or false if the socket is closed. A client that does not read for :send-timeout gets its
  connection cut, and the value is false too.

  Blocks while the client does not read, and while another message is on its way.

  Throws an IllegalArgumentException for another message.

  Cancellation: a message that waits for its turn is not sent. One on its way is sent.

  Example:

    (ws/send socket \"hello\")

  See also `close`."
  {:added "0.2"}
  [socket message]
  (transmission/send (checked "send" socket) message))

(defn ping
  "Sends a ping to the client, whose answer is a pong.

  The data are at most 125 bytes, as an array of bytes, a ByteBuffer or a string. The library sends pings by
  itself, see :idle-timeout of `magnetar.http/websocket`.

  Returns and blocks as `send` does.

  Example:

    (ws/ping socket \"1\")"
  {:added "0.2"}
  ([socket] (ping socket (byte-array 0)))
  ([socket data]
   (transmission/ping (checked "ping" socket) data)))

(defn pong
  "Sends a pong to the client, as the answer to a ping.

  The library answers pings by itself, unless there is a function :on-ping. The data are as in `ping`.

  Returns and blocks as `send` does.

  Example:

    (http/websocket {:on-ping (fn [socket data] (ws/pong socket data))})"
  {:added "0.2"}
  ([socket] (pong socket (byte-array 0)))
  ([socket data]
   (transmission/pong (checked "pong" socket) data)))

;; ---- end

(defn close
  "Closes a WebSocket, with a code and a reason; returns nil.

  The code is 1000 by default. A program's own codes are 3000 to 4999; the protocol's codes, such as 1001 or
  1011, may be sent too. The reason is a string of at most 123 bytes. Messages of the client that come later
  are dropped. Nothing happens if it is closed already.

  Never waits. The function :on-close is called when the client has answered, or after :close-timeout.

  Throws an IllegalArgumentException for another code, or for a reason that is too long.

  Example:

    (ws/close socket 4001 \"signed out\")"
  {:added "0.2"}
  ([socket] (close socket 1000 ""))
  ([socket code reason]
   (transmission/close (checked "close" socket) code reason)))

;; ---- look

(defn open?
  "Returns true until the client or the server has closed the WebSocket.

  Example:

    (when (ws/open? socket)
      (ws/send socket \"still there\"))"
  {:added "0.2"}
  [socket]
  (socket/open? (checked "open?" socket)))

(defn upgrade-request?
  "Returns true for a request that asks for a WebSocket.

  Example:

    (ws/upgrade-request? {:headers {\"connection\" \"Upgrade\" \"upgrade\" \"websocket\"}}) ;=> true"
  {:added "0.2"}
  [{:keys [headers]}]
  (letfn [(named? [header name] (some #(= name (str/lower-case %)) (request/parts (get headers header))))]
    (boolean (and (named? "connection" "upgrade") (named? "upgrade" "websocket")))))

(defn request-protocols
  "Returns the subprotocols that a request offers, as a vector, or nil.

  Example:

    (ws/request-protocols {:headers {\"sec-websocket-protocol\" \"mqtt, soap\"}}) ;=> [\"mqtt\" \"soap\"]"
  {:added "0.2"}
  [{:keys [headers]}]
  (request/parts (get headers "sec-websocket-protocol")))

;; ---- mode

(defn set-options
  "Changes how many messages the process of a WebSocket gets; returns nil.

  Any thread may do it. {:active :once} asks for the next message. A number is added to what is left of one
  before, and [:ws-passive socket] tells that it was reached.

  Options:
    :active  :once, true, false, or a number of messages from 1 to 32767

  Example:

    (ws/set-options socket {:active :once})

  Erlang: inet:setopts/2."
  {:added "0.2"}
  [socket options]
  (arguments/options "set-options" [:active] options)
  (upgrade/check-options options)
  (when (contains? options :active)
    (peers/activate (checked "set-options" socket) (:active options)))
  nil)
