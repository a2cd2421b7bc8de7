(ns magnetar.dev.test
  "Runs the tests of one suite: clojure.test, with a limit on each test's time.
  A test that passes its limit ends the run with a dump of all threads, virtual ones included. A test that prints on
  standard error fails: expected failures are captured and asserted, so that a green run prints nothing alarming."
  (:require
   [clojure.java.io :as io]
   [clojure.main :as main]
   [clojure.string :as str]
   [clojure.test :as t]
   [magnetar.dev.alarms :as alarms]
   [magnetar.dev.scenarios :as scenarios])
  (:import
   (com.sun.management HotSpotDiagnosticMXBean HotSpotDiagnosticMXBean$ThreadDumpFormat)
   (java.io File PushbackReader)
   (java.lang.management ManagementFactory)))

(set! *warn-on-reflection* true)

(def ^:private default-limit-ms 120000)

(def ^:private without-hand-off
  (= "false" (System/getProperty "magnetar.hand-off")))

;; The counts, and what runs now, {:test var :deadline nanos :ended the test before}. Written by the test thread, read by the watchdog.
(def ^:private running (atom nil))

(defn dump-threads
  "Text of the stacks of all threads, virtual ones included."
  ^String []
  (let [file (File/createTempFile "threads" ".txt")
        ^HotSpotDiagnosticMXBean bean (ManagementFactory/getPlatformMXBean HotSpotDiagnosticMXBean)]
    (.delete file)
    (.dumpThreads bean (.getAbsolutePath file) HotSpotDiagnosticMXBean$ThreadDumpFormat/TEXT_PLAIN)
    (try (slurp file) (finally (.delete file)))))

(defn limit-ms
  "Time that a test may take: its :limit metadata or its namespace's in milliseconds, else two minutes."
  [test-var]
  (or (:limit (meta test-var)) (:limit (meta (:ns (meta test-var)))) default-limit-ms))

(defn- end-hung-run [test-var counts-file]
  (println (alarms/take-printed))
  (println (dump-threads))
  (println (str "HUNG " (symbol test-var) " did not end within " (limit-ms test-var)
                " ms; the stacks of all threads are above."))
  (spit counts-file (str (:pass-tests @running 0) " " (inc (long (:fail-tests @running 0))) "\n"))
  (flush)
  (.halt (Runtime/getRuntime) 1))

(defn- watch [counts-file]
  (let [{:keys [test deadline]} @running]
    (when (and test (> (System/nanoTime) (long deadline)))
      (end-hung-run test counts-file))))

