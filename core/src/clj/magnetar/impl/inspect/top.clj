(ns magnetar.impl.inspect.top
  "What uses the most processor time, takes the most messages or has the longest mailbox."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.inspect.answer :as answer]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.inspect.tree :as tree]))

(set! *warn-on-reflection* true)

(def orders
  "The keys of a row by which the rows can be ordered."
  [:cpu :messages-per-s :messages :age-ms])

(defn- sampled-during
  "`samples/during`. Its namespace is loaded only here, since a JVM may have no flight recorder."
  [f]
  (let [during (try
                 (requiring-resolve 'magnetar.impl.inspect.samples/during)
                 (catch Exception e
                   (throw (errors/illegal-state :magnetar/no-flight-recorder
                                                "This JVM has no flight recorder, whose samples `top` needs: use one with the modules jdk.jfr and jdk.management."
                                                {:cause (ex-message e)}))))]
    (during f)))

(defn- per-s
  "How many messages a process took each second; nil if it was started meanwhile."
  [before {:keys [id taken]} ^double seconds]
  (when-some [taken-before (:taken (before id))]
    (/ (- (long taken) (long taken-before)) seconds)))

(defn- cpu-of
  "The cores that each node used on average, by its id, one core at most. Nodes that have ended and threads of the JVM have the id :other."
  [{:keys [by-thread]} {:keys [cores shares]}]
  (reduce-kv (fn [cpu thread share] (assoc cpu (by-thread thread :other) (min 1.0 (* (double cores) (double share)))))
             {} shares))

(defn- measured-node [cpu before seconds {:keys [id messages] :as node}]
  (let [rate (when messages (per-s before node seconds))]
    (cond-> (assoc node :cpu (cpu id 0.0))
      rate (assoc :messages-per-s rate))))

(defn measure
  "Measures processes, fibers and threads for so many nanoseconds: {:snapshot .. :nodes ..}. Each node has :cpu, and that of a process :messages-per-s."
  [nanos]
  (let [start (System/nanoTime)
        before (:nodes (snapshot/now))
        used (sampled-during #(clock/sleep nanos))
        seconds (/ (- (System/nanoTime) start) 1e9)
        snapshot (snapshot/now)
        cpu (cpu-of snapshot used)]
    {:snapshot snapshot
     :nodes (into [] (comp (filter #(or (:thread %) (:pid %))) (map #(measured-node cpu before seconds %))) (vals (:nodes snapshot)))}))

(defn- row [snapshot node]
  (into (tree/described snapshot node) (filter val) (select-keys node orders)))

(defn most-of
  "The nodes or rows with the greatest `by`, at most `most` of them."
  [by most nodes]
  (take most (sort-by #(- (double (or (by %) 0))) nodes)))

(defn rows
  "Rows of the nodes with the greatest `by`, at most `most` of them."
  [{:keys [snapshot nodes]} by most]
  (mapv #(row snapshot %) (most-of by most nodes)))

(def usual-ms
  "For how long `top` measures, unless the caller gives another time."
  1000)

(def usual-most
  "How many rows there are, unless the caller gives another number."
  20)

(defn text
  "The first rows of each order, as EDN."
  []
  (let [{:keys [snapshot nodes]} (measure (* (long usual-ms) 1000000))
        shown (vals (into {} (mapcat (fn [by] (map (juxt :id identity) (most-of by usual-most nodes)))) orders))]
    (answer/text {:magnetar/top 1 :rows (answer/plain (mapv #(row snapshot %) shown))})))

;; ---- as text

(defn- age [ms]
  (let [s (quot (long (or ms 0)) 1000)]
    (cond
      (nil? ms) ""
      (< s 100) (str s " s")
      (< s 6000) (str (quot s 60) " min")
      (< s 360000) (str (quot s 3600) " h")
      :else (str (quot s 86400) " d"))))

(def ^:private form "%6s %10s %8s %7s  %-30s %s")

(defn- line [{:keys [cpu messages-per-s messages age-ms] :as row}]
  (str/trimr (format form (format "%.2f" cpu) (if messages-per-s (format "%.0f" messages-per-s) "") (or messages "") (age age-ms)
                     (tree/title row) (tree/doing (dissoc row :messages)))))

(defn table
  "The rows as a table, a line for each."
  [rows]
  (str/join "\n" (cons (format form "CPU" "messages/s" "mailbox" "age" "name" "does") (map line rows))))
