(ns magnetar.cluster.greeting-test
  "Two nodes that find each other in any order are up on both sides before the first signal is sent."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.process Peers)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 100))

(defn- join
  "Joins the network on the node; as soon as another one is up, its :echo is asked."
  [net node cookie]
  (let [events (atom [])]
    (mt/start-node node)
    (mt/on-node node
                (fn []
                  (actor/register :echo (spawn (fn [] (loop [] (receive [:ask from] (do (! from :answer) (recur)))))))
                  (spawn (fn []
                           (actor/flag :trap-exit true)
                           (let [me (self)]
                             (actor/register :starter me)
                             (Peers/setName (name node))
                             (hub/start-link {:network (mt/endpoint net node)
                                              :name (name node)
                                              :cookie (.getBytes ^String cookie)
                                              :notify #(do (swap! events conj %) (! me %))}))
                           (loop []
                             (receive
                               [:up other] (do (! [:echo other] [:ask (self)]) (recur))
                               :answer (do (swap! events conj :answer) (recur))))))
                  nil))
    events))

(deftest the-first-message-arrives
  (doseq [seed (range runs)]
    (is (= [[[:up "b"] :answer] [[:up "a"] :answer]]
           (mt/simulate {:seed seed}
             (let [net (mt/network {})
                   events (mapv #(join net % "0123456789abcdef") [:a :b])]
               (mt/wait-until #(every? (fn [e] (<= 2 (count @e))) events) {:timeout 60000 :else nil})
               (mapv deref events))))
        (str "seed " seed))))

(deftest a-node-that-is-refused-again-and-again-is-reported-once
  (let [run (mt/simulate* {:seed 1}
              (fn []
                (let [net (mt/network {})
                      events [(join net :a "0123456789abcdef") (join net :b "another cookie !")]]
                  (scope/sleep 300000)
                  (mapv deref events))))]
    (is (= [[] []] (:value run)))
    (is (= {"The node b has another cookie than a. Give all nodes of a cluster the same one." 1
            "The node a has another cookie than b. Give all nodes of a cluster the same one." 1}
           (frequencies (map (comp ex-message :error) (:failures run)))))))

(deftest a-session-that-fails-is-told-of-and-begins-again
  (is (= [[:up "b"] [:down "b" :lost] [:up "b"]]
         (mt/simulate {:seed 1}
           (let [net (mt/network {})
                 events (mapv #(join net % "0123456789abcdef") [:a :b])]
             (mt/wait-until #(every? (comp #{:answer} peek deref) events) {:timeout 60000})
             (mt/on-node :a (fn []
                              (let [starter (actor/whereis :starter)
                                    [hub] (:links (actor/process-info starter))]
                                (run! #(actor/exit % :kill) (remove #{starter} (:links (actor/process-info hub)))))
                              nil))
             (mt/wait-until #(= 3 (count (remove #{:answer} @(first events)))) {:timeout 60000 :else nil})
             (vec (remove #{:answer} @(first events))))))))
