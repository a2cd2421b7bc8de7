(ns magnetar.bench.settings
  "`bin/magnetar bench settings`: Magnetar on one core, with more carriers than cores and with other collectors, beside itself on all cores with G1.

  The suite `peers` has the programs and the workloads. All settings take turns in each round, so a ratio is of the same minute."
  (:require
   [clojure.string :as str]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.peers.rounds :as rounds]
   [magnetar.bench.peers.workloads :as workloads]
   [magnetar.bench.report :as report :refer [say]]
   [magnetar.bench.statistics :as statistics]))

(set! *warn-on-reflection* true)

(def ^:private heap ["-Xms1g" "-Xmx2g"])

(defn- collected-by [option & more]
  (concat rounds/switching heap [option] more))

(def settings
  "Each setting: its title, the program, flags of its JVM, on how many cores it runs, and beside which setting; the first one is the base.

  Example: (map :title settings)"
  (let [g1 "-XX:+UseG1GC", base "all cores, G1", alone "one core"]
    [{:title base :program "Magnetar" :flags (collected-by g1)}
     {:title alone :program "Magnetar" :flags (collected-by g1) :cores 1 :beside base}
     {:title "Go on one core" :program "Go" :cores 1 :beside alone}
     {:title "Erlang on one core" :program "Erlang" :cores 1 :beside alone}
     {:title "ActiveProcessorCount=1" :program "Magnetar" :flags (collected-by g1 "-XX:ActiveProcessorCount=1") :beside base}
     {:title "8 carriers" :program "Magnetar" :flags (collected-by g1 "-Djdk.virtualThreadScheduler.parallelism=8") :beside base}
     {:title "ZGC" :program "Magnetar" :flags (collected-by "-XX:+UseZGC") :beside base}
     {:title "Serial" :program "Magnetar" :flags (collected-by "-XX:+UseSerialGC") :beside base}]))

(def ^:private chosen
  #{"ring of 1000 by channels" "ping-pong by channels" "rendezvous" "gen-server call, 100 callers" "spawn of processes"
    "threadring, 100 processes" "big, 120 processes" "skynet, 1,111,111 processes" "uct, 150,000 processes" "superv, 500 servers"
    "fib of 25 by channels" "pubsub, 1,000 subscribers"})

(def measured
  "The workloads of the suite.

  Example: (count measured) => 12"
  (filterv (comp chosen :title) workloads/timed))

;; --- the run

(defn- does? [{:keys [targets]} {:keys [program]}]
  (or (= "Magnetar" program) (contains? targets program)))

(defn- start [{:keys [program title] :as setting}]
  (assoc (programs/start program setting) :name title))

(defn- row
  "The rounds of a workload, each {title of setting, nanoseconds}."
  [{:keys [title] :as workload} these quick]
  (let [these (filter (partial does? workload) these)
        [warm-ups rounds] (if quick [1 1] [3 3])
        found (programs/with-started (map start these)
                (fn [peers]
                  (dotimes [i warm-ups] (rounds/one-round workload peers i))
                  (mapv #(rounds/one-round workload peers %) (range rounds))))]
    (say (str title ":") (str/join ", " (for [{:keys [title]} these] (format "%s %.0f ns" title (statistics/median (map #(get % title) found))))))
    {:title title :rounds found}))

(defn- present
  "The settings whose program can be built here; of each other program one line says what to install."
  []
  (let [missing (into {} (for [program (distinct (map :program settings))] [program (programs/build program)]))]
    (run! say (keep val missing))
    (remove (comp missing :program) settings)))

(defn run
  "Runs the suite, one round of it with :quick, and returns {:machine .. :settings .. :rows [{:title .. :rounds [{setting ns} ..]} ..]}.

  Blocks for about eleven minutes; fails when a program does.

  Example: (run {:quick true})"
  [{:keys [quick]}]
  (let [before (machine/facts)
        these (present)
        rows (mapv #(row % these quick) measured)]
    {:machine (assoc before :load-at-end (:load-at-start (machine/facts)))
     :settings {:quick quick
                :busy-before-a-piece-of-work-at-most (reduce max (map :busy (mapcat :rounds rows)))}
     :rows rows}))

;; --- the pages

(defn- ratio
  "Of a setting to the one beside it, or of Magnetar to a peer: a peer's column is ours / theirs. Nil where it does not do this."
  [rounds {:keys [title program beside]}]
  (let [pairs (keep (fn [round] (when (round title) [(round title) (round beside)])) rounds)]
    (when (seq pairs)
      (statistics/spread (for [[this other] pairs]
                           (if (= "Magnetar" program)
                             (/ (double this) (double other))
                             (/ (double other) (double this))))))))

(def ^:private compared (filterv :beside settings))

(defn- header [{:keys [title program]}]
  (if (= "Magnetar" program) title (str "one core / " title)))

(defn- lines
  "A table with one line per workload; `words` makes a cell of a spread."
  [{:keys [rows]} words]
  (let [base (:title (first settings))
        rows (for [{:keys [title rounds]} rows]
               (list* title (format "%,.0f ns" (statistics/median (map #(get % base) rounds)))
                      (for [setting compared] (if-some [spread (ratio rounds setting)] (words spread) "-"))))]
    (report/lines (list* "workload" base (map header compared)) rows)))

(defn table
  "Returns the rows of a result as lines of a Markdown table, with spreads.

  Example: (run! println (table result))"
  [result]
  (lines result (fn [{:keys [median min max]}] (format "%.2f [%.2f %.2f]" median min max))))

(def ^:private how-to-read
  ["Each ratio is time in that setting / time with all cores and G1: above 1 it is slower. The columns of Go and"
   "Erlang are Magnetar on one core / that peer on one core. One core is `taskset`, as in a container with one"
   "processor. With `ActiveProcessorCount=1` the JVM has one carrier too, but the other core is left to the"
   "system. 8 carriers is the scheduler's property `parallelism`, on all cores."])

(defn with-summary
  "Returns the text of docs/reference/performance.md with the medians of a result.

  Example: (with-summary page result)"
  [page result]
  (report/with-tables page "settings" result how-to-read (lines result (fn [{:keys [median]}] (format "%.2f" median)))))

(defn markdown
  "Returns the text of the page: the table, the machine.

  Example: (markdown result)"
  [result]
  (report/page "settings" "Other numbers of cores and carriers, and other collectors" result how-to-read
               "Each cell has the median of three rounds, the least and the greatest. What each line does: `bench/README.md`."
               (table result)))

(defn write
  "Writes the page, the raw result and the table of docs/reference/performance.md, and returns the three files.

  Example: (write result)"
  [result]
  (report/write-with-summary "settings" result (markdown result) #(with-summary % result)))
