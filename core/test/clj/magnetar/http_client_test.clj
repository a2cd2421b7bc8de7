(ns magnetar.http-client-test
  "Experiments A2 and B: the asynchronous form of the JDK's client beside the blocking one, from a server on the loopback address."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.async :as a]
   [magnetar.fold :as fold]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.support :refer [eventually]])
  (:import
   (com.sun.net.httpserver HttpExchange HttpHandler HttpServer)
   (java.net InetAddress InetSocketAddress URI)
   (java.net.http HttpClient HttpRequest HttpResponse HttpResponse$BodyHandlers)
   (java.util.concurrent CompletableFuture CountDownLatch Executors)
   (java.util.function BiConsumer)))

(set! *warn-on-reflection* true)

(defn- answer [^HttpExchange exchange]
  (let [bytes (.getBytes (str "page " (.getPath (.getRequestURI exchange))))]
    (.sendResponseHeaders exchange 200 (alength bytes))
    (with-open [out (.getResponseBody exchange)]
      (.write out bytes))))

(defn- start-server
  "A server that calls `before` for each request, and then answers."
  ^HttpServer [before]
  (doto (HttpServer/create (InetSocketAddress. (InetAddress/getLoopbackAddress) 0) 1024)
    (.createContext "/" (reify HttpHandler (handle [_ exchange] (before) (answer exchange))))
    (.setExecutor (Executors/newVirtualThreadPerTaskExecutor))
    (.start)))

(defn- request ^HttpRequest [^HttpServer server i]
  (let [address (.getAddress server)]
    (.build (HttpRequest/newBuilder
              (URI. (str "http://" (.getHostAddress (.getAddress address)) ":" (.getPort address) "/" i))))))

(defn- page [^HttpResponse response]
  (.body response))

(defn- fetch [^HttpClient client request]
  (page (.send client request (HttpResponse$BodyHandlers/ofString))))

(defn- fetch-later ^CompletableFuture [^HttpClient client request]
  (.sendAsync client request (HttpResponse$BodyHandlers/ofString)))

(defn- take-all [n ch]
  (set (repeatedly n #(a/<!! ch))))

(def ^:private ways
  {"go, blocking"
   (fn [client requests]
     (let [ch (a/chan)]
       (doseq [r requests] (a/go (a/>! ch (fetch client r))))
       (take-all (count requests) ch)))
   "fork, blocking"
   (fn [client requests]
     (with-scope [s] (set (map deref (mapv #(fork s fetch client %) requests)))))
   "pmap, blocking"
   (fn [client requests] (set (fold/pmap #(fetch client %) requests {:parallelism 90})))
   "callback onto a channel"
   (fn [client requests]
     (let [ch (a/chan)]
       (doseq [r requests]
         (.whenComplete (fetch-later client r)
                        (reify BiConsumer (accept [_ response failure] (a/put! ch (or failure (page response)))))))
       (take-all (count requests) ch)))
   "stages, joined"
   (fn [client requests] (set (map (comp page scope/join) (mapv #(fetch-later client %) requests))))
   "stages as channels"
   (fn [client requests]
     (set (map page (map a/<!! (mapv #(scope/stage->chan (fetch-later client %)) requests)))))
   "await-callback"
   (fn [client requests]
     (set (fold/pmap (fn [r]
                       (page (scope/await-callback
                               (fn [resolve reject]
                                 (.whenComplete (fetch-later client r)
                                                (reify BiConsumer
                                                  (accept [_ response failure]
                                                    (if failure (reject failure) (resolve response)))))))))
                     requests
                     {:parallelism 90})))})

(deftest all-pages-are-in-flight-together-and-all-arrive-whichever-way-they-are-fetched
  (doseq [n [20 90], [way run] ways]
    (testing (str n " pages: " way)
      (let [all-there (CountDownLatch. n) ; the server answers only when all have asked
            server (start-server #(do (.countDown all-there) (.await all-there)))]
        (try
          (with-open [client (HttpClient/newHttpClient)]
            (is (= (set (map #(str "page /" %) (range n)))
                   (run client (mapv #(request server %) (range n))))))
          (finally (.stop server 0)))))))

(deftest the-first-page-of-a-race-cancels-the-request-that-is-joined-too-late
  (let [never (CountDownLatch. 1)
        asked (CountDownLatch. 1)
        slow (start-server #(do (.countDown asked) (.await never)))
        quick (start-server #(.await asked))]
    (try
      (with-open [client (HttpClient/newHttpClient)]
        (let [late (atom nil)]
          (is (= "page /1"
                 (with-scope [s {:joiner scope/any}]
                   (fork s #(page (scope/join (reset! late (fetch-later client (request slow 0))))))
                   (fork s #(page (scope/join (fetch-later client (request quick 1))))))))
          (is (eventually (.isCompletedExceptionally ^CompletableFuture @late)))))
      (finally
        (.countDown never)
        (.stop slow 0)
        (.stop quick 0)))))
