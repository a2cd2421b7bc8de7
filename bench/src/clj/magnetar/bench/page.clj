(ns magnetar.bench.page
  "The page `docs/reference/performance.md`, with its plots, from the results in `bench/results`."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.pprint :as pprint]
   [clojure.string :as str]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.page.articles :as articles]
   [magnetar.bench.peers.rows :as rows]
   [magnetar.bench.plots :as plots]
   [magnetar.bench.statistics :as statistics])
  (:import
   (java.io File)))

(set! *warn-on-reflection* true)

(defn- file ^File [& path]
  (apply io/file (machine/home) path))

(defn- number [x]
  (let [x (double x)]
    (cond (>= x 1000.0) (format "%,.0f" x)
          (>= x 100.0) (format "%.0f" x)
          (>= x 10.0) (format "%.1f" x)
          :else (format "%.2f" x))))

(defn- quantity
  "Nanoseconds or bytes; what takes milliseconds as such."
  [unit x]
  (if (and (= "ns" unit) (>= (double x) 1e6))
    (str (number (/ (double x) 1e6)) " ms")
    (str (number x) " " unit)))

(defn- short-quantity
  "Nanoseconds, where that is said already."
  [x]
  (if (>= (double x) 1e6) (quantity "ns" x) (number x)))

(defn- spread [{:keys [median min max]}]
  (cond (nil? median) "-"
        (= min max) (number median)
        :else (format "%s [%s %s]" (number median) (number min) (number max))))

(defn- cells [row]
  (str "| " (str/join " | " row) " |"))

(defn- markdown-table [header rows]
  (concat [(cells header) (cells (repeat (count header) "---"))]
          (map cells rows)))

;; --- targets

(defn- verdict [{:keys [target met? floor?]}]
  (cond (nil? target) ""
        met? "met"
        floor? "missed"
        :else "**below the floor**"))

(def ^:private why
  "../../bench/results/why.md")

(defn- linked [row]
  (cond-> (verdict row)
    (not (:met? row)) (str ": [why](" why ")")))

(defn- in-sentence [rows]
  (let [{met "met" missed "missed" below "**below the floor**"} (update-vals (group-by verdict rows) count)]
    (format "Of %d targets %d are met, %d missed, %d below the floor, which is twice the target."
            (count rows) (or met 0) (or missed 0) (or below 0))))

(def ^:private hostings
  "A row of servers that names a hosting (*ours inline*, *ours activated*) is of one started so; the others are of one as `gs/start` makes it.")

(defn- beside [{:keys [peer mode]}]
  (if mode (str peer " (" (str/replace mode "core.async, " "") ")") peer))

