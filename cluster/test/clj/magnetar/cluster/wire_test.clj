(ns magnetar.cluster.wire-test
  "Signals as bytes, and what a stream makes of other bytes."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [spawn]]
   [magnetar.etf :as etf]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang ExceptionInfo)
   (java.util Arrays Random)
   (java.util.function Consumer)
   (magnetar.cluster.wire BadStream Stream Streams)
   (magnetar.kernel.process Connection Peer Peers Pid Ref Signal Signal$Demonitor Signal$Down Signal$Exit Signal$ExitLink Signal$Link
    Signal$Message Signal$Monitor Signal$Spawn Signal$SpawnReply Signal$Unlink Signal$UnlinkAck)))

(set! *warn-on-reflection* true)

(def ^:private largest 100000)

(def ^:private ^Streams streams (Streams. (constantly nil)))

(defn- codec [options]
  (etf/codec (merge {:identities (.identities streams (Peers/incarnation)) :max-size largest} options)))

(defn- consumer ^Consumer [f]
  (reify Consumer (accept [_ x] (f x))))

(defn- stream
  ([] (stream {} (fn [_])))
  ([options left-out] (Stream. (codec options) "b@host" 1000000 largest (consumer left-out))))

(def ^:private ^Peer peer (Peers/peer "b@host" 77 streams))

