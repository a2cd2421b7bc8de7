(ns magnetar.erlang.scripted
  "The other side of a connection, whose bytes a test chooses: a node without a BEAM."
  (:require
   [clojure.string :as str]
   [magnetar.erlang :as erlang]
   [magnetar.etf :as etf]
   [magnetar.report :as report])
  (:import
   (java.io ByteArrayOutputStream DataInputStream DataOutputStream)
   (java.net InetAddress ServerSocket Socket SocketException)
   (java.security MessageDigest)
   (java.util Arrays)
   (java.util.logging Handler LogRecord Logger)
   (magnetar.etf Pid Reference)))

(set! *warn-on-reflection* true)

(def limit-ms
  "How long a test waits for something that has to come."
  30000)

(def cookie
  "The cookie of the nodes."
  "a_cookie_of_tests")

(def flags
  "What OTP 27 tells, more or less: all that a node needs."
  0xd07cf6fbc)

(def creation
  "The creation of scripted nodes."
  77)

;; ---- bytes

(defn bytes-of
  "The bytes that f writes into a DataOutputStream."
  ^bytes [f]
  (let [bytes (ByteArrayOutputStream.)]
    (f (DataOutputStream. bytes))
    (.toByteArray bytes)))

(defn- with-length
  "A message of a handshake."
  ^bytes [^bytes message]
  (bytes-of #(doto ^DataOutputStream % (.writeShort (alength message)) (.write message))))

(defn utf-8
  "The bytes of the text."
  ^bytes [^String text]
  (.getBytes text "UTF-8"))

(defn digest
  "The answer to a challenge."
  ^bytes [^String secret challenge]
  (.digest (MessageDigest/getInstance "MD5") (utf-8 (str secret (Integer/toUnsignedString (int challenge))))))

(defn hello
  "The greeting of the side that dials."
  (^bytes [name] (hello name flags))
  (^bytes [name flags]
   (let [name (utf-8 name)]
     (with-length (bytes-of #(doto ^DataOutputStream % (.write (int \N)) (.writeLong (long flags)) (.writeInt (int creation))
                                   (.writeShort (alength name)) (.write name)))))))

(defn status
  "The answer to a greeting."
  ^bytes [text]
  (with-length (utf-8 (str "s" text))))

(defn challenge
  "The challenge of the side that was dialled."
  (^bytes [name number] (challenge name number flags))
  (^bytes [name number flags]
   (let [name (utf-8 name)]
     (with-length (bytes-of #(doto ^DataOutputStream % (.write (int \N)) (.writeLong (long flags)) (.writeInt (int number))
                                   (.writeInt (int creation)) (.writeShort (alength name)) (.write name)))))))

