(ns magnetar.async-ops-test
  "The operations of magnetar.async: alts in every shape, plumbing, one to many, the deprecated names."
  (:require
   [clojure.core.async]
   [clojure.datafy :refer [datafy]]
   [clojure.test :refer [deftest is testing]]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.impl.ports :as ports]
   [magnetar.support :refer [drained eventually message-of taken value-of waiting-putters waiting-takers with-failures]])
  (:import
   (magnetar.kernel.channel Port WritePort)))

(set! *warn-on-reflection* true)

(defn- holding
  "A channel that holds the values."
  [& values]
  (let [c (a/chan (max 1 (count values)))]
    (run! #(a/>!! c %) values)
    c))

;; ---- the names

(defn- contract [ns-sym]
  (into {} (for [[n v] (ns-publics ns-sym)] [n (:arglists (meta v))])))

(deftest the-names-and-argument-lists-are-those-of-core-async
  (is (= 88 (count (contract 'magnetar.async))))
  (is (= (contract 'clojure.core.async) (contract 'magnetar.async))))

(deftest parking-and-blocking-names-are-one-function
  (is (= [a/<!! a/>!! a/alts!!] [a/<! a/>! a/alts!])))

;; ---- alts and alt

(deftest ports-may-come-in-any-collection
  (doseq [ports [vector list hash-set #(lazy-seq [%]) (comp seq vector)]]
    (let [c (holding 1)]
      (is (= [1 c] (a/alts!! (ports c)))))))

(deftest options-may-be-pairs-or-a-map
  (let [c (a/chan)]
    (is (= [:d :default] (a/alts!! [c] :default :d)))
    (is (= [:d :default] (a/alts!! [c] {:default :d})))
    (is (= [nil :default] (a/alts!! [c] :default nil)))
    (is (= [false :default] (a/alts!! [c] :default false :priority true)))))

(deftest a-default-is-not-used-when-something-is-ready
  (let [c (holding 1)]
    (is (= [1 c] (a/alts!! [(a/chan) c] :default :d)))
    (is (= [nil c] (a/alts!! [(doto c a/close!)] :default :d)))))

(deftest puts-and-takes-mix
  (let [in (a/chan)
        out (a/chan 1)]
    (is (= [true out] (a/alts!! [in [out :x]])))
    (is (= :x (taken out)))
    (is (= [false out] (a/alts!! [in [(doto out a/close!) :x]])))))

(deftest misuse-of-alts-is-of-the-class-that-core-async-throws
  (is (thrown-with-msg? AssertionError #"alts must have at least one channel operation\n\(pos\? \(count ports\)\)" (a/alts!! [])))
  (is (thrown-with-msg? AssertionError #"can't put nil on channel\n\(some\? \(port 1\)\)" (a/alts!! [[(a/chan) nil]])))
  (is (thrown-with-msg? IllegalArgumentException
                        #"^A take wants a channel, or another port to take from; this is :nope of clojure.lang.Keyword. Make one with \(chan\)\.$"
                        (a/alts!! [:nope])))
  (is (thrown-with-msg? AssertionError #"unbalanced clauses" (a/do-alt `a/alts!! '[c]))))

(deftest alt-gives-the-value-of-the-expression-beside-the-operation
  (let [c (holding 1)
        d (a/chan 1)]
    (is (= [1 true] (a/alt!! c ([v port] [v (= port c)]))))
    (is (= :written (a/alt!! [[d :x]] :written)))
    (is (= :x (a/alt!! [c d] ([v] v))))
    (is (= :none (a/alt!! c :value :default :none)))
    (is (= :first (a/alt!! [[d :x]] :first (a/timeout 0) :second :priority true)))
    (is (= [:in 2] (taken (a/go (let [c (holding 2)] (a/alt! c ([v] [:in v])))))))))

(deftest alt-evaluates-each-port-and-value-once
  (let [n (atom 0)]
    (a/alt!! [[(do (swap! n inc) (a/chan 1)) (swap! n inc)]] :ok)
    (is (= 2 @n))))

(deftest do-alts-answers-now-or-calls-back-later
  (let [c (holding 1)
        later (promise)]
    (is (= [1 c] @(a/do-alts (fn [_] (throw (ex-info "not called" {}))) [c] {})))
    (is (nil? (a/do-alts #(deliver later %) [c (a/chan)] {})))
    (a/>!! c 2)
    (is (= [2 c] (value-of later)))
    (is (= [:d :default] @(a/do-alts identity [c] {:default :d})))))

(deftest ioc-alts-refuses-with-the-remedy
  (is (thrown-with-msg? UnsupportedOperationException #"Call alts! instead\." (a/ioc-alts! nil nil []))))

(a/defblockingop blocking-echo "Gives its argument back." [x] x)

(deftest defblockingop-defines-a-function
  (is (= 1 (blocking-echo 1)))
  (is (= "Gives its argument back." (:doc (meta #'blocking-echo)))))

;; ---- callbacks, datafy

(deftest put!-and-offer!-tell-what-happened
  (let [c (a/chan 1)]
    (is (= [true true nil] [(a/put! c 1) (a/put! c 2) (a/offer! c 3)]))
    (is (= [1 2 nil] [(a/poll! c) (a/poll! c) (a/poll! c)]))
    (a/close! c)
    (is (= [false false nil] [(a/put! c 1) (a/offer! c 1) (a/poll! c)]))))

(deftest datafy-shows-the-state-with-the-channel-in-its-metadata
  (let [c (holding 1 2)]
    (a/put! c 3)
    (is (= {:put-count 1 :take-count 0 :closed? false :buffer {:type 'FixedBuffer :count 2 :capacity 2}} (datafy c)))
    (is (= c (:clojure.datafy/obj (meta (datafy c)))))
    (is (= {:type 'FixedBuffer :count 0 :capacity 1} (:buffer (datafy (a/chan 1)))) "one value is kept in another class")
    (is (= ['DroppingBuffer 'SlidingBuffer 'PromiseBuffer]
           (map #(get-in (datafy %) [:buffer :type]) [(a/chan (a/dropping-buffer 1)) (a/chan (a/sliding-buffer 1)) (a/promise-chan)])))))

;; ---- plumbing

(deftest pipe-closes-its-target-unless-told-not-to
  (is (= [1 2] (drained (a/pipe (a/to-chan! [1 2]) (a/chan)))))
  (let [to (a/chan 5)
        from (a/to-chan! [1])]
    (a/pipe from to false)
    (is (= 1 (taken to)))
    (is (eventually (channel/closed? from)))
    (is (= true (a/put! to 2)))))

(deftest pipelines-keep-the-order
  (doseq [pipeline [a/pipeline a/pipeline-blocking]]
    (let [to (a/chan 10)]
      (pipeline 8 to (comp (map inc) (mapcat #(repeat (mod % 3) %))) (a/to-chan! (range 200)))
      (is (= (mapcat #(repeat (mod (inc %) 3) (inc %)) (range 200)) (drained to)))))
  (let [to (a/chan 10)]
    (a/pipeline-async 8 to (fn [x c] (a/go (when (odd? x) (a/<! (a/timeout 1))) (a/>! c x) (a/close! c))) (a/to-chan! (range 100)))
    (is (= (range 100) (drained to)))))

(deftest pipelines-work-n-at-a-time
  (let [gate (promise)
        working (atom 0)
        to (a/chan 10)]
    (a/pipeline-blocking 3 to (map (fn [x] (swap! working inc) @gate x)) (a/to-chan! (range 10)))
    (is (eventually (= 3 @working)))
    (deliver gate :open)
    (is (= (range 10) (drained to)))))

(deftest pipelines-obey-close?-and-the-handler
  (let [to (a/chan 10)
        done (a/pipeline 2 to (map #(/ 6 %)) (a/to-chan! [1 0 2]) false ex-message)]
    (is (nil? (taken done)))
    (is (= [6 "Divide by zero" 3] (repeatedly 3 #(taken to))))
    (is (not (channel/closed? to))))
  (is (thrown-with-msg? AssertionError #"\(pos\? n\)" (a/pipeline 0 (a/chan) (map inc) (a/chan)))))

(deftest split-sends-each-value-one-way
  (is (= [[1 3] [2 4]] (mapv drained (a/split odd? (a/to-chan! [1 2 3 4]) 5 5)))))

(deftest merge-take-and-map-over-channels
  (is (= [1 2 3 4] (sort (drained (a/merge [(a/to-chan! [1 2]) (a/to-chan! [3 4])])))))
  (is (= [[] []] [(drained (a/merge [])) (drained (a/map + []))]))
  (is (= [11 22] (drained (a/map + [(a/to-chan! [1 2 3]) (a/to-chan! [10 20])]))))
  (let [c (a/to-chan! (range 5))]
    (is (= [[0 1] 2] [(drained (a/take 2 c)) (taken c)]))))

(deftest reduce-transduce-and-into
  (is (= 6 (taken (a/reduce + 0 (a/to-chan! [1 2 3])))))
  (is (= [:r 3] (taken (a/reduce #(if (= 3 %2) (reduced [:r %1]) (+ (long %1) (long %2))) 0 (a/to-chan! (range 10))))))
  (is (= [[1 2] [3]] (taken (a/transduce (partition-all 2) conj [] (a/to-chan! [1 2 3])))))
  (is (= #{1 2} (taken (a/into #{} (a/to-chan! [1 2 1]))))))

(deftest collections-onto-channels
  (doseq [to-chan [a/to-chan! a/to-chan!! a/to-chan]]
    (is (= [[1 2 3] []] [(drained (to-chan [1 2 3])) (drained (to-chan []))])))
  (doseq [onto [a/onto-chan! a/onto-chan!! a/onto-chan]]
    (let [c (a/chan 5)]
      (is (nil? (taken (onto c [1 2] false))))
      (is (= [1 2] [(taken c) (taken c)]))
      (is (nil? (taken (onto c [3]))))
      (is (= [3] (drained c)))
      (is (nil? (taken (onto c (range)))) "a closed target ends it"))))

(deftest map-takes-from-all-sources-at-once
  (let [[x y] (repeatedly a/chan)
        out (a/map vector [x y])]
    (is (= [true true] [(value-of (future (a/>!! y 2))) (value-of (future (a/>!! x 1)))]))
    (is (= [1 2] (taken out)))))

(deftest map-and-merge-go-on-when-nobody-listens
  (doseq [start [#(a/map identity [%1] %2) #(a/merge [%1] %2)]]
    (let [from (a/chan)
          out (start from 1)]
      (a/close! out)
      (is (= [true true true] (value-of (future (mapv #(a/>!! from %) [1 2 3]))))))))

;; ---- one to many, many to one

(deftest what-makes-a-mult-a-mix-or-a-pub-satisfies-its-protocol
  (is (every? true? (for [[protocol x] [[a/Mult (a/mult (a/chan))] [a/Mix (a/mix (a/chan))] [a/Pub (a/pub (a/chan) odd?)]]]
                      (and (satisfies? protocol x) (satisfies? a/Mux x))))))

(deftest a-program-may-make-its-own-mult
  (let [tapped (atom [])
        m (reify a/Mult
            (tap* [_ ch close?] (swap! tapped conj [ch close?]))
            (untap* [_ ch] (swap! tapped (partial filterv #(not= ch (first %)))))
            (untap-all* [_] (reset! tapped [])))
        c (a/chan)]
    (is (= c (a/tap m c false)))
    (is (= [[c false]] @tapped))
    (a/untap m c)
    (is (= [] @tapped))))

(deftest mult-gives-every-tap-every-value
  (let [c (a/chan)
        m (a/mult c)
        x (a/tap m (a/chan 5))
        y (a/tap m (a/chan 5) false)]
    (is (= c (a/muxch* m)))
    (a/>!! c 1)
    (is (= [1 1] [(taken x) (taken y)]))
    (a/close! x)
    (is (= [true true] [(a/>!! c 2) (a/>!! c 3)]))
    (is (= [2 3] [(taken y) (taken y)]))
    (a/close! c)
    (is (= true (value-of (future (a/>!! y 4)))) "told not to close")))

(defn- keeping-port
  "A port that keeps each value in `kept`, and answers later, even if the value was only offered."
  [kept]
  (reify
    WritePort
    (put [_ value handler]
      (swap! kept conj value)
      (future (some-> (ports/commit handler) (ports/complete true)))
      Port/PENDING)
    Port
    (close [_])
    (isClosed [_] false)))

(deftest mult-gives-a-port-of-the-program-each-value-once
  (let [kept (atom [])
        c (a/chan)
        m (a/mult c)]
    (a/tap m (keeping-port kept))
    (is (= [true true true] (mapv #(value-of (future (a/>!! c %))) [1 2 3])))
    (is (eventually (= [1 2 3] @kept)))))

(deftest pub-gives-each-topic-its-values
  (let [c (a/chan)
        p (a/pub c :topic)
        x (a/sub p :a (a/chan 5))
        n (a/sub p nil (a/chan 5))]
    (is (= c (a/muxch* p)))
    (run! #(a/>!! c %) [{:topic :a :n 1} {:topic :b} {:n 2} {:topic :a :n 3}])
    (is (= [1 3] [(:n (taken x)) (:n (taken x))]))
    (is (= [nil nil] [(a/unsub p :a x) (a/unsub p :nobody x)]))
    (a/>!! c {:topic :a :n 4})
    (a/close! c)
    (is (= [2] (map :n (drained n))))
    (is (nil? (a/poll! x)))
    (is (not (channel/closed? x)))))

(deftest pub-takes-buffers-of-topics
  (let [c (a/chan)
        p (a/pub c odd? (fn [_] (a/sliding-buffer 1)))
        x (a/sub p true (a/chan))]
    (is (= [true true true] (mapv #(value-of (future (a/>!! c %))) [1 3 5])) "the slow subscriber blocks nobody")
    (is (eventually (= 1 (waiting-putters x))))
    (is (= 1 (taken x)))))

(deftest mix-obeys-mute-pause-and-solo
  (let [out (a/chan 10)
        m (a/mix out)
        [c d] (repeatedly a/chan)]
    (is (= out (a/muxch* m)))
    (is (true? (a/admix m c)))
    (is (true? (a/toggle m {d {:mute true}})))
    (is (eventually (= [1 1] [(waiting-takers c) (waiting-takers d)])))
    (a/>!! d :dropped)
    (a/>!! c :heard)
    (is (= :heard (taken out)))
    (testing "paused inputs are not taken"
      (a/toggle m {d {:mute false :pause true}})
      (is (eventually (zero? (waiting-takers d))))
      (is (nil? (a/offer! d :x))))
    (testing "solo silences the others, as the mode says"
      (is (thrown-with-msg? AssertionError #"mode must be one of" (a/solo-mode m :bogus)))
      (a/solo-mode m :pause)
      (a/toggle m {d {:pause false :solo true}})
      (is (eventually (= [0 1] [(waiting-takers c) (waiting-takers d)])))
      (a/>!! d :solo)
      (is (= :solo (taken out))))
    (testing "inputs leave"
      (a/unmix m d)
      (is (eventually (= [1 0] [(waiting-takers c) (waiting-takers d)])))
      (a/unmix-all m)
      (is (eventually (= [0 0] [(waiting-takers c) (waiting-takers d)]))))
    (is (not (channel/closed? out)))))

;; ---- deprecated

(deftest map<-is-a-port-that-transforms-what-is-taken
  (let [port (a/map< inc (holding 1 2))]
    (is (= [2 [3 port]] [(a/<!! port) (a/alts!! [port])]))
    (is (= [:none :default] (a/alts!! [port] :default :none)))
    (a/close! port)
    (is (nil? (a/<!! port))))
  (let [c (a/chan)
        waits (future (a/<!! (a/map< inc c)))]
    (is (eventually (= 1 (waiting-takers c))))
    (a/>!! c 1)
    (is (= 2 (value-of waits)))))

(deftest deprecated-ends-of-channels-transform-what-passes
  (let [through (fn [end] (let [out (a/chan 20)] (a/onto-chan! (end out) [1 2 3 4]) (drained out)))]
    (is (= [2 3 4 5] (through #(a/map> inc %))))
    (is (= [2 4] (through #(a/filter> even? %))))
    (is (= [1 3] (through #(a/remove> even? %))))
    (is (= [1 1 2 2 3 3 4 4] (through #(a/mapcat> (fn [x] [x x]) %))))))

(deftest deprecated-sources-transform-what-passes
  (let [source #(a/to-chan! [1 2 2 3])]
    (is (= [2 2] (drained (a/filter< even? (source)))))
    (is (= [1 3] (drained (a/remove< even? (source)))))
    (is (= [1 1 2 2 2 2 3 3] (drained (a/mapcat< (fn [x] [x x]) (source)))))
    (is (= [1 2 3] (drained (a/unique (source)))))
    (is (= [[1 2] [2 3]] (drained (a/partition 2 (source)))))
    (is (= [[1] [2 2] [3]] (drained (a/partition-by odd? (source)))))))

;; ---- repairs

(deftest a-pipeline-from-what-is-no-port-is-refused-at-once
  (is (thrown? IllegalArgumentException (a/pipeline 1 (a/chan) (map inc) nil)))
  (is (thrown? IllegalArgumentException (a/pipeline-async 1 nil (fn [_ ch] (a/close! ch)) (a/chan)))))

(deftest a-tap-that-takes-no-more-callbacks-is-removed-and-the-others-go-on
  (let [in (a/chan) m (a/mult in) full (a/chan) well (a/chan 5)]
    (dotimes [i 1024] (a/put! full i))
    (a/tap m full)
    (a/tap m well)
    (with-failures [failures]
      (a/put! in :x)
      (a/put! in :y)
      (is (= [:x :y] [(a/<!! well) (a/<!! well)]))
      (is (re-find #"No more than 1024 pending puts" (message-of (first @failures)))))))

(deftest unsub-all-frees-a-publication-that-a-subscriber-holds-up
  (let [in (a/chan) p (a/pub in :topic) stuck (a/chan) well (a/chan 5)]
    (a/sub p :a stuck)
    (a/>!! in {:topic :a})
    (a/put! in {:topic :a})
    (a/unsub-all p)
    (a/sub p :b well)
    (a/put! in {:topic :b})
    (is (= {:topic :b} (a/<!! well)))))
