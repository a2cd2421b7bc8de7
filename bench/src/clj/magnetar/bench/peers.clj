(ns magnetar.bench.peers
  "`bin/magnetar bench peers`: the same work by Magnetar and by everything it is compared with, in one run, in turn.

  A workload (`peers.workloads`) runs in a fresh process for each of its peers; all of them stay alive, and idle, while one works
  (`peers.rounds`). Warm-ups do not count. In a round each peer does the work once; each round gives one ratio for each peer
  (`peers.rows`). Figures are for one operation, so that a slow peer may do fewer of them."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.bench.arguments :as arguments]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.memory :as memory]
   [magnetar.bench.peers.echo :as echo]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.peers.rounds :as rounds]
   [magnetar.bench.peers.rows :as rows]
   [magnetar.bench.peers.scaling :as scaling]
   [magnetar.bench.peers.workloads :as workloads]
   [magnetar.bench.report :refer [say]])
  (:import
   (java.io File)))

(set! *warn-on-reflection* true)

(defn- seconds-since [start]
  (/ (- (System/nanoTime) (long start)) 1e9))

(defn named
  "The names of peers that words of a user mean: those that begin with one of them, whatever the case; fails for a word that means none.

  Example: (named [\"go\" \"core.async\"]) => (\"Go\" \"core.async, go\" \"core.async, io-thread\")"
  [words]
  (let [begins? (fn [word named] (str/starts-with? (str/lower-case named) (str/lower-case word)))
        names (sort (keys programs/all))]
    (arguments/check "peer" begins? names words)
    (filter (fn [named] (some #(begins? % named) words)) names)))

(defn- present
  "Returns {:there names :missing names}: the peers that can run here, and those that cannot. For each of these a line says what to install.
  With :peers only those."
  [{:keys [peers]}]
  (let [wanted (if peers (into (set workloads/ours) (named peers)) (set (keys programs/all)))]
    (reduce (fn [found named]
              (let [complaint (programs/build named)]
                (when complaint (say complaint))
                (update found (if complaint :missing :there) conj named)))
            {:there #{} :missing #{}}
            (sort wanted))))

;; --- rows

(defn- piece-seconds
  "How long one piece of work of a peer took."
  [{:keys [operations fewer]} named figure]
  (/ (* (double figure) (double operations)) (double (get fewer named 1)) 1e9))

(defn- say-rows [{:keys [unit] :as workload} rows]
  (when-some [{:keys [ours plain]} (first rows)]
    (say (format "  %-28s %12.1f%s%s" "ours" (:median ours)
                 (if plain (format ", with / without options %.3f" (:median plain)) "")
                 (if (= "ns" unit) (format "  (%.2f s a piece)" (piece-seconds workload "Magnetar" (:median ours))) ""))))
  (doseq [{:keys [peer mode theirs ratio closed target]} rows]
    (say (format "  %-28s %12.1f  ratio %.3f%s%s%s" peer (:median theirs) (:median ratio)
                 (if closed (format ", without hand-off %.3f" (:median closed)) "")
                 (if target (str ", target " target) "")
                 (if (= "ns" unit) (format "  (%.2f s a piece)" (piece-seconds workload (or mode peer) (:median theirs))) "")))))

(defn- so-far
  "Where what is measured stands at once: a long run that fails late has not lost it."
  ^File []
  (io/file (machine/home) "bench" "target" "peers" "so-far.edn"))

(defn- kept [result]
  (spit (so-far) (prn-str result) :append true)
  result)

(defn- ours
  "Which of ours are measured: memory with the options only, which are for speed."
  [{:keys [unit]}]
  (if (= "ns" unit) workloads/ours ["Magnetar"]))

(defn- measured
  "The rows and the rounds of a workload; of those peers that cannot run here, rows that say so."
  [{:keys [title targets] :as workload} measure {:keys [there missing]} options]
  (let [start (System/nanoTime)
        theirs (filter there (keys targets))
        names (concat (ours workload) theirs)
        not-installed (for [named (keys targets) :when (missing named)] (rows/missing workload named "not installed"))]
    (if (empty? theirs)
      {:rows not-installed}
      (do
        (say title)
        (let [rounds (rounds/surviving measure workload names options say)
              left-out (remove (partial contains? (first rounds)) names)
              rows (rows/rows workload rounds)]
          (say-rows workload rows)
          (say (format "  %.1f s" (seconds-since start)))
          (kept {:rows (concat rows not-installed (map #(rows/missing workload % "left out, since it failed") left-out))
                 :raw [{:title title :rounds rounds :seconds (seconds-since start)
                        :left-out (mapv #(str % " in " title) left-out)}]}))))))

(defn- within-limits
  "The workload with as many connections as this process may have."
  [{:keys [needs numbers] :as workload}]
  (if (= :echo needs)
    (let [[wanted & more] numbers
          connections (echo/possible wanted)]
      (when (< connections (long wanted))
        (say (format "  only %d connections: `ulimit -n` allows no more open files" connections)))
      (assoc workload :numbers (vec (cons connections more))))
    workload))

;; --- the run

(def ^:private others
  "What a user may write that is no workload: a suite, or what is measured over N and over cores."
  (conj (vec (sort workloads/suites)) "scaling"))

(def ^:private all-workloads (into [] cat [workloads/timed workloads/memory]))

(defn known?
  "Whether a word of the command line chooses something of this benchmark.

  Example: (known? \"savina\") => true"
  [word]
  (boolean (or (some #{word} others) (some #(workloads/meant? word %) all-workloads))))

(defn- check-groups [words]
  (arguments/check "workload" (fn [word _] (known? word)) (concat (map :title all-workloads) others) words))

(defn- all-rows [chosen? found options]
  (let [measure (fn [unit f workload] (measured (within-limits (assoc workload :unit unit)) f found options))]
    (into (mapv (partial measure "ns" rounds/of-time) (filter chosen? workloads/timed))
          (map (partial measure "bytes" rounds/of-memory))
          (filter chosen? workloads/memory))))

(defn- with-scaling [result groups there? options]
  (let [here (partial filter there?)]
    (if (or (nil? groups) (groups "scaling"))
      (assoc result
        :over-n (scaling/over-n options here say (constantly true))
        :over-cores (scaling/over-cores options here say (constantly true)))
      result)))

(defn- distances
  "Returns how far the cores were from each other in a result, in words, or nil if that could not be measured."
  [rounds]
  (when-some [seen (seq (mapcat :distances rounds))]
    (format "%d to %d ns from one core to the other and back; cores moved in %d of %d rounds that count, %d more were done again"
            (reduce min seen) (reduce max seen) (count (filter rows/moved? rounds)) (count (filter (comp seq :distances) rounds))
            (reduce + (keep :again rounds)))))

(defn- settings [options results seconds]
  {:quick (:quick options)
   :flags [(str "JVMs: " (str/join " " rounds/flags) "; over N: " (str/join " " scaling/flags) "; memory: " (str/join " " memory/flags))
           "ours and not `without hand-off`: those of kernel/java.options" "ours without options: heap and collector only" "erl +P 5000000"]
   :left-out (vec (mapcat :left-out (mapcat :raw results)))
   :distance-of-cores (distances (mapcat :rounds (mapcat :raw results)))
   :minutes (/ (Math/round (/ (double seconds) 6.0)) 10.0)
   :busy-before-a-piece-of-work-at-most (reduce max 0.0 (keep :busy (mapcat :rounds (mapcat :raw results))))})

(defn run
  "Runs the workloads, or those that a word of :groups means (`workloads/meant?`), with all peers or those that :peers names, and returns {:machine ..
  :settings .. :rows .. :raw .. :over-n .. :over-cores ..}.

  Blocks for 65 to 95 minutes; fails for a name that does not exist, and when ours does, and leaves what it has measured in bench/target/peers/so-far.edn. With :groups scaling is measured only if it is one of them.

  Example: (run {:quick true :groups #{\"rendezvous\"} :peers [\"Go\"]})"
  [{:keys [groups] :as options}]
  (check-groups groups)
  (let [start (System/nanoTime)
        before (machine/facts)
        {there? :there :as found} (present options)
        _ (spit (so-far) "")
        chosen? (fn [workload] (or (nil? groups) (some #(workloads/meant? % workload) groups)))
        results (all-rows chosen? found (select-keys options [:quick]))
        result (with-scaling {:rows (vec (mapcat :rows results)) :raw (vec (mapcat :raw results))} groups there? (select-keys options [:quick]))]
    (say (format "%.1f minutes in all" (/ (double (seconds-since start)) 60.0)))
    (assoc result
      :machine (assoc before :load-at-end (:load-at-start (machine/facts))
                 :peers (vec (keep programs/version (sort there?))))
      :settings (settings options results (seconds-since start)))))
