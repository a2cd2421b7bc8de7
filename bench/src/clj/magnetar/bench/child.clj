(ns magnetar.bench.child
  "Child processes: start one, wait for it, read what it printed."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (java.io File)
   (java.lang ProcessBuilder$Redirect)
   (java.util List)
   (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(defn- process-builder
  ^ProcessBuilder [command]
  (ProcessBuilder. ^List (mapv str command)))

(defn- fail
  [message command exit]
  (throw (ex-info (str message ": " (first command) " .. " (last command)) {:command command :exit exit})))

(defn program
  "Returns a new file with the text of a Clojure program; it is deleted when this JVM ends.

  Example: (program \"(println 1)\")"
  ^File [text]
  (doto (File/createTempFile "magnetar-bench" ".clj")
    (.deleteOnExit)
    (spit text)))

(defn executable
  "Returns the path of a command that is on the PATH, or nil.

  Example: (executable \"go\") => \"/usr/bin/go\""
  [named]
  (some (fn [folder] (let [file (io/file folder named)] (when (.canExecute file) (str file))))
        (str/split (or (System/getenv "PATH") "") (re-pattern File/pathSeparator))))

(defn output
  "Runs a command and returns what it wrote to standard output; its standard error goes to ours.

  Blocks until it has ended; fails when its exit code is not 0.

  Example: (output [\"java\" \"-version\"])"
  [command]
  (let [process (.start (.redirectError (process-builder command) ProcessBuilder$Redirect/INHERIT))
        text (slurp (.getInputStream process))
        exit (.waitFor process)]
    (if (zero? exit) text (fail "A measured program failed" command exit))))

(defn run-through
  "Runs a command on our own standard input, output and error, and returns its exit code.

  Example: (run-through [\"true\"]) => 0"
  ^long [command]
  (.waitFor (.start (.inheritIO (process-builder command)))))

(defn install
  "Installs Debian's packages by `apt-get`, and returns its exit code.

  Example: (install \"erlang-base\") => 0"
  [& packages]
  (run-through (concat (when (executable "sudo") ["sudo"]) ["apt-get" "install" "-q" "-y"] packages)))

(defn wall-ms
  "Runs a command with its output thrown away and returns the milliseconds from its start to its end.

  Fails when its exit code is not 0, or it takes more than 60 s.

  Example: (wall-ms [\"true\"]) => 1.3"
  ^double [command]
  (let [sink (ProcessBuilder$Redirect/to (io/file (File/separator) "dev" "null"))
        start (System/nanoTime)
        process (.start (.redirectError (.redirectOutput (process-builder command) sink) sink))]
    (when-not (.waitFor process 60 TimeUnit/SECONDS)
      (.destroyForcibly process)
      (fail "A measured program did not end in 60 s" command nil))
    (when-not (zero? (.exitValue process))
      (fail "A measured program failed" command (.exitValue process)))
    (/ (- (System/nanoTime) start) 1e6)))
