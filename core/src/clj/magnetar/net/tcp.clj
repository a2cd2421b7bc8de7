(ns magnetar.net.tcp
  "TCP sockets of the JDK as kinds of sockets: how they are opened, read, written and closed."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.transport :as transport])
  (:import
   (java.io IOException)
   (java.net BindException ConnectException InetAddress InetSocketAddress ServerSocket Socket SocketException SocketTimeoutException UnknownHostException)
   (magnetar.kernel.scope Offload)))

(set! *warn-on-reflection* true)

(defn- whole-millis
  "The time until the deadline as SO_TIMEOUT has it, where 0 is no limit."
  [deadline]
  (let [left (clock/left deadline)]
    (if (= clock/infinite left)
      0
      (int (max 1 (min Integer/MAX_VALUE (clock/millis left)))))))

;; ---- addresses

(defn- literal ^InetAddress [^String host]
  (try
    (InetAddress/ofLiteral host)
    (catch IllegalArgumentException _ nil)))

;; The JDK's resolver holds the carrier thread of a fiber.
(defn resolve-host
  "The first address of a host. A name is looked up on a platform thread."
  ^InetAddress [operation host]
  (or (literal host)
      (try
        (.run Offload/SHARED #(InetAddress/getByName host))
        (catch UnknownHostException e
          (throw (refusals/unknown-host operation host e))))))

(defn address
  "An address as a map; nil for none."
  [^InetSocketAddress address]
  (when address
    {:host (.getHostAddress (.getAddress address)) :port (.getPort address)}))

;; ---- connections

(defn- read-into
  [^Socket socket ^bytes bytes ^long from deadline]
  (if (.isInputShutdown socket)
    -1
    (do
      (.setSoTimeout socket (whole-millis deadline))
      (.read (.getInputStream socket) bytes from (- (alength bytes) from)))))

(defn- set-options [^Socket socket {:keys [nodelay keepalive]}]
  (try
    (when (some? nodelay) (.setTcpNoDelay socket nodelay))
    (when (some? keepalive) (.setKeepAlive socket keepalive))
    (catch SocketException _)))

(defn- shut [^Socket socket direction]
  (try
    (when-not (or (= :read direction) (.isOutputShutdown socket)) (.shutdownOutput socket))
    (when-not (or (= :write direction) (.isInputShutdown socket)) (.shutdownInput socket))
    (catch IOException _)))

(extend-type Socket
  transport/Endpoint
  (local [socket] (address (.getLocalSocketAddress socket)))
  (close [socket] (.close socket)) ; never waits, since no socket lingers

  transport/Stream
  (remote [socket] (address (.getRemoteSocketAddress socket)))
  (set-options [socket options] (set-options socket options))
  (read-into [socket bytes from deadline] (read-into socket bytes from deadline))
  (write [socket bytes] (.write (.getOutputStream socket) ^bytes bytes))
  (shut [socket direction] (shut socket direction))
  (output-shut? [socket] (.isOutputShutdown socket)))

(defn- connect-failed [host port e]
  (if (and (instance? ConnectException e) (= :econnrefused (refusals/reason e :econnrefused)))
    (refusals/connection-refused host port e)
    (refusals/socket-failed "connect" host port e)))

(defn connect
  "A socket that is connected; ::transport/timeout after the deadline."
  [host port deadline]
  (let [address (InetSocketAddress. (resolve-host "connect" host) (int port))
        socket (Socket.)]
    (try
      (.connect socket address (whole-millis deadline))
      socket
      (catch SocketTimeoutException _
        (transport/close-quietly socket)
        ::transport/timeout)
      (catch IOException e
        (transport/close-quietly socket)
        (transport/check-interrupt)
        (throw (connect-failed host port e))))))

;; ---- listening

(extend-type ServerSocket
  transport/Endpoint
  (local [socket] (address (.getLocalSocketAddress socket)))
  (close [socket] (.close socket))

  transport/Listening
  (accept [socket] (.accept socket)))

(defn- bind-failed [host port e]
  (if (and (instance? BindException e) (not (#{:eacces :eaddrnotavail} (refusals/reason e nil))))
    (refusals/port-in-use host port e)
    (refusals/socket-failed "listen" host port e)))

(defn listen
  "A socket that listens."
  ^ServerSocket [port {:keys [host backlog reuse-address] :or {backlog 0 reuse-address true}}]
  (let [address (when host (resolve-host "listen" host))
        socket (ServerSocket.)]
    (try
      (.setReuseAddress socket reuse-address)
      (.bind socket (InetSocketAddress. ^InetAddress address (int port)) (int backlog))
      socket
      (catch IOException e
        (transport/close-quietly socket)
        (throw (bind-failed host port e))))))
