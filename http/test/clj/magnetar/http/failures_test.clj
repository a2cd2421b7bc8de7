(ns magnetar.http.failures-test
  "Responses that cannot be sent as the handler wants, and bodies that are not sent."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.channel :as channel]
   [magnetar.http :as http]
   [magnetar.http.support :refer [client connect eventually exchange fetch for-version get-raw read-rest request-text send-text status-of value-of with-failures with-server]]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (java.io ByteArrayInputStream IOException InputStream)
   (java.lang.ref WeakReference)))

(set! *warn-on-reflection* true)

(defn- stream-of ^InputStream [^String text]
  (ByteArrayInputStream. (.getBytes text)))

;; ---- errors of the program

(defn- status-and-report
  "[status sentence-that-was-reported number-of-reports] for a response; the status is :cut if the response was not complete."
  [version response]
  (with-failures [failures]
    (with-server [server (fn [_] (response)) (for-version version)]
      (let [status (try (first (fetch (client version) server "/")) (catch IOException _ :cut))]
        (is (eventually (seq @failures)))
        [status (ex-message (:error (first @failures))) (count @failures)]))))

(deftest an-error-in-a-response-is-the-programs
  (doseq [version [1 2]]
    (testing (str "HTTP/" version)
      (are [status words response]
           (let [[status* sentence n] (status-and-report version (fn [] response))]
             (and (= [status 1] [status* n]) (str/includes? sentence words)))
           500 "the body has 0 bytes" {:status 200 :headers {"Content-Length" "5"}}
           500 "the body has 0 bytes" {:status 200 :headers {"content-length" "5"} :body ""}
           500 "has to be one number of bytes" {:status 200 :headers {"Content-Length" "five"} :body (stream-of "hello")}
           500 "has to be one number of bytes" {:status 200 :headers {"Content-Length" ["5" "6"]} :body (stream-of "hello")}
           500 "is longer than its header Content-Length says" {:status 200 :headers {"Content-Length" "4"} :body (stream-of "hello")}
           :cut "is 2 bytes shorter than its header" {:status 200 :headers {"Content-Length" "7"} :body (stream-of "hello")}
           :cut "is longer than its header" {:status 200 :headers {"Content-Length" "7"} :body (map str ["hello" "world"])}
           500 "its headers have 20014 bytes, and 16384 are allowed" {:status 200 :headers {"Set-Cookie" (apply str (repeat 20000 "a"))}}))))

