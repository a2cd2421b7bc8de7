(ns magnetar.impl.inspect.samples
  "Which threads use the processor: samples of the JDK's flight recorder, and the processor time of the JVM.

  The recorder samples the threads that run each 10 ms, virtual threads too."
  {:no-doc true}
  (:import
   (com.sun.management OperatingSystemMXBean)
   (java.io File)
   (java.lang.management ManagementFactory)
   (java.time Duration)
   (jdk.jfr Recording)
   (jdk.jfr.consumer RecordedEvent RecordedThread RecordingFile)))

(set! *warn-on-reflection* true)

(defn- used-nanos
  "The processor time that this JVM has used, on all cores together."
  ^long []
  (.getProcessCpuTime ^OperatingSystemMXBean (ManagementFactory/getPlatformMXBean OperatingSystemMXBean)))

(defn- recording ^Recording []
  (let [recording (doto (Recording.) (.setName "magnetar-top") (.setToDisk true))]
    (.withPeriod (.enable recording "jdk.ExecutionSample") (Duration/ofMillis 10))
    recording))

(defn- sampled
  "The number of samples of each thread, by its id."
  [^File file]
  (frequencies
    (for [^RecordedEvent sample (RecordingFile/readAllEvents (.toPath file))
          :let [^RecordedThread thread (.getThread sample "sampledThread")]
          :when thread]
      (.getJavaThreadId thread))))

(defn during
  "Calls f while the recorder samples. Returns {:cores the cores in use on average, :shares from the id of each thread to its share of them}."
  [f]
  (with-open [recording (recording)]
    (.start recording)
    (let [start (System/nanoTime)
          used (used-nanos)
          _ (f)
          cores (/ (- (used-nanos) used) (double (max 1 (- (System/nanoTime) start))))
          file (File/createTempFile "magnetar" ".jfr")]
      (try
        (.stop recording)
        (.dump recording (.toPath file))
        (let [counts (sampled file)
              all (double (max 1 (long (reduce + (vals counts)))))]
          {:cores cores, :shares (update-vals counts #(/ (long %) all))})
        (finally (.delete file))))))
