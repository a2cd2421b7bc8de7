(ns magnetar.cluster.admission-test
  "Who may join: the handshake by its bytes, and what is tried by programs without the cookie."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.support :as support :refer [alone-ms await-view dial node place read-bytes refusals view views waited with-nodes with-refusals]]
   [magnetar.dev.certificates :as certificates]
   [magnetar.dev.child :as child]
   [magnetar.impl.runtime]
   [magnetar.net.contexts :as contexts]
   [magnetar.net.tls-options :as tls-options])
  (:import
   (java.io File IOException InputStream OutputStream)
   (java.net DatagramPacket DatagramSocket InetAddress InetSocketAddress MulticastSocket NetworkInterface ServerSocket Socket)
   (java.nio.file Files Path)
   (java.nio.file.attribute PosixFilePermissions)
   (java.util Arrays Collection List Map)
   (javax.crypto Mac)
   (javax.crypto.spec SecretKeySpec)
   (magnetar.cluster.impl Cookie JGroupsNetwork Settings)
   (org.jgroups BytesMessage CompositeMessage Event JChannel Message ObjectMessage Receiver View ViewId)
   (org.jgroups.protocols TCP TCPPING UNICAST3)
   (org.jgroups.protocols.pbcast GMS GMS$GmsHeader NAKACK2 STABLE)
   (org.jgroups.stack IpAddress Protocol)
   (org.jgroups.util ByteArray ByteArrayDataOutputStream Digest Tuple)))

(set! *warn-on-reflection* true)

;; --- the handshake, written a second time

(def ^:private ^"[B" magic (.getBytes "MGN1"))

(defn- proof
  "The bytes that prove a cookie."
  ^bytes [^String cookie role dialing accepting cluster address]
  (let [mac (doto (Mac/getInstance "HmacSHA256") (.init (SecretKeySpec. (.getBytes cookie) "HmacSHA256")))]
    (doseq [part [(str "magnetar cluster " role) dialing accepting cluster address ""]
            :let [^bytes part (if (string? part) (String/.getBytes part) part)]]
      (.update mac (.array (.putInt (java.nio.ByteBuffer/allocate 4) (alength part))))
      (.update mac part))
    (.doFinal mac)))

(defn- write [^Socket socket & parts]
  (let [out (.getOutputStream socket)]
    (doseq [^bytes part parts]
      (.write out part))
    (.flush out)))

(defn- hello
  "Sends 32 bytes of a kind, and returns the 32 bytes of the other side."
  ^bytes [socket value]
  (write socket magic (byte-array 32 (byte value)))
  (let [answer (read-bytes socket 36)]
    (is (Arrays/equals magic (Arrays/copyOf answer 4)))
    (Arrays/copyOfRange answer 4 36)))

(defn- answer-to
  "What a node answers to a proof of these parts: nothing if it refuses."
  [address {:keys [cookie role cluster to] :or {cookie support/cookie, role "dial", cluster "magnetar", to address}}]
  (with-open [socket (dial address)]
    (let [theirs (hello socket 1)]
      (write socket (proof cookie role (byte-array 32 (byte 1)) theirs cluster to))
      (let [found (read-bytes socket 32)]
        (cond
          (zero? (alength found)) :refused
          (Arrays/equals found (proof support/cookie "accept" (byte-array 32 (byte 1)) theirs "magnetar" address)) :proven
          :else :wrong)))))

(deftest the-handshake-has-the-bytes-that-are-documented
  (with-refusals
    (with-nodes [{:keys [address] :as a} (node "a")]
      (is (= :proven (answer-to address {})))
      (are [parts] (= :refused (answer-to address parts))
        {:cookie "another cookie, long enough"}
        {:role "accept"}
        {:cluster "magnetar2"}
        {:to "127.0.0.1:1"})
      (is (= [["a"]] (map :names (views a)))))))

