(ns magnetar.impl.fold.sources
  "What a fold can be given: collections, pipelines of reducers and eductions over them, files, channels, streams."
  {:no-doc true}
  (:require
   [clojure.core.protocols :as protocols]
   [clojure.core.reducers :as reducers]
   [magnetar.impl.fold.checks :as checks]
   [magnetar.impl.fold.chunks :as chunks]
   [magnetar.impl.fold.lines :as lines]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.privates :as privates]
   [magnetar.impl.runtime])
  (:import
   (clojure.core Eduction)
   (clojure.lang IReduceInit LazySeq)
   (java.util ArrayList Collections Map Spliterator Spliterators)
   (java.util.stream BaseStream)
   (magnetar.impl.fold.chunks Reader)
   (magnetar.impl.fold.lines Lines)
   (magnetar.kernel.channel Buffer Channel Ports ReadPort)
   (magnetar.kernel.fiber Cancelled)))

(set! *warn-on-reflection* true)

;; ---- pipelines: what is at the bottom, and the transducer above it

(defn- part [x field]
  (.get (privates/field (class x) field) x))

(defn- folder? [x]
  (and (some? x) (re-matches #"clojure\.core\.reducers\$folder\$reify__\d+" (.getName (class x)))))

(defn unwrap
  "{:coll :xform :pairs}: the collection below r/map, r/filter and eductions that may be reduced in any order, what they do to a reducing function, and
  whether they take the entries of a map as two arguments, as reducers do."
  [place coll xform pairs]
  (cond
    (folder? coll) (recur place (part coll "coll") (comp (part coll "xf") xform) true)
    (and (instance? Eduction coll) (= :any (checks/order place (.-xform ^Eduction coll))))
    (recur place (.-coll ^Eduction coll) (comp (.-xform ^Eduction coll) xform) false)
    :else {:coll coll :xform xform :pairs (and pairs (instance? Map coll))}))

;; ---- sources that are read in order

(defn- of-channel [ch]
  (reify Reader
    (read [_ n xs]
      (loop [i 0
             value (ports/take ch)]
        (when (and (some? value) (not (ports/pending? value)))
          (.add xs value)
          (when (< (inc i) n)
            (recur (inc i) (ports/poll ch))))))))

(defn- of-spliterator [^Spliterator s]
  (chunks/iterated (Spliterators/iterator s)))

;; A reducible gives its elements when it likes: a fiber of its own reduces it and hands on arrays; `start` starts it.

(defn- hand-on [^Channel out ^ArrayList xs]
  (when (pos? (.size xs))
    (ports/put out (.toArray xs))
    (.clear xs)))

(defn- pump
  "Reduces coll into arrays on `out`; what that throws is the last thing on it."
  [coll ^Channel out chunk]
  (let [xs (ArrayList.)
        failure (try
                  (reduce (fn [sent x]
                            (.add xs x)
                            (if (<= (long (chunks/batch-size sent chunk)) (.size xs))
                              (do (hand-on out xs) (inc (long sent)))
                              sent))
                          0 coll)
                  nil
                  (catch Throwable t t))]
    (hand-on out xs)
    (when failure (ports/put out failure))
    (.close out)))

(defn- of-pump [out]
  (reify Reader
    (read [_ _ xs]
      (let [batch (ports/take out)]
        (if (instance? Throwable batch)
          (throw batch)
          (run! #(.add xs %) batch))))))

(defn- pumped [coll {:keys [parallelism chunk] :as options}]
  (let [out (Channel/of (Buffer/fixed (int parallelism)))]
    {:source (chunks/batches (of-pump out) (assoc options :chunk 1))
     :daemon #(pump coll out chunk)}))

(defn- reducible? [coll]
  (or (instance? IReduceInit coll)
      (instance? clojure.core.protocols.CollReduce coll)
      (not (identical? (find-protocol-impl protocols/CollReduce coll)
                       (get-in protocols/CollReduce [:impls Object])))))

(defn- reader [coll]
  (cond
    (instance? Eduction coll) nil
    (instance? ReadPort coll) (of-channel coll)
    (instance? BaseStream coll) (chunks/iterated (.iterator ^BaseStream coll))
    (instance? Spliterator coll) (of-spliterator coll)
    (instance? java.util.Iterator coll) (chunks/iterated coll)
    (seq? coll) (chunks/walked coll)
    (instance? Iterable coll) (chunks/iterated (.iterator ^Iterable coll))
    (instance? Map coll) (chunks/iterated (.iterator (.entrySet ^Map coll)))
    (nil? coll) (chunks/iterated (Collections/emptyIterator))))

(defn- drained
  "What a reader reads, as a reducible."
  [^Reader reader]
  (reify IReduceInit
    (reduce [_ f init]
      (loop [acc init]
        (let [xs (ArrayList. 1)]
          (.read reader 1 xs)
          (if (.isEmpty xs)
            acc
            (let [acc (f acc (.get xs 0))]
              (if (reduced? acc) @acc (recur acc)))))))))

(defn- for-reduce
  "The same collection, as one that Clojure's reduce takes."
  [coll]
  (cond
    (instance? Eduction coll) (Eduction. (.-xform ^Eduction coll) (for-reduce (.-coll ^Eduction coll)))
    (or (instance? Iterable coll) (reducible? coll)) coll
    :else (if-some [reader (or (reader coll) (some-> (Ports/adapted coll) of-channel))] (drained reader) coll)))

(defn- not-foldable [place coll]
  (checks/misuse :magnetar/not-foldable
                 (str "`" place "` wants a collection, an array, a stream, a channel, lines of a file or something reducible; this is "
                      (checks/show coll) ".") {:coll coll}))

(defn to-reduce
  "The collection, as one that Clojure's reduce takes; refused if there is no such form."
  [place coll]
  (let [coll (for-reduce coll)]
    (if (or (seqable? coll) (reducible? coll)) coll (not-foldable place coll))))

(defn- adapted [coll]
  (Ports/adapted coll))

(defn source
  "{:source, :close, :daemon} of a collection; :source alone if nothing has to be closed, and no fiber to feed it. The lines of a file
  are cut by bytes, unless the options say :one-by-one."
  [place coll options]
  (if-some [indexed (chunks/indexed coll options)]
    {:source indexed}
    (if (and (instance? Lines coll) (not (:one-by-one options)) (lines/mappable? coll))
      (lines/source coll options)
      (if-some [reader (or (reader coll) (when-not (reducible? coll) (some-> (adapted coll) of-channel)))]
        {:source (chunks/batches reader options)}
        (if (reducible? coll)
          (pumped (for-reduce coll) options)
          (not-foldable place coll))))))

;; ---- as seqs, for what is done when it is looked at

(defn lazily
  "The seq that f gives, when it is looked at; f returns no lazy seq. What f throws is thrown at each look, except a cancellation."
  [f]
  (let [failure (volatile! nil)]
    (LazySeq. (fn []
                (when-some [e @failure] (throw e))
                (try
                  (f)
                  (catch Throwable e
                    (when-not (Cancelled/isBehind e) (vreset! failure e))
                    (throw e)))))))

(defn- read-seq [^Reader reader]
  (LazySeq. (fn []
              (let [xs (ArrayList. 1)]
                (.read reader 1 xs)
                (when-not (.isEmpty xs)
                  (cons (.get xs 0) (read-seq reader)))))))

(defn- with-completion
  "The transducer of a reducer of Clojure's, which has no completion of its own."
  [xform]
  (fn [rf] (completing (xform rf) rf)))

(declare as-seq)

(defn- through [place xform coll]
  (let [below (as-seq place coll)]
    (LazySeq. #(seq (sequence xform below)))))

(defn as-seq
  "What a fold takes, as a seq that is read when it is looked at; what can do no more than reduce is reduced then."
  [place coll]
  (let [below (when (folder? coll) (unwrap place coll identity true))]
    (cond
      (instance? Eduction coll) (through place (.-xform ^Eduction coll) (.-coll ^Eduction coll))
      (and below (not (:pairs below))) (through place (with-completion (:xform below)) (:coll below))
      (seqable? coll) coll
      (instance? Lines coll) (lines/in-order coll)
      :else (let [reader (or (reader coll) (when-not (reducible? coll) (some-> (adapted coll) of-channel)))]
              (cond
                reader (read-seq reader)
                (reducible? coll) (LazySeq. #(seq (into [] (for-reduce coll))))
                :else (not-foldable place coll))))))

;; ---- foldables of a program

(def ^:private by-clojure
  (set (keep #(get-in reducers/CollFold [:impls %])
             [nil Object clojure.lang.IPersistentVector clojure.lang.PersistentHashMap])))

(defn own-fold
  "True if the program has taught its collection to fold itself."
  [coll]
  (or (instance? clojure.core.reducers.CollFold coll)
      (not (contains? by-clojure (find-protocol-impl reducers/CollFold coll)))))
