(ns magnetar.bench.cluster
  "`bin/magnetar bench cluster`: two nodes of a cluster beside two of Pekko over artery and two of Erlang, with and without TLS.

  All pairs take turns in each round, so a ratio is of the same minute. `magnetar.bench.cluster.systems` has the pairs."
  (:require
   [clojure.string :as str]
   [magnetar.bench.cluster.systems :as systems]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.peers.rounds :as rounds]
   [magnetar.bench.report :as report :refer [say]]
   [magnetar.bench.statistics :as statistics]))

(set! *warn-on-reflection* true)

;; --- workloads

(def ^:private batch 1000)

(defn workloads
  "The workloads: how many operations each has, and the numbers that follow the command. With :quick there are fewer.

  Example: (map :title (workloads {:quick true}))"
  [{:keys [quick]}]
  (let [messages (if quick 100000 500000)
        calls (if quick 2000 5000)
        many-calls (if quick 10000 50000)]
    [{:title "messages one way" :command "tell" :numbers [1 messages 1] :operations messages :kinds #{"Magnetar" "Erlang"}}
     {:title "messages one way, 3,000 ahead" :command "tell" :numbers [(quot messages (long batch)) batch 3] :operations messages}
     {:title "calls, 1 caller" :command "ask" :numbers [1 calls] :operations calls}
     {:title "calls, 100 callers" :command "ask" :numbers [100 many-calls] :operations many-calls}]))

(defn- does? [{:keys [kinds]} {:keys [kind]}]
  (or (nil? kinds) (contains? kinds kind)))

;; --- the run

(defn- processor-time
  "What both nodes used for an operation, in microseconds: [here there]."
  [before after operations]
  (when (and before after)
    (mapv #(/ (double (- (long %2) (long %1))) (double operations)) before after)))

(defn- one
  "What one operation takes a pair, and how long the processors work for it, in microseconds."
  [pair {:keys [command numbers operations]}]
  (systems/ask pair "collect")
  (let [before (systems/processor-micros pair)
        [nanos] (apply systems/ask pair command numbers)]
    {:micros (/ (double nanos) 1000.0 (double operations))
     :processor (processor-time before (systems/processor-micros pair) operations)}))

(defn death-times
  "Of the numbers that answer \"downs\", the medians in microseconds: the round trip of a message, and from the message that ends a process to its :DOWN.

  Example: (death-times [90000 120000 80000 110000]) => {:round-trip 85.0 :down 115.0}"
  [numbers]
  (let [of #(/ (statistics/median (take-nth 2 %)) 1000.0)]
    {:round-trip (of numbers) :down (of (rest numbers))}))

(defn- deaths [pair n]
  (death-times (systems/ask pair "downs" n)))

(defn- in-order [pairs round]
  (cond-> pairs (odd? (long round)) reverse))

(defn- one-round
  "{title {pair figures}}; the pairs take turns, in every second round the other way round."
  [pairs workloads downs round]
  (say "round" (inc (long round)))
  (let [busy (atom 0.0)
        all (fn [title f pairs]
              (into {} (for [{:keys [name] :as pair} (in-order pairs round)]
                         (do (swap! busy max (rounds/await-quiet))
                             [name (doto (f pair) (->> (say (format "  %s, %s:" title name))))]))))
        found (into {} (for [{:keys [title] :as workload} workloads]
                         [title (all title #(one % workload) (filter #(does? workload %) pairs))]))]
    (assoc found :deaths (all "deaths" #(deaths % downs) pairs) :busy @busy)))

(defn- warm-up
  "Lets each pair do each workload for some seconds, twice at least."
  [pairs workloads downs seconds]
  (doseq [pair pairs]
    (say "warm-up of" (:name pair))
    (doseq [workload (filter #(does? % pair) workloads)]
      (let [end (+ (System/nanoTime) (long (* 1e9 (double seconds))))]
        (loop [left 2]
          (when (or (pos? left) (neg? (- (System/nanoTime) end)))
            (one pair workload)
            (recur (dec left))))))
    (deaths pair (* 4 (long downs)))))

(defn- kill-ms
  "From the kill of the node that serves to the :DOWN at the other one, in milliseconds."
  [pair]
  (systems/with-started [pair]
    (fn [[{:keys [there] :as started}]]
      (systems/ask started "watch")
      (let [begin (System/nanoTime)]
        (.destroyForcibly ^Process (:process there))
        (systems/ask started "await-down")
        (/ (- (System/nanoTime) begin) 1e6)))))

(defn- kills
  "{pair [ms ..]}, each of nodes that were started for it."
  [pairs n]
  (let [found (for [round (range n), pair (in-order pairs round)]
                (let [ms (kill-ms pair)]
                  (say (format "kill of a node of %s: %.0f ms" (:name pair) ms))
                  [(:name pair) ms]))]
    (update-vals (group-by first (doall found)) #(mapv second %))))

(defn run
  "Runs the suite, one round of it with :quick, and returns {:machine .. :settings .. :rounds [{title {pair figures}} ..] :kills {pair [ms ..]}}.

  Blocks for about a quarter of an hour; fails when a node does.

  Example: (run {:quick true})"
  [{:keys [quick] :as options}]
  (let [before (machine/facts)
        pairs (systems/present)
        workloads (workloads options)
        [rounds downs seconds n-kills] (if quick [1 100 1 1] [6 500 4 3])
        found (systems/with-started pairs
                (fn [pairs]
                  (warm-up pairs workloads downs seconds)
                  (mapv #(one-round pairs workloads downs %) (range rounds))))]
    {:machine (assoc before
                :load-at-end (:load-at-start (machine/facts))
                :peers (vec (keep programs/version ["Erlang"])))
     :settings {:quick quick
                :rounds rounds
                :flags [(str "JVMs: " (str/join " " rounds/flags)) "ours: the ones of kernel/java.options too, as bin/magnetar gives them"]
                :busy-before-a-piece-of-work-at-most (reduce max (map :busy found))}
     :rounds (mapv #(dissoc % :busy) found)
     :kills (kills pairs n-kills)}))

;; --- the pages

(defn- pair-name [kind tls]
  (str kind (when tls ", TLS")))

(defn- numbers [rounds title pair figure]
  (keep #(get-in % [title pair figure]) rounds))

(defn- spread
  "The median, with the least and the greatest if there are several."
  [pattern numbers]
  (when-let [numbers (seq numbers)]
    (let [{:keys [median min max count]} (statistics/spread numbers)]
      (if (= 1 count)
        (format pattern median)
        (apply format (format "%1$s [%1$s %1$s]" pattern) [median min max])))))

(defn- middle [pattern numbers]
  (when (seq numbers)
    (format pattern (statistics/median numbers))))

(defn- per-second [micros]
  (map #(/ 1e6 (double %)) micros))

(defn- speed
  "How fast a pair was, in words: messages in a second, or the time of a call."
  [words {:keys [command]} micros]
  (if (= "tell" command)
    (words "%,.0f/s" (per-second micros))
    (words "%,.1f µs" micros)))

(defn- ratio
  "Of times, ours / theirs, one for each round."
  [rounds title tls kind]
  (keep (fn [round]
          (let [[ours theirs] (map #(get-in round [title (pair-name % tls) :micros]) ["Magnetar" kind])]
            (when (and ours theirs) (/ (double ours) (double theirs)))))
        rounds))

(defn- transport [tls]
  (if tls "TLS 1.3" "plain"))

(def ^:private columns ["Magnetar" "Pekko" "Erlang"])

(defn- speeds
  "A table of speeds and ratios; `words` makes a cell of a pattern and numbers, or nil."
  [{:keys [rounds]} words]
  (report/lines
    ["" "transport" "ours" "Pekko" "Erlang" "ours / Pekko" "ours / Erlang"]
    (for [{:keys [title] :as workload} (workloads {}), tls [false true]]
      (map #(or % "-")
           (concat [title (transport tls)]
                   (for [kind columns] (speed words workload (numbers rounds title (pair-name kind tls) :micros)))
                   (for [kind (rest columns)] (words "%.2f" (ratio rounds title tls kind))))))))

(defn- processor-cell [words pairs]
  (when (seq pairs)
    (str (words "%.1f" (map first pairs)) " + " (words "%.1f" (map second pairs)))))

(defn- processors
  "A table of the processor time of both nodes for an operation."
  [{:keys [rounds]} words]
  (report/lines
    ["" "transport" "ours, µs" "Pekko, µs" "Erlang, µs"]
    (for [{:keys [title]} (workloads {}), tls [false true]]
      (map #(or % "-")
           (concat [title (transport tls)]
                   (for [kind columns] (processor-cell words (numbers rounds title (pair-name kind tls) :processor))))))))

(defn- above-round-trip [rounds pair]
  (for [round rounds
        :let [{:keys [round-trip down]} (get-in round [:deaths pair])]
        :when down]
    (- (double down) (double round-trip))))

(defn- death-table [{:keys [rounds kills]} words]
  (report/lines
    ["" "transport" "ours" "Pekko" "Erlang"]
    (for [[title f] [["round trip of a message" #(words "%,.0f µs" (numbers rounds :deaths % :round-trip))]
                     ["exit to `:DOWN`, above that" #(words "%,.0f µs" (above-round-trip rounds %))]
                     ["`kill -9` to `:DOWN`" #(words "%,.0f ms" (kills %))]]
          tls [false true]]
      (map #(or % "-") (concat [title (transport tls)] (for [kind columns] (f (pair-name kind tls))))))))

(defn table
  "Returns the tables of a result as lines, with spreads.

  Example: (run! println (table result))"
  [result]
  (concat (speeds result spread) [""] (processors result spread) [""] (death-table result spread)))

(def ^:private how-to-read
  ["Two nodes on the loopback address, and both on the same cores. A message is an array or a binary of 100"
   "bytes. A ratio is of times, ours / theirs: below 1 ours is faster. A run of messages one way ends when the"
   "receiver has counted all. Either the sender stops only where its library makes it wait, or it is at most"
   "3,000 messages ahead: Pekko drops what is more. All of TLS is 1.3 with the same cipher."])

(def ^:private of-processors
  ["Processor time of the node that sends or calls + of the other one, for one message or call:"])

(def ^:private of-deaths
  ["A process sends a message that ends a process of the other node, which it monitors. The time to its `:DOWN`"
   "has a round trip in it, which was measured beside it and is subtracted. The detectors of lost nodes are as by"
   "default:"])

(defn- tables [result words]
  (concat (speeds result words) [""] of-processors [""] (processors result words) [""] of-deaths [""] (death-table result words)))

(defn with-summary
  "Returns the text of docs/reference/performance.md with the medians of a result.

  Example: (with-summary page result)"
  [page result]
  (report/with-tables page "cluster" result how-to-read (tables result middle)))

(defn markdown
  "Returns the text of the page: the tables, the machine.

  Example: (markdown result)"
  [result]
  (report/page "cluster" "A cluster beside Pekko artery and Erlang" result how-to-read
               "Each cell has the median of all rounds, the least and the greatest. What each line does: `bench/README.md`."
               (tables result spread)))

(defn write
  "Writes the page, the raw result and the tables of docs/reference/performance.md, and returns the three files.

  Example: (write result)"
  [result]
  (report/write-with-summary "cluster" result (markdown result) #(with-summary % result)))
