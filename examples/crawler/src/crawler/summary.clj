(ns crawler.summary
  "What a crawl amounts to: a fold over outcomes, and its text."
  (:require
   [clojure.string :as str]
   [crawler.fetch :as fetch]
   [crawler.words :refer [fill]]))

(def ^:private samples-per-reason 3)

(defn start
  "Returns the summary of nothing yet. With `keep-pages` it will hold every outcome."
  [keep-pages]
  (cond-> {:seen 1, :pages 0, :ok 0, :bytes 0, :links 0, :failures {}, :samples {}, :started (System/nanoTime)}
    keep-pages (assoc :outcomes [])))

(defn- sample
  "Keeps `failed` as an example of its reason while there are few; a cancelled page says nothing."
  [samples {:keys [outcome] :as failed}]
  (if (and (not= :cancelled outcome) (< (count (samples outcome)) samples-per-reason))
    (update samples outcome (fnil conj []) (select-keys failed [:url :bad :via :detail]))
    samples))

(defn add
  "Returns `summary` with one more `result` counted."
  [summary {:keys [outcome bytes links seen-so-far] :as result}]
  (cond-> (update summary :pages inc)
    seen-so-far        (assoc :seen seen-so-far)
    (= :ok outcome)    (-> (update :ok inc)
                           (update :bytes + bytes)
                           (update :links + links))
    (not= :ok outcome) (-> (update-in [:failures outcome] (fnil inc 0))
                           (update :samples sample result))
    (:outcomes summary) (update :outcomes conj (dissoc result :seen-so-far))))

(defn elapsed-ms
  "Returns the milliseconds since `summary` was started."
  [{:keys [started]}]
  (quot (- (System/nanoTime) (long started)) 1000000))

(defn finish
  "Returns the final `summary`, with `:ms`, with `:seen` (the addresses that entered the crawl), and with the
  invariant checked: `:lost` is 0 unless the crawler has a defect."
  [{:keys [ok failures] :as summary} seen]
  (-> summary
      (assoc :seen seen, :lost (- seen (apply + ok (vals failures))), :ms (elapsed-ms summary))
      (dissoc :started)))

(defn meaning
  "Returns in words what the outcome `reason` means."
  [reason]
  (or (fetch/reasons reason)
      (str "the server answered " (subs (name reason) 5))))

(defn- sample-line [{:keys [url bad via detail]}]
  (str "          " (or url bad) (when via (str " on " via)) (when detail (str ": " detail))))

(defn- failure-lines [samples [reason n]]
  (cons (fill "  %6d  %-20s %s" n (name reason) (meaning reason))
        (map sample-line (samples reason))))

(defn text
  "Returns `summary` in words, a line per kind of outcome."
  [{:keys [seen pages lost ok bytes links failures samples ms]}]
  (str/join
    \newline
    (concat
      [(fill "%d pages seen, %d outcomes, %d lost, in %.1f s" seen pages lost (/ ms 1000.0))
       (fill "  %6d  %-20s %d bytes, %d links" ok "ok" bytes links)]
      (mapcat #(failure-lines samples %) (sort-by (comp - val) failures)))))
