(ns magnetar.http.limits-test
  "Each limit of a server, attacked through bare sockets."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.channel :as channel]
   [magnetar.http :as http]
   [magnetar.http.connections :as connections]
   [magnetar.http.door :as door]
   [magnetar.http.support :refer [connect connect-http2 eventually exchange frame get-frame get-raw home read-frame read-response read-rest request-text send-bytes send-text status-of value-of with-failures with-server]]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (clojure.lang ExceptionInfo)
   (java.io IOException InputStream)
   (java.net InetSocketAddress Socket)
   (magnetar.http.server HttpServer)))

(set! *warn-on-reflection* true)

(defn- ok [_]
  {:status 200 :headers {} :body "ok"})

(defn- slurping [request]
  {:status 200 :headers {} :body (str (count (slurp (:body request))))})

(defn- letters [n]
  (apply str (repeat n "a")))

;; ---- the head

(deftest a-head-that-is-too-long-is-refused
  (with-server [server ok {:max-header 1000}]
    (is (= 431 (status-of (get-raw server "/" (str "A: " (letters 1000))))))
    (is (= 431 (status-of (apply get-raw server "/" (map #(str "A" % ": 1234567890") (range 100))))))
    (is (= 414 (status-of (get-raw server (str "/" (letters 1000))))))
    (is (= 200 (status-of (get-raw server (str "/" (letters 800))))))))

(deftest garbage-is-refused
  (with-server [server ok nil]
    (doseq [text ["garbage\r\n\r\n" "GET / HTTP/9.9\r\nHost: a\r\n\r\n" "GET / HTTP/1.1\r\n\r\n" "GET / HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n"
                  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"
                  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]]
      (testing text
        (let [answer (exchange server text)]
          (is (<= 400 (status-of answer) 505))
          (is (not (re-find #"(?i)jetty|exception" answer))))))))

(deftest a-head-that-arrives-slowly-is-cut
  (with-server [server ok {:header-timeout 1000}]
    (with-open [socket (connect server)]
      (send-text socket "GET / HTTP/1.1\r\nHost: a\r\n")
      (let [answer (future (read-rest socket))]
        (loop [] ; one byte after the other, as a slow-loris
          (when (and (not (realized? answer))
                     (try (send-text socket "A: 1\r\n") true (catch IOException _ false)))
            (deref answer 20 nil)
            (recur)))
        (is (= 408 (status-of (value-of answer))))))
    (is (= 200 (status-of (get-raw server "/"))))))

(deftest a-connection-without-a-request-is-closed
  (with-server [server ok {:idle-timeout 2000}] ; a request comes before, also on a busy machine
    (with-open [socket (connect server)]
      (is (contains? #{"" :reset} (read-rest socket))))
    (testing "after a request too"
      (with-open [socket (connect server)]
        (send-text socket (request-text "GET" "/"))
        (is (= 200 (:status (read-response socket))))
        (is (contains? #{"" :reset} (read-rest socket)))))))

;; ---- the body

(deftest a-body-that-is-too-long-is-refused
  (let [calls (atom 0)]
    (with-failures [failures]
      (with-server [server #(do (swap! calls inc) (slurping %)) {:max-body 10}]
        (testing "by its Content-Length, before the handler is called"
          (is (= 413 (status-of (exchange server (str (request-text "POST" "/" "Content-Length: 11") (letters 11))))))
          (is (zero? @calls)))
        (testing "by its chunks, while the handler reads"
          (is (= 413 (status-of (exchange server (str (request-text "POST" "/" "Transfer-Encoding: chunked")
                                                      "6\r\n" (letters 6) "\r\n6\r\n" (letters 6) "\r\n0\r\n\r\n")))))
          (is (= 1 @calls)))
        (is (= 200 (status-of (exchange server (str (request-text "POST" "/" "Connection: close" "Content-Length: 10") (letters 10)))))))
      (is (= [] @failures)))))

(deftest a-body-that-does-not-arrive-is-not-waited-for
  (let [ended (promise)]
    (with-failures [failures]
      (with-server [server #(try (slurping %) (finally (deliver ended true))) {:request-timeout 1500}]
        (is (= 408 (status-of (exchange server (str (request-text "POST" "/" "Content-Length: 10") "12345")))))
        (is (true? (value-of ended))))
      (is (= [] @failures)))))

(deftest a-body-that-stalls-is-not-waited-for
  (let [ended (promise)]
    (with-failures [failures]
      (with-server [server #(try (slurping %) (finally (deliver ended true))) {:idle-timeout 1500}]
        (is (= 408 (status-of (exchange server (str (request-text "POST" "/" "Content-Length: 10") "12345")))))
        (is (true? (value-of ended))))
      (is (= [] @failures)))))

(deftest a-handler-that-has-given-the-body-up-may-still-be-late
  (with-failures [failures]
    (with-server [server (fn [{:keys [body]}]
                           (try (slurp body) (catch IOException _))
                           (scope/sleep 100000)) {:idle-timeout 1000 :request-timeout 3000}]
      (is (= 503 (status-of (exchange server (str (request-text "POST" "/" "Content-Length: 10") "12345"))))))
    (is (eventually (= [:magnetar/deadline] (map (comp :magnetar/reason ex-data :error) @failures))))))

(deftest an-upgrade-to-http-2-is-refused
  (with-server [server ok nil]
    (is (str/starts-with? (get-raw server "/" "Connection: Upgrade, HTTP2-Settings" "Upgrade: h2c" "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
                          "HTTP/1.1 200 OK\r\n"))))

(deftest a-chunk-that-is-no-chunk-is-refused
  (with-failures [failures]
    (with-server [server slurping nil]
      (is (= 400 (status-of (exchange server (str (request-text "POST" "/" "Transfer-Encoding: chunked") "zz\r\n"))))))
    (is (= [] @failures))))

;; ---- connections

(deftest more-connections-than-allowed-wait
  (with-server [server ok {:max-connections 2}]
    (let [[a b c] (repeatedly 3 #(connect server))]
      (with-open [^Socket b b ^Socket c c]
        (doseq [socket [a b]]
          (send-text socket (request-text "GET" "/"))
          (is (= 200 (:status (read-response socket)))))
        (send-text c (request-text "GET" "/"))
        (is (= 2 (:connections (http/status server))))
        (.close ^Socket a)
        (is (= 200 (:status (read-response c))))))))

(defn- connect-soon
  "A socket to the server. A connect whose packets the system drops fails."
  ^Socket [server]
  (doto (Socket.)
    (.connect (InetSocketAddress. ^String home (int (http/port server))) 10000)))

(deftest many-connections-come-at-once
  (with-server [server ok {:max-connections 1}]
    (with-open [^Socket _ (connect server)]
      (is (eventually (= 1 (:connections (http/status server)))))
      (let [waiting (doall (repeatedly 100 #(connect-soon server)))]
        (is (= 100 (count waiting)))
        (run! #(.close ^Socket %) waiting)))))

(deftest a-client-that-reads-nothing-is-cut
  (let [ch (channel/chan)
        ended (promise)
        handler (fn [_]
                  (future (try
                            (while (channel/put ch (byte-array 100000)))
                            (finally (deliver ended true))))
                  {:status 200 :headers {} :body ch})]
    (with-failures [failures]
      (with-server [server handler {:idle-timeout 1500}]
        (with-open [socket (connect server)]
          (send-text socket (request-text "GET" "/"))
          (is (true? (value-of ended)))
          (is (eventually (zero? (long (:running (http/status server))))))))
      (is (= [] @failures)))))

(defn- take-a-byte-now-and-then
  "Lets the server send a byte of stream 1, again and again until it has no request."
  [server socket]
  (loop []
    (when-not (zero? (long (:running (http/status server))))
      (when (try (send-bytes socket [(frame 8 0 1 [0 0 0 1])]) true (catch IOException _))
        (Thread/onSpinWait)
        (recur)))))

(deftest a-client-that-reads-slowly-is-dropped
  (let [began (promise)]
    (with-failures [failures]
      (with-server [server (fn [_] (deliver began true) {:status 200 :headers {} :body (apply str (repeat 200000 "a"))}) {:idle-timeout 2000}]
        (with-open [socket (connect server)]
          (send-bytes socket [(.getBytes "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") (frame 4 0 0 [0 4 0 0 0 1]) (get-frame 1)]) ; a window of one byte
          (is (true? (value-of began)))
          (take-a-byte-now-and-then server socket)
          (is (eventually (zero? (long (:running (http/status server))))))))
      (is (= [] @failures)))))

;; ---- HTTP/2, by its frames

(defn- rapid-resets [socket n]
  (let [streams (map #(inc (* 2 (long %))) (range n))]
    (send-bytes socket (mapcat #(vector (get-frame %) (frame 3 0 % [0 0 0 8])) streams))))

(deftest rapid-resets-end-the-connection
  (with-server [server (fn [_] (scope/sleep 100000)) {:max-events 20}]
    (with-open [socket (connect-http2 server)]
      (try (rapid-resets socket 1000) (catch IOException _))
      (is (not= :late (read-rest socket)))
      (is (eventually (= {:running 0 :waiting 0} (dissoc (http/status server) :connections)))))))

(defn- literal
  "The bytes of HPACK of a header that is not kept, or kept in the dynamic table. Its name and value are shorter than 127 bytes, or the value has 4000."
  [kept? ^String name ^String value]
  (let [n (count value)]
    (concat [(if kept? 0x40 0) (count name)] (.getBytes name)
            (if (< n 127) [n] [127 (+ 128 (rem (- n 127) 128)) (quot (- n 127) 128)]) (.getBytes value))))

(def ^:private head-block (concat [0x82 0x84 0x86 0x41 4] (.getBytes "test")))

(def ^:private floods
  "Frames of HTTP/2 by the number of the frame, of which many end a connection."
  {"pings" (fn [_] [(frame 6 0 0 (repeat 8 0))])
   "answers to pings" (fn [_] [(frame 6 1 0 (repeat 8 0))])
   "settings" (fn [_] [(frame 4 0 0 [])])
   "priorities" (fn [n] [(frame 2 0 (inc (* 2 (long n))) [0 0 0 0 1])])
   "frames of no type" (fn [_] [(frame 99 0 0 [1])])
   "resets" (fn [n] (let [stream (inc (* 2 (long n)))] [(get-frame stream) (frame 3 0 stream [0 0 0 8])]))
   "resets that the server is made to send" (fn [n] (let [stream (inc (* 2 (long n)))] [(get-frame stream) (frame 8 0 stream [0 0 0 0])]))
   "empty data" (fn [n] (if (zero? (long n)) [(frame 1 4 1 head-block)] [(frame 0 0 1 [])]))
   "empty continuations" (fn [n] (if (zero? (long n)) [(frame 1 1 1 head-block)] [(frame 9 0 1 [])]))
   "continuations of a byte" (fn [n] (if (zero? (long n)) [(frame 1 1 1 head-block)] [(frame 9 0 1 [0x82])]))
   "long continuations" (fn [n] (if (zero? (long n)) [(frame 1 1 1 head-block)] [(frame 9 0 1 (literal false "order" (letters 4000)))]))})

(deftest each-flood-of-http-2-ends-its-connection-alone
  (doseq [[what frames] floods]
    (testing what
      (with-failures [failures]
        (with-server [server (fn [{:keys [uri]}] (if (= "/" uri) (scope/sleep 100000) {:status 200 :headers {} :body "ok"})) {:max-events 50}]
          (with-open [socket (connect-http2 server)]
            (try
              (doseq [part (partition-all 50 (mapcat frames (range 1000)))]
                (send-bytes socket part))
              (catch IOException _))
            (is (not= :late (read-rest socket)))
            (is (eventually (= {:running 0 :waiting 0} (dissoc (http/status server) :connections)))))
          (is (= 200 (status-of (get-raw server "/other")))))
        (is (= [] @failures))))))

(defn- answer-of
  "What the server answers to the head of stream 1: :ended, :reset, :ok or :refused."
  [socket]
  (loop []
    (let [{:keys [type stream payload]} (read-frame socket)]
      (cond
        (or (nil? type) (= 7 type)) :ended
        (and (= 1 stream) (= 3 type)) :reset
        (and (= 1 stream) (= 1 type)) (if (some #{0x88} payload) :ok :refused) ; the status 200
        :else (recur)))))

(defn- dribble
  "Sends the parts one after the other until the server has ended the connection; false if there are not enough of them."
  [socket parts]
  (let [end (future (read-rest socket))]
    (loop [[part & more] parts]
      (cond
        (or (nil? part) (not (try (send-bytes socket [part]) true (catch IOException _ false)))) nil
        (not= :open (deref end 5 :open)) nil
        :else (recur more)))
    (not= :late (value-of end))))

(deftest a-head-of-http-2-that-arrives-slowly-ends-its-connection
  (let [head (frame 1 5 3 (concat head-block (literal false "order" (letters 4000))))
        ways {"byte by byte" (map vector head)
              "in continuations" (cons (frame 1 1 3 head-block) (repeatedly 4000 #(frame 9 0 3 [0x82])))}]
    (doseq [[way parts] ways
            busy? [false true]]
      (testing (str way (when busy? ", beside an open stream"))
        (with-failures [failures]
          (with-server [server (fn [_] (http/events (channel/chan))) {:header-timeout 1000 :max-events 100000 :max-header 100000}]
            (with-open [socket (connect-http2 server)]
              (when busy?
                (send-bytes socket [(get-frame 1)])
                (is (eventually (= 1 (:running (http/status server))))))
              (is (dribble socket parts))
              (is (eventually (= {:running 0 :waiting 0 :connections 0} (http/status server))))))
          (is (= [] @failures)))))))

;; The looks are far apart in time, and a byte of the body arrives between two of them.
(deftest a-body-of-http-2-may-arrive-slowly
  (let [arrived (channel/chan {:size 10})
        handler (fn [{:keys [^InputStream body]}]
                  (loop []
                    (let [b (.read body)]
                      (channel/put arrived b)
                      (when-not (neg? b)
                        (recur))))
                  {:status 200})]
    (with-server [^HttpServer server handler nil]
      (let [{:keys [connections limits]} (.-service server)
            look #(connections/close-late connections limits (constantly true) (+ (System/nanoTime) (* (long %) 1000000000000)))]
        (with-open [socket (connect-http2 server)]
          (send-bytes socket [(frame 1 4 1 (concat [0x83] (rest head-block))) (take 9 (frame 0 1 1 (range 5)))]) ; POST, and the head of its body
          (doseq [n (range 5)]
            (send-bytes socket [[n]])
            (is (= n (channel/take arrived {:timeout 20000 :else :late})))
            (look n))
          (is (= -1 (channel/take arrived {:timeout 20000 :else :late})))
          (is (= :ok (answer-of socket))))))))

;; HPACK: a header of 4000 bytes that is sent once and then named by one byte makes a long list of few bytes.
(deftest a-long-list-of-headers-of-few-bytes-is-refused
  (let [calls (atom 0)]
    (with-server [server (fn [_] (swap! calls inc) {:status 200}) nil]
      (doseq [block [(concat head-block (literal true "order" (letters 4000)) (repeat 10000 0xBE))
                     (concat head-block (mapcat #(literal false (str "order" %) (letters 100)) (range 100)))]]
        (with-open [socket (connect-http2 server)]
          (send-bytes socket [(frame 1 5 1 block)])
          (is (= :ended (answer-of socket)))))
      (is (zero? (long @calls)))
      (with-open [socket (connect-http2 server)]
        (send-bytes socket [(frame 1 5 1 (concat head-block (literal true "order" (letters 4000))))])
        (is (= :ok (answer-of socket)))))))

(deftest a-client-of-http-2-that-never-reads-is-dropped
  (doseq [body [(fn [] (letters 200000)) (fn [] (repeat "order")) (fn [] (let [ch (channel/chan {:size 1})] (channel/put ch "order") ch))]]
    (let [began (promise)]
      (with-failures [failures]
        (with-server [server (fn [{:keys [uri]}] (deliver began true) {:status 200 :headers {} :body (when (= "/" uri) (body))}) {:idle-timeout 1500}]
          (with-open [socket (connect server)]
            (send-bytes socket [(.getBytes "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") (frame 4 0 0 [0 4 0 0 0 0]) (get-frame 1)]) ; a window of nothing
            (value-of began)
            (is (eventually (zero? (long (:running (http/status server)))))))
          (is (= 200 (status-of (get-raw server "/other")))))
        (is (= [] @failures))))))

(deftest more-streams-than-allowed-are-refused
  (let [go (promise)]
    (with-server [server (fn [_] (value-of go) {:status 200}) {:max-streams 2}]
      (with-open [socket (connect-http2 server)]
        (send-bytes socket (map get-frame [1 3 5]))
        (let [resets (->> (repeatedly #(read-frame socket)) (take-while some?) (filter #(= 3 (:type %))))]
          (is (= {:type 3 :stream 5 :payload [0 0 0 7]} (first resets)))) ; REFUSED_STREAM
        (deliver go true)))))

;; ---- the door

(defn- held
  "A handler that tells each request on `arrived`, and answers when `go` says so."
  [arrived go]
  (fn [{:keys [uri]}]
    (channel/put arrived uri)
    (value-of go)
    {:status 200 :headers {} :body uri}))

(defn- take-uri [arrived]
  (channel/take arrived {:timeout 20000 :else :late}))

(deftest the-request-that-has-waited-longest-is-shed
  (let [arrived (channel/chan {:size 10})
        go (promise)]
    (with-server [server (held arrived go) {:max-concurrent 1 :max-queue 1}]
      (let [ask (fn [path]
                  (let [socket (connect server)]
                    (send-text socket (request-text "GET" path))
                    socket))
            a (ask "/a")
            _ (is (= "/a" (take-uri arrived)))
            b (ask "/b")
            _ (is (eventually (= 1 (:waiting (http/status server)))))
            c (ask "/c")
            shed (read-response b)]
        (is (= [503 true] [(:status shed) (str/includes? (:head shed) "Retry-After: 1\r\n")]))
        (is (= {:running 1 :waiting 1} (dissoc (http/status server) :connections)))
        (deliver go true)
        (is (= ["/a" "/c"] (map (comp :body read-response) [a c])))
        (run! #(.close ^Socket %) [a b c])))))

(deftest a-queue-of-none-sheds-at-once
  (let [arrived (channel/chan {:size 10})
        go (promise)]
    (with-server [server (held arrived go) {:max-concurrent 1 :max-queue 0}]
      (with-open [socket (connect server)]
        (send-text socket (request-text "GET" "/a"))
        (is (= "/a" (take-uri arrived)))
        (is (= 503 (status-of (get-raw server "/b"))))
        (deliver go true)
        (is (= "/a" (:body (read-response socket))))))))

(deftest a-waiting-request-gives-its-place-up-when-its-client-leaves
  (let [arrived (channel/chan {:size 10})
        go (promise)]
    (with-server [server (held arrived go) {:max-concurrent 1}]
      (with-open [socket (connect server)]
        (send-text socket (request-text "GET" "/a"))
        (is (= "/a" (take-uri arrived)))
        (let [leaving (connect server)]
          (send-text leaving (request-text "GET" "/b"))
          (is (eventually (= 1 (:waiting (http/status server)))))
          (.close leaving))
        (is (eventually (zero? (long (:waiting (http/status server))))))
        (deliver go true)
        (is (= "/a" (:body (read-response socket)))))
      (is (eventually (zero? (long (:running (http/status server))))))
      (is (nil? (channel/try-take arrived))))))

(deftest a-request-whose-client-leaves-hands-its-place-on
  (let [arrived (channel/chan {:size 10})
        handler (fn [{:keys [uri]}]
                  (channel/put arrived uri)
                  (when (= "/a" uri)
                    (scope/sleep 1000000))
                  {:status 200 :headers {} :body uri})]
    (with-server [server handler {:max-concurrent 1 :request-timeout :infinity}]
      (let [leaving (connect server)]
        (send-text leaving (request-text "GET" "/a"))
        (is (= "/a" (take-uri arrived)))
        (with-open [waiting (connect server)]
          (send-text waiting (request-text "GET" "/b"))
          (is (eventually (= 1 (:waiting (http/status server)))))
          (.close leaving)
          (is (= "/b" (:body (read-response waiting)))))
        (is (eventually (= {:running 0 :waiting 0} (dissoc (http/status server) :connections))))))))

(deftest a-cancelled-request-sheds-another-one
  (let [d (door/door 1 1)
        shed (promise)]
    (is (door/enter d))
    (future (deliver shed (door/enter d)))
    (is (eventually (= 1 (:waiting (door/look d)))))
    (is (thrown? ExceptionInfo (scope/with-scope [s]
                                 (scope/cancel s :client-gone)
                                 (door/enter d))))
    (is (false? (value-of shed)))
    (is (= {:running 1 :waiting 0} (door/look d)))))

;; ---- the time of a request

(deftest a-handler-that-waits-too-long-is-cancelled
  (let [ended (promise)]
    (with-failures [failures]
      (with-server [server (fn [_] (try (scope/sleep 100000) (finally (deliver ended true)))) {:request-timeout 1500}]
        (is (= 503 (status-of (get-raw server "/"))))
        (is (true? (value-of ended))))
      (is (eventually (= [[:magnetar/deadline "http GET /"]] (map (juxt (comp :magnetar/reason ex-data :error) :site) @failures)))))))

(deftest a-request-may-wait-for-its-turn-until-its-deadline
  (let [arrived (channel/chan {:size 10})
        go (promise)]
    (with-failures [failures]
      (with-server [server (fn [{:keys [uri]}]
                             (when (= "/long" uri)
                               (channel/put arrived uri)
                               (while (not (realized? go)) (Thread/onSpinWait)))
                             {:status 200}) {:max-concurrent 1 :request-timeout 1500}]
        (with-open [socket (connect server)]
          (send-text socket (request-text "GET" "/long"))
          (is (= "/long" (take-uri arrived)))
          (let [answer (get-raw server "/b")]
            (is (= 503 (status-of answer)))
            (is (str/includes? answer "Retry-After: 1\r\n")))
          (deliver go true)
          (is (eventually (= {:running 0 :waiting 0} (dissoc (http/status server) :connections))))))
      (is (not-any? #{"http GET /b"} (map :site @failures))))))

(deftest a-handler-that-never-waits-does-not-keep-its-client
  (let [go (promise)]
    (with-failures [failures]
      (with-server [server (fn [_] (while (not (realized? go)) (Thread/onSpinWait)) {:status 200}) {:request-timeout 1500}]
        (try
          (is (= 503 (status-of (get-raw server "/"))))
          (is (eventually (seq @failures)))
          (is (str/includes? (ex-message (:error (first @failures))) "goes on after its :request-timeout"))
          (finally (deliver go true)))
        (is (eventually (zero? (long (:running (http/status server))))))
        (is (= 1 (count @failures)))))))
