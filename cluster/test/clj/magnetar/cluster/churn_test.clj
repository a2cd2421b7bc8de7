(ns magnetar.cluster.churn-test
  "A node of a simulation joins and leaves a thousand times, and the other one keeps nothing of it."
  {:slow true}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.leaks :as leaks]
   [magnetar.cluster.simulated :refer [in-process join nodes run-on start]]
   [magnetar.inspect :as inspect]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(def ^:private times-joined (Long/getLong "magnetar.joins" 1000))

(defn- counter
  "Counts the messages, and the processes of them that are lost."
  [counts]
  (actor/register :counter (self))
  (loop []
    (receive
      [:hello from] (do (actor/monitor from) (! from :welcome) (swap! counts update :hello inc))
      [:DOWN _ _ _ :noconnection] (swap! counts update :lost inc))
    (recur)))

(defn- held-by-simulations
  "True for what a process is started with: a simulation keeps all its fibers."
  [[class]]
  (= "magnetar.cluster.wire.Unread$Share" class))

(defn- a-few
  "True for what does not grow with each visit: a peer is kept until the next look at the table."
  [[_ before after]]
  (< (- (long after) (long before)) 10))

(defn- visit [net]
  (join net :b)
  (mt/on-node :b (in-process #(do (! [:counter "a@sim"] [:hello (self)])
                                  (receive :welcome nil)
                                  (cluster/stop)))))

(defn- processes-of-a []
  (mt/on-node :a #(count (inspect/processes))))

(defn- more-processes
  "How many processes the node a has more than before, when that changes no more: what ends may still do so."
  [before]
  (let [more #(- (long (processes-of-a)) (long before))]
    (mt/wait-until #(= 0 (more)) {:timeout 60000 :else nil})
    (more)))

(deftest a-thousand-joins-and-leaves
  (let [[counts processes left more]
        (mt/simulate {:seed 1 :max-steps 10000000}
          (let [net (mt/network)
                counts (atom {:hello 0 :lost 0})]
            (run! #(start net %) [:a :c])
            (mt/start-node :b)
            (run-on :a counter counts)
            (visit net)
            (mt/wait-until #(= 1 (:lost @counts)) {:timeout 60000})
            (let [before (processes-of-a)
                  objects (leaks/objects)]
              (dotimes [_ (dec (long times-joined))]
                (visit net))
              (mt/wait-until #(= times-joined (:lost @counts)) {:timeout 60000})
              [@counts (more-processes before) (nodes :a) (remove #(or (held-by-simulations %) (a-few %)) (leaks/more objects))])))]
    (is (= {:hello times-joined :lost times-joined} counts))
    (is (= 0 processes))
    (is (= ["c@sim"] left))
    (is (= [] more))))
