(ns magnetar.dev.lint.docs
  "Every public var of a public namespace has a docstring, every public kernel type Javadoc."
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

(defn findings
  "Public vars and public namespaces of the core without a docstring."
  []
  (mapcat namespace-findings (filter public-namespace? (mapcat sources/namespaces ["core/src/clj" "test-kit/src/clj"]))))

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
  "Public top-level types of the kernel and the core without Javadoc."
  []
  (mapcat type-findings (mapcat #(sources/files % ".java") ["kernel/src/java" "core/src/java"])))
