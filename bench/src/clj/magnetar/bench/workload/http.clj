(ns magnetar.bench.workload.http
  "Experiments A2 and B: pages of a slow server, by the blocking and by the asynchronous form of the JDK's client."
  (:require
   [magnetar.async :as a]
   [magnetar.fold :as fold]
   [magnetar.scope :as scope :refer [fork with-scope]])
  (:import
   (com.sun.net.httpserver HttpExchange HttpHandler HttpServer)
   (java.net InetAddress InetSocketAddress URI)
   (java.net.http HttpClient HttpRequest HttpResponse HttpResponse$BodyHandlers)
   (java.util.concurrent CompletableFuture Executors)
   (java.util.function BiConsumer)))

(set! *warn-on-reflection* true)

(defn- answer-late [^HttpExchange exchange ms]
  (Thread/sleep (long ms))
  (let [bytes (.getBytes (str "page " (.getPath (.getRequestURI exchange))))]
    (.sendResponseHeaders exchange 200 (alength bytes))
    (with-open [out (.getResponseBody exchange)]
      (.write out bytes))))

(defn start-server
  "Starts a server on a free port of the loopback address that answers each request after so many milliseconds.

  Example: (.stop (start-server 50) 0)"
  ^HttpServer [ms]
  (doto (HttpServer/create (InetSocketAddress. (InetAddress/getLoopbackAddress) 0) 1024)
    (.createContext "/" (reify HttpHandler (handle [_ exchange] (answer-late exchange ms))))
    (.setExecutor (Executors/newVirtualThreadPerTaskExecutor))
    (.start)))

(defn- request ^HttpRequest [^HttpServer server i]
  (let [address (.getAddress server)]
    (.build (HttpRequest/newBuilder
              (URI. (str "http://" (.getHostAddress (.getAddress address)) ":" (.getPort address) "/" i))))))

(defn- body [^HttpResponse response]
  (count (.body response)))

(defn- fetch [^HttpClient client request]
  (body (.send client request (HttpResponse$BodyHandlers/ofString))))

(defn- fetch-later ^CompletableFuture [^HttpClient client request]
  (.sendAsync client request (HttpResponse$BodyHandlers/ofString)))

(defn- take-sum [n ch]
  (reduce + (repeatedly n #(a/<!! ch))))

(defn- put-on ^BiConsumer [ch]
  (reify BiConsumer
    (accept [_ response failure] (a/put! ch (or failure (body response))))))

(defn- by-go [client requests]
  (let [ch (a/chan)]
    (doseq [request requests]
      (a/go (a/>! ch (fetch client request))))
    (take-sum (count requests) ch)))

(defn- by-callback [client requests]
  (let [ch (a/chan)]
    (doseq [request requests]
      (.whenComplete (fetch-later client request) (put-on ch)))
    (take-sum (count requests) ch)))

(defn- by-stages [client requests]
  (reduce + (map (comp body scope/join) (mapv #(fetch-later client %) requests))))

(defn- by-forks [client requests]
  (with-scope [s]
    (reduce + (map deref (mapv #(fork s fetch client %) requests)))))

(defn pages
  "n pages from a server that takes so many milliseconds for each; a value is the sum of their lengths.

  Example: (pages 20 50)"
  [n ms]
  (let [client (HttpClient/newHttpClient)
        server (start-server ms)
        requests (mapv #(request server %) (range n))]
    [["go, blocking" #(by-go client requests)]
     ["fork, blocking" #(by-forks client requests)]
     ["pmap, blocking" #(reduce + (fold/pmap (fn [request] (fetch client request)) requests))]
     ["sendAsync, callback onto a channel" #(by-callback client requests)]
     ["sendAsync, join" #(by-stages client requests)]]))
