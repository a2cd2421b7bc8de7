(ns crawler.lanes
  "The libraries that the demo compares, and the JVMs that measure them, one after the other."
  (:require [clojure.edn :as edn]
            [clojure.java.io :as io]
            [clojure.string :as str])
  (:import (java.io BufferedReader IOException)
           (java.lang.management ManagementFactory)
           (java.util List)
           (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(def libraries
  "In the order of the table's columns, whose heads have two lines. A fixed pool of 8 would need 12.5 s for the 10,000 sleeps: left out."
  [{:title ["" "Magnetar"], :library "magnetar.async"}
   {:title ["core.async 1.9.865" "as shipped"], :library "clojure.core.async"}
   {:title ["fixed pool of 8:" "core.async before 1.8"], :library "clojure.core.async", :skip #{:a1-10000}
    :properties ["-Dclojure.core.async.executor-factory=crawler.pool-of-8/executor"]}])

(defn- own-arguments
  "Returns the options this JVM was started with, so that all lanes run under them."
  []
  (remove #(re-find #"^-Xmx|^-agentlib" %) (.getInputArguments (ManagementFactory/getRuntimeMXBean))))

(defn- command [{:keys [library properties]}]
  (concat [(str (System/getProperty "java.home") "/bin/java")]
          (own-arguments)
          ["-Xmx2g" "-cp" (System/getProperty "java.class.path")]
          properties
          ["clojure.main" "-m" "crawler.lane" library]))

(defn launch
  "Starts a JVM for `library` (one of `libraries`) that loads and then waits for `run`. Returns the lane."
  [library]
  (let [process (-> (ProcessBuilder. ^List (vec (command library)))
                    (.redirectError java.lang.ProcessBuilder$Redirect/INHERIT)
                    .start)]
    (assoc library :process process, :answers (io/reader (.getInputStream process)))))

(defn- next-answer
  "Blocks for the lane's next line; nil when it has ended or was stopped."
  [{:keys [^BufferedReader answers]}]
  (try
    (some-> (.readLine answers) edn/read-string)
    (catch IOException _ nil)))

(defn- send-line
  "Sends `data` to the lane; one that was stopped does not hear it."
  [{:keys [^Process process]} data]
  (try
    (doto (io/writer (.getOutputStream process))
      (.write (str (pr-str data) "\n"))
      (.flush))
    (catch IOException _ nil)))

(defn await-ready
  "Blocks until `lane` has loaded what it needs. Fails when it ended instead."
  [{:keys [title] :as lane}]
  (when-not (:ready (next-answer lane))
    (throw (ex-info (str "The JVM for " (str/join " " title) " ended before it was ready; its complaint is above.") {:lane title}))))

(defn stop
  "Ends the JVM of `lane`, whatever it does."
  [{:keys [^Process process]}]
  (.destroyForcibly process))

(defn- end-after
  "Ends `lane` when it has not ended by itself within `ms`."
  [ms {:keys [^Process process] :as lane}]
  (Thread/startVirtualThread #(when-not (.waitFor process ms TimeUnit/MILLISECONDS)
                                (stop lane))))

(defn run
  "Sends `context` to `lane`, calls `on-result` with each result as it comes, and returns them by row. Blocks until
  the lane ends; one that exceeds `patience-ms` is ended."
  [{:keys [skip] :as lane} context patience-ms on-result]
  (end-after patience-ms lane)
  (send-line lane (assoc context :skip (or skip #{})))
  (loop [results {}]
    (if-let [{:keys [id] :as result} (next-answer lane)]
      (do (on-result result)
          (recur (assoc results id result)))
      results)))
