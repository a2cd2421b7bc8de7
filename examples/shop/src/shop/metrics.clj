(ns shop.metrics
  "Numbers for Prometheus: counters of the shop, the tables, the HTTP server, and Magnetar's own metrics."
  (:require
   [clojure.string :as str]
   [magnetar.http :as http]
   [magnetar.telemetry :as telemetry]
   [shop.db :as db]
   [shop.jobs :as jobs]
   [shop.orders :as orders]))

(set! *warn-on-reflection* true)

;; A sample is [name labels number]. Names that end with _total are counters, the others are gauges.

(defn add
  "Adds one to a counter."
  [counters name labels]
  (swap! counters update [name labels] (fnil inc 0)))

(defn- counted [counters]
  (for [[[name labels] n] @counters]
    [name labels n]))

(defn- states
  "How many rows are in each state, 0 also: an alert on dead jobs needs the number before there is one."
  [db table known]
  (let [rows (db/query db [(str "select state, count(*) as n from " table " group by state")])]
    (for [[state n] (into (zipmap known (repeat 0)) (map (juxt :state :n)) rows)]
      [(str "shop_" table) {:state state} n])))

(defn- of-tables [db]
  (try
    (doall (concat [["shop_database_up" {} 1]] (states db "orders" orders/states) (states db "jobs" jobs/states)))
    (catch Exception e
      (if (db/gone? e)
        [["shop_database_up" {} 0]]
        (throw e)))))

(defn- of-server []
  (for [[k n] (http/status :shop/web)]
    [(str "shop_http_" (name k)) {} n]))

(defn- of-magnetar []
  (let [{:keys [processes restarts dead-letters]} (telemetry/metrics)]
    [["magnetar_processes_live" {} (:live processes)]
     ["magnetar_processes_spawned_total" {} (:spawned processes)]
     ["magnetar_processes_crashed_total" {} (:crashed processes)]
     ["magnetar_restarts_total" {} restarts]
     ["magnetar_dead_letters_total" {} dead-letters]]))

(defn- escaped [v]
  (str/escape (str v) {\\ "\\\\" \" "\\\"" \newline "\\n"}))

(defn- labels-text [labels]
  (when (seq labels)
    (str "{" (str/join "," (for [[k v] (sort labels)] (str (name k) "=\"" (escaped v) "\""))) "}")))

(defn- family [[name samples]]
  (str "# TYPE " name " " (if (str/ends-with? name "_total") "counter" "gauge") "\n"
       (apply str (for [[_ labels n] samples] (str name (labels-text labels) " " n "\n")))))

(defn text
  "All numbers, in Prometheus's text format."
  [{:keys [db counters]}]
  (->> (concat (of-tables db) (counted counters) (of-server) (of-magnetar))
       (group-by first)
       (sort-by key)
       (map family)
       (apply str)))
