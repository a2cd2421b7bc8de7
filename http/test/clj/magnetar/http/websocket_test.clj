(ns magnetar.http.websocket-test
  "WebSockets: peers of each kind, how sockets end, and attackers of each limit."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.channel :as channel]
   [magnetar.http :as http]
   [magnetar.http.server :as server]
   [magnetar.http.socket :as socket]
   [magnetar.http.support :refer [client connect connect-tls eventually exchange home read-response request-text send-text status-of tls value-of with-failures with-server]]
   [magnetar.http.websocket :as ws]
   [magnetar.http.websocket-support :refer [close-jdk next-of open-by open-jdk open-raw read-close read-frame read-head send-frame send-jdk upgrade-text]]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (java.net Socket)
   (java.net.http WebSocket)
   (java.nio ByteBuffer)
   (java.util Set)
   (java.util.concurrent.atomic AtomicReference)
   (magnetar.http.server HttpServer)
   (org.eclipse.jetty.websocket.api Session)
   (org.eclipse.jetty.websocket.core WebSocketConnection)))

(set! *warn-on-reflection* true)

(defn- logging
  "A map of functions that tell what they are called with on the channel."
  [log]
  (let [tell (fn [event] (channel/put log event))]
    {:on-open (fn [_] (tell [:open]))
     :on-message (fn [_ message] (tell [:message (if (bytes? message) (vec message) message)]))
     :on-pong (fn [_ data] (tell [:pong (vec data)]))
     :on-error (fn [_ _] (tell [:error]))
     :on-close (fn [_ code reason] (tell [:close code reason]))}))

(defn- log [] (channel/chan {:size 1000}))

(defn- next-in [log]
  (channel/take log {:timeout 20000 :else :late}))

