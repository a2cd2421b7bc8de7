(ns magnetar.fold
  "Folds and maps over any collection in parallel: ordered, bounded, cancellable.

  A failure says at which element it happened.

  fold transduce           reduce chunks in parallel and combine their results in order
  map filter lines         what to fold: pipelines, and the lines of a file
  pmap pkeep               the values of a function, each call on a fiber of its own, in order
  pmap-unordered           the same, in the order in which they are ready
  pfor-each                for side effects

  `fold` and `transduce` are for computing: as many chunks at a time as there are cores. `pmap` and its kin
  are for calls that wait: 64 at a time for each core, unless :parallelism says otherwise.

  All of them are scopes. They do not return before the fibers they have started have ended. Cancelling the
  caller cancels these fibers. The fibers see the dynamic bindings and context values of the caller. A fold
  runs some chunks on the calling thread, so its functions must not use `self` and `receive`, which are
  refused on the other threads only.

  Collections are vectors, maps, sets, ranges, arrays, strings, Lists, Iterables, Iterators, Spliterators,
  Streams, lazy seqs, channels (up to their end), `lines` of a file, eductions, pipelines of
  clojure.core.reducers, and all else that is reducible. A collection that can be entered anywhere is cut.
  Any other is read in order, a batch at a time, while batches before it are reduced.

  Some names shadow Clojure's: require it with an alias, `[magnetar.fold :as fold]`."
  (:refer-clojure :exclude [filter map pmap transduce])
  (:require
   [clojure.core :as core]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.fold :as impl]
   [magnetar.impl.fold.checks :as checks]
   [magnetar.impl.fold.lines :as file]
   [magnetar.impl.pmap :as pmap]))

(set! *warn-on-reflection* true)

(defn- chunk-of
  "The number of elements of a chunk, where it has to be given."
  [n]
  (if (nil? n) (checks/not-positive "fold/fold" :chunk n) n))

