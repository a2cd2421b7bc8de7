(ns magnetar.histories.groups-test
  "What processes of three nodes see of a group, whose members join, leave and die while connections are cut and a node crashes.

  What is judged is in `magnetar.histories.groups`. That all nodes agree when faults and changes have ended is in
  `magnetar.cluster.groups-test`."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [receive spawn]]
   [magnetar.cluster.group-support :refer [id idle join-again three]]
   [magnetar.cluster.simulated :refer [full-name]]
   [magnetar.histories.checker :as checker]
   [magnetar.histories.groups :as story]
   [magnetar.histories.record :as record]
   [magnetar.impl.groups :as groups]
   [magnetar.pg :as pg]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.fiber Fiber)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 20))

(def ^:private group :printers)

(defn- drawn [n]
  (.random (Fiber/current) (int n)))

;; ---- what processes of a node do

(defn- change
  "Changes the members of the node so often; processes join again after they have died."
  [history node n]
  (loop [members {}, n (long n)]
    (when (pos? n)
      (scope/sleep (drawn 200))
      (let [alive (filterv #(actor/alive? %) (distinct (pg/local-members group)))
            pid (if (or (zero? (long (drawn 3))) (empty? alive)) (idle) (nth alive (drawn (count alive))))
            [what members] (story/drawn-action drawn members (id pid))]
        (story/change history node members #(do (story/act what group pid) {}))
        (recur members (dec n))))))

(defn- look
  "Notes what the node sees so often."
  [history node n]
  (dotimes [_ n]
    (scope/sleep (drawn 60))
    (story/look history node #(frequencies (map id (pg/members group))))))

(defn- start
  "Starts a process on the node that changes members, and one that looks, which tells its end."
  [{:keys [history done]} node]
  (mt/on-node node
    (fn []
      (spawn (fn [] (change history (full-name node) 25) (receive :never nil)))
      (spawn (fn [] (look history (full-name node) 120) (swap! done conj node)))
      nil)))

;; ---- the runs

(defn- new-story []
  {:history (record/history "group") :done (atom [])})

(defn- await-looks [{:keys [done]} n]
  (mt/wait-until #(= n (count @done)) {:timeout 120000}))

(defn- under-cuts []
  (let [{:keys [history] :as story} (new-story)]
    (three)
    (run! #(start story %) [:a :b :c])
    (await-looks story 3)
    (story/finished history)))

(defn- with-a-crash []
  (let [{:keys [history] :as story} (new-story)
        net (three)]
    (run! #(start story %) [:a :b :c])
    (scope/sleep 1000)
    (story/lose history (full-name :b) #(mt/crash-node :b))
    (scope/sleep (drawn 1500))
    (mt/restart-node :b)
    (join-again net :b)
    (start story :b)
    (await-looks story 3)
    (story/finished history)))

(defn- wrong-in
  "The names of the histories of the run with the seed that cannot be."
  [options f seed]
  (checker/wrong (mt/simulate (assoc options :seed seed :max-steps 3000000) (f))))

(def ^:private disturbed {:faults #{:cut-link :flap} :fault-rate 0.01})

(deftest what-nodes-see-are-members-that-there-were
  (doseq [seed (range runs)]
    (is (= [] (wrong-in disturbed under-cuts seed)) seed)
    (is (= [] (wrong-in {} with-a-crash seed)) seed)))

;; ---- controls

(defn- is-found [options f]
  (is (some #(seq (wrong-in options f %)) (range 200))))

(deftest a-member-that-stays-after-its-death-is-found
  (with-redefs [groups/peer-leaves (constantly nil)]
    (is-found {} under-cuts)))

(deftest a-change-that-is-told-in-two-parts-is-found
  (let [tell groups/peer-joins]
    (with-redefs [groups/peer-joins (fn [server peer group pids]
                                      (doseq [pid pids]
                                        (tell server peer group [pid])
                                        (scope/sleep 30)))]
      (is-found {} under-cuts))))

(deftest a-copy-that-is-not-of-the-instant-of-the-outbox-is-found
  (let [take-outbox groups/take-outbox]
    (with-redefs [groups/take-outbox (fn [server]
                                       (let [local (:local @(groups/groups))]
                                         (scope/sleep 50)
                                         [(first (take-outbox server)) local]))]
      (is-found disturbed under-cuts))))

(deftest a-join-that-returns-before-it-is-seen-is-found
  (let [join pg/join]
    (with-redefs [pg/join (fn [& arguments] (spawn (fn [] (scope/sleep 50) (apply join arguments))))]
      (is-found {} under-cuts))))
