(ns magnetar.simulated-supervisors-test
  "Supervisors under the simulator, against a model. JAVA_OPTS=-Dmagnetar.runs=N for more runs."
  {:limit 240000}
  (:require
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor]
   [magnetar.impl.runtime]
   [magnetar.seeded-bugs :as seeded-bugs]
   [magnetar.supervision :as supervision]
   [magnetar.supervisor.behaviour :as behaviour]
   [magnetar.supervisor.children :as children]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(use-fixtures :once seeded-bugs/without-reports)

(def ^:private runs (Long/getLong "magnetar.runs" 60))

(defmacro ^:private holds [options program]
  `(is (:passed (mt/check* (merge {:runs runs :properties [:no-leaked-fiber]} ~options) #(supervision/program ~program)))))

(def ^:private dynamic [:simple-one-for-one :dynamic])

(deftest a-supervisor-does-with-each-death-and-each-request-what-the-model-does
  (holds {} {:strict true :steps 8}))

(deftest so-it-does-when-deaths-and-requests-come-at-once-and-starts-fail
  (holds {} {:steps 10 :bad-starts 20}))

(deftest so-it-does-when-children-are-killed-at-any-step
  (holds {:faults #{:kill} :fault-rate 0.01 :victims #(re-find #"kid" %)} {:bad-starts 5 :names true}))

(deftest no-child-is-left-when-supervisors-are-killed-at-any-step
  (holds {:faults #{:kill} :fault-rate 0.01 :victims #(re-find #"kid|sup" %)} {:killers true :names true}))

(deftest dynamic-supervisors-do-what-the-model-does
  (holds {} {:steps 10 :bad-starts 20 :strategies dynamic})
  (holds {:faults #{:kill} :fault-rate 0.01 :victims #(re-find #"kid|sup" %)} {:steps 10 :bad-starts 5 :strategies dynamic :killers true}))

(deftest every-schedule-of-a-death-with-one-preemption-is-right
  (is (:exhausted (mt/check* {:runs 20000 :strategy :exhaustive :preemptions 1} #(supervision/program {:steps 1 :depth 0})))))

;; --- controls: defects planted in the real code

(defn- all-kids [state]
  (sort-by :n (vals (:kids state))))

(defn- unlinks-first
  "As a former supervisor did it: a child that is being stopped does not hear of the supervisor's death."
  [stop]
  (fn [who {:keys [pid] :as child}]
    (actor/unlink pid)
    (stop who child)))

(def ^:private defects
  {"a rest-for-one starts all again"
   {#'behaviour/group (fn [group] (fn [{:keys [strategy] :as state} child] (if (= :rest-for-one strategy) (all-kids state) (group state child))))}
   "a one-for-all starts one again"
   {#'behaviour/group (fn [group] (fn [{:keys [strategy] :as state} child] (if (= :one-for-all strategy) [child] (group state child))))}
   "children are stopped in the order of their start"
   {#'behaviour/stop-children (fn [stop] (fn [state kids] (stop state (reverse kids))))}
   "after the time of a shutdown no kill follows"
   {#'children/kill (fn [_] (fn [_ _] :shutdown))}
   "one more restart is borne than was said"
   {#'behaviour/add-restart (fn [add] (fn [state] (some-> (add (update state :intensity inc)) (update :intensity dec))))}
   "restarts of a period ago still count"
   {#'behaviour/lately (fn [_] (fn [times ^long _ ^long _] times))}
   "a temporary child is kept"
   {#'behaviour/gone (fn [_] (fn [state {:keys [key]}] (assoc-in state [:kids key :pid] nil)))}
   "a failed start is not tried again"
   {#'behaviour/try-again (fn [_] (fn [state {:keys [key]} _] [:noreply (assoc-in state [:kids key :pid] nil)]))}
   "the end of the significant is not noticed"
   {#'behaviour/auto-shutdown (fn [_] (fn [state _] [:noreply state]))}
   "children stay when their supervisor ends"
   {#'behaviour/stop-children (fn [_] (fn [state _] state))}})

(deftest a-defect-planted-in-supervisors-is-found
  (doseq [[title defect] defects]
    (testing title
      (is (seeded-bugs/found defect 1000 #(supervision/program {:steps 10 :bad-starts 10}))))))

(deftest a-child-that-is-killed-before-its-time-is-found
  (is (seeded-bugs/found {#'children/end-of (fn [end-of] (fn [pid ref _] (end-of pid ref :brutal-kill)))} 1000
                      #(supervision/program {:strict true :steps 8}))))

(deftest an-orphan-is-found
  (is (seeded-bugs/found {#'children/stop unlinks-first} 2000 #(supervision/program {:steps 10}))))

(deftest a-defect-planted-in-dynamic-supervisors-is-found
  (is (seeded-bugs/found {#'children/stop-all (fn [_] (fn [_ _ _]))} 200 #(supervision/program {:steps 10 :strategies dynamic}))))

(deftest the-same-programs-find-nothing-in-the-sound-code
  (is (not (seeded-bugs/found {} 100 #(supervision/program {:steps 10 :bad-starts 10}))))
  (is (not (seeded-bugs/found {} 100 #(supervision/program {:steps 10 :strategies dynamic})))))
