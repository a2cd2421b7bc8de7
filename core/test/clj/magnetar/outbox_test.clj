(ns magnetar.outbox-test
  "The bytes of a stream that have not left."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [spawn]]
   [magnetar.inspect :as inspect]
   [magnetar.support :refer [eventually]]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.process Outbox)))

(set! *warn-on-reflection* true)

(defn- add [^Outbox outbox ^String text]
  (.add outbox (.getBytes text) 0 (count text) true))

(defn- taken
  "What one take of at most n bytes gets, or :closed."
  [^Outbox outbox n]
  (let [bytes (byte-array n)
        got (.take outbox bytes 0)]
    (if (neg? got) :closed (String. bytes 0 got))))

(deftest what-is-added-is-taken-in-parts-of-any-size
  (let [outbox (Outbox. "b@host" 10 Long/MAX_VALUE)]
    (run! #(add outbox %) ["abc" "defgh" (apply str (repeat 10000 "x"))])
    (is (= 10008 (.size outbox)))
    (is (= ["abcd" "efgh"] [(taken outbox 4) (taken outbox 4)]))
    (is (= (repeat 10 (apply str (repeat 1000 "x"))) (repeatedly 10 #(taken outbox 1000))))
    (add outbox "end")
    (is (= "end" (taken outbox 100)))
    (.close outbox)
    (add outbox "late")
    (is (= :closed (taken outbox 100)))))

(deftest what-is-there-when-it-is-finished-is-taken
  (let [outbox (Outbox. "b@host" 3 Long/MAX_VALUE)]
    (add outbox "abcdef")
    (.finish outbox)
    (add outbox "late")
    (.awaitRoom outbox)
    (is (= ["abcd" "ef" :closed] (repeatedly 3 #(taken outbox 4))))))

(defn- waits-of [pid]
  (:waits-for (actor/process-info pid)))

(deftest a-sender-waits-for-room-and-inspect-says-so
  (let [outbox (Outbox. "b@host" 3 Long/MAX_VALUE)
        _ (add outbox "abcdef")
        sender (spawn #(do (.awaitRoom outbox) :room))]
    (is (eventually (= "room in the stream to b@host" (waits-of sender))))
    (is (some #(and (= sender (:pid %)) (= "room in the stream to b@host" (:waits-for %))) (inspect/processes)))
    (taken outbox 2)
    (is (eventually (= "room in the stream to b@host" (waits-of sender))) "four bytes are left")
    (taken outbox 2)
    (is (= :room (actor/join sender)))
    (add outbox "abc")
    (let [[killed kept] (repeatedly 2 (fn [] (spawn #(do (.awaitRoom outbox) :room))))]
      (is (eventually (every? waits-of [killed kept])))
      (actor/exit killed :shutdown)
      (.close outbox)
      (is (= :room (actor/join kept))))))

(deftest the-fiber-that-takes-waits-for-bytes
  (let [outbox (Outbox. "b@host" 3 Long/MAX_VALUE)
        taker (spawn #(vector (taken outbox 10) (taken outbox 10)))]
    (is (eventually (= "signals to send to b@host" (waits-of taker))))
    (add outbox "abc")
    (is (eventually (and (zero? (.size outbox)) (waits-of taker))))
    (.close outbox)
    (is (= ["abc" :closed] (actor/join taker)))))

(defn- many-senders
  "Three senders of four bytes each, of which one may be killed, and one that takes: nothing is lost, nor waits for ever."
  []
  (let [outbox (Outbox. "b@host" 2 Long/MAX_VALUE)
        senders (mapv (fn [letter] (spawn (fn [] (dotimes [_ 4] (.awaitRoom outbox) (add outbox letter))))) ["a" "b" "c"])
        all (spawn (fn [] (loop [got ""]
                            (let [part (taken outbox 3)]
                              (if (= :closed part) got (recur (str got part)))))))]
    (spawn #(actor/exit (first senders) :shutdown))
    (run! #(actor/join % {:timeout 1000}) (rest senders))
    (mt/wait-until #(zero? (.size outbox)))
    (.close outbox)
    (let [{:strs [a b c] :or {a 0}} (update-keys (frequencies (actor/join all)) str)]
      (and (= [4 4] [b c]) (<= 0 (long a) 4)))))

(deftest no-sender-is-forgotten-and-no-byte-lost
  (is (:passed (mt/check {:runs 500 :properties [:no-leaked-fiber]} (many-senders)))))

(deftest an-outbox-whose-peer-does-not-read-closes-itself
  (let [outbox (Outbox. "b@host" 10 Long/MAX_VALUE)
        force-in (fn [n] (.add outbox (byte-array n) 0 n false))
        most (* 10 Outbox/CUT_OFF)
        waiter (spawn #(do (force-in 10) (.awaitRoom outbox) :on))]
    (is (eventually (waits-of waiter)))
    (.add outbox (byte-array 5000) 0 5000 true)
    (force-in (dec most))
    (is (= [false (+ 10 5000 (dec most))] [(.hasOverflowed outbox) (.size outbox)]) "what senders have waited for does not count")
    (taken outbox 1000)
    (dotimes [_ 2] (force-in (dec most)))
    (is (not (.hasOverflowed outbox)) "nor does what was taken")
    (force-in 1)
    (is (= [true 0 :on :closed] [(.hasOverflowed outbox) (.size outbox) (actor/join waiter) (taken outbox 1)]))
    (force-in 1)
    (is (= 0 (.size outbox)))))

(deftest parts-leave-as-far-as-the-other-side-has-processed-them
  (let [outbox (Outbox. "b@host" 1000 600)
        taker (spawn #(doall (repeatedly 4 (fn [] (taken outbox 100)))))]
    (add outbox (apply str (repeat 350 "x")))
    (is (eventually (= "progress of the reader on b@host" (waits-of taker))))
    (is (= 150 (.size outbox)) "two parts cost 100 bytes and an overhead each")
    (run! #(.processed outbox %) [-1 0 713])
    (is (eventually (= "progress of the reader on b@host" (waits-of taker))) "what was not sent was not processed")
    (.finish outbox)
    (is (eventually (= "progress of the reader on b@host" (waits-of taker))) "also what is left must wait")
    (.processed outbox 356)
    (is (eventually (= 50 (.size outbox))))
    (.processed outbox 712)
    (is (= [100 100 100 50] (map count (actor/join taker))))
    (is (= :closed (taken outbox 1)))
    (let [full (Outbox. "b@host" 1000 1)
          taker (spawn #(vector (taken full 1) (taken full 1)))]
      (add full "ab")
      (is (eventually (= "progress of the reader on b@host" (waits-of taker))))
      (.close full)
      (is (= ["a" :closed] (actor/join taker))))))
