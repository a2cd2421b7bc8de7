(ns magnetar.impl.refusals
  "How magnetar.async refuses an argument: with the class of error that core.async throws, and a sentence that says what, where and what to do.
  A function that core.async calls later is refused later, where it would be called."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (java.util.function BiFunction)
   (magnetar.kernel.channel Ports)))

(set! *warn-on-reflection* true)

(defn- shown [x]
  (if (nil? x) "nil" (str (arguments/show x) " of " (.getName (class x)))))

(defn- sentence [operation wanted x remedy]
  (str "`" operation "` wants " wanted "; this is " (shown x) "." (when remedy (str " " remedy))))

(defn wrong-kind
  "The error of a value of a wrong kind: a ClassCastException, or a NullPointerException for nil."
  ([operation wanted x] (wrong-kind operation wanted x nil))
  ([operation wanted x cause]
   ((if (nil? x) errors/null-pointer errors/class-cast)
    :magnetar/wrong-kind (sentence operation wanted x nil) {:operation operation :value x} cause)))

(defn wrong-value
  "The error of a value that will not do: an IllegalArgumentException."
  ([operation wanted x] (wrong-value operation wanted x nil))
  ([operation wanted x remedy]
   (errors/illegal-argument :magnetar/wrong-value (sentence operation wanted x remedy) {:operation operation :value x})))

;; ---- numbers

(defn number
  "The number, or throws."
  [operation x]
  (if (number? x) x (throw (wrong-kind operation "a number" x))))

(defn millis
  "The milliseconds of a timeout, or throws."
  ^long [x]
  (cond
    (instance? Long x) (long x)
    (not (number? x)) (throw (wrong-kind "timeout" "a number of milliseconds" x))
    (<= Long/MIN_VALUE (double x) Long/MAX_VALUE) (long (bigint x))
    :else (throw (wrong-value "timeout" "a number of milliseconds that a long can hold" x))))

;; ---- functions and collections

(defn function
  "The function, or throws."
  ([operation x] (function operation "a function" x))
  ([operation wanted x]
   (if (ifn? x) x (throw (wrong-kind operation wanted x)))))

(defn callable
  "The function; for what is not a function, one that throws the refusal once it is called."
  ([operation x] (callable operation "a function" x))
  ([operation wanted x]
   (if (ifn? x)
     x
     (fn [& _] (function operation wanted x)))))

(defn coll
  "What can be made a seq of, or throws."
  [operation x]
  (if (seqable? x) x (throw (wrong-value operation "a collection" x))))

(defn channels
  "The vector of channels, or throws a RuntimeException."
  [operation chs]
  (if (seqable? chs)
    (vec chs)
    (throw (errors/at-caller
             (ex-info (sentence operation "a collection of channels" chs "Write it in a vector.")
                      {:magnetar/reason :magnetar/wrong-kind :operation operation :value chs})))))

(defn conjoined
  "`conj`; for what nothing can be conjoined to, a function that throws the refusal once it is called with a value."
  [operation x]
  (if (or (nil? x) (coll? x))
    conj
    (fn
      ([ret] ret)
      ([_ _] (throw (wrong-kind operation "a collection to conjoin to" x))))))

(def ^:private transducer "a transducer, as in (map inc)")

(defn built
  "The reducing function that the transducer makes of `step`, or throws. What it makes that is no function is refused once it is called."
  [operation xform step]
  (let [f (function operation transducer xform)]
    (callable operation "a transducer that makes a function"
              (try
                (f step)
                (catch ClassCastException e
                  (throw (if (ex-data e) e (wrong-kind operation transducer xform e))))))))

;; ---- ports

(def ^:private ports
  {"take" "A take wants a channel, or another port to take from"
   "put" "A put wants a channel, or another port to put on"
   "close" "`close!` wants a channel, or another port"})

(defn- no-port [operation x]
  (errors/illegal-argument :magnetar/not-a-port
    (str (ports operation) "; this is " (shown x) ". "
         (if (and (= "take" operation) (coll? x)) "Make one of its values with (to-chan! ..)." "Make one with (chan)."))
    {:operation (keyword operation) :value x}))

(Ports/refuseWith (reify BiFunction (apply [_ operation x] (no-port operation x))))

(defn no-put
  "The error of a vector in alts! that is no [port value]."
  [clause]
  (errors/index-out-of-bounds :magnetar/not-a-put
    (str "`alts!` takes [port value] to put; this is " (arguments/show clause) ". To take from a port, give it without a vector.")
    {:value clause}))

(defn no-such-party
  "The error of what does not fulfil the protocol of a mult, mix or publication; any other error is returned as it is."
  [error method operation wanted x remedy]
  (if (str/starts-with? (str (ex-message error)) (str "No implementation of method: :" method " "))
    (errors/illegal-argument :magnetar/wrong-kind (sentence operation wanted x remedy) {:operation operation :value x})
    error))

(defn options
  "Refuses options of alts! that it does not know: one that is mistyped would be ignored."
  [opts]
  (when (some? opts)
    (when-not (map? opts)
      (throw (errors/illegal-argument :magnetar/bad-options
               (str "`alts!` takes its options in pairs, as in :default x, or as a map; this is " (arguments/show opts) ".")
               {:options opts})))
    (let [known (+ (if (contains? opts :priority) 1 0) (if (contains? opts :default) 1 0))]
      (when-not (== (count opts) known)
        (arguments/options "alts!" #{:priority :default} opts)))))
