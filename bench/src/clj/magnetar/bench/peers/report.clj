(ns magnetar.bench.peers.report
  "A result of the suite `peers` as tables: one with each peer, for the terminal and as the page `bench/results/peers.md`, and a short one with
  the best peer of each workload, for the terminal and for docs/reference/performance.md."
  (:require
   [clojure.string :as str]
   [magnetar.bench.report :as report]))

(set! *warn-on-reflection* true)

(defn- number [x]
  (let [x (double x)]
    (cond (>= x 1000.0) (format "%,.0f" x)
          (>= x 100.0) (format "%.0f" x)
          (>= x 10.0) (format "%.1f" x)
          :else (format "%.2f" x))))

(defn- quantity
  "Formats nanoseconds or bytes; from a million nanoseconds on, as milliseconds."
  [unit x]
  (if (and (= "ns" unit) (>= (double x) 1e6))
    (str (number (/ (double x) 1e6)) " ms")
    (str (number x) " " unit)))

(defn- spread [{:keys [median min max]}]
  (cond (nil? median) "-"
        (= min max) (number median)
        :else (format "%s [%s %s]" (number median) (number min) (number max))))

(defn- verdict [{:keys [target met? floor?]}]
  (cond (nil? target) ""
        met? "met"
        floor? "missed"
        :else "**below the floor**"))

(defn- beside [{:keys [peer mode]}]
  (if mode (str peer " (" (str/replace mode "core.async, " "") ")") peer))

(def ^:private header
  ["workload" "peer" "ours" "theirs" "ratio" "without hand-off" "with / without options" "target"])

(defn table
  "Returns the rows of a result as lines of a Markdown table.

  Example: (run! println (table result))"
  [{:keys [rows]}]
  (report/lines header
                (for [{:keys [title unit ours theirs ratio closed plain target missing] :as row} rows]
                  (if missing
                    [title (beside row) "-" missing "-" "-" "-" ""]
                    [title (beside row) (quantity unit (:median ours)) (quantity unit (:median theirs)) (spread ratio) (spread closed)
                     (spread plain) (if target (str target ", " (verdict row)) "")]))))

;; --- the best peer of each workload

(defn best
  "The rows of the best peers, one for each workload: that with the greatest ratio. The greatest of all comes first.

  Example: (map :peer (best rows)) => (\"Go\" \"Pekko\")"
  [rows]
  (->> (remove (some-fn :mode :missing) rows) ; a mode repeats the row of a peer
       (group-by :title)
       vals
       (map #(apply max-key (comp double :median :ratio) %))
       (sort-by (juxt (comp - double :median :ratio) :title))))

(def ^:private short-header
  ["workload" "ours" "best peer" "ratio" "ratio without options"])

(defn short-table
  "Returns one line of a Markdown table for each workload, with its best peer. The worst ratio comes first.

  Example: (run! println (short-table result))"
  [{:keys [rows]}]
  (report/lines short-header
                (for [{:keys [title unit peer ours theirs ratio plain-ratio]} (best rows)]
                  [title (quantity unit (:median ours)) (str peer ", " (quantity unit (:median theirs))) (number (:median ratio))
                   (if plain-ratio (number (:median plain-ratio)) "-")])))

(defn- summary [{:keys [machine] :as result}]
  (concat [(report/measured-by "peers" machine)
           "Times and bytes are for one operation. A ratio is ours / the best peer's: above 1 that peer is better. The"
           "worst ratio comes first."
           ""
           "The columns \"ours\" and \"ratio\" are with the options of [kernel/java.options](../../kernel/java.options)."
           "`bin/magnetar` gives them to programs; a program that is started otherwise has them only by"
           "`java @java.options ..`. The last column is the ratio to the same peer without them, as plain `java` starts a"
           "program. Bytes are measured with the options only. [The table of all peers](../../bench/results/peers.md) has"
           "the spreads."
           ""]
          (short-table result)))

(defn with-summary
  "Returns the text of a page, with what is between <!-- figures peers --> and <!-- end of figures --> replaced by the short table.

  Example: (with-summary page result)"
  [page result]
  (report/with-figures page "peers" (summary result)))

(defn- in-sentence [rows]
  (let [{met "met" missed "missed" below "**below the floor**"} (update-vals (group-by verdict rows) count)]
    (format "Of %d targets %d are met, %d missed, %d below the floor, which is twice the target."
            (count rows) (or met 0) (or missed 0) (or below 0))))

(def ^:private introduction
  ["# Magnetar beside Go, Erlang, core.async, jox, Kotlin, Pekko and virtual threads" ""
   (report/written-by "peers")
   "Times are for one operation. A ratio is ours / theirs, one per round: the median of the rounds, the least and the greatest."
   "Below 1 Magnetar is faster, or smaller. Memory is measured once, and has no spread."
   "\"Without hand-off\" is the same with those options only that every JVM has. What each line does: `bench/README.md`."
   "The columns \"ours\" and \"ratio\" are with the options of `kernel/java.options`, as `bin/magnetar` gives them to programs."
   "\"With / without options\" is ours with them / ours as plain `java` starts it: above 1 the options make it slower."
   "A row of servers that names a hosting (ours activated) is of a server started so; the others are of one as `gs/start` makes it."
   ""])

(defn markdown
  "Returns the text of the page: the targets in a sentence, the table, the machine.

  Example: (markdown result)"
  [{:keys [rows] :as result}]
  (str/join "\n" (concat introduction [(in-sentence (filter :target rows)) ""] (table result) ["" "## Machine and settings" ""] (report/facts-in-words result) [""])))

(defn write
  "Writes the page, the raw result and the short table of docs/reference/performance.md, and returns the three files.

  Example: (write result)"
  [result]
  (report/write-with-summary "peers" result (markdown result) #(with-summary % result)))
