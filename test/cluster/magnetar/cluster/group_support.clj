(ns magnetar.cluster.group-support
  "Simulated nodes of a cluster with members of groups."
  (:require
   [magnetar.actor :refer [receive spawn]]
   [magnetar.cluster.simulated :as simulated]
   [magnetar.etf :as etf]
   [magnetar.pg :as pg]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.process Peers Pid)))

(set! *warn-on-reflection* true)

(defn join-again
  "Joins the cluster on a node that runs, as soon as its name is free."
  [net node]
  (mt/wait-until #(= :ok (simulated/join net node)) {:timeout 60000}))

(defn three
  "The network of three connected nodes, :a, :b and :c."
  []
  (let [net (mt/network {:latency [1 50] :detector 200})]
    (run! #(simulated/start net %) [:a :b :c])
    (simulated/connected :a :b :c)
    net))

(defn idle
  "A process that does nothing until it is killed."
  []
  (spawn (fn [] (receive :never nil))))

(defn id
  "What a pid is on any node."
  [^Pid pid]
  [(.nodeName pid) (.serial pid) (if (zero? (.node pid)) (Peers/incarnation Peers/CLUSTER) (.creation pid))])

(defn- members-by [groups members]
  (into {} (map (fn [group] [group (frequencies (map id (members group)))])) (groups)))

(defn seen
  "The groups that the node knows, with their members as ids and how often."
  [node]
  (mt/on-node node #(members-by pg/which-groups pg/members)))

(defn agreed
  "The groups that the nodes have together, of which each knows its own members."
  [nodes]
  (apply merge-with merge {} (map (fn [node] (mt/on-node node #(members-by pg/which-local-groups pg/local-members))) nodes)))

;; ---- what a node does not read, or not soon

(defrecord Order [number])

(defn orders
  "The extension of orders, which are read when the door is open."
  [door]
  (etf/extension {:tag :my/order
                  :class Order
                  :write :number
                  :read (fn [n]
                          (when-not @door (mt/wait-until #(deref door) {:timeout 600000}))
                          (->Order n))}))

(defn start-all
  "The network of connected nodes, each with its options."
  [options]
  (let [net (mt/network {:latency [1 20] :detector 200})]
    (run! mt/start-node (keys options))
    (run! (fn [[node more]] (simulated/join net node more)) options)
    (apply simulated/connected (keys options))
    net))
