(ns magnetar.impl.fold.chunks
  "Cuts a collection into chunks that are numbered in its order, and each chunk into slices, which are arrays."
  {:no-doc true}
  (:import
   (clojure.lang Counted IChunk Indexed LongRange PersistentVector)
   (java.util Iterator List RandomAccess)
   (java.util.concurrent.atomic AtomicLong)
   (java.util.concurrent.locks ReentrantLock)))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

(definterface Chunk
  (^long index [])
  (slice [])                  ; an array with the next elements, null at the end; throws what reading them threw
  (^long from [])             ; where in the array they begin
  (^long to [])               ; and end
  (^long position [^long i])) ; in the collection, of the element at i in the array; for -1 of what could not be read

;; `claim` is called with a chunk's number before anything is read for it; false: the chunk is not needed.
(definterface Source
  (next [claim]))

;; ---- what can be entered anywhere

(def ^:private ^:const slice-size 256)

;; Arrays that are there already are walked where they are: to copy them takes as long as to reduce them (docs/decisions/0009).
(definterface Elements
  (^long upto [^long from ^long to])  ; the end of what one array holds from `from` on
  (array [^long from ^long to])       ; that array
  (^long offset [^long from]))        ; where in it

;; A chunk belongs to one worker: its fields need no care.
(deftype Part [^long number ^Elements elements ^long end ^:unsynchronized-mutable ^long next ^:unsynchronized-mutable ^long begin]
  Chunk
  (index [_] number)
  (from [_] (.offset elements begin))
  (to [_] (+ (.offset elements begin) (- next begin)))
  (position [this i] (if (neg? i) next (+ begin (- i (.from this)))))
  (slice [_]
    (when (< next end)
      (let [upto (.upto elements next end)
            xs (.array elements next upto)]
        (set! begin next)
        (set! next upto)
        xs))))

(deftype Parts [^Elements elements ^long size ^long chunk ^AtomicLong counter]
  Source
  (next [_ claim]
    (let [i (.getAndIncrement counter)
          from (* i chunk)]
      (when (and (< from size) (claim i))
        (Part. i elements (min size (+ from chunk)) from from)))))

(defn- share
  "How many elements a chunk has: some chunks for each worker, so that none waits long for the last."
  ^long [^long size {:keys [chunk parallelism]}]
  (if chunk
    (long chunk)
    (max 1 (quot size (* 16 (long parallelism))))))

(defn- parts [size elements options]
  (Parts. elements size (share size options) (AtomicLong.)))

