(ns magnetar.cluster.api-test
  "The public functions, on nodes of a simulation and on this JVM."
  (:refer-clojure :exclude [flush])
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive self spawn]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.impl.node :as node]
   [magnetar.test :as mt])
  (:import
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute PosixFilePermissions)))

(set! *warn-on-reflection* true)

(defn- start
  "Starts the node, and the server on it, over the simulated network."
  [net node options]
  (mt/start-node node)
  (mt/on-node node #(let [[how x] (node/start (merge {:name (str (name node) "@sim")
                                                      :network (mt/endpoint net node)
                                                      :cookie (.getBytes "0123456789abcdef")}
                                                     options))]
                      (if (= :ok how) :ok x))))

(defn- in-process [f]
  (fn [] (actor/with-process {} (f))))

(defn- answer [from] (! from [:from (actor/node)]))

(deftest nodes-are-known-when-the-start-returns
  (doseq [seed (range 10)]
    (is (= [:ok :ok ["b@sim"] ["a@sim"]]
           (mt/simulate {:seed seed}
             (let [net (mt/network)
                   started (mapv #(start net % {}) [:a :b])]
               (mt/wait-until (fn [] (seq (mt/on-node :a cluster/nodes))))
               (into started (map #(mt/on-node % cluster/nodes) [:a :b]))))))))

(deftest a-name-that-is-taken-is-refused-by-the-start
  (is (= [:ok [:refused "The name a@sim is taken by another node of the cluster. Start this one with another name."] "nonode@nohost"]
         (mt/simulate {:seed 1}
           (let [net (mt/network)]
             [(start net :a {})
              (start net :b {:name "a@sim"})
              (mt/on-node :b actor/node)])))))

(deftest nodes-that-come-and-go-are-told-of
  (is (= [[:nodeup "b@sim"] [:nodedown "b@sim"] [] :none]
         (mt/simulate {:seed 1}
           (let [net (mt/network)
                 told (atom [])]
             (start net :a {})
             (mt/on-node :a (fn []
                              (spawn (fn []
                                       (cluster/monitor-nodes true)
                                       (swap! told conj (receive x x) (receive x x))
                                       (cluster/monitor-nodes false)
                                       (swap! told conj (cluster/nodes))
                                       (swap! told conj (receive x x (after 20000 :none)))))
                              nil))
             (start net :b {})
             (mt/wait-until #(seq @told) {:timeout 10000 :else nil})
             (mt/on-node :b cluster/stop)
             (start net :c {})
             (mt/wait-until #(= 4 (count @told)) {:timeout 60000})
             @told)))))

(deftest a-process-is-started-elsewhere
  (is (= [[:from "b@sim"] :not-connected]
         (mt/simulate {:seed 1}
           (let [net (mt/network)]
             (start net :a {})
             (start net :b {:spawnable #{#'answer}})
             (mt/wait-until (fn [] (seq (mt/on-node :a cluster/nodes))))
             (mt/on-node :a
               (in-process #(do (cluster/spawn "b@sim" #'answer [(self)] {:link true})
                                [(receive x x)
                                 (try (cluster/spawn "c@sim" `answer [(self)])
                                      (catch clojure.lang.ExceptionInfo e
                                        (if (= :noconnection (:reason (ex-data e))) :not-connected e)))]))))))))

;; ---- this JVM

(defn- refusal [options]
  (try (cluster/start options) (catch IllegalArgumentException e (ex-message e))))

(deftest wrong-options-are-named
  (let [good {:name "a@b" :cookie "0123456789abcdef"}]
    (is (= "`cluster/start`: :name is a string name@host; this is :till." (refusal (assoc good :name :till))))
    (is (re-find #"does not know :peer;.* Is :peers meant" (refusal (assoc good :peer []))))
    (is (= "`cluster/start`: :bind is an address host:port; this is \"7800\"." (refusal (assoc good :bind "7800"))))
    (is (= "`cluster/start`: :spawnable is a set of vars; this is [inc]." (refusal (assoc good :spawnable ['inc]))))
    (is (re-find #"outside of the loopback address, needs TLS" (refusal (assoc good :bind "10.1.2.3:0"))))
    (is (re-find #"has 5 bytes, and needs 16 or more" (refusal (assoc good :cookie "short"))))
    (is (re-find #":cookie-file is the path of a file with the cookie" (refusal {:name "a@b"})))
    (is (= "nonode@nohost" (actor/node)))))

(deftest a-cookie-file-that-others-can-read-is-refused
  (let [file (Files/createTempFile "cookie" ".txt" (make-array FileAttribute 0))]
    (try
      (Files/writeString file "0123456789abcdef" (make-array java.nio.file.OpenOption 0))
      (Files/setPosixFilePermissions file (PosixFilePermissions/fromString "rw-r--r--"))
      (is (thrown-with-msg? java.io.IOException #"chmod 600" (cluster/start {:name "a@b" :cookie-file (str file)})))
      (finally (Files/delete file)))))

(deftest a-node-starts-and-stops-on-this-jvm
  (let [[how pid] (cluster/start {:name "till@shop" :cookie "0123456789abcdef"})]
    (is (= :ok how) pid)
    (is (= ["till@shop" []] [(actor/node) (cluster/nodes)]))
    (is (re-matches #"127\.0\.0\.1:\d+" (cluster/address)))
    (is (= [:error [:already-started pid]] (cluster/start {:name "other@shop" :cookie "0123456789abcdef"})))
    (is (= :ok (cluster/stop)))
    (is (= "nonode@nohost" (actor/node)))
    (is (= :noproc (:reason (try (cluster/stop) (catch clojure.lang.ExceptionInfo e (ex-data e))))))))
