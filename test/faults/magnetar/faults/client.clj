(ns magnetar.faults.client
  "Clients of bare sockets: healthy ones, whose answers are checked and timed, and those that misbehave."
  (:require
   [clojure.string :as str])
  (:import
   (java.io BufferedInputStream ByteArrayOutputStream Closeable IOException InputStream)
   (java.net InetSocketAddress Socket SocketTimeoutException StandardSocketOptions)
   (java.nio ByteBuffer)
   (java.nio.channels SelectionKey Selector SocketChannel)
   (java.nio.charset StandardCharsets)
   (java.util Random)
   (java.util.concurrent Callable ExecutorService Executors Future)))

(set! *warn-on-reflection* true)

(def limit-ms "How long a client waits for what must come." 20000)

(defn bytes-of
  "The text as bytes, one for each character."
  ^bytes [text]
  (.getBytes (str text) StandardCharsets/ISO_8859_1))

(deftype Connection [^Socket socket ^InputStream in]
  Closeable
  (close [_] (.close socket)))

(defn connect
  "A connection to the port."
  ^java.io.Closeable [port]
  (let [socket (doto (Socket. "127.0.0.1" (int port))
                 (.setTcpNoDelay true)
                 (.setSoTimeout limit-ms))]
    (Connection. socket (BufferedInputStream. (.getInputStream socket)))))

(defn send-all
  "Sends bytes, or the text as it is."
  [^Connection connection data]
  (doto (.getOutputStream ^Socket (.-socket connection))
    (.write (if (bytes? data) ^bytes data (bytes-of data)))
    (.flush)))

(defn read-until
  "What the server sends until the text so far ends like this, or the stream ends."
  ^String [^Connection connection end]
  (let [^InputStream in (.-in connection)
        text (StringBuilder.)]
    (loop []
      (let [b (.read in)]
        (when-not (neg? b)
          (.append text (char b))
          (when-not (str/ends-with? text end)
            (recur)))))
    (str text)))

(defn read-line-of
  "The next line, with its end."
  [connection]
  (read-until connection "\n"))

