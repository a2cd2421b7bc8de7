(ns magnetar.dev.scenarios
  "The scenarios of Erlang that the library keeps: which there are, which are excused, and what the tests have carried.

  A test carries the IDs in its metadata, ^{:otp \"SPN-01\"}, or ^{:otp [\"SUP-17\" \"SUP-18\"]}. The page about Erlang excuses single IDs and
  whole groups: the first cells of the table below \"Not carried\". A group that is not excused as a whole is one that the library claims."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (java.io RandomAccessFile)))

(set! *warn-on-reflection* true)

(def ids-file
  "The list of all IDs, one a line."
  "core/test/resources/conformance/otp-ids.txt")

(def page
  "The page with the excuses."
  "docs/parity/erlang.md")

(defn- lines [root path]
  (let [file (io/file root path)]
    (when (.exists file)
      (str/split-lines (slurp file)))))

(defn ids-in
  "The IDs in a text or in any data, in order."
  [x]
  (re-seq #"\b[A-Z]+-\d+\b" (pr-str x)))

(defn group
  "The group of an ID."
  [id]
  (first (str/split id #"-")))

(defn all
  "All IDs that the checkout lists."
  [root]
  (lines root ids-file))

(defn- excuse-table [root]
  (->> (lines root page)
       (drop-while #(not (re-find #"^## Not carried" %)))
       rest
       (take-while #(not (re-find #"^## " %)))))

(defn excuses
  "The IDs and groups that the page excuses."
  [root]
  (into (sorted-set)
        (comp (keep #(second (re-find #"^\|([^|]*)\|" %)))
              (mapcat #(re-seq #"\b[A-Z]{2,}(?:-\d+)?\b" %)))
        (excuse-table root)))

(defn line
  "The line about what the tests that have passed carry."
  [root carried]
  (let [claimed (remove (comp (excuses root) group) (all root))
        missing (remove (set carried) claimed)]
    (str "scenarios: " (- (count claimed) (count missing)) " of " (count claimed) " carried"
         (when (seq missing) (str "; missing: " (str/join " " missing))))))

(defn record
  "Adds IDs that tests have carried to the file, which begins with the line about all of them. Several JVMs may do so at once."
  [root file carried]
  (with-open [lock (RandomAccessFile. (str file ".lock") "rw")]
    (.lock (.getChannel lock)) ; until it is closed
    (let [before (when (.exists (io/file file)) (rest (str/split-lines (slurp file))))
          ids (distinct (concat before carried))]
      (spit file (str (str/join "\n" (cons (line root ids) ids)) "\n")))))
