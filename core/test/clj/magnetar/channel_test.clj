(ns magnetar.channel-test
  "Channels in our own words: waiting with limits, closing for a cause, what misuse is told, and the clauses of SPEC.md."
  (:require
   [clojure.test :refer [are deftest is testing]]
   [magnetar.async :as a]
   [magnetar.channel :as channel :refer [chan close closed? info put select try-put try-take]]
   [magnetar.inspect :as inspect]
   [magnetar.support :refer [counter drained eventually message-of start-thread taken value-of waiting-putters waiting-takers with-failures]])
  (:import
   (clojure.lang ExceptionInfo)
   (java.time Duration Instant)
   (java.util.concurrent.atomic AtomicInteger)
   (magnetar.kernel.fiber Cancelled Cause$Cancel Fiber)))

(set! *warn-on-reflection* true)

(defn- elapsed-ms
  "How long f takes, in milliseconds."
  [f]
  (let [begin (System/nanoTime)]
    (f)
    (quot (- (System/nanoTime) begin) 1000000)))

;; ---- values, order, closing

(deftest ^{:spec ["C1"]} nil-is-not-a-value-and-false-is
  (doseq [ch [(chan {:size 1}) (doto (chan) close)]]
    (is (thrown? IllegalArgumentException (put ch nil)))
    (is (thrown? IllegalArgumentException (try-put ch nil)))
    (is (thrown? IllegalArgumentException (a/>!! ch nil)))
    (is (thrown? IllegalArgumentException (a/put! ch nil)))
    (is (thrown? IllegalArgumentException (a/offer! ch nil))))
  (let [ch (chan {:size 1})]
    (is (thrown? AssertionError (a/alts!! [ch [ch nil]] :default 1)))
    (is (thrown? IllegalArgumentException (select [ch [ch nil]] {:timeout 0})))
    (put ch false)
    (is (= false (channel/take ch)))))

(deftest ^{:spec ["C2"]} a-put-tells-accepted-from-closed-and-a-take-value-from-end
  (let [ch (chan {:size 1 :buffer :dropping :xform (filter odd?)})]
    (is (= [true true true] [(put ch 1) (put ch 2) (put ch 3)]))
    (close ch)
    (is (= [false 1 nil nil] [(put ch 5) (channel/take ch) (channel/take ch) (channel/take ch)]))))

