(ns magnetar.impl.match.pattern
  "Takes a pattern apart into steps. A step is

    [:core value pattern]      what core.match compiles: vectors, maps, lists and literals, nested
    [:let name form]
    [:test form]
    [:or name locals tries]    the first of the tries, lists of steps, that succeeds; it gives the locals
    [:array name form locals]  a form that gives nil or the values of the locals

  Names stay as the user wrote them. A test that the user wrote is a :guard, and comes after all steps."
  {:no-doc true}
  (:require
   [clojure.set :as set]
   [magnetar.impl.match.forms :as forms]
   [magnetar.impl.match.refusals :refer [printed refuse]])
  (:import
   (clojure.lang Compiler$LocalBinding)
   (java.util.regex Pattern)))

(set! *warn-on-reflection* true)

(declare pattern)

(defn- step [state & parts]
  (update state :steps conj (vec parts)))

(defn- guard [state form]
  (update state :guards conj form))

(defn- wrong [{:keys [site whole]} p & sentence]
  (apply refuse site {:clause whole, :pattern p} sentence))

;; --- symbols

;; The compiler registers a fn's own name as a local without value, type or place among the arguments.
(defn- own-name-of-fn? [binding]
  (and (instance? Compiler$LocalBinding binding)
       (let [^Compiler$LocalBinding b binding]
         (not (or (.isArg b) (.init b) (.tag b))))))

(defn pinned?
  "Is the symbol a local that a pattern matches by value?"
  [env sym]
  (and (contains? env sym) (not (own-name-of-fn? (get env sym)))))

(defn- ignored? [p]
  (and (symbol? p) (= \_ (first (name p)))))

(defn- class-named [sym]
  (let [found (try (resolve sym) (catch ClassNotFoundException _ nil))]
    (when (class? found) found)))

