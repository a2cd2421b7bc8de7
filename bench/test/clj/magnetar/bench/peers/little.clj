(ns magnetar.bench.peers.little
  "Every workload of the suite `peers` with little to do."
  (:require
   [clojure.string :as str]
   [magnetar.bench.peers.echo :as echo]
   [magnetar.bench.peers.workloads :as workloads]
   [magnetar.bench.workload.http :as http])
  (:import
   (com.sun.net.httpserver HttpServer)))

(def ^:private numbers
  {"ring" [3 4] "ring-actors" [3 4] "ping-pong" [5] "ping-pong-actors" [5] "fan-in" [3 4 30] "mailbox" [3 30] "call" [3 30]
   "server-call" [3 30] "server-call-activated" [3 30] "select" [10 0 30] "spawn" [20] "spawn-actors" [20]
   "spawn-join" [10] "spawn-join-actors" [10] "pmap" [30] "timers" [20] "mixed" [1 1] "sleep" [2] "crawl" [5] "echo" [4 20]
   "threadring" [3 10] "big" [4 5] "skynet" [100] "uct" [100] "superv" [3 2] "superv-reports" [3 2] "fib" [5] "pubsub" [6 2 10]
   "memory" [10] "memory-actors" [10] "memory-servers" [10] "memory-servers-activated" [10]})

(def ^:private select-widths
  "Some peers have a select of its own for each."
  [2 3])

(def commands
  "What peers are asked.

  Example: (sort commands)"
  (set (mapcat #(remove nil? [(:command %) (:theirs %)]) (concat workloads/timed workloads/memory))))

(defn commands-of
  "What a peer is asked.

  Example: (commands-of \"Go\")"
  [named]
  (set (for [{:keys [command theirs targets]} (concat workloads/timed workloads/memory)
             :when (or (= "Magnetar" named) (contains? targets named))]
         (if (= "Magnetar" named) command (or theirs command)))))

(defn does?
  "True if (ask command number ..) answers with a number, of nanoseconds above zero (of ten idle things there may be less memory than
  the collector gave back); echoes and pages are right, or it fails.

  Example: (does? ask \"spawn\")"
  [ask command]
  (let [arguments (numbers command)
        times (fn [command] (apply ask "times" 2 command (numbers command)))]
    ((if (str/starts-with? command "memory") number? pos?)
     (double
       (case command
         "echo" (apply echo/measure (long (ask "echo")) arguments)
         "crawl" (let [^HttpServer server (http/start-server 1)]
                   (try
                     (apply ask "crawl" (.getPort (.getAddress server)) arguments)
                     (finally (.stop server 0))))
         "spawn" (times command)
         "select" (apply min (for [width (conj select-widths (first arguments))] (apply ask command width (rest arguments))))
         (apply ask command arguments))))))

(defn computes?
  "True if (ask command number ..) answers with ticks, and with a begin and a time for each of some calls.

  Example: (computes? ask-all)"
  [ask]
  (let [[ticks & calls] (ask (:command workloads/computing) 1 3 50)]
    (and (nat-int? (long ticks)) (even? (count calls)) (every? #(<= 0 (double %)) calls))))

(defn covered?
  "True if there are numbers for the command.

  Example: (covered? \"spawn\") => true"
  [command]
  (contains? numbers command))
