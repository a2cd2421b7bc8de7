(ns magnetar.cluster.monitor-test
  "Monitors of processes on a node that reads nothing."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.cluster.simulated :as simulated :refer [run-on start]]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(defn- flood
  "Sends more to the node than its queue takes."
  [node]
  (let [text (apply str (repeat 100000 "x"))]
    (dotimes [_ 20]
      (! [:sink node] text))))

(defn- watch
  "Notes that the monitor is made, and why it has fired."
  [noted how monitor]
  (let [ref (monitor [:nothing "b@sim"])]
    (swap! noted assoc how :made)
    (receive
      [:DOWN ref _ _ why] (swap! noted assoc how why))))

(deftest a-monitor-of-a-server-does-not-wait-for-room
  (doseq [seed (range 2)]
    (is (= [{:at-once :made} {:at-once :noproc :usual :noproc}]
           (mt/simulate {:seed seed}
             (let [net (mt/network {:latency [1 20] :detector 60000})
                   noted (atom {})]
               (run! #(start net %) [:a :b])
               (simulated/connected :a :b)
               (mt/cut net [:a] [:b] {:one-way true})
               (run-on :a flood "b@sim")
               (scope/sleep 5000)
               (run-on :a watch noted :at-once monitors/monitor-at-once)
               (run-on :a watch noted :usual actor/monitor)
               (scope/sleep 5000)
               (let [meanwhile @noted]
                 (mt/heal net)
                 (mt/wait-until #(= #{:noproc} (set (vals @noted))) {:timeout 60000 :else nil})
                 [meanwhile @noted])))))))
