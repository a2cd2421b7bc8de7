(ns magnetar.cluster.leaks
  "What a cluster may leave behind in this JVM: threads and sockets."
  (:require
   [clojure.string :as str]
   [magnetar.cluster.support :refer [limit-ms]]
   [magnetar.dev.child :as child])
  (:import
   (com.sun.management HotSpotDiagnosticMXBean HotSpotDiagnosticMXBean$ThreadDumpFormat)
   (java.io File)
   (java.lang.management ManagementFactory)
   (java.nio.file Files)))

(set! *warn-on-reflection* true)

(defn threads
  "The lines of a dump of all threads that name a thread or a frame of the cluster."
  []
  (let [file (File. ^File (child/temp-folder "magnetar-threads") "dump.txt")]
    (.dumpThreads ^HotSpotDiagnosticMXBean (ManagementFactory/getPlatformMXBean HotSpotDiagnosticMXBean)
                  (str file) HotSpotDiagnosticMXBean$ThreadDumpFormat/TEXT_PLAIN)
    (filterv #(re-find #"org\.jgroups|magnetar\.cluster\.impl|\"magnetar-cluster" %) (str/split-lines (slurp file)))))

(defn sockets
  "How many sockets this JVM has."
  []
  (count (for [^File file (.listFiles (File. "/proc/self/fd"))
               :let [target (try (str (Files/readSymbolicLink (.toPath file))) (catch java.io.IOException _ ""))]
               :when (str/starts-with? target "socket:")]
           target)))

(defn eventually-empty
  "Calls f until it returns no lines, for a time; returns its last answer."
  [f]
  (let [deadline (+ (System/nanoTime) (* 1000000 (long limit-ms)))]
    (loop []
      (let [found (f)]
        (if (or (empty? found) (pos? (- (System/nanoTime) deadline)))
          (vec found)
          (do (Thread/yield) (recur)))))))
