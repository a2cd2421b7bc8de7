(ns magnetar.http.ends-test
  "Clients that go away, servers that stop, and owners that die."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.application :as application]
   [magnetar.channel :as channel]
   [magnetar.http :as http]
   [magnetar.http.exchange :as exchange]
   [magnetar.http.server :as server]
   [magnetar.http.support :refer [client connect connect-http2 connect-tls eventually for-version frame get-frame get-raw home limit-ms read-frame read-response read-rest request request-text send-bytes send-text status-of tls value-of with-failures with-server]]
   [magnetar.impl.runtime]
   [magnetar.report :as report]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup])
  (:import
   (java.io IOException)
   (java.net ConnectException Socket SocketException)
   (java.net.http HttpClient HttpResponse$BodyHandlers)
   (java.util.concurrent CountDownLatch)
   (magnetar.http.exchange Exchange)
   (magnetar.http.server HttpServer)
   (org.eclipse.jetty.io AbstractEndPoint FillInterest)
   (org.eclipse.jetty.util.thread Invocable$InvocationType)))

(set! *warn-on-reflection* true)

(defn- hanging
  "A handler that tells on `began`, waits, and tells on `ended` that its finally has run."
  [began ended]
  (fn [request]
    (try
      (deliver began true)
      (scope/sleep 100000)
      {:status 200}
      (finally (deliver ended (:uri request))))))

;; ---- clients

(defn- leaves-while-a-handler-waits
  "What the finally of the handler told after the client has left by (leave socket)."
  [leave]
  (let [began (promise)
        ended (promise)]
    (with-failures [failures]
      (with-server [server (hanging began ended) nil]
        (with-open [socket (connect server)]
          (send-text socket (request-text "GET" "/orders"))
          (value-of began)
          (leave socket)
          [(value-of ended) (eventually (zero? (long (:running (http/status server))))) @failures])))))

