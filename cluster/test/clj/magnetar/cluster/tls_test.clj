(ns magnetar.cluster.tls-test
  "Nodes of `cluster/start` with TLS, in JVMs of their own."
  {:slow true
   :wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.certified :as certified]
   [magnetar.cluster.nodes :as nodes :refer [on]]
   [magnetar.cluster.support :as support]))

(set! *warn-on-reflection* true)

(defn- start-on [child files options]
  (on child (list 'do '(require 'magnetar.cluster.certified) (list 'magnetar.cluster.certified/start files options))))

(deftest three-nodes-of-cluster-start-talk-by-tls
  (let [[b c :as children] (vec (repeatedly 2 #(nodes/jvm "-XX:TieredStopAtLevel=1" "-XX:+UseSerialGC")))
        [server client] (map certified/files ["server" "client"])]
    (support/with-refusals
      (try
        (let [address (certified/start server {:name "a@shop"})]
          (start-on b client {:name "b@shop" :peers [address]})
          (start-on c server {:name "c@shop" :peers [address]})
          (is (= ["b@shop" "c@shop"] (certified/connected 2)))
          (is (= ["a@shop" "c@shop"] (on b '(magnetar.cluster.certified/connected 2))))
          (run! #(on % '(services)) children)
          (is (= {:order 1} (nodes/ask "b@shop" {:order 1})))
          (is (= [:who "c@shop"] (on b '(call "c@shop" :who))))
          (is (= [:pong :pang] (map cluster/ping ["c@shop" "d@shop"])))
          (is (= true (cluster/disconnect "b@shop")))
          (is (= [["c@shop"] ["c@shop"] ["a@shop" "b@shop"]]
                 [(cluster/nodes) (on b '(magnetar.cluster.certified/connected 1)) (on c '(magnetar.cluster.certified/connected 2))]))
          (is (= [true {:order 2}] [(cluster/connect "b@shop") (nodes/ask "b@shop" {:order 2})]))
          (cluster/stop)
          (is (= ["c@shop"] (on b '(magnetar.cluster.certified/connected 1)))))
        (finally
          (when (not= "nonode@nohost" (certified/local-name))
            (cluster/stop))
          (run! nodes/end children))))))
