(ns magnetar.peers-test
  "The other nodes that this one knows: what they cost when they are gone, and what their pids still say."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.impl.runtime]
   [magnetar.support :refer [eventually]])
  (:import
   (magnetar.kernel.process Peer Peers Pid Transport)))

(set! *warn-on-reflection* true)

(def ^:private ^Transport transport (reify Transport))

(defn- peer ^Peer [name creation]
  (Peers/peer name creation transport))

(defn- number [^Peer peer]
  (.node (.pid peer 1)))

(deftest incarnations-of-a-node-have-one-number-and-names-have-several
  (let [a1 (peer "a@peers" 1)
        a2 (peer "a@peers" 2)
        b (peer "b@peers" 1)]
    (is (identical? a1 (peer "a@peers" 1)))
    (is (not (identical? a1 a2)))
    (is (= (number a1) (number a2)))
    (is (distinct? 0 (number a1) (number b)))))

(deftest a-pid-that-was-read-from-text-leads-to-its-node
  (let [a (peer "a@peers" 1)
        read (fn [n creation] (Pid. n 5 creation nil))]
    (is (= "a@peers" (.nodeName ^Pid (read (number a) 1))))
    (is (nil? (.nodeName ^Pid (read (number a) 99))))
    (is (nil? (.nodeName ^Pid (read Integer/MAX_VALUE 1))))))

;; With a search of all others for each new one, this would not end.
(deftest many-nodes-are-known-at-once
  (let [many (mapv #(peer "many@peers" %) (range 100000))]
    (is (= 1 (count (set (map number many)))))))

(deftest nodes-that-are-gone-leave-nothing
  (let [kept (peer "kept@peers" 1)
        n (number kept)]
    (dotimes [i 20000]
      (peer (str i "@peers") i)
      (peer "restarted@peers" i))
    (is (eventually (do (System/gc)
                        (peer "next@peers" (System/nanoTime))
                        (< (Peers/size) 3000))))
    (is (= [n n] [(number kept) (number (peer "kept@peers" 2))]))))
