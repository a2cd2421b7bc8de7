(ns magnetar.impl.trace.branches
  "Forms that choose a branch, rewritten so that they tell which one they take. A branch stays where it was, so it may `recur`."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.receive :as receive]
   [magnetar.impl.match.clauses :as clauses]
   [magnetar.impl.match.forms :as forms]
   [magnetar.impl.match.refusals :as refusals]
   [magnetar.impl.runtime]
   [magnetar.impl.trace.events :as events]
   [magnetar.impl.trace.why :as why])
  (:import
   (java.util Collections HashMap IdentityHashMap Map WeakHashMap)
   (magnetar.kernel.process Clauses LocalProcess Matcher)))

(set! *warn-on-reflection* true)

;; ---- at run time

(defn site
  "Where a form stands, and what is told of it: {:form :place :sink}."
  [macro place options]
  {:form macro, :place place, :sink (events/sink "condv" options *out*)})

(defn tell
  "Tells of a branch of the site."
  [{:keys [sink] :as site} event]
  (events/tell sink (merge {:event :branch, :by (events/by), :depth (events/indentation)} (dissoc site :sink) event)))

(defn taken
  "Returns the value of the test of a `cond->`. If it holds, tells of the clause, and notes in the volatile that one was taken."
  [site noted event holds]
  (when holds
    (vreset! noted true)
    (tell site event))
  holds)

(def ^:private most-skipped
  "Of how many messages a process remembers that a receive has left them."
  1000)

(defonce ^:private skipped-by-process
  (Collections/synchronizedMap (WeakHashMap.)))

(defn- skipped
  "The messages that this process remembers of the receive at the place."
  ^IdentityHashMap [place]
  (let [of-process (Map/.computeIfAbsent skipped-by-process (LocalProcess/current) (fn [_] (HashMap.)))]
    (Map/.computeIfAbsent of-process place (fn [_] (IdentityHashMap.)))))

(defn- first-time?
  "False if this process has told before that the receive leaves the message."
  [{:keys [place]} message]
  (let [skipped (skipped place)]
    (cond
      (.containsKey skipped message) false
      (<= (long most-skipped) (.size skipped)) true
      :else (do (.put skipped message true) true))))

(defn- reasons
  "For each clause before the one with this number: [number text sentence]."
  [message texts whys number]
  (mapv (fn [i text why] [(inc (long i)) text (or (why/sentence why message) "it matched when it was tried again")])
        (range number) texts whys))

(defn told
  "The matcher, which tells what it answers about each message."
  [site texts whys ^Matcher matcher]
  (reify Matcher
    (match [_ message]
      (let [answer (.match matcher message)
            number (if (some? answer) (Clauses/number answer) (count texts))]
        (when (or (some? answer) (first-time? site message))
          (tell site (merge {:value message, :others (reasons message texts whys number)}
                            (if (some? answer)
                              {:number (inc number), :clause (nth texts number)}
                              {:event :skip}))))
        answer))))

;; ---- the forms

