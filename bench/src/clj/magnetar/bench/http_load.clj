(ns magnetar.bench.http-load
  "bin/magnetar run bench/http/load.clj [ROUNDS] [SECONDS]

  Debian's wrk and h2load against magnetar.http with its usual limits, bare Jetty on virtual threads and Go's net/http; hello also
  against Helidon and the JDK's server. Prints two tables, and writes them to bench/results/http.md. Each server is a process of its own; in each round they take turns, and every
  second round the other way round. A ratio is made of the figures of one round."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.bench.child :as child]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.report :as report :refer [say]]
   [magnetar.bench.statistics :as statistics])
  (:import
   (java.io File)
   (java.util List)))

(set! *warn-on-reflection* true)

;; ---- the servers

(defn- build-go
  "Builds the server in Go; returns its path."
  []
  (let [program (machine/in-home "bench" "target" "http" "go")]
    (io/make-parents program)
    (child/output ["go" "build" "-C" (machine/in-home "bench" "peers" "http") "-o" program "."])
    program))

(defn- clojure-server [which]
  [(machine/in-home "bin" "magnetar") "run" (machine/in-home "bench" "http" "serve.clj") which 0])

(defn- start
  "Starts a server; returns its process and its port."
  [command]
  (let [process (.start (.redirectErrorStream (ProcessBuilder. ^List (mapv str command)) true))
        port (some #(second (re-find #"listens on (\d+)" %)) (line-seq (.inputReader process)))]
    (when-not port
      (throw (ex-info (str "A server ended before it listened: " (str/join " " command)) {:command command})))
    {:process process :port port}))

(defn- commands []
  (cond-> (into {} (map (juxt identity (comp clojure-server name))) [:magnetar :jetty :helidon :jdk])
    (child/executable "go") (assoc :go [(build-go) 0])))

(defn- end [{:keys [^Process process]}]
  (.destroy process)
  (.waitFor process))

;; ---- the clients

(def ^:private order "{\"order\":17,\"items\":[{\"name\":\"tea\",\"pieces\":2},{\"name\":\"cake\",\"pieces\":1}],\"paid\":true}")

(def ^:private post
  "What makes wrk send an order."
  (delay (child/program (format "wrk.method = \"POST\" wrk.body = [[%s]] wrk.headers[\"Content-Type\"] = \"application/json\"" order))))

(def ^:private units {"us" 0.001 "ms" 1.0 "s" 1000.0})

(defn wrk-figures
  "What wrk has printed with --latency: {:rate requests per second, :p99 milliseconds}. Fails if a request has failed.

  Example: (wrk-figures \"..99%  1.20ms..Requests/sec: 9012.5\") => {:rate 9012.5 :p99 1.2}"
  [text]
  (when-let [failures (re-find #"Socket errors:.*|Non-2xx.*" text)]
    (throw (ex-info (str "wrk had failures: " failures) {:output text})))
  (let [[_ number unit] (re-find #"99%\s+([\d.]+)(us|ms|s)" text)]
    {:rate (parse-double (second (re-find #"Requests/sec:\s+([\d.]+)" text)))
     :p99 (* (double (parse-double number)) (double (units unit)))}))

(defn h2load-figures
  "What h2load has printed: {:rate requests per second}. Fails if a request has failed.

  Example: (h2load-figures \"finished in 1s, 9012.5 req/s..0 failed, 0 errored\") => {:rate 9012.5}"
  [text]
  (when-not (re-find #" 0 failed, 0 errored, 0 timeout" text)
    (throw (ex-info "h2load had failures." {:output text})))
  {:rate (parse-double (second (re-find #"finished in [^,]+, ([\d.]+) req/s" text)))})

(defn- wrk [{:keys [port]} {:keys [connections path]} seconds]
  (wrk-figures
    (child/output (concat ["wrk" "-t1" (str "-c" connections) (str "-d" seconds "s") "--timeout" "20s" "--latency"]
                          (when (= "/echo" path) ["-s" @post])
                          [(str "http://127.0.0.1:" port path)]))))

(defn- h2load [{:keys [port]} {:keys [connections streams path]} seconds]
  (h2load-figures
    (child/output ["h2load" (str "-D" seconds) "--warm-up-time=1" (str "-c" connections) (str "-m" streams) (str "http://127.0.0.1:" port path)])))

(def ^:private rows
  (concat (for [[path servers] {"/hello" [:magnetar :jetty :go :helidon :jdk] "/echo" [:magnetar :jetty :go]}
                connections [64 1000]]
            {:name (str "HTTP/1.1 " path) :path path :connections connections :client wrk :servers servers})
          (for [[connections streams] [[64 10] [1000 1]]] ; 1,000 requests at a time: all find a place at the door
            {:name (format "HTTP/2 /hello, streams: %d" streams)
             :path "/hello" :connections connections :streams streams :client h2load :servers [:magnetar :jetty :helidon]})))

;; ---- rounds

(defn- one-round [servers {:keys [client] :as row} seconds round]
  (into {} (for [named (cond-> (filter servers (:servers row)) (odd? (long round)) reverse)]
             [named (client (servers named) row seconds)])))

(defn- measured [servers {:keys [name connections] :as row} rounds seconds]
  (say name connections)
  (one-round servers row seconds 0) ; warm-up
  (assoc row :rounds (vec (for [round (range rounds)]
                            (doto (one-round servers row seconds round) (->> (say " ")))))))

(defn- run [rounds seconds]
  (let [servers (update-vals (commands) start)]
    (try
      (doseq [row rows] ; until the JVMs have compiled what they run
        (one-round servers row seconds 0))
      (mapv #(measured servers % rounds seconds) rows)
      (finally (run! end (vals servers))))))

;; ---- the page

(defn- cell
  "The median of the rounds, the least and the greatest, of those that have a number."
  [pattern numbers]
  (if-let [numbers (seq (remove nil? numbers))]
    (let [{:keys [median min max]} (statistics/spread numbers)]
      (apply format (format "%1$s [%1$s %1$s]" pattern) [median min max]))
    "-"))

(defn- ratio [figure ours theirs]
  (fn [round]
    (let [[a b] (map #(get-in round [% figure]) [ours theirs])]
      (when (and a b) (/ (double a) (double b))))))

(defn table
  "Returns the rows as lines of a Markdown table.

  Example: (run! println (table rows))"
  [rows]
  (report/lines
    ["" "connections" "ours/s" "ours / Jetty" "ours / Go" "p99 ms" "p99 / Jetty's" "p99 / Go's"]
    (for [{:keys [name connections rounds]} rows]
      [name connections
       (cell "%,.0f" (map (comp :rate :magnetar) rounds))
       (cell "%.2f" (map (ratio :rate :magnetar :jetty) rounds))
       (cell "%.2f" (map (ratio :rate :magnetar :go) rounds))
       (cell "%.1f" (map (comp :p99 :magnetar) rounds))
       (cell "%.2f" (map (ratio :p99 :magnetar :jetty) rounds))
       (cell "%.2f" (map (ratio :p99 :magnetar :go) rounds))])))

(defn others-table
  "Returns the rows of Helidon or the JDK's server, beside bare Jetty, as lines of a Markdown table.

  Example: (run! println (others-table rows))"
  [rows]
  (report/lines
    ["" "connections" "Jetty/s" "Helidon / Jetty" "JDK / Jetty" "Jetty's p99 ms" "Helidon's p99 / Jetty's" "JDK's p99 / Jetty's"]
    (for [{:keys [name connections servers rounds]} rows
          :when (some #{:helidon :jdk} servers)]
      [name connections
       (cell "%,.0f" (map (comp :rate :jetty) rounds))
       (cell "%.2f" (map (ratio :rate :helidon :jetty) rounds))
       (cell "%.2f" (map (ratio :rate :jdk :jetty) rounds))
       (cell "%.1f" (map (comp :p99 :jetty) rounds))
       (cell "%.2f" (map (ratio :p99 :helidon :jetty) rounds))
       (cell "%.2f" (map (ratio :p99 :jdk :jetty) rounds))])))

(defn- page [rows seconds]
  (str/join "\n"
    (concat ["# magnetar.http beside bare Jetty and Go"
             ""
             "Written by `bin/magnetar run bench/http/load.clj`. The clients are wrk with one thread (h2load for HTTP/2), on the same machine."
             (format "A run takes %s s. Each cell has the median of %d rounds, the least and the greatest. The door of magnetar.http is on."
                     seconds (count (:rounds (first rows))))
             ""]
            (table rows)
            ["" "## Other servers" ""
             "In the same rounds. Helidon has its usual settings. The JDK's server has an executor of virtual threads and TCP_NODELAY,"
             "and may keep all connections; by default it closes connections as soon as more than 200 are idle."
             ""]
            (others-table rows)
            ["" "## Machine" ""]
            (report/facts-in-words {:machine (dissoc (machine/facts) :core-async :jmh)})
            [""])))

(defn -main
  "Arguments: rounds, 5 if left out, and the seconds of a run, 5."
  [& [rounds seconds]]
  (let [seconds (or seconds "5")
        rows (run (parse-long (or rounds "5")) seconds)
        file (machine/in-home "bench" "results" "http.md")]
    (run! println (concat (table rows) [""] (others-table rows)))
    (spit file (page rows seconds))
    (println "written:" (str file))))