(deftest a-length-that-is-right-is-sent
  (doseq [version [1 2]]
    (with-failures [failures]
      (with-server [server (fn [{:keys [uri]}]
                             (case uri
                               "/stream" {:status 200 :headers {"Content-Length" "5"} :body (stream-of "hello")}
                               "/304" {:status 304 :headers {"Content-Length" "5"}}
                               "/204" {:status 204 :headers {"Content-Length" "5"} :body "hello"})) (for-version version)]
        (is (= [[200 "hello"] [304 ""] [204 ""]] (map #(take 2 (fetch (client version) server %)) ["/stream" "/304" "/204"]))))
      (is (= [] @failures)))))

(deftest a-head-of-a-response-may-be-long
  (with-server [server (fn [_] {:status 200 :headers {"Set-Cookie" (apply str (repeat 16000 "a"))} :body "ok"}) nil]
    (is (str/ends-with? (get-raw server "/") "\r\n\r\nok"))))

;; ---- bodies that are not sent

(defn- closing
  "A stream that tells on the promise that it was closed."
  ^InputStream [closed]
  (proxy [ByteArrayInputStream] [(.getBytes "secret")]
    (close [] (deliver closed true))))

(defn- closed-when?
  "True if the body of a response is closed that the server is asked for by (ask server). `respond` makes the response of it."
  ([ask respond] (closed-when? ask respond nil))
  ([ask respond options]
   (let [closed (promise)
         ch (channel/chan)]
     (with-failures [_]
       (with-server [server (fn [{:keys [uri]}] (respond (if (= "/stream" uri) (closing closed) ch))) options]
         (ask server "/stream")
         (ask server "/channel")
         (and (true? (value-of closed))
              (eventually (channel/closed? ch))))))))

(defn- without-end [f]
  (try (scope/sleep 100000) (catch Throwable _ (f))))

(deftest a-body-that-is-not-sent-is-closed
  (testing "HEAD"
    (is (closed-when? #(exchange %1 (request-text "HEAD" %2 "Connection: close")) (fn [body] {:status 200 :body body}))))
  (testing "a status without a body"
    (is (closed-when? get-raw (fn [body] {:status 204 :body body}))))
  (testing "a response that is refused"
    (is (closed-when? get-raw (fn [body] {:status 99 :body body})))
    (is (closed-when? get-raw (fn [body] {:status 200 :headers {"Content-Length" "x"} :body body}))))
  (testing "a handler that returns after its deadline"
    (is (closed-when? get-raw (fn [body] (without-end (fn [] {:status 200 :body body}))) {:request-timeout 50})))
  (testing "a client that has gone"
    (is (closed-when? (fn [server path]
                        (with-open [socket (connect server)]
                          (send-text socket (request-text "GET" path))))
                      (fn [body] (without-end (fn [] {:status 200 :body body})))))))

;; ---- seqs

(deftest the-parts-of-a-seq-that-were-sent-are-let-go
  (let [first-part (promise)
        collected (promise)
        part (fn [i]
               (case (long i)
                 0 (let [text (String. "first")]
                     (deliver first-part (WeakReference. text))
                     text)
                 50 (deliver collected (eventually (do (System/gc) (nil? (.get ^WeakReference @first-part)))))
                 "x"))]
    (with-server [server (fn [_] {:status 200 :headers {} :body (map part (iterate inc 0))}) nil]
      (with-open [socket (connect server)]
        (send-text socket (request-text "GET" "/"))
        (is (true? (value-of collected)))))))

;; ---- the scope of a request

(deftest what-is-forked-in-the-scope-of-a-request-feeds-its-body
  (doseq [version [1 2]]
    (with-failures [failures]
      (with-server [server (fn [request]
                             (let [ch (channel/chan)]
                               (scope/fork (::http/scope request)
                                           (fn []
                                             (run! #(channel/put ch (str %)) [1 2 3])
                                             (channel/close ch)))
                               {:status 200 :headers {} :body ch})) (for-version version)]
        (is (= [200 "123"] (take 2 (fetch (client version) server "/")))))
      (is (= [] @failures)))))

(defn- ended-by
  "True if what is forked in the scope of a request, and has begun, ends after (ask server)."
  [ask ch]
  (let [begun (promise)
        ended (promise)]
    (with-failures [failures]
      (with-server [server (fn [request]
                             (scope/fork (::http/scope request)
                                         #(try
                                            (deliver begun true)
                                            (scope/sleep 100000)
                                            (finally (deliver ended true))))
                             (value-of begun)
                             {:status 200 :headers {} :body ch}) nil]
        (ask server)
        [(value-of ended) @failures]))))

(deftest a-fork-in-the-scope-of-a-request-ends-with-it
  (testing "when the response was sent"
    (is (= [true []] (ended-by #(get-raw % "/") nil))))
  (testing "when the client leaves"
    (let [ch (channel/chan)]
      (is (= [true []] (ended-by (fn [server]
                                   (with-open [socket (connect server)]
                                     (send-text socket (request-text "GET" "/"))
                                     (channel/put ch "first")))
                                 ch))))))

(deftest a-fork-that-fails-fails-the-request
  (with-failures [failures]
    (with-server [server (fn [request]
                           (scope/fork (::http/scope request) #(throw (ex-info "no orders" {})))
                           {:status 200 :headers {} :body (channel/chan)}) nil]
      (is (= 500 (status-of (get-raw server "/"))))
      (is (eventually (= 1 (count @failures))))
      (is (str/includes? (ex-message (:error (first @failures))) "no orders")))))

;; ---- requests that break off

(deftest a-bad-chunk-is-always-answered
  (with-failures [failures]
    (with-server [server (fn [{:keys [body]}] {:status 200 :body (slurp body)}) nil]
      (dotimes [_ 50]
        (with-open [socket (connect server)]
          (send-text socket (str (request-text "POST" "/" "Transfer-Encoding: chunked") "3\r\nabc\r\n"))
          (send-text socket "zz\r\n")
          (is (= 400 (status-of (read-rest socket)))))))
    (is (= [] @failures))))
