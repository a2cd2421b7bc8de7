(ns helidon
  "The routes of magnetar.bench.http by Helidon: bin/magnetar run bench/http/serve.clj helidon 8084"
  (:import
   (io.helidon.webserver WebServer WebServerConfig$Builder)
   (io.helidon.webserver.http Handler HttpRouting HttpRouting$Builder ServerRequest ServerResponse)
   (java.nio.charset StandardCharsets)))

(set! *warn-on-reflection* true)

(def ^:private ^bytes hello (.getBytes "hello world\n" StandardCharsets/UTF_8))

(defn- answer [^ServerResponse response ^String type ^bytes content]
  (.header response "Content-Type" (into-array String [type]))
  (.send response content))

(defn- handler ^Handler [type content]
  (reify Handler
    (handle [_ request response]
      (answer response type (content request)))))

(defn- body [^ServerRequest request]
  (.readAllBytes (.inputStream (.content request))))

(defn- handlers [handler]
  (into-array Handler [handler]))

(defn- routing ^HttpRouting$Builder []
  (doto (HttpRouting/builder)
    (.get "/hello" (handlers (handler "text/plain" (fn [_] hello))))
    (.post "/echo" (handlers (handler "application/json" body)))))

(defn start
  "Starts Helidon as it is by default, with HTTP/1.1 and HTTP/2; returns the port."
  [port]
  (let [builder (doto ^WebServerConfig$Builder (WebServer/builder)
                  (.host "127.0.0.1")
                  (.port (int port))
                  (.routing (routing)))]
    (.port (.start (.build builder)))))
