(ns magnetar.impl.suggest
  "What a misspelt name may have been meant to be."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(defn- swapped? [a b ^long i ^long j]
  (and (pos? i) (pos? j) (= (nth a i) (nth b (dec j))) (= (nth a (dec i)) (nth b j))))

(defn- cheapest
  "The edits up to the letters i of a and j of b, from those before."
  [before last-row row a b i j]
  (let [changed (+ (long (nth last-row j)) (if (= (nth a i) (nth b j)) 0 1))
        best (min changed (inc (long (peek row))) (inc (long (nth last-row (inc (long j))))))]
    (if (swapped? a b i j)
      (min best (inc (long (nth before (dec (long j))))))
      best)))

(defn- edits
  "How many letters have to change, or to swap with their neighbours, to come from a to b."
  ^long [a b]
  (loop [i 0 before nil last-row (vec (range (inc (count b))))]
    (if (= i (count a))
      (peek last-row)
      (recur (inc i) last-row
             (reduce (fn [row j] (conj row (cheapest before last-row row a b i j))) [(inc i)] (range (count b)))))))

(defn closest
  "The one of these keywords that x may have been meant to be, or nil."
  [x keywords]
  (when (or (keyword? x) (symbol? x) (string? x))
    (let [text #(str/replace (name %) "_" "-")
          [distance best] (first (sort (map #(vector (edits (text x) (text %)) %) keywords)))]
      (when (and best (<= (long distance) (min 2 (quot (count (text x)) 3))))
        best))))
