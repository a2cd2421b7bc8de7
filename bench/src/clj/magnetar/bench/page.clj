(ns magnetar.bench.page
  "The page `docs/reference/performance.md`, with its plots, from the results in `bench/results`."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.pprint :as pprint]
   [clojure.string :as str]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.plots :as plots])
  (:import
   (java.io File)))

(set! *warn-on-reflection* true)

(defn- file ^File [& path]
  (apply io/file (machine/home) path))

(defn- number [x]
  (let [x (double x)]
    (cond (>= x 1e6) (format "%,.0f" x)
          (>= x 100.0) (format "%.0f" x)
          (>= x 10.0) (format "%.1f" x)
          :else (format "%.2f" x))))

(defn- spread [{:keys [median min max]}]
  (if median
    (format "%s [%s %s]" (number median) (number min) (number max))
    "-"))

(defn- verdict [{:keys [target met? floor?]}]
  (cond (nil? target) "-"
        met? (str target ", met")
        floor? (str target ", missed")
        :else (str "**" target ", below the floor**")))

(defn table
  "The rows of a result as lines of a Markdown table.

  Example: (run! println (table result))"
  [{:keys [rows]}]
  (concat ["| workload | peer | unit | ours | theirs | ratio | without hand-off | target |"
           "|---|---|---|---|---|---|---|---|"]
          (for [{:keys [title peer unit ours theirs ratio closed] :as row} rows]
            (str "| " (str/join " | " [title peer unit (number (:median ours)) (number (:median theirs)) (spread ratio) (spread closed) (verdict row)])
                 " |"))))

;; --- the articles

(def ^:private articles
  "What the authors measured, on their machines; the letter and number is the experiment's, as in the tests and in the lanes."
  {"A1" "n go blocks sleep 10 ms: steps of 10 ms for each 8 blocks; threads: flat at 10 ms (2017)"
   "A2" "20 slow pages: go 2300 ms, thread 1000 ms, asynchronous client 1000 ms (2017)"
   "A3" "1000 factorisations: serial 2300 ms, 8 go blocks or a pipeline 680 ms, r/fold 1150 ms (2017)"
   "A4" "32 that sleep 250 ms beside 16 that compute: go 1521 ms, thread 530 ms (2017)"
   "B" "90 pages: go 11.1 s, thread 6.5 s, callbacks onto a channel 6.7 s (2013)"
   "C1" "sum of the incremented evens of 10 million: lazy seqs 600 ms, reducers 432, r/fold over a vector 145 (2017)"
   "C3" "the pipeline of squares, in three styles (2017)"
   "E1" "ping-pong of two actors (2013)"
   "E5" "ring of 1000 x 1000: Erlang 480 ms, Quasar 550, Pulsar 657; Go 657 by channels (2013)"
   "F" "pmap of 500,000: bound-fn* 1197 ms, ScopedValue 198, an argument 189 (2025)"})

(defn- result [lane]
  (let [edn (file "bench" "results" (str lane ".edn"))]
    (when (.exists edn)
      (edn/read-string (slurp edn)))))

(def ^:private lanes
  ["scope" "fold" "actor" "async" "otp" "table"])

(defn- rows-of-experiment [experiment]
  (for [lane lanes
        row (:rows (:time (result lane)))
        :when (and (:ours-value row) (re-find (re-pattern (str "^" experiment "[:, ]")) (:name row)))]
    row))

