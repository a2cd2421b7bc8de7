(ns magnetar.bench.computing
  "`bin/magnetar bench computing`: fibers that compute and never park, beside others that wait and a server that is called.

  The peers are programs of the suite `peers`. Each answers with its ticks, and with the begin and the time of each call. The figures are made here,
  the same way for all."
  (:require
   [clojure.string :as str]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.peers.rounds :as rounds]
   [magnetar.bench.peers.workloads :as workloads]
   [magnetar.bench.report :as report :refer [say]]
   [magnetar.bench.statistics :as statistics]))

(set! *warn-on-reflection* true)

(def ^:private start-micros
  "How long the start lasts, in which carriers are added."
  200000)

;; --- figures

(defn- share
  "The number below or at which this share of the numbers is, by the nearest rank; nil without numbers."
  [numbers part]
  (when (seq numbers)
    (nth (vec (sort numbers)) (dec (long (Math/ceil (* (double part) (count numbers))))))))

(defn- milliseconds [micros]
  (when micros (/ (double micros) 1000.0)))

(defn- worst
  "The greatest time, in milliseconds, of the [begin time] for which (when? begin); nil without any."
  [when? timed]
  (milliseconds (share (map second (filter (comp when? first) timed)) 1)))

(defn- of-start? [begin]
  (< (double begin) (double start-micros)))

(defn- turns
  "The [begin time] of each turn of the caller, from the begin of a call to the begin of the next one. The first turn is the wait for the first call,
  and the last one lasts until the end of the run: so a caller that is kept from calling has long turns."
  [calls end]
  (map (fn [[begin end]] [begin (- (double end) (double begin))])
       (partition 2 1 (concat [0] (map first calls) [end]))))

(defn figures
  "What the answer of a peer says about a run of so many milliseconds: the ticks, the calls, and in milliseconds the times of calls and of turns. A turn is a call and the sleep after it.
  Of both the median, the 99th percentile, the worst of those that began in the first 200 ms and of those that began later. Without any there is no
  time.

  Example: (figures 3000 [27000 12 5 1020 4]) => {:ticks 27000 :calls 2 :call {:median 0.004 ..} :turn {..}}"
  [ms [ticks & numbers]]
  (let [calls (partition 2 numbers)
        of (fn [timed]
             {:median (milliseconds (share (map second timed) 0.5))
              :percentile-99 (milliseconds (share (map second timed) 0.99))
              :worst-at-start (worst of-start? timed)
              :worst-later (worst (complement of-start?) timed)})]
    {:ticks (long ticks)
     :calls (count calls)
     :call (of calls)
     :turn (of (turns calls (* 1000 (long ms))))}))

;; --- the run

(def ^:private possible-ticks
  (quot (* (long (:tickers workloads/computing)) (long (:ms workloads/computing))) 10))

(defn- in-words [{:keys [ticks calls call turn]}]
  (let [times (juxt :median :percentile-99 :worst-at-start :worst-later)]
    (format "%,d ticks, %,d calls; ms of a call %s, of a turn %s" ticks calls (str/join ", " (times call)) (str/join ", " (times turn)))))

(defn- once [{:keys [name] :as peer} loops]
  (let [{:keys [command tickers ms]} workloads/computing
        busy (rounds/await-quiet)
        found (assoc (figures ms (programs/ask-all peer command loops tickers ms)) :busy busy)]
    (say (format "  %-18s %2d loops: %s" name loops (in-words found)))
    found))

(defn- one-round
  "The rows of a round: each peer without loops and with them; in every second round the peers come in the other order."
  [peers loops round]
  (vec (for [loops [0 loops]
             peer (cond-> peers (odd? (long round)) reverse)]
         [[(:name peer) loops] (once peer loops)])))

(defn- rows [peers loops rounds]
  (say "warm-up, which does not count")
  (one-round peers loops 0)
  (let [found (into [] (mapcat (fn [round] (say "round" (inc (long round))) (one-round peers loops round))) (range rounds))
        by-row (group-by first found)]
    (for [loops [0 loops], {:keys [name]} peers]
      {:peer name :loops loops :rounds (mapv second (by-row [name loops]))})))

(defn- present
  "The peers that can be built here; of each other one a line says what to install."
  []
  (filterv (fn [named] (if-some [complaint (programs/build named)] (say complaint) true))
           (:peers workloads/computing)))

