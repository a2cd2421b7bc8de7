(ns crawler.command-test
  "The command `crawl.clj` from outside: words, exit codes, files, Ctrl-C."
  {:slow true}
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is]]
   [crawler.cli :as cli]
   [crawler.server :as server])
  (:import
   (java.io File)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)
   (java.util.concurrent TimeUnit)))

(deftest nonsense-on-the-command-line-is-answered-in-a-sentence
  (are [args sentence] (str/includes? (:error (cli/plan args)) sentence)
    []                          "Give one address to crawl, not 0"
    ["http://a/" "http://b/"]   "Give one address to crawl, not 2"
    ["http://a/" "--depth" "-1"]       "--depth -1"
    ["http://a/" "--depth" "deep"]     "it must be a whole number from 0 to 1000"
    ["http://a/" "--concurrency" "0"]  "--concurrency 0"
    ["http://a/" "--concurrency"]      "Missing required argument"
    ["http://a/" "--out" "/no/such/folder/x.edn"] "there is no folder /no/such/folder"
    ["http://a/" "--sideways"]         "Unknown option: \"--sideways\""))

(defn- script
  "Returns the path of `crawl.clj`, found beside the sources on the class path."
  []
  (-> (io/resource "crawler/cli.clj") io/file .getParentFile .getParentFile .getParentFile
      (io/file "crawl.clj") str))

(defn- start-command [& args]
  (let [java    (str (System/getProperty "java.home") "/bin/java")
        command (concat [java "-cp" (System/getProperty "java.class.path") "clojure.main" (script)] args)]
    (-> (ProcessBuilder. ^java.util.List (vec command))
        (.redirectErrorStream true)
        .start)))

(defn- ending
  "Returns exit code and output of `process`; ends it when it does not end by itself."
  [^Process process]
  (let [output (future (slurp (.getInputStream process)))]
    (when-not (.waitFor process 60 TimeUnit/SECONDS)
      (.destroyForcibly process))
    [(.waitFor process) @output]))

(defn- temporary-folder ^File []
  (.toFile (Files/createTempDirectory "crawler" (make-array FileAttribute 0))))

(deftest the-whole-result-can-be-had-as-edn
  (let [server (server/start {})
        out    (io/file (temporary-folder) "crawl.edn")
        [code output] (ending (start-command (:url server) "--timeout" "2500" "--out" (str out)))
        {:keys [seen outcomes]} (edn/read-string (slurp out))]
    (server/stop server)
    (is (= 0 code) output)
    (is (str/includes? output (str seen " pages seen, " seen " outcomes, 0 lost")))
    (is (= seen (count outcomes)))))

(defn- await-request [server ^Process process]
  (while (and (.isAlive process) (zero? (server/peak server)))
    (Thread/onSpinWait)))

(deftest ctrl-c-prints-what-is-known-leaves-no-file-and-exits-130
  (let [server  (server/start {:latency [60000 60000]})
        folder  (temporary-folder)
        process (start-command (:url server) "--timeout" "60000" "--out" (str (io/file folder "crawl.edn")))]
    (await-request server process)
    (.waitFor (.start (ProcessBuilder. ["kill" "-INT" (str (.pid process))])))
    (let [[code output] (ending process)]
      (server/stop server)
      (is (= 130 code) output)
      (is (str/includes? output "Interrupted. So far:\n1 pages seen, 1 outcomes, 0 lost"))
      (is (empty? (.list folder))))))
