(ns crawl
  "bin/magnetar run examples/crawler/crawl.clj URL [--depth N] [--concurrency N] [--out FILE.edn]

  Crawls a web site and says what it found. Exit codes: 0 done, 1 not one page could be read, 2 nonsense on
  the command line, 130 interrupted."
  (:require
   [crawler.cli :as cli]
   [crawler.crawl :as crawl]
   [crawler.interrupt :as interrupt]
   [crawler.progress :as progress]
   [crawler.save :as save]
   [crawler.summary :as summary]
   [magnetar.async :as a]))

(defn- crawl-options [{:keys [out] :as options}]
  (assoc options :keep-pages (some? out), :on-progress (progress/reporter)))

(defn- show
  "Prints `summary`, and whether it is a partial one."
  [summary interrupted]
  (progress/clear)
  (when interrupted
    (println "Interrupted. So far:"))
  (println (summary/text summary)))

(defn- run
  "Crawls from `address`; prints the summary, also when interrupted; writes `:out` unless interrupted.
  Returns the exit code."
  [{:keys [address] {:keys [out] :as options} :options}]
  (let [crawl (crawl/start address (crawl-options options))]
    (interrupt/call-interruptible
      (:cancel crawl)
      (fn [interrupted?]
        (let [{:keys [ok] :as summary} (a/<!! (:summary crawl))]
          (show summary (interrupted?))
          (when (and out (not (interrupted?)))
            (save/write-edn out (dissoc summary :samples)))
          ((:cancel crawl))
          (if (pos? ok) 0 1))))))

(defn- complain [sentence]
  (binding [*out* *err*]
    (println (str "crawl: " sentence)))
  2)

(let [{:keys [help error] :as plan} (cli/plan *command-line-args*)
      code (cond
             help  (do (println help) 0)
             error (complain error)
             :else (run plan))]
  (flush)
  (when (pos? code)
    (System/exit code)))