(defn- check-name [state sym]
  (cond
    (= '& sym)
    (wrong state sym "in " (printed (:whole state)) " the & stands outside of a vector: write [x & others].")

    (namespace sym)
    (wrong state sym "the pattern " (printed (:whole state)) " has the qualified symbol " sym
           ", which can be no local: in a macro write ~'" (name sym) " or " (name sym)
           "#; for its value, bind that to a local first.")

    (class-named sym)
    (wrong state sym "the pattern " (printed (:whole state)) " has the symbol " sym ", which names the class "
           (.getName ^Class (class-named sym)) ": to test for it write (x :guard #(instance? " sym " %)).")))

(defn- symbol-pattern [{:keys [site locals] :as state} sym]
  (cond
    (ignored? sym) [state '_]
    (some #{sym} locals) (let [again (gensym (name sym))]
                           [(guard state `(= ~sym ~again)) again])
    (pinned? (:env site) sym) [(update state :pins conj sym) sym]
    :else (do (check-name state sym)
              [(update state :locals conj sym) sym])))

;; --- values and their parts

(defn- within
  "Adds the core step of `value` with the pattern that `build` makes, before the steps that this adds."
  [state value build]
  (let [[inner p] (build (assoc state :steps []))]
    (assoc inner :steps (into (conj (:steps state) [:core value p]) (:steps inner)))))

(defn match-value
  "Adds the steps that match the value of the symbol `value` with the pattern p."
  [state value p]
  (within state value #(pattern % p)))

(defn- apart
  "Gives the value at this place a name, and lets f add steps about it."
  [state prefix f]
  (let [value (gensym prefix)]
    [(f state value) value]))

(defn- equal-to [state form]
  (apart state "value" #(step %1 :test `(= ~%2 ~form))))

(defn- matches-regex [state p]
  (apart state "text" #(step %1 :test `(and (string? ~%2) (re-matches ~p ~%2)))))

(defn- children [state ps]
  (reduce (fn [[state done] p]
            (let [[state p] (pattern state p)]
              [state (conj done p)]))
          [state []]
          ps))

;; --- vectors

(defn- check-infix [state v]
  (doseq [[before k after] (partition 3 1 v)
          :when (#{:as :guard :when} k)]
    (wrong state v "in " (printed v) " " k " stands between two patterns: write the three as a list, ("
           (printed before) " " k " " (printed after) "), or '" k " for the keyword itself.")))

(defn- split-rest
  "[patterns rest-pattern] of a vector with &."
  [state v]
  (let [[before [_ & after]] (split-with #(not= '& %) v)]
    (when (or (not= 1 (count after)) (= '& (first after)))
      (wrong state v "in " (printed v) " one pattern must follow the &, and nothing else."))
    [(vec before) (first after)]))

(defn- part [state p form]
  (if (ignored? p)
    state
    (let [value (gensym "part")]
      (match-value (step state :let value form) value p))))

(defn- with-rest [state v]
  (let [[ps others] (split-rest state v)
        n (count ps)]
    (apart state "vector"
           (fn [state value]
             (let [size `(and (vector? ~value) (<= ~n (count ~value)))
                   state (step state :test size)
                   state (reduce (fn [state [i p]] (part state p `(nth ~value ~i))) state (map-indexed vector ps))]
               (part state others `(subvec ~value ~n)))))))

(defn- vector-pattern [state v]
  (check-infix state v)
  (if (some #{'&} v)
    (with-rest state v)
    (children state v)))

;; --- lists as patterns of sequences

(defn- sequence-of [state v]
  (if (some #{'&} v)
    (let [[ps others] (split-rest state v)
          [state ps] (children state ps)
          [state others] (pattern state (if (vector? others) (list others :seq) others))]
      (if (symbol? others)
        [state (list (conj ps '& others) :seq)]
        (let [left (gensym "rest")]
          [(within state left (fn [s] [s others])) (list (conj ps '& left) :seq)])))
    (let [[state ps] (children state v)]
      [state (list ps :seq)])))

(defn- seq-pattern [state p]
  (when-not (vector? p)
    (wrong state p "in " (printed (list p :seq)) " a vector must stand before :seq."))
  (apart state "value"
         (fn [state value]
           (let [state (step state :test `(sequential? ~value))
                 items (gensym "items")]
             (cond
               (empty? p) (step state :test `(empty? ~value))
               (= '& (first p)) (within state value #(sequence-of % p))
               :else (within (step state :let items `(seq ~value)) items #(sequence-of % p)))))))

;; --- quoted forms

(defn- quoted? [form]
  (and (seq? form) (= 'quote (first form)) (= 2 (count form))))

(defn- unquoted [form]
  (if (quoted? form) (second form) form))

;; --- maps

;; A set and a key are values: code in them would run at each message.
(defn- check-value [state form]
  (cond
    (quoted? form) state
    (and (symbol? form) (pinned? (:env (:site state)) form)) (update state :pins conj form)
    (or (symbol? form) (seq? form))
    (wrong state form "in the pattern " (printed (:whole state)) " the set element or key " (printed form)
           " is no value: quote it, or bind it to a local first.")
    (coll? form) (reduce check-value state (if (map? form) (mapcat identity form) form))
    :else state))

;; core.match makes a local's name of a key, which only a keyword is sure to be fit for.
(defn- map-key [state k]
  (if (or (keyword? k) (symbol? k))
    [(check-value state k) k]
    (let [key (gensym "key")]
      [(step (check-value state k) :let key k) key])))

(defn- map-keys [state ks]
  (reduce (fn [[state done] k]
            (let [[state k] (map-key state k)]
              [state (conj done k)]))
          [state []]
          ks))

(defn- entries [state value m]
  (let [[state ks] (map-keys state (keys m))]
    (within state value (fn [state]
                          (let [[state ps] (children state (vals m))]
                            [state (zipmap ks ps)])))))

(defn- map-pattern [state m]
  (apart state "map" (fn [state value]
                       (entries (step state :test `(map? ~value)) value m))))

(defn- only-pattern [state m ks]
  (when-not (and (map? m) (vector? ks))
    (wrong state m "in " (printed (list m :only ks)) " a map must stand before :only, and a vector of its keys behind it."))
  (apart state "map" (fn [state value]
                       (let [[state named] (map-keys (step state :test `(map? ~value)) ks)
                             has (for [k named] `(contains? ~value ~k))]
                         (entries (step state :test `(and (== ~(count ks) (count ~value)) ~@has)) value m)))))

;; --- lists

(defn- as-pattern [state p sym]
  (when-not (symbol? sym)
    (wrong state sym "in " (printed (list p :as sym)) " a symbol must stand behind :as."))
  (apart state "value" #(-> %1 (match-value %2 sym) (match-value %2 p))))

(defn- predicates [gs]
  (if (vector? gs) gs [gs]))

(defn- guarded [state p gs]
  (apart state "value" (fn [state value]
                         (reduce (fn [state g] (guard state (list g value)))
                                 (match-value state value p)
                                 (predicates gs)))))

(defn- predicate? [{:keys [site locals]} g]
  (cond
    (seq? g) (contains? '#{fn fn* clojure.core/fn partial comp complement} (first g))
    (symbol? g) (not (or (some #{g} locals) (contains? (:env site) g)))
    :else true))

(defn- conditional [state p g]
  (let [[after :as matched] (apart state "value" #(match-value %1 %2 p))]
    (if (predicate? after g)
      (guarded state p g)
      (update matched 0 guard g))))

(defn- applied [state p f]
  (apart state "value" (fn [state value]
                         (let [result (gensym "result")]
                           (match-value (step state :let result (list f value)) result p)))))

(defn- infix-pattern [state [p k x :as form]]
  (when (not= (count form) (if (= :seq k) 2 3))
    (wrong state form "the pattern " (printed form) " must have " (if (= :seq k) "nothing" "one form") " behind " k "."))
  (case k
    :as (as-pattern state p x)
    :guard (guarded state p x)
    :when (conditional state p x)
    :<< (applied state p x)
    :only (only-pattern state p x)
    :seq (seq-pattern state p)))

;; --- alternatives

(defn- alternative [state value p]
  (let [after (match-value (assoc state :steps [] :guards []) value p)]
    (assoc after
      :try (into (:steps after) (map #(vector :test %)) (:guards after))
      :new (vec (drop (count (:locals state)) (:locals after))))))

(defn- check-same-locals [state form tries]
  (let [sets (map (comp set :new) tries)]
    (when-not (apply = sets)
      (wrong state form "in " (printed form) " the symbol "
             (first (remove (apply set/intersection sets) (mapcat :new tries)))
             " is bound by one alternative and not by another: bind the same symbols in each."))))

(defn- or-pattern [state [_ & ps :as form]]
  (when (empty? ps)
    (wrong state form "(:or) has no alternatives: it would match nothing."))
  (apart state "value"
         (fn [state value]
           (let [tries (mapv #(alternative state value %) ps)
                 new (:new (first tries))]
             (check-same-locals state form tries)
             (-> (step state :or (gensym "found") new (mapv :try tries))
                 (update :locals into new)
                 (update :pins into (mapcat :pins) tries))))))

;; --- binaries

(defn- bound [{:keys [site locals]}]
  (into (set locals) (filter #(pinned? (:env site) %)) (keys (:env site))))

;; Loaded when a binary pattern is met: matching needs no layouts otherwise.
(defn- bits-pattern [state layout]
  (let [ask #(requiring-resolve (symbol "magnetar.impl.bits.pattern" %))
        bound (bound state)
        new ((ask "locals") layout bound)
        pins (filter #(pinned? (:env (:site state)) %) ((ask "pins") layout bound))]
    (apart state "bits" (fn [state value]
                          (-> (step state :array (gensym "fields") ((ask "form") layout bound value) new)
                              (update :locals into new)
                              (update :pins into pins))))))

(defn- bits? [form]
  (and (= 2 (count form))
       (forms/head-of form)
       (forms/called? (first form) 'magnetar.bits/bits)))

;; --- all together

(defn- list-pattern [state form]
  (cond
    (quoted? form) (if (ident? (second form)) [state form] (equal-to state form))
    (= :or (first form)) (or-pattern state form)
    (forms/infix (second form)) (infix-pattern state form)
    (bits? form) (bits-pattern state (unquoted (second form)))
    :else (wrong state form "the list " (printed form) " is no pattern: write it quoted for its value, or ([..] :seq), (:or ..), "
                 "(p :guard f), (p :when test), (p :as x), (p :<< f), ({..} :only [..]), (bits [..]).")))

(defn pattern
  "[state p]: what core.match shall match at this place, and the steps, guards, locals and pins that the pattern adds."
  [state p]
  (cond
    (symbol? p) (symbol-pattern state p)
    (vector? p) (vector-pattern state p)
    (and (map? p) (not (record? p))) (map-pattern state p)
    (seq? p) (list-pattern state p)
    (set? p) (equal-to (check-value state p) p)
    (instance? Pattern p) (matches-regex state p)
    (or (nil? p) (keyword? p) (string? p) (number? p) (boolean? p) (char? p)) [state p]
    :else (equal-to state p)))

(defn- top-pins [env p]
  (if (vector? p) (filterv #(and (symbol? %) (not (ignored? %)) (pinned? env %)) p) []))

(defn analyze
  "What the pattern of a clause of the site does with the value of the symbol `value`: {:steps :locals :pins :top-pins}."
  [site value p]
  (let [start {:site site, :whole p, :steps [], :guards [], :locals [], :pins []}
        {:keys [guards] :as state} (match-value start value p)]
    (-> (select-keys state [:locals :steps])
        (update :steps into (map #(vector :test %)) guards)
        (assoc :pins (vec (distinct (:pins state)))
          :top-pins (top-pins (:env site) p)))))
