(ns magnetar.impl.table.counters
  "Counters in rows: what `update-counter` is told, and does."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.table.life :as life]
   [magnetar.impl.table.rows :as rows])
  (:import
   (magnetar.impl.table.life Table)))

(set! *warn-on-reflection* true)

(defn- bad-change [operation change]
  (arguments/misuse :magnetar/bad-counter
                    (str "`" operation "` takes an integer to add, [place n], [place n threshold value], or a vector of those; this is "
                         (arguments/show change) ".") {:change change}))

(defn- place-after-key [operation ^Table t change]
  (if (int? (.-key t))
    (inc (long (.-key t)))
    (bad-change operation change)))

(defn- check-change [operation change]
  (when-not (and (vector? change) (#{2 4} (count change)) (every? integer? (rest change)))
    (bad-change operation change))
  change)

(defn- changes
  "The changes as [place n] and [place n threshold value]."
  [operation t change]
  (cond
    (integer? change) [[(place-after-key operation t change) change]]
    (and (vector? change) (every? vector? change)) (mapv #(check-change operation %) change)
    :else [(check-change operation change)]))

(defn- large-sum [a b]
  (let [sum (.add (biginteger a) (biginteger b))]
    (if (< (.bitLength sum) 64) (.longValue sum) (bigint sum))))

(defn- sum [a b]
  (if (and (instance? Long a) (instance? Long b))
    (let [a (long a), b (long b), sum (unchecked-add a b)]
      (if (neg? (bit-and (bit-xor a sum) (bit-xor b sum))) (large-sum a b) sum))
    (large-sum a b)))

(defn- beyond?
  "Has a counter that was changed by this much passed the threshold?"
  [n more threshold]
  (if (neg? (compare more 0))
    (neg? (compare n threshold))
    (pos? (compare n threshold))))

(defn- changed [n [_ more threshold value]]
  (let [n (sum n more)]
    (if (and threshold (beyond? n more threshold)) value n)))

(defn- change-row
  "[row results] after one more change."
  [operation t [row results] [place :as change]]
  (rows/check-place operation t row place)
  (let [n (get row place)]
    (when-not (integer? n)
      (arguments/misuse :magnetar/bad-counter
                        (str "`" operation "` on " t ": the row " (arguments/show row) " has no integer at " (arguments/show place) ".")
                        {:table t :row row :place place}))
    (let [sum (changed n change)]
      [(assoc row place sum) (conj results sum)])))

(defn update-counter
  "Changes counters of a row in one instant: the new value, or for several changes the vector of theirs."
  [operation x k change default]
  (let [t (life/table operation x)
        todo (changes operation t change)
        results (volatile! nil)]
    (rows/swap-row operation t k
      (fn [row]
        (let [row (or row (rows/default-row operation t default k) (rows/no-row operation t k))
              [row sums] (reduce #(change-row operation t %1 %2) [row []] todo)]
          (vreset! results sums)
          row)))
    (if (and (vector? change) (every? vector? change))
      @results
      (peek @results))))
