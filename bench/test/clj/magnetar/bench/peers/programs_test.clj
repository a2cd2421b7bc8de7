(ns magnetar.bench.peers.programs-test
  "Each peer that can be built here, as the program it is, does each of its workloads; of what is not installed a line says so."
  {:slow true}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.bench.peers.little :as little]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.peers.workloads :as workloads]))

(def ^:private flags ["-Xmx512m"])

(defn- does-all [named commands]
  (let [peer (programs/start named {:flags flags})]
    (try
      (doseq [command commands]
        (is (little/does? (partial programs/ask peer) command) (str named ": " command)))
      (finally (programs/end peer)))))

(defn- does-its-workloads [named]
  (if-some [complaint (programs/build named)]
    (println complaint)
    (does-all named (little/commands-of named))))

(defn- computes [named]
  (when-not (programs/build named)
    (let [peer (programs/start named {:flags flags})]
      (try
        (is (little/computes? (partial programs/ask-all peer)) named)
        (finally (programs/end peer))))))

(deftest ours-does-its-workloads (does-its-workloads "Magnetar"))
(deftest go-does-its-workloads (does-its-workloads "Go"))
(deftest erlang-does-its-workloads (does-its-workloads "Erlang"))
(deftest ^:if-named core-async-with-go-blocks-does-its-workloads (does-its-workloads "core.async, go"))
(deftest ^:if-named core-async-with-io-threads-does-its-workloads (does-its-workloads "core.async, io-thread"))
(deftest ^:if-named jox-does-its-workloads (does-its-workloads "jox"))
(deftest ^:if-named kotlin-does-its-workloads (does-its-workloads "Kotlin"))
(deftest ^:if-named pekko-does-its-workloads (does-its-workloads "Pekko"))
(deftest virtual-threads-do-their-workloads (does-its-workloads "virtual threads"))

(deftest ours-without-hand-off-and-without-options-answer-too
  (doseq [named ["Magnetar, closed" "Magnetar, plain"]]
    (when-not (programs/build named)
      (does-all named ["ring-actors" "spawn" "skynet"]))))

(deftest peers-compute-beside-calls
  (run! computes (:peers workloads/computing)))
