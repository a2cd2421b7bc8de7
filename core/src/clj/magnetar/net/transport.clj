(ns magnetar.net.transport
  "Sockets of the JDK: how they are opened, read, written and closed. A connection knows no more of its socket than this namespace does:
  a pair of streams that are closed and shut, with two addresses. TLS is a Socket too."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.net.refusals :as refusals])
  (:import
   (java.io IOException)
   (java.net BindException ConnectException InetAddress InetSocketAddress ServerSocket Socket SocketException SocketTimeoutException UnknownHostException)
   (java.util.concurrent TimeUnit)
   (java.util.concurrent.locks ReentrantLock)
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.scope Offload)))

(set! *warn-on-reflection* true)

;; ---- waits

(defn- whole-millis
  "The time until the deadline as SO_TIMEOUT has it, where 0 is no limit."
  [deadline]
  (let [left (clock/left deadline)]
    (if (= clock/infinite left)
      0
      (int (max 1 (min Integer/MAX_VALUE (clock/millis left)))))))

(defn check-interrupt
  "Throws if the thread was interrupted while it used a socket: what cancels it, else an InterruptedException."
  []
  (.check (Fiber/current))
  (when (Thread/interrupted)
    (throw (InterruptedException. "interrupted in an operation of a socket, which is closed by that"))))

(defn- take-lock
  "Takes the lock; false if it is not free before the deadline."
  [^ReentrantLock lock deadline]
  (let [left (clock/left deadline)]
    (try
      (if (= clock/infinite left)
        (do (.lockInterruptibly lock) true)
        (.tryLock lock left TimeUnit/NANOSECONDS))
      (catch InterruptedException e
        (.check (Fiber/current))
        (throw e)))))

(defn locked
  "Calls f with the lock held; ::timeout if the lock is not free before the deadline."
  [^ReentrantLock lock deadline f]
  (if (take-lock lock deadline)
    (try
      (f)
      (finally (.unlock lock)))
    ::timeout))

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

(defn local
  "The address of this side."
  [socket]
  (address (if (instance? Socket socket)
             (.getLocalSocketAddress ^Socket socket)
             (.getLocalSocketAddress ^ServerSocket socket))))

(defn remote
  "The address of the other side."
  [^Socket socket]
  (address (.getRemoteSocketAddress socket)))

(defn text
  "An address in words."
  [{:keys [host port]}]
  (str host ":" port))

;; ---- opened and closed

(defn close-quietly
  "Closes a socket. Never waits, since no socket lingers."
  [^java.io.Closeable socket]
  (try
    (.close socket)
    (catch IOException _)))

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
        (close-quietly socket)
        (throw (bind-failed host port e))))))

(defn accept
  "The socket of the next connection; ::timeout after the deadline."
  [^ServerSocket socket deadline]
  (try
    (.setSoTimeout socket (whole-millis deadline))
    (.accept socket)
    (catch SocketTimeoutException _ ::timeout)))

(defn- connect-failed [host port e]
  (if (and (instance? ConnectException e) (= :econnrefused (refusals/reason e :econnrefused)))
    (refusals/connection-refused host port e)
    (refusals/socket-failed "connect" host port e)))

(defn connect
  "A socket that is connected; ::timeout after the deadline."
  [host port deadline]
  (let [address (InetSocketAddress. (resolve-host "connect" host) (int port))
        socket (Socket.)]
    (try
      (.connect socket address (whole-millis deadline))
      socket
      (catch SocketTimeoutException _
        (close-quietly socket)
        ::timeout)
      (catch IOException e
        (close-quietly socket)
        (check-interrupt)
        (throw (connect-failed host port e))))))

(defn set-options
  "Sets those options that are the socket's. One that the other side has left takes none any more."
  [^Socket socket {:keys [nodelay keepalive]}]
  (try
    (when (some? nodelay) (.setTcpNoDelay socket nodelay))
    (when (some? keepalive) (.setKeepAlive socket keepalive))
    (catch SocketException _)))

;; ---- bytes

(defn read-into
  "Reads into the array; how many bytes, -1 at the end of the stream. Throws a SocketTimeoutException after the deadline."
  ^long [^Socket socket ^bytes bytes ^long from deadline]
  (if (.isInputShutdown socket)
    -1
    (do
      (.setSoTimeout socket (whole-millis deadline))
      (.read (.getInputStream socket) bytes from (- (alength bytes) from)))))

(defn write
  "Writes all the bytes."
  [^Socket socket ^bytes bytes]
  (.write (.getOutputStream socket) bytes))

(defn shut
  "Shuts one direction, or both. One that is shut already stays so."
  [^Socket socket direction]
  (try
    (when-not (or (= :read direction) (.isOutputShutdown socket)) (.shutdownOutput socket))
    (when-not (or (= :write direction) (.isInputShutdown socket)) (.shutdownInput socket))
    (catch IOException _)))

(defn output-shut?
  "Was its sending side shut?"
  [^Socket socket]
  (.isOutputShutdown socket))
