(ns kv.programs
  "Starts the programs of Redis, which are on the PATH."
  (:require
   [clojure.string :as str])
  (:import
   (java.net Socket)
   (java.util List)))

(set! *warn-on-reflection* true)

(def home
  "The folder of the checkout."
  (System/getProperty "magnetar.home"))

(defn builder
  "The start of a program with arguments; its error output goes with the other one."
  ^ProcessBuilder [name & arguments]
  (.redirectErrorStream (ProcessBuilder. ^List (into [name] (map str) arguments)) true))

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