(defmacro ^:private each
  "Elements that are the values of body for each i."
  [[i] & body]
  `(reify Elements
     (upto [~'_ from# to#] (min to# (+ from# slice-size)))
     (offset [~'_ from#] 0)
     (array [~'_ from# to#]
       (let [xs# (object-array (- to# from#))]
         (loop [~i from#]
           (when (< ~i to#)
             (aset xs# (- ~i from#) (do ~@body))
             (recur (inc ~i))))
         xs#))))

(defn- of-vector [^PersistentVector v]
  (reify Elements
    (upto [_ from to] (min to (inc (bit-or from 31))))
    (offset [_ from] (bit-and from 31))
    (array [_ from _] (.arrayFor v (int from)))))

(defn- of-objects [^objects a]
  (reify Elements
    (upto [_ _ to] to)
    (offset [_ from] from)
    (array [_ _ _] a)))

(defn- of-range [r]
  (let [start (long (first r))
        step (- (long (or (second r) start)) start)]
    (each [i] (Long/valueOf (+ start (* i step))))))

(defn- of-array [a]
  (condp instance? a
    (class (object-array 0)) (of-objects a)
    (class (long-array 0)) (let [^longs a a] (each [i] (Long/valueOf (aget a i))))
    (class (double-array 0)) (let [^doubles a a] (each [i] (Double/valueOf (aget a i))))
    (class (int-array 0)) (let [^ints a a] (each [i] (Integer/valueOf (aget a i))))
    (class (byte-array 0)) (let [^bytes a a] (each [i] (Byte/valueOf (aget a i))))
    (each [i] (java.lang.reflect.Array/get a (int i)))))

(defn- array? [x]
  (and (some? x) (.isArray (class x))))

(defn indexed
  "The source of a collection that can be entered anywhere; nil for others."
  [coll options]
  (cond
    (instance? PersistentVector coll) (parts (count coll) (of-vector coll) options)
    (instance? LongRange coll) (parts (count coll) (of-range coll) options)
    (array? coll) (parts (java.lang.reflect.Array/getLength coll) (of-array coll) options)
    (and (instance? Indexed coll) (instance? Counted coll)) (parts (count coll) (each [i] (nth coll i)) options)
    (and (instance? RandomAccess coll) (instance? List coll)) (let [^List l coll] (parts (.size l) (each [i] (.get l (int i))) options))
    (instance? CharSequence coll) (let [^CharSequence s coll] (parts (.length s) (each [i] (Character/valueOf (.charAt s (int i)))) options))))

;; ---- what has to be read in order

(deftype Batch [^long number ^long start ^long size ^:unsynchronized-mutable xs failure]
  Chunk
  (index [_] number)
  (from [_] 0)
  (to [_] size)
  (position [_ i] (+ start (if (neg? i) size i)))
  (slice [_]
    (let [answer xs]
      (set! xs nil)
      (when (and (nil? answer) failure)
        (throw ^Throwable failure))
      answer)))

;; Reads `n` elements, fewer at the end, into a list, and throws what that throws.
(definterface Reader
  (^void read [^long n ^java.util.ArrayList into]))

(def ^:private ^:const largest-batch 4096)

(defn batch-size
  "Small batches first, so that a short collection is shared out, then a sixteenth of what came before; the same for the same
  collection, so that the grouping is."
  ^long [^long number chunk]
  (if chunk
    (long chunk)
    (bit-shift-left 8 (min 9 (quot number 16)))))

(defn- read-batch [^Reader reader ^long number ^long start n]
  (let [xs (java.util.ArrayList. (int (min (long n) (long largest-batch))))
        failure (try (.read reader (long n) xs) nil (catch Throwable t t))]
    (when (or failure (pos? (.size xs)))
      (Batch. number start (.size xs) (when (pos? (.size xs)) (.toArray xs)) failure))))

;; All but the lock and the reader is guarded by the lock. `exhausted` and a failure are for good.
(deftype Batches [^ReentrantLock lock ^Reader reader chunk ^:unsynchronized-mutable ^long number
                  ^:unsynchronized-mutable ^long start ^:unsynchronized-mutable exhausted]
  Source
  (next [_ claim]
    (.lockInterruptibly lock)
    (try
      (when (and (not exhausted) (claim number))
        (let [^Batch batch (read-batch reader number start (batch-size number chunk))]
          (if (nil? batch)
            (set! exhausted true)
            (do (set! start (+ start (.-size batch)))
                (set! exhausted (some? (.-failure batch)))))
          (set! number (inc number))
          batch))
      (finally (.unlock lock)))))

(defn batches
  "The source of what a reader reads."
  [reader {:keys [chunk]}]
  (Batches. (ReentrantLock.) reader chunk 0 0 false))

(defn iterated
  "The reader of an iterator."
  [^Iterator it]
  (reify Reader
    (read [_ n xs]
      (loop [i 0]
        (when (and (< i n) (.hasNext it))
          (.add xs (.next it))
          (recur (inc i)))))))

;; Elements of a chunk are taken from where they are; the read position belongs to the thread that holds the lock of the batches.
(deftype SeqReader [^:unsynchronized-mutable s ^:unsynchronized-mutable ^IChunk chunk ^:unsynchronized-mutable ^long at]
  Reader
  (read [_ n xs]
    (loop [left n]
      (when (pos? left)
        (cond
          (some? chunk)
          (let [size (.count chunk)
                end (min size (+ at left))
                left (- left (- end at))]
            (loop [i at]
              (when (< i end)
                (.add xs (.nth chunk (int i)))
                (recur (inc i))))
            (if (< end size)
              (set! at end)
              (set! chunk nil))
            (recur left))

          (some? (set! s (seq s)))
          (if (chunked-seq? s)
            (do (set! chunk (chunk-first s))
                (set! at 0)
                (set! s (chunk-rest s))
                (recur left))
            (do (.add xs (first s))
                (set! s (rest s))
                (recur (dec left)))))))))

(defn walked
  "The reader of a seq."
  [s]
  (SeqReader. s nil 0))
