(ns magnetar.bench.erlang-nodes
  "`bin/magnetar bench erlang`: our node of Erlang beside one of jinterface and one of Erlang itself, all with the same BEAM.

  All take turns in each round, so a ratio is of the same minute. `magnetar.bench.erlang-nodes.systems` has the nodes."
  (:require
   [clojure.string :as str]
   [magnetar.bench.erlang-nodes.systems :as systems]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.peers.rounds :as rounds]
   [magnetar.bench.report :as report :refer [say]]
   [magnetar.bench.statistics :as statistics]))

(set! *warn-on-reflection* true)

;; --- workloads

(def ^:private terms
  "The terms in the order of the module magnetar_stock, and how many are encoded at a time."
  [["tuple of 3" 400000]
   ["map of 10 keys" 100000]
   ["list of 1,000 integers" 5000]
   ["binary of 1 KiB" 400000]
   ["text of 1 KiB" 200000]
   ["order, nested" 50000]])

(def ^:private n-terms (count terms))

(defn- messages [{:keys [quick]}]
  (let [calls (if quick 2000 10000)
        sent (if quick 20000 300000)]
    [{:title "calls, 1 caller" :command "call" :operations calls :targets {"Erlang" 1.11}}
     {:title "messages to the BEAM" :command "send" :operations sent :targets {"jinterface" 0.5}}
     {:title "messages from the BEAM" :command "receive" :operations sent :targets {"jinterface" 0.5}}]))

(defn- codecs [{:keys [quick]}]
  (for [[k [title n]] (map-indexed vector terms), command ["encode" "decode"]]
    {:title (str command ", " title) :command command :term (inc (long k)) :operations (if quick (quot (long n) 10) n) :targets {"jinterface" 0.5}}))

(defn workloads
  "The workloads: how many operations each has, and which ratio it should have at most to which peer. With :quick there are
  fewer operations.

  Example: (map :title (workloads {:quick true}))"
  [options]
  (concat (messages options) (codecs options)))

;; --- the run

