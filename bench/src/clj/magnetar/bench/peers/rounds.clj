(ns magnetar.bench.peers.rounds
  "Rounds of a workload: each peer does it once, in an order that is turned round from round to round, when the machine is idle and its
  cores stay where they are."
  (:require
   [magnetar.bench.machine :as machine]
   [magnetar.bench.memory :as memory]
   [magnetar.bench.peers.echo :as echo]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.peers.rows :as rows]
   [magnetar.bench.peers.workloads :as workloads]
   [magnetar.bench.workload.http :as http])
  (:import
   (com.sun.net.httpserver HttpServer)))

(set! *warn-on-reflection* true)

(def ^:private quiet-share 0.08)

(defn- busy-share
  "What part of the processors was used in 50 ms, now that no peer works; 0 where it cannot be known."
  []
  (let [before (machine/processor-times)]
    (Thread/sleep 50)
    (if before
      (let [[busy _ wall] (map - (machine/processor-times) before)]
        (/ (double busy) (max 1.0 (double wall))))
      0.0)))

(defn await-quiet
  "Waits until others use next to nothing of the machine, one second at most. Returns what part they used at last.

  Example: (await-quiet) => 0.02"
  []
  (loop [left 20]
    (let [share (busy-share)]
      (if (or (<= (double share) (double quiet-share)) (zero? left))
        share
        (recur (dec left))))))

(defn- numbers-for [{:keys [numbers fewer]} peer]
  (update (vec numbers) (dec (count numbers)) quot (get fewer peer 1)))

(defn- asked [{:keys [command theirs]} {:keys [name]}]
  (if (and theirs (not-any? #{name} workloads/ours)) theirs command))

(defn- answer
  "What a peer answers, or what the driver measures of it."
  [{:keys [needs port] :as workload} {:keys [name] :as peer}]
  (let [command (asked workload peer)
        numbers (numbers-for workload name)]
    (case needs
      :slow-pages (apply programs/ask peer command port numbers)
      :echo (try
              (apply echo/measure @(:port peer) numbers)
              (catch clojure.lang.ExceptionInfo e
                (throw (ex-info (str name ": " (ex-message e)) {:peer name} e))))
      (apply programs/ask peer command numbers))))

(defn- one
  "What one operation takes a peer."
  [{:keys [operations fewer] :as workload} {:keys [name] :as peer}]
  (/ (double (answer workload peer))
     (/ (double operations) (double (get fewer name 1)))))

(defn- with-distance
  "The figures, and how far the cores are from each other now, if that can be told."
  [figures]
  (update figures :distances into (when-some [nanos (machine/core-distance)] [(Math/round (double nanos))])))

(defn- with-busy [figures]
  (let [busy (await-quiet)]
    (update figures :busy max busy)))

(defn one-round
  "A round: figures by the names of peers; as :busy what others used of the machine before a piece of work at most; as :distances the
  `machine/core-distance` before each piece and after the last.

  Example: (one-round workload peers 0)"
  [workload peers round]
  (let [order (cond-> peers (odd? (long round)) reverse)]
    (with-distance
      (reduce (fn [figures peer]
                (assoc (with-distance (with-busy figures)) (:name peer) (one workload peer)))
              {:busy 0.0 :distances []}
              order))))

(def ^:private warm-up-seconds
  "How long each peer works before its rounds count: a JVM compiles for seconds, and what 100 callers take falls by a quarter in the first three."
  5)

(defn- warm-up
  "Lets the peer do the work so often, and then again until so many seconds have passed."
  [workload peer least seconds]
  (let [end (+ (System/nanoTime) (* 1000000000 (long seconds)))]
    (loop [left (long least)]
      (when (or (pos? left) (neg? (- (System/nanoTime) end)))
        (one workload peer)
        (recur (dec left))))))

(defn- warm-all-up
  "Once for a quick look, else as often as the workload says, or by time."
  [{:keys [warm-ups] :as workload} peers quick]
  (let [[least seconds] (cond
                          quick [1 0]
                          warm-ups [warm-ups 0]
                          :else [4 warm-up-seconds])]
    (run! #(warm-up workload % least seconds) peers)))

(def ^:private tries 4)

(defn steady
  "The first of four rounds during which the cores stayed where they were, the fourth if they moved in all; how many were done before as :again.

  Example: (steady #(one-round workload peers 0))"
  [round]
  (loop [again 0]
    (let [result (assoc (round) :again again)]
      (if (and (rows/moved? result) (< (inc again) (long tries)))
        (recur (inc again))
        result))))

(defn- with-port [{:keys [needs]} peer]
  (cond-> peer (= :echo needs) (assoc :port (delay (long (programs/ask peer "echo"))))))

(defn with-peers
  "The value of (f peers), with the peers of these names started for a workload, and ended.

  Example: (with-peers workload [\"Go\"] {} f)"
  [workload names options f]
  (programs/with-started (map #(with-port workload (programs/start % options)) names) f))

(defn with-server
  "The value of (f workload). A workload that needs a slow server has as :port that of one, which is stopped when f returns.

  Example: (with-server {:needs :slow-pages} :port) => 40321"
  [{:keys [needs] :as workload} f]
  (if (= :slow-pages needs)
    (let [^HttpServer server (http/start-server 100)]
      (try
        (f (assoc workload :port (.getPort (.getAddress server))))
        (finally (.stop server 0))))
    (f workload)))

(def switching
  "What kernel/java.options has for switches between virtual threads of any library: every JVM whose time is measured has it.

  Example: (first switching) => \"-XX:CompileCommand=quiet\""
  (filterv #(re-find #"=quiet|=inline,(java|jdk)\." %) (machine/launcher-options)))

(def flags
  "Those of every JVM whose time is measured. G1 is what a JVM takes by itself on two cores; on one it would take another collector.

  Example: (last flags) => \"-Xmx2g\""
  (conj switching "-XX:+UseG1GC" "-Xms1g" "-Xmx2g"))

(defn of-time
  "The rounds of a workload that count.

  Example: (of-time workload [\"Magnetar\" \"Go\"] {:quick true})"
  [{:keys [rounds] :or {rounds 7} :as workload} names {:keys [quick] :as options}]
  (with-server workload
    (fn [workload]
      (with-peers workload names (merge {:flags flags} options)
        (fn [peers]
          (warm-all-up workload peers quick)
          (mapv #(steady (fn [] (one-round workload peers %))) (range (if quick 1 rounds))))))))

(defn of-memory
  "The one round of a workload of memory, each peer in a process for nothing else.

  Example: (of-memory workload [\"Magnetar\" \"Go\"] {})"
  [workload names options]
  (let [workload (cond-> workload (:quick options) (assoc :numbers [100000]))]
    [(into {} (for [named names]
                (with-peers workload [named] (assoc options :flags memory/flags)
                  (fn [[peer]] [named (one workload peer)]))))]))

(defn surviving
  "The rounds that (measure workload names options) gives. A peer that fails, not one of ours, is left out with a line.

  Example: (surviving of-time workload [\"Magnetar\" \"Go\"] {} println)"
  [measure workload names options say]
  (let [result (try
                 (measure workload names options)
                 (catch clojure.lang.ExceptionInfo e
                   (let [failed (:peer (ex-data e))]
                     (when (or (nil? failed) (some #{failed} workloads/ours))
                       (throw e))
                     (say (str "  left out: " (ex-message e)))
                     failed)))]
    (if (string? result)
      (recur measure workload (remove #{result} names) options say)
      result)))
