(ns magnetar.bench.report
  "A result as a table: for the terminal and as a page of `bench/results`. The raw result goes to `bench/target/results`, which git ignores."
  (:require
   [clojure.java.io :as io]
   [clojure.pprint :as pprint]
   [clojure.string :as str]
   [magnetar.bench.machine :as machine])
  (:import
   (java.io File)))

(set! *warn-on-reflection* true)

(def ^:private header
  ["workload" "unit" "ours [min max]" "theirs [min max]" "ratio [min max]" "target" "met?"])

(defn- number
  [x]
  (let [x (double x)]
    (cond (>= (abs x) 100.0) (format "%.0f" x)
          (>= (abs x) 10.0) (format "%.1f" x)
          :else (format "%.3f" x))))

(defn say
  "Prints the words on a line, at once: a run takes minutes.

  Example: (say \"round\" 1)"
  [& words]
  (apply println words)
  (flush))

(defn lines
  "Returns a Markdown table as its lines, not padded.

  Example: (lines [\"peer\" \"ticks\"] [[\"Go\" 8800]]) => (\"| peer | ticks |\" \"| --- | --- |\" \"| Go | 8800 |\")"
  [header rows]
  (for [cells (list* header (repeat (count header) "---") rows)]
    (str "| " (str/join " | " cells) " |")))

(defn- spread
  [{:keys [median min max]}]
  (if median
    (str (number median) " [" (number min) " " (number max) "]")
    "-"))

(defn- target
  [{:keys [target ratio]}]
  (cond (nil? target) "-"
        ratio (str "<= " target)
        :else (str "< " (number target))))

(defn- cells
  [unit {:keys [name ours-value theirs-value ratio met?] :as row}]
  [name unit (spread ours-value) (spread theirs-value) (spread ratio) (target row)
   (case met? true "yes" false "NO" "for information")])

(defn- all-cells
  [result]
  (for [part [:time :memory :start]
        row (:rows (part result))]
    (cells (:unit (part result)) row)))

(defn- padded
  [lines]
  (let [widths (apply map (fn [& column] (reduce max (map count column))) lines)]
    (for [line lines]
      (map (fn [width cell] (format (str "%-" width "s") cell)) widths line))))

(defn table
  "Returns the result as lines of a Markdown table, padded so that it reads well on a terminal too.

  Example: (run! println (table result))"
  [result]
  (let [[head & body] (padded (cons header (all-cells result)))
        rule (map #(apply str (repeat (count %) "-")) head)]
    (for [line (list* head rule body)]
      (str "| " (str/join " | " line) " |"))))

(defn- facts
  [{:keys [machine settings]}]
  (for [[k v] (concat machine (select-keys settings [:jvm-flags :rounds :warm-ups :warm-up-ms :iterations :iteration-ms :quick :share-of-others-at-most]))]
    (str "- " (name k) ": " (if (sequential? v) (str/join " " v) v))))

(def ^:private of-suites
  ["A ratio is time, ours / theirs, one per round: the variants of a group run in turn in one JVM, the order turned round each time."
   "Each cell has the median of all rounds, the least and the greatest. What each line does: `bench/README.md`."])

(defn written-by
  "Returns the sentence that says which command writes the page of a suite.

  Example: (written-by \"fold\")"
  [suite]
  (str "Written by `bin/magnetar bench " suite "`, which leaves the raw numbers in `bench/target/results/" suite ".edn`."))

(defn measured-by
  "Returns the sentence of a page of docs that says which command has measured, when, and on how many cores.

  Example: (measured-by \"peers\" {:date \"2026-11-25T20:14:41Z\" :cores 2})"
  [suite {:keys [date cores]}]
  (format "Written by `bin/magnetar bench %s` on %s, on %s cores." suite (first (str/split (str date) #"T")) cores))

(defn with-figures
  "Returns the text of a page, with what is between <!-- figures SUITE --> and <!-- end of figures --> replaced by the lines.

  Example: (with-figures page \"peers\" [\"| a |\"])"
  [page suite lines]
  (str/replace page (re-pattern (str "(?s)(<!-- figures " suite " -->\n).*?(<!-- end of figures -->)"))
               (fn [[_ open close]] (str open "\n" (str/join "\n" lines) "\n\n" close))))

(defn facts-in-words
  "Returns the machine and all settings of a result as lines of a Markdown list.

  Example: (facts-in-words {:machine {:cores 2}}) => (\"- cores: 2\")"
  [{:keys [machine settings]}]
  (for [[k v] (concat machine settings)]
    (str "- " (str/replace (name k) "-" " ") ": " (if (sequential? v) (str/join "; " v) v))))

(def ^:private headings
  {"async" ["# magnetar.async beside clojure.core.async"
            "A ratio is time or memory, ours / theirs, one per round of alternating forks: the median of the rounds, the least and the greatest."
            "Time is a fork's median; the spreads of the columns ours and theirs are over the forks. What each line does: `bench/README.md`."]
   "scope" ["# magnetar.scope beside virtual threads, bound-fn* and Go"]
   "actor" ["# magnetar.actor beside Erlang"]
   "table" ["# Tables beside Erlang's ets"]
   "otp" ["# Servers and supervisors beside Erlang's"]
   "fold" (into ["# magnetar.fold beside clojure.core.reducers and transduce"]
            (conj of-suites "The JVMs that count words have no option but the size of their heap."))})

(defn with-tables
  "Returns the text of docs/reference/performance.md with the figures of a suite: when it was measured, how to read its tables, and these.

  Example: (with-tables page \"cluster\" result [\"Each ratio ..\"] (lines [\"row\" \"ratio\"] rows))"
  [page suite {:keys [machine]} how-to-read tables]
  (with-figures page suite
    (concat [(measured-by suite machine)] how-to-read [(str "[The table](../../bench/results/" suite ".md) has the spreads.") ""] tables)))

(defn page
  "Returns the text of the page of a suite: how to read its tables, what a cell is, the tables, the machine.

  Example: (page \"cluster\" \"A cluster beside others\" result [\"Each ratio ..\"] \"Each cell has the median.\" tables)"
  [suite title result how-to-read cell tables]
  (str/join "\n" (concat [(str "# " title) "" (written-by suite)] how-to-read [cell ""] tables
                         ["" "## Machine and settings" ""] (facts-in-words result) [""])))

(defn markdown
  "Returns the result of a suite as the text of a Markdown page: the table, how to read it, the machine.

  Example: (spit \"async.md\" (markdown \"async\" result))"
  [suite result]
  (let [[title & notes] (headings suite)]
    (str/join
      "\n"
      (concat [title ""
               (written-by suite)
               "Each JVM, of both sides, has the options of `kernel/java.options`, as `bin/magnetar` gives them to programs."]
              (or notes of-suites)
              [""]
              (table result)
              ["" "## Machine and settings" ""]
              (facts result)
              [""]))))

(defn- file
  ^File [& path]
  (doto ^File (apply io/file (machine/home) "bench" path) (io/make-parents)))

(defn write-files
  "Writes the page to bench/results/SUITE.md and the raw result to bench/target/results/SUITE.edn, and returns the two files.

  Example: (write-files \"async\" result page)"
  [suite result page]
  (let [md (file "results" (str suite ".md"))
        edn (file "target" "results" (str suite ".edn"))]
    (spit md page)
    (spit edn (with-out-str (binding [pprint/*print-right-margin* 120] (pprint/pprint result))))
    [md edn]))

(defn write-with-summary
  "Does what `write-files` does, and replaces the text of docs/reference/performance.md by (with-summary text). Returns the three files.

  Example: (write-with-summary \"peers\" result page #(with-figures % \"peers\" lines))"
  [suite result page with-summary]
  (let [performance (io/file (machine/home) "docs" "reference" "performance.md")]
    (spit performance (with-summary (slurp performance)))
    (conj (write-files suite result page) performance)))

(defn write
  "Writes the page of a suite and its raw result, and returns the two files.

  Example: (write \"async\" result)"
  [suite result]
  (write-files suite result (markdown suite result)))