(defn read-response
  "One HTTP response with a length: [status body]."
  [^Connection connection]
  (let [head (read-until connection "\r\n\r\n")
        length (some-> (re-find #"(?i)content-length: (\d+)" head) second parse-long)]
    [(some-> (re-find #"^HTTP/1.1 (\d+)" head) second parse-long)
     (String. (.readNBytes ^InputStream (.-in connection) (int (or length 0))) StandardCharsets/UTF_8)]))

(defn read-rest
  "[text end] that the server sends until the end of the connection, which is :closed, :reset, or :late if it does not come."
  [^Connection connection]
  (let [out (ByteArrayOutputStream.)
        end (try
              (.transferTo ^InputStream (.-in connection) out)
              :closed
              (catch SocketTimeoutException _ :late)
              (catch IOException _ :reset))]
    [(.toString out StandardCharsets/ISO_8859_1) end]))

(defn get-text
  "The text of a request of HTTP, with lines of headers."
  [method path & headers]
  (str method " " path " HTTP/1.1\r\nHost: test\r\n" (apply str (map #(str % "\r\n") headers)) "\r\n"))

(defn resp
  "A command of RESP."
  [& words]
  (apply str "*" (count words) "\r\n" (map #(str "$" (count (str %)) "\r\n" % "\r\n") words)))

;; ---- the healthy: (ask socket i) is true if the ith answer is right, else the answer

(defn right-or
  "True if the answer is the expected one, else the answer."
  [expected answer]
  (or (= expected answer) [:got answer]))

(defn echo
  "Asks the echo server."
  [socket i]
  (send-all socket (str "order " i "\n"))
  (right-or (str "order " i "\n") (read-line-of socket)))

(defn hello
  "Asks the HTTP server."
  [socket _]
  (send-all socket (get-text "GET" "/hello"))
  (right-or [200 "hello"] (read-response socket)))

(defn- ask-anew
  "Asks by a connection of its own. If that took long, the kept connection may have been idle for too long, and is replaced."
  [ask port kept i]
  (let [begin (System/nanoTime)
        outcome (with-open [socket (connect port)] (ask socket i))]
    (when (< 1000000000 (- (System/nanoTime) begin))
      (.close ^Closeable @kept)
      (reset! kept (connect port)))
    outcome))

(defn- milliseconds-of
  "[milliseconds right?] of an ask. Each tenth one opens a connection."
  [ask port kept i]
  (let [begin (System/nanoTime)
        right? (try
                 (if (zero? (rem (long i) 10))
                   (ask-anew ask port kept i)
                   (ask @kept i))
                 (catch IOException e e))]
    [(/ (- (System/nanoTime) begin) 1e6) right?]))

(defn measure
  "Asks one time after the other, until (enough? n) says so after n times: {:ms [..] :wrong [..]}."
  [ask port enough?]
  (let [kept (atom (connect port))]
    (try
      (loop [i 1 ms [] wrong []]
        (let [[took right?] (milliseconds-of ask port kept i)
              ms (conj ms took)
              wrong (if (true? right?) wrong (conj wrong [i right?]))]
          (if (or (enough? i) (< 10 (count wrong)))
            {:ms ms :wrong wrong}
            (recur (inc i) ms wrong))))
      (finally (.close ^Closeable @kept)))))

(defn percentile
  "The p-th percentile of numbers."
  [p numbers]
  (let [sorted (vec (sort numbers))]
    (nth sorted (min (dec (count sorted)) (quot (* (long p) (count sorted)) 100)))))

;; ---- those that misbehave

(defn in-parallel
  "Calls (f i) for i from 0 below n, in 50 threads; returns the values."
  [n f]
  (with-open [^ExecutorService threads (Executors/newFixedThreadPool 50)]
    (mapv #(.get ^Future %)
          (mapv (fn [i] (.submit threads ^Callable (fn [] (f i)))) (range n)))))

(defn reset
  "Closes the connection by a reset."
  [^Connection connection]
  (.setSoLinger ^Socket (.-socket connection) true 0)
  (.close connection))

(defn exchange
  "Sends the data, and reads to the end: [text end]. What cannot be sent any more ends the sending."
  [port data]
  (with-open [socket (connect port)]
    (try
      (send-all socket data)
      (catch IOException _ nil))
    (read-rest socket)))

(defn half-close
  "Sends the text, shuts the sending side, and reads to the end: [text end]."
  [port text]
  (with-open [connection (connect port)]
    (send-all connection text)
    (.shutdownOutput ^Socket (.-socket ^Connection connection))
    (read-rest connection)))

(defn garbage
  "n bytes of the seed."
  ^bytes [seed n]
  (let [bytes (byte-array n)]
    (.nextBytes (Random. seed) bytes)
    bytes))

(def client-hello
  "The beginning of a handshake of TLS 1.2, which says that 512 bytes follow."
  (byte-array (map unchecked-byte (concat [0x16 3 1 2 0 1 0 1 0xfc 3 3] (garbage 7 300)))))

;; Many slow clients in one thread, by a selector. A client is a key with {:text so far}.

(defn- channel-to ^SocketChannel [port]
  (SocketChannel/open (InetSocketAddress. "127.0.0.1" (int port))))

(defn- take-answer
  "Adds what has arrived to the answer of the client; at the end of the stream closes it, and tells `end`."
  [^SelectionKey key end]
  (let [buffer (ByteBuffer/allocate 4096)
        n (int (try (.read ^SocketChannel (.channel key) buffer) (catch IOException _ -2)))]
    (if (pos? n)
      (.attach key (str (.attachment key) (String. (.array buffer) 0 n StandardCharsets/ISO_8859_1)))
      (do (end (str (.attachment key)))
          (.close (.channel key))))))

(defn- write-some
  "Writes to all clients that are left. A write that fails is seen by the read after it."
  [^Selector selector ^bytes data]
  (doseq [^SelectionKey key (.keys selector)
          :when (.isValid key)]
    (try
      (.write ^SocketChannel (.channel key) (ByteBuffer/wrap data))
      (catch IOException _ nil))))

(defn- register [^Selector selector ^SocketChannel channel]
  (.configureBlocking channel false)
  (.register channel selector SelectionKey/OP_READ "")
  channel)

(defn dribble
  "n clients send the text, and then a byte each 20 ms, until the server has closed all of them, for a minute at most, or until (enough?).
  Returns a map from the server's answers to how often each came; :open for a client that was not closed."
  [port n text ^String byte enough?]
  (with-open [selector (Selector/open)]
    (let [answers (atom [])
          channels (mapv (fn [_] (register selector (channel-to port))) (range n))
          deadline (+ (System/nanoTime) (* 1000000 3 (long limit-ms)))]
      (write-some selector (bytes-of text))
      (loop []
        (.select selector 20)
        (doseq [key (.selectedKeys selector)] (take-answer key #(swap! answers conj %)))
        (.clear (.selectedKeys selector))
        (when (and (< (count @answers) (long n)) (not (enough?)) (< (System/nanoTime) deadline))
          (write-some selector (bytes-of byte))
          (recur)))
      (run! #(.close ^SocketChannel %) channels)
      (frequencies (into @answers (repeat (- (long n) (count @answers)) :open))))))

(defn- write-until-full
  "Sends the data again and again, until the server has not read for a while: the buffers of the system are full then."
  [^SocketChannel channel ^bytes data]
  (.configureBlocking channel false)
  (with-open [selector (Selector/open)]
    (.register channel selector SelectionKey/OP_WRITE)
    (loop [buffer (ByteBuffer/wrap data) sent 0]
      (let [n (long (try (.write channel buffer) (catch IOException _ -1)))]
        (cond
          (neg? n) sent
          (not (.hasRemaining buffer)) (recur (ByteBuffer/wrap data) (+ sent n))
          (pos? (.select selector 200)) (do (.clear (.selectedKeys selector)) (recur buffer (+ sent n)))
          :else (+ sent n))))))

(defn open-deaf
  "A connection that never reads, with a small buffer, after it has sent the text."
  ^SocketChannel [port text]
  (let [channel (SocketChannel/open)]
    (.setOption channel StandardSocketOptions/SO_RCVBUF (Integer/valueOf (int 4096)))
    (.connect channel (InetSocketAddress. "127.0.0.1" (int port)))
    (.write channel (ByteBuffer/wrap (bytes-of text)))
    channel))

(defn fill
  "Sends the text on a connection that never reads, until the server takes no more; returns the number of bytes."
  [channel text]
  (write-until-full channel (bytes-of text)))

(defn close-all
  "Closes the connections."
  [closeables]
  (run! #(.close ^Closeable %) closeables))
