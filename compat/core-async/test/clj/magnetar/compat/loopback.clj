(ns magnetar.compat.loopback
  "An HTTP server of this JVM, on loopback."
  (:import
   (com.sun.net.httpserver HttpExchange HttpHandler HttpServer)
   (java.net InetAddress InetSocketAddress ServerSocket)
   (java.nio ByteBuffer)
   (java.nio.charset StandardCharsets)
   (java.util.concurrent Executors)))

(set! *warn-on-reflection* true)

(defn- request-of [^HttpExchange exchange]
  {:method (.getRequestMethod exchange)
   :path (.getPath (.getRequestURI exchange))
   :query (.getQuery (.getRequestURI exchange))
   :headers (update-vals (into {} (.getRequestHeaders exchange)) first)
   :body (slurp (.getRequestBody exchange))})

(defn- answer [^HttpExchange exchange {:keys [status body headers]}]
  (let [content (.getBytes (str body) StandardCharsets/UTF_8)]
    (doseq [[k v] headers]
      (.set (.getResponseHeaders exchange) k v))
    (.sendResponseHeaders exchange status (if (zero? (alength content)) -1 (alength content)))
    (with-open [out (.getResponseBody exchange)]
      (.write out content))))

(defn- handler [f]
  (reify HttpHandler
    (handle [_ exchange] (answer exchange (f (request-of exchange))))))

(defn start
  "A server that answers with f of the request, {:status :body :headers}; close it."
  ^HttpServer [f]
  (doto (HttpServer/create (InetSocketAddress. (InetAddress/getLoopbackAddress) 0) 0)
    (.createContext "/" (handler f))
    (.setExecutor (Executors/newVirtualThreadPerTaskExecutor))
    .start))

(defn port
  "The port of the server."
  [^HttpServer server]
  (.getPort (.getAddress server)))

(defmacro with-server
  "Does body with port-name bound to the port of a server that answers with f of the request."
  [[port-name f] & body]
  `(let [^HttpServer server# (start ~f)
         ~port-name (port server#)]
     (try ~@body (finally (.stop server# 0)))))

(defn refused-port
  "A port without a listener."
  []
  (with-open [socket (ServerSocket. 0)]
    (.getLocalPort socket)))

(defn text
  "The text of a ByteBuffer, or nil."
  [^ByteBuffer body]
  (when body
    (str (.decode StandardCharsets/UTF_8 (.duplicate body)))))

(defn buffer
  "The text as a ByteBuffer."
  [^String text]
  (ByteBuffer/wrap (.getBytes text StandardCharsets/UTF_8)))