(deftest ^{:spec ["C3"]} values-and-waiters-are-served-in-the-order-in-which-they-came
  (let [ch (chan)
        results (doall (for [i (range 20)]
                         (let [c (a/go (channel/take ch))]
                           (is (eventually (= (inc (long i)) (waiting-takers ch))))
                           c)))]
    (dotimes [i 20] (put ch i))
    (is (= (range 20) (map taken results))))
  (let [ch (chan {:size 5})]
    (dotimes [i 20]
      (a/go (put ch i))
      (is (eventually (= (inc i) (let [{:keys [count putters]} (info ch)] (+ (long count) (clojure.core/count putters)))))))
    (is (= (range 20) (repeatedly 20 #(taken ch))))))

(deftest ^{:spec ["C4"]} without-a-buffer-a-put-ends-when-it-is-taken
  (let [ch (chan)
        result (a/go (put ch 1))]
    (is (eventually (= 1 (waiting-putters ch))))
    (is (= nil (a/poll! result)))
    (is (= [1 true] [(taken ch) (taken result)]))))

(deftest ^{:spec ["C5"]} closing-happens-once
  (let [ch (chan {:size 1})]
    (is (= [false nil true nil true] [(closed? ch) (close ch) (closed? ch) (close ch) (closed? ch)]))
    (is (= [false false false] [(put ch 1) (try-put ch 1) (a/put! ch 1)]))))

(deftest ^{:spec ["C6"]} what-is-there-at-closing-can-still-be-taken
  (let [ch (chan {:size 1})
        _ (put ch 1)
        later (doall (for [i [2 3]]
                       (let [c (a/go (put ch i))]
                         (is (eventually (= (dec (long i)) (waiting-putters ch))))
                         c)))]
    (close ch)
    (is (= [nil nil] (map a/poll! later)) "they go on waiting")
    (is (= [1 2 3 nil] (repeatedly 4 #(taken ch))))
    (is (= [true true] (map taken later))))
  (let [ch (chan)
        result (a/go [(channel/take ch)])]
    (is (eventually (= 1 (waiting-takers ch))))
    (close ch)
    (is (= [nil] (taken result)))))

(deftest ^{:spec ["C7"]} a-cause-is-thrown-once-what-is-left-was-taken
  (let [ch (chan {:size 1})
        lost (ex-info "feed lost" {:feed 3})]
    (put ch 1)
    (close ch lost)
    (close ch :too-late)
    (is (= lost (channel/cause ch)))
    (is (= 1 (channel/take ch)))
    (let [e (is (thrown-with-msg? ExceptionInfo #"^The channel was closed for a cause: feed lost$" (channel/take ch)))]
      (is (= {:magnetar/reason :magnetar/closed-for-cause :cause lost} (ex-data e)))
      (is (= lost (ex-cause e))))
    (is (thrown? ExceptionInfo (try-take ch)))
    (is (= false (put ch 2)))
    (is (nil? (a/<!! ch)) "magnetar.async answers nil"))
  (testing "data will do as well"
    (is (thrown-with-msg? ExceptionInfo #"^The channel was closed for a cause: :overload$" (channel/take (doto (chan) (close :overload))))))
  (testing "who waits learns of it"
    (let [ch (chan)
          result (a/go (try (channel/take ch) (catch Exception e (ex-message e))))]
      (is (eventually (= 1 (waiting-takers ch))))
      (close ch :gone)
      (is (= "The channel was closed for a cause: :gone" (taken result)))))
  (is (nil? (channel/cause (doto (chan) close)))))

;; ---- buffers and transducers

(deftest ^{:spec ["C8"]} a-fixed-buffer-makes-puts-wait-when-it-is-full
  (doseq [n [1 2 10 100]]
    (let [ch (chan {:size n})]
      (is (= (repeat n true) (repeatedly n #(try-put ch :x))))
      (is (nil? (try-put ch :x)))
      (channel/take ch)
      (is (= true (try-put ch :x))))))

(deftest ^{:spec ["C9"]} dropping-sliding-and-unbounded-never-wait
  (are [options left] (let [ch (chan options)]
                        (and (= (repeat 5 true) (map #(try-put ch %) (range 5)))
                             (= left (do (close ch) (drained ch)))))
    {:buffer :dropping :size 2} [0 1]
    {:buffer :sliding :size 2} [3 4]
    {:buffer :unbounded} [0 1 2 3 4]))

(deftest ^{:spec ["C10"]} a-promise-gives-its-first-value-to-all
  (let [ch (chan {:buffer :promise})
        early (a/go (channel/take ch))]
    (is (eventually (= 1 (waiting-takers ch))))
    (is (= [true true] [(put ch 1) (put ch 2)]))
    (is (= [1 1 1] [(taken early) (channel/take ch) (try-take ch)]))
    (close ch)
    (is (= 1 (channel/take ch))))
  (is (nil? (channel/take (doto (chan {:buffer :promise}) close)))))

(deftest ^{:spec ["C11"]} a-value-may-become-many-and-then-puts-wait
  (let [ch (chan {:size 1 :xform (mapcat range)})]
    (is (= true (try-put ch 3)))
    (is (nil? (try-put ch 3)))
    (is (= [0 1] [(channel/take ch) (channel/take ch)]))
    (is (nil? (try-put ch 3)))
    (is (= [2 true] [(channel/take ch) (try-put ch 1)]))))

(deftest ^{:spec ["C12"]} a-transducer-that-wants-no-more-closes-the-channel
  (let [ch (chan {:size 1 :xform (take 2)})
        _ (put ch 1)
        waiting (doall (for [i [2 3 4]] (let [c (a/go (put ch i))]
                                          (is (eventually (= (dec (long i)) (waiting-putters ch))))
                                          c)))]
    (is (= [1 2 nil] (repeatedly 3 #(taken ch))))
    (is (= [true true true] (map taken waiting)))
    (is (closed? ch))))

(deftest ^{:spec ["C13"]} a-transducer-is-completed-when-closed-and-no-put-waits
  (let [completed (counter)
        counting (fn [rf] (fn ([] (rf)) ([r] (.incrementAndGet completed) (rf r)) ([r x] (rf r x))))
        ch (chan {:size 1 :xform (comp counting (partition-all 2))})]
    (run! #(a/put! ch %) (range 5))
    (close ch)
    (is (zero? (.get ^AtomicInteger completed)) "puts wait")
    (is (= [[0 1] [2 3] [4]] (drained ch)))
    (is (pos? (.get ^AtomicInteger completed)))))

(deftest ^{:spec ["C14"]} what-a-transducer-throws-goes-to-the-handler
  (let [broken (map #(if (= 1 %) (throw (ex-info "boom" {})) %))]
    (testing "its answer takes the value's place"
      (let [ch (chan {:size 3 :xform (comp broken (map inc)) :on-error ex-message})]
        (run! #(put ch %) [0 1 2])
        (is (= [1 "boom" 3] (repeatedly 3 #(taken ch))))))
    (testing "nil drops the value"
      (let [ch (chan {:size 3 :xform broken :on-error (constantly nil)})]
        (is (= [true true 2] [(put ch 1) (put ch 2) (taken ch)]))))
    (testing "without one it is reported"
      (with-failures [failures]
        (let [ch (chan {:size 3 :xform broken})]
          (is (= [true true 2] [(put ch 1) (put ch 2) (taken ch)]))
          (is (= ["boom"] (map message-of @failures))))))))

;; ---- select

(deftest ^{:spec ["C15"]} of-a-select-one-operation-happens
  (let [in (chan {:size 1})
        out (chan {:size 1})]
    (put in 1)
    (let [[value port] (select [in [out :x]])]
      (is (= (if (= port in) [1 nil :x] [true 1 nil])
             (if (= port in) [value (try-take in) (do (put out :x) (try-take out))] [value (try-take in) (do (try-take out) (try-take out))]))))))

(deftest ^{:spec ["C16"]} among-ready-operations-one-is-chosen-at-random-or-the-earliest
  (let [a-ch (chan {:buffer :promise})
        b-ch (chan {:buffer :promise})]
    (put a-ch :a)
    (put b-ch :b)
    (let [seen (frequencies (repeatedly 400 #(first (select [a-ch b-ch]))))]
      (is (< 100 (long (:a seen 0)) 300) (str seen)))
    (is (= {:a 100} (frequencies (repeatedly 100 #(first (select [a-ch b-ch] {:priority true}))))))
    (is (= [:b b-ch] (a/alts!! [(chan) b-ch] :default 1)))
    (is (= [1 :default] (a/alts!! [(chan)] :default 1)))))

(deftest ^{:spec ["C17"]} a-closed-port-is-ready-and-a-select-meets-itself
  (let [ch (doto (chan) close)]
    (is (= [nil ch] (select [(chan) ch])))
    (is (= [false ch] (select [(chan) [ch 1]]))))
  (let [ch (chan)
        [value port] (select [ch [ch 1]])]
    (is (contains? #{1 true} value))
    (is (= ch port))))

(deftest ^{:spec ["C15" "C24"]} a-select-whose-time-runs-out-has-done-nothing
  (let [in (chan)
        out (chan)]
    (is (= [:late nil] (select [in [out 1]] {:timeout 5 :else :late})))
    (is (= [:late nil] (select [in [out 1]] {:timeout 0 :else :late})))
    (is (= [0 0] [(waiting-takers in) (waiting-putters out)]))
    (is (= [nil nil] [(try-put in 1) (try-take out)]))))

;; ---- interruption and time

(deftest ^{:spec ["C18"]} a-cancelled-operation-throws-and-leaves-nothing
  (doseq [operation [#(channel/take %) #(put % :ghost) #(select [% [(chan) 1]]) #(select [(chan) [% :ghost]])]]
    (let [ch (chan)
          fiber (promise)
          outcome (promise)]
      (a/go (deliver fiber (Fiber/current))
            (try (operation ch) (catch Throwable e (deliver outcome e))))
      (is (eventually (= 1 (+ (long (waiting-takers ch)) (long (waiting-putters ch))))))
      (.cancel ^Fiber (value-of fiber) (Cause$Cancel. "enough"))
      (is (instance? Cancelled (value-of outcome)))
      (is (= [nil nil] [(try-take ch) (try-put ch 1)])))))

(deftest ^{:spec ["C18"]} an-interrupted-operation-with-a-time-limit-leaves-nothing
  (let [ch (chan)
        [^Thread thread outcome] (start-thread :virtual #(channel/take ch {:timeout 60000}))]
    (is (eventually (= 1 (waiting-takers ch))))
    (.interrupt thread)
    (is (instance? InterruptedException (value-of outcome)))
    (is (nil? (try-put ch 1)))))

(deftest ^{:spec ["C19"]} an-operation-that-can-happen-at-once-ignores-the-interrupt
  (let [ch (chan {:size 2})
        [_ outcome] (start-thread :virtual #(do (.interrupt (Thread/currentThread))
                                                [(put ch 1) (channel/take ch) (first (select [[ch 2]])) (Thread/interrupted)]))]
    (is (= [true 1 true true] (value-of outcome)))))

(deftest ^{:spec ["C24"]} an-operation-whose-time-runs-out-has-done-nothing
  (let [ch (chan)
        soon #(.plusMillis (Instant/now) 5)]
    (is (= [nil :late :late] [(channel/take ch {:timeout 5 :else nil}) (channel/take ch {:timeout 5 :else :late})
                              (channel/take ch {:deadline (soon) :else :late})]))
    (is (= [nil :late :late] [(put ch 1 {:timeout 5 :else nil}) (put ch 1 {:timeout (Duration/ofMillis 5) :else :late})
                              (put ch 1 {:deadline (soon) :else :late})]))
    (is (= [0 0] [(waiting-takers ch) (waiting-putters ch)]))))

(deftest ^{:spec ["C24"]} the-shorter-limit-counts-and-zero-never-waits
  (let [ch (chan)
        later (.plusSeconds (Instant/now) 600)
        earlier (.minusSeconds (Instant/now) 600)]
    (is (< (long (elapsed-ms #(channel/take ch {:timeout 5 :deadline later :else nil}))) 5000))
    (is (< (long (elapsed-ms #(channel/take ch {:timeout 600000 :deadline earlier :else nil}))) 5000))
    (is (< (long (elapsed-ms #(channel/take ch {:timeout 0 :else nil}))) 5000))))

(deftest ^{:spec ["C24"]} an-operation-within-its-time-gives-its-result
  (let [ch (chan)
        result (a/go (channel/take ch {:timeout 60000 :else :late}))
        for-ever (a/go (channel/take ch {:timeout :infinity}))]
    (is (eventually (= 2 (waiting-takers ch))))
    (is (= [true true] [(put ch 1 {:timeout 60000}) (put ch 1)]))
    (is (= [1 1] [(taken result) (taken for-ever)]))))

(deftest ^{:spec ["C24"]} a-time-limit-may-be-as-long-as-numbers-go
  (doseq [timeout [Long/MAX_VALUE 9223372036853 (Duration/ofDays 200000)]]
    (let [ch (chan)
          result (a/go (channel/take ch {:timeout timeout :else :late}))]
      (is (eventually (= 1 (waiting-takers ch))))
      (put ch 1)
      (is (= 1 (taken result))))))

(deftest ^{:spec ["C25"]} a-timeout-closes-in-time-and-holds-no-timer-while-nobody-waits
  (let [timers #(long (:timers (inspect/runtime)))
        before (timers)
        t (a/timeout 600000)]
    (is (<= (timers) before) "tests before this one may have left some, which may expire meanwhile")
    (is (= nil (first (taken (a/go (a/alts! [t (a/timeout 30)]))))))
    (is (eventually (<= (timers) before))))
  (is (<= 20 (long (elapsed-ms #(taken (a/timeout 20))))))
  (is (= [nil nil] [(taken (a/timeout 0)) (taken (a/timeout -5))])))

(deftest ^{:spec ["C26"]} callbacks-of-a-timeout-do-not-run-on-the-timers-thread
  (let [name-of-thread #(.getName (Thread/currentThread))
        here (name-of-thread)
        name (promise)
        alts-name (promise)]
    (a/take! (a/timeout 20) (fn [_] (deliver name (name-of-thread))))
    (when (a/do-alts (fn [_] (deliver alts-name (name-of-thread))) [(a/timeout 20)] {})
      (deliver alts-name here))
    (is (contains? #{"callback" here} (value-of name)))
    (is (contains? #{"callback" here} (value-of alts-name)))))

;; ---- callbacks and limits

(deftest ^{:spec ["C20"]} ten-thousand-fibers-may-wait-where-the-1025th-callback-is-refused
  (let [ch (chan)
        results (doall (repeatedly 10000 #(a/go (channel/take ch))))]
    (is (eventually (= 10000 (waiting-takers ch))))
    (dotimes [_ 1024] (a/take! ch (fn [_])))
    (is (= (str "Assert failed: No more than 1024 pending takes are allowed on a single channel.\n(< (.size takes) impl/MAX-QUEUE-SIZE)")
           (try (a/take! ch (fn [_])) (catch AssertionError e (ex-message e)))))
    (a/onto-chan! ch (range 10000))
    (is (= (range 10000) (sort (map taken results))))))

(deftest ^{:spec ["C20"]} the-1025th-put-callback-is-refused-and-the-channel-stays-usable
  (let [ch (chan)]
    (dotimes [i 1024] (a/put! ch i))
    (is (= (str "Assert failed: No more than 1024 pending puts are allowed on a single channel. Consider using a windowed buffer.\n"
                "(< (.size puts) impl/MAX-QUEUE-SIZE)")
           (try (a/put! ch :x) (catch AssertionError e (ex-message e)))))
    (is (nil? (a/offer! ch :x)))
    (is (= (range 1024) (repeatedly 1024 #(a/poll! ch))))))

(deftest ^{:spec ["C21"]} a-callback-is-called-once-where-it-was-asked-for
  (let [here (Thread/currentThread)
        calls (atom [])
        note #(swap! calls conj [% (= here (Thread/currentThread))])
        ch (chan {:size 1})]
    (a/put! ch 1 note)
    (a/take! ch note)
    (is (= [[true true] [1 true]] @calls) "at once, on this thread")
    (let [elsewhere (promise)]
      (a/put! ch 2)
      (a/take! ch #(deliver elsewhere [% (= here (Thread/currentThread)) (.isVirtual (Thread/currentThread))]) false)
      (is (= [2 false true] (value-of elsewhere))))
    (reset! calls [])
    (a/take! ch note)
    (a/put! ch 3)
    (is (= [[3 true]] @calls) "by the thread that completes it")))

(deftest ^{:spec ["C21"]} a-callback-may-use-its-own-channel
  (let [ch (chan)
        seen (promise)]
    (a/take! ch (fn [v] (a/take! ch #(deliver seen [v % (count (:takers (info ch)))]))))
    (put ch 1)
    (put ch 2)
    (is (= [1 2 0] (value-of seen)))))

(deftest ^{:spec ["C23"]} a-failing-callback-does-not-undo-the-operation
  (with-failures [failures]
    (let [ch (chan)]
      (a/put! ch 1 (fn [_] (throw (ex-info "boom" {}))))
      (is (= 1 (taken ch)))
      (is (eventually (= ["boom"] (map message-of @failures)))))))

;; ---- info

(deftest ^{:spec ["C33"]} a-channel-tells-its-state-and-who-waits
  (is (= {:closed? false :cause nil :count 0 :capacity 2 :takers [] :putters []} (info (chan {:size 2}))))
  (is (= [0 nil 1] (map #(:capacity (info (chan %))) [{} {:buffer :unbounded} {:buffer :promise}])))
  (let [ch (chan {:size 1})]
    (put ch 1)
    (a/go (put ch 2))
    (is (eventually (= 1 (waiting-putters ch))))
    (a/put! ch 3)
    (let [{:keys [putters count]} (info ch)]
      (is (= 1 count))
      (is (re-matches #"go magnetar/channel_test\.clj:\d+" (first putters)))
      (is (= "callback" (second putters))))
    (close ch :why)
    (is (= [true :why] ((juxt :closed? :cause) (info ch))))))

;; ---- misuse

(defn- misuse-of
  "Class, message and data of what f throws."
  [f]
  (try (f) :nothing (catch Exception e [(instance? IllegalArgumentException e) (ex-message e) (ex-data e)])))

(deftest misuse-is-told-in-a-sentence-with-data
  (are [expression message data] (= [true message data] (misuse-of (fn [] expression)))
    (chan {:buffer :ring :size 1})
    "A channel's :buffer is one of (:dropping :fixed :promise :sliding :unbounded); this is :ring."
    {:magnetar/reason :magnetar/unknown-buffer :buffer :ring :size 1}

    (chan {:size 0})
    "A channel's :size is a whole number from 1 up; this is 0."
    {:magnetar/reason :magnetar/bad-size :size 0}

    (chan {:size 3000000000})
    "A channel's :size is a whole number from 1 to 2147483647; this is 3000000000."
    {:magnetar/reason :magnetar/bad-size :size 3000000000}

    (chan {:buffer :sliding})
    "A channel's :size is a whole number from 1 up; this is nil."
    {:magnetar/reason :magnetar/bad-size :buffer :sliding}

    (channel/take :nope)
    "`take` wants a channel of Magnetar; this is :nope of clojure.lang.Keyword. Make one with magnetar.channel/chan."
    {:magnetar/reason :magnetar/not-a-channel :operation "take" :value :nope}

    (put nil 1)
    "`put` wants a channel of Magnetar; this is nil. Make one with magnetar.channel/chan."
    {:magnetar/reason :magnetar/not-a-channel :operation "put" :value nil}

    (closed? 1)
    "`closed?` wants a channel of Magnetar; this is 1 of java.lang.Long. Make one with magnetar.channel/chan."
    {:magnetar/reason :magnetar/not-a-channel :operation "closed?" :value 1}

    (select [])
    "`select` needs at least one channel or [channel value] pair."
    {:magnetar/reason :magnetar/no-clauses :clauses []}

    (select [(chan) :nope])
    "`select` wants channels and [channel value] pairs; this is :nope."
    {:magnetar/reason :magnetar/not-a-channel :clause :nope}

    (channel/take (chan) {:deadline 5})
    "A :deadline is a java.time.Instant; this is 5. For a duration use :timeout."
    {:magnetar/reason :magnetar/bad-deadline :deadline 5}))

(deftest misuse-that-names-a-channel-carries-it
  (let [ch (chan)]
    (is (= [true "nil cannot be put on a channel, since it means closed: put a keyword instead."
            {:magnetar/reason :magnetar/nil-value :channel ch}]
           (misuse-of #(put ch nil))
           (misuse-of #(select [[ch nil]] {:timeout 0}))))))

(deftest select-says-what-it-was-given
  (let [ch (chan)]
    (is (re-find #"wants channels and \[channel value\] pairs; this is \[#<Channel" (second (misuse-of #(select [[ch]] {:timeout 0})))))
    (is (re-find #"wants a collection of channels .*; this is 5\." (second (misuse-of #(select 5)))))))

(deftest a-transducer-needs-a-buffer
  (let [xform (map inc)]
    (is (= [true "A channel with an :xform needs a :size, since a value may become many."
            {:magnetar/reason :magnetar/no-buffer :xform xform}]
           (misuse-of #(chan {:xform xform}))))))

(deftest a-timeout-that-is-no-duration-is-refused
  (let [[iae? message data] (misuse-of #(channel/take (chan) {:timeout "soon"}))]
    (is (= [true {:magnetar/reason :magnetar/bad-duration :timeout "soon" :path [:timeout] :value "soon"}] [iae? data]))
    (is (re-find #"^`magnetar.channel/take`: :timeout is a number of milliseconds .+\"?soon\"?" message) message))
  (is (= :magnetar/bad-duration (:magnetar/reason (last (misuse-of #(put (chan) 1 {:timeout ##NaN})))))))

(deftest a-buffer-that-is-none-is-refused
  (let [[iae? message data] (misuse-of #(a/chan :many))]
    (is iae?)
    (is (= (str "A channel takes a number, a buffer or nil; this is :many of clojure.lang.Keyword. "
                "Make one with (buffer n), (dropping-buffer n) or (sliding-buffer n).")
           message))
    (is (= {:magnetar/reason :magnetar/not-a-buffer :buffer :many} data))))

(deftest a-mistyped-option-is-refused-and-not-ignored
  (doseq [[operation call] {"take" #(channel/take (channel/chan) {:timeuot 5})
                            "chan" #(channel/chan {:bufer 1})
                            "select" #(channel/select [(channel/chan)] {:priorty true})}]
    (is (thrown-with-msg? IllegalArgumentException
          (re-pattern (str "`magnetar.channel/" operation "` does not know :[a-z]+; its options are "))
          (call)))))

(deftest options-that-are-no-map-are-refused
  (doseq [call [#(channel/chan 3) #(channel/put (channel/chan) 1 100) #(channel/chan {:size 3 :buffer :promise})]]
    (is (thrown? IllegalArgumentException (call)))))
