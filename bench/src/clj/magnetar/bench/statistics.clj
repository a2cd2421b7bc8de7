(ns magnetar.bench.statistics
  "Medians and spreads.")

(set! *warn-on-reflection* true)

(defn median
  "Returns the middle of the numbers, or the mean of the two in the middle.

  Example: (median [3 1 2]) => 2.0"
  ^double [xs]
  (let [sorted (double-array (sort xs))
        half (quot (alength sorted) 2)]
    (if (odd? (alength sorted))
      (aget sorted half)
      (/ (+ (aget sorted half) (aget sorted (dec half))) 2.0))))

(defn spread
  "Returns the median, the least and the greatest of the numbers, and how many there are.

  Example: (spread [1 2 9]) => {:median 2.0 :min 1.0 :max 9.0 :count 3}"
  [xs]
  {:median (median xs)
   :min (double (reduce min xs))
   :max (double (reduce max xs))
   :count (count xs)})
