(ns magnetar.dev.layers.graph
  "Layers and circles of a graph: a map from each node to the nodes that it depends on. Nodes are strings."
  (:require
   [clojure.set :as set]))

(set! *warn-on-reflection* true)

(defn- reachable [graph node]
  (loop [open (graph node), seen #{}]
    (if-some [next-node (first open)]
      (recur (into (disj open next-node) (set/difference (graph next-node) seen)) (conj seen next-node))
      seen)))

(defn- within
  "The graph without arrows that lead out of it or to the node itself."
  [graph]
  (into {} (for [[node targets] graph]
             [node (disj (set (filter graph targets)) node)])))

(defn- component [reached node]
  (into (sorted-set node) (filter #(contains? (reached %) node)) (reached node)))

(defn components
  "Map from each node to its strongly connected component, a sorted set; alone there if it is in no circle."
  [graph]
  (let [graph (within graph)
        reached (into {} (map (juxt identity #(reachable graph %))) (keys graph))]
    (into {} (map (juxt identity #(component reached %))) (keys graph))))

(defn circles
  "The components with more than one member, largest first."
  [graph]
  (->> (vals (components graph))
       distinct
       (filter #(< 1 (count %)))
       (sort-by (juxt (comp - count) first))))

(defn- condensed
  "The graph of the components; it has no circles."
  [graph]
  (let [component-of (components graph)]
    (within (reduce (fn [between [node targets]]
                      (update between (component-of node) (fnil into #{}) (keep component-of) targets))
                    {} graph))))

(defn- add-layer [graph layers node]
  (if (layers node)
    layers
    (let [layers (reduce #(add-layer graph %1 %2) layers (graph node))]
      (assoc layers node (inc (long (reduce max 0 (map layers (graph node)))))))))

(defn- component-layers [components]
  (reduce #(add-layer components %1 %2) {} (keys components)))

(defn layers
  "Map from each node to its layer: 1 if it depends on nothing, else one more than the highest layer below it.
  The members of a circle share a layer."
  [graph]
  (into {} (for [[component layer] (component-layers (condensed graph)), node component]
             [node layer])))

(defn- step-down [components layers component]
  (let [below (dec (long (layers component)))]
    (first (sort-by first (filter #(= below (layers %)) (components component))))))

(defn longest-chain
  "One longest chain from the top layer down; each link is a sorted set, with more than one node if it is a circle."
  [graph]
  (let [components (condensed graph)
        layers (component-layers components)
        top (first (sort-by (juxt (comp - layers) first) (keys components)))]
    (take-while some? (iterate #(step-down components layers %) top))))
