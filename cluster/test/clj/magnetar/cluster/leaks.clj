(ns magnetar.cluster.leaks
  "What a cluster may leave behind in this JVM: threads, sockets and objects."
  (:require
   [clojure.string :as str]
   [magnetar.cluster.support :refer [limit-ms]]
   [magnetar.dev.child :as child])
  (:import
   (com.sun.management HotSpotDiagnosticMXBean HotSpotDiagnosticMXBean$ThreadDumpFormat)
   (java.io File)
   (java.lang.management ManagementFactory)
   (java.nio.file Files)
   (javax.management ObjectName)))

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

(def ^:private of-a-connection
  "Classes that have an object for each other node, or for each connection."
  ["magnetar.kernel.process.Peer" "magnetar.kernel.process.Connection" "magnetar.kernel.process.Outbox"
   "magnetar.cluster.wire.Stream" "magnetar.cluster.wire.Unread$Share"
   "magnetar.cluster.impl.Window" "magnetar.cluster.impl.JGroupsNetwork"])

(defn objects
  "How many objects of a connection there are that can be reached, as a map from the name of the class."
  []
  (let [histogram (.invoke (ManagementFactory/getPlatformMBeanServer) (ObjectName. "com.sun.management:type=DiagnosticCommand")
                           "gcClassHistogram" (object-array [(make-array String 0)]) (into-array ["[Ljava.lang.String;"]))
        counts (into {} (for [line (str/split-lines histogram)
                              :let [[_ n class] (re-find #"^ *\d+: +(\d+) +\d+ +(\S+)" line)]
                              :when class]
                          [class (parse-long n)]))]
    (zipmap of-a-connection (map #(counts % 0) of-a-connection))))

(defn more
  "The classes of which there are more objects than before, with both numbers."
  [before]
  (vec (for [[class n] (objects)
             :when (< (long (before class)) (long n))]
         [class (before class) n])))

(defn eventually-empty
  "Calls f until it returns no lines, for a time; returns its last answer."
  [f]
  (let [deadline (+ (System/nanoTime) (* 1000000 (long limit-ms)))]
    (loop []
      (let [found (f)]
        (if (or (empty? found) (pos? (- (System/nanoTime) deadline)))
          (vec found)
          (do (Thread/yield) (recur)))))))
