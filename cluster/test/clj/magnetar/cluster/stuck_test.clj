(ns magnetar.cluster.stuck-test
  "Sessions that are stuck, as in a :read of the program that does not return, and that no kill ends."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.cluster.simulated :as simulated]
   [magnetar.etf :as etf]
   [magnetar.scope :as scope]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(defrecord ^:private Order [number])

(defn- orders
  "The extension of orders, which are read when the door is open, also by a process that is killed."
  [door reading]
  (etf/extension {:tag :my/order
                  :class Order
                  :write :number
                  :read (fn [n]
                          (reset! reading true)
                          (scope/shield (mt/wait-until #(deref door) {:timeout 6000000}))
                          (->Order n))}))

(defn- watch
  "Starts a process of b that monitors one of a and links to it, and adds what fires to the atom."
  [fired]
  (mt/on-node :a (fn [] (actor/register :clerk (spawn #(receive :never nil))) nil))
  (simulated/run-on :b (fn []
                         (actor/flag :trap-exit true)
                         (actor/monitor [:clerk "a@sim"])
                         (loop []
                           (swap! fired conj (receive [:DOWN _ _ _ why] [:down why] x x))
                           (recur)))))

(defn- with-a-stuck-session
  "The value of f of the network, an atom with what fires for monitors, and one with what b is told about nodes. The session of b with a is stuck."
  [f]
  (let [[door reading] (repeatedly 2 #(atom false))
        net (mt/network {:latency [1 20] :detector 1000})
        options {:extensions [(orders door reading)]}
        [fired told] (repeatedly 2 #(atom []))]
    (run! #(simulated/start net % options) [:a :b])
    (simulated/connected :a :b)
    (watch fired)
    (simulated/watch-nodes :b told)
    (scope/sleep 1000)
    (mt/on-node :a (simulated/in-process #(! [:nobody "b@sim"] (->Order 1))))
    (mt/wait-until #(deref reading) {:timeout 20000})
    (try
      (f net fired told)
      (finally (reset! door true)))))

(deftest monitors-of-a-lost-node-fire-though-its-session-is-stuck
  (doseq [seed (range 3)]
    (is (= [[[:down :noconnection]] [[:nodedown "a@sim" {:reason :lost}]]]
           (mt/simulate {:seed seed}
             (with-a-stuck-session
               (fn [net fired told]
                 (mt/cut net [:a] [:b])
                 (mt/wait-until #(seq @fired) {:timeout 60000})
                 (scope/sleep 1000)
                 [@fired @told])))))))

(defn- lost-and-back
  "What b is told about nodes when a is lost, the session reads on, and a is back."
  []
  (let [told (with-a-stuck-session
               (fn [net fired told]
                 (mt/cut net [:a] [:b])
                 (mt/wait-until #(seq @fired) {:timeout 60000})
                 (scope/sleep 1000)
                 (mt/heal net)
                 told))]
    (mt/wait-until #(= 2 (count @told)) {:timeout 60000})
    @told))

(deftest a-session-that-was-stuck-is-followed-by-another-one
  (doseq [seed (range 3)]
    (is (= [[:nodedown "a@sim" {:reason :lost}] [:nodeup "a@sim" {}]]
           (mt/simulate {:seed seed} (lost-and-back))))))

(deftest a-node-leaves-though-a-session-is-stuck
  (doseq [seed (range 3)]
    (is (= [:ok [[:down :noconnection]] nil true]
           (mt/simulate {:seed seed}
             (with-a-stuck-session
               (fn [_ fired _]
                 (let [begin (mt/now)
                       left (mt/on-node :b cluster/stop)]
                   (mt/wait-until #(seq @fired) {:timeout 60000})
                   [left @fired (mt/on-node :b #(actor/whereis hub/server-name)) (< (- (mt/now) begin) 20000)]))))))))