(defn- fold-with [site options combinef reducef coll]
  (checks/options "fold/fold" #{:chunk} options)
  (impl/fold site (assoc options :place "fold/fold") combinef reducef coll))

(defn ^:no-doc fold-at
  "`fold*`, with its fibers named after the site."
  ([site reducef coll] (fold-with site {} reducef reducef coll))
  ([site combinef reducef coll] (fold-with site {} combinef reducef coll))
  ([site n combinef reducef coll] (fold-with site {:chunk (chunk-of n)} combinef reducef coll)))

(def ^{:added "0.2" :arglists '([reducef coll] [combinef reducef coll] [n combinef reducef coll])} fold*
  "Does what `fold` does, as a function.

  It serves `map`, `apply` and `with-redefs`; a redefinition of it reaches every `fold`. Its fibers are named
  after reducef, because no line is known."
  (fibers/starred fold-at "fold" reducef [reducef coll] [combinef reducef coll] [n combinef reducef coll]))

(defmacro fold
  "Reduces coll in parallel and combines the results in order.

  Each chunk is reduced with reducef, from the value of (combinef). The results are combined with combinef. n
  is the number of elements of a chunk; without n the chunks suit the collection. Over a map, reducef takes
  key and value. Pipelines of clojure.core.reducers are accepted. `reduced` ends the fold as it ends a
  reduction: what comes later does not count.

  A collection of the program's own that folds itself (CollFold) does so, on Clojure's pool. There `reduced`
  ends a chunk only, and a failure comes as it is, without a position.

  Returns what clojure.core.reducers/fold would, for an associative combinef.

  Blocks until all is done.

  Throws as the reduction in order would: an ExceptionInfo of :magnetar/reason :magnetar/fold-failed,
  :position and :element, the failure as its cause. The later chunks are cancelled. (fold conj coll) is
  refused, because conj adds the result of a chunk to the other result as one element: combine with into.

  Cancellation: cancelled, it cancels its fibers and throws.

  Examples:

    (fold/fold + (vec (range 1000000)))
    (fold/fold into conj events)
    (fold/fold (partial merge-with +) (fn [m x] (update m (class x) (fnil inc 0))) events)

  See also `transduce`, and `fold*`, the function: it can be mapped and applied, and `with-redefs` of it
  reaches every call.

  Clojure: clojure.core.reducers/fold."
  ([reducef coll] (fibers/starting &form `fold* "fold" [reducef coll]))
  ([combinef reducef coll] (fibers/starting &form `fold* "fold" [combinef reducef coll]))
  ([n combinef reducef coll] (fibers/starting &form `fold* "fold" [n combinef reducef coll])))

(defn- check-order [xform options]
  (when (or (map? xform) (not (or (nil? options) (map? options))))
    (checks/misuse :magnetar/bad-options
                   (str "`fold/transduce` takes the map of its options last, behind two functions: "
                        "(fold/transduce xform combinef reducef coll {:parallelism 4}); the first argument is " (checks/show xform) ".")
                   {:xform xform})))

(defn ^:no-doc transduce-at
  "`transduce*`, with its fibers named after the site."
  ([site xform f coll] (f (transduce-at site xform f f coll)))
  ([site xform combinef reducef coll] (transduce-at site xform combinef reducef coll nil))
  ([site xform combinef reducef coll options]
   (check-order xform options)
   (impl/transduce site (assoc (checks/options "fold/transduce" #{:parallelism :chunk} options) :place "fold/transduce")
                   xform combinef reducef coll)))

(def ^{:added "0.2" :arglists '([xform f coll] [xform combinef reducef coll] [xform combinef reducef coll options])} transduce*
  "Does what `transduce` does, as a function.

  See also `fold*`."
  (fibers/starred transduce-at "transduce" reducef [xform reducef coll] [xform combinef reducef coll] [xform combinef reducef coll options]))

(defmacro transduce
  "Folds in parallel what the transducer xform makes of coll.

  The entries of a map are elements. Functions given to map and filter are called by several fibers at a time.
  The options come last, behind both functions.

  A transducer that keeps state from one element to the next, such as (take 10) or (partition-by f), is run
  in order, by one fiber. What it makes is reduced in parallel. The same holds of a transducer that adds
  elements at the end. A transducer that decides what the result is, such as (halt-when pred), is run with
  its reduction in order, by the caller. If only a part of the pipeline has state, put that part around the
  collection: (transduce (map work) + (eduction (take 10) coll)).

  Returns (core/transduce xform (completing reducef) (combinef) coll), for an associative combinef. With one
  function f for both, the result is completed too: (f result).

  Blocks until all is done.

  Throws as `fold` does.

  Cancellation: as of `fold`.

  Options:
    :parallelism  chunks at a time; as many as there are cores
    :chunk        elements of a chunk

  Examples:

    (fold/transduce (comp (filter even?) (map inc)) + (vec (range 1000000)))
    (fold/transduce (mapcat words) (partial merge-with +) count-word (fold/lines \"book.txt\") {:parallelism 4})

  See also `transduce*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every
  call.

  Clojure: clojure.core/transduce."
  ([xform f coll] (fibers/starting &form `transduce* "transduce" [xform f coll]))
  ([xform combinef reducef coll] (fibers/starting &form `transduce* "transduce" [xform combinef reducef coll]))
  ([xform combinef reducef coll options] (fibers/starting &form `transduce* "transduce" [xform combinef reducef coll options])))

(defn map
  "Returns a pipeline of f applied to the elements of coll, to fold or reduce.

  It computes nothing itself. Without coll it is a transducer.

  Example:

    (fold/fold + (fold/map inc v))

  Clojure: clojure.core.reducers/map; here f takes the entries of a map as elements."
  ([f] (core/map f))
  ([f coll] (eduction (core/map f) coll)))

(defn filter
  "Returns a pipeline of the elements that satisfy pred, to fold or reduce.

  It computes nothing itself. Without coll it is a transducer.

  Example:

    (fold/fold + (fold/filter even? v))

  Clojure: clojure.core.reducers/filter; here pred takes the entries of a map as elements."
  ([pred] (core/filter pred))
  ([pred coll] (eduction (core/filter pred) coll)))

(defn lines
  "Returns the lines of a file, to fold or reduce.

  The file is mapped into memory and cut at newlines, so its size does not matter. A file that does not say
  how long it is, such as a pipe, is read in order. Fibers that touch a part of the file that is not in
  memory yet hold their carriers meanwhile.

  file is a name, a File or a Path. charset is one whose newline is a byte; UTF-8. A line ends with \\n or
  \\r\\n. Bytes that the charset does not have become U+FFFD. The :position of a failure is the number of the
  line, from 0.

  Throws an IllegalArgumentException if the file cannot be read.

  Example:

    (fold/transduce (map count) + (fold/lines \"big.log\"))

  Clojure: clojure.core/line-seq."
  ([file] (lines file "UTF-8"))
  ([file charset] (file/lines file charset)))

(defn ^:no-doc pmap-at
  "`pmap*`, with its fibers named after the site."
  [site f coll & more]
  (pmap/call site "fold/pmap" :ordered f coll more))

(def ^{:added "0.2" :arglists '([f coll] [f coll options])} pmap*
  "Does what `pmap` does, as a function.

  It serves `map`, `apply` and `with-redefs`; a redefinition of it reaches every `pmap`. Its fibers are named
  after f, because no line is known."
  (fibers/starred pmap-at "pmap" f [f coll & more]))

(defmacro pmap
  "Calls f on each element of coll, each call on a fiber of its own.

  Returns the vector of the values, in the order of coll; with :lazy a seq.

  Blocks until all is done.

  Throws an ExceptionInfo of :magnetar/reason :magnetar/element-failed, :position and :element if a call
  fails, the failure as its cause. The other calls are cancelled.

  Cancellation: cancelled, it cancels its fibers and throws.

  Options:
    :parallelism  calls at a time. Default 64 for each core
    :chunk        elements that one fiber takes, one after the other. Default 1
    :bindings     :none: calls see the root values of dynamic vars
    :lazy         true: a lazy seq, which works only when it is read, a window of :parallelism chunks at a
                  time. Its calls see the bindings and context values of the caller of pmap. After a failure
                  each read throws that again.

  Examples:

    (fold/pmap fetch urls)
    (fold/pmap fetch urls {:parallelism 8})
    (fold/pmap (fn [[user order]] (bill user order)) (map vector users orders))

  See also `pfor-each`, `pkeep`, `pmap-unordered`, and `pmap*`, the function: it can be mapped and applied,
  and `with-redefs` of it reaches every call.

  Clojure: clojure.core/pmap."
  {:arglists '([f coll] [f coll options])}
  [f coll & more]
  (fibers/starting &form `pmap* "pmap" f coll more))

(defn ^:no-doc pmap-unordered-at
  "`pmap-unordered*`, with its fibers named after the site."
  [site f coll & more]
  (pmap/call site "fold/pmap-unordered" :unordered f coll more))

(def ^{:added "0.2" :arglists '([f coll] [f coll options])} pmap-unordered*
  "Does what `pmap-unordered` does, as a function.

  See also `pmap*`."
  (fibers/starred pmap-unordered-at "pmap-unordered" f [f coll & more]))

(defmacro pmap-unordered
  "Does what `pmap` does, with the values in the order in which they are ready.

  Example:

    (fold/pmap-unordered fetch urls)

  See also `pmap-unordered*`, the function: it can be mapped and applied, and `with-redefs` of it reaches
  every call."
  {:arglists '([f coll] [f coll options])}
  [f coll & more]
  (fibers/starting &form `pmap-unordered* "pmap-unordered" f coll more))

(defn ^:no-doc pkeep-at
  "`pkeep*`, with its fibers named after the site."
  [site f coll & more]
  (pmap/call site "fold/pkeep" :kept f coll more))

(def ^{:added "0.2" :arglists '([f coll] [f coll options])} pkeep*
  "Does what `pkeep` does, as a function.

  See also `pmap*`."
  (fibers/starred pkeep-at "pkeep" f [f coll & more]))

(defmacro pkeep
  "Does what `pmap` does, and leaves out the nils.

  Example:

    (fold/pkeep find-user ids)

  See also `pkeep*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every call.

  Clojure: clojure.core/keep."
  {:arglists '([f coll] [f coll options])}
  [f coll & more]
  (fibers/starting &form `pkeep* "pkeep" f coll more))

(defn ^:no-doc pfor-each-at
  "`pfor-each*`, with its fibers named after the site."
  [site f coll & more]
  (pmap/call site "fold/pfor-each" :none f coll more))

(def ^{:added "0.2" :arglists '([f coll] [f coll options])} pfor-each*
  "Does what `pfor-each` does, as a function.

  See also `pmap*`."
  (fibers/starred pfor-each-at "pfor-each" f [f coll & more]))

(defmacro pfor-each
  "Calls f on each element of coll for its effect, as `pmap` does; returns nil.

  It is never lazy, and keeps nothing: coll may be larger than the memory.

  Example:

    (fold/pfor-each upload files {:parallelism 8})

  See also `pfor-each*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every
  call.

  Clojure: clojure.core/run!."
  {:arglists '([f coll] [f coll options])}
  [f coll & more]
  (fibers/starting &form `pfor-each* "pfor-each" f coll more))
