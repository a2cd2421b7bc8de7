(ns magnetar.http.ring
  "Ring's protocols, where the class path of the program has them. They are looked up when a server starts and when a listener is met.

  Ring on the class path: a WebSocket satisfies ring.websocket.protocols/Socket and AsyncSocket, a listener may satisfy Listener and PingListener, and
  channels and events satisfy ring.core.protocols/StreamableResponseBody."
  {:no-doc true}
  (:require
   [magnetar.http.events]
   [magnetar.http.response :as response]
   [magnetar.http.socket :as socket]
   [magnetar.http.transmission :as transmission]
   [magnetar.impl.runtime])
  (:import
   (java.io FileNotFoundException OutputStream)
   (java.nio ByteBuffer)
   (magnetar.http.events Events)
   (magnetar.http.socket WebSocket)
   (magnetar.kernel.channel Channel)))

(set! *warn-on-reflection* true)

(def ^:private missing (atom #{}))

(defn- loaded?
  "True if the namespace is there. One that is missing is looked for once."
  [ns]
  (cond
    (find-ns ns) true
    (@missing ns) false
    :else (try
            (require ns)
            true
            (catch FileNotFoundException _
              (swap! missing conj ns)
              false))))

(defn- value [ns name]
  (some-> (find-ns ns) (ns-resolve name) var-get))

(defn- satisfied? [protocol x]
  (let [protocol (when (loaded? 'ring.websocket.protocols) (value 'ring.websocket.protocols protocol))]
    (boolean (and protocol (satisfies? protocol x)))))

;; ---- listeners

(defn listener?
  "True of what satisfies Ring's protocol of listeners."
  [x]
  (satisfied? 'Listener x))

(defn- buffered [data]
  (if (bytes? data) (ByteBuffer/wrap data) data))

(defn with-buffers
  "The functions, which get bytes as a ByteBuffer."
  [functions]
  (reduce (fn [functions what]
            (if-some [f (get functions what)]
              (assoc functions what (fn [socket data] (f socket (buffered data))))
              functions))
          functions [:message :ping :pong]))

(defn functions
  "What a listener of Ring's protocol does, as the functions of a peer."
  [listener]
  (let [call (fn [name] (partial (value 'ring.websocket.protocols name) listener))
        open (call 'on-open)]
    (with-buffers
      (cond-> {:open (fn [socket _] (open socket))
               :message (call 'on-message)
               :pong (call 'on-pong)
               :error (call 'on-error)
               :close (call 'on-close)}
        (satisfied? 'PingListener listener) (assoc :ping (call 'on-ping))))))

;; ---- extensions

(defn- extend-socket []
  (when (loaded? 'ring.websocket.protocols)
    (when-some [protocol (value 'ring.websocket.protocols 'Socket)]
      (extend WebSocket protocol
        {:-open? socket/open?
         :-send transmission/send-or-throw
         :-ping transmission/ping-or-throw
         :-pong transmission/pong-or-throw
         :-close transmission/close}))
    (when-some [protocol (value 'ring.websocket.protocols 'AsyncSocket)]
      (extend WebSocket protocol {:-send-async transmission/send-later}))))

(defn- write-each
  "Calls (each f), where (f bytes) writes to the stream. The channel of the body is closed however that ends,
  so that its sender stops."
  [body ^OutputStream out each]
  (try
    (each (fn [^bytes bytes]
            (.write out bytes)
            (.flush out)))
    (.close out)
    (finally (response/release body))))

(defn- write-channel [ch ring-response out]
  (write-each ch out #(response/each-value ch (response/charset-named-by ring-response) %)))

(defn- write-events [events _ out]
  (write-each events out #(response/each-event events %)))

(defn- extend-bodies []
  (when (loaded? 'ring.core.protocols)
    (when-some [protocol (value 'ring.core.protocols 'StreamableResponseBody)]
      (extend Channel protocol {:write-body-to-stream write-channel})
      (extend Events protocol {:write-body-to-stream write-events}))))

(defn prepare
  "Extends Ring's protocols to the types of the library. It may be called again."
  []
  (extend-socket)
  (extend-bodies))