(defn- today [{:keys [name ours-value theirs-value]}]
  (str (str/replace name #"^[A-F]\d?[:,] *" "") ": " (number (:median ours-value)) " ms"
       (when theirs-value (str " against " (number (:median theirs-value))))))

(defn- article-lines []
  (concat ["| | then, on their machines | today, here |" "|---|---|---|"]
          (for [[experiment then] (sort articles)]
            (str "| " experiment " | " then " | "
                 (str/join "; " (or (seq (map today (rows-of-experiment experiment))) ["see `bin/magnetar demo` and the tests of that name"]))
                 " |"))))

;; --- scaling

(defn- by-title [points]
  (group-by :title points))

(defn- slug [title]
  (str/replace (str/lower-case title) #"[^a-z0-9]+" "-"))

(defn- flat?
  "True if the greatest figure of ours from 100 on is at most twice the least."
  [points]
  (let [ours (keep #(get-in % [:figures "Magnetar"]) (filter #(>= (long (:n %)) 100) points))]
    (<= (double (reduce max ours)) (* 2.0 (double (reduce min ours))))))

(defn- over-n-lines [points]
  (mapcat
    (fn [[title points]]
      (let [names (keys (:figures (first points)))]
        (concat ["" (str "### " (str/capitalize title)) ""
                 (str "![" title " over N](figures/" (slug title) ".svg)") ""
                 (str "| N | " (str/join " | " names) " |")
                 (str "|---|" (str/join (repeat (count names) "---|")))]
                (for [{:keys [n figures]} points]
                  (str "| " (format "%,d" n) " | " (str/join " | " (map #(number (figures %)) names)) " |"))
                ["" (if (flat? points)
                      "From 100 on the cost of one operation stays within a factor of two."
                      "The cost of one operation does not stay flat: beyond the caches each operation waits for memory, for stacks that have to be fetched, and for the collector, which copies what lives.")])))
    (by-title points)))

(defn- over-cores-lines [points]
  (concat ["| workload | peer | 1 core | 2 cores | 2 / 1 |" "|---|---|---|---|---|"]
          (for [[title points] (by-title points)
                peer (keys (:figures (first points)))
                :let [on (fn [cores] (some #(when (= cores (:cores %)) (get-in % [:figures peer])) points))]
                :when (and (on 1) (on 2))]
            (str "| " title " | " peer " | " (number (on 1)) " | " (number (on 2)) " | " (format "%.2f" (/ (double (on 2)) (double (on 1)))) " |"))))

(defn- draw [{:keys [rows over-n]}]
  (let [timed (filter #(= "ns" (:unit %)) rows)
        series (update-vals (group-by :peer timed) #(into {} (map (juxt :title (comp :median :ratio))) %))]
    (cons
      (plots/bars (file "docs" "reference" "figures" "ratios.svg") "Magnetar beside its peers: time of one operation (below 1: Magnetar is faster)"
        (distinct (map :title timed)) (into (sorted-map) series))
      (for [[title points] (by-title over-n)]
        (plots/lines (file "docs" "reference" "figures" (str (slug title) ".svg")) title "ns for one operation"
          (into {} (for [peer (keys (:figures (first points)))]
                     [peer (map (juxt :n #(get-in % [:figures peer])) points)])))))))

;; --- the page

(defn- facts [{:keys [machine settings]}]
  (for [[k v] (concat machine settings)]
    (str "- " (name k) ": " (if (sequential? v) (str/join "; " v) v))))

(defn- lane-lines []
  (for [lane lanes :when (result lane)]
    (str "- [" lane "](../../bench/results/" lane ".md)")))

(defn markdown
  "The text of the page.

  Example: (markdown result)"
  [{:keys [over-n over-cores] :as result}]
  (str/join "\n"
    (concat
      ["# Performance" ""
       "Written by `bin/magnetar bench peers` from `bench/results/*.edn`: run it, and this page is about your machine. Times are nanoseconds for one operation,"
       "the median of seven rounds in which all peers take turns; a ratio is ours / theirs with the least and the greatest of a round, below 1 where Magnetar is faster."
       "Everything of ours goes through the public API. A target may be missed, with the reason in [why.md](../../bench/results/why.md); twice the target is the floor."
       "What each workload does, and the rules of fairness: [bench/README.md](../../bench/README.md)."
       "" "![Ratios](figures/ratios.svg)" "" "## Beside the peers" ""]
      (table result)
      (when over-n (cons "\n## Over N" (over-n-lines over-n)))
      (when over-cores (concat ["" "## Over cores" ""] (over-cores-lines over-cores)))
      ["" "## The articles, then and today" ""]
      (article-lines)
      ["" "## The other lanes" ""]
      (lane-lines)
      ["" (str/trim (slurp (file "bench" "pages" "traps.md"))) "" "## Machine and settings" ""]
      (facts result)
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
