(ns magnetar.bench.peers.rows
  "What rounds say about a workload, as rows of a table."
  (:require
   [magnetar.bench.peers.workloads :as workloads]
   [magnetar.bench.statistics :as statistics]))

(set! *warn-on-reflection* true)

(defn- ratios [rounds ours theirs]
  (statistics/spread (map #(/ (double (get % ours)) (double (get % theirs))) rounds)))

(defn moved?
  "True if the cores of the machine came to be elsewhere during the round: what its peers took cannot be compared.

  Example: (moved? {:distances [65 340]}) => true"
  [{:keys [distances]}]
  (boolean (and (seq distances)
                (> (long (reduce max distances)) (* 2 (long (reduce min distances)))))))

(defn- judged [{:keys [ratio] :as row} target]
  (if target
    (assoc row :target target
      :met? (<= (double (:median ratio)) (double target))
      :floor? (<= (double (:median ratio)) (* 2.0 (double target))))
    row))

(defn- figures [rounds named]
  (statistics/spread (map #(get % named) rounds)))

(defn- row [workload rounds named target]
  (judged
    (cond-> (assoc (select-keys workload [:title :numbers :operations :unit])
              :peer named
              :ours (figures rounds "Magnetar")
              :theirs (figures rounds named)
              :ratio (ratios rounds "Magnetar" named))
      (contains? (first rounds) "Magnetar, closed") (assoc :closed (ratios rounds "Magnetar, closed" named))
      (contains? (first rounds) "Magnetar, plain") (assoc :plain (ratios rounds "Magnetar" "Magnetar, plain")
                                                     :plain-ratio (ratios rounds "Magnetar, plain" named)))
    target))

(defn missing
  "Returns the row of a peer that was not measured, with the reason.

  Example: (missing workload \"Go\" \"not installed\")"
  [workload named why]
  (assoc (select-keys workload [:title :unit]) :peer named :missing why))

(defn- better-mode
  "The mode of core.async with the smaller median, or nil if not both are compared and were measured."
  [targets rounds]
  (when (every? #(and (contains? targets %) (contains? (first rounds) %)) workloads/core-async)
    (apply min-key #(:median (figures rounds %)) workloads/core-async)))

(defn rows
  "The rows of a workload: one for each peer that was measured, and one for the better mode of core.async, which has its target.

  Example: (rows workload [{\"Magnetar\" 1.0 \"Go\" 2.0}])"
  [{:keys [targets better] :as workload} rounds]
  (let [there (filter #(contains? (first rounds) (key %)) targets)
        mode (better-mode targets rounds)]
    (cond-> (mapv (fn [[named target]] (row workload rounds named target)) there)
      mode (conj (assoc (row workload rounds mode better) :peer "core.async, its better mode" :mode mode)))))
