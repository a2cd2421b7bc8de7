(ns magnetar.http.websocket-support
  "Clients of WebSockets for the tests: bare sockets that send any frame, and the client of the JDK."
  (:require
   [magnetar.http :as http]
   [magnetar.http.support :refer [connect home limit-ms send-text]])
  (:import
   (java.io EOFException IOException InputStream)
   (java.net Socket URI)
   (java.net.http HttpClient WebSocket WebSocket$Listener)
   (java.nio ByteBuffer)
   (java.nio.charset StandardCharsets)
   (java.util.concurrent LinkedBlockingQueue TimeUnit)))

(set! *warn-on-reflection* true)

;; ---- bare sockets

(defn upgrade-text
  "The text of a request for a WebSocket, with more lines of headers."
  [path & headers]
  (str "GET " path " HTTP/1.1\r\nHost: shop.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" (apply str (map #(str % "\r\n") headers)) "\r\n"))

(defn- read-line-of [^InputStream in]
  (let [line (StringBuilder.)]
    (loop []
      (let [b (.read in)]
        (when-not (or (neg? b) (= 10 b))
          (.append line (char b))
          (recur))))
    (str line)))

(defn read-head
  "The lines of the head of a response."
  [^Socket socket]
  (let [in (.getInputStream socket)]
    (into [] (take-while #(not (contains? #{"" "\r"} %))) (repeatedly #(read-line-of in)))))

(defn open-raw
  "A bare socket on which the WebSocket is open."
  ^Socket [server & headers]
  (let [socket (connect server)]
    (send-text socket (apply upgrade-text "/orders" headers))
    (when-not (re-find #" 101 " (first (read-head socket)))
      (throw (IllegalStateException. "The server did not open the WebSocket.")))
    socket))

(defn- length-bytes [^long n]
  (cond
    (< n 126) [(bit-or 128 n)]
    (< n 65536) [254 (bit-shift-right n 8) n]
    :else (into [255] (map #(bit-shift-right n (long %))) [56 48 40 32 24 16 8 0])))

(defn frame-bytes
  "The bytes of a masked frame whose first byte is this. The mask is 0, which leaves the payload as it is."
  ^bytes [^long head ^bytes payload]
  (byte-array (map unchecked-byte (concat [head] (length-bytes (alength payload)) [0 0 0 0] payload))))

(defn send-frame
  "Sends a frame: 0x81 is a text, 0x82 binary, 0x88 a close, 0x89 a ping, 0x8A a pong, and 0x01 the beginning of a text."
  [^Socket socket head payload]
  (let [payload (if (string? payload) (.getBytes ^String payload StandardCharsets/UTF_8) (byte-array (map unchecked-byte payload)))]
    (doto (.getOutputStream socket)
      (.write ^bytes (frame-bytes head payload))
      (.flush))
    nil))

(defn- payload-length ^long [^InputStream in ^long n]
  (let [number (fn [k] (reduce (fn [n b] (+ (* 256 (long n)) (bit-and 255 (long b)))) 0 (.readNBytes in (int k))))]
    (case n
      126 (number 2)
      127 (number 8)
      n)))

(defn read-frame
  "The next frame of the server: [head text], [0x88 code reason] of a close, nil at the end."
  [^Socket socket]
  (let [in (.getInputStream socket)]
    (try
      (let [head (.read in)]
        (when-not (neg? head)
          (let [payload (.readNBytes in (int (payload-length in (.read in))))
                text (String. payload StandardCharsets/UTF_8)]
            (if (and (= 0x88 head) (<= 2 (alength payload)))
              [head (.getShort (ByteBuffer/wrap payload)) (subs text 2)]
              [head text]))))
      (catch EOFException _ nil)
      (catch IOException e (if (instance? java.net.SocketTimeoutException e) :late nil)))))

(defn read-close
  "The frame of a close, behind other frames; nil if the connection ends without one."
  [socket]
  (let [frame (read-frame socket)]
    (if (or (not (vector? frame)) (= 0x88 (first frame)))
      frame
      (recur socket))))

;; ---- the client of the JDK

(defn- listener ^WebSocket$Listener [^LinkedBlockingQueue told ^StringBuilder parts]
  (letfn [(tell [^WebSocket socket event]
            (.add told event)
            (.request socket 1)
            nil)
          (bytes-of [^ByteBuffer buffer]
            (let [bytes (byte-array (.remaining buffer))]
              (.get buffer bytes)
              (vec bytes)))]
    (reify WebSocket$Listener
      (onText [_ socket text last?]
        (.append parts ^CharSequence text)
        (if last?
          (let [whole (str parts)]
            (.setLength parts 0)
            (tell socket [:text whole]))
          (do (.request ^WebSocket socket 1)
              nil)))
      (onBinary [_ socket data _] (tell socket [:binary (bytes-of data)]))
      (onPong [_ socket data] (tell socket [:pong (bytes-of data)]))
      (onClose [_ _ code reason] (do (.add told [:close code reason]) nil))
      (onError [_ _ _] (do (.add told [:error]) nil)))))

(defn open-by
  "[socket told] of the client of HTTP: a WebSocket, and the queue of what it was told."
  [^HttpClient client scheme server protocols]
  (let [told (LinkedBlockingQueue.)
        builder (.newWebSocketBuilder client)]
    (when-some [[most & others] (seq protocols)]
      (.subprotocols builder most (into-array String others)))
    [(.get (.buildAsync builder (URI. (str scheme "://" home ":" (http/port server) "/orders")) (listener told (StringBuilder.))) limit-ms TimeUnit/MILLISECONDS)
     told]))

(defn open-jdk
  "`open-by` a client without TLS."
  [server & protocols]
  (open-by (HttpClient/newHttpClient) "ws" server protocols))

(defn next-of
  "What the client was told next; :late if that does not come."
  [^LinkedBlockingQueue told]
  (or (.poll told limit-ms TimeUnit/MILLISECONDS) :late))

(defn send-jdk
  "Sends a text or bytes, and waits until they are on their way."
  [^WebSocket socket message]
  (.get (if (string? message) (.sendText socket message true) (.sendBinary socket (ByteBuffer/wrap message) true)) limit-ms TimeUnit/MILLISECONDS)
  nil)

(defn close-jdk
  "Closes with a code and a reason."
  [^WebSocket socket code reason]
  (.get (.sendClose socket code reason) limit-ms TimeUnit/MILLISECONDS)
  nil)
