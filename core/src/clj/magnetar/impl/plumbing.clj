(ns magnetar.impl.plumbing
  "What moves values from channel to channel. Each function takes the name under which it is reported first: `site`."
  {:no-doc true}
  (:refer-clojure :exclude [into map merge partition partition-by reduce take transduce])
  (:require
   [clojure.core :as core]
   [magnetar.impl.chans :as chans]
   [magnetar.impl.fibers :as fibers :refer [background]]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.refusals :as refusals]
   [magnetar.impl.runtime]
   [magnetar.impl.threads :as threads])
  (:import
   (clojure.lang AFunction IFn$LO)
   (java.util.concurrent.atomic AtomicInteger)
   (magnetar.kernel.channel Callback Channel Ports TimeoutChannel)))

(set! *warn-on-reflection* true)

(defn start-thread [site f workload]
  (threads/start-thread site (refusals/callable "thread-call" f) workload))

(defmacro ^:private closing
  "Does body; if it throws, closes the channel first, so that no taker waits for a value that will not come."
  [ch & body]
  `(try
     ~@body
     (catch Throwable e#
       (ports/close ~ch)
       (throw e#))))

;; ---- time

(defn timeout-of [^long msecs]
  (TimeoutChannel/after (* 1000000 (max 0 (min msecs 9000000000000)))))

(def timeout-function
  "The function `timeout`, which refuses what is no number of milliseconds, as a conversion to a long would make that zero.

  Code that was compiled with core.async calls it as a function of a long."
  (proxy [AFunction IFn$LO] []
    (invoke [msecs] (timeout-of (refusals/millis msecs)))
    (invokePrim [msecs] (timeout-of msecs))))

;; ---- one to one

(defn- move [from to]
  (loop []
    (when-some [v (ports/take from)]
      (when (ports/put to v)
        (recur)))))

(defn pipe [site from to close?]
  (background site
    (try
      (Ports/writePort to)
      (move from to)
      (finally
        (when (and close? (ports/port? to)) (ports/close to)))))
  to)

(defn split [site p ch t-buf-or-n f-buf-or-n]
  (let [tc (chans/of t-buf-or-n)
        fc (chans/of f-buf-or-n)
        p (refusals/callable "split" p)]
    (background site
      (closing tc
        (closing fc
          (loop []
            (let [v (ports/take ch)]
              (if (nil? v)
                (do (ports/close tc) (ports/close fc))
                (when (ports/put (if (p v) tc fc) v)
                  (recur))))))))
    [tc fc]))

(defn- reduced-over [f init ch]
  (loop [ret init]
    (let [v (ports/take ch)]
      (if (nil? v)
        ret
        (let [ret' (f ret v)]
          (if (reduced? ret') @ret' (recur ret')))))))

(defn reduce [site f init ch]
  (let [f (refusals/callable "reduce" f)]
    (background site (reduced-over f init ch))))

(defn transduce [site xform f init ch]
  (let [f (refusals/built "transduce" xform (refusals/callable "transduce" f))]
    (background site (f (reduced-over f init ch)))))

(defn into [site coll ch]
  (let [f (refusals/conjoined "into" coll)]
    (background site (reduced-over f coll ch))))

(defn- put-all [operation ch coll close?]
  (Ports/writePort ch)
  (try
    (loop [vs (seq (refusals/coll operation coll))]
      (when (and vs (ports/put ch (first vs)))
        (recur (next vs))))
    (finally
      (when close? (ports/close ch)))))

(defn onto [site ch coll close?]
  (background site (put-all "onto-chan!" ch coll close?)))

(defn onto-blocking [site ch coll close?]
  (threads/start-thread site #(put-all "onto-chan!!" ch coll close?) :mixed))

(defn- channel-for [coll]
  (let [n (long (bounded-count 100 coll))]
    (if (pos? n) (chans/of n) (doto (chans/of nil) ports/close))))

(defn to-chan [site coll]
  (let [ch (channel-for (refusals/coll "to-chan!" coll))]
    (onto site ch coll true)
    ch))

(defn to-chan-blocking [site coll]
  (let [ch (chans/of 100)]
    (onto-blocking site ch (refusals/coll "to-chan!!" coll) true)
    ch))

(defn take [site n ch buf-or-n]
  (let [out (chans/of buf-or-n)]
    (background site
      (closing out
        (let [n (double (refusals/number "take" n))]
          (loop [i 0]
            (when (< i n)
              (when-some [v (ports/take ch)]
                (ports/put out v)
                (recur (inc i))))))
        (ports/close out)))
    out))

;; ---- many to one

(defn- take-from-each
  "The next value of each channel, taken from all of them at once."
  [chs]
  (let [values (object-array (count chs))
        left (AtomicInteger. (count chs))
        all (Channel/rendezvous)
        note (fn [i v]
               (aset values i v)
               (when (zero? (.decrementAndGet left)) (ports/close all)))]
    (dotimes [i (count chs)]
      (let [v (ports/take-later (nth chs i) (Callback. (ports/completion #(note i %)) true))]
        (when-not (ports/pending? v) (note i v))))
    (ports/take all)
    (vec values)))

(defn- put-mapped [f chs out]
  (loop []
    (let [values (take-from-each chs)]
      (if (some nil? values)
        (ports/close out)
        (do (ports/put out (apply f values))
            (recur))))))

(defn map [site f chs buf-or-n]
  (let [chs (refusals/channels "map" chs)
        f (refusals/callable "map" f)
        out (chans/of buf-or-n)]
    (if (empty? chs)
      (ports/close out)
      (background site (closing out (put-mapped f chs out))))
    out))

(defn- put-merged [chs out]
  (loop [cs chs]
    (if (seq cs)
      (let [[v c] (ports/alts cs nil)]
        (if (nil? v)
          (recur (filterv #(not= c %) cs))
          (do (ports/put out v)
              (recur cs))))
      (ports/close out))))

(defn merge [site chs buf-or-n]
  (let [out (chans/of buf-or-n)]
    (background site (closing out (put-merged (refusals/channels "merge" chs) out)))
    out))

;; ---- deprecated upstream

(defn each-value
  "Calls f with each value of ch on a fiber, then closes out; closes it too when f throws."
  [site ch out f]
  (background site
    (closing out
      (loop []
        (when-some [v (ports/take ch)]
          (f v)
          (recur)))
      (ports/close out)))
  out)

(defn filter-from [site p ch buf-or-n]
  (let [out (chans/of buf-or-n)
        p (refusals/callable "filter<" p)]
    (each-value site ch out #(when (p %) (ports/put out %)))))

(defn remove-from [site p ch buf-or-n]
  (filter-from site (complement (refusals/callable "remove<" p)) ch buf-or-n))

(defn- put-each [f in out]
  (loop []
    (let [v (ports/take in)]
      (if (nil? v)
        (ports/close out)
        (do (doseq [x (f v)] (ports/put out x))
            (when-not (ports/closed? out)
              (recur)))))))

(defn- mapcat-between [site f in out]
  (background site (closing out (put-each f in out))))

(defn mapcat-from [site f in buf-or-n]
  (let [out (chans/of buf-or-n)]
    (mapcat-between site (refusals/callable "mapcat<" f) in out)
    out))

(defn mapcat-onto [site f out buf-or-n]
  (let [in (chans/of buf-or-n)]
    (mapcat-between site (refusals/callable "mapcat>" f) in out)
    in))

(defn unique [site ch buf-or-n]
  (let [out (chans/of buf-or-n)
        last-value (volatile! nil)]
    (each-value site ch out #(when-not (= % @last-value) (ports/put out %) (vreset! last-value %)))))

(defn partition [site n ch buf-or-n]
  (let [n (long (refusals/number "partition" n))]
    (when-not (pos? n) (throw (refusals/wrong-value "partition" "a whole number from 1 up" n)))
    (let [out (chans/of (or buf-or-n 1) (partition-all n) nil)]
      (each-value site ch out #(ports/put out %)))))

(defn partition-by [site f ch buf-or-n]
  (let [out (chans/of (or buf-or-n 1) (core/partition-by (refusals/callable "partition-by" f)) nil)]
    (each-value site ch out #(ports/put out %))))
