(ns magnetar.fold-test
  "Folds and pmaps: the answer of the reduction in order, over every kind of collection; failures, cancellation, misuse."
  (:require
   [clojure.core.reducers :as r]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [clojure.test.check :as tc]
   [clojure.test.check.generators :as gen]
   [clojure.test.check.properties :as prop]
   [magnetar.async :as a]
   [magnetar.fold :as fold]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope :refer [with-scope]]
   [magnetar.scope.context :refer [defcontext with-context]]
   [magnetar.support :refer [eventually start-thread value-of]])
  (:import
   (java.io File)
   (java.util ArrayList HashMap LinkedList TreeMap)
   (java.util.concurrent CountDownLatch)
   (java.util.concurrent.atomic AtomicInteger)
   (java.util.stream IntStream)))

(set! *warn-on-reflection* true)

(def ^:dynamic *dynamic* :root)
(defcontext user)

(defn- fibers-named [part]
  (filter #(str/includes? (:name %) part) (inspect/fibers)))

(defn- nothing-left? []
  (eventually (empty? (fibers-named "fold_test"))))

(defn- failure [f]
  (try (f) (catch Exception e e)))

(defn- data [f]
  (dissoc (ex-data (failure f)) :site))

(defn- refused [f]
  (let [e (failure f)]
    (is (instance? IllegalArgumentException e))
    [(:magnetar/reason (ex-data e)) (ex-message e)]))

(defn- refused-with [reason pattern f]
  (let [[actual message] (refused f)]
    (is (= reason actual))
    (is (re-find pattern message))))

(defn- reducible
  "A thing that can be reduced, and nothing else."
  [coll]
  (reify clojure.lang.IReduceInit
    (reduce [_ f init] (reduce f init coll))))

(defn- file-of ^File [text]
  (doto (File/createTempFile "lines" ".txt")
    (.deleteOnExit)
    (spit text)))

;; ---- the answer is the answer of the reduction in order

(def ^:private shapes
  {:vector vec
   :subvec #(subvec (into [:x] %) 1)
   :seq #(map identity %)
   :list #(apply list %)
   :array object-array
   :array-list #(ArrayList. ^java.util.Collection %)
   :linked-list #(LinkedList. ^java.util.Collection %)
   :iterator #(.iterator ^Iterable (vec %))
   :spliterator #(.spliterator ^Iterable (vec %))
   :stream #(.stream ^java.util.Collection (vec %))
   :eduction #(eduction (map identity) %)
   :stateful-eduction #(eduction (drop 1) (cons :x %))
   :r-map #(r/map identity (vec %))
   :reducer #(r/take 100000 %)
   :reducible reducible
   :channel a/to-chan!})

(def ^:private xforms
  {:none identity
   :map (map inc)
   :filter (filter even?)
   :both (comp (filter even?) (map inc))
   :cat (mapcat #(range (mod % 4)))
   :keep (keep #(when (odd? %) %))
   :take-while (take-while #(< % 900))
   :take (take 50)
   :drop (comp (map inc) (drop 30))
   :dedupe (comp (map #(quot % 3)) (dedupe))
   :partition (comp (partition-by #(quot % 10)) (map count))
   :partition-all (comp (partition-all 7) (map count))
   :indexed (map-indexed +)
   :distinct (comp (map #(mod % 100)) (distinct))
   :interpose (interpose 0)
   :halt (comp (halt-when #(= 999999 %)) (map inc))})

(def ^:private answers-as-in-order
  (prop/for-all [coll (gen/vector gen/small-integer 0 300)
                 repeats (gen/elements [1 20])
                 shape (gen/elements (keys shapes))
                 xform (gen/elements (keys xforms))
                 options (gen/elements [{} {:chunk 1} {:chunk 7} {:parallelism 1} {:parallelism 5 :chunk 3}])]
    (let [coll (vec (mapcat (fn [i] (map #(+ i %) coll)) (range repeats)))]
      (= (transduce (xforms xform) conj [] coll)
         (fold/transduce (xforms xform) into conj ((shapes shape) coll) options)))))

(deftest ^{:limit 180000 :spec ["C51"]} transduce-answers-as-the-reduction-in-order
  (let [{:keys [pass?] :as outcome} (tc/quick-check 300 answers-as-in-order)]
    (is pass? (str (:shrunk outcome)))))

(deftest ^{:spec ["C51"]} every-transducer-over-every-shape
  (let [coll (vec (range 2000))]
    (doseq [[shape of] shapes, [name xform] xforms]
      (is (= (transduce xform conj [] coll) (fold/transduce xform into conj (of coll))) (str shape " " name)))))

(deftest ^{:spec ["C51"]} fold-has-the-arities-and-pipelines-of-reducers
  (let [v (vec (range 5000))]
    (is (= 12497500 (fold/fold + v) (fold/fold + + v) (fold/fold 100 + + v) (apply fold/fold* [+ v])))
    (is (= (r/fold + (r/map inc (r/filter even? v))) (fold/fold + (r/map inc (r/filter even? v)))))
    (is (= (r/fold + (r/mapcat range (r/remove even? (vec (range 100))))) (fold/fold + (r/mapcat range (r/remove even? (vec (range 100)))))))
    (is (= (range 1 5001) (fold/fold (r/monoid into vector) conj (fold/map inc v))))
    (is (= (filter even? v) (fold/fold into conj (fold/filter even? v))))
    (is (= [0 0 [] ""] [(fold/fold + nil) (fold/fold + []) (fold/fold into conj #{}) (fold/fold str "")]))))

(deftest maps-sets-ranges-strings-and-arrays
  (let [m (zipmap (range 3000) (range 1 3001))]
    (is (= (reduce + (vals m)) (fold/fold + (fn [acc _ v] (+ acc v)) m) (fold/fold + (fn [acc _ v] (+ acc v)) (HashMap. ^java.util.Map m))))
    (is (= (reduce + (vals m)) (fold/fold + (r/map (fn [_ v] v) m)) (fold/transduce (map val) + m) (fold/fold + (fold/map val m))))
    (is (= (seq m) (fold/transduce (map identity) into conj m)))
    (is (= (vec (TreeMap. ^java.util.Map m)) (fold/transduce (map identity) into conj (TreeMap. ^java.util.Map m)))))
  (is (= 4950 (fold/fold + (set (range 100))) (fold/fold + (range 100)) (fold/fold + (range 99 -1 -1)) (fold/fold + (IntStream/range 0 100))))
  (is (= [10 7 4 1] (fold/transduce (map identity) into conj (range 10 0 -3))))
  (is (= 4950.0 (fold/fold + (double-array (range 100))) (fold/fold + (range 0.0 100.0)) (fold/fold + (float-array (range 100)))))
  (is (= 4950 (fold/fold + (long-array (range 100))) (fold/fold + (int-array (range 100))) (fold/fold + (byte-array (range 100)))
         (fold/fold + (short-array (range 100))) (fold/fold + (vec (long-array (range 100)))) (fold/fold + (apply vector-of :int (range 100)))))
  (is (= "hello" (fold/fold str "hello") (fold/fold str (char-array "hello")))))

(deftype Own [coll]
  r/CollFold
  (coll-fold [_ n combinef reducef] (combinef [:own n] (reduce reducef (combinef) coll))))

(deftest a-collection-that-folds-itself-does
  (is (= [:own 512 1 2] (fold/fold into conj (Own. [1 2]))))
  (is (= [:own 3 2 3] (fold/transduce (map inc) into conj (Own. [1 2]) {:chunk 3}))))

(deftest nothing-of-the-order-is-lost-when-chunks-take-their-time
  (is (= (range 200) (fold/transduce (map #(do (when (zero? (mod % 7)) (scope/sleep 2)) %)) into conj (range 200)
                                     {:parallelism 8 :chunk 1}))))

(deftest ^{:spec ["C51"]} the-same-collection-is-grouped-in-the-same-way
  (let [grouping #(fold/fold (fn ([] ()) ([a b] (list a b))) (fn [acc x] (if (= () acc) x acc)) %)]
    (is (= 1 (count (set (repeatedly 20 #(grouping (vec (range 1000))))))))
    (is (= 1 (count (set (repeatedly 20 #(grouping (map identity (range 1000))))))))))

;; ---- reduced

(deftest ^{:spec ["C52"]} reduced-ends-the-fold-where-it-ends-the-reduction
  (is (= (range 500) (fold/transduce (take-while #(< % 500)) into conj (range))))
  (let [small #(fn ([] []) ([a b] (into a b)))
        until (fn [acc x] (if (= x 77) (reduced (conj acc :end)) (conj acc x)))]
    (is (= (conj (vec (range 77)) :end) (fold/fold (small) until (vec (range 10000)))))
    (is (= (conj (vec (range 77)) :end) (fold/fold 10 (small) until (map identity (range 10000)))))))

(deftest ^{:spec ["C52"]} reduced-interrupts-the-workers-that-are-beyond-it
  (let [parked (promise)]
    (is (= [0 :end] (fold/transduce (map identity) into
                                    (fn [acc x]
                                      (case (long x)
                                        0 (conj acc x)
                                        1 (do @parked (reduced (conj acc :end)))
                                        (do (deliver parked true) (scope/sleep 1000000))))
                                    (range 100)
                                    {:parallelism 2 :chunk 1}))))
  (is (nothing-left?)))

(deftest ^{:spec ["C52"]} a-failure-beyond-the-end-is-none
  (is (= [0] (fold/transduce (map identity) into
                             (fn [acc x] (if (zero? x) (do (scope/sleep 20) (reduced [0])) (throw (ex-info "beyond" {}))))
                             (range 100)
                             {:parallelism 2 :chunk 1}))))

;; ---- failures

(deftest ^{:spec ["C52"]} a-failure-says-where-it-was
  (let [work #(if (= 5000 %) (throw (ex-info "boom" {})) %)]
    (doseq [[shape of] (dissoc shapes :stateful-eduction)]
      (is (= {:magnetar/reason :magnetar/fold-failed :position 5000 :element 5000}
             (data #(fold/transduce (map work) + (of (range 10000))))) shape)))
  (let [e (failure #(fold/fold + (fold/map (fn [x] (/ 1 x)) (range 3 -3 -1))))]
    (is (re-matches #"The fold magnetar/fold_test.clj:\d+ failed at position 3, on 0: Divide by zero" (ex-message e)))
    (is (instance? ArithmeticException (ex-cause e))))
  (is (nothing-left?)))

(deftest ^{:spec ["C52"]} of-several-failures-the-first-in-the-order-of-the-collection-is-thrown
  (dotimes [_ 20]
    (is (= 100 (:position (data #(fold/transduce (map (fn [x] (if (<= 100 x) (throw (ex-info "boom" {})) x)))
                                                 + + (vec (range 1000)) {:parallelism 4 :chunk 5})))))))

(deftest a-collection-that-fails-and-a-combine-that-fails
  (is (= {:magnetar/reason :magnetar/source-failed :position 300}
         (data #(fold/fold + (reducible (eduction (map (fn [x] (if (= x 300) (throw (ex-info "read" {})) x))) (range 1000)))))))
  (is (= {:magnetar/reason :magnetar/combine-failed}
         (data #(fold/fold (fn ([] 0) ([_ _] (throw (ex-info "combine" {})))) + (range 1000))))))

;; ---- lines

(deftest lines-are-those-of-the-file
  (doseq [text ["" "a" "a\n" "a\nb" "\n\n" "ä\r\nö\n" (str/join "\n" (map #(str "line " %) (range 50000)))
                (str (str/join (repeat 200000 "x")) "\nshort\n" (str/join (repeat 70000 "y")))]]
    (let [file (file-of text)
          expected (with-open [reader (io/reader file)] (vec (line-seq reader)))]
      (is (= expected (fold/transduce (map identity) into conj (fold/lines file))))
      (is (= expected (fold/transduce (map identity) into conj (fold/lines (str file))
                                      {:chunk 1 :parallelism 3})))
      (is (= expected (into [] (fold/lines (.toPath file))) (fold/pmap identity (fold/lines file))))
      (is (= (take 2 expected) (fold/transduce (take 2) into conj (fold/lines file)))))))

(deftest the-position-of-a-line-is-its-number
  (let [file (file-of (str/join "\n" (map #(str "line " %) (range 50000))))]
    (is (= {:magnetar/reason :magnetar/fold-failed :position 33333 :element "line 33333"}
           (data #(fold/transduce (map (fn [line] (when (= "line 33333" line) (throw (ex-info "boom" {}))) 1)) + (fold/lines file)))))))

(deftest lines-of-what-is-no-file
  (is (thrown-with-msg? IllegalArgumentException #"`lines` cannot read /no/such: there is no such file" (fold/lines "/no/such")))
  (is (thrown-with-msg? IllegalArgumentException #"it is a folder" (fold/lines ".")))
  (is (thrown-with-msg? IllegalArgumentException #"finds newlines by their byte, 10, which UTF-16 does not have" (fold/lines (file-of "") "UTF-16")))
  (is (thrown-with-msg? IllegalArgumentException #"finds newlines by their byte, 10, which IBM1047 does not have" (fold/lines (file-of "") "IBM1047")))
  (is (thrown-with-msg? IllegalArgumentException #"wants a Charset or the name of one; this is \"NOPE\"" (fold/lines (file-of "") "NOPE")))
  (is (thrown-with-msg? IllegalArgumentException #"wants a Charset or the name of one; this is nil" (fold/lines (file-of "") nil)))
  (doseq [x [nil 5 :file]]
    (is (thrown-with-msg? IllegalArgumentException #"`lines` wants the name of a file, a File or a Path; this is" (fold/lines x)))))

(deftest lines-are-the-same-however-they-are-read
  (let [file (doto (file-of "")
               (as-> f (with-open [out (io/output-stream f)]
                         (.write out (byte-array (concat (.getBytes "a\rb\nc\r\n") [65 -1 66 10] (repeat 200000 120) [10 10] (.getBytes "end")))))))
        expected ["a\rb" "c" "A\uFFFDB" (str/join (repeat 200000 "x")) "" "end"]
        lines (fold/lines file)]
    (is (= expected
           (fold/fold into conj lines)
           (reduce conj [] lines)
           (fold/pmap identity lines)
           (fold/transduce (comp (drop 1) (map identity)) into conj (eduction cat [["-"] lines]))
           (fold/transduce (dedupe) into conj lines)))
    (is (= "c" (reduce (fn [_ line] (when (= "c" line) (reduced line))) nil lines)))))

(deftest lines-of-a-file-that-does-not-say-how-long-it-is
  (let [file (io/file "/proc/self/status")]
    (when (.exists file) ; Linux
      (is (= 1 (fold/transduce (comp (filter #(str/starts-with? % "Name:")) (map (constantly 1))) + (fold/lines file)))))))

;; ---- what workers see, and when they end

(deftest workers-see-bindings-and-context-of-the-caller
  (binding [*dynamic* :bound]
    (with-context [user "ada"]
      (let [seen (fn [_] [*dynamic* @user])]
        (is (= #{[:bound "ada"]}
               (set (fold/pmap seen (range 50)))
               (set (fold/transduce (map seen) into conj (range 50) {:parallelism 4}))
               (set (fold/transduce (map seen) into conj (reducible (range 50)) {:parallelism 4}))))))))

(deftest pmap-leaves-the-bindings-behind-if-it-is-told-to
  (binding [*dynamic* :bound]
    (is (= #{:bound} (set (fold/pmap (fn [_] *dynamic*) (range 5) {:bindings :frame}))))
    (is (not (contains? (set (fold/pmap (fn [_] *dynamic*) (range 5) {:bindings :none})) :bound)))
    (is (thrown-with-msg? IllegalArgumentException #"`fold/pmap` takes :bindings as :frame, .* or :none; this is 5"
                          (fold/pmap inc [1] {:bindings 5})))))

(deftest small-folds-start-no-fiber
  (let [thread (Thread/currentThread)]
    (is (some #{#{thread}} (repeatedly 1000 #(set (fold/transduce (map (fn [_] (Thread/currentThread))) into conj [1 2 3])))))))

(defn- cancelled-while
  "Cancels a scope once f, in a fork of it, has called the function it is given; returns what came of the fork."
  [f]
  (let [started (promise)]
    (with-scope [s {:joiner (assoc scope/all :step (fn [state _] state))}]
      (let [fork (scope/fork s f #(deliver started true))]
        (value-of started)
        (scope/cancel fork :enough)
        (try (scope/join fork) (catch Exception _))
        (:status (scope/result fork))))))

(deftest ^{:spec ["C54"]} cancelling-the-caller-ends-all-workers
  (let [forever (fn [started] (fn [_] (started) (scope/sleep 1000000)))]
    (is (= :cancelled (cancelled-while #(fold/pmap (forever %) (range 1000)))))
    (is (= :cancelled (cancelled-while #(fold/pfor-each (forever %) (range)))))
    (is (= :cancelled (cancelled-while #(fold/pmap (forever %) (reducible (range))))))
    (is (= :cancelled (cancelled-while #(fold/transduce (map (forever %)) + + (range 1000) {:parallelism 4}))))
    (is (= :cancelled (cancelled-while #(fold/fold + (fold/map (fn [x] (%) x) (range))))))
    (is (= :cancelled (cancelled-while #(let [ch (a/chan)] (%) (fold/fold + ch))))))
  (is (nothing-left?)))

(deftest ^{:spec ["C54"]} a-deadline-ends-a-fold
  (is (thrown-with-msg? Exception #"deadline" (with-scope [_ {:deadline 30}] (fold/fold + (fold/map identity (range))))))
  (is (nothing-left?)))

(deftest a-fold-that-computes-lets-others-run
  (let [ticks (AtomicInteger.)]
    (with-scope [s]
      (scope/daemon s #(loop [] (scope/sleep 1) (.incrementAndGet ticks) (recur)))
      (let [until (+ (System/nanoTime) 5000000000)]
        (fold/transduce (map (fn [x] (loop [] (when (< (System/nanoTime) (+ (long x) 300000)) (recur))) x))
                        (fn ([] 0) ([x] x) ([_ _] 0))
                        (fn [_ _] 0)
                        (eduction (map (fn [_] (System/nanoTime))) (take-while (fn [_] (and (<= (.get ticks) 50) (< (System/nanoTime) until)))) (range))
                        {:parallelism 8})))
    (is (< 50 (.get ticks)))))

;; ---- pmap

(deftest ^{:spec ["C53"]} pmap-and-its-kin
  (let [v (vec (range 3000))]
    (doseq [[shape of] shapes, options [{} {:parallelism 1} {:chunk 10} {:parallelism 3 :chunk 2000}]]
      (is (= (map inc v) (fold/pmap inc (of v) options)) (str shape options)))
    (is (= (map inc v) (sort (fold/pmap-unordered inc v))))
    (is (= #{nil false 1} (set (fold/pmap-unordered identity [1 nil false]))))
    (is (= (filter even? v) (fold/pkeep #(when (even? %) %) v)))
    (is (= (filter even? v) (fold/pkeep #(when (even? %) %) v {:lazy true})))
    (is (= [] (fold/pmap inc nil) (fold/pmap inc []) (fold/pmap-unordered inc #{})))
    (is (= (map inc v) (apply fold/pmap* [inc v])))
    (let [sum (AtomicInteger.)]
      (is (nil? (fold/pfor-each #(.addAndGet sum (int %)) v)))
      (is (= (reduce + v) (.get sum))))))

(deftest ^{:spec ["C53"]} unordered-values-come-when-they-are-ready
  (let [second-one (promise)
        ended? (fn [] (not (.isAlive ^Thread @second-one)))]
    (is (= [2 1] (fold/pmap-unordered #(if (= 1 %) (do (eventually (ended?)) 1) (do (deliver second-one (Thread/currentThread)) 2)) [1 2]
                                      {:parallelism 2})))))

(deftest ^{:spec ["C53"]} each-element-has-its-own-fiber-and-no-more-than-allowed-run-at-a-time
  (let [running (AtomicInteger.)
        most (AtomicInteger.)
        names (fold/pmap (fn [_]
                           (let [now (.incrementAndGet running)]
                             (.accumulateAndGet most now (reify java.util.function.IntBinaryOperator (applyAsInt [_ a b] (max a b))))
                             (scope/sleep 1)
                             (.decrementAndGet running)
                             [(.threadId (Thread/currentThread)) (.getName (Thread/currentThread))]))
                         (range 40)
                         {:parallelism 3})]
    (is (= 40 (count (set (map first names)))))
    (is (re-matches #"pmap magnetar/fold_test\.clj:\d+" (second (first names))))
    (is (<= 1 (.get most) 3))))

(deftest ^{:spec ["C53"]} all-calls-that-are-allowed-run-together
  (let [all-there (CountDownLatch. 100)]
    (is (= (range 100) (fold/pmap #(do (.countDown all-there) (.await all-there) %) (range 100)
                                  {:parallelism 100})))))

(deftest ^{:spec ["C53"]} a-failing-call-cancels-the-others
  (dotimes [_ 20]
    (is (= {:magnetar/reason :magnetar/element-failed :position 7 :element :seven}
           (data #(fold/pmap (fn [x] (if (= :seven x) (throw (ex-info "boom" {})) (scope/sleep 1000000)))
                             [0 1 2 3 4 5 6 :seven 8 9])))))
  (is (= {:magnetar/reason :magnetar/element-failed :position 7 :element 7}
         (data #(fold/pmap (fn [x] (if (= 7 x) (throw (ex-info "boom" {})) x)) (map identity (range 20))
                           {:chunk 5}))
         (data #(doall (fold/pmap (fn [x] (if (= 7 x) (throw (ex-info "boom" {})) x)) (range)
                                  {:lazy true :parallelism 2})))))
  (is (= {:magnetar/reason :magnetar/source-failed :position 3}
         (data #(fold/pmap identity (reducible (eduction (map (fn [x] (if (= x 3) (throw (ex-info "read" {})) x))) (range)))))))
  (is (nothing-left?)))

(deftest ^{:spec ["C53"]} a-lazy-pmap-works-when-it-is-looked-at
  (let [calls (AtomicInteger.)
        values (fold/pmap #(do (.incrementAndGet calls) %) (range) {:lazy true :parallelism 4})]
    (is (= 0 (.get calls)))
    (is (= (range 10) (take 10 values)))
    (is (= 12 (.get calls)))
    (is (= (range 100) (take 100 values)))
    (is (nothing-left?))))

(deftest ^{:spec ["C53"]} a-lazy-pmap-takes-what-a-pmap-takes
  (let [v (vec (range 300))]
    (doseq [[shape of] shapes]
      (is (= (map inc v) (fold/pmap inc (of v)) (fold/pmap inc (of v) {:lazy true :parallelism 4})) (str shape)))
    (is (= [1 1 3] (fold/pmap count (fold/lines (file-of "a\nb\nccc")) {:lazy true})))
    (is (= [] (fold/pmap inc nil {:lazy true}) (fold/pmap inc [] {:lazy true})))
    (is (= [600 900] (fold/pkeep #(when (#{600 900} %) %) (range 1000) {:lazy true :parallelism 2})))
    (refused-with :magnetar/not-foldable #"this is 5\." #(fold/pmap inc 5 {:lazy true}))))

(deftest ^{:spec ["C53"]} a-lazy-pmap-that-failed-says-so-each-time
  (doseq [pmap [#(fold/pmap %1 %2 {:lazy true :parallelism 1}) #(fold/pkeep %1 %2 {:lazy true :parallelism 1})]]
    (let [calls (AtomicInteger.)
          values (pmap #(do (.incrementAndGet calls) (/ 1 %)) [1 0])]
      (is (= 1 (first values)))
      (dotimes [_ 2]
        (is (= {:magnetar/reason :magnetar/element-failed :position 1 :element 0} (data #(doall values)))))
      (is (= 2 (.get calls)) "the call is not made again")))
  (testing "a cancelled look is no failure"
    (let [open (CountDownLatch. 1)
          values (fold/pmap #(do (.await open) %) [1 2] {:lazy true})]
      (failure #(with-scope [_ {:deadline 1}] (doall values)))
      (.countDown open)
      (is (= [1 2] values)))))

(deftest ^{:spec ["C53"]} a-lazy-pmap-sees-what-its-caller-sees
  (let [values (binding [*dynamic* :bound] (with-context [user "ada"] (fold/pmap (fn [_] [*dynamic* @user]) [1] {:lazy true})))]
    (is (= [[:bound "ada"]] (with-context [user "bob"] (doall values))))))

(deftest what-is-done-for-its-effect-is-not-lazy
  (refused-with :magnetar/unknown-option #"`fold/pfor-each` knows the options :bindings, :chunk, :parallelism; this is :lazy" #(fold/pfor-each inc [1] {:lazy true})))

(deftest a-pmap-in-a-pmap
  (is (= (for [x (range 20)] (map #(+ x %) (range 20)))
         (fold/pmap (fn [x] (fold/pmap #(+ x %) (range 20) {:parallelism 2})) (range 20) {:parallelism 2}))))

;; ---- misuse

(deftest ^{:spec ["C55"]} parallelism-and-chunk-are-whole-numbers-from-1-up
  (doseq [n [0 -1 1.5 "2"]]
    (refused-with :magnetar/bad-option #"`fold/pmap` wants a whole number from 1 up for :parallelism; this is"
                  #(fold/pmap inc [1] {:parallelism n}))
    (refused-with :magnetar/bad-option #"`fold/transduce` wants a whole number from 1 up for :chunk; this is"
                  #(fold/transduce (map inc) + + [1] {:chunk n})))
  (refused-with :magnetar/bad-option #"`fold/fold` wants .* for :chunk; this is 0\." #(fold/fold 0 + + [1]))
  (refused-with :magnetar/unknown-option #"`fold/pmap` knows the options :bindings, :chunk, :lazy, :parallelism; this is :n\."
                #(fold/pmap inc [1] {:n 1})))

(deftest ^{:spec ["C55"]} a-transducer-where-a-function-belongs
  (refused-with :magnetar/not-a-function #"`fold/fold` wants a reducing function of two arguments; this is a transducer\. A transducer goes first"
                #(fold/fold + (map inc) [1]))
  (refused-with :magnetar/not-a-function #"wants a combine function of two arguments; this is a transducer" #(fold/fold (map inc) [1]))
  (doseq [xform [(map inc) (comp (filter even?) (map inc)) cat (take 1) (mapcat range) (dedupe)]]
    (refused-with :magnetar/not-a-function #"`fold/pmap` wants a function of one argument; this is a transducer\." #(fold/pmap xform [1]))))

(deftest ^{:spec ["C55"]} a-function-where-a-transducer-belongs
  (refused-with :magnetar/not-a-transducer #"wants a transducer, such as \(map f\); this is clojure.core/inc, which fails on a reducing function"
                #(fold/transduce inc + [1]))
  (refused-with :magnetar/not-a-transducer #"wants a transducer, such as \(map f\); this is 5\." #(fold/transduce 5 + [1])))

(deftest a-function-of-the-wrong-number-of-arguments
  (refused-with :magnetar/not-a-function #"wants a reducing function of two arguments; this is .*, which does not take 2\."
                #(fold/fold + (fn [x] x) [1]))
  (refused-with :magnetar/not-a-function #"wants a function of one argument; this is 7\." #(fold/pmap 7 [1])))

(deftest ^{:spec ["C55"]} a-combine-function-without-identity
  (refused-with :magnetar/no-identity #"`fold/fold` starts each chunk with the value of the combine function without arguments, and clojure.core/max has none\."
                #(fold/fold max [1 2]))
  (refused-with :magnetar/no-identity #"has none" #(fold/fold (fn [a b] (+ a b)) + [1 2]))
  (refused-with :magnetar/not-associative #"cannot combine with conj.*Combine with into" #(fold/fold conj [1 2])))

(deftest ^{:spec ["C55"]} what-cannot-be-folded
  (refused-with :magnetar/not-foldable #"`fold/fold` wants a collection, .*; this is 5\." #(fold/fold + 5))
  (refused-with :magnetar/not-foldable #"this is :x\." #(fold/pmap inc :x)))

(deftest the-number-of-elements-of-a-chunk-is-not-nil
  (let [message "`fold/fold` wants a whole number from 1 up for :chunk; this is nil."]
    (is (= [:magnetar/bad-option message] (refused #(fold/fold nil + + [1])) (refused #(apply fold/fold* [nil + + [1]]))))))

(deftest no-more-fibers-than-can-be-counted
  (refused-with :magnetar/bad-option #"from 1 to 1000000 for :parallelism; this is 10000000000" #(fold/transduce (map inc) + + [1] {:parallelism 10000000000}))
  (refused-with :magnetar/bad-option #"from 1 to 1000000 for :parallelism; this is 10000000000" #(fold/pmap inc [1] {:parallelism 10000000000})))

(defn- sentinel
  "A transducer that adds :end."
  [rf]
  (fn ([] (rf)) ([acc] (rf (unreduced (rf acc :end)))) ([acc x] (rf acc x))))

(defn- counted
  "A transducer whose completion replaces the result."
  [rf]
  (fn ([] (rf)) ([acc] {:count (count (rf acc))}) ([acc x] (rf acc x))))

(deftest ^{:spec ["C51"]} what-a-transducer-does-at-the-end-counts
  (doseq [n [0 3 1000]
          [shape of] shapes
          xform [sentinel (comp sentinel (map str)) (comp (filter number?) sentinel) counted (comp counted (map inc))
                 (halt-when #{700}) (comp (map inc) (halt-when #{700} (fn [result x] [:halted x (count result)])))]]
    (is (= (transduce xform conj [] (range n))
           (fold/transduce xform into conj (of (vec (range n)))))
        (str shape n)))
  (is (= [1 2 3 :end] (fold/fold into conj (eduction sentinel [1 2 3]))))
  (is (= {:magnetar/reason :magnetar/fold-failed :position 2 :element 0}
         (data #(fold/transduce (comp counted (map (fn [x] (/ 1 x)))) into conj [1 1 0]))))
  (is (= 3 (fold/transduce (halt-when #{3}) into conj (reducible (range)))) "also of what has no end")
  (refused-with :magnetar/not-foldable #"this is 5\." #(fold/transduce counted into conj 5))
  (is (= :magnetar/deadline
         (:magnetar/reason (data #(with-scope [_ {:deadline 10}] (fold/transduce (halt-when neg?) (fn ([] 0) ([a _] a)) + (reducible (repeat 1)))))))))

(deftype Folded [v]
  r/CollFold
  (coll-fold [_ n combinef reducef] (r/fold n combinef reducef v)))

(deftest ^{:spec ["C54"]} a-collection-that-folds-itself-is-cancelled-too
  (let [calls (AtomicInteger.)
        slow (fn ([] 0) ([acc _] (.incrementAndGet calls) (Thread/sleep 1) acc))]
    (is (= 499500 (fold/fold + (Folded. (vec (range 1000))))))
    (is (= :magnetar/deadline (:magnetar/reason (data #(with-scope [_ {:deadline 20}] (fold/fold + slow (Folded. (vec (range 1000000)))))))))
    (is (< (.get calls) 1000000))
    (is (nothing-left?))))

(deftest an-interrupt-while-a-collection-is-read-is-an-interrupt
  (doseq [f [#(fold/fold + (a/chan)) #(fold/pmap inc (a/chan))]]
    (let [[^Thread thread outcome] (start-thread :platform f)]
      (is (eventually (magnetar.kernel.park.Parked/waitOf thread)))
      (.interrupt thread)
      (is (instance? InterruptedException (value-of outcome))))))

(deftest ^{:spec ["C51"]} state-is-found-wherever-it-is
  (let [stateful? (requiring-resolve 'magnetar.impl.fold.checks/stateful?)
        counter (atom 0)]
    (testing "what each use makes for itself"
      (doseq [xform [(take 1) (drop 1) (dedupe) (distinct) (partition-all 2) (partition-by odd?) (map-indexed vector) (keep-indexed vector)
                     (take-nth 2) (drop-while odd?) (interpose 0) (halt-when odd?) (comp (map inc) (take 1)) (comp (take 1) (map inc))
                     (fn [rf] (let [n (atom 0)] (fn ([acc] (rf acc)) ([acc x] (swap! n inc) (rf acc x)))))
                     (fn [rf] (let [state {:n (volatile! 0)}] (fn ([acc] (rf acc)) ([acc x] (rf acc (vswap! (:n state) + x))))))
                     (fn [rf] (let [seen (ArrayList.)] (fn ([acc] (rf acc)) ([acc x] (.add seen x) (rf acc x)))))]]
        (is (stateful? "test" xform))))
    (testing "not what they share"
      (doseq [xform [(map inc) (filter even?) (remove even?) cat (mapcat range) (keep identity) (take-while odd?) (replace {1 2})
                     (random-sample 0.5) identity (comp (map inc) (filter even?)) (map (memoize inc)) (map #(do (swap! counter inc) %))
                     (fn [rf] (let [n (+ 1000 (rand-int 9))] (fn ([acc] (rf acc)) ([acc x] (rf acc (+ n x))))))]]
        (is (not (stateful? "test" xform)))))))
