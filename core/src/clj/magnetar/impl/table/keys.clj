(ns magnetar.impl.table.keys
  "Keys of tables: what the JDK's maps need to take them as Clojure does, by `=` and `hash`, and the order of an ordered set."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang Util)
   (java.util Comparator)
   (magnetar.kernel.process Pid Ref)))

(set! *warn-on-reflection* true)

(defn- check-not-nan [k]
  (when (and (float? k) (Double/isNaN (double k)))
    (arguments/misuse :magnetar/bad-key "NaN is no key of a table: it is not equal to itself, so no row would ever be found by it." {:key k})))

;; ---- by = and hash

(deftype Key [value ^int code]
  Object
  (hashCode [_] code)
  (equals [_ other]
    (and (instance? Key other)
         (Util/equiv value (.-value ^Key other)))))

(defn- wide
  "Integers that are equal as one and the same class: a Long where it is large enough. A Float as a Double, since their hashes differ."
  [k]
  (cond
    (and (integer? k) (<= Long/MIN_VALUE k Long/MAX_VALUE)) (long k)
    (instance? Float k) (double k)
    :else k))

(defn hashed
  "The key as a hash map of the JDK takes it. Strings, keywords and longs are equal to nothing but their own kind."
  [k]
  (if (or (instance? Long k) (string? k) (keyword? k))
    k
    (let [k (wide k)]
      (check-not-nan k)
      (if (instance? Long k) k (Key. k (hash k))))))

;; ---- in order

(declare order)

(defn- rank
  "The place of a kind of key in the order, which is the order of Erlang's terms as far as there are such."
  ^long [k]
  (cond
    (number? k) 0
    (nil? k) 1
    (boolean? k) 2
    (keyword? k) 3
    (symbol? k) 4
    (instance? Ref k) 5
    (instance? Pid k) 6
    (sequential? k) 7
    (map? k) 8
    (set? k) 9
    (char? k) 10
    (string? k) 11
    :else 12))

(defn- exact
  "The number without rounding, as clojure.core/compare takes it."
  [n]
  (cond
    (float? n) (rationalize (BigDecimal. (double n)))
    (decimal? n) (rationalize n)
    :else n))

(defn- finite? [n]
  (or (not (float? n)) (Double/isFinite (double n))))

(defn- beyond
  "NaN above all, infinities around all; 0 for what is finite."
  ^long [n]
  (cond
    (finite? n) 0
    (Double/isNaN (double n)) 2
    :else (if (pos? (double n)) 1 -1)))

;; `compare` makes doubles of both, and then large numbers that differ are equal to a third one.
(defn- compare-numbers ^long [a b]
  (cond
    (and (instance? Long a) (instance? Long b)) (Long/compare (long a) (long b))
    (and (finite? a) (finite? b)) (compare (exact a) (exact b))
    :else (Long/compare (beyond a) (beyond b))))

(defn- compare-each ^long [by as bs]
  (loop [as (seq as), bs (seq bs)]
    (if as
      (let [c (long (by (first as) (first bs)))]
        (if (zero? c) (recur (next as) (next bs)) c))
      0)))

(defn- by-size ^long [a b then]
  (let [c (Long/compare (count a) (count b))]
    (if (zero? c) (long (then)) c)))

(defn- order-in-map
  "Compares two keys of maps, which are 1 and 1.0 at a time: there integers come before all floats, as in Erlang."
  ^long [a b]
  (if (and (number? a) (number? b) (not= (float? a) (float? b)))
    (if (float? a) 1 -1)
    (long (order a b))))

(defn- compare-maps ^long [a b]
  (let [as (sort order-in-map (keys a))
        bs (sort order-in-map (keys b))
        c (compare-each order-in-map as bs)]
    (if (zero? c) (compare-each order (map #(get a %) as) (map #(get b %) bs)) c)))

(defn- no-order [k]
  (arguments/misuse :magnetar/no-order
                    (str "The key " (arguments/show k) ", a " (.getName (class k))
                         ", has no order: use one that is comparable, or a table of the kind :set.") {:key k}))

(defn- compare-others ^long [a b]
  (run! #(when-not (instance? Comparable %) (no-order %)) [a b])
  (let [c (compare (.getName (class a)) (.getName (class b)))]
    (if (zero? c) (compare a b) c)))

(defn order
  "Compares two keys: all that are comparable have a place in one order."
  [a b]
  (let [kind (rank a)
        c (Long/compare kind (rank b))]
    (if-not (zero? c)
      c
      (case kind
        0 (compare-numbers a b)
        1 0
        7 (by-size a b #(compare-each order a b))
        8 (by-size a b #(compare-maps a b))
        9 (by-size a b #(compare-each order (sort order a) (sort order b)))
        (2 3 4 5 6 10 11) (compare a b)
        (compare-others a b)))))

;; A sorted map of the JDK takes no null.
(def ^:private none (Object.))

(defn sorted
  "The key as a sorted map of the JDK takes it. The first one in a map would not be compared with any."
  [k]
  (cond
    (nil? k) none
    (or (instance? Long k) (keyword? k) (string? k)) k
    :else (do (check-not-nan k) (order k k) k)))

(defn- unsorted [k]
  (if (identical? none k) nil k))

(def comparator-of-keys
  "The order for a sorted map of the JDK; throws for a key without a place in it."
  (reify Comparator
    (compare [_ a b] (int (order (unsorted a) (unsorted b))))))
