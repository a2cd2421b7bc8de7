(ns magnetar.http-test
  "Requests and responses: Ring's maps, bodies of each kind, and handlers that fail."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.channel :as channel]
   [magnetar.dev.guide :as guide]
   [magnetar.http :as http]
   [magnetar.http.refusals :as refusals]
   [magnetar.http.server :as server]
   [magnetar.http.support :refer [client connect eventually exchange fetch for-version get-raw home limit-ms read-response request-text send-text status-of value-of with-failures with-server]]
   [magnetar.impl.runtime]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope]
   [magnetar.test :as mt]
   [ring.core.protocols :as protocols])
  (:import
   (java.io ByteArrayInputStream File IOException InputStream OutputStream)
   (java.net Socket)
   (java.nio.channels UnresolvedAddressException)
   (magnetar.http.server HttpServer)))

(set! *warn-on-reflection* true)

(defn- seen-by
  "The map that a handler gets for this text of a request."
  [text]
  (let [seen (promise)]
    (with-server [server #(do (deliver seen (update % :body slurp)) {:status 200}) nil]
      (exchange server text)
      [(value-of seen) (http/port server)])))

(deftest a-handler-gets-the-map-of-rings-spec
  (let [[request] (seen-by (str "POST /orders/7%20a?x=1&y=%20 HTTP/1.1\r\nHost: shop.test:99\r\nContent-Type: text/x-order; charset=UTF-8\r\n"
                                "Content-Length: 5\r\nConnection: close\r\n\r\nhello"))]
    (is (= {:server-port 99 :server-name "shop.test" :remote-addr "127.0.0.1" :uri "/orders/7%20a" :query-string "x=1&y=%20" :scheme :http
            :request-method :post :protocol "HTTP/1.1" :ssl-client-cert nil :body "hello"
            :content-type "text/x-order; charset=UTF-8" :content-length 5 :character-encoding "UTF-8"
            :headers {"host" "shop.test:99" "content-type" "text/x-order; charset=UTF-8" "content-length" "5" "connection" "close"}}
           (dissoc request ::http/scope)))))

(deftest several-values-of-a-header-are-joined
  (let [[{:keys [headers body query-string]}]
        (seen-by (request-text "GET" "/" "Accept: a" "ACCEPT: b" "Cookie: a=1" "Cookie: b=2" "Connection: close"))]
    (is (= "a,b" (headers "accept")))
    (is (= "a=1;b=2" (headers "cookie")))
    (is (= ["" nil] [body query-string]))))

(defrecord Greeting [name])

(extend-protocol protocols/StreamableResponseBody
  Greeting
  (write-body-to-stream [greeting response ^OutputStream out]
    (.write out (.getBytes (str "hello " (:name greeting) " " (:status response))))
    (.close out)))

(defn- temporary-file ^File [text]
  (doto (File/createTempFile "body" ".txt") .deleteOnExit (spit text)))

(defn- channel-of [& values]
  (let [ch (channel/chan {:size 10})]
    (run! #(channel/put ch %) values)
    (channel/close ch)
    ch))

(deftest each-kind-of-body-is-sent
  (doseq [version [1 2]
          :let [client (client version)]
          [path body text] [["/string" (fn [] "héllo") "héllo"]
                            ["/bytes" (fn [] (.getBytes "bytes")) "bytes"]
                            ["/large" (fn [] (apply str (repeat 200000 "a"))) (apply str (repeat 200000 "a"))]
                            ["/seq" (fn [] (map str ["a" "b" "c"])) "abc"]
                            ["/file" (fn [] (temporary-file "of a file")) "of a file"]
                            ["/stream" (fn [] (ByteArrayInputStream. (.getBytes "of a stream"))) "of a stream"]
                            ["/channel" (fn [] (channel-of "a" (.getBytes "b") "c")) "abc"]
                            ["/ring" (fn [] (->Greeting "ada")) "hello ada 200"]
                            ["/nil" (fn [] nil) ""]]]
    (testing (str "HTTP/" version " " path)
      (with-server [server (fn [_] {:status 200 :headers {"X-Kind" path} :body (body)}) (for-version version)]
        (let [[status got headers] (fetch client server path)]
          (is (= [200 text [path]] [status got (headers "x-kind")])))))))

(deftest a-header-may-have-several-values
  (with-server [server (fn [_] {:status 201 :headers {"Set-Cookie" ["a=1" "b=2"] "X-One" ["1"]} :body "x"}) nil]
    (let [[status _ headers] (fetch (client 1) server "/")]
      (is (= [201 ["a=1" "b=2"] ["1"]] [status (headers "set-cookie") (headers "x-one")])))))

(deftest text-is-sent-in-the-charset-of-its-content-type
  (with-server [server (fn [_] {:status 200 :headers {"Content-Type" "text/plain; charset=ISO-8859-1"} :body "é"}) nil]
    (is (str/includes? (get-raw server "/") "Content-Length: 1\r\n"))))

(deftest no-body-follows-where-http-forbids-it
  (let [stream (promise)
        body #(proxy [ByteArrayInputStream] [(.getBytes "secret")]
                (close [] (deliver stream :closed)))]
    (with-server [server (fn [{:keys [uri]}]
                           (if (= "/204" uri) {:status 204 :headers {} :body "secret"} {:status 200 :headers {} :body (body)})) nil]
      (let [head (exchange server (request-text "HEAD" "/" "Connection: close"))
            empty (get-raw server "/204")]
        (is (= [200 204] (map status-of [head empty])))
        (is (not-any? #(str/includes? % "secret") [head empty]))
        (is (= :closed (value-of stream)))))))

(deftest a-connection-serves-several-requests-and-names-no-server
  (with-server [server (fn [{:keys [uri]}] {:status 200 :headers {} :body uri}) nil]
    (with-open [socket (connect server)]
      (let [answers (mapv (fn [path]
                            (send-text socket (request-text "GET" path))
                            (read-response socket))
                          ["/a" "/b" "/c"])]
        (is (= ["/a" "/b" "/c"] (map :body answers)))
        (is (not-any? #(re-find #"(?i)server:|powered|jetty" (:head %)) answers))))))

(deftest a-body-that-is-not-read-does-not-disturb-the-next-request
  (with-server [server (fn [{:keys [uri]}] {:status 200 :headers {} :body uri}) nil]
    (with-open [socket (connect server)]
      (send-text socket (str (request-text "POST" "/a" "Content-Length: 5") "12345" (request-text "GET" "/b")))
      (is (= ["/a" "/b"] [(:body (read-response socket)) (:body (read-response socket))])))))

;; ---- handlers that fail

(defn- answered-and-reported
  "[status of the answer, its text, what was reported] where the handler is f."
  [f]
  (with-failures [failures]
    (with-server [server f nil]
      (let [text (get-raw server "/orders")]
        [(status-of text) text (mapv (juxt :site (comp ex-message :error)) @failures)]))))

;; Jetty takes a close before the end for a client that has gone.
(deftest a-handler-may-close-a-body-of-which-it-has-read-a-part
  (with-server [server (fn [{:keys [body]}]
                         (let [line (with-open [in (io/reader body)] (.readLine ^java.io.BufferedReader in))]
                           (scope/sleep 1) ; throws if the request was cancelled
                           {:status 200 :body (str line " " (try (.read ^InputStream body) (catch IOException e (ex-message e))))}))
                nil]
    (let [text (str "first\n" (apply str (repeat 20000 "x")))]
      (is (str/ends-with? (exchange server (str "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " (count text) "\r\n\r\n" text))
                          "first The handler has closed the body of the request.")))))

(deftest a-handler-that-throws-is-reported-once-and-shows-the-client-nothing
  (doseq [thrown [(ex-info "the password is 1234" {:k "1234"}) (AssertionError. "1234") (StackOverflowError. "1234")]]
    (let [[status text reported] (answered-and-reported (fn [_] (throw thrown)))]
      (is (= [500 [["http GET /orders" (ex-message thrown)]]] [status reported]))
      (is (not (str/includes? text "1234")))
      (is (not (str/includes? text "http_test"))))))

(deftest what-is-no-response-is-reported-in-a-sentence
  (are [response sentence] (let [[status _ [[_ message] & others]] (answered-and-reported (constantly response))]
                             (and (= 500 status) (nil? others) (str/includes? message sentence)))
    nil "it has to be a map with :status, :headers and :body; this is nil."
    '(1) "it has to be a map with :status, :headers and :body; this is (1)."
    "hello" "it has to be a map with :status, :headers and :body; this is \"hello\"."
    {:status "200"} ":status has to be a whole number from 200 to 599; this is \"200\"."
    {:body "x"} ":status has to be a whole number from 200 to 599; this is nil."
    {:status 200 :headers []} ":headers has to be a map; this is []."
    {:status 200 :headers {:content-type "x"}} "the name of a header has to be a string"
    {:status 200 :headers {"A" 1}} "the header \"A\" has to be a string or a vector of strings; this is 1."
    {:status 200 :headers {"A" "x\r\nSet-Cookie: a=1"}} "has to be a string without line breaks"
    {:status 200 :headers {"A: b\r\nC" "x"}} "of the characters that HTTP allows"
    {:status 200 :headers {"Content-Length" "3"} :body "hello"} "the body has 5 bytes, and another number stands in its header Content-Length; this is \"3\"."
    {:status 200 :body 7} ":body has to be nil, a string, an array of bytes"))

(deftest a-response-that-fails-half-way-is-cut
  (let [lazily (fn [] (cons "a" (lazy-seq (throw (ex-info "half way" {})))))
        ch #(doto (channel/chan {:size 2}) (channel/put "a") (channel/close (ex-info "half way" {})))]
    (doseq [body [lazily ch]
            version [1 2]]
      (with-failures [failures]
        (with-server [server (fn [_] {:status 200 :headers {} :body (body)}) (for-version version)]
          (if (= 2 version)
            (is (thrown? IOException (fetch (client 2) server "/")))
            (let [text (get-raw server "/")]
              (is (= 200 (status-of text)))
              (is (str/includes? text "\r\n1\r\na"))
              (is (not (str/includes? text "\r\n0\r\n")))))
          (is (eventually (= 1 (count @failures)))))))))

(deftest a-broken-handler-is-called-once
  (let [calls (atom 0)]
    (with-failures [_]
      (with-server [server (fn [_] (swap! calls inc) (throw (ex-info "broken" {}))) nil]
        (is (= 500 (status-of (get-raw server "/"))))
        (is (= 1 @calls))))))

;; ---- fibers

(deftest a-request-is-a-fiber-that-is-named-after-it
  (let [here (promise)
        go (promise)]
    (with-server [server (fn [_]
                           (deliver here [(.isVirtual (Thread/currentThread)) (scope/time-left)])
                           (value-of go)
                           {:status 200}) nil]
      (with-open [socket (connect server)]
        (send-text socket (request-text "GET" "/orders?token=1"))
        (let [[virtual? left] (value-of here)]
          (is virtual?)
          (is (< 0 left 30001)))
        (is (some #(= "http GET /orders" (:name %)) (inspect/fibers)))
        (is (= {:running 1 :waiting 0 :connections 1} (http/status server)))
        (deliver go true)
        (is (= 200 (:status (read-response socket))))))))

(deftest a-handler-may-fork-and-its-forks-end-with-it
  (let [ended (promise)]
    (with-server [server (fn [_]
                           (scope/with-scope [s]
                             (scope/daemon s #(try (scope/sleep 100000) (finally (deliver ended true))))
                             {:status 200 :headers {} :body (str @(scope/fork s + 1 2))})) (for-version 2)]
      (is (= [200 "3"] (take 2 (fetch (client 2) server "/"))))
      (is (true? (value-of ended))))))

;; ---- misuse

(defn- refused
  "[id message] of what f throws."
  [f]
  (try
    [:done (f)]
    (catch Exception e [(:magnetar/reason (ex-data e)) (ex-message e)])))

(deftest misuse-is-refused-at-once
  (are [id text f] (let [[id* message] (refused f)]
                     (and (= id id*) (str/includes? message text)))
    :magnetar/not-a-function "`start` wants a function, as in (http/start" #(http/start 1 {:port 0})
    :magnetar/unknown-option "Is :port meant?" #(http/start identity {:prot 0})
    :magnetar/bad-option ":port is a whole number from 0 to 65535; this is 70000." #(http/start identity {:port 70000})
    :magnetar/bad-option ":max-body is a whole number from 0 up" #(http/start identity {:port 0 :max-body -1})
    :magnetar/bad-duration ":idle-timeout is a duration above 0 that ends" #(http/start identity {:port 0 :idle-timeout 0})
    :magnetar/bad-option ":host is the name or the address" #(http/start identity {:port 0 :host 1})
    :magnetar/bad-options "takes its options as a map; this is [:port 0]." #(http/start identity [:port 0])
    :magnetar/bad-options "takes its options as a map; this is [:port 0]." #(http/start-link identity [:port 0])
    :magnetar/bad-options "takes its options as a map; this is (:timeout)." #(http/stop nil '(:timeout))
    :magnetar/not-a-server "`port` wants a server" #(http/port 1)
    :magnetar/not-a-server "`stop` wants a server, as `magnetar.http/start` returns it; this is nil. A process" #(http/stop nil)
    :magnetar/not-a-server "this is :web. A process of `start-link` is stopped by its supervisor, or by `magnetar.proc-lib/stop`." #(http/stop :web)))

(deftest a-port-in-use-is-named
  (with-server [server identity nil]
    (let [[id message] (refused #(http/start identity {:port (http/port server) :host home}))]
      (is (= :magnetar/port-in-use id))
      (is (str/includes? message (str "cannot listen on 127.0.0.1:" (http/port server) ": another socket has that port"))))))

(deftest a-host-that-is-not-of-this-machine-is-named
  (doseq [[host start] [["192.0.2.1" #(http/start identity {:port 0 :host "192.0.2.1"})] ; an address for documentation
                        ["none.test" #(throw (refusals/not-started {:host "none.test" :port 0} (IOException. (UnresolvedAddressException.))))]]]
    (let [[id message] (refused start)]
      (is (= :magnetar/socket-failed id))
      (is (str/includes? message (str (pr-str host) " is no address of this machine."))))))

(deftest a-want-of-descriptors-is-told-once-a-minute
  (with-server [^HttpServer server identity nil]
    (with-failures [failures]
      (let [service (.-service server)
            e (IOException. "Too many open files")
            fail #(#'server/report-of-acceptor e 8080 service (* 1000000000 (long %)))]
        (run! fail [100 101 159])
        (is (= [[:magnetar/socket-failed :emfile]] (map (comp (juxt :magnetar/reason :reason) ex-data :error) @failures)))
        (is (re-find #"port 8080 accepts no connection.*Raise the limit \(`ulimit -n`\)" (ex-message (:error (first @failures)))))
        (run! fail [160 219])
        (is (= 2 (count @failures)))))))

(deftest a-simulation-refuses-servers
  (is (= :magnetar/not-simulated
         (mt/simulate {} (first (refused #(http/start identity {:port 0})))))))

;; ---- the page

(deftest the-page-of-the-guide-gives-what-it-says
  (is (= 26 (guide/run-page "docs/guide/http.md"))))
