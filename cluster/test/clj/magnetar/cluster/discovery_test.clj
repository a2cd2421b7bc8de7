(ns magnetar.cluster.discovery-test
  "How nodes find each other without a list of peers: by multicast, and by a name server of the tests."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.cluster.support :refer [alone-ms await-view node view with-nodes]])
  (:import
   (java.io ByteArrayOutputStream DataOutputStream)
   (java.net DatagramPacket DatagramSocket InetAddress InetSocketAddress ServerSocket SocketException)
   (java.util Arrays)
   (magnetar.cluster.impl Settings)))

(set! *warn-on-reflection* true)

(defn- free-port []
  (with-open [socket (DatagramSocket. 0)]
    (.getLocalPort socket)))

(deftest nodes-find-each-other-by-multicast
  (let [group (InetSocketAddress. (InetAddress/getByName "232.5.5.5") (int (free-port)))
        adjust #(doto ^Settings % (.multicast group) (.insecure true))]
    (with-nodes [a (node "a" :adjust adjust)
                 b (node "b" :adjust adjust :discover 5000)]
      (run! #(await-view % ["a" "b"]) [a b]))))

;; --- DNS

(defn- end-of-question
  "Where the only question of a query ends."
  [^bytes query]
  (loop [at 12]
    (let [length (aget query at)]
      (if (zero? length) (+ at 5) (recur (+ at 1 length))))))

(defn- answer
  "The answer to a query for A records: these addresses of 127.0.0.0/8, by their last number; none to another query."
  ^bytes [^bytes query numbers]
  (let [end (long (end-of-question query))
        numbers (if (= 1 (aget query (- end 3))) numbers [])
        bytes (ByteArrayOutputStream.)
        out (DataOutputStream. bytes)]
    (.write out query 0 2)
    (run! #(.writeShort out (int %)) [0x8580 1 (count numbers) 0 0])
    (.write out query 12 (- end 12))
    (doseq [number numbers]
      (run! #(.writeShort out (int %)) [0xc00c 1 1 0 5 4])
      (run! #(.write out (int %)) [127 0 0 number]))
    (.toByteArray bytes)))

(defn- name-server
  "A name server that gives the addresses in the atom for each name."
  ^DatagramSocket [numbers]
  (let [socket (DatagramSocket. 0 (InetAddress/getLoopbackAddress))]
    (Thread/startVirtualThread
     (fn []
       (try
         (loop []
           (let [packet (DatagramPacket. (byte-array 512) 512)]
             (.receive socket packet)
             (let [found (answer (Arrays/copyOf (.getData packet) (.getLength packet)) @numbers)]
               (.send socket (DatagramPacket. found (alength found) (.getSocketAddress packet))))
             (recur)))
         (catch SocketException _ nil))))
    socket))

(defn- by-dns
  "A function from a number to what gives settings its address, a port that all have, and the name server."
  [^DatagramSocket names]
  (let [port (with-open [socket (ServerSocket. 0)] (.getLocalPort socket))]
    (fn [number]
      (fn [settings]
        (doto ^Settings settings
          (.bind (InetAddress/getByName (str "127.0.0." number)) port)
          (.insecure true)
          (.dns "nodes.magnetar.test" (str "127.0.0.1:" (.getLocalPort names))))))))

(deftest nodes-find-each-other-by-dns
  (with-open [names (name-server (atom [1 2 3]))]
    (let [at (by-dns names)]
      (with-nodes [a (node "a" :adjust (at 1))
                   b (node "b" :adjust (at 2) :discover 5000)
                   c (node "c" :adjust (at 3) :discover 5000)]
        (run! #(await-view % ["a" "b" "c"]) [a b c])
        (is (= [false false false] (map (comp :merged view) [a b c])))))))

(deftest nodes-that-began-apart-find-each-other-when-dns-has-both
  (let [known (atom [1])]
    (with-open [names (name-server known)]
      (let [at (by-dns names)]
        (with-nodes [a (node "a" :adjust (at 1) :discover alone-ms)
                     b (do (reset! known [2]) (node "b" :adjust (at 2) :discover alone-ms))]
          (await-view a ["a"])
          (await-view b ["b"])
          (reset! known [1 2])
          (run! #(await-view % ["a" "b"]) [a b]))))))
