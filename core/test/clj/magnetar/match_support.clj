(ns magnetar.match-support
  "Clauses without a mailbox, for the tests of patterns."
  (:require
   [magnetar.impl.match.clauses :as clauses]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Matcher)))

(set! *warn-on-reflection* true)

(defmacro taking
  "`receive` without a mailbox: the clauses meet one message; where none matches, the body of `after`, or :left."
  [message & forms]
  (let [{:keys [matcher clauses after]} (clauses/clauses &env &form forms)
        matching (with-meta (gensym "matcher") {:tag `Matcher})
        answer (gensym "answer")]
    `(let [~matching ~matcher
           ~answer (.match ~matching ~message)]
       ~(clauses/bodies answer clauses (if after `(do ~@(:body after)) :left)))))

(defmacro matches
  "What the pattern binds in the value, as a map from keywords; nil for no match."
  [pattern value]
  (let [{:keys [clauses]} (clauses/clauses &env (list 'matches) [pattern nil])
        locals (:locals (first clauses))]
    `(taking ~value ~pattern ~(zipmap (map keyword locals) locals) ~'_ nil)))
