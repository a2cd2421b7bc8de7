(ns magnetar.trace-forms-test
  "`trace-forms`: the path of forms to the one that threw. From the tests of clojure.tools.trace come those of a `let`, a function, a map and of
  errors of all kinds; their message of the exception is what the path says here."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.async :as a]
   [magnetar.report :as report]
   [magnetar.support :refer [collected? refusal]]
   [magnetar.trace :as trace :refer [trace-forms]])
  (:import
   (java.io StringWriter)
   (java.util Random)))

(set! *warn-on-reflection* true)

(defn- without-place [text]
  (str/replace text #" at [^ ]*:\d+$" ""))

(defn- forms-of
  "The paths that the error carries, without places."
  [^Throwable error]
  (map without-place (mapcat #(:magnetar.trace/forms (ex-data %)) (.getSuppressed error))))

(defmacro ^:private path
  "The path of forms to the one in body that throws."
  [& body]
  `(try
     (trace-forms {:to identity} ~@body)
     (catch Throwable e# (forms-of e#))))

;; ---- as in clojure.tools.trace

(deftest the-path-leads-from-the-innermost-form-outwards
  (is (= ["(/ 9 a)" "(let [a 0 b (/ 9 a)] b)"] (path (let [a 0 b (/ 9 a)] b))))
  (is (= ["(/ 3 0)" "(let [d (/ 3 0)] d)" "(fn [] (let [d (/ 3 0)] d))" "((fn [] (let [d (/ 3 0)] d)))"]
         (path ((fn [] (let [d (/ 3 0)] d))))))
  (is (= ["(/ 3 0)"] (path {:a 1 :b (/ 3 0)})))
  (is (= ["(/ 3 0)"] (path [1 #{(/ 3 0)}]))))

(deftest the-exception-stays-what-it-is
  (doseq [error [(ex-info "no" {:n 1} (Exception. "cause")) (AssertionError. "no") (Throwable. "no") (ThreadDeath.)
                 (java.nio.charset.CoderMalfunctionError. (Exception. "Any string would do"))]]
    (let [frames (vec (.getStackTrace ^Throwable error))]
      (is (identical? error (try (trace-forms {:to identity} (throw error)) (catch Throwable e e))))
      (is (= frames (vec (.getStackTrace ^Throwable error))))
      (is (= ["(throw error)"] (forms-of error)))))
  (is (= ["(assert (= 2 3))"] (path (assert (= 2 3))))))

;; ---- special forms

(defn- throw-and-throw []
  (throw (ex-info "x" {})))

(defn- throw-and-catch []
  (try (throw (ex-info "x" {})) (catch clojure.lang.ExceptionInfo _ :caught)))

(deftest values-are-those-of-the-forms
  (are [form] (= form (trace-forms form))
    (case 3 1 :one (2 3) :more :others)
    (case "x" "y" 1 :default)
    (letfn [(odd [n] (if (zero? n) false (even (dec n))))
            (even [n] (if (zero? n) true (odd (dec n))))]
      (even 10))
    (vec (for [x [1 2 3] :when (odd? x) y [x (- x)]] [x y]))
    (.length "four")
    (. "four" (substring 1 2))
    (.-x (java.awt.Point. 3 4))
    (String/valueOf 17)
    (new String "x")
    (loop [n 10, sum 0] (if (pos? n) (recur (dec n) (+ sum n)) sum))
    (loop [n 10.0, sum 0] (if (pos? n) (recur (dec n) (+ sum 2)) sum))
    ((fn f [n acc] (if (pos? n) (recur (dec n) (* acc n)) acc)) 5 1)
    ((fn [^long n] (if (< n 100) (recur (* 2 n)) n)) 1)
    ((fn ^double [^double x ^long n] (* x n)) 1.5 2)
    ((fn [a & more] (if (seq more) (recur (+ a (first more)) (rest more)) a)) 1 2 3)
    ((fn [{:keys [a b] :or {b 2}} [c & d]] [a b c d]) {:a 1} [3 4 5])
    (try (/ 1 0) (catch ArithmeticException e (ex-message e)) (finally (identity 1)))
    (let [a (atom 0)] (try (swap! a inc) (finally (swap! a inc))) @a)
    (binding [*print-length* 2] (pr-str (range 5)))
    (with-out-str (print 1))
    (-> 1 inc (+ 2) str)
    (->> (range 10) (filter odd?) (map inc) (reduce +))
    (cond-> 1 true inc false dec)
    (doto (java.util.ArrayList.) (.add 1) (.add 2))
    (some-> {:a 1} :a inc)
    (if-let [x (seq [])] x :none)
    (when-some [x false] [x])
    (condp = 2 1 :a 2 :b)
    (let [[a & b :as c] [1 2 3] {:keys [d]} {:d 4}] [a b c d])
    (reduce (fn [acc x] (if (= x 3) (reduced acc) (+ acc x))) 0 (range 10))
    (let [^String s (str "a" "b")] (.toUpperCase s))
    (loop [i 0] (when (< i 3) (recur (inc i))))
    (locking (Object.) 5)
    (let [v (volatile! 1)] (vswap! v inc) @v)
    (.call ^java.util.concurrent.Callable (reify java.util.concurrent.Callable (call [_] 7)))
    (let [x (int-array 2)] (aset x 0 (int 5)) (aget x 0))
    (let [f #(+ % %2)] (f 1 2))
    (doseq [x [1 2]] x)
    (dotimes [n 3] n)
    (while false 1)
    (lazy-seq [1 2])
    @(delay 3)
    @(future 4)
    (quote (a (b)))
    '(/ 1 0)
    (var clojure.core/inc)
    `(a ~(inc 1))
    #{(inc 1)}
    {(inc 1) (dec 1)}
    (let [p (java.awt.Point. 1 2)] (set! (.-x p) 7))
    (a/<!! (a/go (inc 1)))
    (Math/max 1 2)
    (instance? String "x")
    (apply + 1 [2 3])
    (throw-and-catch)
    nil
    17))

(deftest special-forms-are-passed
  (are [expected form] (= expected (first (path form)))
    "(/ 1 0)" (case (inc 1) 2 (/ 1 0) :others)
    "(/ 2 0)" (case (inc 2) 2 (/ 1 0) (/ 2 0))
    "(/ n 0)" (letfn [(f [n] (/ n 0))] (f 1))
    "(/ x (dec x))" (doall (for [x [3 2 1]] (/ x (dec x))))
    "(.substring \"abc\" 7)" (.substring "abc" 7)
    "(Integer/parseInt \"x\")" (Integer/parseInt "x")
    "(java.net.URI. \"a b\")" (java.net.URI. "a b")
    "(/ 6 n)" (loop [n 3] (/ 6 n) (recur (dec n)))
    "(/ 6 n)" ((fn [n] (/ 6 n) (recur (dec n))) 3)
    "(/ 1 0)" (try (/ 1 0) (finally (inc 1)))
    "(/ 2 0)" (try (/ 1 0) (catch ArithmeticException _ (/ 2 0)))
    "(/ 3 0)" (try (inc 1) (finally (/ 3 0)))
    "(throw (ex-info \"x\" nil))" (throw (ex-info "x" nil))
    "(/ 0)" (-> 1 dec (/ 0) inc)
    "(/ (inc x) 0)" (let [x 1] (cond (neg? x) 1 (pos? x) (/ (inc x) 0)))
    "(parse-long :k)" (do (inc 1) (parse-long :k) (inc 2))
    "(f 1)" (let [f :x, f 5] (f 1))
    "(throw-and-throw)" (+ 1 (throw-and-throw) (inc 3))))

(deftest what-is-done-after-an-inner-form-is-not-blamed-on-it
  (is (= ["(/ (inc 1) (dec 1))" "(+ 1 (/ (inc 1) (dec 1)))"] (path (+ 1 (/ (inc 1) (dec 1))))))
  (is (= "(if (inc 1) (throw error))" (second (let [error (Exception.)] (path (if (inc 1) (throw error)))))))
  (is (= ["(nth (vec [1]) (inc 7))"] (path (nth (vec [1]) (inc 7))))))

;; ---- macros that look at their locals

(deftest macros-see-the-locals-of-their-place
  (let [expected :ok]
    (is (= [:ok 5] (actor/with-process {}
                     (! (self) [:other 4])
                     (! (self) [:ok 5])
                     (trace-forms (receive [expected n] [expected n] (after 1000 :none))))))
    (is (= ["(/ n 0)"] (take 1 (path (actor/with-process {}
                                       (! (self) 5)
                                       (receive n (/ n 0)))))))))

;; ---- what is told

(deftest a-line-tells-of-the-error-and-the-forms
  (let [out (StringWriter.)]
    (binding [*out* out]
      (try (trace-forms (let [x 0] (inc (/ 1 x)))) (catch ArithmeticException _)))
    (is (re-matches #"\[[^\]]+\] !! java.lang.ArithmeticException: Divide by zero; in \(/ 1 x\) at [^ ]+trace_forms_test.clj:\d+; in \(inc .*; in \(let .*\n"
                    (str out)))))

(deftest pst-shows-the-forms
  (let [error (try (trace-forms {:to identity} (inc (/ 1 0))) (catch Exception e e))
        text (with-out-str (binding [*err* *out*] (report/pst error)))]
    (is (re-find #"in the form: \(/ 1 0\) at .*:\d+\n" text))
    (is (re-find #"in the form: \(inc \(/ 1 0\)\) at" text))))

(deftest a-function-that-fails-later-carries-its-forms
  (let [f (trace-forms (fn [n] (/ 1 n)))]
    (is (= ["(/ 1 n)" "(fn [n] (/ 1 n))"] (try (f 0) (catch Exception e (forms-of e)))))
    (is (= 1 (f 1)))
    (testing "and it has no mark"
      (is (nil? (meta f))))))

(trace-forms
  (defn- share [n]
    (let [part-of (fn [x] (/ x n))]
      (mapv part-of [1]))))

(deftest functions-keep-their-names
  (let [error (try (share 0) (catch ArithmeticException e e))
        names (map #(.getClassName ^StackTraceElement %) (.getStackTrace ^Throwable error))]
    (is (some #(re-find #"\$share__\d+\$part_of__\d+$" %) names))
    (is (some #(re-find #"\$share__\d+$" %) names))))

(deftest an-unknown-option-is-refused
  (is (str/starts-with? (:message (refusal #(trace-forms {:too prn} 1))) "`trace-forms` does not know :too; its options are :to.")))

(deftest recursion-names-each-form-once
  (is (= ["(/ 1 0)" "(if (zero? n) (/ 1 0) (inc (f (dec n))))"] (take 2 (path ((fn f [n] (if (zero? n) (/ 1 0) (inc (f (dec n))))) 50)))))
  (let [forms (path ((fn f [n] (if (zero? n) (/ 1 0) (inc (f (dec n))))) 50))]
    (is (= 6 (count forms) (count (set forms))))))

(deftest an-end-by-cancellation-is-not-told
  (let [told (atom 0)]
    (actor/with-process {}
      (let [stopped (actor/spawn #(trace-forms {:to (fn [_] (swap! told inc))} (receive :never nil)))
            ref (actor/monitor stopped)]
        (actor/exit stopped :enough)
        (is (= :enough (receive [:DOWN ref _ _ reason] reason)))))
    (is (= 0 @told))))

;; ---- errors that are not thrown once

(defmacro ^:private told
  "The events that trace-forms tells while body runs."
  [& body]
  `(let [events# (atom [])]
     (try
       (trace-forms {:to (fn [event#] (swap! events# conj (update event# :forms (partial mapv without-place))))} ~@body)
       (catch Throwable _#))
     @events#))

(deftest an-attempt-of-a-transaction-is-no-failure
  (let [r (ref 0)
        retries (atom 0)
        lost (atom 0)
        add (fn [] (dosync
                     (swap! retries inc)
                     (trace-forms {:to (fn [_] (swap! lost inc))}
                       (let [v @r] (Thread/yield) (ref-set r (inc v))))))]
    (run! deref (mapv (fn [_] (future (dotimes [_ 200] (add)))) (range 4)))
    (is (= 800 @r))
    (is (= 0 @lost) (str @retries " attempts"))))

(deftest an-error-that-keeps-no-path-is-told-with-it
  (let [error (proxy [RuntimeException] ["no" nil false false])]
    (is (= [["(throw error)" "(inc (throw error))"]] (map :forms (told (inc (throw error)))))))
  (is (= [:throw] (map :event (told ((fn f [n] (inc (f (inc n)))) 0)))) "also a full stack"))

(deftest an-error-that-is-caught-and-thrown-on-keeps-the-form-that-threw-it
  (is (= ["(/ 1 0)" "(inc (/ 1 0))" "(try (inc (/ 1 0)) (catch ArithmeticException e (throw e)))" "(throw e)"]
         (path (try (inc (/ 1 0)) (catch ArithmeticException e (throw e))))))
  (is (= "(/ 1 0)" (first (forms-of (ex-cause (try (trace-forms {:to identity} (try (/ 1 0) (catch Exception e (throw (ex-info "x" {} e)))))
                                                   (catch Exception e e))))))))

(deftest an-error-that-was-kept-has-no-forms-of-an-earlier-time
  (let [kept (delay (throw (ex-info "no" {})))]
    (is (= ["@kept" "(+ 1 @kept)"] (:forms (first (told (+ 1 @kept))))))
    (is (= ["@kept" "(* 2 @kept)"] (:forms (first (told (* 2 @kept))))))))

;; ---- what the compiler sees

(deftest lines-are-those-of-the-forms
  (let [line (fn [^Throwable e] (some #(when (= "trace_forms_test.clj" (.getFileName ^StackTraceElement %)) (.getLineNumber ^StackTraceElement %))
                                      (.getStackTrace e)))
        plain (try
                (assert (= 2
                           3))
                (catch AssertionError e e))
        traced (try
                 (trace-forms {:to identity}
                   (inc 1)
                   (assert (= 2
                              3)))
                 (catch AssertionError e e))]
    (is (= 6 (- (long (line traced)) (long (line plain)))))))

(defprotocol Steps
  (go-on [this]))

(deftype Steps3 [^:unsynchronized-mutable n]
  Steps
  (go-on [_]
    (trace-forms
      (dotimes [_ 3] (set! n (inc (long n))))
      n)))

(deftest a-loop-that-is-a-statement-stays-one
  (is (= 3 (go-on (->Steps3 0)))))

(deftest long-literals-are-cut
  (let [text (apply str (repeat 30000 "x"))]
    (binding [*ns* (the-ns 'magnetar.trace-forms-test)]
      (is (= 90000 (count (eval `(trace-forms (str ~text (str ~text (str ~text)))))))))))

(deftest a-function-that-is-called-once-lets-go-of-what-it-used
  (let [gone (promise)
        d (let [x (Object.)
                reference (java.lang.ref.WeakReference. x)]
            (trace-forms (delay (hash x) (deliver gone (collected? reference)))))]
    @d
    (is (= true @gone))))

;; ---- any forms

(defn- pick [^Random random & xs]
  (nth xs (.nextInt random (count xs))))

(declare any-form)

(defn- leaf [random locals]
  (apply pick random 0 1 2 (concat locals locals)))

;; The JVM throws an exception of its own without a message, a trace and room for forms where it has thrown it often.
(defn divided [a b]
  (if (zero? (long b)) (throw (ArithmeticException. "/ by zero")) (quot a b)))

(defn- any-body [random depth locals]
  (vec (repeatedly (inc (.nextInt ^Random random 2)) #(any-form random depth locals))))

(defn- any-let [random depth locals]
  (let [x (pick random 'x 'y 'z)]
    `(let [~x ~(any-form random depth locals)] ~@(any-body random depth (conj locals x)))))

(defn- any-loop [random depth locals]
  (let [x (pick random 'x 'y)
        more (conj locals x 'left)]
    `(loop [~'left 3, ~x ~(any-form random depth locals)]
       (if (pos? ~'left)
         (recur (dec ~'left) ~(any-form random depth more))
         ~(any-form random depth more)))))

(defn- any-function [random depth locals]
  (let [x (pick random 'x 'y)]
    `((fn [~x ~'left]
        (if (pos? ~'left)
          (recur ~(any-form random depth (conj locals x)) (dec ~'left))
          ~(any-form random depth (conj locals x))))
      ~(any-form random depth locals) 2)))

(defn- any-try [random depth locals]
  `(try
     ~@(any-body random depth locals)
     (catch ArithmeticException ~'e ~(any-form random depth locals))
     (finally ~(any-form random depth locals))))

(defn- any-form
  "A form of whole numbers, in which these locals are known. Some divide by zero."
  [random depth locals]
  (let [more #(any-form random (dec (long depth)) locals)
        depth (dec (long depth))]
    (if (neg? depth)
      (leaf random locals)
      (case (long (pick random 0 1 2 3 4 5 6 7 8 9 10))
        0 (leaf random locals)
        1 `(divided ~(more) ~(more))
        2 `(+' ~(more) ~(more))
        3 `(if (even? ~(more)) ~(more) ~(more))
        4 (any-let random depth locals)
        5 (any-loop random depth locals)
        6 (any-function random depth locals)
        7 (any-try random depth locals)
        8 `(case (long (rem ~(more) 3)) 0 ~(more) (1 2) ~(more) ~(more))
        9 `(letfn [(~'f [~'a] ~(any-form random depth (conj locals 'a)))] (~'f ~(more)))
        10 `(-> ~(more) (+' ~(more)) (divided ~(more)))))))

(defn- outcome [form]
  (binding [*ns* (the-ns 'magnetar.trace-forms-test), *err* (StringWriter.)]
    (try
      [:value (eval form)]
      (catch ArithmeticException e [:error (ex-message e) (some? (seq (forms-of e)))])
      (catch clojure.lang.Compiler$CompilerException e [:does-not-compile (ex-message e)]))))

(deftest any-forms-do-the-same-as-without
  (let [random (Random. 17)
        outcomes (for [_ (range 150)
                       :let [form (any-form random 3 [])
                             expected (outcome form)
                             found (outcome `(trace-forms {:to identity} ~form))]]
                   (do
                     (when-not (= :does-not-compile (first expected)) ; Clojure fails at some `try` whose body is a constant
                       (is (= (take 2 expected) (take 2 found)) (pr-str form)))
                     (when (and (= :error (first expected)) (seq? form))
                       (is (last found) (pr-str form)))
                     (first expected)))]
    (is (< 20 (:error (frequencies outcomes))))
    (is (< 20 (:value (frequencies outcomes))))))
