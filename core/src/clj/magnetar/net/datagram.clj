(ns magnetar.net.datagram
  "UDP sockets: datagrams by calls, or as messages to the owner."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.impl.waits :as waits]
   [magnetar.net.active :as active]
   [magnetar.net.names :as names]
   [magnetar.net.options :as options]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.tcp :as tcp]
   [magnetar.net.transport :as transport])
  (:import
   (java.io Closeable IOException Writer)
   (java.net DatagramPacket DatagramSocket InetAddress InetSocketAddress SocketAddress SocketTimeoutException StandardSocketOptions)
   (java.nio.charset StandardCharsets)
   (java.util Set)
   (java.util.concurrent ConcurrentHashMap)
   (java.util.concurrent.locks ReentrantLock)
   (magnetar.kernel.process Owned)))

(set! *warn-on-reflection* true)

(declare close)

;; `input` is a volatile, of a datagram that has no receiver yet, or nil. The holder of `reading` has it
;; alone, and the packet, whose array has room for each datagram.
(deftype UdpSocket [^DatagramSocket socket local state input packet ^ReentrantLock reading]
  Owned
  (ownerDied [this pid] (active/owner-died this pid))

  Closeable
  (close [this] (close this) nil)

  Object
  (toString [_] (str "#magnetar/udp-socket \"" (transport/text local) "\"")))

(defmethod print-method UdpSocket [socket ^Writer out]
  (.write out (str socket)))

(defn udp?
  "Is it a UDP socket?"
  [x]
  (instance? UdpSocket x))

(defn check
  "Refuses what is no UDP socket."
  ^UdpSocket [operation x]
  (when-not (udp? x)
    (arguments/misuse :magnetar/not-a-connection
                      (str "`" operation "` wants a UDP socket, as `open` returns it; this is "
                           (arguments/show x) ".")
                      {:value x}))
  x)

(defn- check-open [operation ^UdpSocket socket]
  (when (:closed @(.-state socket))
    (throw (refusals/closed operation :udp-socket socket))))

;; T1 waits in `receive` on a fiber, T2 closes the socket. The JDK then leaves the close of the file to T1,
;; and until T1 has run the port is taken. T2 may be the thread that ends a process, so it does not wait. It
;; lists the socket here, and `open` waits for the lock of T1. T1 may take its lock just before the close, so
;; T2 lists the socket before it closes it, and looks for the lock afterwards.
(defonce ^:private ^Set closing (ConcurrentHashMap/newKeySet))

(defn- reads? [^UdpSocket socket]
  (.isLocked ^ReentrantLock (.-reading socket)))

(defn- close-file [^UdpSocket socket]
  (.add closing socket)
  (.close ^DatagramSocket (.-socket socket))
  (.removeIf closing (fn [^UdpSocket closed] (and (.isClosed ^DatagramSocket (.-socket closed)) (not (reads? closed))))))

