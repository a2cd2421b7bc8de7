(ns crawler.experiments
  "Five experiments from two articles about blocking in core.async (2013 and 2017), and a crawl.

  The program is the same for every library; only the `require` below differs between the columns of the
  demo's table."
  (:require
   [crawler.crawl :as crawl]
   [crawler.fetch :as fetch]
   [crawler.server :as server]
   [magnetar.async :as a])
  (:import
   (java.net URI)
   (java.net.http HttpClient HttpRequest HttpResponse$BodyHandlers)
   (java.util.function BiConsumer)))

(set! *warn-on-reflection* true)

(def ^:private cores (.availableProcessors (Runtime/getRuntime)))

(defn- ms-since [start]
  (/ (- (System/nanoTime) start) 1e6))

(defn- take-all
  "Blocks until `n` values came out of `channel`."
  [n channel]
  (a/<!! (a/go-loop [n n]
           (when (pos? n)
             (a/<! channel)
             (recur (dec n))))))

;; A1: blocks that sleep.

(defn- sleepers
  "`n` go blocks sleep 10 ms each and put a number on one channel; a reader takes all."
  [n]
  (let [numbers (a/chan n)]
    (dotimes [i n]
      (a/go
        (Thread/sleep 10)
        (a/>! numbers i)))
    (take-all n numbers)))

;; A2 and B: pages over HTTP.

(defn- fetch-each
  "A go block per address fetches its page with a blocking client and puts the outcome on one channel."
  [{:keys [client]} addresses]
  (let [outcomes (a/chan)]
    (doseq [address addresses]
      (a/go (a/>! outcomes (fetch/fetch client {:url address}))))
    (take-all (count addresses) outcomes)))

(defn- put-answer ^BiConsumer [channel]
  (reify BiConsumer
    (accept [_ answer failure] (a/put! channel (or answer failure)))))

(defn- get-request ^HttpRequest [^String address]
  (.build (HttpRequest/newBuilder (URI. address))))

(defn- fetch-by-callback
  "The advice of 2017: the client's asynchronous mode, whose callback puts the answer on a channel."
  [{{:keys [http]} :client} addresses]
  (let [answers (a/chan)]
    (doseq [address addresses]
      (-> (.sendAsync ^HttpClient http (get-request address) (HttpResponse$BodyHandlers/ofByteArray))
          (.whenComplete (put-answer answers))))
    (take-all (count addresses) answers)))

;; A3 and A4: blocks that compute.

(defn factors
  "Returns the prime factors of `n`, smallest first, by naive trial division.

  Example: (factors 12) => [2 2 3]"
  [^long n]
  (loop [n         n
         candidate 2
         found     []]
    (cond
      (> (* candidate candidate) n) (if (> n 1) (conj found n) found)
      (zero? (rem n candidate))     (recur (quot n candidate) candidate (conj found candidate))
      :else                         (recur n (inc candidate) found))))

(def ^:private small (* 29 982451653))
(def ^:private large (* 1548587 982451653))

(defn- factorise-in-blocks
  "8 go blocks factorise `n` numbers between them."
  [n]
  (let [done (a/chan 8)]
    (dotimes [_ 8]
      (a/go
        (dotimes [_ (quot n 8)]
          (factors small))
        (a/>! done true)))
    (take-all 8 done)))

(defn- factorise-in-pipeline
  "A pipeline of 8 between an input and an output channel factorises `n` numbers."
  [n]
  (let [out (a/chan 8)]
    (a/pipeline 8 out (map factors) (a/to-chan! (repeat n small)))
    (take-all n out)))

(defn- mixed
  "`sleeping` blocks that sleep 250 ms beside 16 that compute."
  [sleeping]
  (let [done (a/chan 16)]
    (dotimes [_ sleeping]
      (a/go
        (Thread/sleep 250)
        (a/>! done true)))
    (dotimes [_ 16]
      (a/go
        (factors large)
        (a/>! done true)))
    (take-all (+ sleeping 16) done)))

(defn- ms-of
  "Returns the milliseconds that `work` takes, the best of three runs."
  [work]
  (let [once #(let [start (System/nanoTime)]
                (work)
                (ms-since start))]
    (apply min (repeatedly 3 once))))

(defn- shared-by-cores
  "Returns how long `n` pieces of work of `ms` each take when all cores share them evenly."
  [n ms]
  (* (/ n cores) ms))

;; The crawl.

