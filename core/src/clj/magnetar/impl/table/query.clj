(ns magnetar.impl.table.query
  "Queries: patterns of `magnetar.match`, compiled once, and what is done with the rows that they match."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.match.clauses :as clauses]
   [magnetar.impl.match.grammar :as grammar]
   [magnetar.impl.match.pattern :as pattern]
   [magnetar.impl.runtime]
   [magnetar.impl.table.keys :as keys]
   [magnetar.impl.table.life :as life]
   [magnetar.impl.table.rows :as rows]
   [magnetar.impl.table.store :as store])
  (:import
   (magnetar.impl.table.life Table)
   (magnetar.impl.table.store Store)
   (magnetar.kernel.process Matcher)))

(set! *warn-on-reflection* true)

(def none
  "What the function of a query gives for a row that no clause matches."
  (Object.))

;; Of each clause the places whose value the pattern gives, with the value.
(deftype Query [f known texts])

(defmethod print-method Query [^Query q ^java.io.Writer w]
  (.write w (str "#<query " (apply str (interpose ", " (.-texts q))) ">")))

;; ---- at expansion: what a pattern says of places

(declare value-form)

(defn- literal? [p]
  (or (keyword? p) (string? p) (integer? p) (boolean? p) (char? p) (nil? p)
      (and (seq? p) (= 'quote (first p)) (= 2 (count p)))))

(defn- vector-form [env p]
  (let [forms (map #(value-form env %) p)]
    (when (and (not-any? #{'&} p) (every? some? forms))
      [(mapv first forms)])))

(defn- value-form
  "[form] of the one value that the pattern matches; nil if it matches several."
  [env p]
  (cond
    (literal? p) [p]
    (vector? p) (vector-form env p)
    (and (symbol? p) (not= \_ (first (name p))) (pattern/pinned? env p)) [p]))

(defn- bare
  "The pattern without what is said of it as a whole."
  [p]
  (if (and (seq? p) (#{:as :when :guard} (second p)))
    (recur (first p))
    p))

(defn- places
  "From places of the row to forms of the values that the pattern wants there."
  [env p]
  (let [p (bare p)
        parts (cond
                (vector? p) (map-indexed vector (take-while #(not= '& %) p))
                (map? p) (filter #(keyword? (key %)) p))]
    (into {} (keep (fn [[place p]] (some->> (value-form env p) first (vector place)))) parts)))

(defn- known-forms [env patterns]
  (mapv #(places env %) patterns))

(defn expansion
  "The code of the query that is `form`, expanded with `env`, its &env."
  [env form forms]
  (let [{:keys [matcher clauses text]} (clauses/match-clauses env form forms)
        patterns (map first (grammar/parse-pairs {:env env} forms))
        matching (vary-meta (gensym "matcher") assoc :tag `Matcher)
        answer (gensym "answer")]
    `(let [~matching ~matcher]
       (Query. (fn [row#]
                 (let [~answer (.match ~matching row#)]
                   ~(clauses/bodies answer clauses `none)))
               ~(known-forms env patterns)
               ~text))))

;; ---- the rows to look at

(defn- check-query ^Query [operation q]
  (when-not (instance? Query q)
    (arguments/misuse :magnetar/not-a-query
                      (str "`" operation "` wants a query, as `(query [k n] n)` makes it; this is " (arguments/show q) ".") {:value q}))
  q)

(defn- known-keys
  "The only keys that rows can have which the query matches, each once as the map of the store takes it; nil if any."
  [^Store s ^Query q place]
  (when (every? #(contains? % place) (.-known q))
    (into (if (store/ordered? (.-kind s)) (sorted-set-by keys/comparator-of-keys) #{})
          (map #(store/key-of s (get % place)))
          (.-known q))))

(defn- ranged? [options]
  (seq (select-keys options rows/range-options)))

(defn- candidates
  "What has to be looked at, as something to reduce."
  [operation ^Table t ^Query q options]
  (let [s (life/reading operation t)
        keys (when-not (ranged? options) (known-keys s q (.-key t)))]
    (if keys
      (mapcat #(rows/found s (store/value s %)) keys)
      (rows/->Rows operation t options))))

(defn- results [^Query q]
  (comp (map (.-f q)) (remove #(identical? none %))))

;; ---- select

(def ^:private select-options (conj rows/range-options :limit))

;; The store is another one once all rows have been deleted.
(deftype More [table store query rows limit])

(defmethod print-method More [^More more ^java.io.Writer w]
  (.write w (str "#<more of " (.-table more) ">")))

(defn- page
  "[results more] of at most limit results; more is nil at the end."
  [^Table t s ^Query q rows limit]
  (loop [rows (seq rows), found []]
    (cond
      (nil? rows) [found nil]
      (= limit (count found)) [found (More. t s q rows limit)]
      :else (let [x ((.-f q) (first rows))]
              (recur (next rows) (if (identical? none x) found (conj found x)))))))

(defn more
  "The next page."
  [operation ^More m]
  (when-not (instance? More m)
    (arguments/misuse :magnetar/not-a-query
                      (str "`" operation "` with one argument goes on with what came second from the `select` before; this is " (arguments/show m) ".")
                      {:value m}))
  (if (identical? (.-store m) (life/reading operation (.-table m)))
    (page (.-table m) (.-store m) (.-query m) (.-rows m) (.-limit m))
    [[] nil]))

(defn select
  "What the query makes of the rows of the table: a vector, or with a limit [vector more]."
  [operation x q {:keys [limit] :as options}]
  (arguments/options operation select-options options)
  (let [t (life/table operation x)
        q (check-query operation q)
        s (life/reading operation t)
        rows (candidates operation t q options)]
    (if (nil? limit)
      (into [] (results q) rows)
      (page t s q (seq rows) (arguments/whole :limit limit)))))

(defn select-count
  "How many rows the query gives something true for."
  [operation x q]
  (let [t (life/table operation x)
        q (check-query operation q)]
    (transduce (comp (results q) (filter identity)) (completing (fn [n _] (inc (long n)))) 0 (candidates operation t q nil))))

;; ---- select-delete

(defn- matched? [^Query q row]
  (let [x ((.-f q) row)]
    (and (not (identical? none x)) x)))

(defn- unmatched [^Store s q v]
  (cond
    (nil? v) nil
    (store/bag? (.-kind s)) (let [left (filterv #(not (matched? q %)) v)]
                              (cond (empty? left) nil
                                    (= (count left) (count v)) v
                                    :else left))
    (matched? q v) nil
    :else v))

(defn- delete-of-key
  "How many rows of the key it takes out."
  [s q k]
  (let [deleted (volatile! 0)]
    (store/swap s k (fn [v]
                      (let [left (unmatched s q v)]
                        (vreset! deleted (- (count (rows/found s v)) (count (rows/found s left))))
                        left)))
    @deleted))

(defn select-delete
  "Takes out the rows that the query gives something true for: how many."
  [operation x q]
  (let [t (life/table operation x)
        s (life/writing operation t)
        q (check-query operation q)
        keys (into [] (comp (filter #(matched? q %)) (map #(get % (.-key t)))) (candidates operation t q nil))]
    (transduce (map #(delete-of-key s q (store/key-of s %))) + 0 (if (store/bag? (.-kind s)) (distinct keys) keys))))
