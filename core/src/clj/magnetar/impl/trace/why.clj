(ns magnetar.impl.trace.why
  "Why a value does not match a pattern: code that goes through the steps of the pattern, and tells of the first one that fails.

  If the program redacts values, the sentences show none."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.shown :as shown]
   [magnetar.impl.match.code :as code]
   [magnetar.impl.match.forms :as forms]
   [magnetar.impl.match.refusals :refer [printed]]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.trace.events :as events]))

(set! *warn-on-reflection* true)

(defn text
  "The value as text, where the program shows all of its values."
  [value]
  (if (shown/redacts?) "the value" (shown/shown value)))

;; ---- what core.match compares

(defn- how-many [n]
  (str n (if (= 1 n) " element" " elements")))

(declare mismatch)

(defn- first-mismatch
  "The first mismatch between the patterns and the values beside them, at these keys."
  [pins path ks ps values]
  (first (keep identity (map #(mismatch pins (conj path %1) %2 %3) ks ps values))))

(defn- of-vector [pins path ps value]
  (cond
    (not (vector? value)) [path (str (text value) " is not a vector")]
    (not= (count ps) (count value)) [path (str (text value) " has " (how-many (count value)) ", not " (count ps))]
    :else (first-mismatch pins path (range) ps value)))

(defn- shown-key
  "A key of a map pattern as it may be shown: a symbol stands for a value."
  [pins k]
  (cond
    (not (contains? pins k)) k
    (shown/redacts?) '..
    :else (pins k)))

(defn- of-map [pins path m value]
  (let [keys-of (map #(get pins % %) (keys m))
        shown (map #(shown-key pins %) (keys m))]
    (if-not (map? value)
      [path (str (text value) " is not a map")]
      (if-some [missing (first (keep (fn [[k shown]] (when-not (contains? value k) [shown])) (map vector keys-of shown)))]
        [path (str (text value) " has no " (printed (first missing)))]
        (first-mismatch pins path shown (vals m) (map #(get value %) keys-of))))))

(defn- of-items
  "The pattern ([p ..] :seq) or ([p .. & others] :seq)."
  [pins path ps value]
  (let [[before [_ & others]] (split-with #(not= '& %) ps)
        n (count before)
        found (long (bounded-count (inc n) value))]
    (cond
      (< found n) [path (str (text value) " has only " (how-many found))]
      (and (empty? others) (< n found)) [path (str (text value) " has more than " (how-many n))]
      :else (first-mismatch pins path (range) before value))))

(defn- of-symbol [pins path sym value]
  (when (and (contains? pins sym) (not= (pins sym) value))
    [path (str (text value) " is not " (text (pins sym)) ", the value of " sym)]))

(defn- of-literal [path p value]
  (when-not (= p value)
    [path (str (text value) " is not " (printed p))]))

(defn- mismatch
  "[path sentence] of the first difference, or nil."
  [pins path p value]
  (cond
    (symbol? p) (of-symbol pins path p value)
    (vector? p) (of-vector pins path p value)
    (map? p) (of-map pins path p value)
    (and (seq? p) (= 'quote (first p))) (of-literal path (second p) value)
    (seq? p) (of-items pins path (first p) value)
    :else (of-literal path p value)))

(defn core
  "Why the value does not match what core.match matches; nil if it does. `part` is its text if it is a part of the message."
  [p pins value part]
  (when-some [[path sentence] (mismatch pins [] p value)]
    (str (when (and part (seq path)) (str "in " part ", "))
         (when (seq path) (str "at " (printed path) ", "))
         sentence)))

;; ---- tests

(defn- plain
  "The form as the user may have written it: without namespaces of Clojure, and with the values of the names, except in functions."
  [names form]
  (cond
    (contains? names form) (symbol (if (shown/redacts?) ".." (shown/shown (names form))))
    (and (symbol? form) (= "clojure.core" (namespace form))) (symbol (name form))
    (and (seq? form) (not (forms/function? form))) (apply list (map #(plain names %) form))
    (vector? form) (mapv #(plain names %) form)
    :else form))

(defn- thrown-text [e]
  (if (shown/redacts?) (.getName (class e)) (reports/words e)))

(defn refuted
  "Why the test, which f evaluates, fails; nil if it holds."
  [form names f]
  (let [[holds thrown] (try [(f) nil] (catch Exception e [nil e]))
        shown #(events/form-text (plain names form))]
    (cond
      thrown (str (shown) " threw " (thrown-text thrown))
      (not holds) (str (shown) " is false"))))

;; ---- the code

(defn- symbols-in [form]
  (distinct (filter symbol? (tree-seq coll? seq form))))

(defn- values-of
  "Code of the values of those symbols in the form that are bound."
  [bound form]
  (into {} (map (fn [x] [(list 'quote x) x])) (filter bound (symbols-in form))))

(defn- introduced [[op a b c]]
  (case op
    :core (symbols-in b)
    :let [a]
    :test []
    :or b
    :array c))

(defn- or-else
  "Code that goes on with `inner` if the step matches, and else gives the sentence."
  [pins step inner sentence]
  `(let [found# ~(code/emit-step pins step `(or ~inner :matches))]
     (case found#
       nil ~sentence
       :matches nil
       found#)))

(defn- step-code [{:keys [pins message]} bound [op a b c :as step] inner]
  (case op
    :core `(or (core '~b ~(values-of bound b) ~a ~(when-not (= a message) `(text ~a)))
               ~(code/emit-step pins step inner))
    :let (code/emit-step pins step inner)
    :test `(or (refuted '~a ~(values-of bound a) (fn [] ~a)) ~inner)
    :or (or-else pins step inner (str "none of its " (count c) " alternatives matches"))
    :array (or-else pins step inner "its bytes do not have this layout")))

(defn- steps-code [site bound [step & more]]
  (when step
    (step-code site bound step (steps-code site (into bound (introduced step)) more))))

(defn sentence-code
  "Code of a function of a message: why it does not match the analyzed clause, or nil if it does."
  [message {:keys [steps pins]}]
  `(fn [~message]
     ~(steps-code {:pins (set pins), :message message} (conj (set pins) message) steps)))

(defn sentence
  "Why the message does not match, as the function of `sentence-code` tells; nil if it does."
  [why message]
  (try
    (why message)
    (catch Exception e (str "it threw " (thrown-text e)))))
