(ns magnetar.async-mixing-test
  "Channels of core.async in our operations, and ours in theirs."
  (:require
   [clojure.core.async :as theirs]
   [clojure.datafy :refer [datafy]]
   [clojure.test :refer [deftest is testing]]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.resilience :as r]
   [magnetar.support :refer [counter drained eventually start-thread taken value-of waiting-putters waiting-takers]])
  (:import
   (clojure.core.async.impl.protocols Channel ReadPort WritePort)
   (java.util.concurrent.atomic AtomicInteger)))

(set! *warn-on-reflection* true)

(def ^:private lanes
  "Both directions: the operations of one library on the channels of the other."
  [{:title "their channels in our operations"
    :chan theirs/chan, :take a/<!!, :put a/>!!, :alts a/alts!!, :take! a/take!, :put! a/put!, :offer a/offer!, :poll a/poll!
    :close a/close!, :timeout theirs/timeout, :pipe a/pipe, :mult a/mult, :tap a/tap, :merge a/merge, :into a/into}
   {:title "our channels in their operations"
    :chan a/chan, :take theirs/<!!, :put theirs/>!!, :alts theirs/alts!!, :take! theirs/take!, :put! theirs/put!, :offer theirs/offer!
    :poll theirs/poll!, :close theirs/close!, :timeout a/timeout, :pipe theirs/pipe, :mult theirs/mult, :tap theirs/tap
    :merge theirs/merge, :into theirs/into}])

