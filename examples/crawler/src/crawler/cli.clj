(ns crawler.cli
  "The crawler's command line: words in, a plan or a sentence out."
  (:require
   [clojure.tools.cli :as cli]
   [crawler.save :as save]))

(defn- between? [low high]
  #(and (int? %) (<= low % high)))

(defn- whole-number
  "Returns the tools.cli settings of an option that is a whole number between `low` and `high`."
  [low high]
  [:parse-fn parse-long
   :validate [(between? low high) (format "it must be a whole number from %d to %d" low high)]])

(def ^:private options
  [(into ["-d" "--depth N" "how many links to follow from the first page" :default 3] (whole-number 0 1000))
   (into ["-c" "--concurrency N" "how many pages to fetch at once" :default 32] (whole-number 1 100000))
   (into ["-t" "--timeout MS" "how long to wait for an answer, and for a body" :default 10000] (whole-number 1 3600000))
   (into ["-m" "--max-bytes N" "how much of a page to read" :default 5000000] (whole-number 1 1000000000))
   ["-o" "--out FILE.edn" "where to write every outcome; not written when interrupted"
    :validate-fn #(nil? (save/obstacle %)) :validate-msg save/obstacle]
   ["-a" "--any-host" "follow links to other hosts too"]
   ["-h" "--help" "print this"]])

(defn usage
  "Returns the help text."
  []
  (str "usage: bin/magnetar run examples/crawler/crawl.clj URL [OPTION..]\n\n"
       (:summary (cli/parse-opts [] options))))

(defn plan
  "Returns what the words `args` ask for: `{:address .. :options ..}`, `{:help text}` or `{:error sentence}`."
  [args]
  (let [{:keys [arguments errors] chosen :options} (cli/parse-opts args options)]
    (cond
      (:help chosen)              {:help (usage)}
      (seq errors)                {:error (str (first errors) ".")}
      (not= 1 (count arguments))  {:error (format "Give one address to crawl, not %d: URL [OPTION..]; --help lists the options."
                                                  (count arguments))}
      :else                       {:address (first arguments), :options chosen})))
