(ns magnetar.impl.pmap
  "Calls a function on each element, each call on a fiber of its own."
  {:no-doc true}
  (:require
   [magnetar.impl.context :as context]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.fold.checks :as checks]
   [magnetar.impl.fold.chunks]
   [magnetar.impl.fold.owned :as owned]
   [magnetar.impl.fold.sources :as sources]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang ArrayChunk)
   (java.util ArrayList)
   (java.util.concurrent Callable ConcurrentLinkedQueue)
   (java.util.concurrent.atomic AtomicReferenceArray)
   (magnetar.impl.fold.chunks Chunk Source)
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.scope Scope)))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

;; ---- where results go

(definterface Sink
  (^void put [^long position value])
  (all []))

(def ^:private nothing (Object.))

;; Grows without copying and without a lock: segment k holds the positions from 2^k - 1 on. Read after all fibers have ended.
(defn- add-segment [^AtomicReferenceArray segments ^long k]
  (let [fresh (object-array (bit-shift-left 1 k))]
    (java.util.Arrays/fill fresh nothing)
    (.compareAndSet segments k nil fresh)
    (.get segments k)))

(defn- add-all
  "The values up to the first that is not there."
  [v ^objects values]
  (loop [v v
         i 0]
    (if (or (= i (alength values)) (identical? nothing (aget values i)))
      v
      (recur (conj! v (aget values i)) (inc i)))))

(defn- ordered []
  (let [segments (AtomicReferenceArray. 31)]
    (reify Sink
      (put [_ position value]
        (let [i (inc position)
              k (- 63 (Long/numberOfLeadingZeros i))
              ^objects values (or (.get segments k) (add-segment segments k))]
          (aset values (- i (bit-shift-left 1 k)) value)))
      (all [_]
        (loop [v (transient [])
               k 0]
          (if-some [values (when (< k 31) (.get segments k))]
            (recur (add-all v values) (inc k))
            (persistent! v)))))))

(defn- as-they-come []
  (let [values (ConcurrentLinkedQueue.)]
    (reify Sink
      (put [_ _ value] (.add values [value]))
      (all [_] (into [] cat values)))))

(def ^:private nowhere
  (reify Sink
    (put [_ _ _])
    (all [_])))

(defn- sink [kind]
  (case kind
    :ordered (ordered)
    :unordered (as-they-come)
    :none nowhere))

;; ---- running

(deftype Job [site f ^Source source ^Sink sink ^long offset frame])

(defn- failed [^Job job position element ^Throwable e]
  (when (.isCancelled (Fiber/current)) (throw e))
  (throw (owned/failed-at :magnetar/element-failed (.-site job) position element e)))

(defn- do-one [^Job job ^long position element]
  (let [value (try
                ((.-f job) element)
                (catch Throwable e (failed job position element e)))]
    (.put ^Sink (.-sink job) (- position (.-offset job)) value)))

(defn- source-failed [^Job job ^Chunk chunk ^Throwable e]
  (when (or (.isCancelled (Fiber/current)) (instance? InterruptedException e)) (throw e))
  (let [position (+ (.-offset job) (.position chunk -1))]
    (throw (errors/failure (str "The " (.-site job) " failed as it read the collection at position " position ": " (or (ex-message e) (class e)))
             {:magnetar/reason :magnetar/source-failed :site (.-site job) :position position} e))))

(defn- next-slice [job ^Chunk chunk]
  (try
    (.slice chunk)
    (catch Throwable e (source-failed job chunk e))))

(defn- do-chunk [^Job job ^Chunk chunk]
  (loop []
    (when-some [^objects xs (next-slice job chunk)]
      (let [to (.to chunk)]
        (loop [i (.from chunk)]
          (when (< i to)
            (do-one job (+ (.-offset job) (.position chunk i)) (aget xs i))
            (recur (inc i))))
        (recur)))))

(def ^:private always (constantly true))

;; A fiber starts the next one as its last act: no thread has to be woken for that, and no more than the first ones run at a time.
(defn- start-next [^Job job ^Scope scope]
  (when-some [chunk (.next ^Source (.-source job) always)]
    (.fork scope ^String (.-site job) false
           ^Callable (fn []
                       (fibers/install (.-frame job))
                       (context/restored (do-chunk job chunk)) ; the next fiber takes the context of this one
                       (start-next job scope)))))

