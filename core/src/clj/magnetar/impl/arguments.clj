(ns magnetar.impl.arguments
  "Checks what a program gives: options, durations, functions. Misuse is answered at once, in a sentence."
  {:no-doc true}
  (:require
   [clojure.main :as main]
   [clojure.string :as str]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest])
  (:import
   (java.time Duration)
   (java.util Collection)
   (magnetar.kernel.report Excerpt Excerpt$Full)
   (magnetar.kernel.time Durations)))

(set! *warn-on-reflection* true)

(defn misuse
  "Throws the error of an argument that will not do."
  [reason message data]
  (throw (errors/illegal-argument reason message data)))

(def ^:private most-shown 120)

(defn- with-names
  "The value with functions by their names, in vectors and maps of a few items as well: an object's number says nothing."
  [x ^long depth]
  (cond
    (fn? x) (symbol (str/replace (main/demunge (.getName (class x))) #"--\d+" ""))
    (or (zero? depth) (record? x) (not (and (counted? x) (< (count x) 16)))) x
    (vector? x) (mapv #(with-names % (dec depth)) x)
    (map? x) (update-vals x #(with-names % (dec depth)))
    :else x))

(defn show
  "The printed form of a value, short: no more is printed than is returned. A value that does not print is named by its class."
  [x]
  (let [out (Excerpt. most-shown)]
    (try
      (binding [*print-length* 8 *print-level* 3]
        (if (instance? Duration x)
          (.append out (str x))
          (print-method (with-names x 3) out)))
      (str out)
      (catch Excerpt$Full _ (str out ".."))
      (catch Exception e (str "(" (.getName (class x)) ", which does not print: " (.getName (class e)) ")")))))

(defn- called
  "The name of what takes the options: the function that the program called, where it is known; else the operation. An option, as \":shed\", has its own name."
  [operation]
  (or (when-not (str/starts-with? operation ":") (errors/operation)) operation))

(defn options
  "Refuses options that `operation` does not know: one that is mistyped would be ignored, and a wait last for ever."
  [operation known options]
  (when-not (or (nil? options) (map? options))
    (misuse :magnetar/bad-options
            (str "`" (called operation) "` takes its options as a map; this is " (show options) ".") {:options options}))
  (when-let [unknown (seq (reduce-kv (fn [unknown option _] (if (.contains ^Collection known option) unknown (conj unknown option))) [] options))]
    (misuse :magnetar/unknown-option
            (str "`" (called operation) "` does not know " (str/join ", " (map pr-str unknown)) "; its options are " (str/join ", " (sort known)) "."
                 (when-some [meant (some #(suggest/closest % known) unknown)] (str " Is " meant " meant?")))
            {:unknown (vec unknown) :options options :path [(first unknown)] :value (get options (first unknown))})))

(defn- option-name
  "The option that the keyword or string names, nil if it is no option."
  [what]
  (let [text (str what)]
    (when (str/starts-with? text ":") text)))

(defn subject
  "The beginning of a sentence about an argument: an option with the function that the program called, a function, or what else it is."
  [what]
  (let [option (option-name what)]
    (cond
      option (str (some->> (errors/operation) (#(str "`" % "`: "))) option " is")
      (str/includes? what " ") (str "The " what " is")
      :else (str "`" what "` wants"))))

(defn data
  "The data of an error about an argument: its :value; of an option also its :path and the option itself, as of the error in a spec."
  [what value]
  (let [option (some-> (option-name what) (subs 1) keyword)]
    (cond-> {:value value}
      option (assoc option value :path [option]))))

(def a-duration
  "What a duration is, in words."
  "a number of milliseconds from 0 up, a java.time.Duration or :infinity")

(defn- bad-duration [what wanted duration]
  (misuse :magnetar/bad-duration (str (subject what) " " wanted "; this is " (show duration) ".") (data what duration)))

(defn- nanos-of
  "The duration in nanoseconds, refused as being none of what is wanted. Nil is: a setting that a program looked up and did not find would be a wait without end."
  ^long [what wanted duration]
  (when (or (nil? duration) (coll? duration)) ; the printed form of a collection may have no end
    (bad-duration what wanted duration))
  (try
    (Durations/nanos duration)
    (catch IllegalArgumentException _
      (bad-duration what wanted duration))))

(defn nanos
  "The duration in nanoseconds."
  ^long [what duration]
  (nanos-of what a-duration duration))

;; The last before what counts as no limit.
(def ^:private ^:const longest-timer (dec (quot Durations/INFINITE 1000000)))

(defn show-duration
  "The duration in words, as 50 ms."
  [duration]
  (if (number? duration) (str duration " ms") (show duration)))

(defn- too-long [operation time]
  (misuse :magnetar/bad-duration
          (str "`" operation "` takes a time of at most " longest-timer " milliseconds, about 292 years; this is " (show time)
               ". Give a shorter one, or start no timer for what is never to come.")
          (assoc (data operation time) :longest longest-timer)))

(defn- ending ^long [operation wanted time]
  (let [nanos (nanos-of operation wanted time)]
    (if (= Durations/INFINITE nanos)
      (too-long operation time)
      nanos)))

(defn finite
  "The duration of a timer in nanoseconds: it has to end."
  ^long [operation time]
  (ending operation "a number of milliseconds from 0 up or a java.time.Duration" time))

(defn period
  "The duration in nanoseconds, where it has to be above 0 and to end."
  ^long [what duration]
  (let [wanted "a duration above 0 that ends"
        nanos (nanos-of what wanted duration)]
    (if (< 0 nanos Durations/INFINITE)
      nanos
      (bad-duration what wanted duration))))

(defn interval
  "The period of a timer in nanoseconds: it has to be above 0 and to end."
  ^long [operation time]
  (let [wanted "a number of milliseconds above 0 or a java.time.Duration above 0"
        nanos (ending operation wanted time)]
    (if (pos? nanos)
      nanos
      (bad-duration operation wanted time))))

(defn shutdown
  "The :shutdown that an operation was given, checked: a duration or :brutal-kill."
  [operation value]
  (when-not (= :brutal-kill value)
    (when-not (try
                (Durations/nanos value)
                (catch RuntimeException _ false))
      (misuse :magnetar/bad-option
              (str "`" operation "`: :shutdown is milliseconds from 0 up, a java.time.Duration, :infinity or :brutal-kill; this is " (show value) ".")
              (data :shutdown value))))
  value)

(defn- whole-from ^long [^long least what n ^long most]
  (if (and (int? n) (<= least (long n) most))
    n
    (misuse :magnetar/bad-option
            (str (subject what) " a whole number from " least " " (if (and (integer? n) (< 0.0 (double n))) (str "to " most) "up")
                 "; this is " (show n) ".")
            (data what n))))

(defn whole
  "The number, which has to be whole and above 0, and no more than `most`."
  (^long [what n] (whole what n Long/MAX_VALUE))
  (^long [what n most] (whole-from 1 what n most)))

(defn from-zero
  "The number, which has to be whole and 0 or more, and no more than `most`."
  (^long [what n] (from-zero what n Long/MAX_VALUE))
  (^long [what n most] (whole-from 0 what n most)))

(defn flag
  "The option, which has to be true or false, or nil where it is left out."
  [what x]
  (when-not (or (nil? x) (boolean? x))
    (misuse :magnetar/bad-option (str (subject what) " true or false; this is " (show x) ".") (data what x)))
  x)

(defn option-function
  "The function that is the value of an option, or nil where the option is missing."
  [what f example]
  (when-not (or (nil? f) (ifn? f))
    (misuse :magnetar/bad-option (str (subject what) " a function, as in " example "; this is " (show f) ".") (data what f)))
  f)

(defn function
  "Refuses what cannot be called."
  [operation f example]
  (when-not (ifn? f)
    (misuse :magnetar/not-a-function
            (str "`" operation "` wants a function, as in " example "; this is " (show f) ".") {:value f})))
