(ns magnetar.impl.inspect.top
  "What works most for a while: processor time, messages, and the length of mailboxes."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.inspect.samples :as samples]
   [magnetar.impl.inspect.tree :as tree]
   [magnetar.impl.inspect.world :as world]))

(set! *warn-on-reflection* true)

(def orders
  "The keys of a row by which the rows can be ordered."
  [:cpu :messages-per-s :messages :age-ms])

(defn- per-s
  "How many messages a process took each second, if it lived all the time."
  [before {:keys [id taken]} ^double seconds]
  (when-some [taken-before (:taken (before id))]
    (/ (- (long taken) (long taken-before)) seconds)))

(defn- row [world before cpu seconds {:keys [id messages age-ms] :as node}]
  (let [rate (when messages (per-s before node seconds))]
    (cond-> (tree/described world node)
      true (assoc :cpu (cpu id 0.0))
      rate (assoc :messages-per-s rate)
      age-ms (assoc :age-ms age-ms))))

(defn- cpu-of
  "The cores that each node used on average, by its id, one at most. Nodes that have ended, and threads of the JVM, are :other."
  [{:keys [by-thread]} {:keys [cores shares]}]
  (reduce-kv (fn [cpu thread share] (assoc cpu (by-thread thread :other) (min 1.0 (* (double cores) (double share)))))
             {} shares))

(defn- works?
  "Can the node be in the list at all? A scope does nothing itself."
  [{:keys [thread pid]}]
  (or thread pid))

(defn- amount
  "The function of a node by which the nodes are ordered."
  [by before cpu seconds]
  (case by
    :cpu #(cpu (:id %))
    :messages-per-s #(per-s before % seconds)
    by))

(defn measured
  "Rows of the nodes that had most of `by` in so many nanoseconds, at most `most` of them."
  [nanos by most]
  (let [start (System/nanoTime)
        before (:nodes (world/now))
        used (samples/during #(clock/sleep nanos))
        seconds (/ (- (System/nanoTime) start) 1e9)
        world (world/now)
        cpu (cpu-of world used)
        amount (amount by before cpu seconds)]
    (into []
          (map #(row world before cpu seconds %))
          (take most (sort-by #(- (double (or (amount %) 0))) (filter works? (vals (:nodes world))))))))

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

(defn text
  "The rows as a table, a line for each."
  [rows]
  (str/join "\n" (cons (format form "CPU" "messages/s" "mailbox" "age" "name" "does") (map line rows))))