(deftest a-client-of-http-1-that-leaves-cancels-its-handler
  (testing "by closing its socket"
    (is (= ["/orders" true []] (leaves-while-a-handler-waits #(.close ^Socket %)))))
  (testing "by a reset"
    (is (= ["/orders" true []] (leaves-while-a-handler-waits #(doto ^Socket % (.setSoLinger true 0) .close)))))
  (testing "by the end of what it sends"
    (is (= ["/orders" true []] (leaves-while-a-handler-waits #(.shutdownOutput ^Socket %))))))

(deftest a-client-of-http-1-that-leaves-during-its-body-cancels-its-handler
  (let [ended (promise)]
    (with-failures [failures]
      (with-server [server #(try {:status 200 :body (slurp (:body %))} (catch Throwable e (deliver ended (class e)) (throw e))) nil]
        (let [socket (connect server)]
          (send-text socket (str (request-text "POST" "/" "Content-Length: 10") "12345"))
          (.close socket)
          (is (not= :late (value-of ended)))))
      (is (= [] @failures)))))

(deftest a-client-of-http-2-that-leaves-cancels-its-handler
  (let [began (promise)
        ended (promise)]
    (with-failures [failures]
      (with-server [server (fn [{:keys [uri] :as request}]
                             (if (= "/" uri) {:status 200} ((hanging began ended) request))) (for-version 2)]
        (let [^HttpClient client (client 2)]
          (.send client (request server "GET" "/" nil) (HttpResponse$BodyHandlers/ofString)) ; the connection
          (let [asked (.sendAsync client (request server "GET" "/orders" nil) (HttpResponse$BodyHandlers/ofString))]
            (value-of began)
            (.cancel asked true)
            (is (= "/orders" (value-of ended))))
          (testing "and its connection serves others"
            (is (= 200 (.statusCode (.send client (request server "GET" "/" nil) (HttpResponse$BodyHandlers/ofString))))))))
      (is (= [] @failures)))))

(deftest a-client-of-http-2-that-closes-its-connection-cancels-its-handlers
  (let [began (promise)
        ended (promise)]
    (with-failures [failures]
      (with-server [server (hanging began ended) nil]
        (with-open [socket (connect-http2 server)]
          (send-bytes socket [(get-frame 1)])
          (value-of began))
        (is (= "/" (value-of ended))))
      (is (= [] @failures)))))

;; A server looks after its requests four times a second. Jetty tells the end of a stream of HTTP/2 without such a look.
(deftest a-client-of-http-2-that-leaves-is-noticed-without-a-look
  (doseq [leave [#(send-bytes % [(frame 3 0 1 [0 0 0 8])]) #(.close ^Socket %)]]
    (let [began (promise)
          ended (promise)]
      (with-redefs [exchange/look-after (fn [_ _])]
        (with-server [server (hanging began ended) nil]
          (with-open [socket (connect-http2 server)]
            (send-bytes socket [(get-frame 1)])
            (value-of began)
            (leave socket)
            (is (= "/" (value-of ended)))))))))

(defn- watched? [^HttpServer server]
  (some (fn [^Exchange x] (vector? @(.-watch x))) (:in-progress (.-service server))))

(defn- only-exchange ^Exchange [^HttpServer server]
  (first (:in-progress (.-service server))))

;; The watch begins at the first look after a second, and the selector tells the end without another look. There is a look at least every 250 ms.
(deftest a-client-of-http-1-that-leaves-is-noticed-within-two-seconds
  (let [look-after exchange/look-after
        began (promise)
        ended (promise)]
    (with-redefs [exchange/look-after (fn [_ _])]
      (with-server [^HttpServer server (hanging began ended) nil]
        (is (<= (long (#'server/period (:limits (.-service server)))) 250))
        (with-open [socket (connect server)]
          (send-text socket (request-text "GET" "/orders"))
          (value-of began)
          (let [x (only-exchange server)]
            (look-after x (+ (.-began x) 1000000000))
            (is (not (watched? server)))
            (look-after x (+ (.-began x) 1000000001))
            (is (watched? server))))
        (is (= "/orders" (value-of ended)))))))

(deftest a-client-that-leaves-ends-a-stream-that-is-silent
  (let [ch (channel/chan)]
    (with-server [server (fn [_] {:status 200 :headers {} :body ch}) nil]
      (let [socket (connect server)]
        (send-text socket (request-text "GET" "/"))
        (channel/put ch "first")
        (.close socket)
        (is (eventually (channel/closed? ch)))))))

(deftest a-request-that-waits-for-another-on-its-connection-is-no-departure
  (let [began (promise)
        go (promise)]
    (with-server [server (fn [{:keys [uri]}]
                           (deliver began true)
                           (value-of go)
                           {:status 200 :headers {} :body uri}) nil]
      (with-open [socket (connect server)]
        (send-text socket (request-text "GET" "/a"))
        (value-of began)
        (is (eventually (watched? server)))
        (send-text socket (request-text "GET" "/b"))
        (deliver go true)
        (is (= ["/a" "/b"] [(:body (read-response socket)) (:body (read-response socket))]))))))

(defn- interest
  "The interest in events of reading of the request in progress, which is watched."
  ^FillInterest [^HttpServer server]
  (let [[^AbstractEndPoint end-point] @(.-watch (only-exchange server))]
    (.getFillInterest end-point)))

(defn- stale-events
  "Tells the watch of the request in progress what Jetty's selector would tell of bytes that were read meanwhile."
  [server n]
  (dotimes [_ n]
    (.fillable (interest server))))

(defn- connect-by
  "A socket to the server, which may have TLS."
  ^Socket [^HttpServer server]
  (if (:tls (:options (.-service server))) (connect-tls server) (connect server)))

(deftest a-stale-event-of-the-selector-is-no-departure
  (doseq [options [nil {:tls (tls "server")}]]
    (let [go (promise)
          ended (promise)]
      (with-server [server (fn [_]
                             (value-of go)
                             (scope/sleep 1) ; throws if the request was cancelled
                             {:status 200 :headers {} :body "ok"}) options]
        (with-open [socket (connect-by server)]
          (send-text socket (request-text "GET" "/"))
          (is (eventually (watched? server)))
          (stale-events server 7)
          (deliver go true)
          (is (= "ok" (:body (read-response socket)))))
        (testing "and the watch goes on"
          (with-server [server (hanging (promise) ended) options]
            (let [socket (connect-by server)]
              (send-text socket (request-text "GET" "/orders"))
              (is (eventually (watched? server)))
              (stale-events server 2)
              (.close socket)
              (is (= "/orders" (value-of ended))))))))))

;; The selector chooses the thread of an event by the callback that is there, and calls the one that is there then.
(deftest the-selector-does-not-call-a-watch-itself
  (let [began (promise)]
    (with-server [server (hanging began (promise)) nil]
      (with-open [socket (connect server)]
        (send-text socket (request-text "GET" "/"))
        (is (eventually (watched? server)))
        (is (= Invocable$InvocationType/BLOCKING (.getCallbackInvocationType (interest server))))))))

(deftest a-look-at-a-request-that-has-ended-harms-no-later-one
  (let [began (channel/chan {:size 2})
        go (channel/chan {:size 2})
        handler (fn [{:keys [uri]}]
                  (channel/put began uri)
                  (channel/take go)
                  (scope/sleep 1) ; throws if the request was cancelled
                  {:status 200 :headers {} :body uri})]
    (with-server [server handler nil]
      (with-open [socket (connect server)]
        (send-text socket (request-text "GET" "/a"))
        (is (= "/a" (channel/take began)))
        (let [[before] (seq (:in-progress (.-service ^HttpServer server)))]
          (channel/put go true)
          (is (= "/a" (:body (read-response socket))))
          (send-text socket (request-text "GET" "/b"))
          (is (= "/b" (channel/take began)))
          (exchange/look-after before (+ (System/nanoTime) 1000000000000))
          (channel/put go true)
          (is (= "/b" (:body (read-response socket)))))))))

;; ---- stop

(defn- waiting
  "A handler that tells on `began`, and answers once `go` is there."
  [began go]
  (fn [_]
    (deliver began true)
    (value-of go)
    {:status 200 :headers {} :body "done"}))

(defn- while-a-handler-waits
  "Calls (f server socket ended) while the handler of /orders waits, which was asked for by the socket. `ended` gets its path when it ends."
  [f]
  (let [began (promise)
        ended (promise)
        server (http/start (hanging began ended) {:port 0 :host home})]
    (with-open [socket (connect server)]
      (send-text socket (request-text "GET" "/orders"))
      (value-of began)
      (f server socket ended))))

(defn- refused?
  "Does the port refuse connections? One that is reset came while the port was being closed, and says nothing of the next one."
  [port]
  (try
    (.close (Socket. ^String home (int port)))
    false
    (catch ConnectException _ true)
    (catch SocketException _ false)))

(deftest a-stop-waits-for-the-requests-in-progress
  (let [began (promise)
        go (promise)
        server (http/start (waiting began go) {:port 0 :host home})
        port (http/port server)]
    (with-open [busy (connect server)
                idle (connect server)]
      (send-text busy (request-text "GET" "/"))
      (value-of began)
      (let [stopped (future (http/stop server {:timeout 20000}))]
        (is (eventually (refused? port)))
        (send-text idle (request-text "GET" "/late"))
        (is (= 503 (:status (read-response idle))))
        (deliver go true)
        (let [{:keys [head body]} (read-response busy)]
          (is (= "done" body))
          (is (re-find #"(?i)\r\nconnection: close\r\n" head)))
        (is (= 0 (value-of stopped)))
        (is (= "" (read-rest busy)))))
    (is (= 0 (http/stop server)))))

(deftest a-stop-tells-the-clients-of-http-2
  (let [began (promise)
        go (promise)
        server (http/start (waiting began go) {:port 0 :host home})]
    (with-open [socket (connect-http2 server)]
      (send-bytes socket [(get-frame 1)])
      (value-of began)
      (let [stopped (future (http/stop server {:timeout 20000}))
            frames (repeatedly #(read-frame socket))]
        (is (some? (first (filter #(contains? #{nil 7} (:type %)) frames)))) ; GOAWAY, and not the end
        (deliver go true)
        (is (= (map int "done") (:payload (first (filter #(contains? #{nil 0} (:type %)) frames)))))
        (is (= 0 (value-of stopped)))))))

(deftest a-stop-cuts-what-takes-too-long
  (with-failures [failures]
    (while-a-handler-waits
      (fn [server socket ended]
        (is (= 1 (http/stop server {:timeout 10})))
        (is (= "/orders" (value-of ended)))
        (is (= 503 (:status (read-response socket))))))
    (is (= [] @failures))))

(deftest a-stop-during-a-stop-cuts-it-short
  (while-a-handler-waits
    (fn [server _ ended]
      (let [port (http/port server)
            first-stop (future (http/stop server {:timeout 1000000}))]
        (is (eventually (refused? port)))
        (is (= 1 (http/stop server {:timeout 10})))
        (is (= "/orders" (value-of ended)))
        (is (= 0 (value-of first-stop)))
        (is (= 0 (http/stop server)))))))

(deftest a-stop-that-is-cancelled-cancels-the-requests
  (while-a-handler-waits
    (fn [server _ ended]
      (let [port (http/port server)]
        (is (thrown? clojure.lang.ExceptionInfo
                     (scope/with-scope [s]
                       (scope/fork s (fn [] (eventually (refused? port)) (scope/cancel s :impatient)))
                       (http/stop server {:timeout 1000000}))))
        (is (= "/orders" (value-of ended)))))))

(deftest a-handler-may-stop-its-server
  (let [server (promise)
        began (promise)
        go (promise)
        handler (fn [{:keys [uri]}]
                  (if (= "/stop" uri)
                    {:status 200 :headers {} :body (str (http/stop @server {:timeout 1000000}))}
                    ((waiting began go) nil)))]
    (with-failures [failures]
      (deliver server (http/start handler {:port 0 :host home :request-timeout 1000000}))
      (let [port (http/port @server)]
        (with-open [busy (connect @server)
                    socket (connect @server)]
          (send-text busy (request-text "GET" "/busy"))
          (value-of began)
          (send-text socket (request-text "GET" "/stop"))
          (is (eventually (refused? port)))
          (deliver go true)
          (is (= ["done" "0"] (map (comp :body read-response) [busy socket])))
          (is (= "" (read-rest socket)))))
      (is (= 0 (http/stop @server)))
      (is (= [] @failures)))))

(defn- asked-meanwhile
  "What clients get that connect while a server stops: a status, :end or :refused; :late if they get nothing."
  []
  (let [server (http/start (fn [_] {:status 200}) {:port 0 :host home})
        port (http/port server)
        go (CountDownLatch. 1)
        clients (doall (repeatedly 6 #(future
                                        (.await go)
                                        (try
                                          (with-open [socket (doto (Socket. ^String home (int port)) (.setSoTimeout limit-ms))]
                                            (send-text socket (request-text "GET" "/" "Connection: close"))
                                            (let [text (read-rest socket)]
                                              (or (status-of text) (if (= :late text) :late :end))))
                                          (catch IOException _ :refused)))))]
    (.countDown go)
    (http/stop server)
    (map value-of clients)))

(deftest a-stop-leaves-no-client-without-an-end
  (dotimes [_ 60]
    (is (every? #{200 503 :end :refused} (asked-meanwhile)))))

;; ---- owners

(defn- quietly
  "Calls f in a process, with the reports of supervisors taken."
  [f]
  (let [hook (fn [_])]
    (report/add-hook :report hook)
    (try
      (actor/with-process {:trap-exit true} (f))
      (finally (report/remove-hook :report hook)))))

(defn- ok [_]
  {:status 200 :headers {} :body "ok"})

(deftest a-restarted-server-finds-its-port-free
  (quietly
    (fn []
      (let [[_ first-pid] (http/start-link ok {:port 0 :host home})
            port (http/port first-pid)]
        (actor/unlink first-pid)
        (actor/exit first-pid :kill)
        (is (eventually (refused? port)))
        (let [[_ supervisor] (sup/start-link {:intensity 1000
                                              :children [{:id :web :start [http/start-link ok {:port port :host home :name ::web}]}]})]
          (dotimes [_ 20]
            (let [pid (actor/whereis ::web)
                  ref (actor/monitor pid)]
              (is (= port (http/port ::web)))
              (is (= 200 (status-of (get-raw pid "/"))))
              (actor/exit pid :kill)
              (actor/receive [:DOWN ref :process _ _] nil)
              (is (eventually (some-> (actor/whereis ::web) (not= pid))))
              (is (some? (sup/which-children supervisor))))) ; it answers when the child has started
          (actor/exit supervisor :shutdown)
          (actor/receive [:EXIT supervisor _] nil)
          (is (refused? port)))))))

(deftest a-request-may-ask-its-server-while-that-drains
  (quietly
    (fn []
      (let [began (promise)
            go (promise)
            handler (fn [_]
                      (deliver began true)
                      (value-of go)
                      {:status 200 :headers {} :body (pr-str [(http/port ::draining) (:running (http/status ::draining))])})
            [_ pid] (http/start-link handler {:port 0 :host home :name ::draining :drain-timeout 1000000})
            port (http/port pid)]
        (with-open [socket (connect pid)]
          (send-text socket (request-text "GET" "/metrics"))
          (value-of began)
          (actor/exit pid :shutdown)
          (is (eventually (refused? port)))
          (deliver go true)
          (is (= (pr-str [port 1]) (:body (read-response socket))))
          (actor/receive [:EXIT pid _] nil)
          (is (thrown? Throwable (http/port pid))))))))

(deftest a-kill-cuts-a-drain-short
  (quietly
    (fn []
      (let [began (promise)
            ended (promise)
            [_ pid] (http/start-link (hanging began ended) {:port 0 :host home :drain-timeout 1000000})
            port (http/port pid)]
        (actor/unlink pid)
        (with-open [socket (connect pid)]
          (send-text socket (request-text "GET" "/orders"))
          (value-of began)
          (actor/exit pid :shutdown)
          (is (eventually (refused? port)))
          (actor/exit pid :kill)
          (is (= "/orders" (value-of ended))))))))

(deftest a-server-that-cannot-listen-does-not-start
  (quietly
    (fn []
      (with-server [server ok nil]
        (let [[word why] (http/start-link ok {:port (http/port server) :host home})]
          (is (= [:error :magnetar/port-in-use] [word (:magnetar/reason why)])))))))

(deftest an-application-lets-requests-end-when-it-stops
  (let [began (promise)
        go (promise)]
    (application/load {:name ::shop
                       :start {:children [{:id :web :start [http/start-link (waiting began go) {:port 0 :host home :name ::shop-web}]}]}})
    (is (= :ok (application/start ::shop)))
    (let [port (http/port ::shop-web)]
      (with-open [socket (connect ::shop-web)]
        (send-text socket (request-text "GET" "/"))
        (value-of began)
        (let [stopped (future (application/stop ::shop))]
          (is (eventually (refused? port)))
          (deliver go true)
          (is (= "done" (:body (read-response socket))))
          (is (= :ok (value-of stopped)))))
      (application/unload ::shop))))
