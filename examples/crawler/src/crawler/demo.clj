(ns crawler.demo
  "The story that `bin/magnetar demo` tells: a site on loopback, a crawl of it with a thousand fetches in flight,
  and five old experiments on three libraries, measured side by side."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [crawler.crawl :as crawl]
   [crawler.experiments :as experiments]
   [crawler.interrupt :as interrupt]
   [crawler.progress :as progress]
   [crawler.runners :as runners]
   [crawler.server :as server]
   [crawler.site :as site]
   [crawler.summary :as summary]
   [crawler.table :as table]
   [crawler.words :refer [fill]]
   [magnetar.async :as a])
  (:import
   (clojure.lang ExceptionInfo)
   (java.io File)))

(set! *warn-on-reflection* true)

(def ^:private in-flight 1000)
(def ^:private seed 25)
(def ^:private patience-ms 180000)

(defn- say [& words]
  (println (apply str words))
  (flush))

;; The site and its servers.

(defn obstacle
  "Returns a sentence that says why `folder` cannot be served, nil when it can."
  [^File folder]
  (cond
    (not (.isDirectory folder))    (str "There is no folder " folder ".")
    (empty? (server/pages folder)) (str "There is no HTML file in the folder " folder ".")))

(defn- mirrors-of
  "Returns how often `n` pages must appear for a thousand fetches to be in flight at once."
  [n]
  (max 1 (quot (+ in-flight 300 (dec n)) n)))

(defn- start-servers
  "Starts the three servers over `folder`: a large site far away, the same site once, and its pages very slow."
  [^File folder]
  (let [n (count (server/pages folder))]
    {:large (server/start {:folder folder, :seed seed, :latency [500 1500], :mirrors (mirrors-of n)})
     :site  (server/start {:folder folder, :seed seed, :latency [30 150]})
     :slow  (server/start {:folder folder, :seed seed, :latency [760 990]})}))

;; The crawl.

(def ^:private crawl-options
  {:concurrency in-flight, :depth 100, :timeout 5000, :max-bytes 1000000})

(defn- crawl-large
  "Crawls the server `large` and shows how, also when Ctrl-C ends it early; returns false then, else true."
  [large]
  (let [{:keys [summary cancel]} (crawl/start (:url large) (assoc crawl-options :on-progress (progress/reporter)))]
    (interrupt/call-interruptible
      cancel
      (fn [interrupted?]
        (let [summary (a/<!! summary)]
          (progress/clear)
          (when (interrupted?)
            (say "Interrupted. So far:"))
          (say (summary/text summary))
          (say "At most " (server/peak large) " fetches were in flight at once.\n")
          (not (interrupted?)))))))

;; The experiments.

(defn- paths
  "Returns `n` paths of pages below `folder`, the same page more than once where there are fewer."
  [folder n]
  (take n (cycle (map #(str "/m0/" %) (sort (server/pages folder))))))

(defn- context
  "Returns what the experiments need to know, as data."
  [{:keys [site slow]} folder]
  (let [slow-paths (paths folder 20)
        site-paths (paths folder 90)]
    {:site             (server/address site "/m0/index.html")
     :site-latency     (select-keys site [:seed :latency])
     :quick-page       (server/address site "/trouble/unruly")
     :slow-pages       (mapv #(server/address slow %) slow-paths)
     :slowest-page     (reduce max (map #(server/latency slow %) slow-paths))
     :pages            (mapv #(server/address site %) site-paths)
     :slowest-of-pages (reduce max (map #(server/latency site %) site-paths))}))

(defn- name-of [{:keys [title]}]
  (str/trim (str/join " " title)))

(defn turns
  "Returns the runs of `rows` by `n` runners, as [id index-of-runner], in the order to do them: each run of a row is done by all runners in
  turn, and each time another one begins. So no library always has the machine in the state that another one left."
  [rows n]
  (let [times (into {} (map (juxt :id #(:times % 1))) rows)
        runs  (mapcat #(repeat (times %) %) experiments/order)]
    (mapcat (fn [first-runner id]
              (map #(vector id (mod (+ first-runner %) n)) (range n)))
            (range)
            runs)))

(defn- better
  "Returns the better of two results of a row. A failure stays one."
  [{:keys [failed] :as old} new]
  (if (or failed (and old new (not (:failed new)) (<= (:ms old) (:ms new)))) old (or new old)))

(defn- measure-all
  "Returns the results of each of `runners` by row, without those that come after an interrupt."
  [context runners interrupted?]
  (say "Warming up " (str/join ", " (map name-of runners)) " ..")
  (run! #(when-not (interrupted?) (runners/warm-up % context patience-ms)) runners)
  (say "Measuring them in turn ..")
  (let [turns (turns experiments/rows (count runners))
        count-one (progress/counter (count turns))]
    (try
      (reduce (fn [results [id runner]]
                (let [result (when-not (interrupted?) (runners/measure (runners runner) id))]
                  (count-one result)
                  (cond-> results result (update-in [runner id] better result))))
              (vec (repeat (count runners) {}))
              turns)
      (finally (progress/clear)))))

(defn- await-runners
  "Blocks until all of `runners` are ready. Fails when one cannot be, unless it was stopped by an interrupt."
  [runners interrupted?]
  (try
    (run! runners/await-ready runners)
    (catch ExceptionInfo e
      (when-not (interrupted?)
        (throw e)))))

(defn- compare-libraries
  "Measures each of `runners` and prints the table, when Ctrl-C ends it early the part that is known; returns false
  then, else true."
  [runners context]
  (interrupt/call-interruptible
    #(run! runners/stop runners)
    (fn [interrupted?]
      (await-runners runners interrupted?)
      (let [results (measure-all context runners interrupted?)
            titles  (map :title runners)]
        (say "\n" (when (interrupted?) "Interrupted. So far:\n") (table/text experiments/rows titles results))
        (run! say (table/failures titles results))
        (not (interrupted?))))))

;; The whole.

(def ^:private meaning
  "Printed under the table."
  "
What it says: where blocks wait (A1, A2, B, the crawl), a pool of eight makes them queue. Threads do not, and fibers neither:
they cost less, which shows where there are thousands. Where blocks compute (A3), no library does more than the cores can, and eight
threads asleep keep the computation waiting too (A4). The best of one to three runs counts; a difference of a tenth is noise.
Try next: `bin/magnetar demo DIR` with HTML of your own, `bin/magnetar repl` for a prompt, or the ten lines of README.md.")

(defn- introduce [folder {:keys [large]}]
  (say (count (server/pages folder)) " pages of " (str folder) ", served " (:mirrors large)
       " times over on loopback, each after 500 to 1,500 ms."))

(defn- tell
  "Runs the story over `folder` with the `runners` and `servers`; returns true when it was told to the end."
  [folder runners {:keys [large] :as servers}]
  (introduce folder servers)
  (and (crawl-large large)
       (compare-libraries runners (context servers folder))))

(defn run
  "Runs the demo over the HTML in `folder` (a File); nil for the project's own papers, found at `root`, rendered
  below `root`/.cache. Prints as it goes; blocks for about a minute."
  [{:keys [folder root]}]
  (let [start   (System/nanoTime)
        cache   (io/file root ".cache")
        loading (future (runners/launch-all cache))
        folder  (or folder (site/build root cache))
        servers (start-servers folder)
        runners   @loading]
    (try
      (when (tell folder runners servers)
        (say meaning)
        (say (fill "\nAll in %.0f s." (/ (- (System/nanoTime) start) 1e9))))
      (finally
        (run! runners/stop runners)
        (run! server/stop (vals servers))))))