(defn- written
  "The bytes of the signals."
  ^bytes [& signals]
  (let [^Stream stream (stream)
        ^Connection connection (.open streams peer stream)]
    (try
      (run! #(.send streams connection %) signals)
      (let [bytes (byte-array (.size stream))]
        (.take stream bytes 0)
        bytes)
      (finally (.close streams connection)))))

(defn- read-by
  "The signals that a stream reads of the bytes, which come in parts of n."
  ([bytes n] (read-by (stream) bytes n))
  ([^Stream stream ^bytes bytes n]
   (let [signals (atom [])]
     (doseq [from (range 0 (alength bytes) n)]
       (.read stream (Arrays/copyOfRange bytes (int from) (int (min (alength bytes) (+ (long from) (long n))))) 0
              (consumer #(swap! signals conj %))))
     @signals)))

(defn- signals-of [^Pid own]
  (let [far (.pid peer (inc (bit-shift-left 1 40)))
        ^Ref ref (actor/make-ref)
        far-ref (.ref peer 99 far true)]
    [(Signal$Message. own far {:a [1 2.5 "x" 'y]} nil)
     (Signal$Message. nil far-ref [far-ref own ref] {:trace "id"})
     (Signal$Message. own :name nil nil)
     (Signal$Exit. own far :kill nil)
     (Signal$ExitLink. own far [:error {:message "x"}])
     (Signal$Link. own far)
     (Signal$Unlink. own far 5)
     (Signal$UnlinkAck. own far Long/MAX_VALUE)
     (Signal$Monitor. own :name ref)
     (Signal$Demonitor. own far ref)
     (Signal$Down. own far far-ref :noproc)
     (Signal$Spawn. own ref nil ['app/run 1 2] true false {:trace "id"})
     (Signal$SpawnReply. far far-ref own)]))

(deftest each-signal-comes-back-whatever-the-parts
  (let [own (spawn (fn [] (actor/receive :never nil)))
        signals (signals-of own)
        ^bytes bytes (apply written signals)]
    (doseq [n [1 2 3 7 100 (alength bytes)]]
      (is (= signals (read-by bytes n))))
    (is (identical? own (.from ^Signal$Message (first (read-by bytes 1)))) "a pid of this node is the process's own")
    (actor/exit own :kill)))

(deftest an-open-alias-comes-back-as-the-same-reference
  (actor/with-process {}
    (let [alias (actor/make-alias)
          back #(.message ^Signal$Message (first (read-by (written (Signal$Message. nil :x alias nil)) 1)))]
      (is (identical? alias (back)))
      (actor/unalias alias)
      (is (and (= alias (back)) (not (.isPlain ^Ref (back))))))))

(deftest what-cannot-be-written-is-an-error-for-its-sender-or-text
  (let [far (.pid peer 1)]
    (is (thrown? ExceptionInfo (written (Signal$Message. nil far (Object.) nil))))
    (is (thrown? ExceptionInfo (written (Signal$Message. nil far (byte-array (inc (long largest))) nil))))
    (let [[^Signal$ExitLink s] (read-by (written (Signal$ExitLink. far far [:failed (Object.)])) 1)]
      (is (= [:unsendable "[:failed \"(java.lang.Object)\"]"] (.reason s))))
    (is (= [(Signal$Message. nil far :next nil)]
           (let [^Stream stream (stream)
                 connection (.open streams peer stream)]
             (try
               (is (thrown? ExceptionInfo (.send streams connection (Signal$Message. nil far [1 2 (Object.)] nil))))
               (.send streams connection (Signal$Message. nil far :next nil))
               (let [bytes (byte-array (.size stream))]
                 (.take stream bytes 0)
                 (read-by bytes 1))
               (finally (.close streams connection))))))))

(deftest a-signal-has-at-most-as-many-bytes-as-the-other-node-reads
  (let [far (.pid peer 1)
        message (fn [n context] (Signal$Message. nil far (byte-array n) context))
        size (fn [n] (- (alength (written (message n nil))) 4 n))
        most (- (long largest) (long (size 90000)))
        [^Signal$Message read] (read-by (written (message most nil)) 65536)]
    (is (= most (alength ^bytes (.message read))))
    (is (thrown-with-msg? ExceptionInfo #"A message of 100001 bytes is too large for another node, which reads at most 100000"
                          (written (message (inc most) nil))))
    (let [[^Signal$Message read] (read-by (written (message most {'app/user "ada"})) 65536)]
      (is (nil? (.context read)) "the context is left out first"))
    (let [reason [(byte-array 60000) (byte-array 39900)]
          [^Signal$Down down] (read-by (written (Signal$Down. far far (.ref peer 9 far true) reason)) 65536)]
      (is (= [:unsendable] (butlast (.reason down)))))))

(deftest context-values-travel-if-they-can
  (let [far (.pid peer 1)
        context-of (fn [^Signal$Message s] (.context s))
        back (fn [stream context] (context-of (first (read-by stream (written (Signal$Message. nil far :x context)) 5))))]
    (is (= {'app/user "ada"} (back (stream) {'app/user "ada", 'app/connection (Object.)})))
    (is (nil? (back (stream {:max-depth 5} (fn [_])) {'app/path [[[[[[[1]]]]]]]})))
    (let [^Signal$Exit s (first (read-by (written (Signal$Exit. nil far :tired {'app/user "ada"})) 5))]
      (is (= [:tired {'app/user "ada"}] [(.reason s) (.context s)])))))

(deftest a-message-that-cannot-be-read-here-is-left-out-and-told-of
  (let [far (.pid peer 1)
        told (atom [])
        deep (nth (iterate vector :x) 50)
        shallow #(stream {:max-depth 20} (fn [e] (swap! told conj (ex-message e))))]
    (is (= [(Signal$Message. nil far :next nil)]
           (read-by (shallow) (written (Signal$Message. nil far deep nil) (Signal$Message. nil far :next nil)) 5)))
    (is (= 1 (count @told)))
    (let [[^Signal$ExitLink s] (read-by (shallow) (written (Signal$ExitLink. far far deep)) 5)]
      (is (= :unreadable (first (.reason s))) "an exit signal has to arrive")
      (is (= 2 (count @told))))))

(defn- signals-about
  "A signal of each kind that names a process, for each of the names."
  [own ref names]
  (mapcat (fn [name]
            [(Signal$Message. own name "x" nil)
             (Signal$Monitor. own name ref)
             (Signal$Demonitor. own name ref)
             (Signal$Down. name own ref "x")])
          names))

(defn- renamed
  "The bytes, with \"heard\" in place of \"known\": so no keyword is here before they are read."
  ^bytes [^bytes bytes]
  (.getBytes (str/replace (String. bytes "ISO-8859-1") "known" "heard") "ISO-8859-1"))

(deftest a-name-is-read-also-after-too-many-keywords
  (let [own (spawn (fn [] (actor/receive :never nil)))
        ref (actor/make-ref)
        told (atom [])
        names (fn [word] (map #(keyword (str word "-of-the-wire-" %)) (range 20)))
        bytes (renamed (apply written (signals-about own ref (names "known"))))
        read (read-by (stream {:max-atoms 5} #(swap! told conj %)) bytes 65536)]
    (is (= (signals-about own ref (names "heard")) read))
    (is (= [] @told))
    (actor/exit own :kill)))

(deftest many-messages-that-cannot-be-read-are-told-of-a-few-times
  (let [far (.pid peer 1)
        told (atom [])
        shallow (stream {:max-depth 20} (fn [e] (swap! told conj [(:left-out (ex-data e)) (ex-message e)])))
        bad (Signal$Message. nil far (nth (iterate vector :x) 50) nil)]
    (read-by shallow (apply written (repeat 250 bad)) 65536)
    (is (= [nil 10 100] (map first @told)))
    (is (re-find #"100 values of this connection could not be read until now; the next report comes after 1000\.$" (second (peek @told))))))

(deftest a-signal-may-not-be-larger-than-agreed
  (is (thrown-with-msg? BadStream #"A signal of 4294967295 bytes was announced" (read-by (byte-array 4 (byte -1)) 4)))
  (is (thrown-with-msg? BadStream #"of 0 bytes" (read-by (byte-array 4) 4)))
  (is (thrown-with-msg? BadStream #"unknown kind 99" (read-by (byte-array [0 0 0 1 99]) 5))))

(deftest altered-bytes-are-refused-or-are-other-signals
  (let [own (spawn (fn [] (actor/receive :never nil)))
        ^bytes bytes (apply written (signals-of own))
        random (Random. 1)
        outcomes (frequencies
                   (repeatedly 20000
                     #(let [^bytes altered (Arrays/copyOf bytes (alength bytes))]
                        (dotimes [_ (inc (.nextInt random 3))]
                          (aset altered (.nextInt random (alength altered)) (unchecked-byte (.nextInt random 256))))
                        (try
                          (read-by altered (inc (.nextInt random 200)))
                          :read
                          (catch BadStream _ :refused)
                          (catch Throwable t (class t))))))]
    (is (= #{:read :refused} (set (keys outcomes))) outcomes)
    (actor/exit own :kill)))
