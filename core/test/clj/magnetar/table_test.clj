(ns magnetar.table-test
  "Tables as one process sees them: rows, keys, order, patterns, counters, and what is refused."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [after receive]]
   [magnetar.impl.table.keys :as keys]
   [magnetar.table :as table])
  (:import
   (clojure.lang ExceptionInfo IExceptionInfo)))

(set! *warn-on-reflection* true)

(use-fixtures :each (fn [test] (actor/with-process {} (test))))

(def ^:private kinds [:set :ordered-set :bag :duplicate-bag])

(defn- with-rows [kind rows]
  (doto (table/create kind)
    (table/insert-all rows)))

(defn- all [t]
  (into [] (table/rows t)))

(defn- refused
  "[reason message] of the misuse that f is."
  [f]
  (try
    [:done (f)]
    (catch RuntimeException e
      [(:magnetar/reason (.getData ^IExceptionInfo e)) (ex-message e)])))

;; ---- rows and keys

(deftest ^{:spec ["C120"]} a-set-has-one-row-for-a-key-a-bag-different-ones-a-duplicate-bag-any
  (are [kind rows] (= rows (let [t (with-rows kind [[:a 1]])]
                             (run! #(table/insert t %) [[:a 2] [:a 1] [:a 1]])
                             (table/lookup t :a)))
    :set [[:a 1]]
    :ordered-set [[:a 1]]
    :bag [[:a 1] [:a 2]]
    :duplicate-bag [[:a 1] [:a 2] [:a 1] [:a 1]]))

(deftest ^{:spec ["C121"]} keys-are-those-that-are-equal-in-clojure
  (doseq [kind [:set :bag :duplicate-bag]]
    (let [t (with-rows kind [[1 :long] [[1 2] :vector] [nil :nil] [1.5 :double]])]
      (are [k rows] (= rows (table/lookup t k))
        (int 1) [[1 :long]]
        1N [[1 :long]]
        (biginteger 1) [[1 :long]]
        1.0 []
        '(1 2) [[[1 2] :vector]]
        [(int 1) 2N] [[[1 2] :vector]]
        nil [[nil :nil]]
        (float 1.5) [[1.5 :double]]
        {} []))))

(deftest ^{:spec ["C121"]} in-an-ordered-set-keys-are-the-same-that-have-the-same-place
  (let [t (with-rows :ordered-set [[1 :long] [nil :nil]])]
    (is (= [[1 :long]] (table/lookup t 1.0)))
    (table/insert t [1.0 :double])
    (is (= [[1.0 :double] [nil :nil]] (all t)))
    (is (= [[nil :nil]] (table/lookup t nil)))))

(deftest ^{:spec ["C121"]} the-order-of-keys-is-that-of-erlang-as-far-as-there-are-such-terms
  (let [ascending [##-Inf -1 0 1/3 0.5 1 9007199254740992.0 9007199254740993 10000000000000000000000N ##Inf
                   nil false true :a :b :a/a 'a (actor/make-ref) (actor/self)
                   [] [2] [1 1] [1 2] {} {2 :x} {1.0 :x} {:b 1} {:a 1 :b 0} {:a 1 :b 1} #{} #{2} #{1 3} \a \b "" "a" "aa" "b"]]
    (is (= ascending (sort keys/order (shuffle ascending))))
    (is (= ascending (map first (all (with-rows :ordered-set (map vector (shuffle ascending)))))))
    (doseq [a ascending, b ascending]
      (is (= (compare (.indexOf ^java.util.List ascending a) (.indexOf ^java.util.List ascending b))
             (Long/signum (long (keys/order a b))))
          (pr-str a b)))))

(deftest ^{:spec ["C121"]} what-has-no-order-is-no-key-of-an-ordered-set-and-nan-of-no-table
  (let [t (table/create :ordered-set)]
    (is (= :magnetar/no-order (first (refused #(table/insert t [(Object.) 1])))))
    (is (= :magnetar/no-order (first (refused #(table/insert-all t [[1 1] [(Object.) 1]])))))
    (is (= [] (all t)) "and nothing of the others is inserted"))
  (doseq [kind kinds]
    (is (= :magnetar/bad-key (first (refused #(table/insert (table/create kind) [##NaN 1])))))))

(deftest ^{:spec ["C121"]} maps-of-which-one-has-1-for-a-key-and-one-1.0-are-two-keys
  (is (= [[{1 :a} :long] [{1.0 :a} :double]] (all (with-rows :ordered-set [[{1.0 :a} :double] [{1 :a} :long]])))))

(defrecord Place [x y])

(deftest ^{:spec ["C121"]} records-have-an-order-too
  (let [t (with-rows :ordered-set [[(->Place 2 1) :c] [(->Place 1 2) :b] [(->Place 1 1) :a]])]
    (is (= [:a :b :c] (map second (all t))))
    (is (= [[(->Place 1 2) :b]] (table/lookup t (->Place 1 2))))))

(deftest rows-may-be-maps-with-the-key-at-a-name
  (let [t (table/create :set {:key :id})]
    (table/insert t {:id 7 :hits 1})
    (is (= 3 (table/update-counter t 7 [:hits 2])))
    (is (table/update-element t 7 {:name "seven"}))
    (is (= [{:id 7 :hits 3 :name "seven"}] (table/lookup t 7)))
    (is (= ["seven"] (table/select t (table/query {:id 7, :name n} n))))
    (is (= :magnetar/bad-row (first (refused #(table/insert t [7 1])))))
    (is (= :magnetar/bad-counter (first (refused #(table/update-counter t 7 1)))))))

(deftest a-key-may-stand-anywhere-in-a-row
  (let [t (table/create :set {:key 1})]
    (table/insert t [:x :k 0])
    (is (= 1 (table/update-counter t :k 1)))
    (is (= [[:x :k 1]] (table/lookup t :k)))
    (is (= :magnetar/bad-row (first (refused #(table/insert t [:alone])))))))

;; ---- writes

(deftest ^{:spec ["C122"]} many-rows-are-inserted-if-all-their-keys-are-new-or-none
  (doseq [kind kinds]
    (let [t (with-rows kind [[:a 1]])]
      (is (false? (table/insert-all-new t [[:b 1] [:a 2] [:c 1]])))
      (is (= [[:a 1]] (all t)))
      (is (true? (table/insert-all-new t [[:b 1] [:c 1]])))
      (is (= 3 (:size (table/info t)))))))

(deftest inserting-nothing-changes-nothing
  (let [t (table/create :bag)]
    (is (true? (table/insert-all t [])))
    (is (true? (table/insert-all t nil)))
    (is (true? (table/insert-all-new t [])))
    (is (= 0 (:size (table/info t))))))

(deftest ^{:spec ["C123"]} a-counter-is-changed-several-times-at-once-with-thresholds-and-a-default
  (doseq [kind [:set :ordered-set]]
    (let [t (with-rows kind [[:n 0 10]])]
      (are [change sums] (= sums (table/update-counter t :n change))
        5 5
        [1 5] 10
        [[1 1] [2 -1]] [11 9]
        [1 1 11 0] 0
        [2 -10 0 100] 100
        [1 0 -1 7] 7
        [] [])
      (is (= 1 (table/update-counter t :turn [1 1 2 0] [:whatever 0])))
      (is (= 2 (table/update-counter t :turn [1 1 2 0] [:whatever 0])))
      (is (= 0 (table/update-counter t :turn [1 1 2 0] [:whatever 0])))
      (table/insert t [:big Long/MAX_VALUE])
      (is (= [9223372036854775808N 9223372036854775808N Long/MAX_VALUE 0 -9223372036854775809N Long/MIN_VALUE]
             (mapv #(table/update-counter t :big [1 %]) [1 0 -1 (- Long/MAX_VALUE) -9223372036854775809N 1])))
      (is (= [5N 7] (table/update-counter t :big [[1 0 -10000000000000000000N 5N] [1 2]]))))))

(deftest ^{:spec ["C123"]} a-change-that-will-not-do-changes-nothing
  (let [t (with-rows :set [[:n 0 :x]])]
    (are [reason change] (= reason (first (refused #(table/update-counter t :n change))))
      :magnetar/bad-place [0 1]
      :magnetar/bad-place [3 1]
      :magnetar/bad-counter [2 1]
      :magnetar/bad-counter [1]
      :magnetar/bad-counter [1 2.5]
      :magnetar/bad-counter :one
      :magnetar/bad-counter [[1 1] [2 1]])
    (is (= [[:n 0 :x]] (all t)))
    (is (= :magnetar/no-such-row (first (refused #(table/update-counter t :m 1)))))
    (is (= :magnetar/bad-kind (first (refused #(table/update-counter (table/create :bag) :n 1)))))))

(deftest elements-are-replaced-and-rows-swapped-if-they-are-what-they-were
  (let [t (with-rows :set [[:n 0 :x]])]
    (is (true? (table/update-element t :n {1 5, 2 :y})))
    (is (false? (table/update-element t :m {1 5})))
    (is (true? (table/update-element t :m {1 5} [:any 0])))
    (is (= [[:m 5]] (table/lookup t :m)))
    (is (true? (table/compare-and-swap t [:n 5 :y] [:n 6 :z])))
    (is (false? (table/compare-and-swap t [:n 5 :y] [:n 7 :z])))
    (is (false? (table/compare-and-swap t [:o 5] [:o 7])))
    (is (= [[:n 6 :z]] (table/lookup t :n)))
    (is (= :magnetar/bad-row (first (refused #(table/compare-and-swap t [:n 6 :z] [:m 6 :z])))))))

(deftest rows-are-taken-out-by-key-by-value-and-all
  (are [kind left] (= left (let [t (with-rows kind [[:a 1] [:a 2] [:b 1]])]
                             (table/delete-object t [:a 2])
                             (table/delete-object t [:b 2])
                             [(table/take t :a) (table/take t :a) (all t) (:size (table/info t))]))
    :set [[] [] [[:b 1]] 1]
    :ordered-set [[] [] [[:b 1]] 1]
    :bag [[[:a 1]] [] [[:b 1]] 1]
    :duplicate-bag [[[:a 1]] [] [[:b 1]] 1])
  (let [t (with-rows :bag [[:a 1] [:a 2]])]
    (is (true? (table/delete t :a)))
    (is (true? (table/delete t :a)))
    (table/insert t [:b 1])
    (is (true? (table/delete-all t)))
    (is (= [[] 0] [(all t) (:size (table/info t))]))))

;; ---- reads

(deftest elements-are-looked-up-with-and-without-a-default
  (let [t (with-rows :set [[:a 1]])
        bag (with-rows :bag [[:a 1] [:a 2]])]
    (is (= 1 (table/lookup-element t :a 1)))
    (is (= [1 2] (table/lookup-element bag :a 1)))
    (is (= :none (table/lookup-element t :b 1 :none)))
    (is (= :magnetar/no-such-row (first (refused #(table/lookup-element t :b 1)))))
    (is (= :magnetar/bad-place (first (refused #(table/lookup-element t :a 2)))))
    (is (= [true false] [(table/member? t :a) (table/member? t :b)]))))

(deftest ^{:spec ["C124"]} neighbours-and-ranges-of-an-ordered-set
  (let [t (with-rows :ordered-set (for [i [30 10 20 40]] [i]))]
    (is (= [10 40] [(table/first t) (table/last t)]))
    (is (= [20 20 nil] (map #(table/next t %) [10 15 40])))
    (is (= [30 30 nil] (map #(table/prev t %) [40 35 10])))
    (are [options ks] (= ks (map first (table/rows t options)) (table/select t (table/query [k] k) options))
      {} [10 20 30 40]
      {:reverse true} [40 30 20 10]
      {:from 20} [20 30 40]
      {:after 20} [30 40]
      {:to 20} [10 20]
      {:below 20} [10]
      {:from 20 :below 40} [20 30]
      {:after 10 :to 30 :reverse true} [30 20]
      {:from 40 :to 10} [])
    (is (= [nil nil nil nil] (let [t (table/create :ordered-set)] [(table/first t) (table/last t) (table/next t 1) (table/prev t 1)])))
    (is (= [[1 2]] (map first (table/rows (with-rows :ordered-set [[[1 2]] [[2]] [[1 2 3]]]) {:from [1 0] :to [1 9]}))))))

(deftest rows-can-be-reduced-again-and-again-and-stopped
  (let [t (with-rows :bag [[:a 1] [:a 2] [:b 3]])
        rows (table/rows t)]
    (is (= 6 (reduce (fn [n [_ m]] (+ n m)) 0 rows)))
    (table/insert t [:c 4])
    (is (= 10 (transduce (map second) + rows) (reduce + (map second rows))))
    (is (= 1 (reduce (fn [n _] (reduced (inc n))) 0 rows)))
    (is (= 2 (count (into [] (take 2) rows))))))

;; ---- patterns

(deftest ^{:spec ["C125"]} a-query-gives-what-stands-beside-the-first-pattern-that-matches
  (doseq [kind kinds]
    (let [t (with-rows kind [[:a 1] [:b 2] [:c 3 :more] [[:user 7] 4]])
          wanted :b]
      (is (= #{[:low :a] [:b 2] [:user 7]}
             (set (table/select t (table/query
                                    ([k n] :when (< n 2)) [:low k]
                                    ([wanted _] :as row) row
                                    [[:user id] _] [:user id])))))
      (is (= [2] (table/select t (table/query [wanted n] n))))
      (is (= [4] (table/select t (table/query [[:user 7] n] n))))
      (is (= [] (table/select t (table/query [:nobody n] n))))
      (is (= [nil] (table/select t (table/query [:a _] nil))))
      (is (= 3 (table/select-count t (table/query [_ n] n))))
      (is (= 2 (table/select-delete t (table/query ([_ n] :when (even? n)) true [_ _] false))))
      (is (= #{[:a 1] [:c 3 :more]} (set (all t)))))))

(deftest ^{:spec ["C125"]} a-large-result-comes-in-parts
  (doseq [kind kinds]
    (let [t (with-rows kind (for [i (range 10)] [i (* i i)]))
          q (table/query ([i n] :when (even? i)) n)
          [one more] (table/select t q {:limit 2})
          [two more2] (table/select more)
          [three end] (table/select more2)]
      (is (= [2 2 1 nil] [(count one) (count two) (count three) end]))
      (is (= #{0 4 16 36 64} (set (concat one two three))))
      (is (= two (first (table/select more))) "again from the same place")
      (is (= [[] nil] (table/select (with-rows kind []) q {:limit 3}))))))

(deftest ^{:spec ["C125"]} a-row-is-found-once-also-if-two-patterns-say-its-key
  (let [[whole broken] [1 1.0]]
    (is (= [:x] (table/select (with-rows :ordered-set [[1 :x]]) (table/query [whole x] x [broken x] x)))))
  (let [[single double] [(float 1.5) 1.5]]
    (is (= [:x] (table/select (with-rows :set [[1.5 :x]]) (table/query [single x] x [double x] x))))))

(deftest ^{:spec ["C124" "C125"]} the-next-part-has-nothing-of-what-was-deleted-as-a-whole
  (doseq [kind kinds]
    (let [t (with-rows kind (map vector (range 100)))
          [_ more] (table/select t (table/query [k] k) {:limit 3})]
      (table/delete-all t)
      (is (= [[] nil] (table/select more))))))

(deftest a-pattern-with-its-key-looks-at-no-other-row
  (let [looked (atom 0)
        t (with-rows :set (for [i (range 100)] [i i]))]
    (is (= [7] (table/select t (table/query ([7 n] :when (swap! looked inc)) n))))
    (is (= 1 @looked))))

;; ---- what is refused

(deftest ^{:spec ["C129"]} misuse-names-culprit-place-and-remedy
  (let [t (with-rows :set [[:a 1]])]
    (are [reason words f] (let [[r message] (refused f)]
                            (is (= reason r))
                            (is (str/includes? message words) message))
      :magnetar/bad-option "is :set, :ordered-set, :bag, :duplicate-bag; this is :sett" #(table/create :sett)
      :magnetar/unknown-option "its options are" #(table/create :set {:acces :public})
      :magnetar/bad-option "is :public, :protected, :private" #(table/create :set {:access :secret})
      :magnetar/bad-option "an index from 0 up" #(table/create :set {:key nil})
      :magnetar/bad-option "this is -1" #(table/create :set {:key -1})
      :magnetar/bad-row "this is 5" #(table/update-element t :z {1 1} 5)
      :magnetar/bad-row "this is []" #(table/update-counter t :z 1 [])
      :magnetar/bad-place "has nothing at 1" #(table/update-counter t :z 1 [:z])
      :magnetar/bad-heir "is [pid data]" #(table/create :set {:heir (actor/self)})
      :magnetar/bad-heir "the pid of the heir" #(table/set-heir t (actor/self))
      :magnetar/bad-name "a keyword or a symbol" #(table/create :set {:name "scores"})
      :magnetar/no-such-table "no table named :nobody" #(table/lookup :nobody 1)
      :magnetar/no-such-table "this is 7" #(table/insert 7 [1])
      :magnetar/no-such-table "this is nil" #(table/lookup nil 1)
      :magnetar/bad-row "a vector with its key at 0; this is :a" #(table/insert t :a)
      :magnetar/bad-row "this is []" #(table/insert t [])
      :magnetar/bad-rows "a collection of rows" #(table/insert-all t 5)
      :magnetar/bad-row "this is :a" #(table/insert-all t [[:b 1] :a])
      :magnetar/bad-kind "only an :ordered-set has ranges" #(table/rows t {:from 1})
      :magnetar/bad-kind "keys have no order" #(table/first t)
      :magnetar/not-a-query "wants a query" #(table/select t [:a '_])
      :magnetar/not-a-query "goes on with what came second" #(table/select nil)
      :magnetar/bad-option ":limit is a whole number" #(table/select t (table/query [k] k) {:limit 0})
      :magnetar/bad-place "{1 :x}" #(table/update-element t :a [1 :x]))
    (is (= [[:a 1]] (all t)))))

(deftest the-data-of-a-refused-option-has-its-path-and-value
  (are [option value f] (= {option value :path [option] :value value :magnetar/reason :magnetar/bad-option}
                           (try (f) (catch IllegalArgumentException e (ex-data e))))
    :kind :sett #(table/create :sett)
    :access :secret #(table/create :set {:access :secret})
    :key -1 #(table/create :set {:key -1})))

(deftest ^{:spec ["C129"]} in-a-transaction-nothing-is-written
  (let [t (with-rows :set [[:a 1]])]
    (dosync (is (= [[:a 1]] (table/lookup t :a))))
    (is (= :magnetar/in-transaction (first (refused #(dosync (table/insert t [:b 1]))))))))

(deftest a-pattern-that-is-wrong-says-so-when-it-is-compiled
  (let [why (try (eval '(magnetar.table/query [k n :when (< 3 n)] k)) (catch ExceptionInfo e e) (catch Exception e (ex-cause e)))]
    (is (re-find #"query at .*:when" (str (ex-message why) (some-> why ex-cause ex-message))))))

(deftest tables-print-what-they-are
  (let [t (table/create :set {:name ::printed})]
    (is (re-matches #"#magnetar/table \"[\d.]+ set :magnetar.table-test/printed\"" (pr-str t)))
    (is (re-find #"#<rows of" (pr-str (table/rows t))))
    (is (= "#<query [k v], [:x]>" (pr-str (table/query [k v] k [:x] 1))))
    (is (= :quiet (receive (after 0 :quiet))))))
