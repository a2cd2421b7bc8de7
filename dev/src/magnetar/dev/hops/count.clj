(ns magnetar.dev.hops.count
  "Counts the entries of a recording, see `magnetar.dev.hops.trace`."
  (:require
   [clojure.string :as str]))

(set! *warn-on-reflection* true)

;; Clojure compiles a function into `invoke`, which calls `invokeStatic` of the same class: two methods, one call.
(defn- second-half? [previous entry]
  (and (= "invokeStatic" (:method entry))
       (= (:class previous) (:class entry))
       (contains? #{"invoke" "invokePrim" "doInvoke"} (:method previous))))

(defn- calls-of-thread [entries]
  (->> (map vector (cons nil entries) entries)
       (remove (fn [[previous entry]] (second-half? previous entry)))
       (map second)))

(defn- neighbours [entries]
  (mapcat #(partition 2 1 (calls-of-thread %)) (vals (group-by :thread entries))))

(defn- changes
  "How many pairs of neighbours differ in f."
  [f pairs]
  (count (filter (fn [[one other]] (not= (f one) (f other))) pairs)))

(defn- language [{:keys [file]}]
  (subs file (str/last-index-of file ".")))

(defn- of-seam? [{:keys [class]}]
  (contains? #{"Environment" "Simulated" "Cell"} (second (re-find #"([^.$]+)(?:\$[^.]*)?$" class))))

(defn calls
  "The entries of a recording in order, thread by thread; a Clojure function's pair of methods is one."
  [{:keys [entries]}]
  (mapcat calls-of-thread (vals (group-by :thread entries))))

(defn counts
  "Counts one recording: :methods entered, :seam of them (classes Environment, Simulated and Cell), distinct :files, :hops from file to file
  and :crossings between Clojure and Java. Hops and crossings are between neighbours in one thread; a return does not count."
  [{:keys [entries] :as recording}]
  (let [calls (calls recording)
        pairs (neighbours entries)]
    {:methods (count calls)
     :seam (count (filter of-seam? calls))
     :files (count (distinct (map :file calls)))
     :hops (changes :file pairs)
     :crossings (changes language pairs)}))

(defn row
  "The counts of the run with the median of the methods, with :title, :runs and the :spread of the methods, [least most]."
  [[{:keys [title]} :as recordings]]
  (let [sorted (sort-by :methods (map counts recordings))]
    (assoc (nth sorted (quot (count sorted) 2))
           :title title
           :runs (count sorted)
           :spread [(:methods (first sorted)) (:methods (last sorted))])))

(defn rows
  "A row for each title, in the order of the recordings."
  [recordings]
  (map row (partition-by :title recordings)))