(defn- expected?
  "True for the failures that a site may have and a crawler cannot help."
  [reason]
  (re-matches #"http-\d+" (name reason)))

(defn- crawl-site
  "Crawls the whole site with a thousand fetches in flight; returns the outcomes. Fails when the crawler did."
  [{:keys [site]}]
  (let [options {:concurrency 1000, :depth 100, :timeout 30000, :keep-pages true}
        {:keys [lost failures outcomes]} (crawl/crawl site options)]
    (when-not (and (zero? lost) (every? expected? (keys failures)))
      (throw (ex-info "The crawl went wrong." {:lost lost, :failures failures})))
    outcomes))

(defn- way-to
  "Returns the addresses that lead to `outcome`, last first."
  [by-url outcome]
  (->> (iterate #(by-url (:via %)) outcome)
       (take-while some?)
       (map :url)))

(defn- longest-chain
  "Returns how long the slowest chain of pages takes, each found on the one before: no crawl can be faster."
  [{:keys [site-latency]} outcomes]
  (let [by-url (into {} (map (juxt :url identity)) outcomes)
        ms     #(server/latency site-latency (.getPath (URI. ^String %)))]
    (reduce max (map #(reduce + (map ms (way-to by-url %))) outcomes))))

;; The table's rows.

(def rows
  "What to measure, in the order of the table. `:run` takes the context that the demo prepared; `:ideal` takes it
  and what came of the run, and says in how many milliseconds nobody would be idle or in the way. The best of
  `:times` runs (else of one) counts. The rows marked `:late` stand at the end of `order`."
  (let [sleep-time      (constantly 10)
        slowest-page    (fn [context _] (:slowest-page context))
        slowest-of-90   (fn [context _] (:slowest-of-pages context))
        factorisations  (fn [context _] (shared-by-cores 1000 (:small-ms context)))
        all-computation (fn [context _] (max 250 (shared-by-cores 16 (:large-ms context))))]
    [{:id :a1-8, :title "A1  8 sleeps of 10 ms", :run (fn [_] (sleepers 8)), :ideal sleep-time, :times 3}
     {:id :a1-16, :title "A1  16 sleeps of 10 ms", :run (fn [_] (sleepers 16)), :ideal sleep-time, :times 3}
     {:id :a1-1000, :title "A1  1,000 sleeps of 10 ms", :run (fn [_] (sleepers 1000)), :ideal sleep-time}
     {:id :a1-10000, :title "A1  10,000 sleeps of 10 ms", :run (fn [_] (sleepers 10000)), :ideal sleep-time, :times 2, :late true}
     {:id :a2, :title "A2  20 slow pages, blocking client", :run #(fetch-each % (:slow-pages %)), :ideal slowest-page}
     {:id :a2-callback, :title "A2  20 slow pages, callbacks", :run #(fetch-by-callback % (:slow-pages %)), :ideal slowest-page}
     {:id :a3-go, :title "A3  1,000 factorisations, 8 blocks", :run (fn [_] (factorise-in-blocks 1000)), :ideal factorisations}
     {:id :a3-pipeline, :title "A3  1,000 factorisations, pipeline", :run (fn [_] (factorise-in-pipeline 1000)), :ideal factorisations}
     {:id :a4-32, :title "A4  32 sleep 250 ms, 16 compute", :run (fn [_] (mixed 32)), :ideal all-computation}
     {:id :a4-64, :title "A4  64 sleep 250 ms, 16 compute", :run (fn [_] (mixed 64)), :ideal all-computation}
     {:id :b, :title "B   90 pages, blocking client", :run #(fetch-each % (:pages %)), :ideal slowest-of-90}
     {:id :crawl, :title "Crawl of the whole site", :run crawl-site, :ideal longest-chain, :times 3}]))

(def order
  "The ids of the rows in the order in which they are run."
  (mapv :id (sort-by #(boolean (:late %)) rows)))

(defn- warm-up
  "Lets the JVM compile what the rows need, the crawl too, so that neither the first row nor the first library is punished."
  [{:keys [quick-page] :as context}]
  (dotimes [_ 2]
    (sleepers 100)
    (fetch-each context (repeat 50 quick-page))
    (fetch-by-callback context (repeat 50 quick-page))
    (factorise-in-blocks 80)
    (factorise-in-pipeline 80))
  (crawl-site context))

(defn- run-once
  "Returns the milliseconds that `run` takes and what it returns."
  [run context]
  (let [start  (System/nanoTime)
        result (run context)]
    {:ms (ms-since start), :result result}))

(defn- measure
  "Returns what came of one run of `row`: its milliseconds beside the ideal, or how it failed."
  [context {:keys [id run ideal]}]
  (try
    (let [{:keys [ms result]} (run-once run context)]
      {:id id, :ms ms, :ideal (ideal context result)})
    (catch Throwable e
      {:id id, :failed (str e)})))

(defn- prepare
  "Returns `context` with a client and with what one number costs a warm JVM that does nothing else."
  [context]
  (let [context (assoc context :client (fetch/client {:timeout 30000}))]
    (warm-up context)
    (assoc context :small-ms (ms-of #(factors small)), :large-ms (ms-of #(factors large)))))

(defn start
  "Warms up, and returns a function that runs the row of an id once and returns its result."
  [context]
  (let [context (prepare context)
        by-id   (into {} (map (juxt :id identity)) rows)]
    #(measure context (by-id %))))
