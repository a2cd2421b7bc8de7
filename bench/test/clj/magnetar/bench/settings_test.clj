(ns magnetar.bench.settings-test
  "The suite `settings`: what is measured, and the tables."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.settings :as settings]))

(deftest settings-and-workloads-exist
  (is (every? programs/all (map :program settings/settings)))
  (is (every? (set (map :title settings/settings)) (keep :beside settings/settings)))
  (is (= 12 (count settings/measured))))

(def ^:private a-result
  {:machine {:date "2026-11-25T20:14:41Z" :cores 2} :settings {:quick true}
   :rows [{:title "ring" :rounds [{"all cores, G1" 100.0 "one core" 150.0 "Go on one core" 100.0 "8 carriers" 100.0}
                                  {"all cores, G1" 100.0 "one core" 250.0 "Go on one core" 125.0 "8 carriers" 50.0}
                                  {"all cores, G1" 2000.0 "one core" 4000.0 "Go on one core" 1000.0 "8 carriers" 4000.0}]}]})

(def ^:private line
  "| ring | 100 ns | 2.00 [1.50 2.50] | 2.00 [1.50 4.00] | - | - | 1.00 [0.50 2.00] | - | - |")

(deftest a-ratio-is-of-one-round-and-a-peers-column-is-ours-by-theirs
  (is (= line (last (settings/table a-result))))
  (is (apply = (map #(count (re-seq #"\|" %)) (settings/table a-result))))
  (is (str/includes? (settings/markdown a-result) line)))

(deftest the-page-on-performance-has-the-medians
  (let [before (slurp (io/file (machine/home) "docs" "reference" "performance.md"))
        page (settings/with-summary before a-result)]
    (is (str/includes? page "| ring | 100 ns | 2.00 | 2.00 | - | - | 1.00 | - | - |"))
    (is (str/includes? page "Written by `bin/magnetar bench settings` on 2026-11-25, on 2 cores."))
    (is (= page (settings/with-summary page a-result)))))
