(ns magnetar.trace-test
  "Tracing of calls. The trees of calls are those of the article on debugging; from the tests of clojure.tools.trace come those of `trace-vars` by
  symbol, by var and of several, `trace-ns` of a symbol, quoted and in a var, `traced?`, `traceable?`, tracing twice, and a namespace with
  a value that is no function."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.impl.trace.calls :as calls]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.support :refer [refusal taken with-failures]]
   [magnetar.test :as mt]
   [magnetar.trace :as trace])
  (:import
   (java.io StringWriter)))

(set! *warn-on-reflection* true)

;; ---- a program

(declare isodd?)

(defn iseven? [n]
  (if (zero? (long n)) true (isodd? (dec (long n)))))

(defn isodd? [n]
  (if (zero? (long n)) false (iseven? (dec (long n)))))

(defn fib ^long [^long n]
  (if (< n 2) n (+ (fib (dec n)) (fib (- n 2)))))

(defn scaled ^double [^double x ^long by]
  (* x by))

(defn inverse [n]
  (/ 1 (long n)))

(defn identity-of [x] x)

(defn many
  ([] 0)
  ([_ & more] (bounded-count 1 more)))

(defn twice [f] (fn [x] (f (f x))))

(def ^:dynamic *rate* (fn [n] (* 2 (long n))))

(defprotocol Area
  (area [shape by]))

(extend-protocol Area
  Long
  (area [side by] (* (long side) (long side) (long by))))

(defmulti cost identity)

(def a-value 17)

(defmacro a-macro [x] x)

