(ns crawler.crawl
  "The crawl: three stages of fibers with channels between them.

      frontier --jobs--> fetch (many) --fetched--> parse (few) --parsed--> frontier --outcomes--> report

  The frontier is the only one who knows what was seen. It offers a job and listens for results in one
  `alts!`, so the ring of channels cannot lock up however small its buffers. Each stage is blocking code.
  Nothing here is special to Magnetar: change the one `require` below to `clojure.core.async`, and the same
  program runs on that (the demo does it, to compare the two)."
  (:require
   [crawler.fetch :as fetch]
   [crawler.frontier :as frontier]
   [crawler.page :as page]
   [crawler.summary :as summary]
   [crawler.url :as url]
   [magnetar.async :as a]))

(def default-options
  "What `start` assumes. `:any-host` lets the crawl leave the host it starts on."
  (merge fetch/default-limits
         {:depth 3, :concurrency 32, :any-host false, :keep-pages false, :on-progress (fn [_])}))

(defn stage
  "Starts `n` fibers that take from `in`, put `(f value)` on `out` (`f` may block), and close `out` when `in` is
  closed and the last of them is done. Returns `out`."
  [n f in out]
  (let [worker  #(a/go-loop []
                   (when-some [value (a/<! in)]
                     (a/>! out (f value))
                     (recur)))
        workers (vec (repeatedly n worker))]
    (a/go
      (doseq [worker workers]
        (a/<! worker))
      (a/close! out))
    out))

(defn- cancelled-outcomes [{:keys [waiting]}]
  (map #(assoc % :outcome :cancelled) waiting))

(defn- conduct
  "Feeds `jobs` from the frontier and the frontier from `parsed`, until nothing is left or `cancel` closes;
  sends every outcome to `outcomes`. Closes `jobs` and `outcomes` at the end. Returns a channel that then gets
  the number of pages seen."
  [frontier {:keys [jobs parsed outcomes cancel]}]
  (a/go-loop [frontier frontier
              control  [cancel parsed]]
    (if (frontier/done? frontier)
      (do (a/close! jobs)
          (a/close! outcomes)
          (:seen frontier))
      (let [job         (frontier/next-job frontier)
            [value port] (a/alts! (cond-> control job (conj [jobs job])) :priority true)]
        (condp = port
          jobs   (recur (frontier/hand-out frontier) control)
          parsed (let [{:keys [seen] :as frontier} (frontier/absorb frontier value)]
                   (a/>! outcomes (assoc (dissoc value :found) :seen-so-far seen))
                   (recur frontier control))
          cancel (do (doseq [outcome (cancelled-outcomes frontier)]
                       (a/>! outcomes outcome))
                     (recur (frontier/abandon frontier) [parsed])))))))

(defn- report
  "Returns a channel that gets the summary of all `outcomes` when they end, checked against the number of pages
  `seen` (a channel). Calls `on-progress` with the summary so far after each outcome, and at least every quarter
  of a second."
  [outcomes seen {:keys [keep-pages on-progress]}]
  (a/go-loop [summary (summary/start keep-pages)]
    (on-progress summary)
    (let [[outcome port] (a/alts! [outcomes (a/timeout 250)])]
      (cond
        outcome           (recur (summary/add summary outcome))
        (= port outcomes) (summary/finish summary (a/<! seen))
        :else             (recur summary)))))

(defn- hosts-of
  "Returns the set of hosts that a crawl from `address` stays on, nil for any."
  [address {:keys [any-host]}]
  (when-not any-host
    (let [{:keys [url]} (url/parse address)]
      (if url #{(url/host url)} #{}))))

(defn start
  "Starts to crawl from `address`. Returns at once: `:summary` is a channel that gets the summary,
  `:cancel` a function that ends the crawl early; pages not fetched by then count as `:cancelled`.

  Example: (a/<!! (:summary (start \"http://localhost:8000/\" {:depth 2})))"
  [address options]
  (let [{:keys [concurrency] :as options} (merge default-options options)
        hosts    (hosts-of address options)
        client   (fetch/client (assoc options :hosts hosts))
        cancel   (a/chan)
        jobs     (a/chan)
        outcomes (a/chan 64)
        fetched  (stage concurrency #(fetch/fetch client %) jobs (a/chan))
        parsed   (stage (.availableProcessors (Runtime/getRuntime)) page/parse fetched (a/chan))
        seen     (conduct (frontier/start address (assoc options :hosts hosts))
                          {:jobs jobs, :parsed parsed, :outcomes outcomes, :cancel cancel})]
    {:summary (report outcomes seen options)
     :cancel  (fn []
                (a/close! cancel)
                (fetch/shut-down client))}))

(defn crawl
  "Crawls from `address` and returns the summary. Blocks until every page has its outcome."
  [address options]
  (let [{:keys [summary cancel]} (start address options)]
    (try
      (a/<!! summary)
      (finally (cancel)))))
