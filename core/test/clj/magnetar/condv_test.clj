(ns magnetar.condv-test
  "`condv`: which branch a form takes, and why a receive does not take a message."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [clojure.walk :as walk]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.channel :as channel]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.support :refer [refusal with-failures]]
   [magnetar.trace :as trace :refer [condv]])
  (:import
   (java.io StringWriter)))

(set! *warn-on-reflection* true)

(defmacro ^:private lines
  "What `condv` prints while body runs, without the names of threads and places."
  [& body]
  `(let [out# (StringWriter.)]
     (binding [*out* out#] ~@body)
     (mapv #(str/replace % #"^\[[^\]]*\] (\S+) at [^:]+:\d+" "$1") (remove str/blank? (str/split-lines (str out#))))))

;; ---- branches

(defn- sign [n]
  (condv (cond (neg? n) :below (pos? n) :above)))

(deftest a-cond-tells-of-its-clause
  (is (= ["cond: clause 2, (pos? n), where n is 3"] (lines (is (= :above (sign 3))))))
  (is (= ["cond: no clause, where n is 0"] (lines (is (nil? (sign 0))))))
  (is (= ["cond: clause 2, :else"] (lines (is (= 2 (condv false 1 :else 2))))) "the pairs of a cond")
  (is (= ["cond: no clause"] (lines (is (nil? (condv)))))))

(deftest a-case-tells-of-its-value-and-clause
  (let [f (fn [x] (condv (case x :a :one (:b :c) :more :others)))
        g (fn [x] (condv (case x :a 1)))]
    (is (= ["case, of :a: clause 1, :a" "case, of :c: clause 2, (:b :c)" "case, of nil: the default"]
           (lines (is (= [:one :more :others] (map f [:a :c nil]))))))
    (is (= ["case, of :b: no clause"]
           (lines (is (thrown-with-msg? IllegalArgumentException #"No matching clause: :b" (g :b))))))))

(deftest a-condp-tells-of-its-value-and-clause
  (let [f (fn [x] (condv (condp some x #{1} :one #{2 3} :>> inc :others)))
        g (fn [x] (condv (condp = x 1 :one)))]
    (is (= ["condp, of [1]: clause 1, #{1}" "condp, of [3]: clause 2, #{3 2}" "condp, of [4]: the default"]
           (lines (is (= [:one 4 :others] (map f [[1] [3] [4]]))))))
    (is (= ["condp, of 2: no clause"]
           (lines (is (thrown-with-msg? IllegalArgumentException #"No matching clause: 2" (g 2))))))))

(deftest an-if-let-tells-of-its-value-and-branch
  (is (= ["if-let, of [1 2]: then" "if-let, of nil: else" "if-some, of false: then"]
         (lines (is (= 3 (condv (if-let [[a b] [1 2]] (+ a b) 0))))
                (is (= 0 (condv (if-let [[a b] nil] (+ a b) 0))))
                (is (= false (condv (if-some [x false] x))))))))

(deftest a-threading-cond-tells-of-each-clause-that-it-takes
  (let [f (fn [x] (condv (cond-> x (even? x) inc (< x 3) (* 2))))]
    (is (= ["cond->: clause 1, (even? x), where x is 2" "cond->: clause 2, (< x 3), where x is 2"] (lines (is (= 6 (f 2))))))
    (is (= ["cond->: no clause, where x is 5"] (lines (is (= 5 (f 5))))))
    (is (= ["cond->>: clause 1, true"] (lines (is (= [2] (condv (cond->> [1] true (map inc))))))))))

(deftest branches-are-in-tail-position
  (is (= 1000 (count (lines (is (= 0 (loop [n 999]
                                       (condv (cond (pos? n) (recur (dec n)) :else n)))))))))
  (is (= 4 (count (lines (loop [n 3] (condv (case n 0 nil (recur (dec n)))))))))
  (is (= 4 (count (lines (loop [n 3] (condv (condp = n 0 nil (recur (dec n)))))))))
  (is (= 4 (count (lines (loop [[_ & more] [1 2 3 4]] (condv (if-let [xs more] (recur xs) nil))))))))

(deftest primitives-stay-primitive
  (is (= ["cond: clause 1, (< x 3), where x is 2.0" "cond: clause 2, :else, where x is 3.0"]
         (lines (is (= 3.0 (loop [x 2.0] (condv (< x 3) (recur (inc x)) :else x)))))
         (lines (is (= 3.0 (loop [x 2.0] (condv (cond (< x 3) (recur (inc x)) :else x)))))))))

(deftest an-event-tells-who-where-and-what
  (let [events (atom [])]
    (with-scope [s]
      (dotimes [n 3]
        (fork s #(condv {:to (fn [event] (swap! events conj event))} (if-let [x n] x 1)))))
    (is (= [[:branch 'if-let "then" 0] [:branch 'if-let "then" 1] [:branch 'if-let "then" 2]]
           (sort-by last (map (juxt :event :form :clause :value) @events))))
    (is (every? #(re-matches #"if-let at .*condv_test.clj:\d+" (:place %)) @events))
    (is (= 3 (count (set (map :by @events)))))))

(deftest other-forms-are-refused-at-compilation
  (let [data-of (fn [form] (refusal #(try (macroexpand-1 form) (catch clojure.lang.Compiler$CompilerException e (throw (ex-cause e))))))]
    (doseq [form ['(magnetar.trace/condv (when x 1)) '(magnetar.trace/condv 17) '(magnetar.trace/condv {:to prn} (prn 1))]]
      (is (= :magnetar/bad-clause (:magnetar/reason (data-of form))))
      (is (re-find #"condv at .*: it wants the pairs of a cond.* this is " (:message (data-of form)))))))

(deftest an-unknown-option-is-refused
  (is (str/starts-with? (:message (refusal #(condv {:tu prn} (cond 1 2)))) "`condv` does not know :tu; its options are :to.")))

;; ---- receive

(defmacro ^:private received
  "What `condv` prints of a receive with these clauses in a process that has got the messages."
  [messages & clauses]
  `(lines (actor/with-process {}
            (doseq [message# ~messages] (! (self) message#))
            (condv (receive ~@clauses)))))

(deftest a-receive-tells-of-the-clause-and-why-not-of-those-before
  (is (= ["receive, of [:get 1]: clause 2, [:get n]; not clause 1, [:add n], since at [0], :get is not :add"]
         (received [[:get 1]] [:add n] n [:get n] n)))
  (is (= ["receive, of 5: clause 1, x"] (received [5] x x))))

(deftest a-receive-tells-why-a-message-stays-in-the-mailbox
  (is (= ["receive, of :lost: left in the mailbox; not clause 1, [:add n], since :lost is not a vector; not clause 2, 7, since :lost is not 7"
          "receive, of 7: clause 2, 7; not clause 1, [:add n], since 7 is not a vector"]
         (received [:lost 7] [:add n] n 7 nil))))

(deftest a-message-that-stays-is-told-of-once
  (let [printed (lines (actor/with-process {}
                         (! (self) [:lost])
                         (dotimes [n 5]
                           (! (self) [:add n])
                           (condv (receive [:add _] nil)))))]
    (is (= 1 (count (filter #(str/includes? % "left in the mailbox") printed))))
    (is (= 6 (count printed)))))

(deftest other-clauses-of-a-receive
  (is (= ["receive, of 1: left in the mailbox; not clause 1, :x, since 1 is not :x" "receive: (after 0 ..)"]
         (received [1] :x 1 (after 0 2))))
  (let [ch (channel/chan {:size 1})]
    (channel/put ch 5)
    (is (= ["receive: (from ch v ..)"] (received [] :x 1 (from ch v v))))))

(defn- why
  "Why the message does not match the pattern, as `condv` says."
  [pattern message]
  (let [line (binding [*ns* (the-ns 'magnetar.condv-test)]
               (eval `(first (received [~message] ~pattern nil (~'after 0 nil)))))]
    (second (re-find #", since (.*)" line))))

(deftest the-first-difference-is-told
  (doseq [[pattern message expected]
          [[:x :y ":y is not :x"]
           [''x ''y "y is not x"]
           [[:a 1] [:a 2] "at [1], 2 is not 1"]
           [[:a '_] [:a 1 2] "[:a 1 2] has 3 elements, not 2"]
           [[:a [:b 'x]] [:a [:c 1]] "at [1 0], :c is not :b"]
           [[:a '& 'more] [:b 1] ":b is not :a"]
           [{:k 1} {:k 2} "at [:k], 2 is not 1"]
           [{:k '_} {} "{} has no :k"]
           [{:k '_} 5 "(map? 5) is false"]
           [{"k" '_} {} "{} has no \"k\""]
           [{1 nil} {:k 1} "{:k 1} has no 1"]
           ['(n :guard #(< % 3)) 5 "5) is false"]
           ['(n :guard (fn [n] (< n 3))) 5 "((fn [n] (< n 3)) 5) is false"]
           [{:k [1 2]} {:k [1 3]} "at [:k 1], 3 is not 2"]
           ['(n :guard neg?) 5 "(neg? 5) is false"]
           ['[:a (n :guard neg?)] [:a 5] "(neg? 5) is false"]
           ['(n :guard neg?) :k "(neg? :k) threw java.lang.ClassCastException"]
           ['[x x] [1 2] "(= 1 2) is false"]
           ['(:or 1 2) 3 "none of its 2 alternatives matches"]
           ['([1 2] :seq) 5 "(sequential? 5) is false"]
           ['([1 2] :seq) '(quote (1 2 3)) "has more than 2 elements"]
           ['([1 2] :seq) '(quote (1 3)) "at [1], 3 is not 2"]
           ['([1 2 & _] :seq) '(quote (1)) "has only 1 element"]
           [#{1 2} 3 "(= 3 #{1 2}) is false"]
           ['(n :<< inc) nil ""]]]
    (testing (pr-str pattern)
      (with-failures [_] ; a guard throws
        (is (str/includes? (str (why pattern message)) expected))))))

(deftest a-guard-that-changes-its-mind-is-named
  (let [asked (atom 0)]
    (is (= ["receive, of 5: left in the mailbox; not clause 1, (n :guard (fn [_] (even? (swap! asked inc)))), since it matched when it was tried again"
            "receive: (after 0 ..)"]
           (received [5] (n :guard (fn [_] (even? (swap! asked inc)))) n (after 0 nil))))))

(deftest what-the-program-hides-is-not-shown
  (inspect/redact-with (fn [x] (walk/postwalk #(if (and (string? %) (re-find #"\d{4}" %)) ".." %) x)))
  (try
    (with-failures [_] ; the guard throws
      (let [card "4111"
            printed (str (received [{card 2} "5222x" [:pay "6333"]]
                                   {card 1} :one
                                   (n :guard (fn [text] (pos? (Long/parseLong text)))) n
                                   [:pay (n :guard (fn [text] (= text "no")))] n
                                   (after 0 nil)))]
        (is (str/includes? printed "at [..]"))
        (is (not (re-find #"4111|5222|6333" printed)))))
    (finally (inspect/redact-with nil))))
