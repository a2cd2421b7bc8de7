(ns magnetar.bench.http
  "Servers for load programs such as wrk and h2load: the same two routes by magnetar.http, by bare Jetty on virtual threads, and by the JDK's server.

  GET /hello answers a line. POST /echo answers the body of the request, as JSON. `bench/peers/http/main.go` does the same in Go, and
  `bench/http/helidon.clj` with Helidon, which is on the class path of programs in that folder only.

    bin/magnetar run bench/http/serve.clj magnetar 8080"
  (:require
   [magnetar.http :as http])
  (:import
   (com.sun.net.httpserver HttpExchange HttpHandler HttpServer)
   (java.io InputStream OutputStream)
   (java.net InetSocketAddress)
   (java.nio ByteBuffer)
   (java.nio.charset StandardCharsets)
   (java.util.concurrent Executors)
   (org.eclipse.jetty.http2.server HTTP2CServerConnectionFactory)
   (org.eclipse.jetty.io Content$Source)
   (org.eclipse.jetty.server ConnectionFactory Handler Handler$Abstract HttpConfiguration HttpConnectionFactory Request Response Server ServerConnector)
   (org.eclipse.jetty.util.thread QueuedThreadPool)))

(set! *warn-on-reflection* true)

;; ---- ours

(defn- handler [{:keys [uri body]}]
  (if (= "/echo" uri)
    {:status 200 :headers {"Content-Type" "application/json"} :body (.readAllBytes ^InputStream body)}
    {:status 200 :headers {"Content-Type" "text/plain"} :body "hello world\n"}))

(defn start-magnetar
  "Starts magnetar.http with its usual limits, the door among them; returns the port.

  Example: (start-magnetar 0)"
  [port]
  (http/port (http/start handler {:port port :host "127.0.0.1"})))

;; ---- bare Jetty

(def ^:private ^bytes hello (.getBytes "hello world\n" StandardCharsets/UTF_8))

(defn- respond [^Response response type ^bytes content callback]
  (.put (.getHeaders response) "Content-Type" ^String type)
  (.write response true (ByteBuffer/wrap content) callback))

(defn- jetty-handler ^Handler []
  (proxy [Handler$Abstract] []
    (handle [^Request request response callback]
      (if (= "/echo" (.getPath (.getHttpURI request)))
        (respond response "application/json" (.readAllBytes (Content$Source/asInputStream request)) callback)
        (respond response "text/plain" hello callback))
      true)))

(defn start-jetty
  "Starts Jetty with virtual threads, and as many selectors and unaccepted connections as magnetar.http has; returns the port.

  Example: (start-jetty 0)"
  [port]
  (let [selectors (max 1 (quot (.availableProcessors (Runtime/getRuntime)) 2))
        pool (doto (QueuedThreadPool. (+ 4 selectors) (+ 4 selectors))
               (.setReservedThreads 0)
               (.setVirtualThreadsExecutor (Executors/newVirtualThreadPerTaskExecutor)))
        server (Server. pool)
        configuration (doto (HttpConfiguration.) (.setSendServerVersion false))
        factories [(HttpConnectionFactory. configuration) (HTTP2CServerConnectionFactory. configuration)]
        connector (doto (ServerConnector. server 1 selectors ^"[Lorg.eclipse.jetty.server.ConnectionFactory;" (into-array ConnectionFactory factories))
                    (.setHost "127.0.0.1")
                    (.setAcceptQueueSize 256)
                    (.setPort port))]
    (doto server
      (.addConnector connector)
      (.setHandler (jetty-handler))
      (.start))
    (.getLocalPort connector)))

;; ---- the JDK's server

(defn- answer [^HttpExchange exchange ^String type ^bytes content]
  (.set (.getResponseHeaders exchange) "Content-Type" type)
  (.sendResponseHeaders exchange 200 (alength content))
  (with-open [^OutputStream out (.getResponseBody exchange)]
    (.write out content)))

(defn- jdk-handler ^HttpHandler [type content]
  (reify HttpHandler
    (handle [_ exchange]
      (answer exchange type (content exchange)))))

(def ^:private jdk-settings
  "By default the JDK's server closes connections as soon as more than 200 are idle, and waits for the client's ACK before the second part of a
  response."
  {"sun.net.httpserver.maxIdleConnections" "10000"
   "sun.net.httpserver.nodelay" "true"})

(defn start-jdk
  "Starts the JDK's server with a virtual thread for each request; returns the port.

  Example: (start-jdk 0)"
  [port]
  (run! (fn [[property value]] (System/setProperty property value)) jdk-settings)
  (let [server (HttpServer/create (InetSocketAddress. "127.0.0.1" (int port)) 1024)]
    (doto server
      (.createContext "/hello" (jdk-handler "text/plain" (fn [_] hello)))
      (.createContext "/echo" (jdk-handler "application/json" (fn [^HttpExchange exchange] (.readAllBytes (.getRequestBody exchange)))))
      (.setExecutor (Executors/newVirtualThreadPerTaskExecutor))
      (.start))
    (.getPort (.getAddress server))))

;; ---- one of them

(defn- start-helidon [port]
  ((requiring-resolve 'helidon/start) port))

(defn -main
  "Serves until it is ended. The arguments are \"magnetar\", \"jetty\", \"jdk\" or \"helidon\", and the port."
  [which port]
  (let [start (case which "magnetar" start-magnetar "jetty" start-jetty "jdk" start-jdk "helidon" start-helidon)]
    (println "listens on" (start (parse-long port)))
    @(promise)))
