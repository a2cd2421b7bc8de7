(ns magnetar.bench.peers-test
  "The lane `peers`: what Clojure does of it, with little to do; what the rounds say; the client of echo servers; the page."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [clojure.xml :as xml]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.page :as page]
   [magnetar.bench.page.articles :as articles]
   [magnetar.bench.peers :as peers]
   [magnetar.bench.peers.core-async :as core-async]
   [magnetar.bench.peers.echo :as echo]
   [magnetar.bench.peers.little :as little]
   [magnetar.bench.peers.ours :as ours]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.peers.rounds :as rounds]
   [magnetar.bench.peers.rows :as rows]
   [magnetar.bench.peers.serve :as serve]
   [magnetar.bench.peers.workloads :as workloads]
   [magnetar.bench.plots :as plots])
  (:import
   (clojure.lang ExceptionInfo)
   (java.net InetAddress ServerSocket SocketException)))

(def ^:private seconds-allowed 20)

(defn- bounded
  "The value of f, or :too-long: a workload that hangs fails its own test."
  [f]
  (deref (future (f)) (* 1000 seconds-allowed) :too-long))

;; --- workloads

(deftest every-command-of-a-workload-is-tested-and-every-peer-exists
  (is (empty? (remove little/covered? little/commands)))
  (is (empty? (remove programs/all (mapcat (comp keys :targets) (concat workloads/timed workloads/memory)))))
  (is (every? (set (map :title workloads/timed)) workloads/over-cores))
  (testing "over N as well, with work to do for each N"
    (doseq [{:keys [command peers numbers operations up-to]} workloads/over-n
            n workloads/sizes
            :when (<= n (or up-to n))]
      (is (little/commands (if (= "times" command) (second (numbers n)) command)))
      (is (every? programs/all peers))
      (is (every? #(or (string? %) (nat-int? %)) (numbers n)))
      (is (pos-int? (operations (numbers n))))))
  (testing "a part of the work is a whole number"
    (doseq [{:keys [title numbers operations fewer]} workloads/timed, [peer divisor] fewer]
      (is (zero? (rem (last numbers) divisor)) (str title ", " peer))
      (is (zero? (rem operations divisor)) (str title ", " peer)))))

(defn- asking [workloads]
  (fn [& words] (#'serve/answer workloads (map str words))))

(defn- sleeps? [command]
  (str/starts-with? command "memory"))

(deftest the-peers-in-clojure-do-each-of-their-workloads
  (doseq [[named workloads] {"Magnetar" ours/workloads "core.async, go" (core-async/workloads "go") "core.async, io-thread" (core-async/workloads "io")}
          command (remove sleeps? (little/commands-of named))]
    (is (true? (bounded #(little/does? (asking workloads) command))) (str named ": " command))))

;; --- rows

(def ^:private two-rounds
  [{"Magnetar" 1.0 "Go" 2.0 "core.async, go" 9.0 "core.async, io-thread" 4.0 :busy 0.0}
   {"Magnetar" 3.0 "Go" 4.0 "core.async, go" 9.0 "core.async, io-thread" 4.0 :busy 0.0}])

(defn- rows-beside [targets]
  (rows/rows (assoc (workloads/line "x" "x" [1] 1 targets) :unit "ns" :section "s") two-rounds))

(deftest a-row-says-what-the-rounds-say
  (let [[row] (rows-beside {"Go" 0.6})]
    (is (= {:median 0.625 :min 0.5 :max 0.75 :count 2} (:ratio row)))
    (is (= [false true] ((juxt :met? :floor?) row))))
  (testing "below the floor, which is twice the target"
    (is (= [false false] ((juxt :met? :floor?) (first (rows-beside {"Go" 0.3}))))))
  (testing "a peer that was not there has no row"
    (is (empty? (rows-beside {"Erlang" 1.0})))))

(deftest the-target-beside-core-async-is-that-of-its-better-mode
  (let [[go io better] (rows-beside {"core.async, go" nil "core.async, io-thread" nil})]
    (is (= [nil nil 0.5] (map :target [go io better])))
    (is (= "core.async, io-thread" (:mode better)))
    (is (= 0.5 (:median (:ratio better))))))

;; --- where the cores are

(deftest the-way-from-core-to-core-takes-some-time
  (let [nanos (machine/core-distance)]
    (is (or (nil? nanos) (pos? nanos)))))

(deftest a-round-during-which-the-cores-moved-is-done-again
  (let [rounds (fn [& all] (let [left (atom all)] #(ffirst (swap-vals! left rest))))
        moved {:distances [65 70 340]}
        still {:distances [300 340]}]
    (is (= [true false false false] (map rows/moved? [moved still {:distances []} {}])))
    (is (= (assoc still :again 2) (rounds/steady (rounds moved moved still moved))))
    (is (= (assoc moved :last true :again 3) (rounds/steady (rounds moved moved moved (assoc moved :last true) still))))))

(deftest a-row-says-what-the-cores-were-like
  (let [rounds [(assoc (first two-rounds) :distances [60 70]) (assoc (second two-rounds) :distances [300 290])]
        row (fn [rounds] (first (rows/rows (assoc (workloads/line "x" "x" [1] 1 {"Go" nil}) :unit "ns" :section "s") rounds)))]
    (is (= {:near 0.5 :apart 0.75} (update-vals (:by-distance (row rounds)) :median)))
    (is (nil? (:by-distance (row (take 1 rounds)))))
    (is (nil? (:by-distance (row (assoc-in rounds [1 :distances] [60 290])))) "a round in which they moved is neither")
    (is (nil? (:by-distance (row two-rounds))))
    (let [text (page/markdown {:rows [(row rounds)] :raw [{:title "x" :rounds rounds}]})]
      (is (str/includes? text "in 60 to 300 ns"))
      (is (str/includes? text "0.50 in 1 | 0.75 in 1")))))

;; --- peers

(deftest little-work-is-done-again-and-again
  (is (= 60.0 (#'serve/answer {"spawn" (fn [n] (* 10 (long n)))} ["times" "3" "spawn" "2"]))))

(deftest words-mean-the-peers-that-begin-with-them
  (is (= ["Go" "core.async, go" "core.async, io-thread"] (peers/named ["go" "core.async"])))
  (is (thrown-with-msg? ExceptionInfo #"There is no peer called Rust" (peers/named ["Rust"])))
  (doseq [word ["ringg" "scal"]]
    (is (thrown-with-msg? ExceptionInfo (re-pattern (str "There is no workload called " word "\\. There are: .*; scaling\\.")) (peers/run {:groups #{word}})))))

(deftest a-peer-that-ends-instead-of-answering-is-named
  (let [process (.start (ProcessBuilder. ["true"]))]
    (.waitFor process)
    (is (thrown-with-msg? ExceptionInfo #"x did not answer `spawn 1`, but ended"
                          (programs/ask {:name "x" :process process :in (.outputWriter process) :out (.inputReader process)} "spawn" 1)))))

(deftest a-peer-that-fails-is-left-out-unless-it-is-ours
  (let [failing (fn [broken] (fn [_ names _] (if (some #{broken} names) (throw (ex-info "broken" {:peer broken})) names)))
        said (atom [])]
    (is (= ["Magnetar" "Erlang"] (rounds/surviving (failing "Go") {} ["Magnetar" "Go" "Erlang"] {} #(swap! said conj %))))
    (is (= ["  left out: broken"] @said))
    (is (thrown? ExceptionInfo (rounds/surviving (failing "Magnetar") {} ["Magnetar" "Go"] {} identity)))))

;; --- echo

(defn- on-threads [f]
  (Thread/startVirtualThread f))

(deftest echoes-are-measured-over-many-connections
  (let [port (serve/echo-server on-threads)]
    (is (every? pos? (repeatedly 3 #(bounded (fn [] (echo/measure port 300 1000))))))
    (is (pos? (bounded #(echo/measure port 2 7))))))

(deftest an-echo-that-is-wrong-or-does-not-come-fails-the-run
  (let [server (ServerSocket. 0 10 (InetAddress/getLoopbackAddress))]
    (on-threads #(try (while true (.close (.accept server))) (catch SocketException _)))
    (is (thrown-with-msg? ExceptionInfo #"The echo server failed" (echo/measure (.getLocalPort server) 3 10)))
    (.close server)))

(deftest there-are-no-more-connections-than-open-files
  (is (= 1 (echo/possible 1)))
  (is (<= (echo/possible 100000000) 100000000)))

;; --- the page

(def ^:private spread {:median 2.0e6 :min 1.0e6 :max 3.0e6 :count 3})

(def ^:private a-result
  (let [ratio {:median 0.4 :min 0.3 :max 0.6 :count 3}
        row {:title "ring" :section "Channels" :experiment "E5" :numbers [1] :operations 10 :unit "ns" :peer "Go" :ours spread :theirs spread :ratio ratio}]
    {:machine {:cores 2} :settings {:quick true}
     :rows [(assoc row :closed ratio :target 0.5 :met? true :floor? true)
            (assoc row :peer "jox" :target 0.3 :met? false :floor? true)
            (assoc row :peer "Erlang" :target 0.1 :met? false :floor? false)
            (assoc row :peer "core.async, its better mode" :mode "core.async, io-thread")]
     :over-n [{:title "N timers" :n 10 :figures {"Magnetar" 9.0}} {:title "N timers" :n 100 :figures {"Magnetar" 1.0}}
              {:title "N timers" :n 1000 :figures {"Magnetar" 2.5}} {:title "N timers" :n 10000 :failed "Go ended."}]
     :over-cores [{:title "ring" :cores 1 :figures {"Go" 1.0}} {:title "ring" :cores 2 :figures {"Go" 2.0}}]}))

(deftest the-page-begins-with-what-is-met-and-what-is-not
  (let [lines (str/split-lines (page/markdown a-result))
        there? (fn [line] (some #{line} lines))]
    (is (there? "Of 3 targets 1 are met, 1 missed, 1 below the floor, which is twice the target."))
    (is (there? "| ring | Erlang | 0.1 | 0.40 [0.30 0.60] | - | **below the floor**: [why](../../bench/results/why.md) |"))
    (is (there? "| ring | Go | 2.00 ms | 2.00 ms | 0.40 [0.30 0.60] | 0.40 [0.30 0.60] | 0.5, met |"))
    (is (there? "| ring | core.async, its better mode (io-thread) | 2.00 ms | 2.00 ms | 0.40 [0.30 0.60] | - |  |"))
    (is (there? "Ours does not stay flat: 1.00 ns at N = 100, 2.50 ns at N = 1,000; [why](../../bench/results/why.md)."))
    (is (there? "At N = 10,000: Go ended."))
    (is (there? "| ring | Go | 1.00 | 2.00 | 2.00 |"))
    (is (there? "## Traps"))))

(deftest plots-are-small-and-say-what-they-show
  (let [file (java.io.File/createTempFile "plot" ".svg")
        drawn (fn [f & arguments] (apply f file arguments) (slurp file))]
    (try
      (let [bars (drawn plots/bars "beside Go" ["ring" "spawn"] [["Magnetar" {"ring" 2.0 "spawn" 0.5}] ["closed" {"ring" 3.0}]])
            lines (drawn plots/lines "a < b" "ns" {"Go" [[10 100.0] [1000000 200.0]]})]
        (is (every? #(str/includes? bars %) [">ring<" ">spawn<" ">2.00<" ">0.50<" ">3.00<" ">closed<"]))
        (is (str/includes? lines "a &lt; b: ns"))
        (is (= 3 (count (re-seq #"<path[^>]* C" lines))) "two points, and that of the legend")
        (is (= bars (drawn plots/bars "beside Go" ["ring" "spawn"] [["Magnetar" {"ring" 2.0 "spawn" 0.5}] ["closed" {"ring" 3.0}]])))
        (is (every? #(< (count %) 10000) [bars lines]))
        (is (every? xml/parse (map #(java.io.ByteArrayInputStream. (.getBytes ^String %)) [bars lines]))))
      (finally (.delete file)))))

(deftest all-rows-of-a-table-have-as-many-cells-as-its-head
  (doseq [table (partition-by #(str/starts-with? % "|") (str/split-lines (page/markdown a-result)))
          :when (str/starts-with? (first table) "|")]
    (is (apply = (map #(count (re-seq #"\|" %)) table)) (first table))))

(deftest each-article-has-the-figures-of-the-lanes-that-repeat-it
  (let [lane {:time {:rows [{:name "C1, C2, vector of 10 million: fold" :ours-value {:median 40.0}}]}}
        text (str/join "\n" (articles/lines (:rows a-result) [lane]))]
    (is (str/includes? text "  - today: ring: 20 ms; Go 20, jox 20, Erlang 20"))
    (is (= 2 (count (re-seq #"  - today: vector of 10 million: fold: 40 ms" text))))))
