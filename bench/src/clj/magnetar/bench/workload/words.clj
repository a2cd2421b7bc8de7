(ns magnetar.bench.workload.words
  "Word count of a file: by `magnetar.fold` over its lines, and by reading them into a vector and `clojure.core.reducers/fold`.

  What is done with a line is the same for both."
  (:require
   [clojure.core.reducers :as r]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.fold :as fold])
  (:import
   (java.io File)
   (java.util HashMap Map$Entry Random StringTokenizer)))

(set! *warn-on-reflection* true)

(defn- block
  "Some ten thousand lines of twelve words."
  [^long seed]
  (let [random (Random. seed)
        words (mapv #(str "word" %) (range 5000))
        line #(str/join " " (repeatedly 12 (fn [] (nth words (.nextInt random 5000)))))]
    (str (str/join "\n" (repeatedly 10000 line)) "\n")))

(defn write-text
  "Writes about so many megabytes of words into the file.

  Example: (write-text (io/file \"/tmp/words.txt\") 1000)"
  [^File file megabytes]
  (let [bytes (.getBytes ^String (block 7))]
    (with-open [out (io/output-stream file)]
      (dotimes [_ (max 1 (quot (* (long megabytes) 1000000) (alength bytes)))]
        (.write out bytes)))))

(defn- add-to [^HashMap counts word ^long n]
  (if-some [^longs count (.get counts word)]
    (aset count 0 (+ (aget count 0) n))
    (.put counts word (long-array 1 n))))

(defn- count-line [counts ^String line]
  (let [words (StringTokenizer. line " ")]
    (while (.hasMoreTokens words)
      (add-to counts (.nextToken words) 1))
    counts))

(defn- both
  ([] (HashMap.))
  ([a ^HashMap b]
   (doseq [^Map$Entry entry (.entrySet b)]
     (add-to a (.getKey entry) (aget ^longs (.getValue entry) 0)))
   a))

(defn- of-lines [file]
  (fold/fold both count-line (fold/lines file)))

(defn- of-vector
  "In parts of 100,000 lines: with 512, as r/fold has it by itself, it combines as long as it counts."
  [file]
  (r/fold 100000 both count-line
          (with-open [reader (io/reader file)]
            (into [] (line-seq reader)))))

(defn count-words
  "{:ms .. :value [distinct words]} of a file; `how` is \"lines\" or \"vector\".

  Example: (count-words \"lines\" \"/tmp/words.txt\")"
  [how file]
  (let [start (System/nanoTime)
        ^HashMap counts (case how "lines" (of-lines file) "vector" (of-vector file))
        ms (/ (- (System/nanoTime) start) 1e6)]
    {:ms ms :value [(.size counts) (reduce + (map #(aget ^longs % 0) (.values counts)))]}))

(defn -main
  "Prints what `count-words` returns.

  Example: (-main \"lines\" \"/tmp/words.txt\")"
  [how file]
  (prn (count-words how file))
  (shutdown-agents))
