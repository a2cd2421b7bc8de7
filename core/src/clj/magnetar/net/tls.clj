(ns magnetar.net.tls
  "TLS over a stream of another kind, as a kind of socket. An SSLEngine does the protocol, and does no IO
  itself.

  Why not SSLSocket: its `close` waits for a thread that writes, and sends the last record to a peer that may
  not read.

  Locks: `shaking` guards the handshake, which reads and writes. Once it is done, `output` guards what is
  written, and the caller makes sure that one thread reads at a time; `receiving` is held while that waits for
  the network. A thread that holds `output` waits for the network alone. `close` takes neither: a fiber sends
  the end of the stream if `output` is free, and closes the stream below. That ends what waits in it. `gone`
  is a future that is completed then.

  `made` is a volatile of the SSLEngine. The thread that begins the handshake makes it, by `make`, and not the
  thread that accepts, since the files of the certificates may have to be read.

  `state` is an atom: :shaken is true after the handshake, or why it failed; :late? the handshake took too
  long; :closed?; :input-shut? and :output-shut?. `input` and `plain` are volatiles: a ByteBuffer of records
  that have arrived, its position their end; and one of bytes that no `read-into` has taken, or nil. The
  thread that shakes or reads uses them."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.runtime]
   [magnetar.net.contexts :as contexts]
   [magnetar.net.tls-options :as tls-options]
   [magnetar.net.transport :as transport])
  (:import
   (java.io EOFException IOException)
   (java.net SocketException SocketTimeoutException)
   (java.nio ByteBuffer)
   (java.util Arrays)
   (java.util.concurrent CompletableFuture)
   (java.util.concurrent.locks ReentrantLock)
   (javax.net.ssl ExtendedSSLSession SNIHostName SSLContext SSLEngine SSLEngineResult SSLEngineResult$HandshakeStatus SSLEngineResult$Status SSLException SSLHandshakeException SSLParameters SSLPeerUnverifiedException SSLSession)))

(set! *warn-on-reflection* true)

(deftype Tls [raw make made settings state input plain
              ^ReentrantLock shaking ^ReentrantLock receiving ^ReentrantLock output ended gone])

(defn- engine ^SSLEngine [^Tls tls]
  @(.-made tls))

(def ^:private ^:const first-room 4096)
(def ^:private ^:const most-per-write "The records of one write of the stream below." 65536)
(def ^:private ^:const last-words-ms "How long the end of the stream may take to be sent." 1000)

;; ---- records

(defn- packet-size ^long [^Tls tls]
  (.getPacketBufferSize (.getSession (engine tls))))

(defn- larger
  "A buffer with the same bytes and this size."
  ^ByteBuffer [^ByteBuffer buffer ^long size]
  (.put (ByteBuffer/allocate size) (.flip buffer)))

(defn- with-room
  "The buffer, or a larger one if it is full."
  [^ByteBuffer buffer packet-size]
  (if (.hasRemaining buffer)
    buffer
    (larger buffer (max (long packet-size) (* 2 (.capacity buffer))))))