(defn- target-lines [rows]
  (let [aimed (filter :target rows)]
    (concat [(in-sentence aimed) hostings ""]
            (markdown-table ["workload" "beside" "target" "ratio" "without hand-off" "verdict"]
                            (for [{:keys [title target ratio closed] :as row} (sort-by (juxt #(boolean (:met? %)) #(boolean (:floor? %))) aimed)]
                              [title (beside row) target (spread ratio) (spread closed) (linked row)])))))

;; --- tables

(defn table
  "The rows of a result as lines of a Markdown table.

  Example: (run! println (table result))"
  [{:keys [rows]}]
  (markdown-table ["workload" "peer" "ours" "theirs" "ratio" "without hand-off" "target"]
                  (for [{:keys [title unit ours theirs ratio closed target] :as row} rows]
                    [title (beside row) (quantity unit (:median ours)) (quantity unit (:median theirs)) (spread ratio) (spread closed)
                     (if target (str target ", " (verdict row)) "")])))

(defn- section-lines [rows]
  (mapcat
    (fn [section]
      (let [rows (filter #(= section (:section %)) rows)]
        (concat ["" (str "### " section) ""]
                (table {:rows rows}))))
    (distinct (map :section rows))))

;; --- where the cores were

(defn- counted [{:keys [count] :as ratio}]
  (format "%s in %d" (spread ratio) count))

(defn- distance-text [rounds seen]
  (let [{:keys [median min max]} (statistics/spread seen)]
    [(format "A word went from one core of this machine to the other and back in %.0f to %.0f ns, %.0f in the median: a hypervisor moves the cores of a virtual machine. What crosses"
             min max median)
     "cores moves with it. A round in which the shortest and the longest way differ by more than a factor of two is done again, three times at most:"
     (format "%d were, and %d of the %d that count had cores that moved all the same. Where the cores were near in some of them and apart in others (over 150 ns):"
             (reduce + (keep :again rounds)) (count (filter rows/moved? rounds)) (count (filter :distances rounds)))
     ""]))

(defn- distance-lines
  "What was seen of the cores moving; nothing where that cannot be seen."
  [{:keys [rows raw]}]
  (let [rounds (mapcat :rounds raw)]
    (when-some [seen (seq (mapcat :distances rounds))]
      (concat
        ["" "## Where the cores were" ""] (distance-text rounds seen)
        (markdown-table ["workload" "beside" "target" "ratio, cores near" "cores apart"]
                        (for [{:keys [title target by-distance] :as row} rows :when by-distance]
                          [title (beside row) (or target "") (counted (:near by-distance)) (counted (:apart by-distance))]))))))

;; --- plots

(defn- slug [title]
  (str/replace (str/lower-case title) #"[^a-z0-9]+" "-"))

(defn- figure [title]
  (file "docs" "reference" "figures" (str (slug title) ".svg")))

(defn- picture [title]
  (str "![" title "](figures/" (slug title) ".svg)"))

(def ^:private peers-with-bars
  ["Go" "Erlang" "core.async, its better mode" "Kotlin" "jox" "Pekko" "virtual threads"])

(defn- peers-with-rows [rows]
  (filter (set (map :peer rows)) peers-with-bars))

(defn- beside-peer [peer]
  (str "beside " peer))

(defn- bars-of
  "Without hand-off only what is timed was measured: where there is no such figure there is no bar."
  [rows peer]
  (let [rows (filter #(and (= peer (:peer %)) (:ratio %)) rows)
        ratios (fn [k] (into {} (for [row rows :when (k row)] [(:title row) (:median (k row))])))]
    (plots/bars (figure (beside-peer peer)) (str "Magnetar " (beside-peer peer)) (map :title rows)
      (cond-> [["Magnetar" (ratios :ratio)]]
        (some :closed rows) (conj ["without hand-off" (ratios :closed)])))))

(defn- by-title
  "Pairs of a title and its points, in their order."
  [points]
  (for [title (distinct (map :title points))]
    [title (filter #(= title (:title %)) points)]))

(defn- lines-of [[title points]]
  (plots/lines (figure title) title "ns for one operation"
    (into {} (for [peer (keys (:figures (first points)))]
               [peer (map (juxt :n #(get-in % [:figures peer])) points)]))))

(defn- draw [{:keys [rows over-n]}]
  (concat (mapv #(bars-of rows %) (peers-with-rows rows))
          (mapv lines-of (by-title (filter :figures over-n)))))

;; --- scaling

(defn- flatness
  "Whether the cost of an operation of ours is the same, from 100 on."
  [points]
  (let [ours (for [{:keys [n figures]} points :when (and (>= (long n) 100) (figures "Magnetar"))] [(figures "Magnetar") n])
        [least at-least] (when (seq ours) (apply min-key first ours))
        [most at-most] (when (seq ours) (apply max-key first ours))]
    (cond
      (empty? ours) "There are no figures of ours from 100 on."
      (<= (double most) (* 2.0 (double least))) "From 100 on, ours stays within a factor of two."
      :else
      (format "Ours does not stay flat: %s ns at N = %,d, %s ns at N = %,d; [why](%s)." (number least) at-least (number most) at-most why))))

(defn- over-n-lines [points]
  (mapcat
    (fn [[title points]]
      (let [failed (remove :figures points)
            points (filter :figures points)
            names (keys (:figures (first points)))]
        (concat ["" (str "### " (str/upper-case (subs title 0 1)) (subs title 1)) "" (picture title) ""]
                (markdown-table (cons "N" names)
                                (for [{:keys [n figures]} points]
                                  (cons (format "%,d" n) (map #(short-quantity (figures %)) names))))
                ["" (flatness points)]
                (keep :note (take 1 points))
                (for [{:keys [n failed]} failed] (format "At N = %,d: %s" n failed)))))
    (by-title points)))

(defn- over-cores-lines [points]
  (markdown-table ["workload" "peer" "1 core" "2 cores" "2 / 1"]
                  (for [[title points] (by-title points)
                        peer (keys (:figures (first points)))
                        :let [on (fn [cores] (some #(when (= cores (:cores %)) (get-in % [:figures peer])) points))]
                        :when (and (on 1) (on 2))]
                    [title peer (number (on 1)) (number (on 2)) (format "%.2f" (/ (double (on 2)) (double (on 1))))])))

;; --- the page

(defn- facts [{:keys [machine settings]}]
  (for [[k v] (concat machine settings)]
    (str "- " (str/replace (name k) "-" " ") ": " (if (sequential? v) (str/join "; " v) v))))

(def ^:private lanes
  ["scope" "fold" "actor" "async" "otp" "table"])

(defn- result [lane]
  (let [edn (file "bench" "results" (str lane ".edn"))]
    (when (.exists edn)
      (edn/read-string (slurp edn)))))

(defn- lane-lines []
  (for [lane lanes :when (result lane)]
    (str "- [" lane "](../../bench/results/" lane ".md)")))

(def ^:private introduction
  ["# Performance" ""
   "Written by `bin/magnetar bench peers` from `bench/results/*.edn`: run it, and this page is about your machine. Times are for one operation, the median of"
   "seven rounds in which all peers take turns, after five seconds of the same work for each, or a piece or two where the work is to wait; over N and over cores of three, after a few pieces of work; memory is measured once, and has no spread. A ratio is ours / theirs, with the least and the greatest of a round in brackets: below 1 Magnetar is faster."
   "Everything of ours goes through the public API, as `bin/magnetar run` runs programs but without its start-up cache; *without hand-off* is the same with those options only that every JVM whose time is measured has, so our methods are inlined as chance will have it, too. What each"
   "workload does, and the rules of fairness: [bench/README.md](../../bench/README.md). Why what is missed is missed: [why.md](../../bench/results/why.md)." ""])

(defn markdown
  "The text of the page.

  Example: (markdown result)"
  [{:keys [rows over-n over-cores] :as given}]
  (str/join "\n"
    (concat
      introduction
      ["## Targets" ""] (target-lines rows)
      ["" "## In pictures"] (mapcat #(vector "" (picture (beside-peer %))) (peers-with-rows rows))
      ["" "## Beside the peers"] (section-lines rows)
      (distance-lines given)
      (when over-n (concat ["" "## Over N" "" "Nanoseconds for one operation."] (over-n-lines over-n)))
      (when over-cores (concat ["" "## Over cores" "" (format "Nanoseconds for one operation. [Why](%s) one core and two differ where they do." why) ""] (over-cores-lines over-cores)))
      ["" "## The articles, then and today" "" "Figures of whole experiments; where a slow peer did a part of one, it is scaled." ""]
      (articles/lines rows (keep result lanes))
      ["" "## The other lanes" ""] (lane-lines)
      ["" (str/trim (slurp (file "bench" "pages" "traps.md"))) "" "## Machine and settings" ""]
      (facts given)
      [""])))

(defn write
  "Writes bench/results/peers.edn, the page and its plots; returns the files.

  Example: (write result)"
  [result]
  (let [edn (file "bench" "results" "peers.edn")
        page (file "docs" "reference" "performance.md")]
    (spit edn (with-out-str (binding [pprint/*print-right-margin* 160] (pprint/pprint result))))
    (.mkdirs (.getParentFile page))
    (spit page (markdown result))
    (list* edn page (draw result))))
