(ns magnetar.bench.jmh
  "JMH as a function: one fork of one workload in, its scores out."
  (:require
   [magnetar.bench.machine :as machine])
  (:import
   (java.util.concurrent TimeUnit)
   (magnetar.bench AsyncBenchmark)
   (org.openjdk.jmh.results BenchmarkResult IterationResult RunResult)
   (org.openjdk.jmh.runner Runner)
   (org.openjdk.jmh.runner.options ChainedOptionsBuilder Options OptionsBuilder TimeValue VerboseMode)))

(set! *warn-on-reflection* true)

(defn- strings
  ^"[Ljava.lang.String;" [xs]
  (into-array String (map str xs)))

(defn- with-workload
  ^ChainedOptionsBuilder [{:keys [library workload n profiler]}]
  (cond-> (doto (OptionsBuilder.)
            (.include (.getName AsyncBenchmark))
            (.param "library" (strings [library]))
            (.param "workload" (strings [workload]))
            (.param "n" (strings [n])))
    profiler (.addProfiler ^String profiler "")))

(defn- milliseconds
  [n]
  (TimeValue. (long n) TimeUnit/MILLISECONDS))

(defn- options
  ^Options [{:keys [warm-ups warm-up-ms iterations iteration-ms jvm-flags verbose] :as run}]
  (.build
    (doto (with-workload run)
      (.forks 1)
      (.warmupIterations (int warm-ups))
      (.warmupTime (milliseconds warm-up-ms))
      (.measurementIterations (int iterations))
      (.measurementTime (milliseconds iteration-ms))
      (.timeout (TimeValue/seconds 120))
      (.jvmArgs (strings (concat (machine/launcher-options) jvm-flags)))
      (.verbosity (if verbose VerboseMode/NORMAL VerboseMode/SILENT))
      (.shouldFailOnError true))))

(defn- iterations-of
  [^RunResult result]
  (for [^BenchmarkResult fork (.getBenchmarkResults result)
        iteration (.getIterationResults fork)]
    iteration))

(defn- median-sample
  ^double [^IterationResult iteration]
  (.getPercentile (.getStatistics (.getPrimaryResult iteration)) 50.0))

(defn fork
  "Runs one workload in a fresh JVM and returns the nanoseconds per operation of each measured iteration: the median of its
  invocations.

  `run` has :library, :workload, :n, :warm-ups, :warm-up-ms, :iterations, :iteration-ms and :jvm-flags, to which kernel/java.options comes. Blocks until the fork
  has ended; fails with JMH's RunnerException when the workload does, or takes longer than 120 s for one iteration.

  Example: (fork {:library 'core-async :workload 'ping-pong-go :n 10000 ..}) => [10432.1 ..]"
  [{:keys [n] :as run}]
  (mapv #(/ (median-sample %) (double n))
        (mapcat iterations-of (.run (Runner. (options run))))))
