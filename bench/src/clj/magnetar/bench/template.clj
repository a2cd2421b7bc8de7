(ns magnetar.bench.template
  "The workloads, written once, in the words of core.async.

  `define-workloads` expands them for one library: `async/x` becomes the library's own public `x`, and the words `start`,
  `take`, `put` and `alts` become the names that suit the kind of fiber. So both sides run the same source, each through its
  own macros. A workload is a function of `n` that does `n` operations and returns how many it did; it is called on a
  platform thread, starts its fibers and waits for them."
  (:require
   [clojure.walk :as walk]))

(def ^:private go-words
  '{start async/go, take async/<!, put async/>!, alts async/alts!})

(def ^:private io-words
  '{start async/io-thread, take async/<!!, put async/>!!, alts async/alts!!})

(def ^:private ping-pong
  '(let [to (async/chan) fro (async/chan)]
     (start (loop [i 0]
              (when (< i n)
                (put fro (take to))
                (recur (inc i)))))
     (async/<!! (start (loop [i 0]
                         (if (< i n)
                           (do (put to i)
                               (take fro)
                               (recur (inc i)))
                           i))))))

(def ^:private fan-in
  '(let [c (if (pos? buffer) (async/chan buffer) (async/chan))
         share (quot n producers)]
     (dotimes [_ producers]
       (start (loop [i 0]
                (when (< i share)
                  (put c i)
                  (recur (inc i))))))
     (async/<!! (start (loop [i 0]
                         (if (< i n)
                           (do (take c) (recur (inc i)))
                           i))))))

(def ^:private select
  '(let [cs (vec (repeatedly width #(if (pos? buffer) (async/chan buffer) (async/chan))))
         share (quot n width)]
     (doseq [c cs]
       (start (loop [i 0]
                (when (< i share)
                  (put c i)
                  (recur (inc i))))))
     (async/<!! (start (loop [i 0]
                         (if (< i n)
                           (do (alts cs) (recur (inc i)))
                           i))))))

(def ^:private spawn
  '(let [results (object-array n)]
     (dotimes [i n]
       (aset results i (start i)))
     (loop [i 0 done 0]
       (if (< i n)
         (recur (inc i) (if (async/<!! (aget results i)) (inc done) done))
         done))))

(def ^:private park
  '(let [cs (object-array n)]
     (dotimes [i n]
       (let [c (async/chan)]
         (aset cs i c)
         (start (take c))))
     cs))

(def ^:private workloads
  {'ping-pong ping-pong
   'fan-in-4 (walk/postwalk-replace '{producers 4 buffer 1024} fan-in)
   'rendezvous (walk/postwalk-replace '{producers 1 buffer 0} fan-in)
   'one-to-one (walk/postwalk-replace '{producers 1 buffer 1024} fan-in)
   'select-10 (walk/postwalk-replace '{width 10 buffer 0} select)
   'select-10-buffered (walk/postwalk-replace '{width 10 buffer 64} select)
   'spawn spawn
   'park park})

(defn- in-library
  [library form]
  (walk/postwalk
    (fn [x]
      (if (and (symbol? x) (= "async" (namespace x)))
        (symbol (name library) (name x))
        x))
    form))

(defn- definition
  [library [workload body] [kind words]]
  `(defn ~(symbol (str workload "-" kind))
     [~(with-meta 'n {:tag 'long})]
     ~(in-library library (walk/postwalk-replace words body))))

(defmacro define-workloads
  "Defines in the current namespace each workload twice with the library `library`: `x-go` in go blocks, `x-io` in io-threads.

  `park-go` and `park-io` are no workloads: they park `n` fibers, each on a channel of its own, and return the channels;
  `release` of these wakes them and returns how many it woke.

  Example: (define-workloads clojure.core.async)"
  [library]
  `(do
     ~@(for [workload workloads, kind [["go" go-words] ["io" io-words]]]
         (definition library workload kind))
     ~(in-library library
                  '(defn release [cs]
                     (count (filter #(async/offer! % :on) cs))))))
