(ns magnetar.cluster.names-test
  "What third nodes see while two nodes have one name."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.cluster.impl.session :as session]
   [magnetar.cluster.simulated :refer [connected in-process join run-on start watch-nodes]]
   [magnetar.scope :as scope]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 50))

(defn- start-watched
  "Starts a and c, which is watched."
  [options told]
  (let [net (mt/network options)]
    (run! #(start net %) [:a :c])
    (connected :a :c)
    (watch-nodes :c told)
    net))

(def ^:private up [:nodeup "b@sim" {}])
(def ^:private lost [:nodedown "b@sim" {:reason :lost}])

(deftest a-node-that-is-back-elsewhere-is-up-when-its-old-self-is-lost
  (doseq [seed (range 4)]
    (is (= [up lost up]
           (mt/simulate {:seed seed}
             (let [told (atom [])
                   net (start-watched {:detector 3000} told)]
               (start net :b)
               (connected :a :b :c)
               (mt/crash-node :b)
               (start net :elsewhere {:name "b@sim"})
               (mt/wait-until #(= 3 (count @told)) {:timeout 60000 :else nil})
               (scope/sleep 10000)
               @told)))
        seed)))

(deftest a-node-that-is-refused-is-not-seen-by-others
  (doseq [seed (range 4)]
    (is (= [[up] [:refused "The name b@sim is taken by another node of the cluster. Start this one with another name."]]
           (mt/simulate {:seed seed}
             (let [told (atom [])
                   net (start-watched {} told)
                   _ (start net :b)
                   _ (connected :a :b :c)
                   answer (start net :elsewhere {:name "b@sim"})]
               (scope/sleep 10000)
               [@told answer])))
        seed)))

(defn- who
  "Answers where it is."
  [place]
  (actor/register :who (self))
  (loop []
    (receive from (! from [:in place]))
    (recur)))

(defn- asked-by-c []
  (mt/on-node :c (in-process #(do (! [:who "b@sim"] (self))
                                  (receive [:in place] place (after 3000 :none))))))

(deftest the-older-of-two-nodes-that-do-not-see-each-other-gets-the-name
  (doseq [seed (range 3)]
    (is (= [:elsewhere [up] :b [up lost up]]
           (mt/simulate {:seed seed}
             (let [told (atom [])
                   net (start-watched {} told)]
               (run! mt/start-node [:b :elsewhere])
               (mt/cut net [:b] [:elsewhere :c])
               (join net :b)
               (join net :elsewhere {:name "b@sim"})
               (run-on :b who :b)
               (run-on :elsewhere who :elsewhere)
               (mt/wait-until #(seq @told) {:timeout 20000})
               (let [first-one (asked-by-c)
                     before @told]
                 (mt/heal net [:b] [:c] {})
                 (mt/wait-until #(= 3 (count @told)) {:timeout 30000 :else nil})
                 (scope/sleep 5000)
                 [first-one before (asked-by-c) @told]))))
        seed)))

;; ---- under faults

(defn- one-at-a-time?
  "Is a node of this name up after it was down, and the other way round?"
  [told]
  (let [kinds (map first told)]
    (= kinds (take (count kinds) (cycle [:nodeup :nodedown])))))

(defn- names-alternate?
  "A node crashes and starts elsewhere, twice, while views change."
  []
  (let [told (atom [])
        net (start-watched {:latency [1 50] :detector 500} told)]
    (doseq [place [:b :elsewhere :third]]
      (start net place {:name "b@sim"})
      (scope/sleep 300)
      (mt/crash-node place))
    (scope/sleep 5000)
    (one-at-a-time? (filter #(= "b@sim" (second %)) @told))))

(defn- checked [more]
  (mt/check* (merge {:runs runs :faults #{:cut-link :flap} :fault-rate 0.01 :properties []} more) names-alternate?))

(deftest a-name-is-up-once-at-a-time
  (is (:passed (checked {}))))

(deftest sessions-that-take-a-name-twice-are-found
  (with-redefs [session/second? (constantly false)
                session/held-by-other? (constantly false)
                session/hold (fn [{:keys [member]}] [member])]
    (is (not (:passed (checked {:runs 1000 :report (constantly nil)}))))))
