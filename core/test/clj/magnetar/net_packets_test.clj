(ns magnetar.net-packets-test
  "Packets that a function or a layout of bits finds, and limits of a connection."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.bits :as bits]
   [magnetar.impl.runtime]
   [magnetar.net :as net]
   [magnetar.net-support :refer [home in-process listener next-message pair refused]]
   [magnetar.net.tcp :as tcp])
  (:import
   (java.net Inet6Address InetAddress InetSocketAddress NetworkInterface Socket)
   (java.nio ByteBuffer ReadOnlyBufferException)
   (magnetar.net.connection Connection)))

(set! *warn-on-reflection* true)

(use-fixtures :each in-process)

;; ---- functions

(defn- netstring
  "Takes a netstring, such as 5:hello, out of the buffer: its text."
  [^ByteBuffer buffer]
  (loop [size 0]
    (when (.hasRemaining buffer)
      (let [c (char (.get buffer))]
        (cond
          (Character/isDigit c) (recur (+ (* 10 size) (Character/digit c 10)))
          (not= \: c) (throw (ex-info "This is no netstring." {:char c}))
          (<= size (.remaining buffer)) (let [text (byte-array size)]
                                          (.get buffer text)
                                          (String. text "UTF-8")))))))

(deftest a-function-finds-packets
  (let [[client served] (pair {:active false})]
    (net/set-options served {:packet netstring :max-packet 12})
    (net/send client "3:one5:gr\u00fc")
    (is (= "one" (net/recv served)))
    (is (= :none (net/recv served {:timeout 1 :else :none})))
    (net/send client "n0:9:last")
    (is (= ["gr\u00fcn" ""] [(net/recv served) (net/recv served)]))
    (net/set-options served {:active :once})
    (net/send client " word")
    (is (= [:tcp served "last word"] (next-message)))
    (testing "A packet that is too long"
      (net/set-options served {:active true})
      (net/send client "100:xxxxxxxxxx")
      (is (= [[:tcp-error served :emsgsize] [:tcp-closed served]] [(next-message) (next-message)])))))

(deftest what-a-function-throws-ends-the-connection
  (let [[client served] (pair {:active false :packet netstring})]
    (net/send client "what?")
    (is (= [:magnetar/bad-packet :einval
            (str "The :packet of " served " cannot read what has arrived: This is no netstring. The connection is closed; check what the sender sends.")]
           (refused (net/recv served))))
    (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/recv served))))))
  (let [[client served] (pair {:active false})]
    (net/set-options served {:packet (fn [_] :no-bytes) :active true})
    (net/send client "x")
    (is (= [[:tcp-error served :einval] [:tcp-closed served]] [(next-message) (next-message)])))
  (let [[client served] (pair {:active false})
        failure (promise)]
    (net/set-options served {:packet (fn [^ByteBuffer buffer]
                                       (try (.put buffer (byte 1)) (catch ReadOnlyBufferException e (deliver failure e)))
                                       (.get buffer))})
    (net/send client "A")
    (is (= 65 (net/recv served)))
    (is (instance? ReadOnlyBufferException @failure))))

;; ---- layouts

