(ns magnetar.http.client-test
  "The JDK's client in scopes: a request whose caller is cancelled is aborted, which its server sees."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.channel :as channel]
   [magnetar.dev.guide :as guide]
   [magnetar.http :as http]
   [magnetar.http.support :as support :refer [fetch for-version home limit-ms value-of with-failures with-server]]
   [magnetar.scope :as scope :refer [fork with-scope]])
  (:import
   (java.io InputStream)
   (java.net InetAddress ServerSocket Socket SocketException URI)
   (java.net.http HttpClient HttpRequest HttpResponse$BodyHandlers)))

(set! *warn-on-reflection* true)

(deftest the-page-of-the-guide-gives-what-it-says
  (is (= 6 (guide/run-page "docs/guide/http-client.md"))))

(defn- read-head
  "Reads the head of a request, up to its empty line."
  [^InputStream in]
  (loop [last-four ""]
    (when-not (= "\r\n\r\n" last-four)
      (let [text (str last-four (char (.read in)))]
        (recur (subs text (max 0 (- (count text) 4))))))))

(defn- end-of
  "How the client ends the connection."
  [^Socket socket]
  (try
    (if (neg? (.read (.getInputStream socket))) :ended :went-on)
    (catch SocketException _ :ended)))

(defn- with-service
  "Calls f with the address of a service of one connection, with a promise that a request has come, and with one of the connection's end.
  The service sends `answer`, and no more."
  [^String answer f]
  (with-open [server (ServerSocket. 0 1 (InetAddress/getByName home))]
    (let [asked (promise)
          end (future
                (with-open [^Socket socket (.accept server)]
                  (.setSoTimeout socket limit-ms)
                  (read-head (.getInputStream socket))
                  (.write (.getOutputStream socket) (.getBytes answer "US-ASCII"))
                  (deliver asked true)
                  (end-of socket)))]
      (f (str "http://" home ":" (.getLocalPort server) "/") asked end))))

(defn- with-client
  "Calls f with a client, which is ended at once afterwards: its close would wait some seconds."
  [f]
  (let [client (HttpClient/newHttpClient)]
    (try
      (f client)
      (finally (.shutdownNow client)))))

(defn- request ^HttpRequest [url]
  (.build (HttpRequest/newBuilder (URI/create url))))

(defn- cancelled-by
  "What a cancelled scope throws while f, in it, waits for the service."
  [asked f]
  (try
    (with-scope [s]
      (fork s (fn [] (deref asked limit-ms nil) (scope/cancel s :nobody-waits)))
      (f))
    (catch clojure.lang.ExceptionInfo e (:cause (ex-data e)))))

(def ^:private ways
  "Ways to send a request, and to wait for its response."
  {"send" (fn [^HttpClient client r] (.send client r (HttpResponse$BodyHandlers/ofString)))
   "sendAsync, joined" (fn [^HttpClient client r] (scope/join (.sendAsync client r (HttpResponse$BodyHandlers/ofString))))})

(deftest a-cancelled-scope-aborts-the-request
  (doseq [[way send] ways
          [place answer] {"before the answer" "", "in the body" "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf "}]
    (with-service answer
      (fn [url asked end]
        (with-client
          (fn [client]
            (is (= :nobody-waits (cancelled-by asked #(send client (request url)))) (str way " " place))
            (is (= :ended (value-of end)) (str way " " place ": the connection is closed"))))))))

(defn- reports
  "A handler of \"/price\", and of two reports that never end: one has no answer yet, one has a half. The promises tell that it waits and has ended."
  [asked ended]
  (let [wait (fn []
               (try
                 (deliver asked true)
                 (scope/sleep 1000000)
                 (finally (deliver ended :ended))))]
    (fn [{:keys [uri] :magnetar.http/keys [scope]}]
      (case uri
        "/price" {:status 200 :headers {} :body "3 EUR"}
        "/report" (wait)
        "/half" (let [half (channel/chan {:size 1})]
                  (channel/put half "half ")
                  (fork scope wait)
                  {:status 200 :headers {} :body half})))))

(deftest a-cancelled-scope-resets-its-stream-of-http-2-alone
  (doseq [[way send] ways
          path ["/report" "/half"]]
    (testing (str way " " path)
      (let [asked (promise)
            ended (promise)
            client (support/client 2)]
        (with-failures [failures]
          (with-server [server (reports asked ended) (for-version 2)]
            (is (= [200 "3 EUR"] (take 2 (fetch client server "/price"))))
            (is (= :nobody-waits (cancelled-by asked #(send client (support/request server "GET" path nil)))))
            (is (= :ended (value-of ended)) "the server has seen the reset")
            (is (= [200 "3 EUR"] (take 2 (fetch client server "/price"))))
            (is (= 1 (:connections (http/status server))) "one connection has served all"))
          (is (= [] @failures)))))))

(deftest a-body-that-is-read-as-a-stream-is-aborted-by-its-close
  (with-service "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf "
    (fn [url _ end]
      (with-client
        (fn [^HttpClient client]
          (with-open [^InputStream body (.body (.send client (request url) (HttpResponse$BodyHandlers/ofInputStream)))]
            (is (= (int \h) (.read body))))
          (is (= :ended (value-of end)) "the connection is closed"))))))
