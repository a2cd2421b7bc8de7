(ns crawler.table
  "Results in columns."
  (:require
   [clojure.string :as str]
   [crawler.words :refer [fill]]))

(defn- milliseconds
  "Returns `ms` as text; more digits than a noisy machine can tell apart are left out."
  [ms]
  (if (< ms 100) (fill "%.1f" (double ms)) (fill "%,d" (Math/round (double ms)))))

(defn- cell [{:keys [ms failed] :as result}]
  (cond
    (nil? result) "not run"
    failed        "failed"
    :else         (milliseconds ms)))

(defn- ideal
  "Returns the least of the ideals that the runners' `results` for a row agree on up to noise."
  [results]
  (let [ideals (keep :ideal results)]
    (if (seq ideals) (milliseconds (apply min ideals)) "")))

(defn- line-of
  "Returns the texts of one `row`: its title, a cell per runner, the ideal."
  [results-by-runner {:keys [id title]}]
  (let [results (map #(get % id) results-by-runner)]
    (concat [title] (map cell results) [(ideal results)])))

(defn- pad [widths texts]
  (str/join "  " (cons (fill (str "%-" (first widths) "s") (first texts))
                       (map #(fill (str "%" %1 "s") %2) (rest widths) (rest texts)))))

(defn- heads
  "Returns the two lines above the columns."
  [titles]
  [(concat [""] (map first titles) [""])
   (concat ["milliseconds"] (map second titles) ["ideal"])])

(defn text
  "Returns a table with a line per row, a column per runner (its `titles`, of two lines, above), and the ideal, all in
  milliseconds."
  [rows titles results-by-runner]
  (let [lines  (concat (heads titles) (map #(line-of results-by-runner %) rows))
        widths (apply map (fn [& column] (apply max (map count column))) lines)
        rule   (map #(str/join (repeat % "-")) widths)
        [above below & body] lines]
    (str/join \newline (map #(str/trimr (pad widths %)) (list* above below rule body)))))

(defn failures
  "Returns a sentence per row and runner that failed."
  [titles results-by-runner]
  (for [[title results] (map vector titles results-by-runner)
        {:keys [id failed]} (vals results)
        :when failed]
    (str (str/join " " title) ", " (name id) ": " failed)))
