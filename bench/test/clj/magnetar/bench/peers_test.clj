(ns magnetar.bench.peers-test
  "The suite `peers`: what Clojure does of it, with little to do; what the rounds say; the client of echo servers; the page."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.peers :as peers]
   [magnetar.bench.peers.core-async :as core-async]
   [magnetar.bench.peers.echo :as echo]
   [magnetar.bench.peers.little :as little]
   [magnetar.bench.peers.ours :as ours]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.peers.report :as peers-report]
   [magnetar.bench.peers.rounds :as rounds]
   [magnetar.bench.peers.rows :as rows]
   [magnetar.bench.peers.serve :as serve]
   [magnetar.bench.peers.workloads :as workloads])
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
  [{"Magnetar" 1.0 "Magnetar, plain" 2.0 "Go" 2.0 "core.async, go" 9.0 "core.async, io-thread" 4.0 :busy 0.0}
   {"Magnetar" 3.0 "Magnetar, plain" 3.0 "Go" 4.0 "core.async, go" 9.0 "core.async, io-thread" 4.0 :busy 0.0}])

(defn- rows-beside [targets]
  (rows/rows (assoc (workloads/line "x" "x" [1] 1 targets) :unit "ns") two-rounds))

(deftest a-row-says-what-the-rounds-say
  (let [[row] (rows-beside {"Go" 0.6})]
    (is (= {:median 0.625 :min 0.5 :max 0.75 :count 2} (:ratio row)))
    (is (= [false true] ((juxt :met? :floor?) row)))
    (is (= {:median 0.75 :min 0.5 :max 1.0 :count 2} (:plain row)))
    (is (= {:median 0.875 :min 0.75 :max 1.0 :count 2} (:plain-ratio row))))
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

(deftest a-result-says-how-far-the-cores-were-from-each-other
  (is (= "60 to 340 ns from one core to the other and back; cores moved in 1 of 2 rounds that count, 3 more were done again"
         (#'peers/distances [{:distances [60 340] :again 3} {:distances [300 290] :again 0} {}])))
  (is (nil? (#'peers/distances [{:distances []} {}]))))

;; --- peers

(deftest little-work-is-done-again-and-again
  (is (= 60.0 (#'serve/answer {"spawn" (fn [n] (* 10 (long n)))} ["times" "3" "spawn" "2"]))))

(deftest words-mean-the-peers-that-begin-with-them
  (is (= ["Go" "core.async, go" "core.async, io-thread"] (peers/named ["go" "core.async"])))
  (is (thrown-with-msg? ExceptionInfo #"There is no peer called Rust" (peers/named ["Rust"])))
  (doseq [word ["ringg" "scal"]]
    (is (thrown-with-msg? ExceptionInfo (re-pattern (str "There is no workload called " word "\\. There are: .*; scaling\\.")) (peers/run {:groups #{word}})))))

(deftest a-word-means-a-suite-or-titles
  (let [meant (fn [word] (map :command (filter #(workloads/meant? word %) workloads/timed)))]
    (is (= ["threadring" "big" "skynet" "uct" "superv" "superv-reports" "fib" "pubsub"] (meant "savina")))
    (is (= ["skynet"] (meant "skynet")))
    (is (empty? (meant "savin")))
    (testing "by whole words, or by the command"
      (is (= ["fib"] (meant "fib")))
      (is (= ["ring" "ring-actors"] (meant "ring")))
      (is (= ["spawn-join"] (meant "spawn-join")))
      (is (= ["server-call" "server-call-activated"] (meant "gen-server call, 1 caller")))
      (is (every? empty? (map meant ["rin" "ing" "threadrin" "."])))))
  (is (thrown-with-msg? ExceptionInfo #"There is no workload called savin\." (peers/run {:groups #{"savin"}})))
  (is (= [true true true false] (mapv peers/known? ["savina" "scaling" "fan-in" "savin"]))))

(deftest ours-without-options-has-none-of-the-launcher
  (let [options (set (machine/launcher-options))
        given (fn [named] (filter options (flatten ((:command (programs/all named)) rounds/flags))))]
    (is (= (sort options) (sort (distinct (given "Magnetar")))))
    (is (seq (given "Magnetar, closed")))
    (is (empty? (given "Magnetar, plain")))))

(deftest ours-without-options-is-measured-where-time-is
  (is (= workloads/ours (#'peers/ours {:unit "ns"})))
  (is (= ["Magnetar"] (#'peers/ours {:unit "bytes"}))))

(deftest a-peer-that-is-not-installed-has-a-row-that-says-so
  (let [workload (assoc (workloads/line "x" "x" [1] 1 {"Go" nil "Erlang" nil "jox" nil}) :unit "bytes")
        measure (fn [_ names _] [(zipmap names (repeat 2.0))])
        rows-of (fn [found] (let [rows (atom nil)]
                              (with-out-str (reset! rows (:rows (#'peers/measured workload measure found {}))))
                              (map (juxt :peer :missing) @rows)))]
    (with-redefs [peers/kept identity]
      (is (= [["Go" nil] ["Erlang" "not installed"]] (rows-of {:there #{"Magnetar" "Go"} :missing #{"Erlang"}})))
      (is (= [["Go" "not installed"]] (rows-of {:there #{"Magnetar"} :missing #{"Go"}}))))))

(deftest a-wrong-result-fails
  (is (nil? (serve/check 45 (reduce + (range 10)))))
  (is (thrown-with-msg? ExceptionInfo #"wrong: 44 instead of 45" (serve/check 45 44))))

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
        row {:title "ring" :numbers [1] :operations 10 :unit "ns" :peer "Go" :ours spread :theirs spread :ratio ratio}]
    {:machine {:cores 2} :settings {:quick true}
     :rows [(assoc row :closed ratio :plain ratio :target 0.5 :met? true :floor? true)
            (rows/missing row "Kotlin" "not installed")
            (assoc row :peer "jox" :target 0.3 :met? false :floor? true)
            (assoc row :peer "Erlang" :target 0.1 :met? false :floor? false)
            (assoc row :peer "core.async, its better mode" :mode "core.async, io-thread")]}))

(def ^:private result-of-three
  (let [row (fn [title peer ratio & {:as more}]
              (merge {:title title :unit "ns" :peer peer :ours spread :theirs {:median 84.2} :ratio {:median ratio}} more))]
    {:machine {:date "2026-11-25T20:14:41Z" :cores 2}
     :rows [(row "ring" "Go" 0.4) (row "ring" "Erlang" 0.7)
            (rows/missing {:title "ring" :unit "ns"} "Pekko" "not installed")
            (row "ring" "core.async, its better mode" 0.9 :mode "core.async, go")
            (row "skynet" "Go" 23.46 :plain-ratio {:median 31.2}) (row "skynet" "Erlang" 6.3)
            (row "bytes of an idle fiber" "Go" 1.5 :unit "bytes" :ours {:median 900.0})]}))

(def ^:private short-table
  ["| workload | ours | best peer | ratio | ratio without options |"
   "| --- | --- | --- | --- | --- |"
   "| skynet | 2.00 ms | Go, 84.2 ns | 23.5 | 31.2 |"
   "| bytes of an idle fiber | 900 bytes | Go, 84.2 bytes | 1.50 | - |"
   "| ring | 2.00 ms | Erlang, 84.2 ns | 0.70 | - |"])

(deftest the-short-table-has-the-best-peer-of-each-workload-the-worst-ratio-first
  (is (= short-table (peers-report/short-table result-of-three))))

(deftest the-page-on-performance-leads-with-the-short-table
  (let [before (slurp (io/file (machine/home) "docs" "reference" "performance.md"))
        page (peers-report/with-summary before result-of-three)
        lines (str/split-lines page)]
    (is (= short-table (take 5 (drop-while #(not (str/starts-with? % "|")) lines))))
    (is (some #{"Written by `bin/magnetar bench peers` on 2026-11-25, on 2 cores."} lines))
    (is (some #(str/includes? % "with the options of [kernel/java.options]") lines))
    (testing "in its place, again and again"
      (is (= page (peers-report/with-summary page result-of-three)))
      (is (str/ends-with? page (second (str/split before #"<!-- end of figures -->" 2)))))))

(deftest the-page-says-what-is-met-and-what-is-not
  (let [lines (str/split-lines (peers-report/markdown a-result))
        there? (fn [line] (some #{line} lines))]
    (is (there? "Of 3 targets 1 are met, 1 missed, 1 below the floor, which is twice the target."))
    (is (there? "| ring | Erlang | 2.00 ms | 2.00 ms | 0.40 [0.30 0.60] | - | - | 0.1, **below the floor** |"))
    (is (there? "| ring | Go | 2.00 ms | 2.00 ms | 0.40 [0.30 0.60] | 0.40 [0.30 0.60] | 0.40 [0.30 0.60] | 0.5, met |"))
    (is (there? "| ring | Kotlin | - | not installed | - | - | - |  |"))
    (is (there? "| ring | core.async, its better mode (io-thread) | 2.00 ms | 2.00 ms | 0.40 [0.30 0.60] | - | - |  |"))
    (is (there? "- cores: 2"))))

(deftest the-page-has-one-table-whose-rows-have-as-many-cells-as-its-head
  (let [[table & more] (filter #(str/starts-with? (first %) "|")
                               (partition-by #(str/starts-with? % "|") (str/split-lines (peers-report/markdown a-result))))]
    (is (nil? more))
    (is (= 7 (count table)))
    (is (apply = (map #(count (re-seq #"\|" %)) table)))))
