(ns magnetar.histories.names-test
  "Names of magnetar.global, which clients of three nodes register, remove, and lose by the end of their processes.

  While no way is cut, the histories are linearizable: of two rivals one gets the name. `whereis-name` looks at its own
  node, so it may be late, and is not asked. Two parts of a cluster that cannot reach each other both give the name."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.impl.global.table :as table]
   [magnetar.cluster.simulated :refer [connected start]]
   [magnetar.global :as global]
   [magnetar.histories.checker :as checker]
   [magnetar.histories.record :as record]
   [magnetar.impl.actor.global :as tables]
   [magnetar.scope :as scope :refer [with-scope]]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 50))

(def ^:private nodes [:a :b :c])

(def ^:private names ["till" "stock"])

(defn- holder []
  (receive :end nil))

(defn- register [history client name i]
  (let [id (inc (+ (* 100 (long client)) (long i)))
        pid (actor/spawn holder)]
    (record/operate history client {:f "register" :key name :value id}
                    #(array-map :done (= :yes (global/register-name name pid))))
    [id pid]))

(defn- kill
  "The name is free when the death is told."
  [history client name [id pid]]
  (record/operate history client {:f "die" :key name :value id}
                  #(let [ref (actor/monitor pid)]
                     (actor/exit pid :kill)
                     (receive [:DOWN ref _ _ _] {}))))

(defn- unregister [history client name]
  (record/operate history client {:f "unregister" :key name} #(do (global/unregister-name name) {})))

(defn- client
  "Registers a process, and removes the name or kills the process, again and again."
  [history number]
  (doseq [i (range 6)
          :let [name (names (mod (+ (long number) (long i)) 2))
                mine (register history number name i)]]
    (scope/sleep 15)
    (if (= 1 (mod (long i) 3))
      (unregister history number name)
      (kill history number name mine))))

(defn- history-of
  "What three clients were told, one on each node, when f has disturbed the network."
  [f]
  (let [net (mt/network {:latency [1 30] :detector 500})
        history (record/history "name")]
    (run! #(start net %) nodes)
    (apply connected nodes)
    (f net)
    (with-scope [s]
      (doseq [[number node] (map-indexed vector nodes)]
        (scope/fork s mt/on-node node #(actor/with-process {} (client history number)))))
    (record/finished history "name")))

(defn- histories [runs f]
  (mapv (fn [seed] (mt/simulate {:seed seed} (history-of f))) (range runs)))

(defn- verdicts [runs f]
  (frequencies (checker/verdicts (histories runs f))))

(deftest one-of-two-rivals-gets-the-name
  (let [histories (histories runs (constantly nil))]
    (is (= {:ok runs} (frequencies (checker/verdicts histories))))
    (is (every? #(<= 6 (long (record/done %))) histories) "names that are free again are given")))

(deftest a-name-that-a-dead-process-keeps-is-found
  (let [drop-own table/drop-own]
    (with-redefs [tables/holder :pid
                  tables/forget (constantly nil)
                  table/drop-own (fn [state name effect then] (cond-> state (or effect then) (drop-own name effect then)))]
      (is (= {:illegal 5} (verdicts 5 (constantly nil)))))))

(defn- cut-off [net]
  (mt/cut net [:a] [:b :c])
  (mt/wait-until (fn [] (every? #(> 2 (count (mt/on-node % cluster/nodes))) nodes)) {:timeout 60000}))

(deftest two-parts-that-give-one-name-are-found
  (is (pos? (long (:illegal (verdicts runs cut-off) 0)))))
