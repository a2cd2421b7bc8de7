(ns magnetar.match-test
  "Patterns: what they match, what they bind, how they fail."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [clojure.test.check :as check]
   [clojure.test.check.generators :as gen]
   [clojure.test.check.properties :as prop]
   [clojure.walk :as walk]
   [magnetar.impl.match.clauses :as clauses]
   [magnetar.impl.match.pattern :as pattern]
   [magnetar.impl.runtime]
   [magnetar.match :refer [match]])
  (:import
   (java.util ArrayList HashMap)
   (magnetar.kernel.park Cancelled Failures)
   (magnetar.kernel.process Clauses Guards Matcher)))

(set! *warn-on-reflection* true)

(defmacro taking
  "`receive` without a mailbox: the clauses meet one message; where none matches, the body of `after`, or :left."
  [message & forms]
  (let [{:keys [matcher clauses after]} (clauses/clauses &env &form forms)
        matching (with-meta (gensym "matcher") {:tag `Matcher})
        answer (gensym "answer")]
    `(let [~matching ~matcher
           ~answer (.match ~matching ~message)]
       ~(clauses/bodies answer clauses (if after `(do ~@(:body after)) :left)))))

;; --- what matches what

(defmacro matches
  "What the pattern binds in the value, as a map from keywords; nil for no match."
  [pattern value]
  (let [{:keys [clauses]} (clauses/clauses &env (list 'matches) [pattern nil])
        locals (:locals (first clauses))]
    `(taking ~value ~pattern ~(zipmap (map keyword locals) locals) ~'_ nil)))

(deftest a-literal-matches-what-is-equal
  (is (= {} (matches nil nil)))
  (is (nil? (matches nil false)))
  (is (= {} (matches false false)))
  (is (nil? (matches false nil)))
  (is (= {} (matches "text" "text")))
  (is (= {} (matches \a \a)))
  (is (nil? (matches \a "a")))
  (is (= {} (matches :key :key)))
  (is (= {} (matches ':key :key)))
  (is (= {} (matches 'sym 'sym)))
  (is (nil? (matches 'sym :sym)))
  (is (= {} (matches '(1 two) [1 'two])))
  (is (= {} (matches #{1 2} #{2 1})))
  (is (= {} (matches #uuid "00000000-0000-0000-0000-000000000001" (java.util.UUID. 0 1)))))

(deftest numbers-match-as-clojure-compares-them
  (is (= {} (matches 1 (int 1))))
  (is (= {} (matches 1 (byte 1))))
  (is (= {} (matches 1 1N)))
  (is (nil? (matches 1 1.0)))
  (is (nil? (matches 1.0 1)))
  (is (= {} (matches 1.0 (float 1.0))))
  (is (nil? (matches 1.0M 1)))
  (is (= {} (matches -9223372036854775808 Long/MIN_VALUE)))
  (is (= {} (let [n (int 7)] (matches [n] [7]))))
  (is (= {} (let [n 7] (matches [n] [(int 7)]))))
  (is (nil? (let [n 7] (matches [n] [7.0])))))

(deftest a-vector-matches-a-vector-of-its-size
  (is (= {:x 1, :y 2} (matches [x y] [1 2])))
  (is (nil? (matches [x y] [1])))
  (is (nil? (matches [x y] [1 2 3])))
  (is (= {} (matches [] [])))
  (is (nil? (matches [] [1])))
  (is (nil? (matches [] ())))
  (is (nil? (matches [] nil)))
  (is (nil? (matches [x y] '(1 2))))
  (is (nil? (matches [x y] (map inc [1 2]))))
  (is (nil? (matches [x y] (ArrayList. [1 2]))))
  (is (nil? (matches [x y] "ab")))
  (is (= {:x :k, :y 1} (matches [x y] (first {:k 1}))))
  (is (= {:x 1, :y 2} (matches [x y] (subvec [0 1 2] 1))))
  (is (= {:x 1, :y 2} (matches [x y] (vector-of :long 1 2))))
  (is (= {:x 1, :y 2, :z [3]} (matches [[x] [y z]] [[1] [2 [3]]]))))

(deftest the-rest-of-a-vector-is-a-vector
  (is (= {:x 1, :r [2 3]} (matches [x & r] [1 2 3])))
  (is (vector? (:r (matches [x & r] [1 2 3]))))
  (is (= {:x 1, :r []} (matches [x & r] [1])))
  (is (nil? (matches [x & r] [])))
  (is (nil? (matches [x & r] '(1 2))))
  (is (= {:r []} (matches [& r] [])))
  (is (= {:x 1} (matches [x & _] [1 2])))
  (is (= {} (matches [:a & _] [:a 2])))
  (is (= {:x 1, :y 2} (matches [x & [y]] [1 2])))
  (is (nil? (matches [x & [y]] [1 2 3])))
  (is (= {:x 1, :y 2, :r [3]} (matches [x & [y & r]] [1 2 3])))
  (is (= {:x 1, :y 3, :r [4]} (matches [[x & _] {:k [y & r]}] [[1 2] {:k [3 4]}])))
  (is (= {:v [1 2 3], :a 1, :r [2 3]} (matches ([a & r] :as v) [1 2 3]))))

(deftest a-list-pattern-matches-any-sequential-value
  (is (= {:x 1, :r [2 3]} (matches ([x & r] :seq) '(1 2 3))))
  (is (= {:x 1, :y 2} (matches ([x y] :seq) '(1 2))))
  (is (= {:x 1, :y 2} (matches ([x y] :seq) [1 2])))
  (is (= {:x 1, :y 2} (matches ([x y] :seq) (map inc [0 1]))))
  (is (nil? (matches ([x y] :seq) '(1 2 3))))
  (is (nil? (matches ([x y] :seq) '(1))))
  (is (nil? (matches ([x y] :seq) 1)))
  (is (nil? (matches ([x] :seq) "a")))
  (is (nil? (matches ([x] :seq) nil)))
  (is (= {} (matches ([] :seq) ())))
  (is (= {} (matches ([] :seq) [])))
  (is (nil? (matches ([] :seq) nil)))
  (is (nil? (matches ([] :seq) "")))
  (is (nil? (matches ([] :seq) 1)))
  (is (= {:r ()} (matches ([& r] :seq) ())))
  (is (= {:r [1]} (matches ([& r] :seq) '(1))))
  (is (nil? (matches ([& r] :seq) {})))
  (is (= {:x 1, :y 2} (matches ([x & [y]] :seq) '(1 2))))
  (is (= {:x 1, :y 2, :r [3]} (matches ([x & [y & r]] :seq) [1 2 3])))
  (is (= {:x 1} (matches ([x & _] :seq) '(1 2))))
  (is (= {:x 1, :y 2} (matches [([x] :seq) y] ['(1) 2])))
  (is (= {:x 1, :y 2} (matches ([x {:k y}] :seq) '(1 {:k 2}))))
  (is (= {:x 1} (matches ([[:a x]] :seq) '([:a 1])))))

(defrecord Point [x y])

(deftest a-map-pattern-asks-for-its-keys-and-leaves-the-others
  (is (= {:v 1} (matches {:k v} {:k 1, :j 2})))
  (is (nil? (matches {:k v} {:j 2})))
  (is (nil? (matches {:k _} {})))
  (is (= {} (matches {:k _} {:k nil})))
  (is (= {:v nil} (matches {:k v} {:k nil})))
  (is (= {} (matches {:k nil} {:k nil})))
  (is (nil? (matches {:k nil} {})))
  (is (= {} (matches {} {:any 1})))
  (is (nil? (matches {} [])))
  (is (nil? (matches {} nil)))
  (is (nil? (matches {0 v} [5])) "a vector is no map")
  (is (= {:v 5} (matches {0 v} {0 5})))
  (is (= {:v 5} (matches {'a v} {'a 5})))
  (is (= {:v 5} (matches {"a" v} {"a" 5})))
  (is (= {:v 5} (matches {"a;b [c]/d." v} {"a;b [c]/d." 5})))
  (is (= {:v 5} (matches {:it's.odd/a+b? v} {:it's.odd/a+b? 5})))
  (is (= {:v 5} (matches {[1 2] v} {[1 2] 5})))
  (is (= {:v 5} (matches {nil v} {nil 5})))
  (is (= {:v 5} (let [k :a] (matches {k v} {:a 5}))))
  (is (= {:v 5} (matches {:a/b v} {:a/b 5})))
  (is (= {:v 5, :w 6} (matches {:k {:j v}, :i w} {:k {:j 5}, :i 6})))
  (is (= {:v 1} (matches {:x v} (->Point 1 2))))
  (is (nil? (matches {:z v} (->Point 1 2))))
  (is (= {} (let [p (->Point 1 2)] (matches p (->Point 1 2)))))
  (is (nil? (matches {:k v} (HashMap. {:k 1}))))
  (is (= {:v 1} (matches {:k v} (sorted-map :k 1)))))

(deftest only-asks-for-these-keys-and-no-others
  (is (= {:v 1} (matches ({:k v} :only [:k]) {:k 1})))
  (is (nil? (matches ({:k v} :only [:k]) {:k 1, :j 2})))
  (is (= {:v 1} (matches ({:k v} :only [:k :j]) {:k 1, :j 2})))
  (is (nil? (matches ({:k v} :only [:k :j]) {:k 1})))
  (is (= {} (matches ({} :only []) {})))
  (is (= {:v 1, :m {:k 1}} (matches (({:k v} :only [:k]) :as m) {:k 1}))))

(deftest a-regex-matches-the-whole-of-a-string
  (is (= {} (matches #"a+" "aaa")))
  (is (nil? (matches #"a+" "aab")))
  (is (nil? (matches #"a+" :aaa))))

(deftest as-names-what-a-pattern-matches
  (is (= {:v [1 2], :x 1, :y 2} (matches ([x y] :as v) [1 2])))
  (is (= {:v 1} (matches (1 :as v) 1)))
  (is (= {:v 1, :x 1} (matches (x :as v) 1)))
  (is (= {:v 2} (matches ((:or 1 2) :as v) 2)))
  (is (= {:v {:k 1}, :x 1} (matches ({:k x} :as v) {:k 1})))
  (is (= {:v '(1), :x 1} (matches (([x] :seq) :as v) '(1))))
  (is (= {:v [1 [2]], :w [2], :x 2} (matches ([1 ([x] :as w)] :as v) [1 [2]])))
  (is (= {:v 1, :w 1} (matches ((_ :as v) :as w) 1)))
  (is (nil? (let [v 5] (matches (x :as v) 6)))))

(deftest alternatives-bind-the-same-symbols
  (is (= {} (matches (:or 1 2) 2)))
  (is (nil? (matches (:or 1 2) 3)))
  (is (= {:x 1} (matches (:or [:a x] [:b x]) [:a 1])))
  (is (= {:x 2} (matches (:or [:a x] [:b x]) [:b 2])))
  (is (nil? (matches (:or [:a x] [:b x]) [:c 2])))
  (is (= {:x 1, :y 2} (matches (:or [:a x y] [:b y x]) [:b 2 1])))
  (is (= {:x 1, :y 2} (matches [(:or {:k x} [x]) y] [{:k 1} 2])))
  (is (= {:x nil} (matches (:or [:a x] [:b x]) [:a nil])))
  (is (= {} (matches [(:or 1 2) (:or 3 4)] [2 4])))
  (is (= {:x :a} (matches [x (:or [x] :none)] [:a [:a]])))
  (is (nil? (matches [x (:or [x] :none)] [:a [:b]])))
  (is (= {:x 4} (matches (:or (x :guard number?) [x]) 4)))
  (is (= {:x 3} (matches (:or (x :guard number?) [x]) [3]))))

(deftest alternatives-of-twelve-places-stay-small
  (let [form (clauses/clauses {} '(matches) [(vec (repeat 12 '(:or 1 2 3))) nil])]
    (is (> 2000 (count (tree-seq coll? seq (:matcher form)))))))

(deftest a-function-is-applied-before-its-pattern
  (is (= {} (matches (3 :<< inc) 2)))
  (is (= {:n 3} (matches (n :<< inc) 2)))
  (is (= {:y 7} (matches [({:k y} :<< :inner)] [{:inner {:k 7}}])))
  (is (nil? (matches (3 :<< inc) 3))))

;; --- symbols

(deftest a-local-matches-by-value
  (is (= {:y 2} (let [x 1] (matches [x y] [1 2]))))
  (is (nil? (let [x 1] (matches [x y] [3 2]))))
  (is (= {} (let [x [1 {:k 2}]] (matches x [1 {:k 2}]))))
  (is (= {} (loop [n 1] (if (= n 3) (matches [n] [3]) (recur (inc n))))))
  (is (= {} ((fn [x] (matches [x] [1])) 1)))
  (is (= {} (try (throw (ex-info "x" {})) (catch Exception e (let [f e] (matches [e] [f]))))))
  (is (= {} (let [f (fn [] 1)] (matches [f] [f]))))
  (is (= {} (letfn [(f [x] (matches [x] [1]))] (f 1)))))

(deftest the-name-of-an-enclosing-fn-is-not-pinned
  (is (= {:again 1, :y 2} ((fn again [_] (matches [again y] [1 2])) 0)))
  (is (= {:again 1, :y 2} ((fn again [x] ((fn [_] (matches [again y] [1 2])) x)) 0)))
  (is (= {:again 1} (((fn again [_] (fn inner [_] (matches [again] [1]))) 0) 0)))
  (is (= {:again 1} (letfn [(again [_] (matches [again] [1]))] (again 0))))
  (is (= {} ((fn again [again] (matches [again] [1])) 1)) "an argument of that name is"))

(defn again [_]
  (matches [again y] [1 2]))

(deftest the-name-of-a-var-is-not-pinned
  (is (= {:again 1, :y 2} (again 0)))
  (is (= {:name 1, :key 2} (matches [name key] [1 2]))))

(deftest this-of-a-reify-is-pinned
  (let [self (atom nil)
        callable (reify Callable (call [this] (matches [this] [@self])))]
    (is (nil? (.call callable)))
    (reset! self callable)
    (is (= {} (.call callable)))))

(deftest the-same-symbol-twice-means-equal
  (is (= {:x 1} (matches [x x] [1 1])))
  (is (= {:x 1} (matches [x x] [1 (int 1)])))
  (is (nil? (matches [x x] [1 2])))
  (is (nil? (matches [x x] [1 1.0])))
  (is (= {:x 1, :y 2} (matches [x {:k [y x]} y] [1 {:k [2 1]} 2])))
  (is (nil? (matches [x {:k [y x]} y] [1 {:k [2 1]} 3])))
  (is (= {:x 1} (matches [x & [x]] [1 1])))
  (is (= {:x nil} (matches [x x] [nil nil]))))

(deftest underscores-match-anything-and-bind-nothing
  (is (= {} (matches [_ _] [1 2])))
  (is (= {} (matches [_x _x] [1 2])))
  (is (= {} (let [_x 5] (matches [_x] [1]))))
  (is (= {} (let [_ 5] (matches [_] [1])))))

(deftest the-keywords-of-core-match-may-be-data
  (is (= {:x 1} (matches [:as x] [:as 1])))
  (is (= {:x 1} (matches [x :guard] [1 :guard])))
  (is (= {:x 1, :y 2} (matches [x ':when y] [1 :when 2])))
  (is (= {} (matches ':else :else)))
  (is (nil? (matches ':else :other))))

(deftest else-comes-last-and-matches-the-rest
  (is (= [:one :other :other] (mapv #(match % 1 :one :else :other) [1 2 :else]))))

(deftest a-hint-on-a-symbol-stays
  (is (= "A" (match ["a"] [^String s] (.toUpperCase s))))
  (is (= "B" (match {:k ["a" "b"]} {:k [_ & [^String s]]} (.toUpperCase s))))
  (is (= 6 (match [5] [^long n] (inc n)))))

;; --- guards

(deftest a-guard-asks-functions-about-its-place
  (is (= {:x 2} (matches (x :guard even?) 2)))
  (is (nil? (matches (x :guard even?) 3)))
  (is (= {:x 2} (matches (x :guard [int? even?]) 2)))
  (is (nil? (matches (x :guard [int? even?]) 2.0)))
  (is (= {:x 2} (matches (x :guard #{1 2}) 2)))
  (is (= {:x 2} (matches [:n (x :guard #(> % 1))] [:n 2])))
  (is (= {:a 1, :b 2} (matches ([a b] :guard #(= 2 (count %))) [1 2]))))

(deftest a-guard-may-use-what-the-clause-binds
  (is (= {:a 1, :b 2} (matches [a (b :guard #(< a %))] [1 2])))
  (is (nil? (matches [a (b :guard #(< a %))] [2 1])))
  (is (= {:a 3, :b 2} (matches [(a :guard #(> % b)) b] [3 2])))
  (is (= {:f even?, :x 2} (matches [f (x :guard f)] [even? 2]))))

(deftest when-is-an-expression-about-the-clause
  (is (= {:x 3} (matches ([:n x] :when (> x 2)) [:n 3])))
  (is (nil? (matches ([:n x] :when (> x 2)) [:n 2])))
  (is (= {:x 3, :y 2} (matches [(x :when (> x y)) y] [3 2])))
  (is (nil? (let [least 5] (matches ([:n x] :when (> x least)) [:n 3]))))
  (is (= {:x true} (matches ([:n x] :when x) [:n true])))
  (is (nil? (matches ([:n x] :when x) [:n false])))
  (is (nil? (let [on? false] (matches (x :when on?) 1)))))

(deftest when-with-a-function-is-a-guard-as-in-core-match
  (is (= {:x 2} (matches (x :when even?) 2)))
  (is (nil? (matches (x :when even?) 3)))
  (is (nil? (matches (x :when [int? even?]) 3)))
  (is (nil? (matches (x :when #(> % 5)) 3))))

(deftest guards-run-after-the-whole-pattern-matched
  (let [calls (atom [])
        asked #(do (swap! calls conj %) true)]
    (is (nil? (matches [(x :guard asked) :end] [1 :other])))
    (is (= [] @calls))
    (is (= {:x 1, :y 2} (matches [(x :guard asked) (y :guard asked) :end] [1 2 :end])))
    (is (= [1 2] @calls))))

(defn- failures-during
  "What the guards report while f runs: [value [[clause message] ..]]."
  [f]
  (let [reported (atom [])
        before (clauses/set-guard-hook (fn [clause error] (swap! reported conj [clause (ex-message error)])))]
    (try
      (let [value (f)] [value @reported])
      (finally (clauses/set-guard-hook before)))))

(deftest a-guard-that-throws-is-no-match-and-reported-once
  (let [line (:line (meta #'failures-during))
        receive-it (fn [message] (taking message
                                         ([:n x] :when (throw (ex-info (str "odd " x) {}))) :never
                                         [:n x] [:got x]))
        [values reports] (failures-during #(mapv receive-it [[:n 1] [:n 2] [:n 3]]))]
    (is (pos? (long line)))
    (is (= [[:got 1] [:got 2] [:got 3]] values))
    (is (= ["odd 1"] (map second reports)))
    (is (re-matches #"taking at .*match_test.clj:\d+, clause \(\[:n x\] :when \(throw .*\)\)" (ffirst reports)))))

(deftest a-failed-assertion-in-a-guard-is-no-match
  (is (= [:left 1] (update (failures-during #(taking 1 (x :guard (fn [_] (assert false))) :never)) 1 count))))

(deftest without-a-hook-guards-report-to-the-failure-hook
  (let [failures (atom [])
        before (Failures/setHook (fn [failure] (swap! failures conj failure)))]
    (try
      (is (= :left (taking 1 (x :guard (fn [_] (throw (ex-info "no" {})))) :never)))
      (finally (Failures/setHook before)))
    (is (= 1 (count @failures)))))

(deftest a-hook-of-guards-that-fails-is-reported-itself
  (let [failures (atom [])
        before (Failures/setHook (fn [failure] (swap! failures conj failure)))
        guards (clauses/set-guard-hook (fn [_ _] (throw (ex-info "hook" {}))))]
    (try
      (is (= :left (taking 1 (x :guard (fn [_] (throw (ex-info "no" {})))) :never)))
      (finally (clauses/set-guard-hook guards) (Failures/setHook before)))
    (is (= 1 (count @failures)))))

(deftest an-exit-in-a-guard-is-no-failed-guard
  (is (thrown? StackOverflowError (taking 1 (x :guard (fn [_] (throw (StackOverflowError.)))) :never)))
  (is (thrown? InterruptedException (taking 1 (x :guard (fn [_] (throw (InterruptedException.)))) :never)))
  (is (thrown? Cancelled (taking 1 (x :guard (fn [_] (throw (Cancelled. :test)))) :never))))

(deftest a-map-that-cannot-look-up-a-key-is-no-match
  (is (= :left (first (failures-during #(taking (sorted-map 1 2) {:k v} v))))))

;; --- clauses

(deftest the-first-clause-that-matches-is-taken
  (is (= :second (match [1 2] [1] :first [_ 2] :second [1 2] :third))))

(deftest a-body-runs-once-in-tail-position
  (is (= 10 (loop [n 0] (match n (k :guard #(< % 10)) (recur (inc (long k))) k k))))
  (is (= 100000 (loop [n 0, m [:count 100000]]
                  (taking m
                    [:count 0]  n
                    [:count k]  (recur (inc n) [:count (dec (long k))]))))))

(deftest match-says-what-it-could-not-match
  (let [error (try (match [:x 1] [:a b] b "text" 2) (catch IllegalArgumentException e e))]
    (is (re-matches #"match at .*match_test.clj:\d+: no clause matches \[:x 1\]; add one, or :else. The patterns are \[:a b\], \"text\"\."
                    (ex-message error)))
    (is (= {:magnetar/reason :magnetar/no-matching-clause, :value [:x 1], :patterns ["[:a b]" "\"text\""]} (ex-data error)))))

(deftest match-shortens-a-large-value
  (is (> 600 (count (ex-message (try (match (vec (repeat 1000 (apply str (repeat 1000 "x")))) 1 1)
                                     (catch IllegalArgumentException e e)))))))

(deftest match-evaluates-its-value-once
  (let [calls (atom 0)]
    (is (= 1 (match (swap! calls inc) 5 :five n n)))
    (is (= 1 @calls))))

(defmacro replying
  "A macro with a `receive` in its syntax-quote, as users write them."
  [message tag]
  `(taking ~message
     [~tag value# ~'_] [:value value#]
     [:other _#] :other
     (after 10 :late)))

(deftest clauses-stand-in-the-syntax-quote-of-a-macro
  (is (= [:value 5] (replying [:reply 5 6] :reply)))
  (is (= :other (replying [:other 5] :reply)))
  (is (= :late (replying :none :reply)))
  (is (= {} (taking [1 2] [magnetar.match-test/_ _] {}))))

(defn- parsed [& forms]
  (clauses/clauses {'pid 1, 'tag 2, '_old 3} (with-meta '(receive) {:line 7}) forms))

(deftest clauses-come-as-data
  (let [{:keys [matcher] :as found} (parsed '[tag {:pid pid} x] 'body-1 '_ 'body-2
                                            '(from (port) v 1 2) '(from other {:keys [a]}) '(after (timeout) 3 4))]
    (is (seq? matcher))
    (is (= {:clauses [{:number 0, :locals '[x], :body '[body-1]}
                      {:number 1, :locals [], :body '[body-2]}]
            :from '[{:channel (port), :local v, :body [1 2]} {:channel other, :local {:keys [a]}, :body []}]
            :after '{:timeout (timeout), :body [3 4]}
            :pinned '[[tag] []]
            :pins '[[tag pid] []]
            :text ["[tag {:pid pid} x]" "_"]}
           (dissoc found :matcher)))))

(deftest after-alone-needs-no-matcher
  (let [found (parsed '(after 10 :done))]
    (is (= `Clauses/NONE (:matcher found)))
    (is (= [] (:clauses found) (:from found)))
    (is (= '{:timeout 10, :body [:done]} (:after found)))
    (is (nil? (:after (parsed))))))

(deftest after-and-from-are-known-by-their-var-and-by-syntax-quote
  (doseq [marker '[after magnetar.actor/after some.macro.ns/after]]
    (is (= 10 (:timeout (:after (parsed 'x 1 (list marker 10))))) marker))
  (doseq [marker '[from magnetar.actor/from some.macro.ns/from]]
    (is (= 'ch (:channel (first (:from (parsed (list marker 'ch 'v)))))) marker)))

(defn after [x] [:called x])

(deftest a-function-of-the-user-named-after-may-be-called-in-a-body
  (is (= [:called 5] (taking 1 1 (after 5) (after 10 :late))))
  (is (= 6 (let [after inc] (taking 1 1 (after 5))))))

(deftest a-list-with-a-keyword-of-core-match-second-is-a-pattern
  (is (= [:then 1] (taking 1 (after :guard int?) [:then after])))
  (is (= 1 (count (:clauses (parsed '(after :as from) 'body))))))

(deftest an-answer-without-bindings-is-a-constant
  (let [matcher ^Matcher (eval (:matcher (parsed '[:a _] 1 :b 2 '[x] 3)))]
    (is (= 0 (.match matcher [:a 1])))
    (is (identical? (.match matcher :b) (.match matcher :b)))
    (is (= [2 9] (vec (.match matcher [9]))))
    (is (nil? (.match matcher :c)))))

(deftest many-bindings-come-out-in-order
  (is (= (range 8) (match (vec (range 8)) [a b c d e f g h] [a b c d e f g h]))))

;; --- binaries

(deftest RCV-22-a-binary-is-split-and-a-short-one-left
  (when (io/resource "magnetar/bits.clj")
    (let [split (binding [*ns* (the-ns 'magnetar.match-test)]
                  (eval '(fn [message]
                           (match message
                             (bits [[len 16] [body :binary len] [rest :binary]]) [len (vec body) (vec rest)]
                             [:n n (bits '[[body :binary n]])] [:inner (vec body)]
                             _ :left))))]
      (is (= [3 [97 98 99] [122]] (split (byte-array [0 3 97 98 99 122]))))
      (is (= :left (split (byte-array [0 9 1]))))
      (is (= [:inner [1 2]] (split [:n 2 (byte-array [1 2])])))
      (is (= :left (split [:n 3 (byte-array [1 2])]))))))

;; --- what core.match leaves behind

(deftest an-expansion-names-nothing-of-core-match
  (let [form (:matcher (parsed '[:a {:k x}] 1 '{:j {:k [y & r]}} 2 '([h & t] :seq) 3 '(:or 1 {:k 2}) 4))]
    (is (= [] (filter #(and (symbol? %) (= "clojure.core.match" (namespace %))) (tree-seq coll? seq form))))))

;; --- against a reader of patterns that is too simple to be wrong

(declare bindings)

(defn- each [ps vs found]
  (reduce (fn [found [p v]] (if found (bindings p v found) (reduced nil))) found (map vector ps vs)))

(defn- ordered [ps vs found]
  (let [[before [_ others]] (split-with #(not= '& %) ps)
        n (count before)]
    (cond
      others (when (<= n (count vs))
               (bindings others (if (vector? vs) (subvec vs n) (drop n vs)) (each before vs found)))
      (= n (count vs)) (each before vs found))))

(defn- bindings
  "What the pattern binds in the value besides `found`, or nil."
  [p v found]
  (when found
    (cond
      (= '_ p) found
      (symbol? p) (when (= v (get found p v)) (assoc found p v))
      (vector? p) (when (vector? v) (ordered p v found))
      (map? p) (when (and (map? v) (every? #(contains? v %) (keys p)))
                 (each (vals p) (map v (keys p)) found))
      (seq? p) (let [[x k y] p]
                 (case k
                   :seq (when (sequential? v) (ordered x v found))
                   :guard (when ((resolve y) v) (bindings x v found))
                   :as (->> found (bindings y v) (bindings x v))
                   (some #(bindings % v found) (rest p))))
      (= p v) found)))

(def ^:private atoms (gen/elements [nil 1 2 1.0 :a :b "a"]))

(def ^:private values
  (gen/recursive-gen
    (fn [inner]
      (gen/one-of [(gen/vector inner 0 3) (gen/list inner) (gen/map (gen/elements [:k :j]) inner {:max-elements 2})]))
    atoms))

(def ^:private patterns
  (gen/recursive-gen
    (fn [inner]
      (let [several (gen/vector inner 0 3)
            open (gen/let [ps several, others (gen/elements '[x y z _])] (into ps ['& others]))]
        (gen/frequency
          [[4 several] [2 open]
           [2 (gen/map (gen/elements [:k :j]) inner {:max-elements 2})]
           [1 (gen/fmap #(list % :seq) (gen/one-of [several open]))]
           [1 (gen/fmap #(list* :or %) (gen/vector atoms 1 3))]
           [1 (gen/let [p inner, f (gen/elements `[int? vector? some?])] (list p :guard f))]
           [1 (gen/let [p inner, x (gen/elements '[x y])] (list p :as x))]])))
    (gen/one-of [atoms (gen/elements '[x y z _])])))

(defn- filled
  "A generator of values that the pattern is likely to match."
  [p]
  (cond
    (symbol? p) (gen/one-of [(gen/return 1) values])
    (vector? p) (let [[before [_ others]] (split-with #(not= '& %) p)]
                  (gen/let [vs (apply gen/tuple (map filled before)), more (if others (gen/vector atoms 0 2) (gen/return []))]
                    (into (vec vs) more)))
    (map? p) (gen/fmap #(zipmap (keys p) %) (apply gen/tuple (map filled (vals p))))
    (seq? p) (if (= :or (first p)) (gen/elements (rest p)) (filled (first p)))
    :else (gen/return p)))

(defn- compiled [p]
  (let [locals (:locals (pattern/analyze {:env {}} 'message p))]
    (eval `(fn [~'message] (taking ~'message ~p ~(zipmap (map #(list 'quote %) locals) locals) ~'_ nil)))))

(deftest patterns-match-what-the-simple-reader-says
  (let [result (binding [*ns* (the-ns 'magnetar.match-test)]
                 (check/quick-check 100
                   (prop/for-all [[p vs] (gen/let [p patterns
                                                   likely (gen/vector (filled p) 3)
                                                   others (gen/vector values 3)]
                                           [p (into likely others)])]
                     (let [f (compiled p)]
                       (every? #(= (bindings p % {}) (f %)) vs)))))]
    (is (:pass? result) (pr-str (select-keys result [:seed :shrunk :result])))))

;; --- what is wrong

(def ^:private flaws
  "The forms of a `receive`, and what is said about them."
  '[([:a x])
    "the clause [:a x] has no body: write a form after the pattern."
    ([:a x] 1 [:b])
    "the clause [:b] has no body: write a form after the pattern."
    ([:a x] (after 10 1))
    "the clause [:a x] has no body: write a form after the pattern."
    ([:a x] (from ch v 1))
    "the clause [:a x] has no body: write a form after the pattern."
    (1 1 (after 10 1) (after 20 2))
    "there are two (after ..) clauses, the second one is (after 20 2): keep one, at the end."
    (1 1 (after 10 1) 2 2)
    "2 stands after the (after ..) clause: (after ..) comes last."
    ((after 10 1) (from ch v 1))
    "(from ch v 1) stands after the (after ..) clause: (after ..) comes last."
    ((from ch v 1) [:a] 2)
    "the pattern [:a] stands after a (from ..) clause: patterns come first, then (from ..), then (after ..)."
    ((after))
    "(after) has no timeout: write (after ms body ..)."
    ((from))
    "(from) has no channel: write (from channel name body ..)."
    ((from ch))
    "(from ch) has no name for the value: write (from channel name body ..)."
    ((from ch some.ns/v 1))
    "in (from ch some.ns/v 1) the name of the value is some.ns/v: write a symbol there, in a macro one with # at its end."
    (:else 1 2 2)
    ":else must be the last pattern; write ':else for the keyword itself."
    ([:a String] 1)
    "the pattern [:a String] has the symbol String, which names the class java.lang.String: to test for it write (x :guard #(instance? String %))."
    ([:a some.ns/x] 1)
    "the pattern [:a some.ns/x] has the qualified symbol some.ns/x, which can be no local: in a macro write ~'x or x#; for its value, bind that to a local first."
    ([:a &] 1)
    "in [:a &] one pattern must follow the &, and nothing else."
    ([:a & x y] 1)
    "in [:a & x y] one pattern must follow the &, and nothing else."
    ([:a & & x] 1)
    "in [:a & & x] one pattern must follow the &, and nothing else."
    (& 1)
    "in & the & stands outside of a vector: write [x & others]."
    ([x :guard even?] 1)
    "in [x :guard even?] :guard stands between two patterns: write the three as a list, (x :guard even?), or ':guard for the keyword itself."
    ([x y :as z] 1)
    "in [x y :as z] :as stands between two patterns: write the three as a list, (y :as z), or ':as for the keyword itself."
    ((foo x) 1)
    "the list (foo x) is no pattern: write it quoted for its value, or ([..] :seq), (:or ..), (p :guard f), (p :when test), (p :as x), (p :<< f), ({..} :only [..]), (bits [..])."
    ((x :guard) 1)
    "the pattern (x :guard) must have one form behind :guard."
    ((x :guard int? :as y) 1)
    "the pattern (x :guard int? :as y) must have one form behind :guard."
    (([x] :seq 2) 1)
    "the pattern ([x] :seq 2) must have nothing behind :seq."
    ((x :seq) 1)
    "in (x :seq) a vector must stand before :seq."
    ((x :only [:k]) 1)
    "in (x :only [:k]) a map must stand before :only, and a vector of its keys behind it."
    (({:k x} :only :k) 1)
    "in ({:k x} :only :k) a map must stand before :only, and a vector of its keys behind it."
    ((x :as 5) 1)
    "in (x :as 5) a symbol must stand behind :as."
    ((:or) 1)
    "(:or) has no alternatives: it would match nothing."
    ((:or [:a x] [:b y]) 1)
    "in (:or [:a x] [:b y]) the symbol x is bound by one alternative and not by another: bind the same symbols in each."
    ({k x} 1)
    "in the pattern {k x} the key k is no value: quote it, or bind it to a local first."
    ({(f) x} 1)
    "in the pattern {(f) x} the key (f) is no value: quote it, or bind it to a local first."
    (#{x 1} 1)
    "in the pattern #{x 1} the set #{x 1} is a value, and x in it is no local."])

(defn- flaw-of
  "[message data] of the flaw in the clauses, which stand at app.clj:7."
  [env & forms]
  (binding [*file* "app.clj"]
    (try (clauses/clauses env (with-meta '(receive) {:line 7}) forms)
         (catch IllegalArgumentException e
           [(ex-message e) (ex-data e)]))))

(deftest each-flaw-is-a-sentence-with-its-place-and-remedy
  (doseq [[forms sentence] (partition 2 flaws)]
    (is (= (str "receive at app.clj:7: " sentence) (first (apply flaw-of {} forms))))))

(deftest a-flaw-carries-data
  (is (= '{:magnetar/reason :magnetar/bad-clause, :macro "receive", :file "app.clj", :line 7, :clause [:a x]}
         (second (flaw-of {} '[:a x]))))
  (is (= '{:clause [:a String], :pattern String}
         (select-keys (second (flaw-of {} '[:a String] 1)) [:clause :pattern]))))

(deftest a-flaw-is-the-message-that-the-compiler-shows
  (let [error (try (eval '(magnetar.match/match 1 [:a String])) (catch Exception e e))]
    (is (= :macro-syntax-check (:clojure.error/phase (ex-data error) :macro-syntax-check)))
    (is (str/includes? (ex-message (ex-cause error)) "the clause [:a String] has no body"))))

;; --- what it costs

(defn- allocated []
  (.getThreadAllocatedBytes ^com.sun.management.ThreadMXBean (java.lang.management.ManagementFactory/getThreadMXBean)
                            (.threadId (Thread/currentThread))))

(defn- bytes-per-match [^Matcher matcher message]
  (let [rounds 20000
        round #(dotimes [_ rounds] (.match matcher message))
        _ (round)
        before (long (allocated))]
    (round)
    (quot (- (long (allocated)) before) rounds)))

(deftest matching-allocates-only-what-the-pattern-binds
  (let [{:keys [matcher]} (clauses/clauses {} '(receive) '[{:k {:j 1000}} 1
                                                           [:a x & _] 2
                                                           ([:b x] :when (nil? x)) 3
                                                           (:or [:c x] [:d x]) 4
                                                           [:f _ 'g "h" nil 2.5 100N] 5
                                                           [:x x y] 6])
        matcher (eval matcher)]
    (is (= 0 (bytes-per-match matcher {:k {:j 1}})))
    (is (= 0 (bytes-per-match matcher [:b 7])))
    (is (= 0 (bytes-per-match matcher [:f 1 'g "h" nil 2.5 100N])))
    (is (= 0 (bytes-per-match matcher [:f 1 'g "h" nil 2.6 100N])))
    (is (>= 32 (long (bytes-per-match matcher [:x 1 2]))))))

;; --- size

(defn- mixed-clause [i]
  (case (int (mod i 5))
    0 [[i 'x '& 'r] '(recur (inc n) r)]
    1 [{:kind i, :value 'x, :more {:k 'y}} '(recur (inc n) [x y])]
    2 [(list [i 'x] :when '(> x n)) '(recur (inc n) x)]
    3 [(list [i 'x 'x] :guard 'vector?) '(recur (inc n) x)]
    4 [(list [i 'x '& 'r] :seq) '(recur (inc n) r)]))

(defn- mixed-loop [n]
  `(fn [~'message]
     (loop [~'n 0, ~'message ~'message]
       (taking ~'message ~@(mapcat mixed-clause (range n)) (~'after 0 [~'n ~'message])))))

(defn- nodes [form]
  (count (tree-seq coll? seq (walk/macroexpand-all form))))

(deftest twenty-mixed-clauses-with-recur-compile-and-grow-linearly
  (binding [*ns* (the-ns 'magnetar.match-test)]
    (let [start (System/nanoTime)
          f (eval (mixed-loop 20))
          ms (quot (- (System/nanoTime) start) 1000000)]
      (println "  20 mixed clauses with recur compiled in" ms "ms")
      (is (= [1 7] (f [3 7 7])))
      (is (= [2 5] (f [0 :x 3 5 5])))
      (is (= [1 [3 9]] (f {:kind 16, :value 3, :more {:k 9}})))
      (is (= [2 2] (f [15 :x 7 2]))))
    (let [ten (nodes (mixed-loop 10))
          twenty (nodes (mixed-loop 20))
          eighty (nodes (mixed-loop 80))]
      (is (> 1.1 (/ (double (- eighty twenty)) (* 6.0 (- twenty ten))))))))
