(ns magnetar.dev.lint.docs
  "Every public var of a public namespace has a docstring in the one form, every public kernel type Javadoc."
  (:require
   [clojure.string :as str]
   [magnetar.dev.lint.sources :as sources]))

(set! *warn-on-reflection* true)

(defn public-namespace?
  "Is the declared namespace part of the public API?"
  [{:keys [name declaration]}]
  (not (or (re-find #"^magnetar\.(impl|dev|bench)\b" (str name))
           (:no-doc (meta name))
           (some #(and (map? %) (:no-doc %)) (take 4 declaration)))))

(defn public-vars
  "Vars of a namespace that its users may see, by name; the namespace is loaded."
  [ns-sym]
  (require ns-sym)
  (into (sorted-map) (remove (comp :no-doc meta val) (ns-publics ns-sym))))

;; Also vars marked ^:no-doc for macros alone, because a reader of an expansion reads their docstrings.
(defn- undocumented [{:keys [file name]}]
  (require name)
  (for [[var-name v] (sort-by key (ns-publics name))
        :when (str/blank? (:doc (meta v)))]
    {:file file :line (:line (meta v)) :message (str name "/" var-name " is public and has no docstring")}))

(defn- ns-finding [{:keys [file name]}]
  (when (str/blank? (:doc (meta (find-ns name))))
    {:file file :message (str name " is public and has no docstring")}))

(defn- namespace-findings [source]
  (concat (undocumented source) (keep ns-finding [source])))

(defn public-sources
  "What the files of the public namespaces declare, as of `sources/namespaces`."
  []
  (filter public-namespace? (mapcat sources/namespaces ["core/src/clj" "test-kit/src/clj" "etf/src/clj" "http/src/clj" "cluster/src/clj" "erlang/src/clj"])))

(defn findings
  "Public vars and public namespaces of the core without a docstring."
  []
  (mapcat namespace-findings (public-sources)))

;; ---- the form of docstrings

(def ^:private longest-first-line 80)

(def ^:private longest-line 110)

(def ^:private labels
  "How labelled paragraphs begin, in their order. Code is indented further, and is never one."
  (mapv #(re-pattern (str "(?s) {0,2}(?:" % ").*"))
        ["Returns\\b" "(?:Blocks|Never waits)\\b" "Throws\\b" "Cancellation:" "Options:" "Examples?:" "See also\\b"
         "(?:Erlang|Elixir|core\\.async|Clojure|Go):"]))

(defn- place-of-label [paragraph]
  (first (keep-indexed (fn [i label] (when (re-matches label paragraph) i)) labels)))

(defn- paragraphs [doc]
  (str/split doc #"\n\s*\n"))

(defn- in-order? [doc]
  (let [places (keep place-of-label (rest (paragraphs doc)))]
    (= places (sort (distinct places)))))

(defn example
  "Returns the code under `Example:` in a docstring, or nil."
  [doc]
  (let [[label & code] (drop-while #(not (re-matches #" *Examples?:\s*" %)) (paragraphs doc))]
    (when label (str/join "\n\n" (take-while #(re-find #"^    " %) code)))))

(defn- wide-line
  "The first line of the docstring that is too long, or nil. Code in the example may be."
  [doc]
  (let [code (set (some-> (example doc) str/split-lines))]
    (first (filter #(and (< (long longest-line) (count %)) (not (code %))) (str/split-lines doc)))))

(defn- form-error
  "What is wrong with the form of a docstring, or nil."
  [doc]
  (let [doc (str doc)
        line (first (str/split-lines doc))
        wide (wide-line doc)]
    (cond
      (< (long longest-first-line) (count line)) (str "has a first line of " (count line) " characters; shorten it to " longest-first-line)
      (not (str/ends-with? line ".")) "has a first line without a full stop; end a sentence there"
      (not (in-order? doc)) "has its labelled paragraphs in another order than CONTRIBUTING.md gives, or one twice"
      wide (str "has a line of " (count wide) " characters, \"" (str/trim (subs wide 0 40)) "..\"; wrap it at " longest-line))))

(defn- form-errors [{:keys [file name]}]
  (require name)
  (for [[subject {:keys [doc line]}] (cons [name (meta (find-ns name))]
                                           (map (fn [[k v]] [(str name "/" k) (meta v)]) (public-vars name)))
        :let [error (form-error doc)]
        :when error]
    {:file file :line line :message (str "the docstring of " subject " " error)}))

(defn form-findings
  "Docstrings of public vars and namespaces that are not in the one form."
  []
  (mapcat form-errors (public-sources)))

(def ^:private public-type
  #"^public\s+(?:(?:abstract|final|sealed|non-sealed|strictfp)\s+)*(?:class|interface|enum|record|@interface)\s+(\w+)")

(defn- documented? [lines-before]
  (let [line (first (drop-while #(or (str/blank? %) (str/starts-with? (str/triml %) "@")) (reverse lines-before)))]
    (boolean (some-> line str/trimr (str/ends-with? "*/")))))

(defn- type-findings [file]
  (let [lines (vec (str/split-lines (sources/text file)))]
    (for [[number line] (map-indexed vector lines)
          :let [[_ type-name] (re-find public-type line)]
          :when (and type-name (not (documented? (subvec lines 0 number))))]
      {:file file :line (inc (long number)) :message (str "the public type " type-name " has no Javadoc")})))

(defn java-findings
  "Public top-level types of Java without Javadoc."
  []
  (mapcat type-findings (mapcat #(sources/files % ".java") ["kernel/src/java" "core/src/java" "cluster/src/java" "erlang/src/java" "etf/src/java"])))
