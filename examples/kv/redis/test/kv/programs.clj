(ns kv.programs
  "Starts the programs of Redis, from the PATH or as `bin/magnetar test --redis` has fetched them from Debian."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (java.io File)
   (java.net Socket)
   (java.util List)))

(set! *warn-on-reflection* true)

(def home
  "The folder of the checkout."
  (System/getProperty "magnetar.home"))

(def ^:private fetched (io/file home ".cache/debian-redis"))

(defn- program [name]
  (let [file (io/file fetched "usr/bin" name)]
    (if (.exists file) (str file) name)))

(defn- libraries []
  (->> (file-seq (io/file fetched "usr/lib"))
       (filter #(re-find #"\.so[.\d]*$" (.getName ^File %)))
       (map #(.getParent ^File %))
       distinct
       (str/join ":")))

(defn builder
  "The start of a program with arguments; its error output goes with the other one."
  ^ProcessBuilder [name & arguments]
  (let [builder (ProcessBuilder. ^List (into [(program name)] (map str) arguments))]
    (.put (.environment builder) "LD_LIBRARY_PATH" (libraries))
    (.redirectErrorStream builder true)))

(defn output
  "Runs a program of Redis to its end; returns what it prints."
  [name & arguments]
  (let [process (.start ^ProcessBuilder (apply builder name arguments))]
    (.close (.getOutputStream process))
    (str/trim (slurp (.getInputStream process)))))

(defn await-port
  "Waits until the process listens on the port."
  [^Process process port]
  (when-not (try
              (.close (Socket. "127.0.0.1" (int port)))
              true
              (catch java.io.IOException _ false))
    (when-not (.isAlive process)
      (throw (ex-info "The server has ended." {:output (slurp (.getInputStream process))})))
    (Thread/sleep 100)
    (recur process port)))