(defn- rest-of
  "What the channel holds, which is closed."
  [log]
  (channel/close log)
  (into [] (take-while some?) (repeatedly #(channel/take log))))

(defn- none-open? [server]
  (eventually (zero? (long (:running (http/status server))))))

;; ---- peers

(defn- echo [_]
  (http/websocket {:on-message (fn [socket message] (ws/send socket message))}))

(deftest text-and-bytes-go-both-ways
  (with-failures [failures]
    (with-server [server echo nil]
      (let [[socket told] (open-jdk server)
            long-text (apply str (repeat 30000 "é"))]
        (doseq [[message event] [["hello" [:text "hello"]] ["" [:text ""]] [(byte-array [1 2 -3]) [:binary [1 2 -3]]] ["äöü€😀" [:text "äöü€😀"]]
                                 [long-text [:text long-text]]]]
          (send-jdk socket message)
          (is (= event (next-of told))))
        (close-jdk socket 1000 "bye")
        (is (= [:close 1000 "bye"] (next-of told)))
        (is (none-open? server))))
    (is (= [] @failures))))

(deftest a-socket-may-use-tls
  (with-server [server echo {:tls (tls "server")}]
    (let [[socket told] (open-by (client 2) "wss" server nil)]
      (send-jdk socket "hello")
      (is (= [:text "hello"] (next-of told)))
      (close-jdk socket 1000 "bye")
      (is (= [:close 1000 "bye"] (next-of told)))
      (is (none-open? server)))))

(deftest functions-are-told-in-order
  (let [log (log)]
    (with-server [server (fn [_] (http/websocket (logging log))) nil]
      (with-open [socket (open-raw server)]
        (send-frame socket 0x01 "in two ")
        (send-frame socket 0x80 "parts")
        (send-frame socket 0x82 [1 2])
        (send-frame socket 0x8A [7])
        (send-frame socket 0x88 [3 -23 98])
        (is (= [[:open] [:message "in two parts"] [:message [1 2]] [:pong [7]] [:close 1001 "b"]] (vec (repeatedly 5 #(next-in log)))))
        (is (= [0x88 1001 "b"] (read-close socket)))))))

(deftest a-ping-is-answered-by-the-library-or-by-its-function
  (with-server [server echo nil]
    (with-open [socket (open-raw server)]
      (send-frame socket 0x89 "a")
      (send-frame socket 0x89 "b")
      (is (= [[0x8A "a"] [0x8A "b"]] [(read-frame socket) (read-frame socket)]))))
  (with-server [server (fn [_] (http/websocket {:on-ping (fn [socket data] (ws/pong socket (str (String. ^bytes data) "!")))})) nil]
    (with-open [socket (open-raw server)]
      (send-frame socket 0x89 "a")
      (send-frame socket 0x89 "b")
      (is (= [[0x8A "a!"] [0x8A "b!"]] [(read-frame socket) (read-frame socket)])))))

(deftest a-map-is-a-listener-of-ring
  (let [log (log)
        listener {:on-open (fn [socket] (ws/ping socket) (ws/send socket "hello"))
                  :on-message (fn [socket message] (ws/send socket (if (instance? ByteBuffer message) message (str "t: " message))))
                  :on-pong (fn [_ data] (channel/put log (class data)))
                  :on-close (fn [_ code reason] (channel/put log [code reason]))}]
    (with-server [server (fn [request]
                           {:ring.websocket/listener listener
                            :ring.websocket/protocol (last (ws/request-protocols request))
                            :headers {"Set-Cookie" ["a=1" "b=2"]}}) nil]
      (let [[^WebSocket socket told] (open-jdk server "soap" "mqtt")]
        (is (= "mqtt" (.getSubprotocol socket)))
        (is (= [:text "hello"] (next-of told)))
        (send-jdk socket "one")
        (send-jdk socket (byte-array [2]))
        (is (= [[:text "t: one"] [:binary [2]]] [(next-of told) (next-of told)]))
        (close-jdk socket 1000 "")
        (is (isa? (next-in log) ByteBuffer))
        (is (= [1000 ""] (next-in log))))
      (with-open [socket (connect server)]
        (send-text socket (upgrade-text "/" "Sec-WebSocket-Protocol: mqtt"))
        (is (= #{"Set-Cookie: a=1\r" "Set-Cookie: b=2\r"} (into #{} (filter #(str/starts-with? % "Set-Cookie")) (read-head socket))))))))

(deftest channels-carry-the-messages
  (let [in (channel/chan)
        out (channel/chan)]
    (with-server [server (fn [_] (http/websocket {:in in :out out})) nil]
      (let [[socket told] (open-jdk server)]
        (send-jdk socket "a")
        (is (= "a" (next-in in)))
        (channel/put out "b")
        (channel/put out (byte-array [1]))
        (is (= [[:text "b"] [:binary [1]]] [(next-of told) (next-of told)]))
        (channel/close out)
        (is (= [:close 1000 ""] (next-of told)))
        (is (nil? (next-in in)))
        (is (none-open? server))))))

(deftest channels-close-with-their-client
  (let [in (channel/chan {:size 1})
        out (channel/chan)]
    (with-server [server (fn [_] (http/websocket {:in in :out out})) nil]
      (let [[socket] (open-jdk server)]
        (send-jdk socket "a")
        (close-jdk socket 1000 "")
        (is (none-open? server))
        (is (= ["a" nil] [(next-in in) (next-in in)]))
        (is (false? (channel/put out "late")))))))

(defn- in-process
  "Calls (f pid) with a process that puts its messages on the channel, and asks for the next one after each."
  [log f]
  (let [pid (actor/spawn (fn []
                           (loop []
                             (let [message (actor/receive m m)]
                               (when (not= :stop message)
                                 (channel/put log message)
                                 (recur))))))]
    (f pid)))

(deftest a-process-gets-one-message-at-a-time
  (let [log (log)]
    (in-process log
      (fn [pid]
        (with-server [server (fn [_] (http/websocket pid)) nil]
          (let [[socket told] (open-jdk server)]
            (send-jdk socket "a")
            (send-jdk socket "b")
            (let [[word ws text] (next-in log)]
              (is (= [:ws "a"] [word text]))
              (is (nil? (channel/try-take log)))
              (ws/set-options ws {:active 2})
              (send-jdk socket "c")
              (is (= [[:ws ws "b"] [:ws ws "c"] [:ws-passive ws]] (vec (repeatedly 3 #(next-in log)))))
              (ws/send ws "answer")
              (is (= [:text "answer"] (next-of told)))
              (ws/set-options ws {:active 32767})
              (is (thrown-with-msg? IllegalArgumentException #"at most 32767 together with what is left" (ws/set-options ws {:active 1})))
              (close-jdk socket 1000 "bye")
              (is (= [:ws-closed ws 1000 "bye"] (next-in log))))))))))

(deftest a-full-mailbox-keeps-no-end-of-a-socket-away
  (doseq [when-full [:block :fail]
          [leave code] [[#(send-frame % 0x88 [3 -24]) 1000] [#(doto ^Socket % (.setSoLinger true 0) .close) 1006]]]
    (let [told (promise)
          pid (actor/spawn-opt (fn [] (actor/receive [:ws-closed _ code _] (deliver told code))) {:mailbox {:capacity 1 :when-full when-full}})]
      (actor/! pid :order)
      (with-failures [failures]
        (with-server [server (fn [_] (http/websocket pid)) nil]
          (with-open [socket (open-raw server)]
            (leave socket)
            (is (= code (value-of told)))))
        (is (= [] @failures))))))

(deftest a-process-that-ends-closes-its-socket
  (in-process (log)
    (fn [pid]
      (with-server [server (fn [_] (http/websocket pid {:active true})) nil]
        (let [[_ told] (open-jdk server)]
          (actor/exit pid :kill)
          (is (= [:close 1001 "The process has ended."] (next-of told)))
          (is (none-open? server)))
        (let [[_ told] (open-jdk server)]
          (is (= [:close 1001 "The process has ended."] (next-of told))))))))

;; ---- requests that do not become a WebSocket

(deftest a-request-that-is-no-upgrade-is-refused
  (with-server [server echo nil]
    (let [text (exchange server (request-text "GET" "/" "Connection: close"))]
      (is (= 426 (status-of text)))
      (is (re-find #"(?i)upgrade: websocket" text)))
    (are [status from to] (= status (status-of (exchange server (str/replace (upgrade-text "/" "Connection: close") from to))))
      426 "Version: 13" "Version: 8"
      426 "GET" "POST"
      426 "Upgrade: websocket" "Upgrade: chat"
      400 "dGhlIHNhbXBsZSBub25jZQ==" "short"
      400 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==" "X-None: 1")
    (is (none-open? server))))

(deftest pages-of-other-hosts-are-refused
  (letfn [(status [options origin]
            (with-server [server (fn [_] (http/websocket {} options)) nil]
              (with-open [socket (connect server)]
                (send-text socket (if origin (upgrade-text "/" (str "Origin: " origin)) (upgrade-text "/")))
                (some-> (re-find #" (\d+)" (str (first (read-head socket)))) second parse-long))))]
    (are [expected options origin] (= expected (status options origin))
      101 nil nil
      101 nil "http://shop.test"
      101 nil "https://Shop.test:443"
      403 nil "https://shop.test:444"
      403 nil "https://evil.test"
      403 nil "https://shop.test.evil.test"
      403 nil "null"
      403 nil "shop.test"
      403 nil "ftp://shop.test"
      101 nil "http://shop.test:80"
      403 nil "http://shop.test:443"
      101 {:origins #{"https://app.test"}} "https://app.test"
      101 {:origins #{"https://app.test:443"}} "https://APP.test"
      403 {:origins #{"https://app.test"}} "https://app.test:444"
      403 {:origins #{"https://app.test"}} "http://shop.test"
      101 {:origins :any} "https://evil.test")))

(deftest a-server-with-tls-refuses-pages-without-it
  (with-server [server echo {:tls (tls "server")}]
    (are [expected host origin]
         (with-open [socket (connect-tls server)]
           (send-text socket (str/replace (upgrade-text "/" (str "Origin: " origin)) "Host: shop.test" (str "Host: " host)))
           (= expected (some-> (re-find #" (\d+)" (str (first (read-head socket)))) second parse-long)))
         101 "shop.test" "https://shop.test"
         101 "shop.test:443" "https://shop.test"
         101 "shop.test" "https://shop.test:443"
         101 "shop.test:8443" "https://shop.test:8443"
         403 "shop.test:8443" "https://shop.test"
         403 "shop.test" "https://shop.test:8443"
         403 "shop.test" "http://shop.test"
         403 "shop.test" "http://shop.test:443"
         403 "shop.test:80" "http://shop.test")))

(deftest what-is-no-listener-is-reported
  (are [response sentence] (with-failures [failures]
                             (with-server [server (constantly response) nil]
                               (let [text (exchange server (upgrade-text "/" "Connection: close"))]
                                 (is (none-open? server))
                                 (and (= 500 (status-of text))
                                      (str/includes? (ex-message (:error (first @failures))) sentence)))))
    {:ring.websocket/listener 7} "a :ring.websocket/listener that is no map of functions"
    {:ring.websocket/listener {} :ring.websocket/protocol "mqtt"} "that the client does not offer"
    {:ring.websocket/listener {} :headers {"a b" "c"}} "the name of a header"))

(deftest the-best-protocol-that-the-client-offers-is-chosen
  (with-server [server (fn [_] (http/websocket {} {:protocols ["mqtt" "soap"]})) nil]
    (is (= ["soap" "mqtt" ""] (for [offered [["amqp" "soap"] ["soap" "mqtt"] []]]
                                (.getSubprotocol ^WebSocket (first (apply open-jdk server offered))))))))

;; ---- attackers

(defn- closed-after
  "[code of the close, what the functions were told, failures] after (attack socket)."
  [options attack]
  (let [log (log)]
    (with-failures [failures]
      (with-server [server (fn [_] (http/websocket (logging log) options)) nil]
        (with-open [socket (open-raw server)]
          (attack socket)
          (let [[_ code] (read-close socket)]
            (is (none-open? server))
            [code (rest-of log) @failures]))))))

(defn- codes [[code told failures]]
  [code (last (map second (filter #(= :close (first %)) told))) (count (filter #{[:error]} told)) failures])

(deftest a-message-that-is-too-long-closes
  (testing "in one frame"
    (is (= [1009 1009 1 []] (codes (closed-after {:max-message 5} #(send-frame % 0x81 "123456"))))))
  (testing "of the default"
    (is (= [1009 1009 1 []] (codes (closed-after nil #(send-frame % 0x82 (repeat 65537 1)))))))
  (testing "in parts"
    (is (= [1009 1009 1 []] (codes (closed-after {:max-message 5} (fn [socket]
                                                                    (send-frame socket 0x02 [1 2 3])
                                                                    (send-frame socket 0x80 [4 5 6])))))))
  (testing "and one that is not is taken"
    (is (= [[:open] [:message "12345"] [:close 1000 ""]]
           (second (closed-after {:max-message 5} (fn [socket]
                                                    (send-frame socket 0x81 "12345")
                                                    (send-frame socket 0x88 [3 -24]))))))))

(deftest frames-that-are-wrong-close
  (are [code attack] (= [code code 1 []] (codes (closed-after nil attack)))
    1007 #(send-frame % 0x81 [0xC3 0x28])
    1007 #(send-frame % 0x81 [0xC3])
    1002 #(send-frame % 0x83 "x")
    1002 #(send-frame % 0xC1 "x")
    1002 #(send-frame % 0x80 "x")
    1002 #(send-frame % 0x89 (repeat 126 1))
    1002 #(send-frame % 0x88 [1])
    1002 (fn [socket] (send-text socket "\u0081\u0001x")))) ; without a mask

(deftest a-client-that-is-silent-is-closed
  (is (= [1001 1001 1 []] (codes (closed-after {:idle-timeout 30} (fn [_] nil))))))

(deftest a-client-that-answers-pings-stays
  (let [log (log)]
    (with-server [server (fn [_] (http/websocket (logging log) {:idle-timeout 4500})) {:idle-timeout 1000 :header-timeout 1000}]
      (with-open [socket (open-raw server)]
        (dotimes [_ 2] ; 1.5 seconds apart
          (is (= [0x89 ""] (read-frame socket)))
          (send-frame socket 0x8A ""))
        (send-frame socket 0x88 [3 -24])
        (is (= [[:open] [:pong []] [:pong []] [:close 1000 ""]] (vec (repeatedly 4 #(next-in log)))))))))

(def ^:private rarely-pinged {:idle-timeout 1000000})

(def ^:private after-500-seconds "The instant at which a client that is rarely pinged is sent a ping." #(+ (System/nanoTime) 500000000000))

(deftest a-check-that-throws-harms-no-other-socket
  (with-failures [failures]
    (with-server [^HttpServer server (fn [_] (http/websocket {} rarely-pinged)) nil]
      (let [^Set websockets (:websockets (.-service server))
            broken (range 100)]
        (with-open [socket (open-raw server)]
          ;; until then it may count as a connection of HTTP that is idle
          (is (eventually (every? #(instance? WebSocketConnection %) (keys (:connections (.-service server))))))
          (try
            (.addAll websockets broken)
            (#'server/look-after (.-service server) (after-500-seconds))
            (finally (.removeAll websockets broken)))
          (is (= [0x89 ""] (read-frame socket))))))
    (is (seq @failures))))

(deftest a-ping-that-throws-leaves-sends-alone
  (let [opened (promise)]
    (with-server [server (fn [_] (http/websocket {:on-open #(deliver opened %)} rarely-pinged)) nil]
      (with-open [client (open-raw server)]
        (let [^magnetar.http.socket.WebSocket socket (value-of opened)
              ^AtomicReference session (.-session socket)
              real (.get session)]
          (.set session (reify Session (sendPing [_ _ _] (throw (IllegalStateException. "broken")))))
          (socket/look-after socket (after-500-seconds))
          (.set session real)
          (is (ws/send socket "order"))
          (is (= [0x81 "order"] (read-frame client))))))))

(deftest a-client-that-does-not-read-is-cut
  (let [sent (promise)
        closed (promise)
        message (apply str (repeat 100000 "x"))]
    (with-failures [failures]
      (with-server [server (fn [_] (http/websocket {:on-open (fn [socket]
                                                               (deliver sent (loop [n 0]
                                                                               (if (ws/send socket message) (recur (inc n)) [n (ws/open? socket)]))))
                                                    :on-close (fn [_ code _] (deliver closed code))}
                                                   {:send-timeout 2000})) nil]
        (with-open [_ (open-raw server)]
          (let [[n open?] (value-of sent)]
            (is (false? open?))
            (is (< 0 n 1000)) ; what the buffers of the system take
            (is (= 1006 (value-of closed)))
            (is (none-open? server)))))
      (is (= [] @failures)))))

(deftest senders-wait-for-a-client-that-does-not-read-and-nothing-piles-up
  (let [sockets (atom nil)]
    (with-server [server (fn [_] (http/websocket {:on-open #(reset! sockets %)} {:send-timeout 2000})) nil]
      (with-open [_ (open-raw server)]
        (is (eventually @sockets))
        (let [message (apply str (repeat 1000000 "x"))
              senders (doall (repeatedly 20 #(future (loop [n 0] (if (ws/send @sockets message) (recur (inc n)) n)))))
              sent (map value-of senders)]
          (is (< 0 (reduce + sent) 30)))
        (is (none-open? server))))))

(deftest a-client-is-read-no-faster-than-its-peer-works
  (let [go (promise)
        log (log)
        socket (promise)]
    (with-server [server (fn [_] (http/websocket {:on-open #(deliver socket %)
                                                  :on-message (fn [_ text]
                                                                (value-of go)
                                                                (channel/put log text))})) nil]
      (with-open [client (open-raw server)]
        (dotimes [n 50]
          (send-frame client 0x81 (str n)))
        (let [^magnetar.http.socket.WebSocket socket (value-of socket)]
          (is (eventually (= 2 (.get ^java.util.concurrent.atomic.AtomicLong (.-queued socket)))))
          (deliver go true)
          (is (= (mapv str (range 50)) (vec (repeatedly 50 #(next-in log)))))
          (is (eventually (= 0 (.get ^java.util.concurrent.atomic.AtomicLong (.-queued socket))))))))))

(deftest a-client-that-never-answers-a-close-is-cut
  (let [closed (promise)]
    (with-server [server (fn [_] (http/websocket {:on-open #(ws/close % 4000 "out") :on-close (fn [_ code reason] (deliver closed [code reason]))}
                                                 {:close-timeout 30})) nil]
      (with-open [client (open-raw server)]
        (is (= [0x88 4000 "out"] (read-frame client)))
        (is (nil? (read-frame client)))
        (is (= [4000 "out"] (value-of closed)))
        (is (none-open? server))))))

(deftest sockets-count-as-requests-that-run
  (with-server [server echo {:max-concurrent 2 :max-queue 0}]
    (let [[first-socket told] (open-jdk server)
          [second-socket] (open-jdk server)]
      (is (= {:running 2 :waiting 0} (select-keys (http/status server) [:running :waiting])))
      (is (= 503 (status-of (exchange server (upgrade-text "/" "Connection: close")))))
      (close-jdk first-socket 1000 "")
      (is (= [:close 1000 ""] (next-of told)))
      (is (eventually (= 1 (:running (http/status server)))))
      (open-jdk server)
      (close-jdk second-socket 1000 ""))))

(deftest sockets-that-come-and-go-leave-nothing
  (with-server [server echo {:max-concurrent 3}]
    (dotimes [n 60]
      (let [^Socket socket (connect server)]
        (send-text socket (upgrade-text "/"))
        (when (even? n)
          (read-head socket)
          (send-frame socket 0x81 "x"))
        (when (zero? (rem n 3))
          (.setSoLinger socket true 0))
        (.close socket)))
    (is (none-open? server))
    (is (eventually (empty? ^Set (:websockets (.-service ^HttpServer server)))))))

;; ---- places and peers

(def ^:private ends
  "Ways in which a request ends, each with the handler and what the client does with its socket."
  {"a handler that throws" [(fn [_] (throw (ex-info "broken" {}))) (request-text "GET" "/") nil]
   "a deadline" [(fn [_] (scope/sleep 100000)) (request-text "GET" "/") read-response]
   "no upgrade" [(fn [_] (http/websocket {})) (request-text "GET" "/") read-response]
   "an upgrade of another page" [(fn [_] (http/websocket {})) (upgrade-text "/" "Origin: https://evil.test") read-response]
   "a wrong header of an upgrade" [(fn [_] (assoc (http/websocket {}) :headers {"a b" "c"})) (upgrade-text "/") read-response]
   "a client that goes before its WebSocket opens" [(fn [_] (http/websocket {})) (upgrade-text "/") nil]
   "a client that goes after it" [(fn [_] (http/websocket {})) (upgrade-text "/") read-head]
   "a function that throws" [(fn [_] (http/websocket {:on-open (fn [_] (throw (ex-info "broken" {})))})) (upgrade-text "/") read-head]
   "a close of the server" [(fn [_] (http/websocket {:on-open ws/close})) (upgrade-text "/") read-close]
   "a stream" [(fn [_] (http/events (channel/chan))) (request-text "GET" "/") nil]})

(deftest each-end-of-a-request-leaves-its-place-once
  (doseq [[way [handler text act]] ends
          :let [calls (atom 0)]]
    (testing way
      (with-failures [_]
        (with-server [server (fn [{:keys [uri] :as request}] (swap! calls inc) (if (= "/next" uri) {:status 200} (handler request)))
                      {:max-concurrent 1 :max-queue 0 :request-timeout 1500}]
          (dotimes [n 2]
            (with-open [socket (connect server)]
              (send-text socket text)
              (is (eventually (= (inc n) @calls)))
              (when act
                (act socket)))
            (is (none-open? server)))
          (is (eventually (= 200 (status-of (exchange server (request-text "GET" "/next" "Connection: close"))))))
          (is (eventually (= [0 0] ((juxt :running :waiting) (http/status server))))))))))

(def ^:private refusals
  "Requests whose handler returns a WebSocket that does not open, as [text of the request, what the handler does with the response]."
  {"no upgrade" [(request-text "GET" "/" "Connection: close") identity]
   "another page" [(upgrade-text "/" "Connection: close" "Origin: https://evil.test") identity]
   "a wrong header" [(upgrade-text "/" "Connection: close") #(assoc % :headers {"a b" "c"})]
   "a handler that is late" [(upgrade-text "/" "Connection: close") (fn [response] (try (scope/sleep 100000) (catch Throwable _ response)))]})

(deftest the-channels-of-a-socket-that-does-not-open-are-closed
  (doseq [[why [text respond]] refusals]
    (testing why
      (let [in (channel/chan)
            out (channel/chan)]
        (with-failures [_]
          (with-server [server (fn [_] (respond (http/websocket {:in in :out out}))) {:request-timeout 1500}]
            (is (<= 400 (status-of (exchange server text))))
            (is (eventually (and (channel/closed? in) (channel/closed? out))))
            (is (none-open? server))))))))

(deftest the-process-of-a-socket-that-does-not-open-is-told
  (doseq [[why [text respond]] refusals]
    (testing why
      (let [log (log)]
        (in-process log
          (fn [pid]
            (with-failures [_]
              (with-server [server (fn [_] (respond (http/websocket pid))) {:request-timeout 1500}]
                (exchange server text)
                (let [[word ws code reason] (next-in log)]
                  (is (= [:ws-closed 1006 "The WebSocket did not open."] [word code reason]))
                  (is (false? (ws/open? ws)))
                  (is (false? (ws/send ws "late"))))
                (is (nil? (channel/try-take log)))))))))))

(deftest the-channels-of-clients-that-come-and-go-are-closed
  (let [all (atom [])]
    (with-server [server (fn [_]
                           (let [in (channel/chan)]
                             (swap! all conj in)
                             (http/websocket {:in in}))) nil]
      (dotimes [n 40]
        (let [^Socket socket (connect server)]
          (send-text socket (upgrade-text "/"))
          (when (even? n)
            (read-head socket))
          (when (zero? (rem n 3))
            (.setSoLinger socket true 0))
          (.close socket)))
      (is (none-open? server))
      (is (eventually (every? channel/closed? @all))))))

;; ---- ends

(deftest a-stop-calls-the-last-function-of-a-socket-whose-peer-waits
  (let [began (promise)
        closed (promise)
        server (http/start (fn [_] (http/websocket {:on-open (fn [_] (deliver began true) (scope/sleep 100000))
                                                    :on-close (fn [_ code _] (scope/sleep 1) (deliver closed code))}))
                           {:port 0 :host home})]
    (with-failures [failures]
      (with-open [_ (open-raw server)]
        (value-of began)
        (is (= 1 (http/stop server {:timeout 10})))
        (is (= 1001 (value-of closed))))
      (is (= [] @failures)))))

(deftest a-last-function-that-hangs-is-cancelled-and-reported
  (doseq [end [(fn [^Socket socket _] (.close socket)) (fn [_ server] (http/stop server {:timeout 10}))]]
    (let [ended (promise)
          began (promise)
          server (http/start (fn [_] (http/websocket {:on-open (fn [_] (deliver began true))
                                                      :on-close (fn [_ _ _] (try (scope/sleep 100000) (finally (deliver ended true))))}
                                                     {:close-timeout 20}))
                             {:port 0 :host home})]
      (with-failures [failures]
        (with-open [socket (open-raw server)]
          (value-of began)
          (end socket server)
          (is (true? (value-of ended)))
          (is (eventually (= [:magnetar/deadline] (map (comp :magnetar/reason ex-data :error) @failures))))
          (is (none-open? server)))
        (http/stop server {:timeout 0})))))

(deftest a-client-that-does-not-answer-a-close-takes-no-time-of-the-last-function
  (let [closed (promise)]
    (with-failures [failures]
      (with-server [server (fn [_] (http/websocket {:on-open ws/close
                                                    :on-close (fn [^magnetar.http.socket.WebSocket socket code _]
                                                                (socket/look-after socket (+ (System/nanoTime) 1000000000000))
                                                                (scope/sleep 1)
                                                                (deliver closed code))}
                                                   {:close-timeout 20})) nil]
        (with-open [_ (open-raw server)]
          (is (= 1000 (value-of closed)))))
      (is (= [] @failures)))))

(deftest a-function-may-stop-its-server
  (let [server (promise)
        stopped (promise)
        closed (promise)]
    (deliver server (http/start (fn [_] (http/websocket {:on-message (fn [_ _] (deliver stopped (http/stop @server {:timeout 1000000})))
                                                         :on-close (fn [_ code _] (deliver closed code))}))
                                {:port 0 :host home}))
    (with-open [socket (open-raw @server)]
      (send-frame socket 0x81 "stop")
      (is (= [0x88 1001 "The server stops."] (read-close socket)))
      (send-frame socket 0x88 [3 -24])
      (is (= [0 1001] [(value-of stopped) (value-of closed)])))))

(defn- vanished
  "What the functions tell after the client has left by (leave socket) while one of them waits."
  [leave]
  (let [began (promise)
        ended (promise)
        closed (promise)]
    (with-failures [failures]
      (with-server [server (fn [_] (http/websocket {:on-message (fn [_ _]
                                                                  (try
                                                                    (deliver began true)
                                                                    (scope/sleep 100000)
                                                                    (finally (deliver ended true))))
                                                    :on-close (fn [_ code _] (scope/sleep 1) (deliver closed code))})) nil]
        (with-open [socket (open-raw server)]
          (send-frame socket 0x81 "x")
          (value-of began)
          (leave socket)
          [(value-of ended) (value-of closed) (none-open? server) @failures])))))

(deftest a-client-that-vanishes-cancels-what-waits
  (is (= [true 1006 true []] (vanished #(.close ^Socket %))))
  (is (= [true 1006 true []] (vanished #(doto ^Socket % (.setSoLinger true 0) .close)))))

(deftest a-client-that-closes-lets-what-runs-end
  (let [log (log)
        go (promise)]
    (with-server [server (fn [_] (http/websocket (assoc (logging log) :on-message (fn [_ text]
                                                                                    (value-of go)
                                                                                    (scope/sleep 1)
                                                                                    (channel/put log text))))) nil]
      (let [[socket told] (open-jdk server)]
        (send-jdk socket "a")
        (send-jdk socket "b")
        (close-jdk socket 1000 "bye")
        (deliver go true)
        (is (= [[:open] "a" "b" [:close 1000 "bye"]] (vec (repeatedly 4 #(next-in log)))))
        (is (= [:close 1000 "bye"] (next-of told)))))))

(deftest what-waits-too-long-after-a-close-is-cancelled
  (let [ended (promise)]
    (with-server [server (fn [_] (http/websocket {:on-message (fn [_ _] (try (scope/sleep 100000) (finally (deliver ended true))))} {:close-timeout 30})) nil]
      (let [[socket] (open-jdk server)]
        (send-jdk socket "a")
        (close-jdk socket 1000 "bye")
        (is (true? (value-of ended)))
        (is (none-open? server))))))

(deftest a-function-that-throws-closes-its-socket-alone
  (with-failures [failures]
    (let [log (log)]
      (with-server [server (fn [_] (http/websocket (assoc (logging log) :on-message (fn [socket text]
                                                                                      (if (= "bad" text) (throw (ex-info "the password is 1234" {})) (ws/send socket text)))))) nil]
        (let [[other other-told] (open-jdk server)
              [socket told] (open-jdk server)]
          (send-jdk socket "bad")
          (is (= [:close 1011 "The server failed."] (next-of told)))
          (send-jdk other "good")
          (is (= [:text "good"] (next-of other-told)))
          (close-jdk other 1000 "")
          (is (none-open? server))
          (is (= [["ws /orders" "the password is 1234"]] (map (juxt :site (comp ex-message :error)) @failures)))
          (is (= {[:open] 2 [:error] 1 [:close 1011 "The server failed."] 1 [:close 1000 ""] 1} (frequencies (rest-of log)))))))))

(deftest a-stop-closes-the-sockets
  (let [log (log)
        server (http/start (fn [_] (http/websocket (logging log))) {:port 0 :host home})
        [_ told] (open-jdk server)]
    (is (= [:open] (next-in log)))
    (is (= 0 (http/stop server {:timeout 20000})))
    (is (= [:close 1001 "The server stops."] (next-of told)))
    (is (= [:close 1001 "The server stops."] (next-in log)))))

(deftest a-stop-cuts-a-socket-whose-peer-waits
  (let [began (promise)
        ended (promise)
        server (http/start (fn [_] (http/websocket {:on-open (fn [_] (deliver began true) (try (scope/sleep 100000) (finally (deliver ended true))))})) {:port 0 :host home})]
    (with-failures [failures]
      (open-jdk server)
      (value-of began)
      (is (= 1 (http/stop server {:timeout 10})))
      (is (true? (value-of ended)))
      (is (= [] @failures)))))

(deftest a-kill-of-the-server-ends-its-sockets
  (let [opened (promise)
        closed (promise)]
    (actor/with-process {:trap-exit true}
      (let [[_ server] (http/start-link (fn [_] (http/websocket {:on-open #(deliver opened %) :on-close (fn [_ code _] (deliver closed code))}))
                                        {:port 0 :host home})]
        (open-jdk server)
        (value-of opened)
        (actor/exit server :kill)
        (is (= 1006 (value-of closed)))))))

(deftest a-connection-serves-requests-before-it-is-a-websocket
  (with-server [server (fn [request] (if (ws/upgrade-request? request) (echo request) {:status 200 :headers {} :body "page"})) nil]
    (with-open [socket (connect server)]
      (send-text socket (request-text "GET" "/"))
      (is (= "page" (:body (read-response socket))))
      (send-text socket (upgrade-text "/"))
      (is (re-find #" 101 " (first (read-head socket))))
      (send-frame socket 0x81 "x")
      (is (= [0x81 "x"] (read-frame socket))))))

;; ---- misuse

(deftest misuse-is-refused-at-once
  (are [id f] (= id (try (f) (catch Exception e (:magnetar/reason (ex-data e)))))
    :magnetar/not-a-peer #(http/websocket 7)
    :magnetar/not-a-peer #(http/websocket {:in 7})
    :magnetar/unknown-option #(http/websocket {:on-mesage identity})
    :magnetar/bad-option #(http/websocket {:on-message 7})
    :magnetar/unknown-option #(http/websocket {} {:max-mesage 1})
    :magnetar/bad-option #(http/websocket {} {:max-message 0})
    :magnetar/bad-option #(http/websocket {} {:origins "https://shop.test"})
    :magnetar/bad-option #(http/websocket {} {:protocols "mqtt"})
    :magnetar/bad-option #(http/websocket {} {:active 0})
    :magnetar/bad-duration #(http/websocket {} {:idle-timeout 0})
    :magnetar/not-a-websocket #(ws/send 7 "x")
    :magnetar/not-a-websocket #(ws/close nil)))

(deftest what-cannot-be-sent-is-refused
  (let [refused (promise)]
    (with-server [server (fn [_] (http/websocket {:on-open (fn [socket]
                                                             (deliver refused
                                                               (for [f [#(ws/send socket {:order 7}) #(ws/ping socket (byte-array 126)) #(ws/close socket 1005 "")
                                                                        #(ws/close socket 1000 (apply str (repeat 124 "x"))) #(ws/set-options socket {:active 0})]]
                                                                 (try (f) (catch Exception e (:magnetar/reason (ex-data e)))))))})) nil]
      (with-open [_ (open-raw server)]
        (is (= [:magnetar/not-sendable :magnetar/not-sendable :magnetar/bad-option :magnetar/bad-option :magnetar/bad-option] (value-of refused)))))))
