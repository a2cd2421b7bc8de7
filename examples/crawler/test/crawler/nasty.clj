(ns crawler.nasty
  "A loopback server that answers every connection with the same raw bytes, sensible or not."
  (:import
   (java.net InetAddress ServerSocket Socket SocketException)
   (java.nio.charset StandardCharsets)))

(set! *warn-on-reflection* true)

(defn- reply
  "Answers the first packet of one connection with `text`, then closes it."
  [^Socket socket ^String text]
  (try
    (with-open [socket socket]
      (.read (.getInputStream socket) (byte-array 8192))
      (.write (.getOutputStream socket) (.getBytes text StandardCharsets/ISO_8859_1)))
    (catch SocketException _)))

(defn- serve [^ServerSocket listener text]
  (try
    (while true
      (let [socket (.accept listener)]
        (Thread/startVirtualThread #(reply socket text))))
    (catch SocketException _)))

(defn with-server
  "Calls `f` with the address of a server that answers everything with `text`; returns what `f` returns."
  [text f]
  (with-open [listener (ServerSocket. 0 50 (InetAddress/getLoopbackAddress))]
    (Thread/startVirtualThread #(serve listener text))
    (f (str "http://127.0.0.1:" (.getLocalPort listener) "/"))))

(defn free-port
  "Returns a loopback port without a listener."
  []
  (with-open [listener (ServerSocket. 0 1 (InetAddress/getLoopbackAddress))]
    (.getLocalPort listener)))