(defn- start-watchdog [counts-file]
  (doto (Thread. ^Runnable #(loop [] (Thread/sleep 250) (watch counts-file) (recur)) "test-watchdog")
    (.setDaemon true)
    (.start)))

(defn- deadline [test-var]
  (+ (System/nanoTime) (* 1000000 (long (limit-ms test-var)))))

(defn- failures [report]
  (+ (long (:fail report)) (long (:error report))))

(defn- silent?
  "False, and says so, if something was printed on standard error since the last call."
  [culprit]
  (let [refusal (alarms/refusal culprit (:ended @running) (alarms/take-printed))]
    (some-> refusal println)
    (nil? refusal)))

(defn- passes? [test-var]
  (let [before (failures @t/*report-counters*)
        each (t/join-fixtures (::t/each-fixtures (meta (:ns (meta test-var)))))]
    (each #(t/test-var test-var))
    (and (silent? (symbol test-var))
         (= before (failures @t/*report-counters*)))))

(defn- seconds-since ^double [start]
  (/ (double (- (System/nanoTime) (long start))) 1e9))

(defn- run-one
  "Runs one test; counts it as passed or failed in `running`, and notes that it took long."
  [test-var]
  (swap! running assoc :test test-var :deadline (deadline test-var))
  (let [start (System/nanoTime)
        passed? (passes? test-var)
        seconds (seconds-since start)]
    (when (< 10 seconds)
      (swap! running update :long conj [(:name (meta test-var)) seconds]))
    (swap! running (fn [counts]
                     (cond-> (update (assoc counts :test nil :ended (symbol test-var)) (if passed? :pass-tests :fail-tests) inc)
                       passed? (update :scenarios into (scenarios/ids-in (:otp (meta test-var)))))))))

(defn- test-vars
  "The tests of a namespace. Those marked ^:if-named are left out, unless the namespace is chosen by name."
  [ns-sym]
  (->> (vals (ns-interns ns-sym))
       (filter (comp :test meta))
       (remove (comp (if (:chosen? @running) (constantly false) :if-named) meta))
       (sort-by (comp :line meta))))

(defn- run-loaded [ns-sym]
  (binding [t/*report-counters* (ref t/*initial-report-counters*)]
    (let [once (t/join-fixtures (::t/once-fixtures (meta (the-ns ns-sym))))]
      (once #(run! run-one (test-vars ns-sym))))))

(defn- failed-to [what ns-sym ^Throwable e]
  (swap! running update :fail-tests inc)
  (println (str "FAIL " ns-sym " does not " what))
  (println (main/ex-str (main/ex-triage (Throwable->map e)))))

(defn- attempt [what ns-sym f]
  (try (f) true
       (catch Throwable e (failed-to what ns-sym e) false)
       (finally
         (when-not (silent? (str ns-sym " (" what ")"))
           (swap! running update :fail-tests inc)))))

(defn- print-time [indent named seconds]
  (println (format (str indent "%-50s %.1f s") named seconds)))

(defn- run-namespace
  "Runs the tests of a namespace, and prints how long it took, with each test that took long."
  [ns-sym]
  (let [start (System/nanoTime)]
    (swap! running assoc :long [])
    (when (attempt "load" ns-sym #(require ns-sym))
      (attempt "run" ns-sym #(run-loaded ns-sym)))
    (print-time "  " ns-sym (seconds-since start))
    (run! (partial apply print-time "    ") (:long @running))
    (flush)))

(defn- ns-of
  "The name in the ns form, with the metadata that the form gives it."
  [file]
  (with-open [reader (PushbackReader. (io/reader file))]
    (let [[_ named & more] (read {:read-cond :allow :eof nil} reader)]
      (vary-meta named merge (some #(when (map? %) %) (take 2 more))))))

(defn test-namespaces
  "Names of the namespaces in the *_test.clj files below `folders`, sorted: those marked ^:slow, or the others.
  Where fibers are woken without hand-off, those marked `:wakes false` are left out: it makes no difference to them."
  ([folders] (test-namespaces folders (Boolean/getBoolean "magnetar.slow")))
  ([folders slow?]
   (->> (mapcat (comp file-seq io/file) folders)
        (filter #(str/ends-with? (.getName ^File %) "_test.clj"))
        (map ns-of)
        (filter #(= slow? (boolean (:slow (meta %)))))
        (remove #(and without-hand-off (false? (:wakes (meta %)))))
        distinct
        sort)))

(defn- take-namespace!
  "True unless another JVM, which runs the same suite, has taken the namespace."
  [suite ns-sym]
  (let [folder (System/getProperty "magnetar.taken")]
    (or (nil? folder)
        (.createNewFile (io/file folder (str suite " " ns-sym))))))

(defn- words [text]
  (remove str/blank? (str/split text #"\s+")))

(defn- record-scenarios [ids]
  (when-let [file (System/getProperty "magnetar.scenarios")]
    (when (seq ids)
      (scenarios/record (System/getProperty "magnetar.home") file ids))))

(defn- finish [suite counts-file start]
  (let [{:keys [pass-tests fail-tests]} @running]
    (record-scenarios (:scenarios @running))
    (spit counts-file (str pass-tests " " fail-tests "\n"))
    (println (format "%s: %d passed, %d failed in %.1f s" suite pass-tests fail-tests (seconds-since start)))
    (flush)
    ;; halt: a fiber or pool thread that a test left behind must not hold up the run.
    (.halt (Runtime/getRuntime) (if (zero? (long fail-tests)) 0 1))))

(defn -main
  "Runs the suite named `suite`: the test namespaces below `folders`, or the `chosen` ones.
  Writes \"PASSED FAILED\" to `counts-file`; ends the JVM with 0 or 1."
  [suite counts-file folders & chosen]
  (let [start (System/nanoTime)]
    (reset! running {:pass-tests 0 :fail-tests 0 :scenarios [] :chosen? (boolean (seq chosen))})
    (start-watchdog counts-file)
    (alarms/keep-standard-error)
    (println (str "Suite " suite))
    (binding [t/*test-out* *out*, t/*stack-trace-depth* 25]
      (doseq [ns-sym (if (seq chosen) (map symbol chosen) (test-namespaces (words folders)))
              :when (take-namespace! suite ns-sym)]
        (run-namespace ns-sym)))
    (finish suite counts-file start)))
