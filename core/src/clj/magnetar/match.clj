(ns magnetar.match
  "Matches any value against the patterns of `receive`.

  match  does the body beside the first pattern that the value matches

  The guide's page \"Patterns, exactly\" has the patterns. They are compiled by core.match.

  Require it as `[magnetar.match :refer [match]]`."
  (:require
   [magnetar.impl.errors :as errors]
   [magnetar.impl.match.clauses :as clauses]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Matcher)))

(set! *warn-on-reflection* true)

(defn- short-text [value]
  (binding [*print-length* 10, *print-level* 4]
    (reports/cut (pr-str value) 300)))

(defn ^:no-doc no-clause
  "The error of a `match` at `place` in which no pattern matches the value."
  [place value patterns]
  (errors/illegal-argument :magnetar/no-matching-clause
                           (str place ": no clause matches " (short-text value) "; add one, or :else. The patterns are "
                                (apply str (interpose ", " patterns)) ".")
                           {:value value, :patterns patterns}))

(defmacro match
  "Does the body beside the first pattern that value matches; returns its value.

  Clauses are pairs of a pattern and one body form. Locals that are already bound match by value (`=`). New
  symbols are bound; the same symbol twice means equal values. `_` and names that begin with _ match
  anything. A guard that throws does not match, and is reported once. Bodies are in tail position: `recur`
  works.

  Throws an IllegalArgumentException with :magnetar/no-matching-clause and :value in `ex-data` when nothing
  matches.

  Example:

    (match [:ok 7]
      [:ok n]      n
      [:error why] (throw (ex-info \"failed\" {:why why}))) ;=> 7

  Erlang: case .. of."
  [value & forms]
  (let [{:keys [matcher clauses text place]} (clauses/match-clauses &env &form forms)
        subject (gensym "subject")
        matching (vary-meta (gensym "matcher") assoc :tag `Matcher)
        answer (gensym "answer")]
    `(let [~subject ~value
           ~matching ~matcher
           ~answer (.match ~matching ~subject)]
       ~(clauses/bodies answer clauses `(throw (no-clause ~place ~subject ~text))))))
