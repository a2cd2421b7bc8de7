(ns magnetar.network-test
  "The simulated network: it keeps the contract in each run, and the seed decides what happens in it."
  (:require
   [clojure.set :as set]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :refer [spawn]]
   [magnetar.broken-networks :as broken]
   [magnetar.network-contract :as contract]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.network Member Network Network$Events View)))

(set! *warn-on-reflection* true)

(defn- node [i]
  (keyword (str "n" i)))

(defn- world [net networks]
  {:networks networks
   :on (fn [i f] (mt/on-node (node i) f))
   :start (fn [i f] (mt/on-node (node i) #(spawn f)) nil)
   :cut (fn [from to one-way?] (mt/cut net (mapv node from) (mapv node to) {:one-way one-way?}))
   :heal #(mt/heal net)
   :crash #(mt/crash-node (node %))
   :until #(mt/wait-until % {:timeout 100000})
   :settle #(scope/sleep 10000)
   :window 262144})

(defn- maker
  "Makes worlds in a simulation; `wrap` changes each network."
  ([options] (maker options identity))
  ([options wrap]
   (fn [n f]
     (mt/simulate (merge {:max-steps 10000000} options)
       (let [net (mt/network)]
         (dotimes [i n] (mt/start-node (node i)))
         (f (world net (mapv #(wrap (mt/endpoint net (node %))) (range n)))))))))

(deftest the-simulated-network-keeps-the-contract
  (doseq [item (keys contract/items)
          seed (range 10)]
    (testing (str item ", seed " seed)
      (contract/run (maker {:seed seed}) item)
      (is true))))

(deftest each-broken-network-is-caught
  (doseq [[defect [wrap items]] broken/networks
          item items]
    (is (thrown? Exception (contract/run (maker {:seed 1} wrap) item)) (str defect " is not caught by " item))))
