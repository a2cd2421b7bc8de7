(ns magnetar.http.ring-test
  "Ring's protocols, by stand-ins of the same shape: listeners, sockets and bodies. Cases of Ring's own tests of its adapter are carried over."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.channel :as channel]
   [magnetar.http :as http]
   [magnetar.http.support :refer [eventually value-of with-failures with-server]]
   [magnetar.http.websocket :as ws]
   [magnetar.http.websocket-support :refer [close-jdk next-of open-jdk open-raw read-close read-frame send-frame send-jdk]]
   [magnetar.impl.runtime]
   [ring.core.protocols :as protocols]
   [ring.websocket.protocols :as p])
  (:import
   (java.io ByteArrayOutputStream IOException)
   (java.net.http WebSocket)
   (java.nio ByteBuffer)))

(set! *warn-on-reflection* true)

(defn- text-of [^ByteBuffer buffer]
  (let [bytes (byte-array (.remaining buffer))]
    (.get buffer bytes)
    (String. bytes)))

(defn- buffer [^String text]
  (ByteBuffer/wrap (.getBytes text)))

(defrecord Listener [log on-opened]
  p/Listener
  (on-open [_ socket] (channel/put log [:open]) (on-opened socket))
  (on-message [_ socket message] (p/-send socket (if (string? message) (str "t: " message) (buffer (str "b: " (text-of message))))))
  (on-pong [_ _ data] (channel/put log [:pong (text-of data)]))
  (on-error [_ _ e] (channel/put log [:error (class e)]))
  (on-close [_ _ code reason] (channel/put log [:close code reason])))

(defn- listener [log on-opened]
  (->Listener log on-opened))

(defn- log [] (channel/chan {:size 100}))

(defn- next-in [log]
  (channel/take log {:timeout 20000 :else :late}))

(deftest a-listener-of-rings-protocol-gets-the-events
  (doseq [response [(fn [listener] {:ring.websocket/listener listener}) (fn [listener] (http/websocket listener {:max-message 1000}))]
          :let [log (log)]]
    (with-server [server (fn [_] (response (listener log identity))) nil]
      (let [[^WebSocket socket told] (open-jdk server)]
        (send-jdk socket "one")
        (send-jdk socket (.getBytes "two"))
        @(.sendPong socket (buffer "bar"))
        (is (= [[:text "t: one"] [:binary (mapv long (.getBytes "b: two"))]] [(next-of told) (next-of told)]))
        (close-jdk socket 1000 "Normal close")
        (is (= [[:open] [:pong "bar"] [:close 1000 "Normal close"]] (vec (repeatedly 3 #(next-in log)))))))))

(deftest a-socket-satisfies-rings-protocol
  (let [log (log)]
    (with-server [server (fn [_]
                           {:ring.websocket/listener (listener log (fn [socket]
                                                                     (is (satisfies? p/Socket socket))
                                                                     (is (satisfies? p/AsyncSocket socket))
                                                                     (p/-send socket "Hello")
                                                                     (p/-send socket (StringBuilder. "World"))
                                                                     (p/-ping socket (buffer "foo"))
                                                                     (p/-pong socket (buffer "x"))
                                                                     (channel/put log (p/-open? socket))
                                                                     (p/-close socket 1000 "done")
                                                                     (channel/put log (p/-open? socket))))}) nil]
      (with-open [socket (open-raw server)]
        (is (= [[0x81 "Hello"] [0x81 "World"] [0x89 "foo"] [0x8A "x"] [0x88 1000 "done"]] (vec (repeatedly 5 #(read-frame socket)))))
        (send-frame socket 0x88 [3 -24])
        (is (= [[:open] true false [:close 1000 "done"]] (vec (repeatedly 4 #(next-in log)))))))))

(deftest a-ping-goes-to-a-listener-of-pings
  (let [log (log)
        listener (reify
                   p/Listener
                   (on-open [_ _])
                   (on-message [_ _ _])
                   (on-pong [_ _ _])
                   (on-error [_ _ _])
                   (on-close [_ _ _ _])
                   p/PingListener
                   (on-ping [_ socket data]
                     (channel/put log (text-of (.duplicate ^ByteBuffer data)))
                     (p/-pong socket data)))]
    (with-server [server (fn [_] {:ring.websocket/listener listener}) nil]
      (with-open [socket (open-raw server)]
        (send-frame socket 0x89 "foo")
        (is (= [[0x8A "foo"] "foo"] [(read-frame socket) (next-in log)]))))))

(deftest messages-are-sent-later-in-their-order
  (let [log (log)
        sockets (promise)]
    (with-server [server (fn [_] {:ring.websocket/listener (listener log #(deliver sockets %))}) nil]
      (let [[socket told] (open-jdk server)
            server-socket (value-of sockets)
            answers (channel/chan {:size 100})]
        (dotimes [n 20]
          (p/-send-async server-socket (str n) #(channel/put answers n) #(channel/put answers %)))
        (is (= (mapv #(vector :text (str %)) (range 20)) (vec (repeatedly 20 #(next-of told)))))
        (is (= (range 20) (repeatedly 20 #(next-in answers))))
        (close-jdk socket 1000 "")
        (is (eventually (not (ws/open? server-socket))))
        (p/-send-async server-socket "late" #(channel/put answers :sent) #(channel/put answers (class %)))
        (is (= IOException (next-in answers)))))))

(deftest messages-that-wait-for-a-client-that-does-not-read-are-bounded
  (let [sockets (promise)
        failed (channel/chan {:size 2000})
        message (apply str (repeat 1000000 "x"))]
    (with-server [server (fn [_] (http/websocket (listener (log) #(deliver sockets %)) {:send-timeout 2000})) nil]
      (with-open [_ (open-raw server)]
        (let [socket (value-of sockets)]
          (dotimes [_ 200]
            (p/-send-async socket message (fn []) #(channel/put failed (ex-message %))))
          (is (re-find #"More than 64 messages wait" (next-in failed)))
          (is (eventually (not (ws/open? socket)))))))))

(deftest a-send-to-a-client-that-has-gone-is-no-failure
  (let [log (log)
        go (promise)]
    (with-failures [failures]
      (with-server [server (fn [_] {:ring.websocket/listener (listener log (fn [socket]
                                                                             (value-of go)
                                                                             (p/-close socket 1000 "")
                                                                             (p/-send socket "x")))}) nil]
        (with-open [socket (open-raw server)]
          (deliver go true)
          (is (= [0x88 1000 ""] (read-close socket))))
        (is (= [[:open] [:close 1000 ""]] [(next-in log) (next-in log)])))
      (is (= [] @failures)))))

(deftest bodies-of-the-library-satisfy-rings-protocol
  (with-server [_ (fn [_] {:status 200}) nil]
    (letfn [(written [body headers]
              (let [out (ByteArrayOutputStream.)]
                (protocols/write-body-to-stream body {:status 200 :headers headers :body body} out)
                (vec (.toByteArray out))))
            (bytes-of [^String text charset]
              (vec (.getBytes text ^String charset)))
            (channel-of [& values]
              (let [ch (channel/chan {:size 10})]
                (run! #(channel/put ch %) values)
                (channel/close ch)
                ch))]
      (testing "a channel"
        (is (= (bytes-of "aéb" "UTF-8") (written (channel-of "aé" (.getBytes "b")) {})))
        (is (= (bytes-of "é" "ISO-8859-1") (written (channel-of "é") {"content-type" "text/plain; charset=ISO-8859-1"}))))
      (testing "events"
        (is (= (bytes-of "data: a\n\n" "UTF-8") (written (:body (http/events (channel-of "a"))) {})))))))
