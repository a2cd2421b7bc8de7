(ns crawler.runners
  "The libraries that the demo compares, each in a JVM of its own. One of them works at a time."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (java.io BufferedReader File IOException)
   (java.lang ProcessBuilder$Redirect ProcessHandle)
   (java.lang.management ManagementFactory)
   (java.util List)
   (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(def ^:private magnetar
  {:title ["" "Magnetar"], :library "magnetar.async"})

(def ^:private as-shipped
  {:title ["core.async 1.9.865" "as shipped"], :library "clojure.core.async"})

(def ^:private pool-of-8
  "Eight threads would need 12.5 s for 10,000 sleeps: left out."
  {:title ["fixed pool of 8:" "core.async before 1.8"], :library "clojure.core.async", :skip #{:a1-10000}
   :properties ["-Dclojure.core.async.executor-factory=crawler.pool-of-8/executor"]})

(defn- own-arguments
  "Returns the options this JVM was started with, so that all runners run under them."
  []
  (remove #(re-find #"^-Xmx|^-agentlib" %) (.getInputArguments (ManagementFactory/getRuntimeMXBean))))

(defn- command [{:keys [library properties]} ^File classes]
  (concat [(str (System/getProperty "java.home") "/bin/java")]
          (own-arguments)
          ["-Xmx2g" "-cp" (str (System/getProperty "java.class.path") File/pathSeparator classes)]
          properties
          ["clojure.main" "-m" "crawler.runner" library]))

(defn- next-answer
  "Blocks for the runner's next line; nil when it has ended or was stopped."
  [{:keys [^BufferedReader answers]}]
  (try
    (some-> (.readLine answers) edn/read-string)
    (catch IOException _ nil)))

(defn- send-line
  "Sends `data` to the runner; one that was stopped does not hear it."
  [{:keys [^Process process]} data]
  (try
    (doto (io/writer (.getOutputStream process))
      (.write (str (pr-str data) "\n"))
      (.flush))
    (catch IOException _ nil)))

(defn- launch
  "Starts a JVM for `library` that loads, from the compiled `classes` where it can, and then waits for `run`."
  [library classes]
  (let [process (-> (ProcessBuilder. ^List (vec (command library classes)))
                    (.redirectError ProcessBuilder$Redirect/INHERIT)
                    .start)
        runner    (assoc library :process process, :answers (io/reader (.getInputStream process)))]
    (assoc runner :ready (delay (:ready (next-answer runner))))))

(defn await-ready
  "Blocks until `runner` has loaded what it needs; returns it. Fails when it ended instead."
  [{:keys [title ready] :as runner}]
  (if @ready
    runner
    (throw (ex-info (str "The JVM for " (str/trim (str/join " " title)) " ended before it was ready.") {:runner title}))))

(defn stop
  "Ends the JVM of `runner`, whatever it does."
  [{:keys [^Process process]}]
  (.destroyForcibly process))

(defn- end-after
  "Ends `runner` when it has not ended by itself within `ms`."
  [ms {:keys [^Process process] :as runner}]
  (Thread/startVirtualThread #(when-not (.waitFor process ms TimeUnit/MILLISECONDS)
                                (stop runner))))

(defn warm-up
  "Sends `context` to `runner` and blocks until it has warmed up. A runner that has not ended `patience-ms` from now is ended."
  [runner context patience-ms]
  (end-after patience-ms runner)
  (send-line runner context)
  (next-answer runner))

(defn measure
  "Runs the row `id` once in `runner` and returns the result; nil for a row that the runner skips, and when it has ended."
  [{:keys [skip] :as runner} id]
  (when-not (contains? skip id)
    (send-line runner id)
    (next-answer runner)))

;; core.async takes long to compile, and two runners need it. The first of them to do so keeps the classes.

(defn- classes-folder
  "Returns the folder below `cache` for the compiled classes of the core.async on this class path."
  ^File [cache]
  (let [version [(str (io/resource "clojure/core/async.clj")) (clojure-version)]]
    (io/file cache (str "demo-classes-" (Integer/toHexString (hash version))))))

(defn- compiling-into
  "Returns `library` with the order to compile itself into the `folder`."
  [library ^File folder]
  (.mkdirs folder)
  (update library :properties conj (str "-Dcrawler.compile-into=" folder)))

(defn- launch-compiling
  "Returns a ready runner for `library`, after its compiled classes were put into the folder `classes`."
  [library ^File classes]
  (let [unfinished (io/file (str classes "." (.pid (ProcessHandle/current))))
        runner       (await-ready (launch (compiling-into library unfinished) unfinished))]
    (.renameTo unfinished classes)
    runner))

(defn launch-all
  "Returns the runners, in the order of the table's columns. Blocks while they load, but not for the last of them."
  [cache]
  (let [classes (classes-folder cache)
        ours    (launch magnetar classes)
        theirs  (if (.isDirectory classes)
                  (await-ready (launch as-shipped classes))
                  (launch-compiling as-shipped classes))]
    [(await-ready ours) theirs (launch pool-of-8 classes)]))
