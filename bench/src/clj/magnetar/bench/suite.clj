(ns magnetar.bench.suite
  "Groups of comparisons, each in fresh JVMs: from a table of groups to a result that `magnetar.bench.report` prints.

  A JVM has the options of kernel/java.options and runs a program file, with the dynamic bindings that Clojure has while it loads one. A group is {:group name :workload symbol :arguments [..] :flags [..] :forks n :warm-ups n :rounds n :rows [..]}. The variants of a group
  run in turn in one JVM, the order turned round from round to round; each round gives one ratio. A row is
  {:name .. :ours variant :theirs variant :target ratio}; without :theirs it is a figure, without :target it is for information."
  (:require
   [clojure.edn :as edn]
   [clojure.string :as str]
   [magnetar.bench.arguments :as arguments]
   [magnetar.bench.child :as child]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.report :refer [say]]
   [magnetar.bench.statistics :as statistics]))

(set! *warn-on-reflection* true)

(def ^:private usual-flags
  ["-Xms2g" "-Xmx2g"])

(def ^:private program-text
  "(apply (requiring-resolve 'magnetar.bench.rounds/-main) *command-line-args*)\n")

(defn- command
  [{:keys [flags workload arguments warm-ups rounds]}]
  (concat [(machine/java-command)] usual-flags (machine/launcher-options) flags
          ["-cp" (System/getProperty "java.class.path")
           "clojure.main" (child/program program-text) workload (pr-str (vec arguments))
           (pr-str {:warm-ups warm-ups :rounds rounds})]))

(defn- fork
  "The rounds of one JVM."
  [group]
  (edn/read-string (last (str/split-lines (child/output (command group))))))

(defn figures
  "Rows without a comparison: the milliseconds of each variant.

  Example: (figures \"A3: \" [\"reduce\" \"fold\"])"
  [title variants]
  (for [variant variants]
    {:name (str title variant) :ours variant}))

(defn- ratio-of
  [rounds {:keys [ours theirs target]}]
  (let [ratio (statistics/spread (map #(/ (double (get % ours)) (double (get % theirs))) rounds))]
    (cond-> {:theirs-value (statistics/spread (map #(get % theirs) rounds)) :ratio ratio}
      target (assoc :met? (<= (double (:median ratio)) (double target))))))

(defn row
  "The row with what the rounds say about it: a row whose variant was not there, such as a peer that is not installed, says so.

  Example: (row [{\"a\" 1.0 \"b\" 2.0}] {:name \"a / b\" :ours \"a\" :theirs \"b\" :target 0.6})"
  [rounds {:keys [ours theirs] :as row}]
  (let [there? (fn [variant] (contains? (first rounds) variant))]
    (cond-> row
      (there? ours) (assoc :ours-value (statistics/spread (map #(get % ours) rounds)))
      (and theirs (there? theirs)) (merge (ratio-of rounds row))
      (and theirs (not (there? theirs))) (-> (update :name str ", which is not installed") (dissoc :target)))))

(defn- run-group
  [{:keys [group forks rows] :as settings}]
  (say group)
  (let [rounds (vec (mapcat (fn [_] (fork settings)) (range (or forks 1))))
        rows (mapv #(row rounds %) rows)]
    (doseq [{:keys [name ratio ours-value]} rows]
      (say "  " name (format "%.3f" (:median (or ratio ours-value)))))
    {:rows rows :raw [{:group group :rounds rounds}]}))

(defn- selected
  [groups {names :groups quick :quick}]
  (for [group groups
        :when (or (nil? names) (contains? names (:group group)))]
    (cond-> group quick (assoc :forks 1))))

(defn- share-of-others
  "The greatest part of the processors that other processes used in a round that counts."
  [results]
  (reduce max 0.0 (map :foreign (mapcat :rounds (mapcat :raw results)))))

(defn- check-names [groups others {names :groups}]
  (arguments/check "group" = (concat (map :group groups) others) names))

(defn- timed [groups settings]
  (let [before (machine/facts)
        results (mapv run-group (selected groups settings))]
    {:machine (assoc before :load-at-end (:load-at-start (machine/facts)))
     :settings (assoc (select-keys settings [:quick])
                 :jvm-flags usual-flags
                 :share-of-others-at-most (share-of-others results))
     :time {:unit "ms" :rows (vec (mapcat :rows results)) :raw (vec (mapcat :raw results))}}))

(defn run
  "Runs the groups and returns {:machine .. :settings .. :time {:unit \"ms\" :rows .. :raw ..}}.

  Blocks for minutes; fails for a name that does not exist, and when a workload does.

  Example: (run groups {:quick true})"
  [groups settings]
  (check-names groups [] settings)
  (timed groups settings))

(defn run-with-memory
  "Like `run`, and unless other groups are named, \"memory\": the rows that (rows n) gives for a million things, 100,000 for a quick run.

  Example: (run-with-memory groups (fn [n] [..]) {:quick true})"
  [groups rows {names :groups quick :quick :as settings}]
  (check-names groups ["memory"] settings)
  (cond-> (timed groups settings)
    (or (nil? names) (contains? names "memory"))
    (assoc :memory {:unit "bytes" :rows (rows (if quick 100000 1000000))})))
