(ns magnetar.impl.table.store
  "The rows of a table, in a concurrent map of the JDK: from a key to its row, or in a bag to the vector of its rows. Neither is ever changed in
  place: a write replaces the value of one key, if it is still what the writer has looked at.

  What writes several keys at once is a batch. Its values stand in the map as cells, which say what was there before and what comes after. A
  cell counts as the one or the other by the state of the batch, so all cells change in one instant, for readers too. A writer of a key with a
  cell of an open batch ends that batch, which then starts again, so the writer does not wait. A batch that was ended too often becomes firm:
  the other writers let it finish, and of two firm batches the later one gives way. Invariant: a cell is replaced only when its batch is not open."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime]
   [magnetar.impl.table.keys :as keys])
  (:import
   (java.util ArrayList Iterator)
   (java.util.concurrent ConcurrentHashMap ConcurrentMap ConcurrentNavigableMap ConcurrentSkipListMap)
   (java.util.concurrent.atomic AtomicLong AtomicReference LongAdder)
   (magnetar.kernel.fiber Fiber Simulated)))

(set! *warn-on-reflection* true)

(deftype Store [^ConcurrentMap values ^LongAdder size kind])

(deftype Batch [^AtomicReference state ^long number firm?])

(deftype Cell [^Batch batch before after])

(defn ordered?
  "Are the rows in the order of their keys?"
  [kind]
  (identical? :ordered-set kind))

(defn bag?
  "May a key have several rows?"
  [kind]
  (or (identical? :bag kind) (identical? :duplicate-bag kind)))

(defn store
  "An empty store for a kind of table."
  ^Store [kind]
  (Store. (if (ordered? kind) (ConcurrentSkipListMap. ^java.util.Comparator keys/comparator-of-keys) (ConcurrentHashMap.))
          (LongAdder.)
          kind))

(defn key-of
  "The key as the map of the store takes it."
  [^Store s k]
  (if (ordered? (.-kind s)) (keys/sorted k) (keys/hashed k)))

(defn size
  "How many rows there are."
  ^long [^Store s]
  (.sum ^LongAdder (.-size s)))

;; ---- cells

(defn- committed
  "What the value of a key is now."
  [v]
  (if (instance? Cell v)
    (let [^Cell cell v
          ^Batch batch (.-batch cell)]
      (if (identical? :done (.get ^AtomicReference (.-state batch))) (.-after cell) (.-before cell)))
    v))

(defn- open? [^Batch batch]
  (identical? :open (.get ^AtomicReference (.-state batch))))

(defn- end-batch [^Batch batch how]
  (Simulated/switchPoint)
  (.compareAndSet ^AtomicReference (.-state batch) :open how))

(defn- gives-way?
  "Has the batch `other` to give way to `own`, nil for a single write?"
  [^Batch other ^Batch own]
  (or (not (.-firm? other))
      (and own (.-firm? own) (< (.-number own) (.-number other)))))

(defn- in-the-way?
  "Is there a cell of an open batch? Then it has been ended, or waited for a little: look again."
  [v own]
  (when (instance? Cell v)
    (let [batch (.-batch ^Cell v)]
      (when (open? batch)
        (if (gives-way? batch own)
          (end-batch batch :ended)
          (do (Simulated/switchPoint) (Thread/yield)))
        true))))

;; ---- one key

(defn value
  "The row of a key of the map, or the vector of its rows; nil if it has none."
  [^Store s k]
  (committed (.get ^ConcurrentMap (.-values s) k)))

(defn- replace-value
  "Puts `new` where v is, nil for none; false if there is something else by now."
  [^ConcurrentMap values k v new]
  (Simulated/switchPoint)
  (cond
    (nil? v) (or (nil? new) (nil? (.putIfAbsent values k new)))
    (nil? new) (.remove values k v)
    :else (.replace values k v new)))

(defn- rows-in
  "How many rows a value is."
  ^long [^Store s v]
  (cond
    (nil? v) 0
    (bag? (.-kind s)) (count v)
    :else 1))

(defn- count-change [^Store s old new]
  (let [change (- (rows-in s new) (rows-in s old))]
    (when-not (zero? change)
      (.add ^LongAdder (.-size s) change))))

(defn swap
  "Replaces the value of a key by (f value), nil being none, in one instant; returns the value that was replaced. f may be called several times."
  [^Store s k f]
  (let [^ConcurrentMap values (.-values s)]
    (loop []
      (let [v (.get values k)]
        (if (in-the-way? v nil)
          (recur)
          (let [old (committed v)
                new (f old)]
            (cond
              (identical? old new) old
              (replace-value values k v new) (do (count-change s old new) old)
              :else (recur))))))))

(defn put
  "Replaces the value of a key, whatever it is."
  [^Store s k row]
  (Simulated/switchPoint)
  (if (nil? (.putIfAbsent ^ConcurrentMap (.-values s) k row))
    (.increment ^LongAdder (.-size s))
    (swap s k (constantly row))))

;; ---- several keys