(defn challenge-reply
  "The answer to a challenge, with one of the side that has dialled."
  ^bytes [secret theirs mine]
  (with-length (bytes-of #(doto ^DataOutputStream % (.write (int \r)) (.writeInt (int mine)) (.write (digest secret theirs))))))

(defn challenge-ack
  "The answer to the challenge of the side that has dialled."
  ^bytes [secret theirs]
  (with-length (bytes-of #(doto ^DataOutputStream % (.write (int \a)) (.write (digest secret theirs))))))

;; ---- sockets

(defn- streams [^Socket socket]
  (.setSoTimeout socket limit-ms)
  {:socket socket
   :in (DataInputStream. (.getInputStream socket))
   :out (DataOutputStream. (.getOutputStream socket))})

(defn dial
  "A connection to a port of the loopback address."
  [port]
  (streams (Socket. (InetAddress/getLoopbackAddress) (int port))))

(defn listen
  "A socket that listens at a free port of the loopback address."
  ^ServerSocket []
  (doto (ServerSocket. 0 50 (InetAddress/getLoopbackAddress))
    (.setSoTimeout limit-ms)))

(defn accept
  "The next connection."
  [^ServerSocket server]
  (streams (.accept server)))

(defn send-bytes
  "Sends the bytes; a connection that was closed meanwhile takes none."
  [{:keys [^DataOutputStream out]} ^bytes bytes]
  (try
    (.write out bytes)
    (catch SocketException _)))

(defn end-input
  "Sends nothing more."
  [{:keys [^Socket socket]}]
  (try
    (.shutdownOutput socket)
    (catch SocketException _)))

(defn hang-up
  "Closes the connection."
  [{:keys [^Socket socket]}]
  (.close socket))

(defn ended?
  "True when the other side has closed the connection: waits for it, and drops what comes before."
  [{:keys [^DataInputStream in]}]
  (try
    (loop [] (if (neg? (.read in)) true (recur)))
    (catch SocketException _ true)))

(defn read-message
  "The next message of a handshake, as bytes."
  ^bytes [{:keys [^DataInputStream in]}]
  (let [bytes (byte-array (.readUnsignedShort in))]
    (.readFully in bytes)
    bytes))

(defn read-text
  "The next message of a handshake, as text."
  [peer]
  (String. (read-message peer) "ISO-8859-1"))

(defn- int-at [^bytes bytes at]
  (.getInt (java.nio.ByteBuffer/wrap bytes) (int at)))

(defn challenge-in
  "The number of a challenge, in a message of the side that was dialled."
  [message]
  (int-at message 9))

(defn reply-challenge-in
  "The number of the challenge in the answer of the side that has dialled."
  [message]
  (int-at message 1))

;; ---- whole handshakes

(defn port-of-node
  "The port of the node that runs."
  []
  (parse-long (last (str/split (erlang/address) #":"))))

(defn go-on
  "Ends the handshake of a connection that was dialled, after the status."
  [peer]
  (let [number (challenge-in (read-message peer))]
    (send-bytes peer (challenge-reply cookie number 5))
    (assert (Arrays/equals (digest cookie 5) (Arrays/copyOfRange (read-message peer) 1 17)))
    peer))

(defn eventually
  "True once (f) is logical true; false if it does not come to be."
  [f]
  (let [deadline (+ (System/nanoTime) (* 1000000 (long limit-ms)))]
    (loop []
      (cond
        (f) true
        (pos? (- (System/nanoTime) deadline)) false
        :else (do (Thread/yield) (recur))))))

(defn join
  "Dials the node that runs, and is connected as a node with the name."
  ([name] (join name flags))
  ([name flags]
   (let [peer (dial (port-of-node))]
     (send-bytes peer (hello name flags))
     (case (read-text peer)
       "sok" nil
       "salive" (send-bytes peer (status "true"))) ; the connection before has not quite ended
     (go-on peer)
     (assert (eventually #(some #{name} (erlang/nodes))))
     peer)))

(defn let-in
  "Answers the handshake of a connection that the node has dialled, as a node with the name."
  [peer name]
  (read-message peer)
  (send-bytes peer (status "ok"))
  (send-bytes peer (challenge name 9))
  (let [reply (read-message peer)]
    (assert (Arrays/equals (digest cookie 9) (Arrays/copyOfRange reply 5 21)))
    (send-bytes peer (challenge-ack cookie (reply-challenge-in reply)))
    peer))

;; ---- packets

(def plain
  "The codec of scripted nodes."
  (etf/codec {:extensions false}))

(defn term
  "The term of a value, without the byte of the version."
  ^bytes [value]
  (let [bytes (etf/encode plain value)]
    (Arrays/copyOfRange bytes 1 (alength bytes))))

(defn packet
  "Sends a packet of these parts, byte arrays and numbers."
  [peer & parts]
  (let [content (bytes-of (fn [^DataOutputStream out]
                            (doseq [part parts]
                              (if (bytes? part) (.write out ^bytes part) (.write out (int part))))))]
    (send-bytes peer (bytes-of #(doto ^DataOutputStream % (.writeInt (alength content)) (.write content))))))

(defn control
  "Sends a control message, and its payload if there is one."
  [peer message & payload]
  (apply packet peer 131 68 0 (term message) (map term payload)))

(defn- any-packet ^bytes [{:keys [^DataInputStream in]}]
  (let [bytes (byte-array (.readInt in))]
    (.readFully in bytes)
    bytes))

(defn- looks-for-servers?
  "Is the packet one by which this node looks for the servers of groups or names of another one?"
  [^bytes packet]
  (re-find #"w\u0002pg\u0083?h\u0002w\u0008discover|w\u0012global_name_server" (String. packet "ISO-8859-1")))

(defn next-packet
  "The next packet, without its length, that does not look for servers of groups or names. A tick is an empty one."
  ^bytes [peer]
  (let [packet (any-packet peer)]
    (if (looks-for-servers? packet) (recur peer) packet)))

(defn- parts
  "A control message and its payload, if there is one."
  [^bytes packet]
  (let [_ (assert (= [131 68 0] (map #(bit-and 255 (long %)) (take 3 packet))))
        decoder (etf/decoder plain)
        none (object-array 0)
        control (.read decoder packet 3 (- (alength packet) 3) none)
        at (.position decoder)]
    (if (= at (alength packet))
      [control]
      [control (.read decoder packet at (- (alength packet) at) none)])))

(defn next-control
  "The next control message that is no tick, and does not look for servers, as a vector with its payload if there is one."
  [peer]
  (let [packet (next-packet peer)]
    (if (zero? (alength packet)) (recur peer) (parts packet))))

(defn next-search
  "The next control message by which this node looks for servers, with its payload."
  [peer]
  (let [packet (any-packet peer)]
    (if (looks-for-servers? packet) (parts packet) (recur peer))))

(defn pid
  "A pid of the scripted node."
  [name n]
  (Pid. name n 0 creation))

(defn reference
  "A reference of the scripted node, with these words."
  [name & words]
  (Reference. name creation (int-array words)))

;; ---- nodes, and what they log

(def ^:private ^Logger logger (Logger/getLogger "magnetar.erlang"))

(defn logged
  "Calls f with an atom of the lines that are logged meanwhile, and not printed; returns its value."
  [f]
  (let [lines (atom [])
        handler (proxy [Handler] []
                  (publish [^LogRecord line] (swap! lines conj (first (.getParameters line))))
                  (flush [])
                  (close []))]
    (.addHandler logger handler)
    (.setUseParentHandlers logger false)
    (try
      (f lines)
      (finally
        (.removeHandler logger handler)
        (.setUseParentHandlers logger true)))))

(defn failures-of
  "Calls f with an atom of the failures that are reported meanwhile, and not printed; returns its value."
  [f]
  (let [failures (atom [])
        hook (report/add-hook :failure #(swap! failures conj %))]
    (try
      (f failures)
      (finally (report/remove-hook :failure hook)))))

(defn quietly
  "Calls f while nothing is printed about a server that ends; returns its value."
  [f]
  (let [hook (report/add-hook :report (fn [_]))]
    (try
      (f)
      (finally (report/remove-hook :report hook)))))

(defn running
  "Calls f while this JVM is the node m@127.0.0.1, without EPMD; returns its value. The lines that are logged go into the atom."
  ([f] (running {} (atom []) f))
  ([options lines f]
   (logged
     (fn [all]
       (let [[how :as started] (erlang/start (merge {:name "m@127.0.0.1" :cookie cookie :epmd false} options))]
         (assert (= :ok how) (pr-str started))
         (add-watch all ::lines (fn [_ _ _ now] (reset! lines now)))
         (try
           (f)
           (finally
             (erlang/stop)
             (reset! lines @all))))))))
