(ns magnetar.impl.match.clauses
  "What `receive` and `match` are made of: a Matcher, which says what clause a value matches and what that bound, and the bodies,
  which stand outside of it."
  {:no-doc true}
  (:require
   [magnetar.impl.match.code :as code]
   [magnetar.impl.match.grammar :as grammar]
   [magnetar.impl.match.pattern :as pattern]
   [magnetar.impl.match.refusals :as refusals :refer [printed refuse]]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Clauses Guards)))

(set! *warn-on-reflection* true)

(defn- catch-all
  "`:else` as the last pattern matches everything, as in core.match and cond."
  [site pairs]
  (when (some #(= :else (first %)) (butlast pairs))
    (refuse site {:clause :else} ":else must be the last pattern; write ':else for the keyword itself."))
  (if (= :else (first (peek pairs)))
    (conj (pop pairs) ['_ (second (peek pairs))])
    pairs))

(defn- compiled
  "Matcher and clauses of pattern and body pairs."
  [{:keys [place] :as site} pairs]
  (let [message (gensym "message")
        texts (mapv (comp printed first) pairs)
        analyzed (mapv #(pattern/analyze site message (first %)) (catch-all site pairs))]
    {:message message
     :analyzed analyzed
     :matcher (code/matcher message analyzed (mapv #(str place ", clause " %) texts))
     :clauses (vec (map-indexed (fn [i {:keys [locals]}]
                                  {:number i, :locals locals, :body [(second (nth pairs i))]})
                                analyzed))
     :pinned (mapv :top-pins analyzed)
     :pins (mapv :pins analyzed)
     :text texts}))

(defn clauses
  "The clauses of the `receive` that is `form`, expanded with `env`, its &env:

    :matcher  code of a magnetar.kernel.process.Matcher: null for no match; for clause i the Long i, or an Object[] of it and what is bound
    :clauses  [{:number i :locals [symbol ..] :body [form]} ..]
    :from     [{:channel form :local name :body [form ..]} ..]
    :after    {:timeout form :body [form ..]} or nil
    :pinned   for each clause the locals that stand in the vector itself and are matched by value
    :pins     for each clause all locals that are matched by value
    :text     the patterns as text
    :analyzed for each clause what `pattern/analyze` says of the symbol under :message

  Throws an IllegalArgumentException with `ex-data` when they are not as the grammar says."
  [env form forms]
  (let [site (refusals/site env form)
        {:keys [pairs from after]} (grammar/parse site forms)]
    (assoc (compiled site pairs) :from from :after after)))

(defn match-clauses
  "The clauses of the `match` that is `form`, as `clauses` gives them."
  [env form forms]
  (let [site (refusals/site env form)]
    (assoc (compiled site (grammar/parse-pairs site forms)) :place (:place site))))

(defn- hinted [sym i answer]
  [sym `(Clauses/value ~answer ~(inc (long i)))])

(defn- body-of [answer {:keys [number locals body]}]
  [number `(let [~@(mapcat #(hinted %1 %2 answer) locals (range))] ~@body)])

(defn bodies
  "Code that does the body of the clause which gave the value of the symbol `answer`, or `otherwise`; all are in tail position."
  [answer clauses otherwise]
  `(case (Clauses/number ~answer)
     ~@(mapcat #(body-of answer %) clauses)
     ~otherwise))

(defn set-guard-hook
  "Sets what is called, once for each clause, with the clause's text and what its guard threw; nil: the failure hook. Returns the one before."
  [f]
  (Guards/setHook f))
