(ns magnetar.impl.table.rows
  "Rows: what they have to be, what is written where, and the ranges that are read."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.impl.table.keys :as keys]
   [magnetar.impl.table.life :as life]
   [magnetar.impl.table.store :as store])
  (:import
   (clojure.lang IReduceInit Seqable Sequential)
   (java.util.concurrent ConcurrentNavigableMap)
   (magnetar.impl.table.life Table)
   (magnetar.impl.table.store Store)))

(set! *warn-on-reflection* true)

;; ---- what a row is

(defn key-in
  "The key of a row of the table, which is checked."
  [operation ^Table t row]
  (when-not (and (or (vector? row) (map? row)) (contains? row (.-key t)))
    (arguments/misuse :magnetar/bad-row
                      (str "`" operation "` on " t " wants a row, " (if (int? (.-key t)) "a vector" "a map") " with its key at " (.-key t)
                           "; this is " (arguments/show row) ".") {:row row :table t}))
  (get row (.-key t)))

(defn- stored-key [operation t s row]
  (store/key-of s (key-in operation t row)))

(defn found
  "The rows that a value of the store is, as a vector."
  [^Store s v]
  (cond
    (nil? v) []
    (store/bag? (.-kind s)) v
    :else [v]))

;; ---- writing

(defn- with-row
  "What becomes of the value of a key when a row is inserted."
  [kind row v]
  (case kind
    (:set :ordered-set) row
    :bag (if (some #(= row %) v) v (conj (or v []) row))
    :duplicate-bag (conj (or v []) row)))

(defn insert
  "Adds a row; in a set it replaces the one with its key."
  [operation x row]
  (let [t (life/table operation x)
        s (life/writing operation t)
        k (stored-key operation t s row)]
    (if (store/bag? (.-kind s))
      (store/swap s k #(with-row (.-kind s) row %))
      (store/put s k row))
    true))

(defn insert-new
  "Adds a row if its key has none; false if it has."
  [operation x row]
  (let [t (life/table operation x)
        s (life/writing operation t)
        k (stored-key operation t s row)]
    (nil? (store/swap s k #(if (nil? %) (with-row (.-kind s) row nil) %)))))

(defn- by-key
  "From the keys of rows to the rows, in the order in which they came: keys that are one to the store are one here."
  [operation t ^Store s rows]
  (let [add (fn [m row] (update m (stored-key operation t s row) (fnil conj []) row))]
    (reduce add (if (store/ordered? (.-kind s)) (sorted-map-by keys/comparator-of-keys) {}) rows)))

(defn insert-all
  "Adds rows, all in one instant; with `only-new?` none, and false, if one of the keys has a row."
  [operation x rows only-new?]
  (let [t (life/table operation x)
        s (life/writing operation t)
        kind (.-kind s)
        change (fn [[k rows]]
                 [k (fn [old]
                      (if (and only-new? (some? old))
                        (store/refuse)
                        (reduce #(with-row kind %2 %1) old rows)))])]
    (when-not (or (sequential? rows) (set? rows) (instance? IReduceInit rows) (nil? rows))
      (arguments/misuse :magnetar/bad-rows
                        (str "`" operation "` on " t " wants a collection of rows; this is " (arguments/show rows) ".") {:rows rows}))
    (store/swap-all s (mapv change (by-key operation t s (into [] rows))))))

(defn delete-object
  "Takes out the rows that are equal to this one."
  [operation x row]
  (let [t (life/table operation x)
        s (life/writing operation t)]
    (store/swap s (stored-key operation t s row)
      (if (store/bag? (.-kind s))
        (fn [rows] (when (seq rows)
                     (let [left (filterv #(not= row %) rows)]
                       (cond (empty? left) nil
                             (= (count left) (count rows)) rows
                             :else left))))
        #(if (= row %) nil %)))
    true))

(defn take-rows
  "Takes out the rows of a key, and returns them."
  [operation x k]
  (let [s (life/writing operation x)]
    (found s (store/swap s (store/key-of s k) (constantly nil)))))

(defn swap-row
  "Replaces the row of a key by (f row), nil being none; returns the row that was replaced. Of sets only."
  [operation x k f]
  (let [t (life/table operation x)
        s (life/writing operation t)]
    (when (store/bag? (.-kind s))
      (arguments/misuse :magnetar/bad-kind
                        (str "`" operation "` on " t ": a key of a bag may have several rows, and this changes one. Use a :set or an :ordered-set.") {:table t}))
    (store/swap s (store/key-of s k) f)))

(defn compare-and-swap
  "Replaces a row by another one with its key, if it is what it was; false if not."
  [operation x before after]
  (let [t (life/table operation x)
        k (key-in operation t before)
        swapped (volatile! false)]
    (when-not (= k (key-in operation t after))
      (arguments/misuse :magnetar/bad-row
                        (str "`" operation "` on " t " replaces a row by one with the same key; these have " (arguments/show k) " and "
                             (arguments/show (key-in operation t after)) ".") {:table t :before before :after after}))
    (swap-row operation t k (fn [row]
                              (vreset! swapped (= before row))
                              (if (= before row) after row)))
    @swapped))

;; ---- places in a row

(defn check-place
  "Refuses a place that the row does not have, or that its key is at."
  [operation ^Table t row place]
  (when (= place (.-key t))
    (arguments/misuse :magnetar/bad-place
                      (str "`" operation "` on " t " does not change the key, which is at " (arguments/show place) ": insert another row.")
                      {:table t :place place}))
  (when (and (vector? row) (not (contains? row place)))
    (arguments/misuse :magnetar/bad-place
                      (str "`" operation "` on " t ": the row " (arguments/show row) " has nothing at " (arguments/show place) ".")
                      {:table t :row row :place place})))

(defn no-row
  "Throws: the key has no row."
  [operation t k]
  (arguments/misuse :magnetar/no-such-row
                    (str "`" operation "` on " t ": there is no row with the key " (arguments/show k) ".") {:table t :key k}))

(defn default-row
  "The default row with the key, which stands in the place of its own; nil without a default row."
  [operation ^Table t default k]
  (when (some? default)
    (key-in operation t default)
    (assoc default (.-key t) k)))

(defn update-element
  "Replaces what is at places of a row, a map from place to value; false if there is no row. A default row is used in place of a missing one."
  [operation x k places default]
  (let [t (life/table operation x)]
    (when-not (map? places)
      (arguments/misuse :magnetar/bad-place
                        (str "`" operation "` wants a map from places in the row to values, as {1 :x}; this is " (arguments/show places) ".")
                        {:places places}))
    (let [done (volatile! false)]
      (swap-row operation t k
        (fn [row]
          (let [row (or row (default-row operation t default k))]
            (vreset! done (some? row))
            (when row
              (reduce-kv (fn [row place v] (check-place operation t row place) (assoc row place v)) row places)))))
      @done)))

;; ---- reading

(defn rows-of-key
  "The rows of a key as a vector."
  [operation x k]
  (let [s (life/reading operation x)]
    (found s (store/value s (store/key-of s k)))))

(def range-options
  "The options of a range."
  [:from :after :to :below :reverse])

(defn- bound [options inclusive exclusive]
  (cond
    (contains? options inclusive) [(inclusive options) true]
    (contains? options exclusive) [(exclusive options) false]))

(defn- check-range [operation ^Table t options]
  (when (and (seq (select-keys options range-options)) (not (store/ordered? (.-kind t))))
    (arguments/misuse :magnetar/bad-kind
                      (str "`" operation "` on " t ": only an :ordered-set has ranges and an order; it was given " (arguments/show options) ".")
                      {:table t :options options})))

(defn values
  "The values of the table within the range of the options, and their store."
  [operation x options]
  (let [t (life/table operation x)
        s (life/reading operation t)]
    (check-range operation t options)
    [s (store/values-between s (bound options :from :after) (bound options :to :below) (boolean (:reverse options)))]))

(deftype Rows [operation table options]
  Sequential

  Seqable
  (seq [_]
    (let [[s values] (values operation table options)]
      (seq (store/row-seq s values))))

  IReduceInit
  (reduce [_ f init]
    (let [[s values] (values operation table options)]
      (store/reduce-rows s values f init))))

(defmethod print-method Rows [^Rows rows ^java.io.Writer w]
  (.write w (str "#<rows of " (.-table rows) ">")))

(defn neighbour
  "The key of the row that `step` leads to, or nil; of a table in order only."
  [operation x step]
  (let [t (life/table operation x)
        s (life/reading operation t)]
    (when-not (store/ordered? (.-kind s))
      (arguments/misuse :magnetar/bad-kind
                        (str "`" operation "` on " t ": its keys have no order. Use an :ordered-set, or reduce over its `rows`.") {:table t}))
    (when-some [row (store/neighbour s (fn [^ConcurrentNavigableMap m k] (step m k)))]
      (get row (.-key t)))))

(defn sorted-key
  "The key as `step` of `neighbour` takes it."
  [k]
  (keys/sorted k))

;; ---- for files

(defn reducible
  "The rows of an Iterable of values, to reduce."
  [s values]
  (reify IReduceInit
    (reduce [_ f init] (store/reduce-rows s values f init))))

(defn add-to
  "Adds a row to a store that is no table yet; its key stands at the place."
  [^Store s place row]
  (store/swap s (store/key-of s (get row place)) #(with-row (.-kind s) row %)))
