(ns magnetar.impl.fold.engine
  "Reduces the chunks of a source in parallel and combines their results in order."
  {:no-doc true}
  (:require
   [magnetar.impl.environment :as environment]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.fold.checks :as checks]
   [magnetar.impl.fold.chunks]
   [magnetar.impl.fold.owned :as owned]
   [magnetar.impl.runtime])
  (:import
   (java.util HashMap)
   (java.util.concurrent.atomic AtomicLong AtomicLongArray AtomicReferenceArray)
   (java.util.concurrent.locks LockSupport)
   (java.util.function LongBinaryOperator)
   (magnetar.impl.fold.chunks Batches Chunk Source)
   (magnetar.kernel.fiber Cause$Cancel Fiber)))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

;; Chunks are numbered in the order of the collection. The answer comes from the chunks up to the first one that ends the fold, by
;; `reduced` or by a failure. `limit` is the least number known to end it. No chunk beyond it is begun, and workers there are cancelled.
;; Workers before it go on, because one of them may end the fold earlier still. So the reduction in order has the same answer and failure.

(deftype Outcome [value stop]) ; stop: nil, :reduced, or what was thrown

(deftype Run [site reducef combinef ^Source source
              ^AtomicLong limit
              ^AtomicLongArray current          ; per worker: the number of the chunk it reads or reduces, -1 for none
              ^AtomicReferenceArray workers     ; their fibers; the caller's is not among them
              ^HashMap nodes])                  ; the tree; guarded by itself

(def ^:private lesser
  (reify LongBinaryOperator (applyAsLong [_ a b] (min a b))))

(defn- needed? [^Run run ^long number]
  (<= number (.get ^AtomicLong (.-limit run))))

(defn- dismiss [^Run run ^long worker]
  (when-some [^Fiber fiber (.get ^AtomicReferenceArray (.-workers run) worker)]
    (.cancel fiber (Cause$Cancel. "the fold has its answer"))))

(defn- end-at
  "Makes the chunk the last one. A worker writes `current` before it reads `limit`, and here it is the other way round, so that one of
  both sees the other."
  [^Run run ^long number]
  (.accumulateAndGet ^AtomicLong (.-limit run) number lesser)
  (let [^AtomicLongArray current (.-current run)]
    (dotimes [worker (.length current)]
      (when-not (needed? run (.get current worker))
        (dismiss run worker)))))

;; ---- combining: a binary tree over the numbers, so that its shape depends on nothing but them

(defn- combine [^Run run ^Outcome a ^Outcome b]
  (let [stop (.-stop b)]
    (cond
      (.-stop a) a
      (instance? Throwable stop) b
      :else (let [value ((.-combinef run) (.-value a) (.-value b))]
              (if (reduced? value) (Outcome. @value :reduced) (Outcome. value stop))))))

(defn- combine-failed [^Run run ^Throwable e]
  (Outcome. nil (errors/failure (str "The " (.-site run) " failed as it combined the results of two chunks: " (or (ex-message e) (class e)))
                  {:magnetar/reason :magnetar/combine-failed :site (.-site run)} e)))

(defn- guarded-combine [^Run run a b]
  (try
    (combine run a b)
    (catch Throwable e
      (if (.isCancelled (Fiber/current)) (throw e) (combine-failed run e)))))

(defn- node-key [^long level ^long number]
  (bit-or (bit-shift-left level 56) number))

(defn- leave-or-take
  "The node beside this one, which is taken out of the tree; if it is not there yet, leaves this one and returns nil."
  [^Run run ^long level ^long number outcome]
  (let [^HashMap nodes (.-nodes run)]
    (locking nodes
      (or (.remove nodes (node-key level (bit-xor number 1)))
          (do (.put nodes (node-key level number) outcome)
              nil)))))

(defn- add-outcome [^Run run ^long number outcome]
  (loop [level 0
         number number
         ^Outcome outcome outcome]
    (when (.-stop outcome)
      (end-at run (bit-shift-left number level)))
    (when-some [beside (leave-or-take run level number outcome)]
      (recur (inc level)
             (bit-shift-right number 1)
             (if (even? number) (guarded-combine run outcome beside) (guarded-combine run beside outcome))))))

