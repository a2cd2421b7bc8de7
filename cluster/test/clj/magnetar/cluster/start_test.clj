(ns magnetar.cluster.start-test
  "Nodes that `cluster/start` starts over JGroups: behind another address, and under a supervisor."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.cluster.leaks :refer [eventually-empty threads]]
   [magnetar.cluster.simulated :refer [connected full-name in-process join nodes run-on start watch-nodes]]
   [magnetar.cluster.support :as support :refer [await-view node with-nodes]]
   [magnetar.gen-server :as gs]
   [magnetar.report :as report]
   [magnetar.supervisor :as sup]
   [magnetar.test :as mt])
  (:import
   (java.io Closeable IOException)
   (java.net InetAddress ServerSocket Socket)))

(set! *warn-on-reflection* true)

;; ---- another address

(defn- copy [^Socket from ^Socket to]
  (Thread/startVirtualThread
    #(try
       (.transferTo (.getInputStream from) (.getOutputStream to))
       (catch IOException _)
       (finally (.close from) (.close to)))))

(defn- forward
  "Listens at a free port of the loopback address, and connects each one that dials it with the port that `target` has."
  ^ServerSocket [target]
  (let [server (ServerSocket. 0 50 (InetAddress/getLoopbackAddress))]
    (Thread/startVirtualThread
      #(try
         (loop []
           (let [from (.accept server)
                 to (Socket. (InetAddress/getLoopbackAddress) (int @target))]
             (copy from to)
             (copy to from))
           (recur))
         (catch IOException _)))
    server))

(defn- free-port []
  (with-open [socket (ServerSocket. 0 50 (InetAddress/getLoopbackAddress))]
    (.getLocalPort socket)))

(defn- address-of [^ServerSocket server]
  (str "127.0.0.1:" (.getLocalPort server)))

(deftest a-node-is-found-at-the-address-that-it-tells
  (let [port (free-port)]
    (with-open [nat (forward (delay port))]
      (with-nodes [a (node "a" :port port :advertise (address-of nat))
                   b (node "b" :peers [(address-of nat)])
                   c (node "c" :peers [(:address b)])]
        (is (= (address-of nat) (:address a)))
        (run! #(await-view % ["a" "b" "c"]) [a b c])
        (support/send-text c a "to the other address")
        (support/waited (:log a) #(some :from %))
        (is (= [["c" "to the other address"]] (support/frames a)))))))

(def ^:private options {:name "till@shop" :cookie "0123456789abcdef"})

(deftest the-address-that-is-told-is-the-one-of-the-options
  (cluster/start (assoc options :advertise "127.0.0.1:7801"))
  (is (= "127.0.0.1:7801" (cluster/address)))
  (cluster/stop)
  (is (= "`cluster/start`: :advertise is an address with a port that is not 0; this is \"127.0.0.1:0\"."
         (try (cluster/start (assoc options :advertise "127.0.0.1:0")) (catch IllegalArgumentException e (ex-message e))))))

;; ---- under a supervisor

(defn- quietly
  "Calls f while nothing is printed about the server that is killed."
  [f]
  (let [hook (fn [_])]
    (report/add-hook :report hook)
    (try (f) (finally (report/remove-hook :report hook)))))

(defn- specs [start]
  {:children [{:id :cluster :start start :shutdown 15000}]})

(deftest a-supervisor-starts-the-membership-again
  (quietly
    (fn []
      (actor/with-process {}
        (let [[_ tree] (sup/start-link (specs [cluster/start-link options]))
              first-one (actor/whereis hub/server-name)]
          (is (= "till@shop" (actor/node)))
          (actor/exit first-one :kill)
          (mt/wait-until #(let [now (actor/whereis hub/server-name)]
                            (and now (not= first-one now) (= "till@shop" (actor/node))))
                         {:timeout support/limit-ms})
          (is (re-matches #"127\.0\.0\.1:\d+" (cluster/address)))
          (gs/stop tree)
          (is (= "nonode@nohost" (actor/node)))))
      (is (= [] (eventually-empty threads))))))

(defn- supervised
  "Supervises the membership of the node."
  [net node]
  (sup/start-link (specs #(cluster/start-link {:name (full-name node)
                                               :cookie "0123456789abcdef"
                                               :network (mt/endpoint net node)})))
  (receive :never nil))

(deftest the-others-see-a-node-go-and-come-when-its-supervisor-restarts-it
  (quietly
    (fn []
      (is (= [[:nodeup "c@sim" {}] [:nodedown "c@sim" {:reason :lost}] [:nodeup "c@sim" {}] ["b@sim" "c@sim"]]
             (mt/simulate {:seed 1}
               (let [net (mt/network)
                     told (atom [])]
                 (run! #(start net %) [:a :b])
                 (connected :a :b)
                 (watch-nodes :a told)
                 (mt/start-node :c)
                 (run-on :c supervised net :c)
                 (connected :a :b :c)
                 (mt/on-node :c (in-process #(actor/exit (actor/whereis hub/server-name) :kill)))
                 (mt/wait-until #(= 3 (count @told)) {:timeout 20000})
                 (conj @told (nodes :a)))))))))

(defn- start-after-a-kill
  "Starts the membership of a node again when its server was killed just now: the answer, and what the other node sees."
  [seed options]
  (mt/simulate {:seed seed}
    (let [net (mt/network)]
      (run! #(start net %) [:a :b])
      (connected :a :b)
      (mt/on-node :b (in-process #(actor/exit (actor/whereis hub/server-name) :kill)))
      (let [answer (join net :b options)]
        (mt/wait-until #(= 1 (count (nodes :a))) {:timeout 60000})
        [answer (nodes :a)]))))

(deftest a-start-waits-for-the-end-of-a-membership-whose-server-was-killed
  (quietly
    (fn []
      (doseq [seed (range 20)]
        (is (= [:ok ["b@sim"]] (start-after-a-kill seed {})) seed)
        (is (= [:ok ["new@sim"]] (start-after-a-kill seed {:name "new@sim"})) seed)))))