(deftest a-wrong-proof-is-logged-with-the-place-and-a-remedy
  (with-refusals
    (with-nodes [{:keys [address]} (node "a")]
      (is (= :refused (answer-to address {:cookie "another cookie, long enough"})))
      (let [line (waited refusals first)]
        (is (re-matches #"A connection from 127\.0\.0\.1:\d+ was refused, since its proof is wrong\. If it is a node .*, give it the same cookie, .*"
                        line))
        (is (not-any? #(str/includes? line %) [support/cookie "another cookie"])))
      (let [began (System/nanoTime)]
        (dotimes [_ 20]
          (answer-to address {:cookie "another cookie, long enough"}))
        (is (>= (+ 2 (quot (- (System/nanoTime) began) 1000000000)) (count @refusals)) "at most one line a second")))))

(deftest what-is-no-handshake-is-closed
  (with-refusals
    (with-nodes [{:keys [address] :as a} (node "a")]
      (doseq [^String garbage ["bela" "GET / HTTP/1.1\r\n\r\n" "MGN2................................"]]
        (with-open [socket (dial address)]
          (write socket (.getBytes garbage))
          (is (zero? (alength (read-bytes socket 1))) garbage)))
      (is (re-find #"it is not a node of a Magnetar cluster" (waited refusals first)))
      (is (= [["a"]] (map :names (views a)))))))

(deftest a-recorded-handshake-is-of-no-use
  (with-refusals
    (with-nodes [{:keys [address] :as a} (node "a")]
      (let [recorded (with-open [socket (dial address)]
                       (let [theirs (hello socket 1)
                             right (proof support/cookie "dial" (byte-array 32 (byte 1)) theirs "magnetar" address)]
                         (write socket right)
                         (is (= 32 (alength (read-bytes socket 32))))
                         right))]
        (with-open [socket (dial address)]
          (hello socket 1)
          (write socket recorded)
          (is (zero? (alength (read-bytes socket 1))))))
      (is (= [["a"]] (map :names (views a)))))))

;; --- programs between two nodes

(defn- serving
  "A server socket, and a thread that runs (f socket) for each connection."
  ^ServerSocket [f]
  (let [server (ServerSocket. 0 50 (InetAddress/getLoopbackAddress))]
    (Thread/startVirtualThread
     (fn []
       (try
         (loop []
           (let [socket (.accept server)]
             (Thread/startVirtualThread #(try (f socket) (catch IOException _ nil)))
             (recur)))
         (catch IOException _ nil))))
    server))

(defn- address-of [^ServerSocket server]
  (str "127.0.0.1:" (.getLocalPort server)))

(defn- copy [^Socket from ^Socket to]
  (try
    (.transferTo (.getInputStream from) (.getOutputStream to))
    (catch IOException _ nil)
    (finally (.close from) (.close to))))

(deftest a-reflected-handshake-is-refused
  (with-refusals
    (with-open [mirror (serving (fn [socket] (copy socket socket)))]
      (with-nodes [a (node "a" :peers [(address-of mirror)] :discover alone-ms)]
        (is (re-matches #"The node at 127\.0\.0\.1:\d+ was not joined, since its proof is wrong\. Both nodes need the same cookie, .*"
                        (waited refusals first)))
        (is (= [["a"]] (map :names (views a))))))))

(deftest a-relayed-handshake-is-refused
  (with-refusals
    (with-nodes [a (node "a")]
      (with-open [relay (serving (fn [socket]
                                   (let [other (dial (:address a))]
                                     (Thread/startVirtualThread #(copy socket other))
                                     (copy other socket))))]
        (with-nodes [b (node "b" :peers [(address-of relay)] :discover alone-ms)]
          (waited refusals (fn [lines] (some #(re-find #"A connection from .* its proof is wrong" %) lines)))
          (is (= [[["a"]] [["b"]]] (map #(map :names (views %)) [a b]))))))))

(deftest silent-connections-keep-no-node-out
  (with-refusals
    (with-nodes [a (node "a")]
      (let [silent (vec (repeatedly 100 #(dial (:address a))))]
        (try
          (with-nodes [_ (node "b" :peers [(:address a)])]
            (await-view a ["a" "b"]))
          (is (zero? (alength (read-bytes (first silent) 1))) "the oldest are closed")
          (finally (run! Socket/.close silent)))))))

(deftest a-slow-handshake-is-closed
  (with-refusals
    (with-nodes [a (node "a" :handshake 200)]
      (with-open [socket (dial (:address a))]
        (write socket magic)
        (is (zero? (alength (read-bytes socket 1)))))
      (is (re-find #"since it did not prove itself in 200 ms" (waited refusals first))))))

;; --- nodes that do not fit

(deftest a-node-with-another-cookie-stays-alone
  (with-refusals
    (with-nodes [a (node "a")
                 b (node "b" :peers [(:address a)] :cookie "another cookie, long enough" :discover alone-ms)]
      (is (waited refusals (fn [lines] (some #(re-find #"The node at .* it closed the connection when it saw our proof|A connection from .* its proof is wrong" %)
                                             lines))))
      (is (= [[["a"]] [["b"]]] (map #(map :names (views %)) [a b]))))))

(defn- foreign
  "A channel of JGroups alone, with the name of our cluster. It looks for others at an address."
  ^JChannel [^InetSocketAddress at]
  (let [port (with-open [socket (ServerSocket. 0)] (.getLocalPort socket))
        transport (doto (TCP.)
                    (.setBindAddress (InetAddress/getLoopbackAddress))
                    (.setBindPort port))
        discovery (doto (TCPPING.) (.setInitialHosts ^Collection (vector at)))
        protocols [transport discovery (NAKACK2.) (UNICAST3.) (STABLE.) (doto (GMS.) (.printLocalAddress false) (.setJoinTimeout 300))]]
    (doto (JChannel. ^List protocols)
      (.setName "foreign")
      (.connect "magnetar"))))

(defn- channel-of
  "The channel of a node."
  ^JChannel [{:keys [^JGroupsNetwork network]}]
  (let [field (fn [object name] (.get (doto (Class/.getDeclaredField (class object) name) (.setAccessible true)) object))]
    (-> network (field "stack") (field "channel"))))

(defn- forged-view
  "A message of the first channel to the second one, that they have a new view."
  ^Message [^JChannel from ^JChannel to]
  (let [forged (View. (ViewId. (.getAddress from) 1000) ^List (vector (.getAddress from) (.getAddress to)))
        gms (.findProtocol (.getProtocolStack from) ^Class GMS)
        digest (Digest. ^Map (into {} (map #(vector % (long-array 2))) (.getMembers forged)))
        marshal (doto (.getDeclaredMethod GMS "marshal" (into-array Class [View Digest])) (.setAccessible true))
        ^ByteArray bytes (.invoke marshal nil (object-array [forged digest]))]
    (.putHeader (BytesMessage. (.getAddress to) bytes) (.getId ^Protocol gms) (GMS$GmsHeader. GMS$GmsHeader/VIEW))))

(defn- forge-view
  "Sends to the channel at an address that it and the sender have a new view."
  [^JChannel from ^JChannel to ^InetSocketAddress at]
  (.down from (Event. Event/ADD_PHYSICAL_ADDRESS (Tuple. (.getAddress to) (IpAddress. (.getAddress at) (.getPort at)))))
  (.send from (forged-view from to)))

(defn- physical-address ^InetSocketAddress [^JChannel channel]
  (let [^IpAddress address (.down channel (Event. Event/GET_PHYSICAL_ADDRESS (.getAddress channel)))]
    (InetSocketAddress. (.getIpAddress address) (.getPort address))))

(deftest a-channel-of-jgroups-without-the-cookie-changes-nothing
  (with-refusals
    (with-nodes [a (node "a")
                 b (node "b" :peers [(:address a)])]
      (await-view a ["a" "b"])
      (let [before [(views a) (views b) (.getView (channel-of a))]
            channel (foreign (place (:address a)))]
        (try
          (is (= 1 (.size (.getView channel))))
          (forge-view channel (channel-of a) (place (:address a)))
          (is (re-find #"it is not a node of a Magnetar cluster" (waited refusals first)))
          (testing "a channel of JGroups alone takes the forged view"
            (let [victim (foreign (place (:address a)))
                  told (atom 0)]
              (try
                (.setReceiver victim (reify Receiver (viewAccepted [_ view] (reset! told (.getId (.getViewId view))))))
                (forge-view channel victim (physical-address victim))
                (waited told #(= 1000 %))
                (finally (.close victim)))))
          (finally (.close channel)))
        (is (= before [(views a) (views b) (.getView (channel-of a))]))))))

(deftest a-message-with-an-object-ends-its-connection
  (with-refusals
    (with-nodes [a (node "a")
                 b (node "b" :peers [(:address a)])]
      (run! #(await-view % ["a" "b"]) [a b])
      (let [channel (channel-of b)]
        (doseq [[pattern message] [[#"a message with an object of the class \d+" (ObjectMessage. (.getAddress (channel-of a)) (java.util.ArrayList.))]
                                   [#"a message of the type \d+" (CompositeMessage. (.getAddress (channel-of a)))]]]
          (reset! refusals [])
          (.send channel ^Message message)
          (is (re-find pattern (waited refusals first))))))))

(deftest a-forged-view-by-multicast-changes-nothing
  (let [port (with-open [socket (DatagramSocket. 0)] (.getLocalPort socket))
        group (InetSocketAddress. (InetAddress/getByName "232.5.5.6") (int port))
        adjust #(doto ^Settings % (.multicast group) (.insecure true))]
    (with-refusals
      (with-nodes [a (node "a" :adjust adjust)]
        (let [channel (foreign (place (:address a)))
              out (ByteArrayDataOutputStream.)
              forged (doto (forged-view channel (channel-of a)) (.setSrc (.getAddress channel)) (.writeTo out))
              number #(.getId (.getViewId (.getView (channel-of a))))]
          (try
            (is (some? forged))
            (with-open [socket (doto (MulticastSocket.)
                                 (.setNetworkInterface (NetworkInterface/getByInetAddress (InetAddress/getLoopbackAddress))))]
              (.send socket (DatagramPacket. (.buffer out) (.position out) group)))
            (finally (.close channel)))
          (with-nodes [_ (node "b" :adjust adjust)]
            (await-view a ["a" "b"])
            (is (> 1000 (number)))))))))

;; --- what leaves the machine

(defn- dial-of
  "Dials an address with the sockets that JGroups gets in a node; returns the message of the error."
  [node host port]
  (with-open [socket (.createSocket (.getSocketFactory (.getTransport (.getProtocolStack (channel-of node)))) "test")]
    (try
      (.connect socket (InetSocketAddress. ^String host (int port)) 1000)
      (catch IOException e (ex-message e)))))

(deftest no-node-dials-another-machine-in-plain-text
  (with-refusals
    (with-nodes [a (node "a")]
      (is (= "It would be plain text." (dial-of a "192.0.2.1" 7800)))
      (is (= ["The node at 192.0.2.1:7800 was not dialed, since it is outside of the loopback address. Give this node :tls, or :insecure true in a network that you trust."]
             @refusals)))))

(deftest the-first-failed-dial-of-a-peer-is-logged
  (with-refusals
    (with-nodes [a (node "a" :peers ["127.0.0.1:1"] :discover alone-ms)] ; no program listens at such ports
      (is (str/starts-with? (waited refusals first) "The peer at 127.0.0.1:1 does not answer ("))
      (is (some? (dial-of a "127.0.0.1" 1)))
      (is (some? (dial-of a "127.0.0.1" 2)))
      (is (= 1 (count @refusals)) "not the next one, nor one to another address"))))

;; --- TLS

(defn- context
  "A context of TLS with a certificate, which trusts what `ca` signs."
  [certificate & {:keys [ca] :or {ca "ca"}}]
  (contexts/context (contexts/source (tls-options/checked :server (merge (certificates/identity-of certificate)
                                                                         {:verify :verify-peer
                                                                          :cacertfile (certificates/path (str ca ".pem"))})))))

(deftest nodes-with-tls-see-each-other
  (with-nodes [a (node "a" :tls (context "server"))
               b (node "b" :tls (context "client") :peers [(:address a)])]
    (run! #(await-view % ["a" "b"]) [a b])
    (dotimes [n 200]
      (support/send-text a b (str n)))
    (waited (:log b) #(= 200 (count (filter :from %))))
    (is (= (map #(vector "a" (str %)) (range 200)) (support/frames b)))))

(deftest nodes-with-another-certificate-or-none-stay-out
  (with-refusals
    (with-nodes [a (node "a" :tls (context "server"))]
      (doseq [[what options] {"a certificate that the other one does not trust" {:tls (context "unknown")}
                              "a context that does not trust the other one" {:tls (context "client" :ca "unknown")}
                              "no TLS" {}}]
        (testing what
          (reset! refusals [])
          (with-nodes [b (apply node "b" :peers [(:address a)] :discover alone-ms (mapcat identity options))]
            (is (waited refusals first))
            (is (= [["b"]] (map :names (views b)))))))
      (is (= [["a"]] (map :names (views a)))))))

(deftest tls-does-not-replace-the-cookie
  (with-refusals
    (with-nodes [a (node "a" :tls (context "server"))
                 b (node "b" :tls (context "client") :peers [(:address a)] :cookie "another cookie, long enough" :discover alone-ms)]
      (is (waited refusals first))
      (is (= [[["a"]] [["b"]]] (map #(map :names (views %)) [a b]))))))

;; --- cookie files

(defn- cookie-file
  "A file with this text and these permissions."
  ^Path [text permissions]
  (let [file (.toPath (File. ^File (child/temp-folder "magnetar-cookie") "cookie"))]
    (Files/writeString file text (make-array java.nio.file.OpenOption 0))
    (Files/setPosixFilePermissions file (PosixFilePermissions/fromString permissions))
    file))

(defn- read-cookie [file]
  (#'cluster/cookie {:cookie-file (str file)}))

(deftest a-cookie-file-is-for-its-owner-alone
  (is (= "Cookie of 32 bytes" (str (read-cookie (cookie-file "0123456789abcdef0123456789abcdef\n" "rw-------")))))
  (are [permissions] (thrown-with-msg? IOException #"is open to others than its owner \([rwx-]{9}\): run `chmod 600 .*/cookie`"
                                       (read-cookie (cookie-file "0123456789abcdef0123456789abcdef" permissions)))
    "rw-r--r--" "rw----r--" "rw--w----"))

(deftest a-cookie-that-could-be-guessed-is-refused
  (are [text] (thrown-with-msg? IOException #"is empty, or has fewer than 16 bytes: fill it, as by `openssl rand -hex 32 > .*/cookie`"
                                (read-cookie (cookie-file text "rw-------")))
    "" "\n" "0123456789abcde\n")
  (is (thrown-with-msg? IOException #"There is no cookie file /nowhere/cookie: make one" (read-cookie "/nowhere/cookie")))
  (is (thrown-with-msg? IOException #"more than 4096 bytes" (read-cookie (cookie-file (apply str (repeat 5000 "x")) "rw-------"))))
  (is (thrown-with-msg? IllegalArgumentException #"has 5 bytes, and needs 16 or more" (Cookie/of "short"))))