(defn- then
  "Code that tells of the branch, and does it."
  [site event form]
  `(do (tell ~site ~event) ~form))

(defn- clause [number test]
  {:number number, :clause (events/form-text test)})

(defn- locals-in
  "Code of a map of the local variables in the test, from symbols to values; nil for a test without any."
  [env test]
  (not-empty (into {}
                   (comp (filter #(and (symbol? %) (contains? env %))) (map (fn [sym] [(list 'quote sym) sym])))
                   (tree-seq coll? seq test))))

(defn- test-clause
  "The event of a clause with a test."
  [env number test]
  (let [locals (locals-in env test)]
    (cond-> (clause number test)
      locals (assoc :locals locals))))

(def ^:private default
  {:clause "the default"})

(def ^:private no-clause
  {:clause nil})

(defn- told-pairs
  "The forms of the pairs of a test and a branch, each branch with its event, which f makes of its number and test."
  [site f forms]
  (mapcat (fn [n [test branch]] [test (then site (f n test) branch)]) (range 1 Long/MAX_VALUE) (partition 2 forms)))

(defn- tests-clause
  "The event of a clause, as of `test-clause`. If its test uses no local variables, it has those of the tests up to it."
  [env tests number test]
  (let [event (test-clause env number test)
        tried (when-not (:locals event) (locals-in env (vec (take number tests))))]
    (cond-> event tried (assoc :locals tried))))

(defn- no-clause-of
  "The event for none of the clauses, with the local variables of all tests."
  [env tests]
  (let [locals (locals-in env (vec tests))]
    (cond-> no-clause locals (assoc :locals locals))))

(defn- cond-code [env site [head & pairs]]
  (let [tests (take-nth 2 pairs)]
    `(~head ~@(told-pairs site #(tests-clause env tests %1 %2) pairs) :else ~(then site (no-clause-of env tests) nil))))

(defn- case-code [_ site [head expression & clauses]]
  (let [value (gensym "value")
        event {:value value}]
    `(let [~value ~expression]
       (~head ~value
         ~@(told-pairs site #(merge event (clause %1 %2)) clauses)
         ~(if (odd? (count clauses))
            (then site (merge event default) (last clauses))
            (then site (merge event no-clause) (list head value)))))))

(defn- condp-clauses [site event none clauses]
  (loop [n 1, [test arrow f :as clauses] clauses, done []]
    (cond
      (empty? clauses) (conj done (then site (merge event no-clause) none))
      (= 1 (count clauses)) (conj done (then site (merge event default) test))
      (= :>> arrow) (recur (inc n) (drop 3 clauses) (conj done test arrow (then site (merge event (clause n test)) f)))
      :else (recur (inc n) (drop 2 clauses) (conj done test (then site (merge event (clause n test)) arrow))))))

(defn- condp-code [_ site [head predicate expression & clauses]]
  (let [holds (gensym "holds")
        value (gensym "value")]
    `(let [~holds ~predicate
           ~value ~expression]
       (~head ~holds ~value ~@(condp-clauses site {:value value} (list head holds value) clauses)))))

(defn- let-code [_ site [head [name test] yes no]]
  (let [value (gensym "value")]
    `(let [~value ~test]
       (~head [~name ~value]
         ~(then site {:value value, :clause "then"} yes)
         ~(then site {:value value, :clause "else"} no)))))

(defn- threading-code [env site [head expression & clauses]]
  (let [noted (gensym "noted")
        tests (map-indexed (fn [i [test step]] [`(taken ~site ~noted ~(test-clause env (inc (long i)) test) ~test) step]) (partition 2 clauses))]
    `(let [~noted (volatile! false)
           result# (~head ~expression ~@(mapcat identity tests))]
       (when-not @~noted (tell ~site ~(no-clause-of env (take-nth 2 clauses))))
       result#)))

(defn- telling
  "The parsed (from ..) or (after ..) clause, with a body that tells of the clause."
  [site text parsed]
  (update parsed :body #(cons `(tell ~site {:clause ~(events/form-text text)}) %)))

(defn- receive-code [env site [_ & forms :as form]]
  (let [{:keys [text analyzed message] :as parsed} (clauses/clauses env form forms)
        whys (mapv #(why/sentence-code message %) analyzed)
        from #(telling site (list 'from (:channel %) (:local %) '..) %)
        after #(telling site (list 'after (:timeout %) '..) %)]
    (receive/code (-> parsed
                      (update :matcher (fn [matcher] `(told ~site ~(mapv events/source-text text) ~whys ~matcher)))
                      (update :from #(mapv from %))
                      (update :after #(some-> % after))))))

;; ---- condv

(def ^:private rewriting
  "What makes the code of each macro, of the &env, the symbol of the site and the form."
  {`cond cond-code
   `case case-code
   `condp condp-code
   `if-let let-code
   `if-some let-code
   `cond-> threading-code
   `cond->> threading-code})

(defn- macro-of
  "The name of the macro that the form calls, or nil."
  [env form]
  (when (and (seq? form) (symbol? (first form)) (not (contains? env (first form))))
    (forms/var-named (first form))))

(defn- complete?
  "Does the form have what its macro needs? If not, the macro itself says what is missing."
  [macro [_ x :as form]]
  (let [n (dec (count form))]
    (case (name macro)
      "cond" (even? n)
      "case" (<= 1 n)
      "condp" (<= 2 n)
      ("if-let" "if-some") (and (<= 2 n 3) (vector? x) (= 2 (count x)))
      (odd? n))))

(defn- refuse [env condv form]
  (refusals/refuse (refusals/site env condv) {:form form}
    "it wants the pairs of a cond, or one form that is a cond, condp, case, if-let, if-some, cond->, cond->> or receive; this is "
    (events/form-text form) "."))

(defn- choice-code
  "The code of the form. `site` is the symbol of its site."
  [env condv site form]
  (let [macro (macro-of env form)]
    (cond
      (= 'magnetar.actor/receive macro) (receive-code env site form)
      (not (contains? rewriting macro)) (refuse env condv form)
      (complete? macro form) ((rewriting macro) env site form)
      :else form)))

(defn- options-and-form
  "[options form] of the arguments."
  [condv]
  (let [[x :as arguments] (rest condv)
        [options arguments] (if (map? x) [x (rest arguments)] [{} arguments])]
    [options (if (= 1 (count arguments))
               (first arguments)
               (with-meta (cons `cond arguments) (meta condv)))]))

(defn expand
  "The code of a `condv`."
  [env condv]
  (let [[options form] (options-and-form condv)
        site (gensym "site")
        code (choice-code env condv site form)
        {:keys [what place]} (refusals/site env form)]
    `(let [~site (site '~(symbol what) ~place ~options)]
       ~code)))
