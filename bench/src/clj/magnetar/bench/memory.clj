(ns magnetar.bench.memory
  "What a parked fiber costs: bytes of heap and of resident memory, measured in a fresh JVM.

  The child parks 100,000 fibers, each on a channel of its own, waits until nothing moves, collects garbage, and reads the
  Java heap and the process's resident set. Both are differences to the same reading before, so that JVM and library do not
  count; channel and result channel of each fiber do. It runs as a program file, as under `bin/magnetar run FILE`: with the
  dynamic bindings that Clojure has while it loads one, which both libraries convey."
  (:require
   [clojure.edn :as edn]
   [magnetar.bench.child :as child]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.statistics :as statistics])
  (:import
   (java.lang.ref Reference)))

(set! *warn-on-reflection* true)

(def flags
  "JVM flags of the children: the heap starts small and keeps little free, so that resident memory follows use.

  Example: (first flags) => \"-Xms16m\""
  ["-Xms16m" "-Xmx4g" "-XX:MinHeapFreeRatio=5" "-XX:MaxHeapFreeRatio=10"])

(defn- resident
  "Nil where there is no /proc."
  []
  (when-let [status (machine/kernel-file "/proc/self/status")]
    (* 1024 (long (parse-long (second (re-find #"VmRSS:\s+(\d+)" status)))))))

(defn- at-rest
  []
  (machine/await-idle)
  (dotimes [_ 4] (System/gc) (Thread/sleep 200))
  (let [runtime (Runtime/getRuntime)]
    {:heap (- (.totalMemory runtime) (.freeMemory runtime))
     :rss (resident)}))

(defn- per-fiber
  [before after n]
  (into {}
        (for [[k v] after :when v]
          [k (/ (- (long v) (long (before k))) (double n))])))

(defn- measure
  [library workload n]
  (let [names (symbol (str "magnetar.bench.workload." library))
        park (requiring-resolve (symbol (str names) workload))
        release (requiring-resolve (symbol (str names) "release"))
        warm (park 1000)
        before (at-rest)
        parked (park n)
        after (at-rest)
        woken (release parked)]
    (Reference/reachabilityFence warm)
    (assoc (per-fiber before after n) :woken woken)))

(defn print-parked
  "The child: prints bytes per parked fiber as EDN.

  Example: (print-parked \"core-async\" \"park-go\" \"100000\")"
  [library workload n]
  (prn (measure library workload (parse-long n)))
  (flush)
  (System/exit 0))

(def ^:private program-text
  "(require 'magnetar.bench.memory)\n(apply (resolve 'magnetar.bench.memory/print-parked) *command-line-args*)\n")

(defn parked
  "Returns the bytes per parked fiber of one kind, as {:heap b :rss b}, measured in a fresh JVM.

  Blocks for some seconds; fails when a fiber was lost on the way.

  Example: (parked {:library 'core-async :workload 'park-go} 100000)"
  [{:keys [library workload]} n]
  (let [result (edn/read-string
                 (child/output
                   (concat [(machine/java-command)] flags (machine/launcher-options)
                           ["-cp" (System/getProperty "java.class.path")
                            "clojure.main" (child/program program-text) library workload n])))]
    (when-not (= n (:woken result))
      (throw (ex-info (str library " lost parked fibers: " (:woken result) " of " n " were there.") result)))
    (dissoc result :woken)))

(defn row
  "The resident bytes of one of n parked things as a row of a table, beside `theirs` if that is known.

  Example: (row {:named \"an idle process\" :library 'actors :workload 'park :target 0.5} 100000 2800.0)"
  [{:keys [named target] :as what} n theirs]
  (let [ours (:rss (parked what n))
        ratio (when theirs (statistics/spread [(/ (double ours) (double theirs))]))]
    (cond-> {:name named :ours-value (statistics/spread [ours])}
      theirs (assoc :theirs-value (statistics/spread [theirs]) :ratio ratio)
      (and theirs target) (assoc :target target :met? (<= (double (:median ratio)) (double target))))))