;; 500,000 fibers in one scope took 117 ms on two cores, in four scopes 80: they meet less often under a lock.
(defn- scopes-for [parallelism]
  (min (long parallelism) (* 2 (owned/cores))))

(defn- start-first
  "Starts as many as may run at a time, or as there are."
  [job parallelism scopes]
  (let [parallelism (long parallelism)]
    (loop [i 0]
      (when (and (< i parallelism) (start-next job (nth scopes (rem i (count scopes)))))
        (recur (inc i))))))

(defn- run [site kind {:keys [place parallelism frame] :as options} offset f coll]
  (let [{:keys [source daemon close]} (sources/source place coll (merge {:chunk 1} options {:one-by-one true}))
        sink ^Sink (sink kind)]
    (try
      (owned/in-scopes site (scopes-for parallelism)
        (fn [scopes]
          (when daemon
            (owned/fork (first scopes) (str site ", reading") true frame daemon))
          (start-first (Job. site f source sink (long offset) frame) parallelism scopes)))
      (.all sink)
      (finally (when close (close))))))

(defn- values
  "The values of f, as `kind` says; :kept, those that are not nil."
  [site kind options offset f coll]
  (if (= :kept kind)
    (filterv some? (run site :ordered options offset f coll))
    (run site kind options offset f coll)))

;; ---- lazily: a window at a time, so that nothing runs while the seq is not read

(defn- windows
  "The values of coll. `values-of` gives the values of a window, which begins at an offset."
  [values-of size offset coll]
  (sources/lazily
    (fn []
      (loop [offset (long offset)
             coll coll]
        (when-some [coll (seq coll)]
          (let [window (into [] (take size) coll)
                values (values-of offset window)
                after (+ offset (count window))
                more (drop size coll)]
            (if (seq values)
              (chunk-cons (ArrayChunk. (to-array values)) (windows values-of size after more))
              (recur after more))))))))

(defn- lazily [site kind {:keys [parallelism chunk] :as options} f coll]
  (let [context (context/outgoing)]
    (windows (fn [offset window] (context/call-in context #(values site kind options offset f window)))
             (* (long parallelism) (long (or chunk 1))) 0 coll)))

;; ---- what the program gives

(def ^:private fibers-per-core 64)

(defn- frame [place bindings]
  (case bindings
    (nil :frame) (fibers/frame)
    :none nil
    (checks/misuse :magnetar/bad-option
                   (str "`" place "` takes :bindings as :frame, so that calls see the dynamic bindings of the caller, or :none; this is "
                        (checks/show bindings) ".")
                   {:bindings bindings})))

(defn- settings [place kind options]
  (-> (checks/options place (cond-> #{:parallelism :chunk :bindings} (not= :none kind) (conj :lazy)) options)
      (update :parallelism #(or % (* (long fibers-per-core) (owned/cores))))
      (assoc :place place :frame (frame place (:bindings options)))))

(defn- options-of
  "The options among what comes behind the collection."
  [place f coll [options :as more]]
  (when (and (map? f) (or (fn? coll) (var? coll)))
    (checks/misuse :magnetar/bad-options
                   (str "`" place "` takes the map of its options last, as in (" place " f coll {:parallelism 8}); the first argument is "
                        (checks/show f) ".")
                   {:options f}))
  (when (or (next more) (not (or (nil? options) (map? options))))
    (checks/misuse :magnetar/bad-options
                   (str "`" place "` takes one collection, then a map of options; this is " (checks/show (last more)) ". For several "
                        "collections write (" place " (fn [[a b]] ..) (map vector as bs)).")
                   {:arguments (vec more)}))
  options)

(defn call
  "The values of f on the elements of the collection: :ordered, :kept, which is ordered without nils, :unordered or, as nil, :none."
  [site place kind f coll more]
  (let [options (settings place kind (options-of place f coll more))]
    (checks/function place "a function of one argument" f 1
                     "A transducer goes to fold/transduce, or around the collection: (eduction xform coll).")
    (if (:lazy options)
      (lazily site kind options f (sources/as-seq place coll))
      (values site kind options 0 f coll))))
