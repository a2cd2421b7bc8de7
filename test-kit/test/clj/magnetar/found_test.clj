(ns magnetar.found-test
  "Bugs that the simulator has found, each as the program that found it; and what the library keeps for all, which each simulation has for itself."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async :as a]
   [magnetar.global :as global]
   [magnetar.impl.actor.global :as tables]
   [magnetar.hunted :as hunted]
   [magnetar.impl.groups :as groups]
   [magnetar.pg :as pg]
   [magnetar.test :as mt]))

(deftest a-process-that-is-killed-while-it-joins-a-group-leaves-no-member-behind
  (mt/check {:runs 400 :faults #{:kill} :fault-rate 0.03 :victims #(re-find #"member" %)}
    (doseq [n [:member-a :member-b]]
      (actor/spawn-opt (fn []
                         (pg/join :group (self))
                         (a/<! (a/timeout 3))
                         (pg/leave :group (self))
                         (pg/join :group (self)))
                       {:name n}))
    (a/<! (a/timeout 10))
    (and (= [] (pg/members :group)) (= {} (:local @(groups/groups))))))

(deftest a-process-that-is-killed-while-it-takes-a-global-name-leaves-no-name-behind
  (mt/check {:runs 400 :faults #{:kill} :fault-rate 0.03 :victims #(re-find #"taker" %)}
    (doseq [n [:taker-a :taker-b]]
      (actor/spawn-opt (fn [] (a/<! (a/timeout 3)) (global/register-name :leader (self))) {:name n}))
    (a/<! (a/timeout 10))
    (and (nil? (global/whereis-name :leader)) (= {} @(tables/names)))))

;; Every schedule with one preemption; with two there are too many for every day: magnetar.kernel-faults-test.
(defn- holds-for-one-preemption? [program]
  (= {:passed true :exhausted true}
     (select-keys (mt/check* {:runs 20000 :strategy :exhaustive :preemptions 1 :properties [:no-leaked-fiber]} program) [:passed :exhausted])))

;; The name was registered first, the link set then, and a dead child was taken for a dead spawner: which died of it, though it traps exits.
(deftest who-spawns-a-process-that-is-killed-by-its-name-at-once-hears-of-it-as-of-any-link
  (is (holds-for-one-preemption? hunted/named-link)))

;; The same with a monitor, which said :noproc.
(deftest ^{:spec ["C142"]} who-spawns-a-process-with-a-name-and-a-monitor-hears-why-it-died-however-soon
  (is (= {:passed true :exhausted true}
         (select-keys (mt/check* {:runs 20000 :strategy :exhaustive :preemptions 2 :properties [:no-leaked-fiber]} hunted/named-monitor)
                      [:passed :exhausted]))))

(deftest a-name-that-is-taken-leaves-the-spawner-neither-link-nor-monitor
  (mt/check {:runs 200 :properties [:no-leaked-fiber]}
    (actor/with-process {:trap-exit true}
      (let [holder (actor/spawn-opt (fn [] (receive :stop nil)) {:name :child})
            refused (try (actor/spawn-opt (fn [] 1) {:name :child :link true :monitor true})
                         (catch Exception e (:magnetar/reason (ex-data e))))]
        (! holder :stop)
        (and (some? refused)
             (not (vector? refused))
             (= :nothing (receive x x (after 10 :nothing)))
             (= [] (:links (actor/process-info (self))) (:monitors (actor/process-info (self)))))))))

;; A process that goes through all processes may find one before it has begun.
(deftest who-spawns-a-process-that-is-killed-before-it-begins-hears-of-it
  (is (holds-for-one-preemption? hunted/early-kill)))

(deftest groups-and-global-names-of-a-simulation-are-its-own
  (mt/simulate {}
    (let [p (spawn (fn [] (a/<! (a/timeout 5))))]
      (pg/join ::simulated p)
      (global/register-name ::simulated p)
      (is (= [p] (pg/members ::simulated)))))
  (is (= [] (pg/members ::simulated)))
  (is (nil? (global/whereis-name ::simulated))))

(deftest threads-of-the-library-are-fibers-in-a-simulation
  (doseq [seed (range 5)]
    (is (= [6 [1 2 3]]
           (mt/simulate {:seed seed}
             (let [to (a/chan)]
               (a/pipeline 2 to (map inc) (a/to-chan! [0 1 2]))
               [(+ (a/<! (a/thread 1)) (a/<! (a/io-thread 5)))
                (a/<! (a/into [] to))]))))))
