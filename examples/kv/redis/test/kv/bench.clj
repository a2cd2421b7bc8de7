(ns kv.bench
  "bin/magnetar run examples/kv/redis/test/kv/bench.clj [--json] [ROUNDS] [REQUESTS]

  redis-benchmark against this server and against Redis with the same settings, in turn. Each row has the
  medians of the rounds, and the ratio of the two: the median of the rounds, the least and the greatest. With
  --json each row is a line, a JSON object."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [kv.programs :as programs])
  (:import
   (java.net ServerSocket)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)))

(set! *warn-on-reflection* true)

(defn- free-ports [names]
  (let [sockets (mapv (fn [_] (ServerSocket. 0)) names)]
    (run! #(.close ^ServerSocket %) sockets)
    (zipmap names (map #(.getLocalPort ^ServerSocket %) sockets))))

(def ^:private ports (free-ports [:ours :redis]))

(defn- settings
  "The options of the server, with a folder of its own below `folder`."
  [folder server appendfsync]
  (concat ["--dir" (str (doto (io/file folder (name server)) .mkdir))]
          (if (= "off" appendfsync)
            ["--appendonly" "no"]
            ["--appendonly" "yes" "--appendfsync" appendfsync])))

(defn- in-checkout [path]
  (str (io/file programs/home path)))

(defn- start-ours ^Process [folder appendfsync]
  (let [words (into [(in-checkout "bin/magnetar") "run" (in-checkout "examples/kv/src/kv/main.clj")
                     "--port" (:ours ports)]
                    (settings folder :ours appendfsync))]
    (.start ^ProcessBuilder (apply programs/builder words))))

(defn- start-redis ^Process [folder appendfsync]
  (let [words (into ["redis-server" "--port" (:redis ports) "--save" ""] (settings folder :redis appendfsync))]
    (.start ^ProcessBuilder (apply programs/builder words))))

(defn- rate
  "Requests per second of one run."
  [server {:keys [test clients pipeline]} requests]
  (let [output (programs/output "redis-benchmark" "-p" (ports server) "-t" test "-c" clients "-P" pipeline
                                "-n" requests "-r" 100000 "--csv")]
    (parse-double (or (second (re-find #"(?m)^\"[A-Z]+\",\"([\d.]+)\"" output))
                      (throw (ex-info "redis-benchmark failed." {:output output}))))))

(defn- median [xs]
  (nth (sort xs) (quot (count xs) 2)))

(defn- outcome
  "The row as a map."
  [appendfsync {:keys [test clients pipeline]} rounds]
  (let [ratios (map (fn [{:keys [ours redis]}] (/ (double ours) (double redis))) rounds)]
    (array-map :fsync appendfsync :command test :clients clients :pipeline pipeline
               :ours (median (map :ours rounds)) :redis (median (map :redis rounds))
               :ratio (median ratios) :least (apply min ratios) :greatest (apply max ratios))))

(defn- table-line [row]
  (apply format "| %-8s | %s | %5d | %2d | %,9.0f | %,9.0f | %.2f (%.2f to %.2f) |" (vals row)))

(defn- json-line
  "The row as a JSON object."
  [row]
  (str "{" (str/join ", " (for [[k v] row] (str (pr-str (name k)) ": " (pr-str v)))) "}"))

(defn- measure [line appendfsync rounds requests]
  (doseq [pipeline [1 16] clients [50 1000] test ["set" "get"]
          :let [row {:test test :clients clients :pipeline pipeline}
                requests (* (long requests) (if (= 1 pipeline) 1 4))]]
    (println (line (outcome appendfsync row
                            (doall (for [round (range rounds)]
                                     (into {} (for [server (if (even? round) [:ours :redis] [:redis :ours])]
                                                [server (rate server row requests)])))))))
    (flush)))

(defn- run [line appendfsync rounds requests]
  (let [folder (.toFile (Files/createTempDirectory "kv-bench" (make-array FileAttribute 0)))
        servers {:ours (start-ours folder appendfsync) :redis (start-redis folder appendfsync)}]
    (try
      (doseq [[server process] servers]
        (programs/await-port process (ports server)))
      (doseq [pipeline [1 16]]
        (rate :ours {:test "set,get" :clients 50 :pipeline pipeline} (* 2 (long requests)))) ; warm
      (measure line appendfsync rounds requests)
      (finally
        (doseq [[_ ^Process process] servers]
          (.destroy process)
          (.waitFor process))
        (run! io/delete-file (reverse (file-seq folder)))))))

(defn -main
  "Arguments: --json, rounds, 3 if left out, and requests of a run, 50000."
  [& words]
  (let [[json? [rounds requests]] (if (= "--json" (first words)) [true (rest words)] [false words])]
    (when-not json?
      (println "| fsync    | command | clients | -P | ours/s | Redis/s | ratio |")
      (println "|---|---|---|---|---|---|---|"))
    (doseq [appendfsync ["off" "everysec" "always"]]
      (run (if json? json-line table-line) appendfsync
           (parse-long (or rounds "3")) (parse-long (or requests "50000"))))))
