(ns magnetar.bench.suite-test
  "The suites `fold` and `scope` with little to do: all variants give the same, and a result says what the rounds say."
  (:require
   [clojure.edn :as edn]
   [clojure.test :refer [deftest is testing]]
   [magnetar.bench.fold :as fold]
   [magnetar.bench.guide :as guide]
   [magnetar.bench.suite :as suite]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.report :as report]
   [magnetar.bench.rounds :as rounds]
   [magnetar.bench.scope :as scope])
  (:import
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)))

(def ^:private little
  "Arguments of the workloads for a test; the word count and the sleepers start processes, and are tested below."
  '{magnetar.bench.workload.folds/evens [100]
    magnetar.bench.workload.folds/evens-of-range [100]
    magnetar.bench.workload.folds/own-functions [100]
    magnetar.bench.workload.folds/lazy-factors [3]
    magnetar.bench.workload.folds/lazy-cheap [100]
    magnetar.bench.workload.pipelines/squaring [20]
    magnetar.bench.workload.scopes/travel [50]
    magnetar.bench.workload.scopes/fork-and-join [20]
    magnetar.bench.workload.scopes/fork-all-and-join [20]
    magnetar.bench.workload.http/pages [5 1]})

(def ^:private by-processes
  '#{magnetar.bench.workload.folds/words-of-file magnetar.bench.workload.scopes/sleepers})

(def ^:private groups
  (concat fold/groups scope/groups))

(defn- once [workload arguments]
  (first (rounds/run (apply (requiring-resolve workload) arguments) {:warm-ups 0 :rounds 1 :collect false})))

(deftest each-group-has-a-workload-that-is-tested
  (is (= (into by-processes (keys little)) (set (map :workload groups)))))

(deftest all-variants-of-a-group-give-the-same-and-are-those-that-its-rows-name
  (doseq [[workload arguments] little
          :let [round (once workload arguments)]]
    (testing (str workload)
      (doseq [{:keys [rows] :as group} groups :when (= workload (:workload group))
              variant (remove nil? (mapcat (juxt :ours :theirs) rows))]
        (is (number? (get round variant)) (str (:group group) ": " variant))))))

(deftest a-variant-that-gives-something-else-fails-the-run
  (is (thrown-with-msg? clojure.lang.ExceptionInfo #"different values"
                        (rounds/run [["a" (constantly 1)] ["b" (constantly 2)]] {:warm-ups 0 :rounds 1}))))

(deftest the-words-of-a-file-are-counted-alike
  (let [file (java.io.File/createTempFile "words" ".txt")
        counted #(:value ((requiring-resolve 'magnetar.bench.workload.words/count-words) % file))]
    (try
      ((requiring-resolve 'magnetar.bench.workload.words/write-text) file 1)
      (is (= [5000 120000] (counted "lines") (counted "vector")))
      (finally (.delete file)))))

(deftest a-group-that-does-not-exist-is-refused-before-anything-runs
  (is (thrown-with-msg? clojure.lang.ExceptionInfo #"There is no group called nonsense. There are: .*fork" (suite/run scope/groups {:groups #{"nonsense"}})))
  (is (thrown-with-msg? clojure.lang.ExceptionInfo #"no group called memory" (suite/run scope/groups {:groups #{"memory"}})))
  (is (= {:unit "bytes" :rows [100000]} (:memory (suite/run-with-memory scope/groups vector {:groups #{"memory"} :quick true})))))

(def ^:private two-rounds
  [{"a" 1.0 "b" 2.0} {"a" 3.0 "b" 4.0}])

(deftest a-row-says-what-the-rounds-say
  (is (= {:median 0.625 :min 0.5 :max 0.75 :count 2}
         (:ratio (suite/row two-rounds {:name "a / b" :ours "a" :theirs "b"}))))
  (is (= [true false] (mapv #(:met? (suite/row two-rounds {:name "a / b" :ours "a" :theirs "b" :target %})) [0.7 0.6])))
  (testing "a peer that is not installed is no failure"
    (is (= {:name "a / Go, which is not installed" :ours "a" :theirs "Go"}
           (dissoc (suite/row two-rounds {:name "a / Go" :ours "a" :theirs "Go" :target 1.5}) :ours-value)))))

(deftest figures-find-their-place-in-a-page
  (let [spread {:median 12.345 :min 1.0 :max 20.0}
        result {:time {:unit "ms" :rows [{:name "F: one" :ours-value spread}
                                         {:name "F: two / three" :ours-value spread :theirs-value spread :ratio {:median 1.0}}
                                         {:name "G: other" :ours-value spread}]}}
        page "a\n<!-- figures scope: F:  -->\nold\n<!-- end of figures -->\nb\n<!-- figures fold: F:  -->\nold\n<!-- end of figures -->\n"]
    (is (= (str "a\n<!-- figures scope: F:  -->\n\n| what | median |\n|---|---|\n| one | 12.3 ms |\n| two / three | 12.3 ms against 12.3 ms: 1.00 |\n\n"
                "<!-- end of figures -->\nb\n<!-- figures fold: F:  -->\nold\n<!-- end of figures -->\n")
           (guide/with-figures page "scope" result)))))

(deftest a-page-is-kept-and-the-raw-numbers-go-where-git-ignores-them
  (with-redefs [machine/home (constantly (str (Files/createTempDirectory "bench" (make-array FileAttribute 0))))]
    (let [[page raw] (report/write "fold" {:time {:unit "ms" :rows []}})]
      (is (= ["bench/results/fold.md" "bench/target/results/fold.edn"]
             (map #(subs (str %) (inc (count (machine/home)))) [page raw])))
      (is (= {:time {:unit "ms" :rows []}} (edn/read-string (slurp raw)))))))

(deftest a-suite-has-a-page-of-its-own
  (is (re-find #"^# magnetar.fold beside .*\n\nWritten by `bin/magnetar bench fold`"
               (report/markdown "fold" {:time {:unit "ms" :rows []}}))))
