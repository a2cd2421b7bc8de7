(ns kv.main
  "bin/magnetar run examples/kv/src/kv/main.clj [OPTION ..]

  A server that speaks RESP2. Exit codes: 0 stopped by SIGTERM or Ctrl-C, 1 not started or failed, 2 a wrong
  command line."
  (:require
   [clojure.tools.cli :as cli]
   [kv.app :as app]
   [kv.resp :as resp]
   [magnetar.application :as application]))

(set! *warn-on-reflection* true)

(defn- whole-number [^long least ^long most]
  [:parse-fn parse-long
   :validate [#(and (int? %) (<= least (long %) most))
              (format "it must be a whole number from %d to %d" least most)]])

(defn- one-of [words]
  [:parse-fn words
   :validate [some? (str "it must be one of " (apply str (interpose ", " (sort (keys words)))))]])

(def ^:private options
  [(into ["-p" "--port N" "the port, 0 for a free one" :default (:port app/defaults)] (whole-number 0 65535))
   ["-b" "--bind ADDRESS" "the address of this machine to listen on" :default (:bind app/defaults)]
   (into ["-a" "--appendonly yes|no" "keep the data in an append-only file" :default false :default-desc "no"]
         (one-of {"yes" true "no" false}))
   (into ["-s" "--appendfsync WHEN" "sync the file: always, everysec or no"
          :default (:appendfsync app/defaults) :default-desc "everysec"]
         (one-of {"always" :always "everysec" :everysec "no" :no}))
   ["-d" "--dir DIR" "the folder of the file" :default (:dir app/defaults)]
   (into ["-m" "--maxclients N" "how many clients at a time" :default (:maxclients app/defaults)]
         (whole-number 1 1000000))
   (into ["-l" "--proto-max-bulk-len N" "the longest argument, in bytes"
          :default (:proto-max-bulk-len app/defaults)]
         (whole-number 1 resp/most-max-bulk))
   (into ["-o" "--pubsub-buffer N" "how many bytes may wait for a subscriber"
          :default (:pubsub-buffer app/defaults)]
         (whole-number 1 Long/MAX_VALUE))
   ["-h" "--help" "print this"]])

(def ^:private usage "usage: bin/magnetar run examples/kv/src/kv/main.clj [OPTION ..]")

(defn plan
  "What the words ask for: {:options ..}, {:help text} or {:error sentence}."
  [words]
  (let [{:keys [arguments errors summary] chosen :options} (cli/parse-opts words options)]
    (cond
      (:help chosen) {:help (str usage "\n\n" summary)}
      (seq errors) {:error (str (first errors) ".")}
      (seq arguments)
      {:error (str "There is no argument " (pr-str (first arguments)) "; --help lists the options.")}

      :else {:options chosen})))

(defn -main
  "Runs the server until it is told to stop."
  [& words]
  (let [{:keys [help error options]} (plan words)]
    (cond
      help (println help)
      error (do (binding [*out* *err*] (println (str "kv: " error)))
                (System/exit 2))
      :else (application/run (app/application options)))))
