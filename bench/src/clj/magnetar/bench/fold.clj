(ns magnetar.bench.fold
  "`magnetar.fold` beside `clojure.core.reducers`, `clojure.core/transduce` and `bound-fn*`: ratios of one run.

  The variants of a comparison run in turn, the order turned round from one round to the next; each round gives one ratio, the median
  of the rounds is printed with the least and the greatest. Experiments A3, C1 and F of the articles are among them."
  (:require
   [clojure.core.reducers :as r]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.bench.statistics :as statistics]
   [magnetar.fold :as fold]
   [magnetar.scope.context :refer [defcontext with-context]])
  (:import
   (java.io File)))

(set! *warn-on-reflection* true)

;; ---- measuring

(defn- millis [f]
  (let [start (System/nanoTime)]
    (f)
    (/ (- (System/nanoTime) start) 1e6)))

(defn- one-round [variants round]
  (let [order (cond-> (seq variants) (odd? (long round)) reverse)]
    (into {} (map (fn [[name f]] (System/gc) [name (millis f)])) order)))

(defn- run-rounds [variants warm-ups n]
  (dotimes [i warm-ups] (one-round variants i))
  (mapv #(one-round variants %) (range n)))

(defn- ratio [results [title ours theirs target]]
  (assoc (statistics/spread (map #(/ (double (get % ours)) (double (get % theirs))) results))
         :title title :target target))

(defn- report [results ratios]
  (doseq [name (keys (first results))]
    (println (format "  %-28s %9.1f ms" name (double (statistics/median (map #(get % name) results))))))
  (doseq [{:keys [title median target] :as row} (map #(ratio results %) ratios)]
    (println (format "  %-40s %.2f (%.2f to %.2f)%s" title (double median) (double (:min row)) (double (:max row))
                     (if target (str ", target " target) "")))))

(defn compare-variants
  "Runs the variants, a map from name to function, and prints medians and the ratios [title ours theirs target].

  Example: (compare-variants {\"a\" f \"b\" g} [[\"a / b\" \"a\" \"b\" 0.6]] {:warm-ups 3 :rounds 7})"
  [variants ratios {:keys [warm-ups rounds] :or {warm-ups 4 rounds 9}}]
  (let [results (run-rounds variants warm-ups rounds)]
    (report results ratios)
    results))

;; ---- C1: the evens, incremented and summed

(defn evens
  "fold over a vector of n numbers beside the sequential transduce and reducers.

  Example: (evens 10000000 {})"
  [n settings]
  (let [v (vec (range n))
        xform (comp (filter even?) (map inc))]
    (println "sum of incremented evens of a vector of" n)
    (compare-variants {"fold/transduce" #(fold/transduce xform + v)
                       "transduce" #(transduce xform + v)
                       "reducers/fold" #(r/fold + (r/map inc (r/filter even? v)))}
                      [["fold / sequential transduce" "fold/transduce" "transduce" 0.6]
                       ["fold / reducers" "fold/transduce" "reducers/fold" 0.6]]
                      settings)))

;; ---- A3: factors, over a lazy seq

(defn- smallest-factor ^long [^long n]
  (loop [i 2]
    (cond
      (< n (* i i)) n
      (zero? (rem n i)) i
      :else (recur (inc i)))))

(defn- largest-factor [^long n]
  (loop [n n]
    (let [i (smallest-factor n)]
      (if (= i n) n (recur (quot n i))))))

(defn factors
  "n computations over a lazy seq, which reducers do not run in parallel.

  Example: (factors 1000 {:rounds 5})"
  [n settings]
  (let [numbers #(map identity (repeat n (* 29 982451653)))
        step (fn [acc x] (update acc (largest-factor x) (fnil inc 0)))
        both (r/monoid (partial merge-with +) hash-map)]
    (println "factors of" n "numbers of a lazy seq")
    (compare-variants {"fold/fold" #(fold/fold both step (numbers))
                       "reduce" #(reduce step {} (numbers))
                       "reducers/fold" #(r/fold both step (numbers))}
                      [["fold / reduce" "fold/fold" "reduce" 0.6]
                       ["fold / reducers" "fold/fold" "reducers/fold" 0.6]]
                      settings)))

;; ---- F: pmap and what travels with it

(def ^:dynamic ^:private *context* nil)
(defcontext context)

(def ^:private values
  {:increase 1 :colors {:red 1 :blue 2 :green 3} :a "A bunch of context stuff" :b "B bunch of context stuff" :c "C bunch of context stuff"})

(defn- add-dynamic [x]
  (+ (long x) (long (:increase *context*))))

(defn travel
  "pmap of n elements, each on a fiber of its own, whose function finds a number in an argument, a context value, a dynamic var.

  Example: (travel 500000 {})"
  [n settings]
  (let [coll (vec (repeat n 1))]
    (println "pmap of" n "elements")
    (compare-variants {"explicit" #(let [c values] (fold/pmap (fn [x] (+ (long x) (long (:increase c)))) coll))
                       "context" #(with-context [context values]
                                    (fold/pmap (fn [x] (+ (long x) (long (:increase @context)))) coll))
                       "frame" #(binding [*context* values] (fold/pmap add-dynamic coll))
                       "bound-fn*" #(binding [*context* values] (fold/pmap (bound-fn* add-dynamic) coll))}
                      [["context value / explicit" "context" "explicit" 1.25]
                       ["binding frame / explicit" "frame" "explicit" 1.4]
                       ["context value / bound-fn*" "context" "bound-fn*" 0.1]
                       ["binding frame / bound-fn*" "frame" "bound-fn*" 0.1]]
                      settings)))

;; ---- words of a file

(defn- text-file ^File [megabytes]
  (let [file (doto (File/createTempFile "words" ".txt") .deleteOnExit)
        words (mapv #(str "word" %) (range 5000))
        random (java.util.Random. 7)
        line #(str/join " " (repeatedly 12 (fn [] (words (.nextInt random 5000)))))
        block (str (str/join "\n" (repeatedly 10000 line)) "\n")]
    (with-open [out (io/writer file)]
      (dotimes [_ (quot (* (long megabytes) 1000000) (count block))]
        (.write out block)))
    file))

(defn- count-words [counts line]
  (reduce (fn [counts word] (assoc counts word (inc (long (get counts word 0))))) counts (str/split line #" ")))

(defn words
  "Word count of a file of so many megabytes beside reading its lines into a vector and r/fold over that, both from the file.

  Example: (words 100 {:rounds 5})"
  [megabytes settings]
  (let [file (text-file megabytes)
        merge-counts (r/monoid (partial merge-with +) hash-map)
        lines #(with-open [reader (io/reader file)] (into [] (line-seq reader)))]
    (println "word count of" megabytes "MB")
    (compare-variants {"fold over lines" #(fold/fold merge-counts count-words (fold/lines file))
                       "r/fold over a vector" #(r/fold merge-counts count-words (lines))}
                      [["fold / vector and r/fold" "fold over lines" "r/fold over a vector" 0.7]]
                      settings)))

(defn run
  "Runs all comparisons and prints their tables; minutes.

  Example: (run {:rounds 7})"
  [settings]
  (evens 10000000 settings)
  (travel 500000 settings)
  (factors 1000 settings)
  (words 100 settings))
