(ns hot-upgrade.main-test
  "A thousand clients check every answer while the code and the state of their servers change, and while a change is taken back."
  {:limit 240000}
  (:require
   [clojure.test :refer [deftest is]]
   [hot-upgrade.main :as main]))

(set! *warn-on-reflection* true)

(deftest ^{:spec ["C134" "C135"]} a-thousand-clients-get-every-answer-right-while-the-code-changes-and-is-taken-back
  (let [{:keys [calls wrong versions version reports] :as outcome} (main/run {:clients 1000})]
    (is (= [] wrong))
    (is (= calls (reduce + (vals versions))))
    (is (= #{1 2} (set (keys versions))))
    (is (= 2 version))
    (is (<= 6000 (long calls)))
    (is (= [[1 2] [1 2] [1 2] [1 2]] (map (juxt :from :to) (:processes (reports 2)))))
    (is (re-find #"rolled back: code-change of :tally/3 from version 2 failed: The client 3 was forgotten" (:failed (reports 3))))
    (is (main/good? outcome))))

(deftest a-wrong-answer-is-noticed
  (is (not (main/good? {:wrong [{:client 1 :call 2 :answer {:version 1 :visits 5}}] :versions {1 5, 2 5} :version 2 :reports {2 {:processes (range 4)} 3 {:failed "x"}}}))))
