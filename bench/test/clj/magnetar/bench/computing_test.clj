(ns magnetar.bench.computing-test
  "The suite `computing`: what an answer says, what ours answers, and the pages."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.bench.computing :as computing]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.peers.little :as little]
   [magnetar.bench.peers.ours :as ours]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.peers.serve :as serve]
   [magnetar.bench.peers.workloads :as workloads]))

(deftest the-peers-exist
  (is (every? programs/all (:peers workloads/computing))))

(deftest ours-answers-with-ticks-and-calls
  (is (little/computes? (fn [& words] (#'serve/answer ours/workloads (map str words)))))
  (is (= "3 1.5" (#'serve/in-words [3 1.5])))
  (is (= [3.0 1.5] (#'programs/numbers-in " 3 1.5\n")))
  (is (nil? (#'programs/numbers-in "3 x")))
  (is (nil? (#'programs/numbers-in :ended))))

(deftest figures-tell-the-start-apart
  (is (= {:ticks 7 :calls 4
          :call {:median 2.0 :percentile-99 5.0 :worst-at-start 5.0 :worst-later 3.0}
          :turn {:median 20.0 :percentile-99 160.0 :worst-at-start 160.0 :worst-later 110.0}}
         (computing/figures 320 [7.0 10000 1000 30000 5000 190000 2000 210000 3000])))
  (testing "without a call one turn is the whole run"
    (is (= {:ticks 0 :calls 0
            :call {:median nil :percentile-99 nil :worst-at-start nil :worst-later nil}
            :turn {:median 320.0 :percentile-99 320.0 :worst-at-start 320.0 :worst-later nil}}
           (computing/figures 320 [0])))))

(defn- row [peer loops & answers]
  {:peer peer :loops loops :rounds (mapv #(computing/figures 100 %) answers)})

(def ^:private a-result
  {:machine {:date "2026-11-25T20:14:41Z" :cores 2} :settings {:quick true}
   :rows [(row "Magnetar" 0 [27000 1000 4 3000 4] [27100 1000 4 3000 4]) (row "Erlang" 0 [27200])
          (row "Magnetar" 4 [20000 1000 4000 9000 4] [24000 1000 90000 95000 4]) (row "Erlang" 4 [26000])]})

(def ^:private short-lines
  ["| Magnetar, with options | 27,050 | 22,000 | 2 | 0.004 | 47 | 90 | - | 6.5 | 93 | 94 | - |"
   "| Erlang | 27,200 | 26,000 | 0 | - | - | - | - | 100 | 100 | 100 | - |"])

(deftest the-table-has-the-spreads
  (let [lines (computing/table a-result)]
    (is (= 6 (count lines)))
    (is (apply = (map #(count (re-seq #"\|" %)) lines)))
    (is (str/starts-with? (nth lines 4) "| Magnetar, with options | 4 | 22,000 [20,000 24,000] | 2 | 0.004 | 47 [4.0 90] | 47 [4.0 90] | - | 6.5 [5.0 8.0] | 93 [91 94] |"))
    (is (str/includes? (computing/markdown a-result) (str/join "\n" lines)))))

(deftest the-page-on-performance-has-a-row-for-each-peer
  (let [before (slurp (io/file (machine/home) "docs" "reference" "performance.md"))
        page (computing/with-summary before a-result)]
    (is (= short-lines (filter (set short-lines) (str/split-lines page))))
    (is (= page (computing/with-summary page a-result)))
    (is (str/includes? page "Written by `bin/magnetar bench computing` on 2026-11-25, on 2 cores."))))
