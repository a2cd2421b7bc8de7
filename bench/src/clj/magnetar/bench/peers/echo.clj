(ns magnetar.bench.peers.echo
  "The one client of all echo servers: many connections, each active in turn, some hundred messages in flight.

  It is one platform thread with the JDK's blocking sockets. It writes to the next connection and reads from the one whose turn was
  `window` messages ago, so that nothing in it depends on how the server answers; each answer is compared byte by byte."
  (:require
   [clojure.string :as str]
   [magnetar.bench.machine :as machine])
  (:import
   (java.io IOException InputStream)
   (java.net InetAddress InetSocketAddress Socket)
   (java.nio ByteBuffer)
   (java.util Arrays)))

(set! *warn-on-reflection* true)

(def ^:private length 64)
(def ^:private window 256)
(def ^:private patience-ms 10000)

(defn possible
  "How many of n connections this process may have, by its limit of open files; a few hundred are left for other files.

  Example: (possible 10000) => 10000"
  ^long [n]
  (let [soft (some->> (machine/kernel-file "/proc/self/limits") (re-find #"Max open files\s+(\d+)") second parse-long)]
    (if soft
      (max 1 (min (long n) (- (long soft) 500)))
      (long n))))

(defn- connect ^Socket [port]
  (let [socket (Socket.)]
    (.setTcpNoDelay socket true)
    (.setSoTimeout socket patience-ms)
    (.setSoLinger socket true 0) ; ends by a reset: thousands of ports would rest in TIME_WAIT otherwise
    (.connect socket (InetSocketAddress. (InetAddress/getLoopbackAddress) (int port)) (int patience-ms))
    socket))

(defn- write-message [^Socket socket ^ByteBuffer message ^long i]
  (.putLong message 0 i)
  (.write (.getOutputStream socket) (.array message)))

(defn- read-message [^Socket socket ^ByteBuffer expected ^bytes answer ^long i]
  (let [n (.readNBytes ^InputStream (.getInputStream socket) answer 0 length)]
    (.putLong expected 0 i)
    (when-not (and (= n (long length)) (Arrays/equals answer (.array expected)))
      (throw (IOException. (str "message " i " did not come back as it was sent: " n " bytes"))))))

(defn- message ^ByteBuffer []
  (ByteBuffer/wrap (byte-array (map unchecked-byte (range length)))))

(defn exchange
  "Sends n messages over the connections in turn and reads their echoes, `window` behind; nanoseconds.

  Fails when one does not come back as it was sent, or not within ten seconds.

  Example: (exchange sockets 20000)"
  [sockets n]
  (let [^objects sockets (object-array sockets)
        all (alength sockets)
        n (long n)
        lag (min (long window) all)
        sent (message) expected (message) answer (byte-array length)
        start (System/nanoTime)]
    (loop [i 0]
      (when (< i (+ n lag))
        (when (<= lag i)
          (read-message (aget sockets (rem (- i lag) all)) expected answer (- i lag)))
        (when (< i n)
          (write-message (aget sockets (rem i all)) sent i))
        (recur (inc i))))
    (- (System/nanoTime) start)))

(defn- close-all [sockets]
  (run! #(.close ^Socket %) sockets))

(defn connections
  "n connections to the port; after each few hundred the newest has to answer, so that no more wait to be accepted than a backlog holds.

  Example: (connections 40321 1000)"
  [port n]
  (let [sockets (java.util.ArrayList. (int n))]
    (try
      (dotimes [i n]
        (.add sockets (connect port))
        (when (zero? (rem (inc i) 256))
          (exchange [(.get sockets i)] 1)))
      (vec sockets)
      (catch IOException e
        (close-all sockets)
        (throw e)))))

(defn measure
  "Nanoseconds for n messages over so many connections to the port, once each connection has been used; the connections are closed.

  Blocks. Fails, with what the server did, when an echo is wrong or late.

  Example: (measure 40321 10000 20000)"
  [port connected n]
  (try
    (let [sockets (connections port (possible connected))]
      (try
        (exchange sockets (count sockets))
        (exchange sockets n)
        (finally (close-all sockets))))
    (catch IOException e
      (throw (ex-info (str "The echo server failed: " (str/trim (str (ex-message e)))) {:port port} e)))))
