(ns magnetar.dev.lint.prose
  "Prose is 110 columns wide at most, and each decision record that is cited exists."
  (:require
   [clojure.string :as str]
   [magnetar.dev.lint.sources :as sources]))

(set! *warn-on-reflection* true)

(def ^:private widest 110)

(def ^:private pages
  "Single pages, beside all pages of the folders. What the benchmarks print is not wrapped."
  ["SPEC.md" "CONTRIBUTING.md" "docs/README.md" "docs/glossary.md" "bench/known-gaps.md"])

(def ^:private folders
  ["docs/guide" "docs/decisions" "docs/parity" "docs/reference" "examples"])

(defn- markdown []
  (concat (filter sources/exists? pages) (mapcat #(sources/files % ".md") folders)))

(defn- without-targets
  "The line as a reader sees it: a link without where it leads."
  [line]
  (str/replace line #"\]\([^)]*\)" "]"))

(defn- code? [line]
  (or (str/starts-with? line "    ") (str/starts-with? (str/triml line) "|")))

(defn- numbered-prose
  "The lines of a page that can be wrapped, with their numbers: no code, no tables."
  [text]
  (loop [numbered (map-indexed #(vector (inc (long %1)) %2) (str/split-lines text))
         fenced? false
         prose []]
    (if-let [[[_ line :as both] & left] (seq numbered)]
      (cond
        (str/starts-with? (str/triml line) "```") (recur left (not fenced?) prose)
        (or fenced? (code? line)) (recur left fenced? prose)
        :else (recur left fenced? (conj prose both)))
      prose)))

(defn width-findings
  "Lines of prose that are too wide."
  []
  (for [file (markdown)
        [number line] (numbered-prose (sources/text file))
        :let [width (count (without-targets line))]
        :when (< (long widest) width)]
    {:file file :line number :message (str "this line of prose has " width " columns; wrap it at " widest)}))

;; --- decision records

(def ^:private records "docs/decisions")

(def ^:private citations
  "How a record is cited: decision 8, [decision 8](..), decisions 8 and 9, docs/decisions/0008, 0008-a-title.md."
  [#"(?i)\bdecisions? (\d+)\b" #"(?i)\bdecisions \d+(?:, \d+)* and (\d+)\b" #"\bdecisions/(\d{4})\b" #"\]\((\d{4})-[^)]*\.md\)"])

(defn- numbers-of-records []
  (into #{} (keep #(some-> (re-find #"/(\d{4})-[^/]*$" %) second parse-long)) (sources/files records ".md")))

(defn- cited [line]
  (for [pattern citations
        [_ number] (re-seq pattern line)]
    (parse-long number)))

(def ^:private sources-that-cite
  [["kernel" ".java"] ["kernel" ".options"] ["core" ".clj"] ["test-kit" ".clj"] ["cluster" ".java"] ["cluster" ".clj"] ["erlang" ".java"] ["erlang" ".clj"]
   ["etf" ".clj"] ["http" ".clj"] ["compat" ".clj"] ["dev" ".clj"] ["bench" ".clj"] ["bench" ".md"]
   ["docs" ".md"] ["examples" ".md"]])

(defn- citing-files []
  (concat (filter sources/exists? ["README.md" "SPEC.md" "CONTRIBUTING.md" "CHANGELOG.md"])
          (mapcat (fn [[folder suffix]] (sources/files folder suffix)) sources-that-cite)))

(def ^:private of-this-gate
  "The tests of the gate cite what does not exist."
  #{"dev/src/magnetar/dev/lint/prose.clj" "core/test/clj/magnetar/dev/lint_test.clj"})

(def ^:private most-words "A page." 500)

(defn- long-records []
  (for [file (sources/files records ".md")
        :let [words (count (re-seq #"\S+" (sources/text file)))]
        :when (< (long most-words) words)]
    {:file file :line 1 :message (str "this record has " words " words; a page has at most " most-words)}))

(defn- citation-findings []
  (let [exists? (numbers-of-records)]
    (for [file (remove of-this-gate (citing-files))
          [index line] (map-indexed vector (str/split-lines (sources/text file)))
          number (distinct (cited line))
          :when (not (exists? number))]
      {:file file :line (inc (long index)) :message (str "there is no decision " number " in " records)})))

(defn decision-findings
  "Decision records that are longer than a page, and citations of those that do not exist."
  []
  (concat (long-records) (citation-findings)))
