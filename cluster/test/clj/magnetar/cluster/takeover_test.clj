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

(defn- ms [from to]
  (quot (- (long to) (long from)) 1000000))

(defn- story
  "What a register says of the writes with two tokens: how long there was none, and the old ones behind the first new one."
  [{:keys [writes]} old new]
  (let [[before after] (split-with #(not= new (:token %)) writes)
        first-new (first after)
        last-old (last (filter #(= old (:token %)) before))
        late (filter #(= old (:token %)) after)]
    {:takeover-ms (ms (:at last-old) (:at first-new))
     :late-writes (count late)
     :late-ms (if (seq late) (ms (:at (first late)) (:at (last late))) 0)
     :late-taken (count (filter :taken late))}))

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
        refused (on (names (:node old)) (list 'magnetar.cluster.writer/write port (:node old) (:token old)))
        story-of-stop (story @register (:token old) (:token new))
        _ (on (names (:node old)) '(mt/wait-until magnetar.cluster/active? {:timeout support/limit-ms}))
        _ (nodes/end (names (:node new)))
        third (await-writer register (:node new))]
    {:refused refused :stop story-of-stop :kill (story @register (:token new) (:token third))
     :tokens (map :token [old new third])}))

(deftest a-stopped-node-is-succeeded-and-its-late-writes-are-refused
  (let [children (vec (repeatedly 3 #(nodes/jvm "-XX:TieredStopAtLevel=1" "-XX:+UseSerialGC")))
        {:keys [^ServerSocket socket] :as register} (writer/register)]
    (try
      (let [{:keys [refused stop kill tokens] :as measured} (stopped-and-killed children register)]
        (is (= "stale" refused))
        (is (apply < tokens))
        (is (= [0 0] (map :late-taken [stop kill])) (pr-str measured))
        (is (every? #(< (long (:takeover-ms %)) (long support/limit-ms)) [stop kill]) (pr-str measured)))
      (finally
        (run! nodes/end children)
        (.close socket)))))