(def ^:private here (the-ns 'magnetar.trace-test))

(use-fixtures :each
  (fn [f]
    (binding [*ns* here]
      (try
        (f)
        (finally (trace/untrace-ns 'magnetar.trace-test))))))

(defn- lines-of
  "Calls f, with tracing turned on by the functions that `on` calls; the lines that it prints, without the name of the thread and the time of slow calls."
  [on f]
  (let [out (StringWriter.)]
    (binding [*out* out] (on))
    (f)
    (mapv #(str/replace % #"^\[[^\]]*\] | \(\d+ ms\)$" "") (str/split-lines (str out)))))

(defmacro ^:private lines
  "The lines that tracing of the vars prints while body runs."
  [vars & body]
  `(lines-of (fn [] (trace/trace-vars ~@vars)) (fn [] ~@body)))

(defn- events-of
  "Calls f with a sink; the events that it got."
  [f]
  (let [events (atom [])]
    (f #(swap! events conj %))
    @events))

;; ---- the tree

(deftest mutual-recursion-is-a-tree
  (is (= ["(magnetar.trace-test/iseven? 2)"
          "| (magnetar.trace-test/isodd? 1)"
          "| | (magnetar.trace-test/iseven? 0)"
          "| | => true"
          "| => true"
          "=> true"]
         (lines [iseven? isodd?] (iseven? 2)))))

(deftest primitive-hints-hold
  (is (= ["(magnetar.trace-test/fib 2)"
          "| (magnetar.trace-test/fib 1)" "| => 1"
          "| (magnetar.trace-test/fib 0)" "| => 0"
          "=> 1"]
         (lines [fib] (is (= 1 (fib 2))))))
  (is (= ["(magnetar.trace-test/scaled 2.0 3)" "=> 6.0"] (lines [scaled] (is (= 6.0 (scaled 2.0 3))))))
  (is (= [1 1 2] (map fib [1 2 3])) "also where they are called with objects"))

(deftest an-exit-by-an-exception-is-printed-and-the-exception-is-the-same
  (is (= ["(magnetar.trace-test/inverse 0)" "!! java.lang.ArithmeticException: Divide by zero"]
         (lines [inverse] (is (thrown? ArithmeticException (inverse 0))))))
  (let [error (ex-info "no" {:n 1})
        raise (fn [] (throw error))]
    (trace/trace-vars identity-of {:to identity})
    (is (identical? error (try ((twice identity-of) (raise)) (catch Exception e e)))))
  (testing "and the depth is what it was"
    (is (= ["(magnetar.trace-test/inverse 1)" "=> 1"] (lines [inverse] (inverse 1))))))

(defn- slow [n]
  (when (neg? n) (throw (ex-info "below" {})))
  (scope/sleep n)
  n)

(deftest slow-calls-tell-their-time
  (mt/with-virtual-clock
    (let [out (StringWriter.)]
      (binding [*out* out] (trace/trace-vars slow))
      (slow 12)
      (slow 0)
      (is (= ["=> 12 (12 ms)" "=> 0"]
             (take-nth 2 (rest (map #(str/replace % #"^\[[^\]]*\] " "") (str/split-lines (str out)))))))
      (is (= [nil 0 nil 12000000]
             (map :nanos (events-of (fn [to]
                                      (trace/trace-vars slow {:to to})
                                      (slow 0)
                                      (slow 12)))))))))

(deftest arguments-of-all-numbers-arrive
  (is (= ["(magnetar.trace-test/many)" "=> 0"] (lines [many] (many))))
  (is (= ["(magnetar.trace-test/many 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ..)" "=> 22"]
         (lines [many] (many 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22))))
  (is (= [:call :return] (map :event (events-of (fn [to] (trace/trace-vars many {:to to}) (apply many (range 30))))))))

(deftest what-has-no-end-is-cut-and-what-is-lazy-is-not-realized
  (let [touched (atom 0)
        lazy (map (fn [n] (swap! touched inc) n) (iterate inc 0))
        cycle-of (doto (object-array 1) (aset 0 nil))
        self (atom nil)]
    (aset ^objects cycle-of 0 cycle-of)
    (reset! self self)
    (is (= ["(magnetar.trace-test/identity-of ..)" "=> .."] (map #(str/replace % "(..)" "..") (lines [identity-of] (identity-of lazy)))))
    (is (= 0 @touched))
    (doseq [endless [(range) cycle-of self (apply str (repeat 10000 "x"))]]
      (is (every? #(< (count %) 300) (lines [identity-of] (identity-of endless)))))
    (is (str/ends-with? (first (lines [many] (apply many 1 lazy))) " ..)"))))

;; ---- across fibers

(defn- by-go [n]
  (a/<!! (a/go (isodd? n))))

(defn- by-fork [n]
  (with-scope [s] (scope/join (fork s isodd? n))))

(defn- by-process [n]
  (let [ch (channel/chan {:size 1})]
    (actor/spawn #(channel/put ch (isodd? n)))
    (taken ch)))

(deftest the-depth-crosses-go-blocks-forks-and-processes
  (doseq [[f sym] [[#'by-go 'by-go] [#'by-fork 'by-fork] [#'by-process 'by-process]]]
    (let [events (events-of (fn [to]
                              (trace/trace-vars* [f #'isodd?] {:to to})
                              (f 0)
                              (trace/untrace-vars* [f #'isodd?])))]
      (is (= [[:call (symbol "magnetar.trace-test" (str sym)) 0] [:call `isodd? 1] [:return `isodd? 1] [:return (symbol "magnetar.trace-test" (str sym)) 0]]
             (map (juxt :event :function :depth) events)))
      (is (= 2 (count (set (map :by events)))) "and each has the name of what did it")
      (is (= [2 2] (vals (frequencies (map :call events))))))))

(deftest lines-of-many-fibers-do-not-mix
  (let [out (StringWriter.)]
    (binding [*out* out] (trace/trace-vars identity-of))
    (with-scope [s]
      (dotimes [n 200] (fork s identity-of {:order n :text "a\nb"})))
    (let [printed (str/split-lines (str out))]
      (is (= 400 (count printed)))
      (is (every? #(re-matches #"\[[^\]]+\] (\(magnetar.trace-test/identity-of \{.*\}\)|=> \{.*\}( \(\d+ ms\))?)" %) printed)))))

;; ---- what can be traced

(deftest functions-of-protocols-and-dynamic-vars
  (is (= ["(magnetar.trace-test/area 2 3)" "=> 12"] (lines [area] (area 2 3))))
  (testing "also after a further type has come"
    (trace/trace-vars area {:to identity})
    (extend-protocol Area String (area [s by] [s by]))
    (is (trace/traced? `area))
    (is (= [:call :return] (map :event (events-of (fn [to] (trace/trace-vars area {:to to}) (area "a" 1)))))))
  (is (= ["(magnetar.trace-test/*rate* 4)" "=> 8"] (lines [*rate*] (*rate* 4)))))

(deftest what-cannot-be-traced-is-refused-and-nothing-is-traced
  (doseq [[v why] [[#'a-macro "macro"] [#'cost "multimethod"] [#'a-value "not a function"] [#'trace/trace-vars* "belongs to the tracer"]]]
    (let [{:keys [message] :as data} (refusal #(trace/trace-vars* [#'inverse v]))]
      (is (= [:magnetar/not-traceable v] [(:magnetar/reason data) (:var data)]))
      (is (str/includes? message why))
      (is (not (trace/traced? `inverse)))
      (is (not (trace/traceable? v)))))
  (is (= :magnetar/not-a-var (:magnetar/reason (refusal #(trace/trace-vars no-such-thing)))))
  (is (= :magnetar/unknown-option (:magnetar/reason (refusal #(trace/trace-vars inverse {:too tap>})))))
  (is (= :magnetar/bad-option (:magnetar/reason (refusal #(trace/trace-vars inverse {:to 17})))))
  (is (= :magnetar/no-such-namespace (:magnetar/reason (refusal #(trace/trace-ns no.such.namespace)))))
  (is (= :magnetar/not-traceable (:magnetar/reason (refusal #(trace/trace-ns clojure.core))))))

(deftest a-symbol-is-meant-where-the-macro-stands
  (binding [*ns* (the-ns 'user)]
    (is (= [`inverse] (trace/trace-vars inverse {:to identity})))
    (is (= [`inverse] (trace/untrace-vars inverse)))
    (is (str/includes? (:message (refusal #(trace/trace-vars no-such-thing))) "magnetar.trace-test/no-such-thing"))))

(deftest a-namespace-is-traced-by-its-name
  (let [functions (set (map #(symbol "magnetar.trace-test" %) ["iseven?" "isodd?" "fib" "area" "*rate*" "by-go"]))
        name-of-it 'magnetar.trace-test]
    (doseq [on [#(trace/trace-ns magnetar.trace-test {:to identity})
                #(trace/trace-ns 'magnetar.trace-test {:to identity})
                #(trace/trace-ns name-of-it {:to identity})
                #(trace/trace-ns here {:to identity})]]
      (let [traced (set (on))]
        (is (every? traced functions))
        (is (not-any? traced [`a-value `a-macro `cost]))
        (is (every? trace/traced? functions))
        (is (= traced (set (trace/untrace-ns magnetar.trace-test))))
        (is (not-any? trace/traced? functions))))))

(deftest a-function-of-clojure-can-be-traced-though-the-tracer-uses-it
  (let [events (events-of (fn [to]
                            (trace/trace-vars clojure.core/str {:to (fn [event] (str event) (to event))})
                            (try
                              (str "a" 1)
                              (finally (trace/untrace-vars clojure.core/str)))))]
    (is (= [:call :return] (map :event (filter #(= ["a" 1] (:args %)) events))))))

;; ---- off

(deftest untraced-a-var-holds-the-very-function-that-it-held
  (let [before [iseven? fib area *rate*]]
    (dotimes [_ 3] (trace/trace-vars iseven? fib area *rate* {:to identity}))
    (is (= `[iseven? fib area *rate*] (trace/untrace-vars iseven? fib area *rate*)))
    (is (every? true? (map identical? before [iseven? fib area *rate*])))
    (is (= [] (trace/untrace-vars iseven?)))
    (is (not (trace/traced? 'iseven?)))
    (is (empty? (.getWatches ^clojure.lang.Var #'iseven?)))))

(deftest traced-twice-a-call-is-told-once-to-the-newest-sink
  (is (= [[] [:call :return]]
         (let [second-sink (atom [])]
           [(events-of (fn [to]
                         (trace/trace-vars inverse {:to to})
                         (trace/trace-vars inverse {:to #(swap! second-sink conj (:event %))})
                         (inverse 1)))
            @second-sink]))))

(deftest a-function-that-is-replaced-meanwhile-is-traced-and-stays-when-untraced
  (let [before identity-of
        replacement (fn [x] [x])]
    (try
      (is (= [[:call nil] [:return [1]]]
             (map (juxt :event :value)
                  (events-of (fn [to]
                               (trace/trace-vars identity-of {:to to})
                               (alter-var-root #'identity-of (constantly replacement))
                               (identity-of 1))))))
      (trace/untrace-vars identity-of)
      (is (identical? replacement identity-of))
      (finally (alter-var-root #'identity-of (constantly before))))))

(deftest a-stand-in-that-a-program-has-kept-tells-of-nothing-when-tracing-is-off
  (is (= []
         (events-of (fn [to]
                      (trace/trace-vars inverse {:to to})
                      (let [kept inverse]
                        (trace/untrace-vars inverse)
                        (is (= 1 (kept 1)))))))))

(deftest a-redefinition-around-it-ends-with-the-var-untraced
  (let [before inverse]
    (trace/trace-vars inverse {:to identity})
    (with-redefs [inverse (fn [_] :stub)]
      (is (= :stub (inverse 0)))
      (trace/untrace-vars inverse))
    (is (= 1 (inverse 1)))
    (is (identical? before (or (calls/original inverse) inverse)))
    (alter-var-root #'inverse (constantly before))))

;; ---- sinks

(deftest a-sink-that-fails-is-reported-and-the-call-goes-on
  (doseq [thrown [(ex-info "full" {}) (StackOverflowError. "full")]]
    (with-failures [failures]
      (trace/trace-vars inverse {:to (fn [_] (throw thrown))})
      (is (= 1 (inverse 1)))
      (is (= ["full" "full"] (map (comp ex-message :error) @failures))))))

(deftest a-sink-that-calls-what-is-traced-does-not-run-for-ever
  (is (= [:call :return]
         (map :event (events-of (fn [to]
                                  (trace/trace-vars identity-of {:to #(to (identity-of %))})
                                  (identity-of 1)))))))

(deftest a-value-is-printed-and-returned
  (let [out (StringWriter.)]
    (is (= [3 4] (binding [*out* out] [(trace/trace 3) (trace/trace "total" 4)])))
    (is (= ["TRACE: 3" "total: 4"] (map #(str/replace % #"^\[[^\]]*\] " "") (str/split-lines (str out)))))))

;; ---- messages of a level

(deftest a-message-is-printed-as-a-line-where-its-level-is-asked-for
  (is (= "1 of 2\nb\n" (with-out-str (trace/with-verbose 2 (trace/printfv 1 "%d of %d" 1 2) (trace/printfv 2 "b") (trace/printfv 3 "c")))))
  (is (= "" (with-out-str (trace/printfv 1 "a"))))
  (is (= [0 3 1 3] [(trace/verbose)
                    (trace/with-verbose 3 (trace/verbose))
                    (trace/with-verbose 3 (trace/with-verbose 1 (trace/verbose)))
                    (trace/with-verbose 3 (trace/with-verbose 1) (trace/verbose))])))

(deftest a-message-that-is-not-printed-evaluates-nothing
  (let [evaluated (atom [])
        note (fn [x] (swap! evaluated conj x) x)]
    (trace/with-verbose 1
      (is (nil? (trace/printfv 2 (note "%s") (note 1))))
      (with-out-str (trace/printfv 1 (note "%s") (note 2))))
    (is (= ["%s" 2] @evaluated))))

(deftest the-level-crosses-fibers
  (trace/with-verbose 2
    (is (= 2 (a/<!! (a/go (trace/verbose)))))
    (is (= 2 (with-scope [s] (scope/join (fork s trace/verbose)))))
    (let [ch (channel/chan {:size 1})]
      (actor/spawn #(channel/put ch (trace/verbose)))
      (is (= 2 (taken ch))))))

(deftest a-level-that-is-no-number-is-refused
  (doseq [level [-1 1.5 nil :debug]]
    (is (= [:magnetar/bad-option level] ((juxt :magnetar/reason :value) (refusal #(trace/with-verbose level 1)))))
    (is (= [:magnetar/bad-option level] ((juxt :magnetar/reason :value) (refusal #(trace/printfv level "a")))))))

;; ---- steps of transducers

(defn- told-by
  "What the steps tell that (make to) makes, while they run on the values: [label event value] of each."
  [make values]
  (map (juxt :label :event :value) (events-of (fn [to] (into [] (make to) values)))))

(deftest a-step-tells-of-values-completion-and-an-early-end
  (is (= [[:a :value 1] [:b :value 2] [:a :value 2] [:b :value 3] [:a :complete nil] [:b :complete nil]]
         (told-by #(comp (trace/step :a {:to %}) (map inc) (trace/step :b {:to %})) [1 2])))
  (is (= [[:a :value 1] [:a :reduced nil] [:a :complete nil]]
         (told-by #(comp (trace/step :a {:to %}) (take 1)) [1 2 3]))))

(deftest a-transducer-tells-of-its-inputs-and-outputs
  (is (= [["even" :in 1] ["even" :in 2] ["even" :out 2] ["even" :complete nil]]
         (told-by #(trace/xf "even" (filter even?) {:to %}) [1 2])))
  (testing "also of what it gives when the input is complete"
    (is (= [["by 2" :in 1] ["by 2" :in 2] ["by 2" :out [1 2]] ["by 2" :in 3] ["by 2" :complete nil] ["by 2" :out [3]]]
           (told-by #(trace/xf "by 2" (partition-all 2) {:to %}) [1 2 3]))))
  (testing "and the result is that of the transducer"
    (let [steps #(comp (map inc) (partition-all 2) (take 2) cat)]
      (is (= (into [] (steps) (range 9))
             (into [] (trace/xf "steps" (steps) {:to identity}) (range 9)))))))

(deftest a-step-that-throws-is-told-of-and-the-exception-is-the-same
  (let [error (ex-info "no" {})
        events (atom [])]
    (is (identical? error (try
                            (into [] (trace/xf "raise" (map (fn [_] (throw error))) {:to #(swap! events conj %)}) [1])
                            (catch Exception e e))))
    (is (= [[:in nil] [:throw error]] (map (juxt :event :error) @events)))))

(deftest steps-on-a-channel-print-lines
  (let [out (StringWriter.)
        ch (binding [*out* out]
             (channel/chan {:size 9 :xform (comp (trace/step :in) (trace/xf "first 2" (take 2)))}))]
    (doseq [n [7 8]] (channel/put ch n))
    (is (= [7 8 nil] [(taken ch) (taken ch) (taken ch)]))
    (is (= [":in: 7" "first 2 <- 7" "first 2 -> 7"
            ":in: 8" "first 2 <- 8" "first 2 -> 8" "first 2 ends early" ":in ends early"
            ":in is complete" "first 2 is complete"]
           (distinct (map #(str/replace % #"^\[[^\]]*\] " "") (str/split-lines (str out))))))))

(deftest what-is-no-transducer-or-no-option-is-refused
  (is (= :magnetar/not-a-function (:magnetar/reason (refusal #(trace/xf "a" 17)))))
  (is (= :magnetar/unknown-option (:magnetar/reason (refusal #(trace/step :a {:too 1}))))))
