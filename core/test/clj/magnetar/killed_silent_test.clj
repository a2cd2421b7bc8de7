(ns magnetar.killed-silent-test
  "What a killed process still does is silent: what belonged to it is gone, and what it meets because of that is no crash."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [exit]]
   [magnetar.actor-support :refer [reason]]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.scope :as scope]
   [magnetar.support :refer [eventually value-of with-failures with-hook]]
   [magnetar.table :as table])
  (:import
   (magnetar.kernel.fiber Exit)
   (magnetar.kernel.process Zombies)))

(set! *warn-on-reflection* true)

(defn- zombie?
  "True while the thread of a killed process still runs."
  [pid]
  (boolean (some #(= pid (.pid ^magnetar.kernel.process.Zombie %)) (Zombies/all))))

(defn- killed-before
  "What (f owned) throws in a process that makes `owned` with (make) and is killed before it calls f, and the failures that are reported of it."
  [spawn make f]
  (with-failures [failures]
    (let [made (promise) go-on (promise) met (promise)
          pid (spawn (fn []
                       (let [owned (make)]
                         (deliver made true)
                         (while (not (realized? go-on)) (Thread/onSpinWait))
                         (try (f owned)
                           (catch Throwable t (deliver met t) (throw t))))))]
      (value-of made)
      (exit pid :kill)
      (is (= :killed (reason pid)))
      (deliver go-on true)
      (let [error (value-of met)]
        (is (eventually (not (zombie? pid))))
        [error @failures]))))

(deftest ^{:spec ["C80"]} a-killed-process-that-works-on-its-table-meets-its-exit-and-is-not-reported
  (doseq [f [#(table/insert % [1 2])
             #(table/lookup % 1)
             #(table/drop %)
             (fn [_] (table/insert ::named [1 2]))]
          :let [[error failures] (killed-before actor/spawn* #(table/create :set {:name ::named}) f)]]
    (is (instance? Exit error))
    (is (= [] failures))))

(deftest a-killed-process-that-fails-in-a-shield-because-its-table-is-gone-is-not-reported
  (let [[error failures] (killed-before actor/spawn* #(table/create :set {})
                                        (fn [t] (scope/shield (table/insert t [1 2]))))]
    (is (= :magnetar/table-gone (:magnetar/reason (ex-data error))))
    (is (= [] failures))))

(deftest a-process-of-proc-lib-that-was-killed-is-not-reported-for-what-it-does-later
  (let [events (atom [])]
    (with-hook [:report #(swap! events conj %)]
      (let [[_ failures] (killed-before proc-lib/spawn* #(table/create :set {}) (fn [_] (throw (ex-info "because its world is gone" {}))))]
        (is (= [] failures))
        (is (= [] @events))))))

(deftest a-killed-process-without-a-name-or-a-mailbox-is-not-reported
  (doseq [f [(fn [_] (actor/register ::killed-name (actor/self)))
             (fn [_] (actor/unregister ::killed-name))
             (fn [_] (actor/send-after 0 (actor/self) :late))
             (fn [_] (actor/! ::killed-name :m))]]
    (is (= [] (second (killed-before actor/spawn* #(actor/register ::killed-name (actor/self))
                                     (fn [owned] (f owned) (throw (ex-info "after it was killed" {})))))))))
