(ns magnetar.bench.main
  "`bin/magnetar bench async|scope|fold|actor|otp|table|computing|settings|cluster|erlang|peers [--quick] [--no-write] [GROUP..]`: runs a suite of benchmarks, prints the table and
  writes it to `bench/results`. The suite `async` is built first, and run in a JVM that has it on its class path."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.bench.arguments :as arguments]
   [magnetar.bench.build :as build]
   [magnetar.bench.child :as child]
   [magnetar.bench.machine :as machine]))

(set! *warn-on-reflection* true)

(def ^:private suites
  ["async" "scope" "fold" "actor" "otp" "table" "computing" "settings" "cluster" "erlang" "peers"])

(def ^:private usage
  (str "usage: bin/magnetar bench " (str/join "|" suites) " [--quick] [--no-write] [GROUP..], or --install-peers; peers also takes --peers NAME,NAME.."))

(def ^:private quiet-flags
  "JMH 1.37 uses `sun.misc.Unsafe`, of which JDK 25 warns."
  ["--sun-misc-unsafe-memory-access=allow"])

(defn- built?
  []
  (some? (io/resource "META-INF/BenchmarkList")))

(defn- run-built
  "The JMH runner lists its benchmarks by its own class loader: it needs them on the class path from the start."
  [arguments]
  (child/run-through
    (concat [(machine/java-command)] quiet-flags
            ["-Xmx512m" "-cp" (build/ensure-built) "clojure.main" "-m" "magnetar.bench.main"]
            arguments)))

(defn- settings
  [options groups]
  (let [base @(requiring-resolve (if (options "--quick") 'magnetar.bench.async/quick 'magnetar.bench.async/full))]
    (cond-> (update base :jvm-flags into quiet-flags)
      (seq groups) (assoc :groups (set groups)))))

(defn- print-and-write
  [suite result write?]
  (println)
  (run! println ((requiring-resolve 'magnetar.bench.report/table) result))
  (when write?
    (run! #(println "written:" (str %))
          (concat ((requiring-resolve 'magnetar.bench.report/write) suite result)
                  ((requiring-resolve 'magnetar.bench.guide/write) suite result))))
  0)

(defn- write?
  [options groups]
  (not (or (options "--no-write") (seq groups))))

(defn- run-async
  [options groups]
  (let [result ((requiring-resolve 'magnetar.bench.async/run) (settings options groups))]
    (print-and-write "async" result (write? options groups))))

(defn- chosen-peers
  "[the names after --peers, or nil without it; the other arguments]"
  [arguments]
  (let [[before [flag names & after]] (split-with (complement #{"--peers"}) arguments)]
    [(when flag (str/split (str names) #",")) (concat before after)]))

(defn- run-peers
  [options groups peers]
  (let [result ((requiring-resolve 'magnetar.bench.peers/run)
                {:quick (contains? options "--quick") :groups (when (seq groups) (set groups)) :peers peers})]
    (run! println ((requiring-resolve 'magnetar.bench.peers.report/table) result))
    (println)
    (run! println ((requiring-resolve 'magnetar.bench.peers.report/short-table) result))
    (when (not-any? seq ((juxt :rows :over-n :over-cores) result))
      (println "None of these peers does any of these workloads, or none that does is installed."))
    (when (and (write? options groups) (not peers))
      (run! #(println "written:" (str %)) ((requiring-resolve 'magnetar.bench.peers.report/write) result)))
    0))

(def ^:private whole
  "The suites without groups, which make their own pages, and their namespaces."
  {"computing" "magnetar.bench.computing"
   "settings" "magnetar.bench.settings"
   "cluster" "magnetar.bench.cluster"
   "erlang" "magnetar.bench.erlang-nodes"})

(defn- run-whole
  "Runs a suite without groups."
  [suite options]
  (let [of-suite #(requiring-resolve (symbol (whole suite) %))
        result ((of-suite "run") {:quick (contains? options "--quick")})]
    (run! println ((of-suite "table") result))
    (when (write? options nil)
      (run! #(println "written:" (str %)) ((of-suite "write") result)))
    0))

(defn- install-peers
  []
  ((requiring-resolve 'magnetar.bench.peers.programs/install)))

(defn- run-suite
  "Runs a suite whose groups have a JVM each."
  [suite options groups]
  (let [result ((requiring-resolve (symbol (str "magnetar.bench." suite) "run"))
                {:quick (contains? options "--quick")
                 :groups (when (seq groups) (set groups))})]
    (print-and-write suite result (write? options groups))))

(defn- refuse
  [message]
  (binding [*out* *err*]
    (println message)
    (println usage))
  2)

(defn- no-such-benchmark
  [word]
  (cond
    (nil? word) (str "Which benchmark? There are these: " (str/join ", " suites) ".")
    ((requiring-resolve 'magnetar.bench.peers/known?) word) (str word " is a part of the benchmark peers: bin/magnetar bench peers " word)
    :else (str "There is no benchmark called " word ".")))

(defn- dispatch
  [[command & more :as arguments]]
  (let [[peers more] (if (= "peers" command) (chosen-peers more) [nil more])
        [options groups] ((juxt filter remove) #(str/starts-with? % "--") more)]
    (cond (= ["--install-peers"] arguments) (install-peers)
          (not-any? #{command} suites)
          (refuse (no-such-benchmark command))
          (not-every? #{"--quick" "--no-write"} options)
          (refuse (str "Unknown option among: " (str/join " " options) "."))
          (or (= [] peers) (some str/blank? peers))
          (refuse "Which peers? --peers wants names, such as --peers Go,core.")
          (and (whole command) (seq groups)) (refuse (str "The benchmark " command " has no groups."))
          (whole command) (run-whole command (set options))
          (= "peers" command) (run-peers (set options) groups peers)
          (not= "async" command) (run-suite command (set options) groups)
          (built?) (run-async (set options) groups)
          :else (run-built arguments))))

(defn -main
  "Runs the benchmark that the first argument names and ends the JVM: 0 when it has run, whether the targets are met or not;
  1 when a workload failed; 2 for wrong arguments.

  Example: (-main \"async\" \"--quick\")"
  [& arguments]
  (let [code (try (dispatch arguments)
                  (catch Exception e
                    (if-some [message (arguments/refused e)]
                      (refuse message)
                      (do (.printStackTrace e) 1))))]
    (shutdown-agents)
    (System/exit code)))
