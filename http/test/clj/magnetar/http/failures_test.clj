(ns magnetar.http.failures-test
  "Responses that cannot be sent as the handler wants, and bodies that are not sent."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.channel :as channel]
   [magnetar.http :as http]
   [magnetar.http.support :refer [client connect eventually exchange fetch for-version get-raw read-rest request-text send-text status-of value-of with-failures with-server]]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope]
   [ring.core.protocols :as protocols])
  (:import
   (java.io ByteArrayInputStream File IOException InputStream OutputStream)
   (java.lang.ref WeakReference)
   (java.net Socket)
   (java.util Collections)))

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
           :cut "is longer than its header"
           {:status 200 :headers {"Content-Length" "7"} :body (cons "hello" (lazy-seq ["world"]))}
           500 "is longer than its header"
           {:status 200 :headers {"Content-Length" "7"} :body (list "hello" "world")}
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
    (is (closed-when? get-raw (fn [body] (without-end (fn [] {:status 200 :body body}))) {:request-timeout 1500})))
  (testing "a client that has gone"
    (is (closed-when? (fn [server path]
                        (with-open [socket (connect server)]
                          (send-text socket (request-text "GET" path))))
                      (fn [body] (without-end (fn [] {:status 200 :body body})))))))

;; ---- files

(defn- watched-file
  "A file whose length and path are asked for on threads that are kept in the atom."
  ^File [content threads]
  (let [^File file (doto (File/createTempFile "body" ".txt") .deleteOnExit (spit content))]
    (proxy [File] [(str file)]
      (length []
        (swap! threads conj (Thread/currentThread))
        (.length file))
      (getPath [] ; FileInputStream asks for it
        (swap! threads conj (Thread/currentThread))
        (str file)))))

;; A read of a file holds the carrier of a fiber.
(deftest a-file-is-read-on-no-fiber
  (doseq [n [0 1 65535 65536 65537 200000]
          :let [content (apply str (repeat n "a"))
                threads (atom [])
                file (watched-file content threads)]]
    (with-server [server (fn [_] (reset! threads []) {:status 200 :headers {} :body file}) nil]
      (let [text (get-raw server "/")]
        (is (str/includes? text (str "Content-Length: " n "\r\n")))
        (is (str/ends-with? text (str "\r\n\r\n" content))))
      (is (< 1 (count @threads)))
      (is (not-any? #(.isVirtual ^Thread %) @threads)))))

(deftest each-part-of-a-file-is-read-on-no-fiber
  (let [calls (atom 0)
        offload scope/offload
        file (watched-file (apply str (repeat 200000 "a")) (atom []))]
    (with-redefs [scope/offload (fn [f & args] (swap! calls inc) (apply offload f args))]
      (with-server [server (fn [_] {:status 200 :headers {} :body file}) nil]
        (is (= 200 (status-of (get-raw server "/"))))))
    (is (= 5 @calls)))) ; the length, and four parts of at most 64 KiB

(deftest a-file-that-is-not-there-is-an-error-of-the-program
  (is (= [500 1] (let [[status _ n] (status-and-report 1 (fn [] {:status 200 :headers {} :body (File. "none.txt")}))] [status n]))))

;; ---- bodies of Ring's protocol

(defn- written-by
  "A body whose (f out) writes it."
  [f]
  (reify protocols/StreamableResponseBody
    (write-body-to-stream [_ _ out] (f out))))

(deftest what-ring-writes-is-sent-in-one-part
  (doseq [close [#(.close ^OutputStream %) identity]]
    (with-server [server (fn [_] {:status 200 :headers {} :body (written-by (fn [^OutputStream out]
                                                                              (run! #(.write out (int %)) "abc")
                                                                              (.write out (.getBytes "def"))
                                                                              (close out)))}) nil]
      (is (str/ends-with? (get-raw server "/") "\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n")))))

(defn- read-until
  "What the server sends up to this text."
  [^Socket socket ending]
  (let [in (.getInputStream socket)]
    (loop [text ""]
      (if (str/ends-with? text ending)
        text
        (recur (str text (char (.read in))))))))

(deftest what-ring-flushes-is-sent-at-once
  (let [go (promise)]
    (with-server [server (fn [_] {:status 200 :headers {} :body (written-by (fn [^OutputStream out]
                                                                              (.write out (.getBytes "first"))
                                                                              (.flush out)
                                                                              (value-of go)
                                                                              (.write out (.getBytes "last"))))}) nil]
      (with-open [socket (connect server)]
        (send-text socket (request-text "GET" "/" "Connection: close"))
        (is (str/ends-with? (read-until socket "first") "\r\n\r\n5\r\nfirst"))
        (deliver go true)
        (is (= "\r\n4\r\nlast\r\n0\r\n\r\n" (read-rest socket)))))))

(deftest a-body-that-fails-before-a-flush-is-answered-with-500
  (is (= [500 "no orders" 1] (status-and-report 1 (fn [] {:status 200 :headers {} :body (written-by (fn [^OutputStream out]
                                                                                                      (.write out (.getBytes "order"))
                                                                                                      (throw (ex-info "no orders" {}))))})))))

(deftest a-body-that-is-written-twice-is-an-error-of-the-program
  (doseq [version [1 2]]
    (let [[status sentence n] (status-and-report version (fn [] {:status 200 :headers {} :body (written-by (fn [^OutputStream out]
                                                                                                             (dotimes [_ 2]
                                                                                                               (.write out (.getBytes "order"))
                                                                                                               (doto out .close .flush .close))))}))]
      (is (= [:cut 1] [status n]))
      (is (str/starts-with? sentence "The body of the response was written to after its stream had been closed.")))))

;; ---- seqs

(defn- sizes-of-chunks
  "How many bytes each chunk of the response has whose body is this."
  [body]
  (with-server [server (fn [_] {:status 200 :headers {} :body body}) nil]
    (map #(Long/parseLong (second %) 16) (re-seq #"\r\n(\p{XDigit}+)\r\n" (get-raw server "/")))))

(deftest parts-of-a-seq-that-exist-already-are-sent-together
  (are [sizes body] (= sizes (sizes-of-chunks body))
    [10 0] (list "order" "-milk")
    [5 5 0] (cons "order" (lazy-seq ["-milk"]))
    [5 5 0] (enumeration-seq (Collections/enumeration ["order" "-milk"]))
    [320 320 60 0] (map str (vec (repeat 70 "order-milk")))
    [16380 16380 240 0] (repeat 3300 "order-milk")
    [5 20000 5 0] (list "order" (apply str (repeat 2000 "order-milk")) "-milk")
    [0] (map str ())))

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
