(ns magnetar.http.support
  "What the tests of HTTP servers share: servers, clients of bare sockets, and waiting with a bound."
  (:require
   [clojure.string :as str]
   [magnetar.dev.certificates :as certificates]
   [magnetar.http :as http]
   [magnetar.net.contexts :as contexts]
   [magnetar.report :as report])
  (:import
   (java.io ByteArrayOutputStream IOException InputStream)
   (java.net Socket SocketTimeoutException URI)
   (java.net.http HttpClient HttpClient$Version HttpRequest HttpRequest$BodyPublishers HttpResponse HttpResponse$BodyHandlers)
   (java.nio.charset StandardCharsets)
   (javax.net.ssl SSLContext)
   (magnetar.http.server HttpServer)))

(set! *warn-on-reflection* true)

(def limit-ms "How long a test waits for what must come." 20000)

(def home "The address of all servers of the tests." "127.0.0.1")

(defn value-of
  "The value of a promise or future, :late if it does not come."
  [reference]
  (deref reference limit-ms :late))

(defn wait-until
  "True once `ready?` is; false if it does not come to be."
  [ready?]
  (let [deadline (+ (System/nanoTime) (* 1000000 (long limit-ms)))]
    (loop []
      (cond
        (ready?) true
        (> (System/nanoTime) deadline) false
        :else (do (Thread/yield) (recur))))))

(defmacro eventually
  "True once the expression is true; false if it does not come to be."
  [expression]
  `(wait-until (fn [] ~expression)))

(defn with-failures*
  "Calls f with an atom of the failures that are reported meanwhile."
  [f]
  (let [failures (atom [])
        hook #(swap! failures conj %)]
    (report/add-hook :failure hook)
    (try
      (f failures)
      (finally (report/remove-hook :failure hook)))))

(defmacro with-failures
  "Runs body with an atom of the failures that are reported meanwhile."
  [[failures] & body]
  `(with-failures* (fn [~failures] ~@body)))

(defn serve*
  "Calls f with a server, which is stopped afterwards."
  [handler options f]
  (let [server (http/start handler (merge {:port 0 :host home} options))]
    (try
      (f server)
      (finally (http/stop server {:timeout 0})))))

