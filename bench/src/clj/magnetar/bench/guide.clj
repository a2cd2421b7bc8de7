(ns magnetar.bench.guide
  "The figures of a result in the pages of the guide: between <!-- figures LANE: PREFIX --> and <!-- end of figures --> stands a table of
  the suite's rows whose names begin with the prefix."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.bench.machine :as machine])
  (:import
   (java.io File)))

(set! *warn-on-reflection* true)

(def ^:private block
  #"(?s)(<!-- figures (\w+): (.*?) -->\n).*?(<!-- end of figures -->)")

(defn- milliseconds
  [x]
  (let [x (double x)]
    (format (cond (>= x 100.0) "%.0f ms" (>= x 10.0) "%.1f ms" :else "%.2f ms") x)))

(defn- line
  [prefix {:keys [name ours-value theirs-value ratio]}]
  (when ours-value
    (str "| " (subs name (count prefix)) " | "
         (if ratio
           (str (milliseconds (:median ours-value)) " against " (milliseconds (:median theirs-value))
                ": " (format "%.2f" (double (:median ratio))))
           (milliseconds (:median ours-value)))
         " |")))

(defn- table
  [prefix result]
  (str/join "\n"
            (concat ["" "| what | median |" "|---|---|"]
                    (keep #(line prefix %) (filter #(str/starts-with? (:name %) prefix) (:rows (:time result))))
                    ["" ""])))

(defn with-figures
  "Returns the text of a page, with the tables of a suite replaced by the tables of a result.

  Example: (with-figures page \"fold\" result)"
  [page suite result]
  (str/replace page block
               (fn [[all open of-suite prefix close]]
                 (if (= suite of-suite)
                   (str open (table prefix result) close)
                   all))))

(defn- pages
  []
  (filter #(str/ends-with? (.getName ^File %) ".md")
          (file-seq (io/file (machine/home) "docs" "guide"))))

(defn write
  "Puts the figures of a result into the pages of the guide, and returns those that it has changed.

  Example: (write \"fold\" result)"
  [suite result]
  (vec (for [page (pages)
             :let [before (slurp page)
                   after (with-figures before suite result)]
             :when (not= before after)]
         (do (spit page after) page))))
