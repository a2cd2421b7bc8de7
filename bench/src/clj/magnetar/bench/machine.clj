(ns magnetar.bench.machine
  "Facts about the machine and the process that a result needs to be read."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (com.sun.management OperatingSystemMXBean)
   (java.io File)
   (java.lang.management ManagementFactory)
   (java.nio.file Files Path)
   (java.util Properties)
   (java.util.concurrent.atomic AtomicLong)))

(set! *warn-on-reflection* true)

(defn- artifact-version
  [group artifact]
  (when-let [resource (io/resource (str "META-INF/maven/" group "/" artifact "/pom.properties"))]
    (with-open [in (io/input-stream resource)]
      (.getProperty (doto (Properties.) (.load in)) "version"))))

(defn kernel-file
  "Returns the text of a file of the kernel's such as /proc/self/status, or nil if it does not exist.

  Example: (kernel-file \"/proc/cpuinfo\")"
  [path]
  (let [path (Path/of path (make-array String 0))]
    (when (Files/isReadable path)
      (String. (Files/readAllBytes path)))))

(defn- processor
  []
  (some->> (kernel-file "/proc/cpuinfo") (re-find #"model name\s*:\s*(.+)") second str/trim))

(defn facts
  "Returns a map of what a result depends on: JDK, library versions, processor, cores, memory, date.

  Example: (:cores (facts)) => 2"
  []
  {:date (str (java.time.Instant/now))
   :jdk (str (System/getProperty "java.vm.name") " " (System/getProperty "java.runtime.version"))
   :clojure (clojure-version)
   :core-async (artifact-version "org.clojure" "core.async")
   :jmh (artifact-version "org.openjdk.jmh" "jmh-core")
   :cores (.availableProcessors (Runtime/getRuntime))
   :processor (processor)
   :os (str (System/getProperty "os.name") " " (System/getProperty "os.arch"))
   :load-at-start (.getSystemLoadAverage (ManagementFactory/getOperatingSystemMXBean))})

(defn java-command
  "Returns the path of the `java` that runs this process.

  Example: (java-command) => \"/opt/jdk-25/bin/java\""
  []
  (str (io/file (System/getProperty "java.home") "bin" "java")))

(defn class-path
  "Returns the class path of this process as a vector of files.

  Example: (mapv str (class-path)) => [\"bench/src/clj\" ..]"
  []
  (mapv io/file (str/split (System/getProperty "java.class.path") (re-pattern File/pathSeparator))))

(defn home
  "Returns the project's folder: the one that holds `bench`, found from this source.

  Fails when the benchmarks run out of a jar.

  Example: (str (home)) => \"/home/me/magnetar\""
  ^File []
  (let [source (io/resource "magnetar/bench/machine.clj")]
    (if (= "file" (some-> source .getProtocol))
      (nth (iterate #(.getParentFile ^File %) (io/file source)) 6)
      (throw (ex-info "The benchmarks are not in a folder: run them from the project's sources, not from a jar."
                      {:source (str source)})))))

(defn in-home
  "Returns the file of the path in the project's folder.

  Example: (str (in-home \"bench\" \"go\")) => \"/home/me/magnetar/bench/go\""
  ^File [& path]
  (apply io/file (home) path))

(defn launcher-options
  "What kernel/java.options has, word by word: all that bin/magnetar gives a program for speed but its start-up cache.

  Example: (first (launcher-options)) => \"--add-opens\""
  []
  (->> (str/split-lines (slurp (io/file (home) "kernel/java.options")))
       (remove #(str/starts-with? % "#"))
       (mapcat #(str/split % #" "))
       (filterv seq)))

(defn- columns
  [text]
  (mapv parse-long (re-seq #"\d+" text)))

(defn processor-times
  "Returns [busy own all] in ticks since the start of the machine: what all processes used of its processors, what this one and its ended
  children did, and what there was. Nil where there is no /proc.

  Example: (processor-times) => [2210 1804 90121]"
  []
  (when-let [machine (kernel-file "/proc/stat")]
    (let [[user nice system idle waiting irq soft-irq] (columns (second (re-find #"(?m)^cpu +(.*)$" machine)))
          busy (reduce + [user nice system irq soft-irq])
          of-process (columns (second (re-find #"\) \S (.*)$" (kernel-file "/proc/self/stat"))))]
      [busy
       (reduce + (subvec of-process 10 14)) ; utime stime cutime cstime
       (reduce + [busy idle waiting])])))

(def ^:private tick-micros
  "Of the processor times in /proc; Linux has had 100 ticks a second on all common machines."
  10000)

(defn process-micros
  "The processor time of another process since its start, in microseconds; nil where there is no /proc.

  Example: (process-micros process) => 120000"
  [^Process process]
  (when-let [text (kernel-file (str "/proc/" (.pid process) "/stat"))]
    (let [[user system] (subvec (str/split (peek (str/split text #"\)")) #" ") 12)] ; the name of a program, in parentheses, may have spaces
      (* (long tick-micros) (+ (long (parse-long user)) (long (parse-long system)))))))

(defn await-idle
  "Waits until this process has used almost no processor time for 300 ms, at most 20 s.

  Example: (await-idle) => true, or false when it never came to rest"
  []
  (let [os ^OperatingSystemMXBean (ManagementFactory/getOperatingSystemMXBean)]
    (loop [left 66, before (.getProcessCpuTime os)]
      (Thread/sleep 300)
      (let [now (.getProcessCpuTime os)]
        (cond (< (- now before) 15000000) true
              (pos? left) (recur (dec left) now)
              :else false)))))

;; --- how far the cores are from each other

(def ^:private trips 1000)

;; A thread that polls longer than this for an answer shares its core with the other thread.
(def ^:private most-looks 1000000)

(defn- answer-trips
  "Answers each odd number in word with the next one, until there is one below zero."
  [^AtomicLong word]
  (loop []
    (let [n (.get word)]
      (cond
        (neg? n) nil
        (odd? n) (do (.set word (inc n)) (recur))
        :else (do (Thread/onSpinWait) (recur))))))

(defn- await-answer
  "True once word is no longer n; false if that takes too long."
  [^AtomicLong word ^long n]
  (loop [looks (long most-looks)]
    (cond
      (not (= n (.get word))) true
      (zero? looks) false
      :else (do (Thread/onSpinWait) (recur (dec looks))))))

(defn- nanos-a-trip
  "What one of some round trips took; nil if one took too long."
  [^AtomicLong word]
  (let [start (System/nanoTime)]
    (loop [left (long trips)]
      (if (zero? left)
        (/ (double (- (System/nanoTime) start)) (double trips))
        (let [n (inc (.get word))]
          (.set word n)
          (when (await-answer word n)
            (recur (dec left))))))))

(defn core-distance
  "Nanoseconds that a word takes from one core to the other and back, the least of ten tries; nil where there are not two cores, or where others
  kept this from having both.

  The cores of a virtual machine may move: now they share a cache, now they do not, and whatever goes from core to core takes several times as long.

  Example: (core-distance) => 65.2"
  []
  (when (= 2 (.availableProcessors (Runtime/getRuntime)))
    (let [word (AtomicLong.)
          other (doto (Thread. #(answer-trips word) "the other core") (.setDaemon true) (.start))]
      (try
        (some->> (repeatedly 10 #(nanos-a-trip word)) (filter some?) seq (reduce min))
        (finally
          (.set word -1)
          (.join other))))))