(deftest a-layout-of-bits-finds-packets
  (let [layout '[0xCA [version 4] [kind 4] [size 16] [body :binary size]]
        [client served] (pair {:active false :packet layout :max-packet 100})
        plain #(update % :body vec)]
    (net/send client {:version 1 :kind 2 :body (.getBytes "abc")})
    (net/send client (bits/build layout {:version 15 :kind 0 :body (byte-array 0)}))
    (is (= [{:version 1 :kind 2 :size 3 :body [97 98 99]} {:version 15 :kind 0 :size 0 :body []}]
           [(plain (net/recv served)) (plain (net/recv served))]))
    (doseq [b (bits/build layout {:version 0 :kind 0 :body (byte-array [7])})]
      (is (= :none (net/recv served {:timeout 0 :else :none})))
      (net/send client (byte-array [b])))
    (is (= [7] (vec (:body (net/recv served)))))
    (is (= :magnetar/bad-value (first (refused (net/send client {:version 16 :kind 0 :body (byte-array 0)})))))
    (testing "A constant that cannot match any more is an error at once"
      (net/send client (byte-array [1]))
      (let [[id word message] (refused (net/recv served))]
        (is (= [:magnetar/bad-packet :einval] [id word]))
        (is (str/includes? message "The bytes do not match the layout"))))))

(deftest a-layout-waits-for-bytes-up-to-the-limit
  (let [[client served] (pair {:active false :packet (bits/compile '[[size 32] [body :binary size]]) :max-packet 10})]
    (net/send client (byte-array [0x7f 0 0 0 1 2 3 4 5 6]))
    (is (= :none (net/recv served {:timeout 1 :else :none})))
    (net/send client (byte-array [1]))
    (is (= [:magnetar/packet-too-long :emsgsize] (take 2 (refused (net/recv served)))))))

(deftest a-layout-without-an-end-is-refused
  (is (= [:magnetar/bad-option :einval
          "`magnetar.net/connect`: :packet is a layout whose last segment has a size, since a stream has no end; this is [[size 8] [rest :binary]]."]
         (refused (net/connect home 80 {:packet '[[size 8] [rest :binary]]})))))

;; ---- limits

(deftest a-connection-that-is-idle-for-too-long-is-closed
  (let [[client served] (pair {:active false})]
    (net/set-options served {:idle-timeout 100})
    (is (= :none (net/recv served {:timeout 1 :else :none})))
    (is (= [:magnetar/connection-lost :etimedout
            (str "`recv` on " served " failed: timed out, as no byte has arrived or was sent within the :idle-timeout of 100 ms. The connection is "
                 "closed; open a new one.")]
           (refused (net/recv served))))
    (is (nil? (net/recv client))))
  (let [[client served] (pair {:active false :idle-timeout 50})]
    (net/set-options served {:active true})
    (is (= [[:tcp-error served :etimedout] [:tcp-closed served]] [(next-message) (next-message)]))
    (is (nil? (net/recv client)))))

(deftest bytes-that-have-arrived-are-read-from-an-idle-connection
  (let [[client served] (pair {:active false})]
    (net/send client "early")
    (net/set-options served {:idle-timeout 1})
    (is (= :none (net/recv client {:timeout 20 :else :none})))
    (is (= "early" (String. ^bytes (net/recv served))))))

(defn- options-of-socket [conn]
  (let [^Socket socket (.-socket ^Connection conn)]
    {:nodelay (.getTcpNoDelay socket) :keepalive (.getKeepAlive socket)}))

(deftest options-reach-the-socket
  (let [[client served] (pair {:active false :nodelay false :keepalive true})
        [plain] (pair {:active false})]
    (is (= (repeat 2 {:nodelay false :keepalive true}) (map options-of-socket [client served])))
    (is (= {:nodelay true :keepalive false} (options-of-socket plain)))
    (net/set-options client {:nodelay true :keepalive false})
    (is (= {:nodelay true :keepalive false} (options-of-socket client)))))

(deftest a-linger-of-zero-resets
  (let [[client served] (pair {:active false})]
    (net/set-options client {:linger 0})
    (net/close client)
    (is (= [:magnetar/connection-lost :econnreset] (take 2 (refused (net/recv served))))))
  (let [[client served] (pair {:active false :linger 1000 :recbuf 65536 :sndbuf 65536})]
    (net/send client "last")
    (net/close client)
    (is (= "last" (String. ^bytes (net/recv served))))
    (is (nil? (net/recv served)))))

;; ---- IPv6

(defn- has-ipv6? []
  (some #(instance? Inet6Address %)
        (mapcat #(enumeration-seq (.getInetAddresses ^NetworkInterface %))
                (filter #(.isLoopback ^NetworkInterface %) (enumeration-seq (NetworkInterface/getNetworkInterfaces))))))

(deftest addresses-may-be-of-ipv6
  (if-not (has-ipv6?)
    (println "No test of IPv6, as the loopback has no such address.")
    (let [l (listener {:host "::1" :active false :as :string})
          client (net/connect "::1" (net/port l) {:active false :as :string})
          served (net/accept l)]
      (is (= {:host "::1" :port (net/port l)} (net/local-address l) (net/remote-address client)))
      (is (= (str "#magnetar/listener \"[::1]:" (net/port l) "\"") (pr-str l)))
      (net/send client "six")
      (is (= "six" (net/recv served))))))

(deftest an-ipv6-address-is-short
  (doseq [[text expected] {"::1" "::1", "::" "::", "2001:db8::1" "2001:db8::1", "1::" "1::", "2001:db8:0:1:1:1:1:1" "2001:db8:0:1:1:1:1:1"
                           "1:0:0:2:0:0:0:3" "1:0:0:2::3", "fe80:0:0:0:10:0:0:0" "fe80::10:0:0:0"}]
    (is (= expected (:host (tcp/address (InetSocketAddress. (InetAddress/getByName text) 80)))))))
