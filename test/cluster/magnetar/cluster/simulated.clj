(ns magnetar.cluster.simulated
  "Nodes of a simulation that are in a cluster."
  (:require
   [magnetar.actor :as actor :refer [receive self spawn]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.impl.frames :as frames]
   [magnetar.report :as report]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.network Network)))

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

(defn losing-proofs
  "The network, which loses the proofs that its node sends, while the atom is true."
  [^Network network lossy]
  (reify Network
    (join [_ events] (.join network events))
    (view [_] (.view network))
    (send [_ to frame]
      (when-not (and @lossy (= :proof (:kind (frames/parsed frame))))
        (.send network to frame)))
    (cut [_ other] (.cut network other))
    (address [_] (.address network))
    (leave [_] (.leave network))))

(defn start-losing
  "Starts the node, and joins. The proofs that it sends are lost while the atom is true."
  [net node lossy]
  (mt/start-node node)
  (join net node {:network (losing-proofs (mt/endpoint net node) lossy)}))

(defn nodes
  "The nodes that this one is connected with."
  [node]
  (mt/on-node node cluster/nodes))

(defn connected
  "Waits until each node is connected with all others."
  [& all]
  (mt/wait-until (fn [] (every? #(= (sort (map full-name (remove #{%} all))) (nodes %)) all)) {:timeout 60000}))

(defn silently
  "The value of f, during which failures and reports are not printed."
  [f]
  (let [hooks (mapv #(vector % (report/add-hook % (fn [_]))) [:report :failure])]
    (try
      (f)
      (finally (run! #(apply report/remove-hook %) hooks)))))

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