(defn run
  "Runs the suite, one round of it with :quick, and returns {:machine .. :settings .. :rows [{:peer .. :loops .. :rounds [figures ..]} ..]}.

  Blocks for about three minutes; fails when a peer does.

  Example: (run {:quick true})"
  [{:keys [quick]}]
  (let [before (machine/facts)
        names (present)
        loops (* (long (:loops-per-core workloads/computing)) (long (:cores before)))
        rows (rounds/with-peers {} names {:flags rounds/flags} #(vec (rows % loops (if quick 1 5))))]
    {:machine (assoc before :load-at-end (:load-at-start (machine/facts))
                :peers (vec (keep programs/version names)))
     :settings {:quick quick
                :flags [(str "JVMs: " (str/join " " rounds/flags)) "with options: those of kernel/java.options too" "without options: heap and collector only"]
                :busy-before-a-run-at-most (reduce max (map :busy (mapcat :rounds rows)))}
     :rows rows}))

;; --- the pages

(defn- named [peer]
  (case peer
    "Magnetar" "Magnetar, with options"
    "Magnetar, plain" "Magnetar, without options"
    peer))

(defn- counted [x]
  (format "%,.0f" (double x)))

(defn- timed [x]
  (let [x (double x)]
    (format (cond (>= x 10.0) "%.0f" (>= x 1.0) "%.1f" :else "%.3f") x)))

(defn- cell
  "The figure of all rounds, in words that `in-words` makes of those there are."
  [rounds figure in-words]
  (if-some [numbers (seq (keep figure rounds))] (in-words (statistics/spread numbers)) "-"))

(defn- spread [number {:keys [median min max]}]
  (if (= min max)
    (number median)
    (format "%s [%s %s]" (number median) (number min) (number max))))

(defn- times
  "The columns of the times of calls, or of turns."
  [what]
  [{:title (name what) :figure #(get-in % [what :median]) :number timed}
   {:title "99 %" :figure #(get-in % [what :percentile-99]) :number timed}
   {:title "worst, first 200 ms" :figure #(get-in % [what :worst-at-start]) :number timed :worst? true}
   {:title "worst, later" :figure #(get-in % [what :worst-later]) :number timed :worst? true}])

(def ^:private columns
  (concat [{:title (format "ticks of %,d" possible-ticks) :figure :ticks :number counted}
           {:title "calls" :figure :calls :number counted}]
          (times :call)
          (times :turn)))

(defn table
  "Returns the rows of a result as lines of a Markdown table.

  Example: (run! println (table result))"
  [{:keys [rows]}]
  (report/lines (list* "peer" "loops" (map :title columns))
                (for [{:keys [peer loops rounds]} rows]
                  (list* (named peer) loops (for [{:keys [figure number]} columns] (cell rounds figure (partial spread number)))))))

(defn- short-cell
  "The median of the rounds; of what is the worst of a round, the worst of all."
  [rounds {:keys [figure number worst?]}]
  (cell rounds figure (comp number (if worst? :max :median))))

(defn- short-table
  "One row for each peer: its ticks without loops, and all columns beside the loops."
  [{:keys [rows]}]
  (report/lines (list* "" "ticks without loops" "ticks" (map :title (rest columns)))
                (for [[peer rows] (map #(vector % (filter (comp #{%} :peer) rows)) (distinct (map :peer rows)))
                      :let [[alone beside] (map :rounds (sort-by :loops rows))]]
                  (list* (named peer) (short-cell alone (first columns)) (map (partial short-cell beside) columns)))))

(defn- summary [{:keys [machine rows] :as result}]
  (concat [(report/measured-by "computing" machine)
           (format "%d loops compute without a pause, for %d s. Beside them %d go blocks, goroutines or Erlang processes tick"
                   (reduce max (map :loops rows)) (quot (long (:ms workloads/computing)) 1000) (:tickers workloads/computing))
           (format "every 10 ms: %,d ticks are possible. A process calls a server and then sleeps for 1 ms, again and again. A"
                   possible-ticks)
           "*turn* is a call with the sleep behind it. Times are in milliseconds: medians, and the worst of all rounds."
           "The options are those of [kernel/java.options](../../kernel/java.options). [The"
           "table](../../bench/results/computing.md) has the spreads."
           ""]
          (short-table result)))

(defn with-summary
  "Returns the text of docs/reference/performance.md with the short table of a result.

  Example: (with-summary page result)"
  [page result]
  (report/with-figures page "computing" (summary result)))

(def ^:private introduction
  ["# Fibers that compute, beside Go and Erlang" ""
   (report/written-by "computing")
   (format "Loops compute without a pause beside %d go blocks, goroutines or Erlang processes that tick every 10 ms for %d ms,"
           (:tickers workloads/computing) (:ms workloads/computing))
   "and a server that one process calls, sleeping 1 ms after each answer. A turn is a call with the sleep behind it. Times are in"
   "milliseconds. The worst are told apart by when they began: in the first 200 ms, in which Magnetar adds carriers, or later. Each"
   "cell has the median of the rounds, the least and the greatest. The options are in `kernel/java.options`. What each line"
   "does: `bench/README.md`."
   ""])

(defn markdown
  "Returns the text of the page: the table, the machine.

  Example: (markdown result)"
  [result]
  (str/join "\n" (concat introduction (table result) ["" "## Machine and settings" ""] (report/facts-in-words result) [""])))

(defn write
  "Writes the page, the raw result and the short table of docs/reference/performance.md, and returns the three files.

  Example: (write result)"
  [result]
  (report/write-with-summary "computing" result (markdown result) #(with-summary % result)))