(defn- one
  "What one operation takes a node, and how long the processors work for it, in microseconds."
  [node {:keys [command term operations]}]
  (systems/ask node "collect")
  (let [before (systems/processor-micros node)
        nanos (apply systems/ask node command (filter some? [term operations]))
        after (systems/processor-micros node)
        each #(/ (double %) (double operations))]
    {:micros (each (/ (double nanos) 1000.0))
     :processor (when (and before after) (mapv (comp each -) after before))}))

(defn- in-order [nodes round]
  (cond-> nodes (odd? (long round)) reverse))

(defn- one-round
  "{title {node figures}}; the nodes take turns, in every second round the other way round."
  [nodes workloads round]
  (say "round" (inc (long round)))
  (let [busy (atom 0.0)
        figures (fn [{:keys [name] :as node} {:keys [title] :as workload}]
                  (swap! busy max (rounds/await-quiet))
                  (doto (one node workload) (->> :micros (format "  %s, %s: %.3f µs" title name) say)))
        found (into {} (for [{:keys [title] :as workload} workloads]
                         [title (into {} (for [{:keys [name] :as node} (in-order nodes round)]
                                           [name (figures node workload)]))]))]
    (assoc found :busy @busy)))

(defn- warm-up
  "Lets each node do each workload for some seconds, twice at least."
  [nodes workloads seconds]
  (doseq [{:keys [name] :as node} nodes]
    (say "warm-up of" name)
    (doseq [workload workloads]
      (let [end (+ (System/nanoTime) (long (* 1e9 (double seconds))))]
        (loop [left 2]
          (when (or (pos? left) (neg? (- (System/nanoTime) end)))
            (one node workload)
            (recur (dec left))))))))

(defn run
  "Runs the suite, one round of it with :quick, and returns {:machine .. :settings .. :rounds [{title {node figures}} ..]}.

  Blocks for about seven minutes; fails when a node does.

  Example: (run {:quick true})"
  [{:keys [quick] :as options}]
  (let [before (machine/facts)
        names (systems/present)
        workloads (workloads options)
        [rounds seconds] (if quick [1 1] [6 4])
        found (systems/with-started names n-terms
                (fn [nodes]
                  (warm-up nodes workloads seconds)
                  (mapv #(one-round nodes workloads %) (range rounds))))]
    {:machine (assoc before
                :load-at-end (:load-at-start (machine/facts))
                :peers (filterv some? [(programs/version "Erlang") (systems/jinterface-version)]))
     :settings {:quick quick
                :rounds rounds
                :flags [(str "JVMs: " (str/join " " rounds/flags)) "ours: the ones of kernel/java.options too, as bin/magnetar gives them"]
                :busy-before-a-piece-of-work-at-most (reduce max (map :busy found))}
     :rounds (mapv #(dissoc % :busy) found)}))

;; --- the pages

(def ^:private nodes ["Magnetar" "jinterface" "Erlang"])

(defn- numbers [rounds title node figure]
  (keep #(get-in % [title node figure]) rounds))

(defn- spread
  "The median, with the least and the greatest if there are several."
  [pattern numbers]
  (when-let [numbers (seq numbers)]
    (let [{:keys [median min max count]} (statistics/spread numbers)]
      (if (= 1 count)
        (format pattern median)
        (format (str pattern " [" pattern " " pattern "]") median min max)))))

(defn- middle [pattern numbers]
  (when (seq numbers)
    (format pattern (statistics/median numbers))))

(defn- speed
  "How fast a node was, in words: messages in a second, or the time of a call or of a term."
  [words {:keys [command]} micros]
  (case command
    "call" (words "%,.1f µs" micros)
    ("send" "receive") (words "%,.0f/s" (map #(/ 1e6 (double %)) micros))
    (words "%,.0f ns" (map #(* 1e3 (double %)) micros))))

(defn- ratios
  "Of times, ours / theirs, one for each round."
  [rounds title node]
  (keep (fn [round]
          (let [[ours theirs] (map #(get-in round [title % :micros]) ["Magnetar" node])]
            (when (and ours theirs) (/ (double ours) (double theirs)))))
        rounds))

(defn- target
  "What the ratio should be at most, and if it is."
  [rounds {:keys [title targets]}]
  (let [[node most] (first targets)]
    (when-let [found (seq (ratios rounds title node))]
      (format "%s <= %.2f: %s" node most (if (<= (statistics/median found) (double most)) "yes" "NO")))))

(defn- speeds
  "A table of speeds and ratios of the workloads; `words` makes a cell of a pattern and numbers, or nil."
  [{:keys [rounds]} words workloads]
  (report/lines
    ["" "ours" "jinterface" "Erlang" "ours / jinterface" "ours / Erlang" "target"]
    (for [{:keys [title] :as workload} workloads]
      (map #(or % "-")
           (concat [title]
                   (for [node nodes] (speed words workload (numbers rounds title node :micros)))
                   (for [node (rest nodes)] (words "%.2f" (ratios rounds title node)))
                   [(target rounds workload)])))))

(defn- processor-cell [words pairs]
  (when (seq pairs)
    (str (words "%.1f" (map first pairs)) " + " (words "%.1f" (map second pairs)))))

(defn- processors
  "A table of the processor time of the node and of the BEAM for a message or call."
  [{:keys [rounds]} words]
  (report/lines
    ["" "ours, µs" "jinterface, µs" "Erlang, µs"]
    (for [{:keys [title]} (messages {})]
      (map #(or % "-")
           (cons title (for [node nodes] (processor-cell words (numbers rounds title node :processor))))))))

(def ^:private of-processors
  ["Processor time of the node + of the BEAM, for one message or call:"])

(def ^:private of-codecs
  ["Bytes of a term, and back. The node of Erlang does `term_to_binary` and `binary_to_term`:"])

(defn- tables [result words]
  (concat (speeds result words (messages {})) [""]
          of-processors [""] (processors result words) [""]
          of-codecs [""] (speeds result words (codecs {}))))

(defn table
  "Returns the tables of a result as lines, with spreads.

  Example: (run! println (table result))"
  [result]
  (tables result spread))

(def ^:private how-to-read
  ["A node on the loopback address, and a BEAM that serves it, both on the same cores. A message is a binary of"
   "100 bytes. A call is `gs/call` or `gen_server:call` of a `gen_server` of the BEAM, with 100 bytes to and fro;"
   "jinterface has no function for it, and sends the same messages without a monitor. Messages one way end when"
   "the receiver has counted all. A ratio is of times, ours / theirs: below 1 ours is faster."])

(defn with-summary
  "Returns the text of docs/reference/performance.md with the medians of a result.

  Example: (with-summary page result)"
  [page result]
  (report/with-tables page "erlang" result how-to-read (tables result middle)))

(defn markdown
  "Returns the text of the page: the tables, the machine.

  Example: (markdown result)"
  [result]
  (report/page "erlang" "A node of Erlang beside jinterface and Erlang" result how-to-read
               "Each cell has the median of all rounds, the least and the greatest. What each line does: `bench/README.md`."
               (tables result spread)))

(defn write
  "Writes the page, the raw result and the tables of docs/reference/performance.md, and returns the three files.

  Example: (write result)"
  [result]
  (report/write-with-summary "erlang" result (markdown result) #(with-summary % result)))
