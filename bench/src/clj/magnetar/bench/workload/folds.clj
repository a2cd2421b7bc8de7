(ns magnetar.bench.workload.folds
  "What `magnetar.fold` is measured with, beside Clojure's own."
  (:require
   [clojure.core.reducers :as r]
   [clojure.java.io :as io]
   [magnetar.bench.child :as child]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.workload.words :as words]
   [magnetar.fold :as fold])
  (:import
   (java.io File)))

(set! *warn-on-reflection* true)

;; ---- C1, C2: the evens, incremented and summed

(def ^:private evens-incremented (comp (filter even?) (map inc)))

(defn evens
  "A vector of n numbers, with Clojure's own functions.

  Example: (evens 10000000)"
  [n]
  (let [v (vec (range n))]
    [["fold" #(fold/transduce evens-incremented + v)]
     ["transduce" #(transduce evens-incremented + v)]
     ["r/fold" #(r/fold + (r/map inc (r/filter even? v)))]
     ["r/fold, transducer" #(r/fold + (evens-incremented +) v)]
     ["lazy seqs" #(reduce + (map inc (filter even? v)))]
     ["reducers" #(reduce + (r/map inc (r/filter even? v)))]
     ["one hand-fused function" #(reduce (fn [sum x] (if (even? x) (+ (long sum) (inc (long x))) sum)) 0 v)]]))

(defn evens-of-range
  "The same over a range.

  Example: (evens-of-range 10000000)"
  [n]
  [["fold" #(fold/transduce evens-incremented + (range n))]
   ["transduce" #(transduce evens-incremented + (range n))]
   ["lazy seqs" #(reduce + (map inc (filter even? (range n))))]
   ["reducers" #(reduce + (r/map inc (r/filter even? (range n))))]])

(defn- third? [x] (zero? (long (rem (long x) 3))))
(defn- weigh [x] (bit-xor (* 7 (long x)) 5))
(defn- add ([] 0) ([a] a) ([a b] (+ (long a) (long b))))

(defn own-functions
  "A vector of n numbers, with functions of the program's own.

  Example: (own-functions 10000000)"
  [n]
  (let [v (vec (range n))
        xform (comp (filter third?) (map weigh))]
    [["fold" #(fold/transduce xform add v)]
     ["transduce" #(transduce xform add v)]
     ["r/fold" #(r/fold add (r/map weigh (r/filter third? v)))]]))

;; ---- A3: factors of the elements of a lazy seq

(defn- factors
  "The divisors of n up to its root, by trial division."
  [^long n]
  (let [root (long (Math/sqrt (double n)))]
    (loop [i 2 found []]
      (cond
        (> i root) found
        (zero? (rem n i)) (recur (inc i) (conj found i))
        :else (recur (inc i) found)))))

(defn lazy-factors
  "n factorisations over a lazy seq.

  Example: (lazy-factors 1000)"
  [n]
  (let [numbers #(map identity (repeat n (* 29 982451653)))
        step (fn [counts x] (update counts (factors x) (fnil inc 0)))
        both (r/monoid (partial merge-with +) hash-map)]
    [["fold" #(fold/fold both step (numbers))]
     ["reduce" #(reduce step {} (numbers))]
     ["r/fold" #(r/fold both step (numbers))]]))

(defn lazy-cheap
  "n cheap elements of a lazy seq.

  Example: (lazy-cheap 1000000)"
  [n]
  [["fold" #(fold/fold + (map inc (range n)))]
   ["reduce" #(reduce + (map inc (range n)))]
   ["r/fold" #(r/fold + (map inc (range n)))]])

;; ---- the words of a file, each count in a JVM of its own

(defn- count-in-child
  [heap how ^File file]
  (read-string
    (child/output [(machine/java-command) heap "-cp" (System/getProperty "java.class.path")
                   "clojure.main" "-m" "magnetar.bench.workload.words" how file])))

(defn words-of-file
  "The words of a text file of so many megabytes, which is there as long as this JVM.

  Example: (words-of-file 1000)"
  [megabytes]
  (let [file (doto (File/createTempFile "magnetar-words" ".txt") (.deleteOnExit))]
    (words/write-text file megabytes)
    (with-open [in (io/input-stream file)] ; so that no variant has to read it from the disk
      (let [buffer (byte-array 1048576)]
        (while (not (neg? (.read in buffer))))))
    [["fold over lines, -Xmx512m" #(count-in-child "-Xmx512m" "lines" file)]
     ["r/fold over a vector of the lines, -Xmx8g" #(count-in-child "-Xmx8g" "vector" file)]]))
