(ns magnetar.erlang.parts-test
  "Large messages leave in parts, between which others pass, with a scripted other side that reads when a test wants it to."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.scripted :as scripted :refer [control eventually flags hang-up join pid reference running]]
   [magnetar.etf :as etf]
   [magnetar.sys :as sys])
  (:import
   (clojure.lang ExceptionInfo)
   (java.io ByteArrayOutputStream)
   (java.lang.reflect Constructor Method)
   (java.net Socket)
   (java.nio ByteBuffer)
   (magnetar.etf Decoder)
   (magnetar.kernel.process Outbox)))

(set! *warn-on-reflection* true)

(def ^:private other "b@127.0.0.1")

(def ^:private their-pid (pid other 5))

(def ^:private part 65536)

(defn- text
  "A text of so many bytes."
  [n]
  (String. (byte-array n (byte 120)) "US-ASCII"))

(def ^:private long-text
  "More than the sockets hold until the other side reads."
  (delay (text 15000000)))

(defn- with-peer
  "Calls f with the other side of a connection, in a process with the name :inbox."
  ([f] (with-peer {} flags f))
  ([options told f]
   (running options (atom [])
     (fn []
       (let [peer (join other told)]
         (.setReceiveBufferSize ^Socket (:socket peer) 65536)
         (try
           (actor/with-process {:name :inbox} (f peer))
           (finally (hang-up peer))))))))

(defn- got
  "The next message of this process; :none if none comes."
  []
  (receive x x (after scripted/limit-ms :none)))

;; ---- what arrives

(def ^:private no-atoms (object-array 0))

(defn- terms
  "The control message and its payload, if there is one, of these bytes."
  [^bytes bytes from]
  (let [decoder (etf/decoder scripted/plain)
        n (alength bytes)
        control (.read ^Decoder decoder bytes (int from) (int (- n (long from))) no-atoms)
        at (.position ^Decoder decoder)]
    (if (= at n) [control] [control (.read ^Decoder decoder bytes at (- n at) no-atoms)])))

(defn- read-event
  "What the next packet is: [:part sequence number] and, with the last part, [:large control payload]; or [:whole control payload]
  or [:tick]. `open` is an atom of the sequences that have begun."
  [peer open]
  (let [packet (scripted/next-packet peer)
        n (alength packet)
        kind (when (pos? n) (bit-and 255 (aget packet 1)))]
    (case (long (or kind 0))
      0 [[:tick]]
      68 [(into [:whole] (terms packet 3))]
      (69 70)
      (let [b (ByteBuffer/wrap packet)
            sequence (.getLong b 2)
            number (.getLong b 10)
            from (if (= 69 kind) 19 18)]
        (if (= 69 kind)
          (do (assert (zero? (aget packet 18)) "no atoms")
              (assert (not (@open sequence)) "begins once")
              (assert (vector? (.read (etf/decoder scripted/plain) packet 19 (- n 19) no-atoms)) "the first part has the control message")
              (swap! open assoc sequence {:bytes (ByteArrayOutputStream.) :next number}))
          (assert (= number (:next (@open sequence))) "in order"))
        (let [^ByteArrayOutputStream all (:bytes (@open sequence))]
          (.write all packet from (- n from))
          (swap! open assoc-in [sequence :next] (dec number))
          (cond-> [[:part sequence number]]
            (= 1 number) (conj (do (swap! open dissoc sequence) (into [:large] (terms (.toByteArray all) 0))))))))))

(defn- events-until
  "What arrives, up to the first event for which (f event). `open` is as in `read-event`."
  ([peer f] (events-until peer (atom {}) f))
  ([peer open f]
   (loop [all []]
     (let [next-ones (read-event peer open)
           all (into all next-ones)]
       (if (some f next-ones) all (recur all))))))

(defn- large? [[kind]] (= :large kind))