(def ^:private ^AtomicLong batches (AtomicLong.))

(def ^:private patience
  "How often a batch lets others end it before it becomes firm."
  8)

(defn- batch ^Batch [^long attempt number]
  (Batch. (AtomicReference. :open) number (<= (long patience) attempt)))

(defn- place-cell
  "Puts a cell where the key is: [key cell]; :refused if f has it so, nil if the batch has been ended."
  [^Store s ^Batch batch [k f]]
  (let [^ConcurrentMap values (.-values s)]
    (loop []
      (let [v (.get values k)]
        (cond
          (not (open? batch)) nil
          (in-the-way? v batch) (recur)
          :else
          (let [old (committed v)
                new (f old)
                cell (Cell. batch old new)]
            (cond
              (identical? ::refused new) :refused
              (replace-value values k v cell) [k cell]
              :else (recur))))))))

(defn- place-cells
  "Puts cells where the keys are, and adds them to `placed`, until the batch is ended."
  [s batch changes ^ArrayList placed]
  (reduce (fn [_ change]
            (let [cell (place-cell s batch change)]
              (if (vector? cell)
                (do (.add placed cell) nil)
                (reduced (end-batch batch (or cell :ended))))))
          nil
          changes))

(defn- clear-cells
  "Puts plain values where cells are. A cell that is gone has been replaced by someone else."
  [^Store s placed]
  (doseq [[k ^Cell cell] placed]
    (replace-value (.-values s) k cell (committed cell))))

(defn- attempt
  "One try of a batch: :done, :refused or :ended."
  [^Store s ^Batch batch changes]
  (let [placed (ArrayList.)]
    (try
      (place-cells s batch changes placed)
      (when (end-batch batch :done)
        (doseq [[_ ^Cell cell] placed]
          (count-change s (.-before cell) (.-after cell))))
      (finally
        (end-batch batch :ended)
        (clear-cells s placed)))
    (.get ^AtomicReference (.-state batch))))

(defn refuse
  "What a function of `swap-all` returns for a value that shall not be there: nothing is changed then."
  []
  ::refused)

(defn swap-all
  "Replaces the values of several keys of the map in one instant: `changes` are pairs of a key and a function, as for `swap`. False, and nothing
  is changed, if one of the functions refuses."
  [s changes]
  (let [number (.incrementAndGet batches)]
    (loop [n 0]
      (case (attempt s (batch n number) changes)
        :done true
        :refused false
        (recur (inc n))))))

;; ---- all rows

(def ^:private rows-between-checks 1024)

(defn- look-around
  "Lets the fiber be told to end, and others run, now and then."
  [^long n]
  (when (zero? (rem n (long rows-between-checks)))
    (.enter (Fiber/current))))

(defn values-between
  "The values of the map as an Iterable: of an ordered set those within the bounds, [key inclusive?] or nil, from below, or with `reverse?`
  from above."
  ^Iterable [^Store s from to reverse?]
  (if (or from to reverse?)
    (let [^ConcurrentNavigableMap m (.-values s)
          [low low?] from
          [high high?] to
          ^ConcurrentNavigableMap part (cond
                                         (and from to) (if (pos? (long (keys/order low high)))
                                                         (ConcurrentSkipListMap.)
                                                         (.subMap m (keys/sorted low) (boolean low?) (keys/sorted high) (boolean high?)))
                                         from (.tailMap m (keys/sorted low) (boolean low?))
                                         to (.headMap m (keys/sorted high) (boolean high?))
                                         :else m)]
      (.values (if reverse? (.descendingMap part) part)))
    (.values ^ConcurrentMap (.-values s))))

(defn- over-bags
  "A function of an accumulated value and the rows of a key, of one for each row."
  [f]
  (let [step (fn [acc row]
               (let [acc (f acc row)]
                 (if (reduced? acc) (reduced acc) acc)))]
    (fn [acc rows] (reduce step acc rows))))

(defn reduce-rows
  "Reduces the rows of an Iterable of values. Rows that are written meanwhile are met or not; each other one is met once."
  [^Store s ^Iterable values f init]
  (let [^Iterator it (.iterator values)
        f (if (bag? (.-kind s)) (over-bags f) f)]
    (loop [acc init, n 1]
      (if (.hasNext it)
        (let [v (committed (.next it))
              acc (if (nil? v) acc (f acc v))]
          (look-around n)
          (if (reduced? acc) @acc (recur acc (inc n))))
        acc))))

(defn row-seq
  "The rows of an Iterable of values as a lazy seq."
  [^Store s ^Iterable values]
  (let [values (keep committed (iterator-seq (.iterator values)))]
    (if (bag? (.-kind s)) (mapcat identity values) values)))

;; ---- neighbours

(defn neighbour
  "The first row, in the direction, that there is: `step` gives the entry for a key of the map, or for nil the outermost."
  [^Store s step]
  (loop [^java.util.Map$Entry e (step (.-values s) nil)]
    (when e
      (if-some [row (committed (.getValue e))]
        row
        (recur (step (.-values s) (.getKey e)))))))
