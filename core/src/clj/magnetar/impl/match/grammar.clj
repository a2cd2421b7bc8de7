(ns magnetar.impl.match.grammar
  "Splits the forms of a `receive` into pattern and body pairs, `(from ..)` clauses and one `(after ..)`."
  {:no-doc true}
  (:require
   [magnetar.impl.match.forms :as forms]
   [magnetar.impl.match.refusals :refer [printed refuse]]
   [magnetar.impl.suggest :as suggest]))

(set! *warn-on-reflection* true)

(defn- marker [form]
  (when-let [head (forms/head-of form)]
    (cond
      (forms/called? head 'magnetar.actor/after) :after
      (forms/called? head 'magnetar.actor/from) :from)))

;; A body may call a function that the user named `after` or `from`.
(defn- stray-marker? [{:keys [env]} form]
  (let [head (forms/head-of form)]
    (and (marker form)
         (not (contains? env head))
         (contains? #{nil 'magnetar.actor/after 'magnetar.actor/from} (forms/var-named head)))))

(defn- from-clause [site [_ channel local & body :as form]]
  (case (count form)
    1 (refuse site {:clause form} (printed form) " has no channel: write (from channel name body ..).")
    2 (refuse site {:clause form} (printed form) " has no name for the value: write (from channel name body ..).")
    (if (or (simple-symbol? local) (vector? local) (map? local))
      {:channel channel, :local local, :body (vec body)}
      (refuse site {:clause form} "in " (printed form) " the name of the value is " (printed local)
        ": write a symbol there, in a macro one with # at its end."))))

(defn- after-clause [site [_ timeout & body :as form]]
  (if (next form)
    {:timeout timeout, :body (vec body)}
    (refuse site {:clause form} (printed form) " has no timeout: write (after ms body ..).")))

(defn- check-order [site {:keys [from after]} form]
  (cond
    (and after (= :after (marker form)))
    (refuse site {:clause form} "there are two (after ..) clauses, the second one is " (printed form) ": keep one, at the end.")

    after
    (refuse site {:clause form} (printed form) " stands after the (after ..) clause: (after ..) comes last.")

    (and (seq from) (not (marker form)))
    (refuse site {:clause form} "the pattern " (printed form)
      " stands after a (from ..) clause: patterns come first, then (from ..), then (after ..).")))

(defn- check-marker
  "Refuses a list that is no pattern and is nearly a marker."
  [site form]
  (when-some [meant (some-> (forms/head-of form) (suggest/closest [:after :from]))]
    (refuse site {:clause form} (printed form) " is no pattern. Is (" (name meant) " ..) meant?")))

(defn- add-pair [site parsed pattern [body :as left]]
  (check-marker site pattern)
  (if (or (empty? left) (stray-marker? site body))
    (refuse site {:clause pattern} "the clause " (printed pattern) " has no body: write a form after the pattern.")
    (update parsed :pairs conj [pattern body])))

(defn parse
  "The clauses of a `receive`: {:pairs [[pattern body] ..] :from [{:channel :local :body} ..] :after {:timeout :body} or nil}."
  [site forms]
  (when (empty? forms)
    (refuse site {} "there is no clause, and it would wait for ever: write a pattern and a body, as in (receive message message), or (after ms body ..)."))
  (loop [parsed {:pairs [], :from [], :after nil}
         [form & left :as forms] forms]
    (if (empty? forms)
      parsed
      (do
        (check-order site parsed form)
        (case (marker form)
          :from (recur (update parsed :from conj (from-clause site form)) left)
          :after (recur (assoc parsed :after (after-clause site form)) left)
          (recur (add-pair site parsed form left) (next left)))))))

(defn parse-pairs
  "The clauses of a `match`: [[pattern body] ..]."
  [site forms]
  (mapv (fn [[pattern & body]]
          (if body
            [pattern (first body)]
            (refuse site {:clause pattern} "the clause " (printed pattern) " has no body: write a form after the pattern.")))
        (partition-all 2 forms)))
