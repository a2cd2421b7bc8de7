(ns magnetar.cluster.simulated
  "Nodes of a simulation that are in a cluster."
  (:require
   [magnetar.actor :as actor :refer [receive self spawn]]
   [magnetar.cluster :as cluster]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(defn full-name
  "The name that the node has in the cluster."
  [node]
  (str (name node) "@sim"))

(def cookie
  "The cookie of the nodes."
  "0123456789abcdef")

(defn join
  "Joins the cluster on a node that runs; returns :ok or why not."
  ([net node] (join net node {}))
  ([net node options]
   (mt/on-node node #(let [[how x] (cluster/start (merge {:name (full-name node)
                                                          :network (mt/endpoint net node)
                                                          :cookie cookie}
                                                    options))]
                       (if (= :ok how) :ok x)))))

(defn start
  "Starts the node, and joins."
  ([net node] (start net node {}))
  ([net node options]
   (mt/start-node node)
   (join net node options)))

(defn nodes
  "The nodes that this one is connected with."
  [node]
  (mt/on-node node cluster/nodes))

(defn connected
  "Waits until each node is connected with all others."
  [& all]
  (mt/wait-until (fn [] (every? #(= (sort (map full-name (remove #{%} all))) (nodes %)) all)) {:timeout 60000}))

(defn in-process
  "A function that calls f in a process."
  [f]
  (fn [] (actor/with-process {} (f))))

(defn run-on
  "Starts a process on the node, which calls f with the arguments."
  [node f & args]
  (mt/on-node node #(do (apply actor/spawn* f args) nil)))

(defn watch-nodes
  "Adds to the atom what a process of the node is told about nodes, from now on."
  [node told]
  (mt/on-node node
    (in-process
      #(let [me (self)]
         (spawn (fn []
                  (cluster/monitor-nodes true {:reason true})
                  (actor/! me :ready)
                  (loop [] (swap! told conj (receive x x)) (recur))))
         (receive :ready nil)))))
