(ns magnetar.hot-model-test
  "Upgrades in the simulator, while servers are killed at any step: none is left suspended, none is lost, none has a state of another version than its code."
  {:limit 240000}
  (:require
   [clojure.test :as t :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor :refer [after receive]]
   [magnetar.gen-server :as gs]
   [magnetar.hot.upgrade :as upgrade]
   [magnetar.impl.versions :as versions]
   [magnetar.seeded-bugs :refer [without-reports]]
   [magnetar.supervisor :as sup]
   [magnetar.test :as mt])
  (:import
   (clojure.lang ExceptionInfo)))

(use-fixtures :once without-reports)

(def ^:private here 'magnetar.hot-model-test)

(def ^:private confused
  "Has code of one version met a state of another?"
  (atom false))

(defn- behaviour-of
  "The callbacks of a version, whose state is of that version."
  [version]
  (let [right #(do (when-not (= version %) (reset! confused true)) %)]
    {:init (fn [_] [:ok version])
     :handle-call (fn [_ _ state] [:reply version (right state)])
     :handle-cast (fn [_ state] [:noreply (right state)])
     :code-change (fn [old state extra]
                    (when (= :wrong extra) (throw (ex-info "wrong" {})))
                    (when-not (= old state) (reset! confused true))
                    [:ok version])}))

(def ^:private behaviour (behaviour-of 1))

(defn- set-version [version]
  (alter-meta! (the-ns here) assoc :version version)
  (alter-var-root #'behaviour (constantly (behaviour-of version))))

(defn- loads
  "What stands for the loading of a version."
  [version]
  (fn []
    (let [before (versions/version here)]
      (set-version version)
      {:loaded [{:namespace here}] :undo #(set-version before)})))

(def ^:private names [:server-a :server-b :server-c])

(def ^:private spec
  {:intensity 1000
   :children (for [name names] {:id name :start [gs/start-link #'behaviour nil {:name name}]})})

(defn- tree
  "The supervisor; it does not come up if a child is killed at its start."
  []
  (let [[how pid] (sup/start-link spec)]
    (if (= :ok how) pid (recur))))

(defn- answer
  "What the server answers, in the end: one that was killed is started again."
  [name]
  (loop [tries 50]
    (let [value (try (gs/call name :get {:timeout 1000}) (catch ExceptionInfo e (:reason (ex-data e))))]
      (if (or (number? value) (zero? (long tries)))
        value
        (do
          (receive (after 1 nil))
          (recur (dec tries)))))))

(defn- upgraded
  "Upgrades under kills; true if all servers answer by the version that is loaded then."
  [extra]
  (set-version 1)
  (reset! confused false)
  (actor/with-process {:trap-exit true}
    (let [app (tree)
          outcome (try
                    (upgrade/run [app] [here] (loads 2) {:extra extra :timeout 5000})
                    :upgraded
                    (catch ExceptionInfo _ :rolled-back))
          version (if (= :upgraded outcome) 2 1)]
      (and (= version (versions/version here))
           (= [version version version] (mapv answer names))
           (not @confused)))))

(defn- searched [runs extra]
  (binding [t/*testing-vars* nil
            *out* (java.io.StringWriter.)]
    (mt/check {:runs runs :faults #{:kill} :fault-rate 0.05 :max-faults 4 :victims #(re-find #"server-" %) :properties []}
              (upgraded extra))))

(deftest ^{:spec ["C136"]} no-server-is-left-suspended-lost-or-of-another-version
  (is (:passed (searched 150 nil)))
  (is (:passed (searched 150 :wrong)) "nor when the upgrade is taken back"))

(defn- suspend-once
  "The planted bug: the supervisor goes on, and starts again with the old code what is killed between the look and the loading."
  [process namespaces progress timeout]
  (if (:supervisor? process)
    (#'upgrade/suspend-children process namespaces progress timeout)
    (#'upgrade/suspend-one process progress timeout)))

(deftest the-model-finds-a-supervisor-that-is-not-suspended
  (with-redefs-fn {#'upgrade/suspend-tree suspend-once}
    #(is (not (:passed (searched 1000 nil))))))
