(ns shop.main
  "bin/magnetar run examples/shop/src/shop/main.clj [OPTION ..]

  A shop. Exit codes: 0 stopped by SIGTERM or Ctrl-C, 1 it could not start, 2 a wrong command line."
  (:require
   [clojure.string :as str]
   [clojure.tools.cli :as cli]
   [magnetar.application :as application]
   [shop.app :as app]))

(set! *warn-on-reflection* true)

(defn- whole-number [^long least ^long most]
  [:parse-fn parse-long
   :validate [#(and (int? %) (<= least (long %) most)) (format "it must be a whole number from %d to %d" least most)]])

(defn- database? [url]
  (or (str/starts-with? url "jdbc:h2:") (str/starts-with? url "jdbc:postgresql:")))

(def ^:private options
  [(into ["-p" "--port N" "the port, 0 for a free one" :default (:port app/defaults)] (whole-number 0 65535))
   ["-b" "--bind ADDRESS" "the address of this machine to listen on" :default (:bind app/defaults)]
   ["-d" "--db URL" "the database, as in jdbc:postgresql://localhost/shop?user=me" :default (:db app/defaults)
    :validate [database? "it must begin with jdbc:h2: or jdbc:postgresql:"]]
   (into ["-w" "--workers N" "how many jobs run at a time" :default (:workers app/defaults)] (whole-number 1 100))
   (into ["-m" "--max-queue N" "how many jobs may wait before orders are refused" :default (:max-queue app/defaults)]
         (whole-number 1 1000000))
   ["-f" "--flaky SHARE" "the share of calls to outside services that fail" :default (:flaky app/defaults)
    :parse-fn parse-double :validate [#(and % (<= 0.0 (double %) 1.0)) "it must be a number from 0 to 1"]]
   (into ["-s" "--slow MS" "how many milliseconds such a call takes at most" :default (:slow app/defaults)] (whole-number 0 4000))
   ["-h" "--help" "print this"]])

(defn plan
  "What the words ask for: {:options ..}, {:help text} or {:error sentence}."
  [words]
  (let [{:keys [arguments errors summary] chosen :options} (cli/parse-opts words options)]
    (cond
      (:help chosen) {:help (str "usage: bin/magnetar run examples/shop/src/shop/main.clj [OPTION ..]\n\n" summary)}
      (seq errors) {:error (str (first errors) ".")}
      (seq arguments) {:error (str "There is no argument " (pr-str (first arguments)) "; --help lists the options.")}
      :else {:options chosen})))

(defn -main
  "Runs the shop until it is told to stop."
  [& words]
  (let [{:keys [help error options]} (plan words)]
    (cond
      help (println help)
      error (do (binding [*out* *err*] (println (str "shop: " error)))
                (System/exit 2))
      :else (application/run (app/application options)))))