(defn- notice?
  "Is it of the death of a process?"
  [[kind control]]
  (and (#{:whole :large} kind) (#{24 28} (first control))))

(defn- payloads
  "The payloads, or the control messages without one, in the order in which they were complete. A large text is its length."
  [events]
  (for [[kind control & [payload :as all]] events
        :when (#{:whole :large} kind)]
    (cond
      (empty? all) control
      (string? payload) (count payload)
      :else payload)))

(defn- sender
  "Starts a process that sends the messages to :shelf; returns its pid."
  [& messages]
  (actor/spawn #(run! (partial ! [:shelf other]) messages)))

(defn- waits-for-room? [process]
  (= "room in the stream to b@127.0.0.1" (:waits-for (actor/process-info process))))

;; ---- one message

(deftest a-large-message-comes-in-parts-and-a-small-one-whole
  (with-peer
    (fn [peer]
      (doseq [n [(- part 5) (- part 4) (* 3 part) 1000000]
              :let [_ (! [:shelf other] (text n))
                    all (events-until peer (some-fn large? (comp #{:whole} first)))
                    [kind [op _ _ name] payload] (peek all)
                    parts (for [[kind _ number] all :when (= :part kind)] number)]]
        (is (= [6 :shelf n] [op name (count payload)]))
        (is (= (if (= n (- part 5)) :whole :large) kind) "the term has 5 bytes more than the text")
        (is (= (range (count parts) 0 -1) parts))
        (is (= (if (= kind :large) (quot (+ n 5 (dec part)) part) 0) (count parts)))))))

(deftest a-node-that-takes-no-parts-gets-all-whole
  (with-peer {} (bit-and flags (bit-not 0x800000))
    (fn [peer]
      (! [:shelf other] (text 1000000))
      (is (= 1000000 (count (second (scripted/next-control peer))))))))

;; ---- between the parts

(deftest messages-of-others-pass-a-large-one
  (with-peer
    (fn [peer]
      (actor/join (sender @long-text))
      (actor/join (sender :ping))
      @(future (! [:shelf other] :outside))
      (is (= [:ping :outside 15000000] (payloads (events-until peer large?)))))))

(deftest large-messages-take-turns
  (with-peer
    (fn [peer]
      (run! actor/join [(sender @long-text) (sender (text 300000))])
      (is (= [300000 15000000] (payloads (events-until peer #(and (large? %) (= 15000000 (count (peek %)))))))))))

(deftest senders-wait-while-large-messages-beside-the-largest-one-fill-the-stream
  (with-peer {:buffer 65536} flags
    (fn [peer]
      (run! actor/join [(sender @long-text) (sender (text 8000000))])
      (let [third (sender :third)
            open (atom {})]
        (is (eventually #(waits-for-room? third)))
        (let [with-shorter (payloads (events-until peer open large?))
              _ (actor/join third)
              all (concat with-shorter (payloads (events-until peer open large?)))]
          (is (= #{:third 8000000} (set (butlast all))) "the third waits until little is left of the shorter one")
          (is (= 15000000 (last all))))))))

(deftest signals-of-one-process-stay-behind-its-large-message
  (with-peer
    (fn [peer]
      (let [process (actor/spawn #(do (receive :begin nil)
                                      (run! (partial ! [:shelf other]) [@long-text :after (text 200000) :last])
                                      (actor/exit :done)))]
        (actor/register :sender process)
        (control peer [19 their-pid :sender (reference other 1)])
        (control peer [6 their-pid (keyword "") :inbox] :monitored)
        (is (= :monitored (got)))
        (! process :begin)
        (is (eventually #(waits-for-room? process)))
        (actor/join (sender :ping))
        (is (= [:ping 15000000 :after 200000 :last :done]
               (payloads (events-until peer notice?))))))))

(deftest a-system-message-stays-behind-the-large-message-of-its-process
  (with-peer
    (fn [peer]
      (actor/join (sender @long-text))
      (let [asker (actor/spawn #(do (! [:shelf other] (text 300000))
                                    (try (sys/get-state [:shelf other] {:timeout :infinity}) (catch ExceptionInfo _))))
            asks? (fn [[_ _ message]] (and (vector? message) (= :system (first message))))]
        (is (= 300000 (last (filter int? (payloads (events-until peer asks?))))))
        (hang-up peer)
        (actor/join asker)))))

(deftest a-process-that-is-killed-leaves-a-whole-message-and-then-its-notices
  (with-peer
    (fn [peer]
      (let [process (actor/spawn #(do (receive :begin nil)
                                      (run! (partial ! [:shelf other]) [@long-text :not-sent])))
            ends (atom 0)]
        (actor/register :sender process)
        (! [:shelf other] process)
        (let [own (second (scripted/next-control peer))]
          (control peer [19 their-pid :sender (reference other 1)])
          (control peer [19 their-pid own (reference other 2)])
          (control peer [1 their-pid own])
          (control peer [6 their-pid (keyword "") :inbox] :watched)
          (is (= :watched (got))))
        (! process :begin)
        (is (eventually #(waits-for-room? process)))
        (actor/exit process :kill)
        (is (eventually #(not (actor/alive? process))))
        (is (= [15000000 :killed :killed :killed]
               (payloads (events-until peer #(and (notice? %) (= 3 (swap! ends inc)))))))))))

;; ---- the end

(deftest a-connection-that-ends-between-two-parts-frees-the-sender-and-leaves-nothing
  (with-peer
    (fn [peer]
      (let [[process ref] (actor/spawn-monitor #(run! (partial ! [:shelf other]) [@long-text :after]))]
        (is (eventually #(waits-for-room? process)))
        (is (= :part (ffirst (filter (comp #{:part} first) (events-until peer (comp #{:part} first))))))
        (hang-up peer)
        (is (= [:DOWN ref] (take 2 (got))))
        (is (eventually #(= [] (erlang/nodes))))
        (let [again (join other)]
          (! [:shelf other] (text 200000))
          (is (= [200000] (payloads (events-until again large?))))
          (hang-up again))))))

(deftest a-node-that-stops-sends-large-messages-to-their-end
  (let [arrived (promise)]
    (running
      (fn []
        (let [peer (join other)]
          (actor/join (sender (text 10000000)))
          (future (deliver arrived (try (payloads (events-until peer large?)) (catch Throwable t t)))))))
    (is (= [10000000] (deref arrived scripted/limit-ms :late)))))

;; ---- the queue alone

(def ^:private ^Class queue (Class/forName "magnetar.erlang.wire.Parts"))

(defn- new-queue [limit outbox]
  (let [make (doto ^Constructor (first (.getDeclaredConstructors queue)) (.setAccessible true))]
    (.newInstance make (object-array ["b@host" (int limit) outbox]))))

(defn- ask-queue [parts method & arguments]
  (let [found (first (filter #(= method (.getName ^Method %)) (.getDeclaredMethods queue)))]
    (.invoke (doto ^Method found (.setAccessible true)) parts (object-array arguments))))

(defn- add-message
  "Adds the bytes as a message whose control message has 10 bytes."
  [parts sender ^bytes bytes waited?]
  (ask-queue parts "add" sender bytes (int 0) (int 10) (int (alength bytes)) waited?))

(defn- packets-in
  "The [sequence number] of the parts in the outbox, which are taken."
  [^Outbox outbox ^bytes bytes]
  (loop [b (ByteBuffer/wrap bytes 0 (loop [n 0] (if (zero? (.size outbox)) n (recur (+ n (.take outbox bytes n))))))
         found []]
    (if (.hasRemaining b)
      (let [n (.getInt b)
            at (.position b)]
        (recur (.position b (+ at n)) (if (zero? n) found (conj found [(.getLong b (+ at 2)) (.getLong b (+ at 10))]))))
      found)))

(deftest messages-that-the-other-side-could-not-hold-together-leave-one-after-the-other
  (let [outbox (Outbox. "b@host" 1048576 Long/MAX_VALUE)
        parts (new-queue 1048576 outbox)
        bytes (byte-array 70000000)
        taken (byte-array 1000000)]
    (doseq [sender [:a :b]] (add-message parts sender bytes true))
    (let [all (loop [all []]
                (ask-queue parts "feed")
                (let [next-ones (packets-in outbox taken)]
                  (if (seq next-ones) (recur (into all next-ones)) all)))]
      (is (= [1 2] (dedupe (map first all))))
      (is (= [1 1] (map peek (filter #(= 1 (peek %)) all))))
      (is (not (ask-queue parts "isBusy"))))))

(defn- waits-at-host? [process]
  (= "room in the stream to b@host" (:waits-for (actor/process-info process))))

(deftest a-sender-that-has-waited-for-the-outbox-waits-for-messages-that-came-meanwhile
  (let [outbox (Outbox. "b@host" 1000 Long/MAX_VALUE)
        parts (new-queue 1000 outbox)
        seen (atom [])]
    (.add outbox (byte-array 1000) 0 1000 true)
    (let [process (actor/spawn #(do (ask-queue parts "awaitRoom") (swap! seen conj :room)))]
      (is (eventually #(waits-at-host? process)))
      (doseq [other [:a :b]] (add-message parts other (byte-array 5000) true))
      (.take outbox (byte-array 2000) 0)
      (dotimes [_ 10000] (Thread/yield)) ; a sender that does not look again goes on
      (swap! seen conj :closed)
      (ask-queue parts "close")
      (actor/join process)
      (is (= [:closed :room] @seen)))))

(deftest too-much-without-a-wait-frees-who-waits-for-a-large-message
  (let [outbox (Outbox. "b@host" 100 Long/MAX_VALUE)
        parts (new-queue 100 outbox)
        process (actor/spawn #(do (add-message parts (self) (byte-array 1000) true) (ask-queue parts "awaitRoom")))]
    (is (eventually #(waits-at-host? process)))
    (dotimes [_ (inc Outbox/CUT_OFF)]
      (ask-queue parts "keep" process (byte-array 100) (int 100) false))
    (is (= :ok (do (actor/join process) :ok)))
    (is (ask-queue parts "hasOverflowed"))))

(deftest too-much-behind-a-large-message-without-a-wait-closes-the-stream
  (doseq [waited? [true false]]
    (let [outbox (Outbox. "b@host" 100 Long/MAX_VALUE)
          parts (new-queue 100 outbox)]
      (add-message parts :a (byte-array 1000) true)
      (dotimes [_ (inc Outbox/CUT_OFF)]
        (is (ask-queue parts "keep" :a (byte-array 100) (int 100) waited?)))
      (is (= (not waited?) (ask-queue parts "hasOverflowed")))
      (is (not (ask-queue parts "keep" :b (byte-array 100) (int 100) waited?)) "another sender passes")
      (is (= (if waited? 4 -1) (.take outbox (byte-array 10) 0)) "the tick, or the end"))))