(defn- receive-records
  "Reads into `input`. Throws an EOFException at the end of the stream below."
  [^Tls tls deadline]
  (let [^ByteBuffer input (vswap! (.-input tls) with-room (packet-size tls))
        n (long (transport/locked (.-receiving tls) clock/infinite
                  #(transport/read-into (.-raw tls) (.array input) (.position input) deadline)))]
    (when (neg? n)
      (throw (EOFException. (str "the other side ended the stream without the close_notify of TLS, so data "
                                 "may "
                                 "be missing"))))
    (.position input (+ (.position input) n))))

(defn- unwrap ^SSLEngineResult [^Tls tls ^ByteBuffer to]
  (let [^ByteBuffer input @(.-input tls)]
    (.flip input)
    (try
      (.unwrap (engine tls) input to)
      (finally (.compact input)))))

(defn- send-records
  "Writes what is in the buffer, which is empty afterwards."
  [^Tls tls ^ByteBuffer buffer progress]
  (.flip buffer)
  (when (.hasRemaining buffer)
    (transport/write (.-raw tls) (Arrays/copyOf (.array buffer) (.limit buffer)) progress))
  (.clear buffer))

(def ^:private ^ByteBuffer nothing (ByteBuffer/allocate 0))

(defn- wrap-control
  "Writes what the engine has to say: handshake, alert or end. True if it was something."
  [^Tls tls]
  (let [buffer (ByteBuffer/allocate (packet-size tls))
        result (.wrap (engine tls) (.duplicate nothing) buffer)]
    (send-records tls buffer transport/no-progress)
    (pos? (.bytesProduced result))))

(defn- wrap-all-control [tls]
  (while (and (= SSLEngineResult$HandshakeStatus/NEED_WRAP (.getHandshakeStatus (engine tls)))
              (wrap-control tls))))

;; ---- handshake

(defn shaken?
  "Has the handshake succeeded?"
  [^Tls tls]
  (true? (:shaken @(.-state tls))))

(defn- run-tasks [^SSLEngine engine]
  (when-some [task (.getDelegatedTask engine)]
    (.run task)
    (recur engine)))

(defn- unwrap-handshake [^Tls tls deadline]
  (condp = (.getStatus (unwrap tls (.duplicate nothing)))
    SSLEngineResult$Status/OK nil
    SSLEngineResult$Status/BUFFER_UNDERFLOW (receive-records tls deadline)
    SSLEngineResult$Status/CLOSED (throw (EOFException. "the other side ended TLS"))
    (throw (SSLException. "data in the handshake"))))

(defn- shake-on
  "Goes on with the handshake until it is done."
  [^Tls tls deadline]
  (let [engine (engine tls)
        status (.getHandshakeStatus engine)]
    (when-not (= SSLEngineResult$HandshakeStatus/NOT_HANDSHAKING status)
      (condp = status
        SSLEngineResult$HandshakeStatus/NEED_WRAP (wrap-control tls)
        SSLEngineResult$HandshakeStatus/NEED_TASK (run-tasks engine)
        (unwrap-handshake tls deadline))
      (recur tls deadline))))

(defn- close-late
  "Closes the stream below if the handshake does not end in time."
  [^Tls tls nanos]
  (when (= ::late (deref (.-ended tls) (clock/millis nanos) ::late))
    (swap! (.-state tls) #(if (:shaken %) % (assoc % :late? true)))
    (when (:late? @(.-state tls))
      (transport/close-quietly (.-raw tls)))))

(defn- begin [^Tls tls]
  (let [nanos (arguments/nanos :handshake-timeout (:handshake-timeout (.-settings tls)))]
    (vreset! (.-made tls) ((.-make tls)))
    (swap! (.-state tls) assoc :begun? true)
    (when-not (= clock/infinite nanos)
      (fibers/dispatch "handshake time-out of TLS" #(close-late tls nanos)))
    (.beginHandshake (engine tls))))

(defn- drain
  "Reads and drops what arrives in this time, up to an amount. If a stream is closed with data that were not
  read, such as the tickets of TLS 1.3, TCP resets it, and the other side may lose what was sent last."
  [^Tls tls ms]
  (let [bytes (byte-array 8192)
        deadline (clock/deadline (* 1000000 (long ms)))]
    (loop [most 32]
      (when (and (pos? (long (transport/read-into (.-raw tls) bytes 0 deadline)))
                 (pos? most)
                 (pos? (clock/left deadline)))
        (recur (dec most))))))

(defn- close-below
  "Closes the stream below, for good."
  [^Tls tls]
  (try
    (transport/close-quietly (.-raw tls))
    (finally (.complete ^CompletableFuture (.-gone tls) true))))

(defn- send-alert
  "Sends the alert of a handshake that failed, on a fiber, and closes the stream below."
  [^Tls tls]
  (fibers/dispatch "alert of TLS"
    (fn []
      (try
        (wrap-all-control tls)
        (transport/shut (.-raw tls) :write)
        (drain tls last-words-ms)
        (catch Exception _) ; the engine and the stream have failed already
        (finally (close-below tls))))))

(defn- limited
  "Closes the stream below unless the promise is delivered in time."
  [^Tls tls finished]
  (fibers/dispatch "end of TLS"
    #(when (= ::late (deref finished last-words-ms ::late))
       (transport/close-quietly (.-raw tls)))))

(defn- failure
  "What the handshake ends with: an error of TLS, or one whose cause is the error of the stream below."
  [^Tls tls e]
  (cond
    (:late? @(.-state tls)) (SSLHandshakeException. "late" (SocketTimeoutException. "handshake"))
    (instance? SSLException e) e
    :else (SSLHandshakeException. (ex-message e) e)))

(defn- failed [^Tls tls e]
  (let [failure (failure tls e)]
    (swap! (.-state tls) assoc :shaken failure)
    (deliver (.-ended tls) true)
    (if (and (instance? SSLException e) (engine tls))
      (send-alert tls)
      (close-below tls))
    (throw failure)))

(defn- check-shaken [^Tls tls]
  (let [{:keys [shaken]} @(.-state tls)]
    (when (instance? Throwable shaken)
      (throw shaken))
    shaken))

(defn- finish [^Tls tls]
  (when (:late? (swap! (.-state tls) #(if (:late? %) % (assoc % :shaken true))))
    (throw (SocketException. "Socket closed")))
  (deliver (.-ended tls) true))

(defn- shake-locked [^Tls tls deadline]
  (when-not (check-shaken tls)
    (try
      (when-not (:begun? @(.-state tls))
        (begin tls))
      (shake-on tls deadline)
      (finish tls)
      (catch SocketTimeoutException e (throw e))
      (catch IOException e (failed tls e))
      (catch RuntimeException e (failed tls (SSLException. (str (ex-message e)) e))))))

(defn shake
  "Does the handshake, unless it is done. Throws a SocketTimeoutException after the deadline, which loses
  nothing."
  [^Tls tls deadline]
  (when-not (check-shaken tls)
    (when (= ::transport/timeout (transport/locked (.-shaking tls) deadline #(shake-locked tls deadline)))
      (throw (SocketTimeoutException. "handshake")))))

;; ---- read

(defn- taken
  "Copies bytes that were read before into the array; how many."
  [^Tls tls ^bytes bytes ^long from]
  (let [^ByteBuffer plain @(.-plain tls)
        n (min (.remaining plain) (- (alength bytes) from))]
    (.get plain bytes from n)
    (when-not (.hasRemaining plain)
      (vreset! (.-plain tls) nil))
    n))

(defn- unwrap-aside
  "For a record that may be longer than the array of the caller, and of which a part may be missing."
  [^Tls tls]
  (let [buffer (ByteBuffer/allocate (packet-size tls))
        result (unwrap tls buffer)]
    (.flip buffer)
    (when (.hasRemaining buffer)
      (vreset! (.-plain tls) buffer))
    (if (= SSLEngineResult$Status/BUFFER_UNDERFLOW (.getStatus result)) :more :aside)))

(defn- check-renegotiation
  "After the handshake the engine has tasks for a renegotiation alone."
  [^SSLEngineResult result]
  (when (= SSLEngineResult$HandshakeStatus/NEED_TASK (.getHandshakeStatus result))
    (throw (SSLException. "renegotiation"))))

(defn- unwrap-data
  "Takes a record apart: how many bytes are in the array now, 0 for none, -1 at the end; :more if there is no
  record, :aside if it went to `plain`."
  [^Tls tls ^bytes bytes ^long from]
  (let [result (unwrap tls (ByteBuffer/wrap bytes from (- (alength bytes) from)))
        status (.getStatus result)]
    (check-renegotiation result)
    (condp = status
      SSLEngineResult$Status/BUFFER_UNDERFLOW :more
      SSLEngineResult$Status/BUFFER_OVERFLOW (unwrap-aside tls)
      SSLEngineResult$Status/CLOSED -1
      (.bytesProduced result))))

(defn- read-data [^Tls tls bytes from deadline]
  (cond
    (:input-shut? @(.-state tls)) -1
    @(.-plain tls) (taken tls bytes from)
    (.isInboundDone (engine tls)) -1
    :else (let [n (unwrap-data tls bytes from)]
            (case n
              :more (do (receive-records tls deadline) (recur tls bytes from deadline))
              (:aside 0) (recur tls bytes from deadline)
              n))))

(defn- read-into [^Tls tls bytes from deadline]
  (shake tls deadline)
  (try
    (read-data tls bytes from deadline)
    (catch EOFException e
      (if (:input-shut? @(.-state tls)) -1 (throw e)))))

;; ---- write

(defn- check-output [^Tls tls]
  (let [{:keys [closed? output-shut?]} @(.-state tls)]
    (when (or closed? output-shut?)
      (throw (SocketException. "Socket closed")))))

(defn- wrap-data
  "Adds a record with the next bytes. With TLS 1.2 the end of the other side is the end of this side too, and
  the engine says so in place of data."
  [^Tls tls data buffer]
  (when (= SSLEngineResult$Status/CLOSED (.getStatus (.wrap (engine tls) ^ByteBuffer data
                                                            ^ByteBuffer buffer)))
    (send-records tls buffer transport/no-progress)
    (throw (SocketException. "the other side ended TLS"))))

(defn- write-data [^Tls tls ^ByteBuffer data progress]
  (check-output tls)
  (let [packet (packet-size tls)
        buffer (ByteBuffer/allocate (max packet (min most-per-write (+ packet (.remaining data)))))]
    (while (.hasRemaining data)
      (wrap-data tls data buffer)
      (when (or (< (.remaining buffer) packet) (not (.hasRemaining data)))
        (send-records tls buffer progress)))))

(defn- write [^Tls tls ^bytes bytes progress]
  (shake tls clock/infinite)
  (transport/locked (.-output tls) clock/infinite #(write-data tls (ByteBuffer/wrap bytes) progress)))

;; ---- ends

(defn- end-output [^Tls tls]
  (.closeOutbound (engine tls))
  (wrap-all-control tls))

(defn- end-output-in-time
  "Sends the end of the stream, or closes the stream below if the other side does not take it."
  [tls]
  (let [finished (promise)]
    (limited tls finished)
    (try
      (end-output tls)
      (finally (deliver finished true)))))

(defn- shut-output [^Tls tls]
  (when-not (:output-shut? @(.-state tls))
    (swap! (.-state tls) assoc :output-shut? true)
    (end-output-in-time tls)))

(defn- shut [^Tls tls direction]
  (try
    (shake tls clock/infinite)
    (when-not (= :write direction)
      (swap! (.-state tls) assoc :input-shut? true)
      (transport/shut (.-raw tls) :read))
    (when-not (= :read direction)
      (transport/locked (.-output tls) clock/infinite #(shut-output tls)))
    (catch IOException _)))

(defn- quietly
  "Calls f if the lock is free; an error of the network is no news, since the connection is closed."
  [^ReentrantLock lock f]
  (when (.tryLock lock)
    (try
      (f)
      (catch IOException _)
      (finally (.unlock lock)))))

(defn- say-end
  "Sends the end of the stream, unless another thread is writing, and closes the stream below. A thread that
  reads has taken what has arrived."
  [^Tls tls]
  (try
    (quietly (.-output tls) #(end-output-in-time tls))
    (quietly (.-receiving tls) #(drain tls 1))
    (finally (close-below tls))))

(defn- close
  "A handshake that failed has a fiber that closes the stream below. If no fiber can be started, for want of
  memory, the end is not said."
  [^Tls tls]
  (let [[before _] (swap-vals! (.-state tls) assoc :closed? true)]
    (deliver (.-ended tls) true)
    (cond
      (:closed? before) nil
      (instance? Throwable (:shaken before)) nil
      (:shaken before) (try
                         (fibers/dispatch "end of TLS" #(say-end tls))
                         (catch Throwable _ (close-below tls)))
      :else (close-below tls))))

(extend-type Tls
  transport/Endpoint
  (local [tls] (transport/local (.-raw tls)))
  (close [tls] (close tls))

  transport/Stream
  (remote [tls] (transport/remote (.-raw tls)))
  (set-options [tls options] (transport/set-options (.-raw tls) options))
  (read-into [tls bytes from deadline] (read-into tls bytes from deadline))
  (write [tls bytes progress] (write tls bytes progress))
  (shut [tls direction] (shut tls direction))
  (output-shut? [tls] (boolean (:output-shut? @(.-state tls))))
  (when-gone [tls f] (.thenRun ^CompletableFuture (.-gone tls) ^Runnable f)))

;; ---- made

(def ^:private versions {:tlsv1.3 "TLSv1.3" :tlsv1.2 "TLSv1.2"})

(def ^:private version-words
  (into {} (map (fn [[word text]] [text word])) versions))

(defn- strings [texts]
  (into-array String texts))

(defn- server-parameters [^SSLParameters parameters
                          {:keys [verify fail-if-no-peer-cert alpn-preferred-protocols]}]
  (cond
    fail-if-no-peer-cert (.setNeedClientAuth parameters true)
    (= :verify-peer verify) (.setWantClientAuth parameters true))
  (some->> alpn-preferred-protocols strings (.setApplicationProtocols parameters)))

(defn- client-parameters [^SSLParameters parameters host
                          {:keys [verify server-name-indication alpn-advertised-protocols]}]
  (let [name (when-not (= :disable server-name-indication) (tls-options/host-name host))]
    (.setServerNames parameters (if name [name] [])))
  (when (and (= :verify-peer verify) (not= :disable server-name-indication))
    (.setEndpointIdentificationAlgorithm parameters "HTTPS"))
  (some->> alpn-advertised-protocols strings (.setApplicationProtocols parameters)))

(defn- set-parameters [^SSLEngine engine settings set-own]
  (let [parameters (.getSSLParameters engine)]
    (.setProtocols parameters (strings (map versions (:versions settings))))
    (set-own parameters)
    (.setSSLParameters engine parameters))
  engine)

(defn- over [raw make settings]
  (->Tls raw make (volatile! nil) settings (atom {}) (volatile! (ByteBuffer/allocate first-room))
         (volatile! nil)
         (ReentrantLock.) (ReentrantLock.) (ReentrantLock.) (promise) (CompletableFuture.)))

(defn engine-of-server
  "A new engine for a connection that a server has accepted."
  ^SSLEngine [^SSLContext context settings]
  (doto (.createSSLEngine context)
    (.setUseClientMode false)
    (set-parameters settings #(server-parameters % settings))))

(defn- engine-of-client [source settings host port]
  (let [{name :server-name-indication} settings
        host (if (string? name) name host)]
    (doto (.createSSLEngine (contexts/context source) ^String host (int port))
      (.setUseClientMode true)
      (set-parameters settings #(client-parameters % host settings)))))

(deftype Listening [raw source settings]
  transport/Endpoint
  (local [_] (transport/local raw))
  (close [_] (transport/close raw))

  transport/Listening
  (accept [_] (over (transport/accept raw) #(engine-of-server (contexts/context source) settings) settings)))

(defn server
  "What makes a socket that listens one with TLS; nil without such options. Throws at once what is wrong with
  them and their files."
  [tls]
  (when-some [settings (tls-options/checked :server tls)]
    (let [source (contexts/source settings)]
      #(->Listening % source settings))))

(defn client
  "What makes a stream to a port of a host one with TLS; nil without such options. Throws at once what is
  wrong with them and their files."
  [tls host port]
  (when-some [settings (tls-options/checked :client tls)]
    (let [source (contexts/of-client settings)]
      #(over % (fn [] (engine-of-client source settings host port)) settings))))

;; ---- told

(defn- peer-certificates [^SSLSession session]
  (try
    (vec (.getPeerCertificates session))
    (catch SSLPeerUnverifiedException _ [])))

(defn- indicated
  "The name of the host that the client wanted."
  [^Tls tls ^SSLSession session]
  (let [engine (engine tls)
        names (if (.getUseClientMode engine)
                (.getServerNames (.getSSLParameters engine))
                (when (instance? ExtendedSSLSession session)
                  (.getRequestedServerNames ^ExtendedSSLSession session)))]
    (some #(when (instance? SNIHostName %) (.getAsciiName ^SNIHostName %)) names)))

(defn information
  "What both sides agreed on, after the handshake."
  [^Tls tls]
  (let [engine (engine tls)
        session (.getSession engine)
        alpn (.getApplicationProtocol engine)]
    {:protocol (version-words (.getProtocol session))
     :cipher (.getCipherSuite session)
     :alpn (when (seq alpn) alpn)
     :peer-certificates (peer-certificates session)
     :sni-hostname (indicated tls session)}))

(defn tls?
  "Is the socket one of TLS?"
  [socket]
  (instance? Tls socket))
