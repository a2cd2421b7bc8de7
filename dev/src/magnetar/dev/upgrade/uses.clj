(ns magnetar.dev.upgrade.uses
  "Finds uses of names in the text of a source, without loading it: by its ns form, its calls of `require`, and the symbols that it reads."
  (:require
   [clojure.string :as str]
   [clojure.tools.reader :as reader]
   [clojure.tools.reader.reader-types :as reader-types])
  (:import
   (java.util.regex Pattern)))

(set! *warn-on-reflection* true)

;; ---- names that a source gives to namespaces and their vars

(def ^:private no-names
  "By alias a namespace, by referred name the full one, namespaces that are referred as a whole, and the namespaces that are required."
  {:aliases {}, :refers {}, :wholes #{}, :libs #{}})

(defn- flat
  "Returns the libspecs of one that may be a symbol, a vector or a list with a prefix."
  [spec]
  (cond
    (symbol? spec) [[spec]]
    (and (sequential? spec) (or (nil? (second spec)) (keyword? (second spec)))) [(vec spec)]
    (sequential? spec) (for [[lib & options] (mapcat flat (rest spec))]
                         (into [(symbol (str (first spec) "." lib))] options))))

(defn- with-libspec [names whole? [lib & options]]
  (let [{:keys [as as-alias refer only rename]} (when (even? (count options)) (apply hash-map options))
        referred (or only refer)]
    (cond-> (update names :libs conj lib)
      as (assoc-in [:aliases as] lib)
      as-alias (assoc-in [:aliases as-alias] lib)
      (sequential? referred) (update :refers into (for [n referred] [(get rename n n) (symbol (str lib) (str n))]))
      (or (= :all referred) (and whole? (not referred))) (update :wholes conj lib))))

(defn- unquoted [form]
  (if (and (seq? form) (= 'quote (first form))) (second form) form))

(defn- with-clause [names [word & specs]]
  (case word
    (:require require) (reduce #(with-libspec %1 false %2) names (mapcat (comp flat unquoted) specs))
    (:use use) (reduce #(with-libspec %1 true %2) names (mapcat (comp flat unquoted) specs))
    names))

(defn- with-form
  "The names, with those that a form at the top of a source adds."
  [names form]
  (case (when (seq? form) (first form))
    ns (reduce with-clause names (filter seq? form))
    (require use) (with-clause names form)
    names))

(defn- qualified
  "The symbols that the symbol may mean, with their namespaces."
  [{:keys [aliases refers wholes]} sym]
  (let [short-name (name sym)]
    (cond
      (namespace sym) (let [space (symbol (namespace sym))] [(symbol (str (aliases space space)) short-name)])
      (refers sym) [(refers sym)]
      :else (map #(symbol (str %) short-name) wholes))))

;; ---- forms

(def ^:private end (Object.))

(defn- namespace-named
  "Returns a namespace of this name, which the reader asks for its name. One that is not loaded is not left behind."
  [space]
  (or (find-ns space)
      (let [made (create-ns space)]
        (remove-ns space)
        made)))

(defn- read-next [in names]
  (binding [*read-eval* false
            reader/*read-eval* false
            reader/*default-data-reader-fn* tagged-literal
            reader/*alias-map* (fn [space] (namespace-named (get-in names [:aliases space] space)))]
    (reader/read {:eof end :read-cond :preserve} in)))

(defn- parts [form]
  (cond
    (reader-conditional? form) [(:form form)]
    (tagged-literal? form) [(:form form)]
    (map? form) (mapcat identity form)
    (coll? form) form))

(defn- gives? [call option]
  (some #(and (map? %) (contains? % option)) call))

(defn- limits? [call option]
  (some #(and (map? %) (some? (option %))) call))

(defn- nil-timeout? [arguments]
  (some #(and (map? %) (nil? (:timeout % 0))) arguments))

(def ^:private conditions
  "By name: does it hold of a use, the symbol as it stands in the innermost list around it?"
  {:as-value (fn [sym call] (not (identical? sym (first call))))
   :map-first (fn [_ call] (map? (second call)))
   :third-argument (fn [_ call] (< 3 (count call)))
   :limit (fn [_ call] (and (or (limits? call :timeout) (limits? call :deadline)) (not (gives? call :else))))
   :no-else (fn [_ call] (not (gives? call :else)))
   :nil-timeout (fn [_ call] (nil-timeout? call))
   :nil-timeout-bound (fn [_ call] (and (vector? (second call)) (nil-timeout? (second call))))})

(defn known?
  "Does the change name only conditions that there are?"
  [{:keys [where]}]
  (every? conditions where))

(defn- counts?
  "Has this use of a changed name to be changed? One condition that holds is enough. Without conditions each use counts."
  [{:keys [where]} sym call]
  (or (nil? where)
      (some #((conditions %) sym call) where)))

(defn- finding [{:keys [old new]} line]
  {:line line :message (str old ": " new)})

(defn- uses-of
  "Findings in a form that stands in the line, within the call."
  [names changes line call form]
  (let [line (or (:line (meta form)) line)]
    (if (symbol? form)
      (for [meant (qualified names form)
            change (changes meant)
            :when (counts? change form call)]
        (finding change line))
      (mapcat #(uses-of names changes line (if (seq? form) form call) %) (parts form)))))

(defn- required [names before changes form]
  (for [lib (remove (:libs before) (:libs names))
        change (changes lib)]
    (finding change (:line (meta form) 1))))

(defn- lines-with
  "The numbers of the lines, from the first to the last, in which the keyword stands; the first if it is written in another way."
  [lines [from to] word]
  (let [token (re-pattern (str "(?<![\\w:./*+!?<>=-])" (Pattern/quote (str word)) "(?![\\w./*+!?<>=#'-])"))]
    (or (seq (filter #(re-find token (nth lines (dec (long %)) "")) (range from (inc (long to)))))
        [from])))

(defn- keywords-of
  "Findings about the keywords of a form that stands in the lines of the span."
  [changes lines span form]
  (for [word (distinct (filter keyword? (tree-seq parts parts form)))
        change (changes word)
        line (lines-with lines span word)]
    (finding change line)))

;; ---- sources

(defn- unreadable [error in]
  {:line (or (:line (ex-data error)) (reader-types/get-line-number in))
   :message (str "cannot be read, so what follows is not checked: " (str/replace (str (ex-message error)) #"\s+" " "))})

(defn- read-or-error [in names]
  (try
    (read-next in names)
    (catch Exception e e)))

(defn- findings-in [names before changes lines span form]
  (concat (if (= names before)
            (uses-of names changes 1 nil form)
            (required names before changes form))
          (keywords-of changes lines span form)))

(defn of-text
  "Returns findings, maps of :line and :message, about the text of a source; each line once for each change."
  [text changes]
  (let [changes (group-by :old changes)
        lines (str/split-lines text)
        in (reader-types/indexing-push-back-reader text)]
    (loop [names no-names, found []]
      (let [before (reader-types/get-line-number in)
            form (read-or-error in names)
            span [(:line (meta form) before) (reader-types/get-line-number in)]]
        (cond
          (identical? end form) (distinct found)
          (instance? Exception form) (distinct (conj found (unreadable form in)))
          :else (let [now (with-form names form)]
                  (recur now (into found (findings-in now names changes lines span form)))))))))