(defmacro with-server
  "Runs body with a server of the handler."
  [[server handler options] & body]
  `(serve* ~handler ~options (fn [~server] ~@body)))

;; ---- bare sockets

(defn connect
  "A socket to the server."
  ^Socket [server]
  (doto (Socket. ^String home (int (http/port server)))
    (.setSoTimeout limit-ms)))

(defn send-text
  "Sends the text as it is."
  [^Socket socket ^String text]
  (doto (.getOutputStream socket)
    (.write (.getBytes text StandardCharsets/ISO_8859_1))
    (.flush))
  nil)

(defn read-rest
  "All that the server sends until it closes the connection, or :reset, or :late if it does not."
  [^Socket socket]
  (let [out (ByteArrayOutputStream.)
        in (.getInputStream socket)]
    (try
      (.transferTo in out)
      (.toString out StandardCharsets/UTF_8)
      (catch SocketTimeoutException _ :late)
      (catch IOException _ (if (zero? (.size out)) :reset (str (.toString out StandardCharsets/UTF_8) "<reset>"))))))

(defn- read-head ^String [^InputStream in]
  (let [text (StringBuilder.)]
    (loop []
      (let [b (.read in)]
        (when-not (neg? b)
          (.append text (char b))
          (when-not (str/ends-with? text "\r\n\r\n")
            (recur)))))
    (str text)))

(defn read-response
  "One response with a length: {:status :head :body}."
  [^Socket socket]
  (let [in (.getInputStream socket)
        head (read-head in)
        length (some-> (re-find #"(?i)content-length: (\d+)" head) second parse-long)]
    {:status (some-> (re-find #"^HTTP/1.1 (\d+)" head) second parse-long)
     :head head
     :body (String. (.readNBytes in (int (or length 0))) StandardCharsets/UTF_8)}))

(defn request-text
  "The text of a request, with lines of headers."
  [method path & headers]
  (str method " " path " HTTP/1.1\r\nHost: test\r\n" (apply str (map #(str % "\r\n") headers)) "\r\n"))

(defn exchange
  "All that the server answers to the text, until it closes the connection."
  [server text]
  (with-open [socket (connect server)]
    (send-text socket text)
    (read-rest socket)))

(defn get-raw
  "All that the server answers to a GET, whose connection is closed after it."
  [server path & headers]
  (exchange server (apply request-text "GET" path "Connection: close" headers)))

(defn status-of
  "The status of a text that the server has sent."
  [text]
  (some-> (re-find #"^HTTP/1.1 (\d+)" (str text)) second parse-long))

;; ---- HTTP/2, by its frames

(defn frame
  "The bytes of a frame: its type, flags and stream, and the bytes of its payload."
  [type flags stream payload]
  (let [n (count payload)]
    (concat [(bit-shift-right n 16) (bit-shift-right n 8) n type flags 0 0 (bit-shift-right (long stream) 8) stream] payload)))

(defn get-frame
  "The bytes of the head of GET / on a stream, which ends it."
  [stream]
  (frame 1 5 stream (concat [0x82 0x84 0x86 0x41 4] (.getBytes "test")))) ; HPACK: indices of the static table, and the authority

(defn send-bytes
  "Sends numbers as bytes, from several sequences."
  [^Socket socket parts]
  (doto (.getOutputStream socket)
    (.write (byte-array (map unchecked-byte (apply concat parts))))
    (.flush))
  nil)

(defn connect-http2
  "A socket to the server that has sent the preface of HTTP/2."
  ^Socket [server]
  (doto (connect server)
    (send-bytes [(.getBytes "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") (frame 4 0 0 [])])))

(defn read-frame
  "The next frame that the server sends: {:type :stream :payload}; nil at the end."
  [^Socket socket]
  (let [in (.getInputStream socket)
        head (.readNBytes in 9)
        number (fn [from to] (reduce (fn [n i] (+ (* 256 (long n)) (bit-and 255 (aget head (int i))))) 0 (range from to)))]
    (when (= 9 (alength head))
      {:type (number 3 4) :stream (number 5 9) :payload (mapv #(bit-and 255 (long %)) (.readNBytes in (int (number 0 3))))})))

;; ---- the client of the JDK

(defn tls
  "The option :tls of a server with this certificate."
  [name & [options]]
  (merge (certificates/identity-of name) options))

(defn- context
  "What the client trusts, and its own certificate if it has one."
  ^SSLContext [name]
  (contexts/context (contexts/of-client (merge {:verify :verify-peer :cacertfile (certificates/path "ca.pem")}
                                               (when name (certificates/identity-of name))))))

(defn client
  "A client of HTTP/2 or HTTP/1.1, with a certificate or none. The JDK's speaks HTTP/2 with TLS alone."
  (^HttpClient [version] (client version nil))
  (^HttpClient [version certificate]
   (-> (HttpClient/newBuilder)
       (.version (if (= 2 version) HttpClient$Version/HTTP_2 HttpClient$Version/HTTP_1_1))
       (.sslContext (context certificate))
       (.build))))

(defn connect-tls
  "A socket with TLS to the server."
  ^Socket [server]
  (doto (.createSocket (.getSocketFactory (context nil)) ^String home (int (http/port server)))
    (.setSoTimeout limit-ms)))

(defn for-version
  "The options of a server that a client of this version needs."
  [version]
  (when (= 2 version)
    {:tls (tls "server")}))

(defn- scheme [server]
  (if (:tls (:options (.-service ^HttpServer server))) "https" "http"))

(defn request
  "A request for the client: of a method, with a body that is a string or nil."
  ^HttpRequest [server method path body]
  (-> (HttpRequest/newBuilder (URI. (str (scheme server) "://" home ":" (http/port server) path)))
      (.method method (if body (HttpRequest$BodyPublishers/ofString body) (HttpRequest$BodyPublishers/noBody)))
      (.build)))

(defn fetch
  "[status body headers] of a request by the client."
  ([client server path] (fetch client server "GET" path nil))
  ([^HttpClient client server method path body]
   (let [^HttpResponse response (.send client (request server method path body) (HttpResponse$BodyHandlers/ofString))]
     [(.statusCode response) (.body response) (into {} (.map (.headers response)))])))
