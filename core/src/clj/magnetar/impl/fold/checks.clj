(ns magnetar.impl.fold.checks
  "What a fold or a pmap is given: options, functions, transducers; misuse is answered before anything starts."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors])
  (:import
   (clojure.lang AFunction ArityException Compiler Keyword Ratio RestFn Symbol)
   (java.lang.reflect Field Method Modifier)))

(set! *warn-on-reflection* true)

(defn misuse [reason message data]
  (throw (errors/illegal-argument reason message data)))

(defn show
  "The printed form of a value, short, and whatever its printing does; of a function, its name."
  [x]
  (if (instance? AFunction x)
    (str/replace (Compiler/demunge (.getName (class x))) #"--\d+(?=$|/)" "")
    (arguments/show x)))

;; ---- options

(def ^:private most 1000000) ; fibers at a time, elements of a chunk

(defn not-positive
  "Refuses what is no number for the option."
  [place option n]
  (misuse :magnetar/bad-option
          (str "`" place "` wants a whole number from 1 " (if (pos-int? n) (str "to " most) "up") " for " option "; this is " (show n) ".")
          {:option option :value n}))

(defn- positive [place options option]
  (let [n (get options option)]
    (when-not (or (nil? n) (and (int? n) (<= 1 (long n) (long most))))
      (not-positive place option n))))

(defn options
  "The options, checked: a map with no other keys than `known`."
  [place known options]
  (when-not (or (nil? options) (map? options))
    (misuse :magnetar/bad-options (str "`" place "` wants its options as a map; this is " (show options) ".") {:options options}))
  (when-some [other (first (remove known (keys options)))]
    (misuse :magnetar/unknown-option
            (str "`" place "` knows the options " (str/join ", " (sort known)) "; this is " (show other) ".") {:option other}))
  (positive place options :parallelism)
  (positive place options :chunk)
  options)

;; ---- functions

(defn- declares? [f ^long n]
  (some #(and (= "invoke" (.getName ^Method %)) (= n (.getParameterCount ^Method %)))
        (.getDeclaredMethods (class f))))

(defn- takes?
  "False if f is a function that certainly cannot be called with n arguments."
  [f ^long n]
  (or (not (instance? AFunction f))
      (and (instance? RestFn f) (<= (.getRequiredArity ^RestFn f) n))
      (declares? f n)))

(defn- fields [^Class c]
  (remove #(Modifier/isStatic (.getModifiers ^Field %)) (.getDeclaredFields c)))

(defn- value-in [x ^Field field]
  (.setAccessible field true)
  (.get field x))

(defn- from-core? [f pattern]
  (some? (re-matches pattern (.getName (class f)))))

(def ^:private maker
  #"clojure\.core\$(cat|(map|filter|remove|keep|take|drop|take_while|drop_while|take_nth|dedupe|distinct|interpose|replace|partition_by|partition_all|map_indexed|keep_indexed|random_sample|halt_when)\$fn__\d+)")

(defn- transducer?
  "True if f certainly is a transducer: one of Clojure's own, or a composition of them."
  [f]
  (and (instance? AFunction f)
       (or (from-core? f maker)
           (and (from-core? f #"clojure\.core\$comp\$fn__\d+")
                (every? #(transducer? (value-in f %)) (fields (class f)))))))

(defn- instead [f what]
  (if (transducer? f) (str "a transducer") (str (show f) what)))

(defn function
  "Checks that f can be called with n arguments, as what `role` says."
  [place role f n remedy]
  (when-not (and (ifn? f) (not (transducer? f)) (takes? f n))
    (misuse :magnetar/not-a-function
            (str "`" place "` wants " role "; this is " (instead f (if (ifn? f) (str ", which does not take " n) "")) ". " remedy)
            {:value f :role role})))

(defn reducing [place f]
  (function place "a reducing function of two arguments" f 2
            "A transducer goes first: (fold/transduce xform combinef reducef coll)."))

(defn- no-identity [place f cause]
  (throw (errors/illegal-argument
           :magnetar/no-identity
           (str "`" place "` starts each chunk with the value of the combine function without arguments, and " (show f)
                " has none. Give it one: (clojure.core.reducers/monoid f (constantly start)).")
           {:combinef f} cause)))

(defn- call-for-identity [place combinef]
  (try
    (combinef)
    (catch ArityException e (no-identity place combinef e))))

(defn combining
  "Checks that f can combine the results of chunks."
  [place f]
  (when (identical? f conj)
    (misuse :magnetar/not-associative
            (str "`" place "` cannot combine with conj, which puts a chunk's result into the other as one element. "
                 "Combine with into: (fold/fold into conj coll).") {:combinef f}))
  (function place "a combine function of two arguments" f 2
            "A transducer goes first: (fold/transduce xform combinef reducef coll).")
  (if (takes? f 0) (call-for-identity place f) (no-identity place f nil)))

;; ---- transducers with state

(defn- immutable? [x]
  (or (nil? x) (string? x) (boolean? x) (char? x) (instance? Keyword x) (instance? Symbol x)
      (instance? Long x) (instance? Double x) (instance? Ratio x) (class? x)))

(declare state-between?)

(defn- state-in-fields? [a b]
  (boolean (some #(state-between? (value-in a %) (value-in b %)) (fields (class a)))))

(defn- state-between?
  "True unless a and b, the same part of two uses of a transducer, are immutable, except what both uses share."
  [a b]
  (cond
    (or (identical? a b) (immutable? a)) false
    (not (identical? (class a) (class b))) true
    (instance? AFunction a) (or (from-core? a #"clojure\.core\$halt_when\$.*") (state-in-fields? a b))
    (and (vector? a) (= (count a) (count b))) (boolean (some true? (map state-between? a b)))
    :else true))

(defn- probe
  ([] nil)
  ([acc] acc)
  ([acc _] acc))

(defn- use-of [place xform]
  (let [rf (try
             (xform probe)
             (catch Exception e
               (throw (errors/illegal-argument
                        :magnetar/not-a-transducer
                        (str "`" place "` wants a transducer, such as (map f); this is " (show xform)
                             ", which fails on a reducing function.") {:xform xform} e))))]
    (if (ifn? rf)
      rf
      (misuse :magnetar/not-a-transducer
              (str "`" place "` wants a transducer, such as (map f); this is " (show xform)
                   ", which makes no function of a reducing function.") {:xform xform}))))

(defn stateful?
  "True if the transducer may keep state from one element to the next, so that a chunk cannot be told apart from a whole.

  Two uses are compared: what one of them made for itself and is no immutable value is its state. What both share, such as an atom
  that a mapped function closes over, was there before, and is the program's own."
  [place xform]
  (when-not (ifn? xform)
    (misuse :magnetar/not-a-transducer
            (str "`" place "` wants a transducer, such as (map f); this is " (show xform) ".") {:xform xform}))
  (let [a (use-of place xform)
        b (use-of place xform)]
    (try
      (state-between? a b)
      (catch RuntimeException _ true))))

;; ---- what transducers do at the end

(defn- halts?
  "True if the use of a transducer has a `halt-when` in it, whose value is the value of the whole reduction."
  [rf]
  (and (instance? AFunction rf)
       (or (from-core? rf #"clojure\.core\$halt_when\$.*")
           (boolean (some #(halts? (value-in rf %)) (fields (class rf)))))))

(defn- completion
  "What a use that saw no element does to a result: :none, it is handed on; :adds, elements are added; :replaces, it becomes another."
  [xform]
  (let [result (Object.)
        seen (volatile! [])
        rf (xform (fn
                    ([] nil)
                    ([acc] (vswap! seen conj acc) acc)
                    ([acc x] (vswap! seen conj x) acc)))
        answer (try (rf result) (catch ArityException _ ::none) (catch Exception _ ::fails-on-this-one))]
    (cond
      (or (identical? ::none answer) (= [[result] result] [@seen answer])) :none
      (identical? result answer) :adds
      :else :replaces)))

(defn order
  "How what the transducer makes may be reduced: :any, a chunk at a time; :in-order, made in order by one and then reduced a chunk at a
  time, since it keeps state or adds elements at the end; :alone, by one altogether, since it decides what the result is."
  [place xform]
  (let [stateful (stateful? place xform)
        completion (if (transducer? xform) :none (completion xform))]
    (cond
      (or (= :replaces completion) (and stateful (halts? (use-of place xform)))) :alone
      (or stateful (= :adds completion)) :in-order
      :else :any)))
