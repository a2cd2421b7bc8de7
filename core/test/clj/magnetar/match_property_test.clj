(ns magnetar.match-property-test
  "Patterns against a reader of patterns that is too simple to be wrong."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [clojure.test.check :as check]
   [clojure.test.check.generators :as gen]
   [clojure.test.check.properties :as prop]
   [magnetar.impl.match.pattern :as pattern]
   [magnetar.match-support :refer [taking]]))

(set! *warn-on-reflection* true)

(declare bindings)

(defn- each [ps vs found]
  (reduce (fn [found [p v]] (if found (bindings p v found) (reduced nil))) found (map vector ps vs)))

(defn- ordered [ps vs found]
  (let [[before [_ others]] (split-with #(not= '& %) ps)
        n (count before)]
    (cond
      others (when (<= n (count vs))
               (bindings others (if (vector? vs) (subvec vs n) (drop n vs)) (each before vs found)))
      (= n (count vs)) (each before vs found))))

(defn- bindings
  "What the pattern binds in the value besides `found`, or nil."
  [p v found]
  (when found
    (cond
      (= '_ p) found
      (symbol? p) (when (= v (get found p v)) (assoc found p v))
      (vector? p) (when (vector? v) (ordered p v found))
      (map? p) (when (and (map? v) (every? #(contains? v %) (keys p)))
                 (each (vals p) (map v (keys p)) found))
      (seq? p) (let [[x k y] p]
                 (case k
                   :seq (when (sequential? v) (ordered x v found))
                   :guard (when ((resolve y) v) (bindings x v found))
                   :as (->> found (bindings y v) (bindings x v))
                   (some #(bindings % v found) (rest p))))
      (= p v) found)))

(def ^:private atoms (gen/elements [nil 1 2 1.0 :a :b "a"]))

(def ^:private values
  (gen/recursive-gen
    (fn [inner]
      (gen/one-of [(gen/vector inner 0 3) (gen/list inner) (gen/map (gen/elements [:k :j]) inner {:max-elements 2})]))
    atoms))

(def ^:private patterns
  (gen/recursive-gen
    (fn [inner]
      (let [several (gen/vector inner 0 3)
            open (gen/let [ps several, others (gen/elements '[x y z _])] (into ps ['& others]))]
        (gen/frequency
          [[4 several] [2 open]
           [2 (gen/map (gen/elements [:k :j]) inner {:max-elements 2})]
           [1 (gen/fmap #(list % :seq) (gen/one-of [several open]))]
           [1 (gen/fmap #(list* :or %) (gen/vector atoms 1 3))]
           [1 (gen/let [p inner, f (gen/elements `[int? vector? some?])] (list p :guard f))]
           [1 (gen/let [p inner, x (gen/elements '[x y])] (list p :as x))]])))
    (gen/one-of [atoms (gen/elements '[x y z _])])))

(defn- filled
  "A generator of values that the pattern is likely to match."
  [p]
  (cond
    (symbol? p) (gen/one-of [(gen/return 1) values])
    (vector? p) (let [[before [_ others]] (split-with #(not= '& %) p)]
                  (gen/let [vs (apply gen/tuple (map filled before)), more (if others (gen/vector atoms 0 2) (gen/return []))]
                    (into (vec vs) more)))
    (map? p) (gen/fmap #(zipmap (keys p) %) (apply gen/tuple (map filled (vals p))))
    (seq? p) (if (= :or (first p)) (gen/elements (rest p)) (filled (first p)))
    :else (gen/return p)))

(defn- compiled [p]
  (let [locals (:locals (pattern/analyze {:env {}} 'message p))]
    (eval `(fn [~'message] (taking ~'message ~p ~(zipmap (map #(list 'quote %) locals) locals) ~'_ nil)))))

(deftest patterns-match-what-the-simple-reader-says
  (let [result (binding [*ns* (the-ns 'magnetar.match-property-test)]
                 (check/quick-check 100
                   (prop/for-all [[p vs] (gen/let [p patterns
                                                   likely (gen/vector (filled p) 3)
                                                   others (gen/vector values 3)]
                                           [p (into likely others)])]
                     (let [f (compiled p)]
                       (every? #(= (bindings p % {}) (f %)) vs)))))]
    (is (:pass? result) (pr-str (select-keys result [:seed :shrunk :result])))))