(defn- await-closed
  "Waits until the files of sockets of this port that are closed have been closed."
  [port]
  (doseq [^UdpSocket socket (filterv #(= port (:port (.-local ^UdpSocket %))) closing)]
    (transport/locked (.-reading socket) clock/infinite #(.remove closing socket))))

(defn close
  "Closes it, unless it is closed."
  [^UdpSocket socket]
  (let [[before _] (swap-vals! (.-state socket) assoc :closed true :active false)]
    (when-not (:closed before)
      (close-file socket)
      (some-> (:owner before) (owned/disown socket)))))

(defn- failed
  "What the caller shall see of an error."
  [operation ^UdpSocket socket {:keys [host port]} cause]
  (let [here? (:closed @(.-state socket))]
    (when (.isClosed ^DatagramSocket (.-socket socket)) ; by the interrupt of this thread
      (close socket))
    (transport/check-interrupt)
    (if here?
      (refusals/closed operation :udp-socket socket)
      (refusals/socket-failed operation host port cause))))

;; ---- options

(defn- group-address ^SocketAddress [operation host]
  (let [address (names/address operation host)]
    (when-not (.isMulticastAddress address)
      (options/refuse-group operation host))
    (InetSocketAddress. address 0)))

(defn- set-socket-options
  [operation ^DatagramSocket socket
   {:keys [broadcast recbuf sndbuf multicast-ttl multicast-loop add-membership drop-membership]}]
  (when (some? broadcast) (.setBroadcast socket broadcast))
  (when recbuf (.setReceiveBufferSize socket recbuf))
  (when sndbuf (.setSendBufferSize socket sndbuf))
  (when multicast-ttl (.setOption socket StandardSocketOptions/IP_MULTICAST_TTL (int multicast-ttl)))
  (when (some? multicast-loop) (.setOption socket StandardSocketOptions/IP_MULTICAST_LOOP multicast-loop))
  (when add-membership (.joinGroup socket (group-address operation add-membership) nil))
  (when drop-membership (.leaveGroup socket (group-address operation drop-membership) nil)))

(defn set-options
  "Changes the options of an open socket."
  [^UdpSocket socket {:keys [active] :as given}]
  (check-open "set-options" socket)
  (active/check-owner active (:owner @(.-state socket)))
  (try
    (set-socket-options "set-options" (.-socket socket) given)
    (catch IOException e
      (throw (failed "set-options" socket (.-local socket) e))))
  (active/change-options socket given))

;; ---- opened

(defn- bound ^DatagramSocket [port {:keys [host reuse-address] :as options}]
  (let [address (when host (names/address "open" host))
        socket (DatagramSocket. ^SocketAddress (identity nil))]
    (try
      (when (some? reuse-address) (.setReuseAddress socket reuse-address))
      (set-socket-options "open" socket (select-keys options [:recbuf]))
      (.bind socket (InetSocketAddress. ^InetAddress address (int port)))
      (set-socket-options "open" socket options)
      socket
      (catch Throwable e
        (.close socket)
        (throw (if (instance? IOException e)
                 (tcp/bind-failed "open" host port e)
                 e))))))

(def ^:private ^:const room "More bytes than a datagram has." 65536)

(defn open
  "A socket that belongs to the current process, if there is one."
  [port options]
  (let [owner (active/current-owner)
        active (active/active-at-first options owner)
        _ (await-closed port)
        socket (bound port options)
        udp (UdpSocket. socket (tcp/address (.getLocalSocketAddress socket))
                        (atom {:owner owner :active active :options {:as (:as options :bytes)}})
                        (volatile! nil) (delay (DatagramPacket. (byte-array room) room)) (ReentrantLock.))]
    (when-not (or (nil? owner) (owned/own owner udp))
      (close udp))
    (active/ensure-reader udp)
    udp))

;; ---- received. The caller holds `reading`.

(defn- data-of [^DatagramPacket packet]
  (assoc (tcp/address (.getSocketAddress packet))
         :data (java.util.Arrays/copyOf (.getData packet) (.getLength packet))))

(defn- await-datagram
  "The next datagram, which stays in the input."
  [^UdpSocket socket deadline]
  (or @(.-input socket)
      (let [^DatagramSocket jdk (.-socket socket)
            ^DatagramPacket packet @(.-packet socket)]
        (.setLength packet room)
        (.setSoTimeout jdk (tcp/whole-millis deadline))
        (waits/at waits/for-data jdk
          (.receive jdk packet))
        (vreset! (.-input socket) (data-of packet)))))

(defn- take-datagram [^UdpSocket socket datagram]
  (vreset! (.-input socket) nil)
  (if (= :string (:as (:options @(.-state socket))))
    (update datagram :data #(String. ^bytes % StandardCharsets/UTF_8))
    datagram))

(defn- messages-of [socket datagram active]
  (let [{:keys [host port data]} (take-datagram socket datagram)]
    {:messages (cond-> [[:udp socket host port data]]
                 (= 1 active) (conj [:udp-passive socket]))}))

(extend-type UdpSocket
  active/Source
  (state-of [socket] (.-state socket))
  (lock-of [socket] (.-reading socket))
  (close [socket] (close socket))
  (await-packet [socket] (await-datagram socket clock/infinite))
  (messages-of [socket datagram active] (messages-of socket datagram active))
  (messages-of-failure [socket cause]
    {:last? true :messages [[:udp-error socket (active/word cause)]]}))

(defn- check-recv [^UdpSocket socket]
  (check-open "recv-from" socket)
  (when-some [active (:active @(.-state socket))]
    (when active
      (refusals/refuse-active "recv-from" socket active))))

(defn- receive [socket deadline]
  (check-recv socket)
  (try
    (take-datagram socket (await-datagram socket deadline))
    (catch SocketTimeoutException _ ::transport/timeout)
    (catch IOException e
      (throw (failed "recv-from" socket (.-local ^UdpSocket socket) e)))))

(defn recv
  "The next datagram: {:host h :port p :data d}."
  [^UdpSocket socket {:keys [timeout] :or {timeout :infinity} :as options}]
  (check-recv socket)
  (let [deadline (clock/deadline (arguments/nanos :timeout timeout))
        datagram (transport/locked (.-reading socket) deadline #(receive socket deadline))]
    (if (= ::transport/timeout datagram)
      (timeouts/outcome options 'magnetar.net/recv-from socket timeout [socket options])
      datagram)))

;; ---- sent

(defn- data-bytes ^bytes [data]
  (cond
    (string? data) (.getBytes ^String data StandardCharsets/UTF_8)
    (bytes? data) data
    :else (options/refuse-data "send-to" data)))

(defn send-data
  "Sends one datagram."
  [^UdpSocket socket host port data]
  (check-open "send-to" socket)
  (let [bytes (data-bytes data)
        address (names/address "send-to" host)
        packet (DatagramPacket. bytes (alength bytes) ^InetAddress address (int port))]
    (try
      (waits/at waits/for-room (.getSocketAddress packet)
        (.send ^DatagramSocket (.-socket socket) packet))
      (catch IOException e
        (throw (failed "send-to" socket {:host host :port port} e))))))
