(ns magnetar.cluster.api-test
  "The public functions, on nodes of a simulation and on this JVM."
  (:refer-clojure :exclude [flush])
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive self spawn]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.impl.global :as global]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.cluster.impl.leader :as leader]
   [magnetar.cluster.simulated :refer [in-process join nodes start]]
   [magnetar.gen-server :as gs]
   [magnetar.report :as report]
   [magnetar.test :as mt])
  (:import
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute PosixFilePermissions)))

(set! *warn-on-reflection* true)

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

;; ---- failures

(defn- hub-of-this-node []
  (first (actor/process-info (actor/whereis hub/server-name) :links)))

(defn- seen-by-the-other
  "What another node is told, and the name of the node, when `victim` of the node was killed; and whether it can start again."
  [victim]
  (let [net (mt/network)
        told (atom [])]
    (start net :a {})
    (mt/on-node :a (fn []
                     (spawn (fn []
                              (cluster/monitor-nodes true)
                              (loop [] (swap! told conj (receive x x)) (recur))))
                     nil))
    (start net :b {})
    (mt/wait-until #(= 1 (count @told)) {:timeout 10000})
    (mt/on-node :b (fn [] (actor/exit (victim) :kill)))
    (mt/wait-until #(= 2 (count @told)) {:timeout 10000})
    (mt/wait-until (fn [] (mt/on-node :b #(= "nonode@nohost" (actor/node)))) {:timeout 10000})
    @told))

(deftest a-node-whose-server-or-hub-was-killed-leaves
  (let [hook (fn [_])] ; the server says why it has ended
    (report/add-hook :report hook)
    (try
      (doseq [victim [#(actor/whereis hub/server-name) hub-of-this-node]
              seed (range 5)]
        (is (= [[:nodeup "b@sim"] [:nodedown "b@sim"]] (mt/simulate {:seed seed} (seen-by-the-other victim)))))
      (finally (report/remove-hook :report hook)))))

(deftest an-unknown-request-does-not-end-the-membership
  (is (= [[:error :unknown-request] "a@sim"]
         (mt/simulate {:seed 1}
           (let [net (mt/network)]
             (start net :a {})
             (mt/on-node :a #(do (gs/cast hub/server-name :x)
                                 [(gs/call hub/server-name :x) (actor/node)])))))))

(deftest a-node-whose-servers-do-not-start-leaves-the-network
  (doseq [failing [#'leader/start-link #'global/start-link]]
    (is (= [:no-room "nonode@nohost" true :ok ["b@sim"]]
           (mt/simulate {:seed 1}
             (let [net (mt/network)]
               (start net :b {})
               (mt/start-node :a)
               (into (with-redefs-fn {failing (constantly [:error :no-room])}
                       #(vector (join net :a) (mt/on-node :a actor/node)
                                (mt/wait-until (fn [] (empty? (nodes :b))) {:timeout 20000})))
                     [(join net :a) (nodes :a)])))))))

;; ---- this JVM

(defn- refusal [options]
  (try (cluster/start options) (catch IllegalArgumentException e (ex-message e))))

(deftest wrong-options-are-named
  (let [good {:name "a@b" :cookie "0123456789abcdef"}]
    (is (= "`cluster/start`: :name is a string name@host; this is :till." (refusal (assoc good :name :till))))
    (is (re-find #"does not know :peer;.* Is :peers meant" (refusal (assoc good :peer []))))
    (is (= "`cluster/start`: :bind is an address host:port; this is \"7800\"." (refusal (assoc good :bind "7800"))))
    (is (= "`cluster/start`: :spawnable is a set of vars; this is [inc]." (refusal (assoc good :spawnable ['inc]))))
    (is (re-find #":tls is a map of :certfile, :keyfile and :cacertfile" (refusal (assoc good :tls {:certfile "a"}))))
    (is (re-find #"outside of the loopback address, needs TLS" (refusal (assoc good :bind "10.1.2.3:0"))))
    (is (re-find #"has 5 bytes, and needs 16 or more" (refusal (assoc good :cookie "short"))))
    (is (= "`cluster/start`: :insecure is true or false; this is \"false\"." (refusal (assoc good :insecure "false"))))
    (is (re-find #":bind is an address with a port" (refusal (assoc good :dns "nodes.example"))))
    (is (= (str "`cluster/start`: :bind is one address of this machine, which others can dial, and not the wildcard address; "
                "this is \"0.0.0.0:7800\".")
           (refusal (assoc good :bind "0.0.0.0:7800" :insecure true))))
    (is (= "`cluster/start`: :buffer is a number of bytes from 1 to 16777216; this is 4294967296." (refusal (assoc good :buffer 4294967296))))
    (is (= "`cluster/start`: :detect is {:after ms :every ms}, where :after is twice :every or more; this is {:after 1000, :every 2000}."
           (refusal (assoc good :detect {:after 1000 :every 2000}))))
    (is (not (re-find #"0123456789abcdef"
                      (pr-str (try (cluster/start (assoc good :peer [])) (catch IllegalArgumentException e (ex-data e)))))) "no error shows the cookie")
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
