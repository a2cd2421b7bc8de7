(ns magnetar.cluster.takeover-test
  "A singleton in three JVMs, that writes to a register: its JVM is stopped and goes on, and the next one is killed."
  {:slow true
   :wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.cluster.nodes :as nodes :refer [on]]
   [magnetar.cluster.support :as support]
   [magnetar.cluster.writer :as writer])
  (:import
   (java.net ServerSocket)))

(set! *warn-on-reflection* true)

(defn- begin [child name peers port]
  (on child (list 'do '(require 'magnetar.cluster.writer) (list 'magnetar.cluster.writer/begin name peers port))))

(defn- last-write [{:keys [writes]}]
  (peek writes))

(defn- await-writer
  "Waits until a write of another node than the one given was taken; its entry."
  [register other]
  (support/waited register #(let [{:keys [node taken] :as write} (last-write %)]
                              (when (and taken (not= node other)) write))))

(defn- turns
  "A write of each singleton whose writes were taken, as often as it has followed another one."
  [{:keys [writes]}]
  (map first (partition-by :writer (filter :taken writes))))

(defn- writers
  "How many singletons have written with each token."
  [{:keys [writes]}]
  (update-vals (group-by :token writes) #(count (distinct (map :writer %)))))

(defn- stopped-and-killed [children {:keys [register port]}]
  (let [names (zipmap ["a@sim" "b@sim" "c@sim"] children)
        address (begin (children 0) "a@sim" [] port)
        _ (doseq [name ["b@sim" "c@sim"]] (begin (names name) name [address] port))
        old (await-writer register nil)
        _ (doseq [[_ child] names] (on child '(mt/wait-until #(= 2 (count (magnetar.cluster/nodes))) {:timeout support/limit-ms})))
        _ (doseq [[_ child] names] (on child '(mt/wait-until magnetar.cluster/active? {:timeout support/limit-ms})))
        _ (nodes/signal (names (:node old)) "STOP")
        new (await-writer register (:node old))
        _ (nodes/signal (names (:node old)) "CONT")
        refused (on (names (:node old)) (list 'magnetar.cluster.writer/write port (:node old) (:writer old) (:token old)))
        _ (on (names (:node old)) '(mt/wait-until magnetar.cluster/active? {:timeout support/limit-ms}))
        _ (nodes/end (names (:node new)))
        third (await-writer register (:node new))]
    {:refused refused :found [old new third]}))

(deftest a-stopped-node-is-succeeded-and-its-late-writes-are-refused
  (let [children (vec (repeatedly 3 #(nodes/jvm "-XX:TieredStopAtLevel=1" "-XX:+UseSerialGC")))
        {:keys [^ServerSocket socket] :as register} (writer/register)]
    (try
      (let [{:keys [refused found]} (stopped-and-killed children register)
            register @(:register register)]
        (is (= "stale" refused))
        (is (apply < (map :token found)))
        (is (every? (set (map :writer (turns register))) (map :writer found)))
        (is (apply < (map :token (turns register))) "none writes when its turn is over")
        (is (every? #{1} (vals (writers register)))))
      (finally
        (run! nodes/end children)
        (.close socket)))))
