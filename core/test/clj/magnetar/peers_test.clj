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

(deftest a-node-has-its-name-while-a-user-of-it-is-left
  (try
    (let [before (Peers/incarnation)]
      (is (true? (Peers/setName "n@peers" :cluster)))
      (is (true? (Peers/setName "n@peers" :erlang)))
      (is (false? (Peers/setName "other@peers" :third)))
      (is (true? (Peers/setName nil :third)))
      (is (true? (Peers/setName nil :cluster)))
      (is (true? (Peers/setName nil :cluster)) "once more changes nothing")
      (is (= ["n@peers" before] [(Peers/name) (Peers/incarnation)]))
      (is (true? (Peers/setName "n@peers" :cluster)))
      (is (apply distinct? (map #(Peers/incarnation %) [:cluster :erlang])) "who takes the name again is another node")
      (is (true? (Peers/setName nil :cluster)))
      (is (true? (Peers/setName nil :erlang)))
      (is (= "nonode@nohost" (Peers/name)))
      (is (not= before (Peers/incarnation))))
    (finally (run! #(Peers/setName nil %) [:cluster :erlang]))))

(deftest a-name-of-a-node-that-is-not-connected-leads-to-the-transports-in-their-order
  (let [asked (atom [])
        dialer (fn [n] (reify Transport (connect [_ node] (swap! asked conj [n node]))))
        [a b] [(dialer :a) (dialer :b)]]
    (is (nil? (Peers/reach "far@peers")))
    (run! #(Peers/addDialer %) [a b])
    (try
      (is (nil? (Peers/reach "far@peers")))
      (is (= [[:a "far@peers"] [:b "far@peers"]] @asked))
      (finally (run! #(Peers/removeDialer %) [a b])))
    (is (nil? (Peers/reach "far@peers")))
    (is (= 2 (count @asked)))))
