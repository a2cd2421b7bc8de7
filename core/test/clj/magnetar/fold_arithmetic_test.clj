(ns magnetar.fold-arithmetic-test
  "Folds of Clojure's own arithmetic, give what transduce gives."
  (:require
   [clojure.test :refer [deftest is]]
   [clojure.test.check :as check]
   [clojure.test.check.generators :as gen]
   [clojure.test.check.properties :as prop]
   [magnetar.fold :as fold]))

(set! *warn-on-reflection* true)

(def ^:private stages
  {'even (filter even?), 'odd (filter odd?), 'pos (filter pos?), 'neg (filter neg?), 'zero (filter zero?)
   'not-even (remove even?), 'not-odd (remove odd?), 'not-pos (remove pos?)
   'inc (map inc), 'dec (map dec), 'minus (map -), 'inc' (map inc'), 'dec' (map dec')})

(defn- pipeline [names]
  (apply comp (map stages names)))

(def ^:private totals
  {'+ [+ +], '+' [+' +'], '* [* *]
   'max [max (fn ([] Long/MIN_VALUE) ([a b] (max a b)))]
   'min [min (fn ([] Long/MAX_VALUE) ([a b] (min a b)))]})

(def ^:private number
  (gen/frequency [[20 (gen/choose -3 3)]
                  [1 (gen/elements [Long/MAX_VALUE Long/MIN_VALUE (dec Long/MAX_VALUE)])]
                  [1 (gen/elements [(int 3) (short 2) (biginteger 4) 5N (bigint Long/MAX_VALUE)])]]))

(defn- outcome [f]
  (try
    (f)
    (catch Exception e
      (or (some-> (ex-cause e) class) (class e)))))

(deftest arithmetic-over-any-integers-gives-what-transduce-gives
  (let [same (prop/for-all [names (gen/vector (gen/elements (keys stages)) 0 4)
                            total (gen/elements (keys totals))
                            xs (gen/vector number 0 200)]
               (let [[f combine] (totals total)
                     xform (pipeline names)]
                 (= (outcome #(transduce xform (completing f) (combine) xs))
                    (outcome #(fold/transduce xform combine f xs {:chunk 1000 :parallelism 2})))))
        result (check/quick-check 400 same)]
    (is (:pass? result) (pr-str (:shrunk result)))))

(deftest an-overflow-is-found-at-its-element
  (is (= {:position 40 :element 2}
         (try
           (fold/transduce (map inc) + + (-> (vec (repeat 100 0)) (assoc 3 (- Long/MAX_VALUE 42)) (assoc 40 2))
                           {:chunk 100 :parallelism 2})
           (catch clojure.lang.ExceptionInfo e
             (select-keys (ex-data e) [:position :element]))))))

(deftest numbers-that-are-no-longs-are-added-from-where-they-begin
  (is (= 1000.5 (fold/transduce identity + + (assoc (vec (repeat 1000 1)) 700 1.5) {:parallelism 2})))
  (is (= 5050N (fold/transduce identity + + (mapv bigint (range 101)) {:parallelism 2})))
  (is (= (+' Long/MAX_VALUE 100) (fold/transduce identity +' +' (conj (vec (repeat 100 1)) Long/MAX_VALUE)
                                                 {:parallelism 2}))))
