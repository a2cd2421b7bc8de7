(ns magnetar.net.tcp
  "TCP sockets of the JDK as kinds of sockets: how they are opened, read, written and closed."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.impl.waits :as waits]
   [magnetar.net.names :as names]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.threads :as threads]
   [magnetar.net.transport :as transport])
  (:import
   (java.io IOException)
   (java.net BindException ConnectException InetAddress InetSocketAddress ServerSocket Socket SocketException SocketTimeoutException)
   (java.util.concurrent ThreadPoolExecutor)))

(set! *warn-on-reflection* true)

(defn whole-millis
  "The time until the deadline as SO_TIMEOUT has it, where 0 is no limit."
  [deadline]
  (let [left (clock/left deadline)]
    (if (= clock/infinite left)
      0
      (int (max 1 (min Integer/MAX_VALUE (clock/millis left)))))))

;; ---- addresses

(defn- shortened
  "An IPv6 address as RFC 5952 writes it, with \"::\" for the first of the longest runs of zeros."
  [text]
  (let [[address scope] (str/split text #"%" 2)
        runs (partition-by #(= "0" %) (str/split address #":"))
        longest (apply max (map #(if (= "0" (first %)) (count %) 0) runs))
        [before [_ & after]] (split-with #(not (and (= "0" (first %)) (= longest (count %)))) runs)
        joined #(str/join ":" (apply concat %))]
    (str (if (< 1 (long longest))
           (str (joined before) "::" (joined after))
           address)
         (when scope (str "%" scope)))))

(defn address
  "An address as a map; nil for none."
  [^InetSocketAddress address]
  (when address
    (let [host (.getHostAddress (.getAddress address))]
      {:host (if (str/includes? host ":") (shortened host) host) :port (.getPort address)})))

;; ---- connections

(defn- read-into
  [^Socket socket ^bytes bytes ^long from deadline]
  (if (.isInputShutdown socket)
    -1
    (do
      (.setSoTimeout socket (whole-millis deadline))
      (let [in (.getInputStream socket)]
        (waits/at waits/for-data socket
          (.read in bytes from (- (alength bytes) from)))))))

(def ^:private ^:const nanos-per-second 1000000000)

(defn- set-linger [^Socket socket linger]
  (if (false? linger)
    (.setSoLinger socket false 0)
    (.setSoLinger socket true (quot (+ (arguments/nanos :linger linger) (dec nanos-per-second))
                                    nanos-per-second))))

(defn- set-options [^Socket socket {:keys [nodelay keepalive linger recbuf sndbuf]}]
  (try
    (when (some? nodelay) (.setTcpNoDelay socket nodelay))
    (when (some? keepalive) (.setKeepAlive socket keepalive))
    (when (some? linger) (set-linger socket linger))
    (when recbuf (.setReceiveBufferSize socket recbuf))
    (when sndbuf (.setSendBufferSize socket sndbuf))
    (catch SocketException _)))

(defn- write [^Socket socket ^bytes bytes progress]
  (let [out (.getOutputStream socket)]
    (transport/write-parts bytes
                           #(waits/at waits/for-room socket
                              (.write out bytes (int %1) (int %2)))
                           progress)))

(def ^:private ^:const most-lingering 32)

(defonce ^:private ^ThreadPoolExecutor lingering (threads/pool "magnetar-linger" most-lingering))

(defn- lingers? [^Socket socket]
  (and (not (.isClosed socket)) (pos? (.getSoLinger socket))))

;; The system waits in the close of a socket that lingers. A close must not wait, since the thread that ends a
;; process does it.
(defn- close [^Socket socket]
  (if (lingers? socket)
    (try
      (.shutdownOutput socket) ; the end is sent at once, even if the close has to wait for a thread
      (finally
        (.execute lingering #(try
                               (.close socket)
                               (catch IOException _)))))
    (.close socket)))

(defn- shut [^Socket socket direction]
  (try
    (when-not (or (= :read direction) (.isOutputShutdown socket)) (.shutdownOutput socket))
    (when-not (or (= :write direction) (.isInputShutdown socket)) (.shutdownInput socket))
    (catch IOException _)))

(extend-type Socket
  transport/Endpoint
  (local [socket] (address (.getLocalSocketAddress socket)))
  (close [socket] (close socket))

  transport/Stream
  (remote [socket] (address (.getRemoteSocketAddress socket)))
  (set-options [socket options] (set-options socket options))
  (read-into [socket bytes from deadline] (read-into socket bytes from deadline))
  (write [socket bytes progress] (write socket bytes progress))
  (shut [socket direction] (shut socket direction))
  (output-shut? [socket] (.isOutputShutdown socket))
  (when-gone [_ f] (f)))

(defn- connect-failed [host port e]
  (if (and (instance? ConnectException e) (= :econnrefused (refusals/reason e :econnrefused)))
    (refusals/connection-refused host port e)
    (refusals/socket-failed "connect" host port e)))

(defn- connect-to
  "Connects to one address: the socket, ::transport/timeout, or the IOException."
  [^InetAddress address port deadline]
  (let [socket (Socket.)
        place (InetSocketAddress. address (int port))]
    (try
      (waits/at waits/to-connect place
        (.connect socket place (whole-millis deadline)))
      socket
      (catch SocketTimeoutException _
        (transport/close-quietly socket)
        ::transport/timeout)
      (catch IOException e
        (transport/close-quietly socket)
        (transport/check-interrupt)
        e))))

(def ^:private ^:const least-share-nanos "The least time for an address that does not answer." 2000000000)

;; An address of IPv6 may be one to which no packet gets, and the next one of IPv4 answer.
(defn- share-of
  "The instant until which one of so many addresses is tried: a fair share of the time until the deadline."
  ^long [^long deadline ^long addresses]
  (let [left (clock/left deadline)]
    (if (or (= clock/infinite left) (= 1 addresses))
      deadline
      (clock/deadline (min left (max least-share-nanos (quot left addresses)))))))

(defn- socket? [outcome]
  (not (or (= ::transport/timeout outcome) (instance? IOException outcome))))

(defn- try-all
  "Connects to the first of the addresses that answers: the socket, or what came of the last one that was
  tried."
  [[address & more :as addresses] port deadline]
  (let [outcome (connect-to address port (share-of deadline (count addresses)))]
    (if (or (nil? more) (socket? outcome) (zero? (clock/left deadline)))
      outcome
      (recur more port deadline))))

(defn connect
  "A socket that is connected to the first address of the host that answers; ::transport/timeout after the
  deadline."
  [host port deadline]
  (let [found (names/addresses "connect" host deadline)
        outcome (if (= ::transport/timeout found) found (try-all found port deadline))]
    (if (instance? IOException outcome)
      (throw (connect-failed host port outcome))
      outcome)))

;; ---- listening

(extend-type ServerSocket
  transport/Endpoint
  (local [socket] (address (.getLocalSocketAddress socket)))
  (close [socket] (.close socket))

  transport/Listening
  (accept [socket] (waits/at waits/for-connection socket (.accept socket))))

(defn bind-failed
  "The error of a port that cannot be taken."
  [operation host port e]
  (if (and (instance? BindException e) (not (#{:eacces :eaddrnotavail} (refusals/reason e nil))))
    (refusals/port-in-use operation host port e)
    (refusals/socket-failed operation host port e)))

(defn listen
  "A socket that listens."
  ^ServerSocket [port {:keys [host backlog reuse-address recbuf] :or {backlog 0 reuse-address true}}]
  (let [address (when host (names/address "listen" host))
        socket (ServerSocket.)]
    (try
      (.setReuseAddress socket reuse-address)
      (when recbuf (.setReceiveBufferSize socket recbuf)) ; connections have it from their beginning
      (.bind socket (InetSocketAddress. ^InetAddress address (int port)) (int backlog))
      socket
      (catch IOException e
        (transport/close-quietly socket)
        (throw (bind-failed "listen" host port e))))))