(defmacro ^:private in-both-directions
  "Runs the body once for each direction, with the symbol bound to the operations of that direction."
  [lane & body]
  `(doseq [lane# lanes]
     (testing (:title lane#)
       (let [~lane lane#] ~@body))))

(defn- channels-of-each-kind []
  {:without-buffer (a/chan)
   :with-buffer (a/chan 1)
   :with-transducer (a/chan 1 (map inc))
   :promise (a/promise-chan)
   :timeout (a/timeout 10000)
   :of-go (a/go 1)
   :of-thread (a/thread 1)
   :of-channel (channel/chan {:size 1})
   :end-of-pipeline (a/pipeline 1 (a/chan) (map inc) (a/chan))})

(deftest our-channels-are-instances-of-the-interfaces-of-core-asyncs-protocols
  (doseq [[kind ch] (channels-of-each-kind)
          interface [ReadPort WritePort Channel]]
    (is (instance? interface ch) (str kind " is a " interface))))

(defprotocol ^:private Answer
  (answer [x]))

(extend-protocol Answer
  ReadPort
  (answer [_] :channel)
  Object
  (answer [_] :other))

(deftest protocols-that-were-extended-to-core-asyncs-interfaces-hold-for-our-channels
  (doseq [[kind ch] (channels-of-each-kind)]
    (is (= :channel (answer ch)) (str kind)))
  (is (= :other (answer 1))))

(deftest the-methods-of-those-interfaces-do-what-the-protocols-say
  (let [^Channel c (a/chan 1)
        handler (theirs/fn-handler (fn [_]))]
    (is (= [false true] [(.closed_QMARK_ c) @(.put_BANG_ ^WritePort c :x handler)]))
    (is (= :x @(.take_BANG_ ^ReadPort c handler)))
    (is (nil? (.take_BANG_ ^ReadPort c handler)) "queued")
    (is (thrown-with-msg? IllegalArgumentException #"Can't put nil on channel" (.put_BANG_ ^WritePort c nil handler)))
    (is (= [nil true] [(.close_BANG_ c) (.closed_QMARK_ c)]))))

(deftest a-channel-is-told-from-other-things
  (doseq [[kind ch] (channels-of-each-kind)]
    (is (= [true true] [(channel/channel? ch) (channel/port? ch)]) (str kind)))
  (is (= [false true] [(channel/channel? (theirs/chan)) (channel/port? (theirs/chan))]))
  (is (= [false true] [(channel/channel? (a/map< inc (a/chan))) (channel/port? (a/map< inc (a/chan)))]))
  (doseq [x [nil 1 "x" [(a/chan)] (a/mult (a/chan)) {} inc]]
    (is (= [false false] [(channel/channel? x) (channel/port? x)]))))

(deftest ^{:spec ["C34"]} takes-and-puts-cross
  (in-both-directions {:keys [chan put take offer poll close]}
    (let [c (chan 2)]
      (is (= [true true nil] [(put c 1) (offer c 2) (offer c 3)]))
      (is (= [1 2 nil] [(take c) (poll c) (poll c)]))
      (close c)
      (is (= [false nil] [(put c 1) (take c)])))))

(deftest ^{:spec ["C34"]} waiting-takes-and-puts-cross
  (in-both-directions {:keys [chan put take]}
    (let [c (chan)
          taker (future (take c))]
      (is (= true (value-of (future (put c :handed)))))
      (is (= :handed (value-of taker))))))

(deftest ^{:spec ["C34"]} callbacks-cross
  (in-both-directions {:keys [chan put! take! close]}
    (let [c (chan)
          [got put-done closed] (repeatedly promise)]
      (take! c #(deliver got %))
      (put! c :x #(deliver put-done %))
      (is (= [:x true] [(value-of got) (value-of put-done)]))
      (take! c #(deliver closed [%]))
      (close c)
      (is (= [nil] (value-of closed))))))

(deftest ^{:spec ["C34"]} nil-is-refused-in-both-directions
  (in-both-directions {:keys [chan put alts]}
    (is (thrown-with-msg? IllegalArgumentException #"Can't put nil on channel" (put (chan 1) nil)))
    (is (thrown-with-msg? AssertionError #"can't put nil on channel" (alts [[(chan 1) nil]] :default 1)))))

(deftest ^{:spec ["C34"]} alts-over-a-mixture
  (in-both-directions {:keys [alts chan timeout]}
    (doseq [[mine other] [[(a/chan 1) (theirs/chan 1)] [(theirs/chan 1) (a/chan 1)]]]
      (is (= [:none :default] (alts [mine other] :default :none)))
      (is (= [true other] (alts [mine [other 1]] :priority true)))
      (is (= [1 other] (alts [mine other])))
      (let [late (timeout 20)]
        (is (= [nil late] (alts [mine other late]))))
      (let [waits (future (alts [mine other]))]
        (is (= true (theirs/>!! other :later)))
        (is (= [:later other] (value-of waits))))
      (a/close! mine)
      (is (= [nil mine] (alts [mine other]))))
    (is (= [nil] (take 1 (alts [(doto (chan) a/close!)]))))))

(deftest ^{:spec ["C34"]} timeouts-cross
  (is (nil? (value-of (future (a/<!! (theirs/timeout 10))))))
  (is (nil? (value-of (future (theirs/<!! (a/timeout 10)))))))

(deftest ^{:spec ["C34"]} pipe-mult-and-merge-cross
  (in-both-directions {:keys [chan put close pipe mult tap merge into]}
    (let [from (chan)
          to (pipe from (a/chan 10))]
      (is (= [true true] [(put from 1) (put from 2)]))
      (close from)
      (is (= [1 2] (value-of (future (a/<!! (a/into [] to)))))))
    (let [source (chan)
          m (mult source)
          taps [(tap m (a/chan 5)) (tap m (theirs/chan 5))]]
      (put source 1)
      (put source 2)
      (close source)
      (is (= [[1 2] [1 2]] (mapv #(value-of (future (a/<!! (a/into [] %)))) taps))))
    (is (= #{1 2 3} (value-of (future (a/<!! (into #{} (merge [(a/to-chan! [1]) (theirs/to-chan! [2 3])])))))))))

(deftest ^{:spec ["C34"]} closing-crosses-a-pipe
  (in-both-directions {:keys [chan pipe take]}
    (let [from (chan)
          to (pipe from (a/chan))]
      (a/close! from)
      (is (nil? (taken to))))
    (let [from (a/chan)
          to (pipe from (chan))]
      (theirs/close! from)
      (is (nil? (value-of (future (take to))))))))

(deftest stages-say-how-to-take-from-their-channels
  (is (thrown-with-msg? IllegalArgumentException #"`batch` wants a channel of Magnetar; .* Put magnetar.async/pipe between the two\."
                        (r/batch (theirs/chan) {:size 2})))
  (is (= [1 2] (taken (r/batch (a/pipe (theirs/to-chan! [1 2]) (a/chan)) {:size 2})))))

(deftest ^{:spec ["C34"]} a-transducer-of-each-works-in-the-other
  (is (= [2 4] (value-of (future (a/<!! (a/into [] (a/pipe (theirs/to-chan! [1 2 3 4]) (a/chan 1 (filter even?)))))))))
  (is (= [2 4] (value-of (future (theirs/<!! (theirs/into [] (theirs/pipe (a/to-chan! [1 2 3 4]) (theirs/chan 1 (filter even?))))))))))

(deftest ^{:spec ["C34"]} their-buffers-serve-our-channels
  (let [c (a/chan (theirs/sliding-buffer 2))]
    (run! #(a/>!! c %) [1 2 3])
    (a/close! c)
    (is (= [2 3] (drained c))))
  (let [c (a/chan (theirs/buffer 1))]
    (is (= [true nil] [(a/offer! c 1) (a/offer! c 2)]))))

(deftest ^{:spec ["C20" "C34"]} handlers-of-theirs-that-gave-up-do-not-fill-our-channel
  (let [c (a/chan)
        ready (theirs/chan 3000)]
    (dotimes [_ 3000]
      (theirs/>!! ready :x)
      (theirs/alts!! [c ready] :priority true))
    (a/take! c (fn [_]))
    (is (< (waiting-takers c) 1025))
    (is (= true (a/offer! c :reaches-the-callback)))
    (is (nil? (a/offer! c :nobody)))
    (is (eventually (zero? (waiting-takers c))))))

(deftest ^{:spec ["C18" "C34"]} our-operations-leave-nothing-behind-in-their-channels-when-interrupted
  (doseq [operation [a/<!! #(a/alts!! [(a/chan) %]) #(a/>!! % :ghost) #(a/alts!! [(a/chan) [% :ghost]])]]
    (let [c (theirs/chan)
          [^Thread thread outcome] (start-thread :virtual #(operation c))]
      (is (eventually (= 1 (+ (long (:put-count (datafy c))) (long (:take-count (datafy c)))))))
      (.interrupt thread)
      (is (instance? InterruptedException (value-of outcome)))
      (is (= [nil nil] [(theirs/poll! c) (theirs/offer! c 1)])))))

;; ---- nothing is lost in a crossing run

(def ^:private total 10000)

(defn- put-half
  "Puts the numbers from `from` to `to` on whichever of the channels takes them."
  [alts [x y] from to]
  (future
    (doseq [i (range from to)]
      (alts (if (even? i) [[x i] [y i]] [[y i] [x i]])))))

(defn- take-some
  "Takes from the channels until the counter of what is left reaches zero; the values."
  [alts channels ^AtomicInteger left stop]
  (future
    (loop [values []]
      (let [[value port] (alts (conj channels stop))]
        (if (= port stop)
          values
          (do (when (zero? (.decrementAndGet left)) (a/close! stop))
              (recur (conj values value))))))))

(deftest ^{:spec ["C15" "C34"]} a-crossing-run-of-10000-loses-nothing-and-delivers-nothing-twice
  (let [channels [(a/chan) (theirs/chan)]
        left (doto (counter) (.set total))
        stop (a/chan)
        takers [(take-some a/alts!! channels left stop) (take-some theirs/alts!! channels left stop)]
        putters [(put-half a/alts!! channels 0 5000) (put-half theirs/alts!! channels 5000 total)]]
    (is (= [nil nil] (mapv value-of putters)))
    (let [[ours-got theirs-got] (mapv value-of takers)]
      (is (not (some #{:late} [ours-got theirs-got])))
      (is (= (range total) (sort (concat ours-got theirs-got)))))
    (is (= [0 0] [(waiting-takers (first channels)) (waiting-putters (first channels))]))))
