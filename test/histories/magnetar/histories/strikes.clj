(ns magnetar.histories.strikes
  "What happens to nodes in JVMs of their own, drawn from a seed."
  (:require
   [magnetar.histories.machines :as machines]
   [magnetar.scope :as scope]
   [tickets.wires :as wires])
  (:import
   (java.util ArrayList Collections Random)))

(set! *warn-on-reflection* true)

(defn seeds
  "The seeds of n runs. The first one is magnetar.seed, or drawn."
  [n]
  (let [first-seed (or (Long/getLong "magnetar.seed") (rand-int 1000000))]
    (map #(+ (long first-seed) (long %)) (range n))))

(defn drawn
  "One of the values."
  [^Random random xs]
  (nth xs (.nextInt random (count xs))))

(defn shuffled
  "The values in an order that is drawn."
  [random xs]
  (let [all (ArrayList. ^java.util.Collection xs)]
    (Collections/shuffle all ^Random random)
    (vec all)))

(defn kill
  "Ends the node, and starts it again after a while."
  [machines node ms]
  (machines/kill machines node)
  (scope/sleep ms)
  (machines/start machines node))

(defn suspend
  "Suspends the node for a while."
  [machines node ms]
  (let [go-on (machines/suspend machines node)]
    (scope/sleep ms)
    (go-on)))

(defn cut-off
  "Cuts the node off from the others for a while: in both directions, or only what it sends, or only what it gets."
  [{:keys [wires]} node ms direction]
  (doseq [other (remove #{node} machines/nodes)]
    (when-not (= :gets direction) (wires/cut wires node other))
    (when-not (= :sends direction) (wires/cut wires other node)))
  (scope/sleep ms)
  (wires/mend wires))

(defn cut-pair
  "Cuts the node off from one other node for a while. The third one reaches both."
  [{:keys [wires]} node other ms]
  (wires/cut wires node other)
  (wires/cut wires other node)
  (scope/sleep ms)
  (wires/mend wires))