(defn- left-over
  "The nodes that found none beside them, in order."
  [^Run run]
  (let [first-chunk (fn [k] (let [k (long k)] (bit-shift-left (bit-and k 0xffffffffffffff) (bit-shift-right k 56))))]
    (map val (sort-by #(first-chunk (key %)) (.-nodes run)))))

(defn- answer [^Run run]
  (if-some [nodes (seq (left-over run))]
    (let [^Outcome outcome (reduce #(if (.-stop ^Outcome %1) (reduced %1) (guarded-combine run %1 %2)) nodes)]
      (if (instance? Throwable (.-stop outcome))
        (throw (.-stop outcome))
        (.-value outcome)))
    ((.-combinef run))))

;; ---- pace: steps of about half a millisecond, then a look round

(definterface Walk
  (^long index [])
  (^long left [])                                    ; elements until the next look round
  (^Object walk [xs ^long from ^long to f acc]))

(def ^:private ^:const quick-nanos 250000)
(def ^:private ^:const slow-nanos 1000000)
(def ^:private ^:const longest-step 65536)
(def ^:private ^:const patience-nanos 50000)

;; In a simulation no time passes while a chunk is reduced: others are fetched at the first look round, or they would never be.
(defn- clock ^long []
  (.nanoTime (.environment (Fiber/current))))

(defn- patience ^long []
  (if (environment/simulated?) -1 patience-nanos))

;; A yield does not let those pass who were made runnable from outside the carrier; a park of a nanosecond does (docs/decisions/0004).
(defn- let-others-run [^long yields]
  (if (zero? (bit-and yields 3))
    (LockSupport/parkNanos 1)
    (Thread/yield)))

(defn- next-step ^long [^long step ^long spent]
  (cond
    (< spent quick-nanos) (min longest-step (* 2 step))
    (> spent slow-nanos) (max 1 (quot step 2))
    :else step))

;; Belongs to one worker; `at` is the index of the element that it is at. `on-late` is called after the instant `late`, and again so much
;; later until it says true.
(deftype Pace [^Fiber fiber virtual on-late ^:unsynchronized-mutable ^long late ^:unsynchronized-mutable ^long last ^:unsynchronized-mutable ^long step
               ^:unsynchronized-mutable ^long left ^:unsynchronized-mutable ^long yields
               ^:unsynchronized-mutable ^long at]
  Walk
  (index [_] at)
  (left [_] left)
  (walk [_ xs from to f acc]
    (set! left (- left (- to from)))
    (let [^objects xs xs]
      (loop [i from
             acc acc]
        (if (< i to)
          (do (set! at i)
              (let [acc (f acc (aget xs (unchecked-int i)))]
                (if (reduced? acc) acc (recur (inc i) acc))))
          acc))))
  Runnable
  (run [_]
    (.check fiber)
    (let [now (clock)
          spent (- now last)]
      (set! step (next-step step spent))
      (set! left step)
      (when (and virtual (> spent quick-nanos))
        (set! yields (inc yields))
        (let-others-run yields))
      (when (> now late)
        (set! late (if (on-late) Long/MAX_VALUE (+ now patience-nanos))))
      (set! last (clock)))))

(defn- pace [on-late]
  (let [now (clock)]
    (Pace. (Fiber/current) (.isVirtual (Thread/currentThread)) on-late
           (if on-late (+ now (patience)) Long/MAX_VALUE) now 1 1 0 0)))

;; ---- one chunk

(def ^:private dropped (reduced ::dropped))

(defn- look-round
  "What goes on being reduced: acc, or the mark of a chunk that is no longer needed."
  [run ^Pace pace ^Chunk chunk acc]
  (.run pace)
  (if (or (reduced? acc) (needed? run (.index chunk))) acc dropped))

(defn- reduce-slice [^Run run ^Pace pace ^Chunk chunk xs acc]
  (let [f (.-reducef run)
        end (.to chunk)]
    (loop [from (.from chunk)
           acc acc]
      (let [to (min end (+ from (.left pace)))
            acc (.walk pace xs from to f acc)
            acc (if (zero? (.left pace)) (look-round run pace chunk acc) acc)]
        (if (or (= to end) (reduced? acc))
          acc
          (recur to acc))))))

(defn- reduce-guarded [^Run run ^Pace pace ^Chunk chunk ^objects xs acc]
  (try
    (reduce-slice run pace chunk xs acc)
    (catch Throwable e
      (when (.isCancelled (Fiber/current)) (throw e))
      (let [i (.index pace)]
        (reduced (Outcome. nil (owned/failed-at :magnetar/fold-failed (.-site run) (.position chunk i) (aget xs i) e)))))))

(defn- next-slice [^Run run ^Chunk chunk]
  (try
    (.slice chunk)
    (catch Throwable e
      (when (or (.isCancelled (Fiber/current)) (instance? InterruptedException e)) (throw e))
      (let [position (.position chunk -1)]
        (Outcome. nil (errors/failure (str "The " (.-site run) " failed as it read the collection at position " position ": "
                                        (or (ex-message e) (class e)))
                        {:magnetar/reason :magnetar/source-failed :site (.-site run) :position position} e))))))

(defn- ended [acc]
  (cond
    (identical? acc dropped) nil
    (instance? Outcome @acc) @acc
    :else (Outcome. @acc :reduced)))

(defn- reduce-chunk
  "The outcome of a chunk, or nil if it is no longer needed."
  [^Run run ^Pace pace chunk]
  (loop [acc ((.-combinef run))]
    (if (reduced? acc)
      (ended acc)
      (let [slice (next-slice run chunk)]
        (cond
          (nil? slice) (Outcome. acc nil)
          (instance? Outcome slice) slice
          :else (recur (reduce-guarded run pace chunk slice acc)))))))

;; ---- workers

(defn- claimer [^Run run ^long worker]
  (let [^AtomicLongArray current (.-current run)]
    (fn [number]
      (.set current worker (long number))
      (needed? run number))))

(defn- work
  "Reduces chunks, as `next-chunk` gives them, until there are no more, or `more?` says no."
  [^Run run worker pace next-chunk more?]
  (let [worker (long worker)
        claim (claimer run worker)]
    (when (pos? worker)
      (.set ^AtomicReferenceArray (.-workers run) worker (Fiber/current)))
    (loop []
      (when-some [^Chunk chunk (next-chunk claim)]
        (when-some [outcome (reduce-chunk run pace chunk)]
          (.set ^AtomicLongArray (.-current run) worker -1)
          (add-outcome run (.index chunk) outcome))
        (when (more?)
          (recur))))))

(defn- start-workers [^Run run scope ^long parallelism site]
  (let [frame (fibers/frame)
        ^Source source (.-source run)]
    (dotimes [i parallelism]
      (owned/fork scope site false frame
                  #(work run (inc i) (pace nil) (fn [claim] (.next source claim)) (constantly true))))))

;; The caller begins alone: a fold of a few microseconds starts no fiber. What it is at then is the first chunk of those that are left, so
;; it never has to be dismissed, and it is worker 0, which never is. If the chunks have to be read in order, and it takes longer to read
;; than to reduce them, it stays alone: others would wait for each other, and hand elements from core to core.

(definterface Watch
  (read [source claim])   ; the next chunk, timed
  (^boolean worthwhile [])) ; whether others would help, by what has happened since the last time it was asked

(deftype ReadingWatch [^:unsynchronized-mutable ^long since ^:unsynchronized-mutable ^long reading]
  Watch
  (read [_ source claim]
    (let [start (clock)
          chunk (.next ^Source source claim)]
      (set! reading (+ reading (- (clock) start)))
      chunk))
  (worthwhile [_]
    (let [now (clock)
          answer (<= (* 2 reading) (- now since))]
      (set! since now)
      (set! reading 0)
      answer)))

(defn- watch [source]
  (if (instance? Batches source)
    (ReadingWatch. (clock) 0)
    (reify Watch
      (read [_ source claim] (.next ^Source source claim))
      (worthwhile [_] true))))

(defn- begin-alone [^Run run start]
  (let [source (.-source run)
        ^Watch watch (watch source)
        late (volatile! false)
        on-late #(when (.worthwhile watch)
                   (vreset! late true)
                   (start)
                   true)]
    (work run 0 (pace on-late) #(.read watch source %) #(not @late))))

(defn run
  "The combined value of the chunks of `source`, as `magnetar.impl.fold.sources/source` gives it."
  [site {:keys [source daemon close]} combinef reducef {:keys [parallelism at-once]}]
  (let [run (Run. site reducef combinef source (AtomicLong. Long/MAX_VALUE) (AtomicLongArray. (inc (long parallelism)))
                  (AtomicReferenceArray. (inc (long parallelism))) (HashMap.))]
    (try
      (owned/in-scope site
        (fn [scope]
          (when daemon
            (owned/fork scope (str site ", reading") true (fibers/frame) daemon))
          (if (or daemon at-once)
            (start-workers run scope parallelism site)
            (begin-alone run #(start-workers run scope parallelism site)))))
      (answer run)
      (finally (when close (close))))))
