(ns magnetar.bench.fold
  "`bin/magnetar bench fold`: `magnetar.fold` beside `clojure.core.reducers`, `clojure.core/transduce` and the ways of the articles."
  (:require
   [magnetar.bench.suite :as suite]))

(set! *warn-on-reflection* true)

(def groups
  "What is compared with what: see `magnetar.bench.suite`.

  Example: (:group (first groups)) => \"evens\""
  [{:group "evens" :workload 'magnetar.bench.workload.folds/evens :arguments [10000000] :forks 2 :warm-ups 5 :rounds 8
    :rows (into [{:name "fold, vector of 10 million / r/fold" :ours "fold" :theirs "r/fold" :target 0.6}
                 {:name "fold, vector of 10 million / sequential transduce" :ours "fold" :theirs "transduce" :target 0.6}]
                (suite/figures "C1, C2, vector of 10 million: "
                  ["lazy seqs" "reducers" "one hand-fused function" "transduce" "r/fold" "r/fold, transducer" "fold"]))}
   {:group "range" :workload 'magnetar.bench.workload.folds/evens-of-range :arguments [9999999] :forks 1 :warm-ups 4 :rounds 7
    :rows (into [{:name "fold, range of 10 million / sequential transduce" :ours "fold" :theirs "transduce"}]
                (suite/figures "C1, (range 0 9999999): " ["lazy seqs" "reducers" "transduce" "fold"]))}
   {:group "own functions" :workload 'magnetar.bench.workload.folds/own-functions :arguments [10000000] :forks 1 :warm-ups 5 :rounds 7
    :rows [{:name "fold, vector, functions of the program's own / r/fold" :ours "fold" :theirs "r/fold"}
           {:name "fold, vector, functions of the program's own / transduce" :ours "fold" :theirs "transduce"}]}
   {:group "factors" :workload 'magnetar.bench.workload.folds/lazy-factors :arguments [1000] :forks 1 :warm-ups 3 :rounds 9
    :rows (into [{:name "A3, fold, 1,000 factorisations over a lazy seq / reduce" :ours "fold" :theirs "reduce" :target 0.6}
                 {:name "A3, fold, 1,000 factorisations over a lazy seq / r/fold" :ours "fold" :theirs "r/fold" :target 0.6}]
                (suite/figures "A3: " ["reduce" "r/fold" "fold"]))}
   {:group "cheap" :workload 'magnetar.bench.workload.folds/lazy-cheap :arguments [1000000] :forks 2 :warm-ups 6 :rounds 9
    :rows [{:name "fold, a million cheap elements of a lazy seq / reduce" :ours "fold" :theirs "reduce"}
           {:name "fold, a million cheap elements of a lazy seq / r/fold" :ours "fold" :theirs "r/fold"}]}
   {:group "squaring" :workload 'magnetar.bench.workload.pipelines/squaring :arguments [20000] :forks 1 :warm-ups 4 :rounds 7
    :rows (into [{:name "C3, go-loops / core.async" :ours "go-loops and channels" :theirs "go-loops and channels, core.async"}
                 {:name "C3, channel with a transducer / core.async" :ours "channel with a transducer"
                  :theirs "channel with a transducer, core.async"}]
                (suite/figures "C3, 20,000 numbers: " ["go-loops and channels" "channel with a transducer" "pipeline" "fold/transduce"]))}
   {:group "words" :workload 'magnetar.bench.workload.folds/words-of-file :arguments [1000] :forks 1 :warm-ups 0 :rounds 3
    :flags ["-Xms64m" "-Xmx256m"]
    :rows [{:name "word count of 1 GB: fold over lines / r/fold over a vector" :ours "fold over lines, -Xmx512m"
            :theirs "r/fold over a vector of the lines, -Xmx8g" :target 0.7}]}])

(defn run
  "Runs the groups, or those named in :groups; see `magnetar.bench.suite/run`.

  Example: (run {:quick true})"
  [settings]
  (suite/run groups settings))
