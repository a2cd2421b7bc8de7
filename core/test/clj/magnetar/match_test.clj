(ns magnetar.match-test
  "Patterns: what they match, what they bind, and guards."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.impl.match.clauses :as clauses]
   [magnetar.impl.runtime]
   [magnetar.match :refer [match]]
   [magnetar.match-support :refer [matches taking]]
   [magnetar.support :refer [with-failures]])
  (:import
   (java.util ArrayList HashMap)
   (magnetar.kernel.fiber Cancelled)))

(set! *warn-on-reflection* true)

;; --- what matches what

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
  (is (= {:y 2} (let [x 1] (matches [x x [x y]] [1 1 [1 2]]))))
  (is (nil? (let [x 1] (matches [x x] [1 2]))))
  (is (= {} (let [x 1] (matches #{x [x 'y]} #{1 [1 'y]}))))
  (is (= {:y 2} (let [x 1] (matches {[x 'k] y} {[1 'k] 2}))))
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
  (with-failures [failures]
    (is (= :left (taking 1 (x :guard (fn [_] (throw (ex-info "no" {})))) :never)))
    (is (= 1 (count @failures)))))

(deftest a-hook-of-guards-that-fails-is-reported-itself
  (with-failures [failures]
    (let [guards (clauses/set-guard-hook (fn [_ _] (throw (ex-info "hook" {}))))]
      (try
        (is (= :left (taking 1 (x :guard (fn [_] (throw (ex-info "no" {})))) :never)))
        (finally (clauses/set-guard-hook guards))))
    (is (= 1 (count @failures)))))

(deftest an-exit-in-a-guard-is-no-failed-guard
  (is (thrown? StackOverflowError (taking 1 (x :guard (fn [_] (throw (StackOverflowError.)))) :never)))
  (is (thrown? InterruptedException (taking 1 (x :guard (fn [_] (throw (InterruptedException.)))) :never)))
  (is (thrown? Cancelled (taking 1 (x :guard (fn [_] (throw (Cancelled. :test)))) :never))))

(deftest a-map-that-cannot-look-up-a-key-is-no-match
  (is (= :left (first (failures-during #(taking (sorted-map 1 2) {:k v} v))))))
