(ns magnetar.found-test
  "Bugs that the simulator has found, each as the program that found it; and what the library keeps for all, which each simulation has for itself."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [self spawn]]
   [magnetar.async :as a]
   [magnetar.global :as global]
   [magnetar.pg :as pg]
   [magnetar.test :as mt]))

(deftest a-process-that-is-killed-while-it-joins-a-group-leaves-no-member-behind
  (mt/check {:runs 400 :faults #{:kill} :fault-rate 0.03 :victims #(re-find #"member" %)}
    (doseq [n [:member-a :member-b]]
      (actor/spawn-opt {:name n}
                       (fn []
                         (pg/join :group (self))
                         (a/<! (a/timeout 3))
                         (pg/leave :group (self))
                         (pg/join :group (self)))))
    (a/<! (a/timeout 10))
    (and (= [] (pg/members :group)) (= {} @(#'pg/groups)))))

(deftest a-process-that-is-killed-while-it-takes-a-global-name-leaves-no-name-behind
  (mt/check {:runs 400 :faults #{:kill} :fault-rate 0.03 :victims #(re-find #"taker" %)}
    (doseq [n [:taker-a :taker-b]]
      (actor/spawn-opt {:name n} (fn [] (a/<! (a/timeout 3)) (global/register-name :leader (self)))))
    (a/<! (a/timeout 10))
    (and (nil? (global/whereis-name :leader)) (= {} @(#'global/names)))))

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
