(ns magnetar.erlang.handshake-test
  "Handshakes with a scripted other side: cut off at each byte, wrong, slow, and two at once."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.impl.node :as node]
   [magnetar.erlang.scripted :as scripted
    :refer [accept challenge challenge-ack challenge-in challenge-reply cookie dial end-input ended? flags go-on hang-up hello join let-in listen
            port-of-node read-message read-text reply-challenge-in running send-bytes status]]
   [magnetar.gen-server :as gs])
  (:import
   (java.net InetAddress ServerSocket)
   (java.util Arrays)
   (magnetar.erlang.wire Cookie Settings)))

(set! *warn-on-reflection* true)

(def ^:private other "b@127.0.0.1")

(defn- prefix ^bytes [^bytes bytes n]
  (Arrays/copyOf bytes (int n)))

;; ---- the side that is dialled

(deftest a-node-that-dials-is-connected
  (running
    (fn []
      (let [peer (join other)]
        (is (= [other] (erlang/nodes)))
        (hang-up peer)
        (is (scripted/eventually #(= [] (erlang/nodes))))))))

(deftest a-dialling-side-that-ends-at-any-byte-leaves-nothing
  (running
    (fn []
      (let [greeting (hello other)]
        (doseq [n (range (alength greeting))
                :let [peer (dial (port-of-node))]]
          (send-bytes peer (prefix greeting n))
          (end-input peer)
          (is (ended? peer)))
        (doseq [n (range 23)
                :let [peer (dial (port-of-node))]]
          (send-bytes peer greeting)
          (is (= "sok" (read-text peer)))
          (send-bytes peer (prefix (challenge-reply cookie (challenge-in (read-message peer)) 5) n))
          (end-input peer)
          (is (ended? peer)))
        (is (= [] (erlang/nodes)))
        (hang-up (join other))))))

(deftest a-node-with-another-cookie-is-not-let-in
  (let [lines (atom [])]
    (running {} lines
      (fn []
        (let [peer (dial (port-of-node))]
          (send-bytes peer (hello other))
          (is (= "sok" (read-text peer)))
          (send-bytes peer (challenge-reply "another" (challenge-in (read-message peer)) 5))
          (is (ended? peer))
          (is (= [] (erlang/nodes))))))
    (is (= 1 (count @lines)))
    (is (re-find #"It has another cookie than m@127.0.0.1. Give both nodes the same one" (first @lines)))))

(defn- refused
  "The line about a side that has sent these bytes."
  [^bytes bytes]
  (let [lines (atom [])]
    (running {} lines
      (fn []
        (let [peer (dial (port-of-node))]
          (send-bytes peer bytes)
          (is (ended? peer))
          (hang-up (join other)))))
    (is (= 1 (count @lines)))
    (second (re-find #"is not let in\. (.*)" (first @lines)))))

(deftest a-wrong-greeting-is-refused-with-a-sentence
  (doseq [[bytes sentence]
          [[(hello "m@127.0.0.1") "It has the name \"m@127.0.0.1\", which is no name of another node."]
           [(hello "nobody") "It has the name \"nobody\", which is not of the form name@host."]
           [(hello other 0x4) #"of an OTP before 25, or not of Erlang. It lacks the flags 0x"]
           [(byte-array [0 3 110 0 5]) "It speaks version 5 of the handshake only, as nodes before OTP 23 do."]
           [(byte-array [0 3 120 0 5]) "It has sent the message 120 of the handshake where 78 has to be."]
           [(byte-array [0 3 78 0 5]) "It has sent a message of the handshake that is too short."]
           [(byte-array [0 0]) "It has announced a message of 0 bytes in the handshake, where at most 1024 are allowed."]
           [(.getBytes "GET / HTTP/1.1\r\n\r\n") "It has announced a message of 18245 bytes in the handshake, where at most 1024 are allowed."]]
          :let [line (refused bytes)]]
    (is (if (string? sentence) (= sentence line) (re-find sentence line)))))

(deftest a-side-that-says-nothing-is-closed-after-the-time-of-a-handshake
  (scripted/logged
    (fn [lines]
      (let [settings (Settings. "m@127.0.0.1" (Cookie/of cookie) false (InetAddress/getLoopbackAddress) 0 nil false nil 60000 1048576 200)
            _ (node/start {:settings settings :nil-as :nil})
            peer (dial (port-of-node))]
        (send-bytes peer (prefix (hello other) 5))
        (is (ended? peer))
        (is (= :ok (erlang/stop)))
        (is (re-find #"It did not answer in time" (first @lines)))))))

(deftest too-many-strangers-are-closed-and-keep-no-dial-away
  (running
    (fn []
      (let [strangers (vec (repeatedly 110 #(dial (port-of-node))))]
        (is (ended? (peek strangers)))
        (with-open [server (listen)]
          (let [answer (future (erlang/connect other {:port (.getLocalPort server)}))
                peer (let-in (accept server) other)]
            (is (true? (deref answer scripted/limit-ms :late)))
            (hang-up peer)))
        (run! hang-up strangers)
        (is (scripted/eventually #(try (hang-up (join "c@127.0.0.1")) true (catch Exception _ false))))))))

;; ---- the side that dials

(defn- connecting
  "What connect returns, while f plays the node that is dialled, with its socket that listens."
  [f]
  (with-open [server (listen)]
    (let [answer (future (erlang/connect other {:port (.getLocalPort server)}))]
      (f server)
      (deref answer scripted/limit-ms :late))))

(defn- dialled [f]
  (connecting #(f (accept %))))

(deftest a-node-that-is-dialled-is-connected
  (running
    (fn []
      (let [peer (promise)]
        (is (true? (dialled #(deliver peer (let-in % other)))))
        (is (= [other] (erlang/nodes)))
        (is (true? (erlang/connect other)) "no second connection is made")
        (hang-up @peer)))))

(deftest a-dialled-side-that-ends-at-any-byte-gives-false
  (running
    (fn []
      (let [before (Arrays/copyOf (status "ok") (+ 5 (alength (challenge other 9))))]
        (System/arraycopy (challenge other 9) 0 before 5 (- (alength before) 5))
        (doseq [n (range (alength before))]
          (is (false? (dialled #(do (read-message %) (send-bytes % (prefix before n)) (end-input %))))))
        (doseq [n (range 19)]
          (is (false? (dialled (fn [peer]
                                 (read-message peer)
                                 (send-bytes peer before)
                                 (send-bytes peer (prefix (challenge-ack cookie (reply-challenge-in (read-message peer))) n))
                                 (end-input peer)))))))
      (is (= [] (erlang/nodes)))
      (is (true? (dialled #(let-in % other)))))))

(deftest a-dialled-node-that-is-wrong-gives-false-and-a-sentence
  (doseq [[answer sentence]
          [[#(send-bytes % (status "not_allowed")) "It does not let the node m@127.0.0.1 in."]
           [#(send-bytes % (status "what")) "It has answered the name with the unknown status \"what\"."]
           [#(do (send-bytes % (status "ok")) (send-bytes % (challenge "c@127.0.0.1" 9))) "It says that its name is c@127.0.0.1."]
           [#(do (send-bytes % (status "ok"))
                 (send-bytes % (challenge other 9))
                 (send-bytes % (challenge-ack "another" (reply-challenge-in (read-message %)))))
            "It has another cookie than m@127.0.0.1. Give both nodes the same one."]]
          :let [lines (atom [])]]
    (testing sentence
      (running {} lines #(is (false? (dialled (fn [peer] (read-message peer) (answer peer))))))
      (is (= [(str "The node b@127.0.0.1 is not connected. " sentence)] @lines)))))

(deftest a-port-where-nothing-listens-gives-false
  (running #(is (false? (erlang/connect other {:port (with-open [s (listen)] (.getLocalPort s))})))))

;; ---- both at once

(deftest the-dial-of-the-greater-name-goes-on
  (running
    (fn []
      (testing "this node's"
        (is (true? (connecting
                     (fn [server]
                       (let [theirs (accept server)
                             mine (dial (port-of-node))]
                         (send-bytes mine (hello other))
                         (is (= "snok" (read-text mine)))
                         (is (ended? mine))
                         (let-in theirs other)))))))
      (is (true? (erlang/disconnect other))))))

(defn- while-both-dial
  "Calls f while this node and one of a greater name dial each other: with the answer of this one's dial, its connection as the other
  side has it, and the connection that the other side has dialled. Both have greeted."
  [f]
  (running
    (fn []
      (with-open [server (listen)]
        (let [answer (future (erlang/connect "z@127.0.0.1" {:port (.getLocalPort server)}))
              theirs (accept server)
              mine (dial (port-of-node))]
          (read-message theirs)
          (send-bytes mine (hello "z@127.0.0.1"))
          (is (= "sok_simultaneous" (read-text mine)))
          (f answer theirs mine))))))

(deftest the-dial-of-the-lesser-name-ends
  (while-both-dial
    (fn [answer theirs mine]
      (send-bytes theirs (status "nok"))
      (is (ended? theirs))
      (go-on mine)
      (is (true? (deref answer scripted/limit-ms :late)))
      (is (= ["z@127.0.0.1"] (erlang/nodes))))))

(deftest a-dial-that-is-answered-after-the-other-one-is-up-is-given-up
  (while-both-dial
    (fn [answer theirs mine]
      (go-on mine) ; the other side has its link then, and this one has it or is about to
      (send-bytes theirs (status "alive"))
      (is (= "sfalse" (read-text theirs)) "the connection is not an old one")
      (is (true? (deref answer scripted/limit-ms :late)))
      (is (ended? theirs))
      (is (= ["z@127.0.0.1"] (erlang/nodes)))
      (hang-up mine)
      (is (scripted/eventually #(= [] (erlang/nodes))) "it was the one that is up"))))

(deftest a-node-that-comes-again-takes-the-place-of-its-old-connection-when-it-has-proved-the-cookie
  (running
    (fn []
      (let [old (join other)
            again #(let [peer (dial (port-of-node))]
                     (send-bytes peer (hello other))
                     (is (= "salive" (read-text peer)))
                     (send-bytes peer (status %))
                     peer)]
        (is (ended? (again "false")))
        (let [stranger (again "true")]
          (read-message stranger)
          (send-bytes stranger (challenge-reply "another" 1 5))
          (is (ended? stranger)))
        (is (= [other] (erlang/nodes)) "the old one is untouched")
        (let [new (go-on (again "true"))]
          (is (ended? old))
          (is (scripted/eventually #(= [other] (erlang/nodes))))
          (hang-up new))))))

(deftest this-node-says-that-an-old-connection-has-ended
  (running
    (fn []
      (is (true? (dialled (fn [peer]
                            (read-message peer)
                            (send-bytes peer (status "alive"))
                            (is (= "strue" (read-text peer)))
                            (send-bytes peer (challenge other 9))
                            (send-bytes peer (challenge-ack cookie (reply-challenge-in (read-message peer)))))))))))
