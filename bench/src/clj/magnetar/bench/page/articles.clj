(ns magnetar.bench.page.articles
  "The figures of the articles behind Magnetar, beside those of the lanes that repeat their experiments."
  (:require
   [clojure.string :as str]))

(set! *warn-on-reflection* true)

(def ^:private articles
  "What the authors measured, on their machines; the letter and number is the experiment's, as in the tests and in the lanes."
  [["A1" "18 go blocks that sleep 10 ms: 31 ms, a step of 10 ms for each 8 blocks; threads: 10 ms (2017)"]
   ["A2" "20 slow pages: go 2300 ms, thread 1000 ms, asynchronous client 1000 ms (2017)"]
   ["A3" "1000 factorisations: serial 2300 ms, 8 go blocks or a pipeline 680 ms, r/fold 1150 ms (2017)"]
   ["A4" "32 that sleep 250 ms beside 16 that compute: go 1521 ms, thread 530 ms (2017)"]
   ["B" "90 pages: go 11.1 s, thread 6.5 s, callbacks onto a channel 6.7 s (2013)"]
   ["C1" "sum of the incremented evens of 10 million: lazy seqs 600 ms, reducers 432, r/fold over a vector 145 (2017)"]
   ["C2" "the same with hand-written transforms and as a transducer: each input is visited once (2017)"]
   ["C3" "the pipeline of squares, in three styles (2017)"]
   ["E1" "ping-pong of two actors (2013)"]
   ["E5" "ring of 1000 x 1000: by actors Erlang 480 ms, Quasar 550, Pulsar 657; by channels Go 657, Quasar 570, Pulsar 650 (2013)"]
   ["F" "pmap of 500,000: bound-fn* 1197 ms, ScopedValue 198, an argument 189 (2025)"]])

(def ^:private label #"^[A-F]\d?(, [A-F]\d?)*[:,] +")

(defn- experiments-of
  "The letters and numbers that a name begins with."
  [name]
  (set (re-seq #"[A-F]\d?(?=[:, ])" (or (first (re-find label name)) ""))))

(defn- ms [x]
  (let [x (double x)]
    (if (>= x 10.0) (format "%.0f" x) (format "%.1f" x))))

(defn- of-lane [{:keys [name ours-value theirs-value]}]
  (str (str/replace name label "") ": " (ms (:median ours-value)) " ms"
       (when theirs-value (str " against " (ms (:median theirs-value)) " ms"))))

(defn- by-lanes
  "A line for each lane that has the experiment."
  [experiment lanes]
  (for [lane lanes
        :let [rows (filter #(and (:ours-value %) (contains? (experiments-of (:name %)) experiment)) (:rows (:time lane)))]
        :when (seq rows)]
    (str/join "; " (map of-lane rows))))

(defn- by-peers [experiment rows]
  (for [[title rows] (group-by :title (filter #(and (= experiment (:experiment %)) (not (:mode %))) rows))
        :let [whole (fn [{:keys [operations]} figure] (ms (/ (* (double (:median figure)) (double operations)) 1e6)))
              first-row (first rows)]]
    (str title ": " (whole first-row (:ours first-row)) " ms; "
         (str/join ", " (for [{:keys [peer theirs] :as row} rows] (str peer " " (whole row theirs)))))))

(defn lines
  "Then and today, for each experiment, as lines of Markdown; `rows` are those of the lane `peers`, `lanes` the results of the others.

  Example: (lines rows [(result \"scope\")])"
  [rows lanes]
  (mapcat
    (fn [[experiment then]]
      (let [today (concat (by-peers experiment rows) (by-lanes experiment lanes))]
        (concat [(str "- **" experiment "**, then: " then)]
                (for [line (or (seq today) ["not measured in the results that are here"])] (str "  - today: " line)))))
    articles))
