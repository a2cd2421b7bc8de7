(ns magnetar.group-simulated-test
  "Monitors of groups while processes join, leave and are killed at any step."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [receive self spawn]]
   [magnetar.impl.groups :as groups]
   [magnetar.pg :as pg]
   [magnetar.scope :as scope]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 100))

(defn- heard
  "The members after a message of a monitor."
  [members verb pids]
  (reduce (fn [members pid] (update members pid (fnil (if (= :join verb) inc dec) 0))) members pids))

(defn- follow
  "Starts a process that keeps in the atom how often each pid is a member, as its monitor tells."
  [known]
  (spawn (fn []
           (let [[ref before] (pg/monitor :group)]
             (reset! known (frequencies before))
             (loop []
               (receive [ref verb :group pids] (swap! known heard verb pids))
               (recur))))))

(defn- member []
  (pg/join :group (self))
  (scope/sleep 2)
  (pg/join :group [(self) (self)])
  (pg/leave :group (self))
  (receive :never nil))

(defn- followed?
  "Does the monitor know the members, some of which were killed?"
  []
  (let [known (atom {})]
    (dotimes [n 2] (actor/spawn-opt member {:name (keyword (str "member-" n))}))
    (follow known)
    (dotimes [n 2] (actor/spawn-opt member {:name (keyword (str "late-member-" n))}))
    (scope/sleep 100)
    (and (mt/wait-until #(= (frequencies (pg/members :group)) (into {} (remove (comp zero? val)) @known)) {:timeout 1000 :else false})
         (every? (comp not neg?) (vals @known))
         (= [[] nil] ((juxt :notices :delivering) @(groups/groups))))))

(defn- checked [options]
  (mt/check* (merge {:runs runs :faults #{:kill} :fault-rate 0.02 :victims #(re-find #"member" %) :properties []} options) followed?))

(deftest a-monitor-of-a-group-follows-its-members
  (is (:passed (checked {}))))

(defn- is-found []
  (is (some #(false? (:value (mt/simulate* {:seed % :faults #{:kill} :fault-rate 0.02 :victims (fn [name] (re-find #"member" name))} followed?)))
            (range 1000))))

(defn- stopped-early
  "A thread that hands out what was there, and no more."
  [groups]
  (let [[before _] (swap-vals! groups @#'groups/begun)]
    (when-not (:delivering before)
      (#'groups/send-all groups (:notices before))
      (swap! groups dissoc :delivering))))

(deftest a-notice-that-is-left-behind-is-found
  (with-redefs [groups/hand-out stopped-early]
    (is-found)))

(deftest notices-out-of-order-are-found
  (with-redefs [groups/hand-out (fn [groups]
                                  (let [[before _] (swap-vals! groups assoc :notices [])]
                                    (scope/sleep 1)
                                    (#'groups/send-all groups (:notices before))))]
    (is-found)))

(defn- quiet-after-demonitor?
  "Does no message come after the end of the monitor?"
  []
  (let [left (promise)]
    (dotimes [_ 2] (spawn member))
    (spawn (fn []
             (let [[ref _] (pg/monitor :group)]
               (scope/sleep 1)
               (pg/demonitor ref)
               (scope/sleep 50)
               (deliver left (actor/flush)))))
    (scope/sleep 100)
    (and (= [] @left) (= {} (:watches @(groups/groups))))))

(deftest no-message-comes-after-a-demonitor
  (is (:passed (mt/check* {:runs runs :properties []} quiet-after-demonitor?))))
