(ns magnetar.datafy-test
  "datafy and nav: from a supervisor to its children and to their state."
  (:require
   [clojure.datafy :refer [datafy nav]]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.gen-server :as gs]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [eventually]]
   [magnetar.table :as table]))

(set! *warn-on-reflection* true)

(def ^:private counter
  {:init (fn [n] [:ok n])
   :handle-call (fn [_ _ n] [:reply n (inc (long n))])})

(defn- go-to [data key]
  (nav data key (get data key)))

(defn- with-supervisor [f]
  (actor/with-process {}
    (let [[_ pid] (sup/start-link {:strategy :one-for-one
                                   :children [{:id :tills :start [gs/start-link counter 7 {:name :tills}]}]})]
      (try
        (f pid)
        (finally (gs/stop pid))))))

(deftest from-a-supervisor-to-its-children-to-their-state
  (with-supervisor
    (fn [pid]
      (let [[till :as children] (:children (datafy pid))
            data (datafy (nav children 0 till))]
        (is (= 1 (count children)))
        (is (= [:tills :waiting '..] ((juxt :registered-name :status :state) data)))
        (is (= 7 (go-to data :state)) "it is asked for only here")
        (is (= :tills (go-to data :registered-name)))
        (testing "a hook hides what must not be shown"
          (inspect/redact-with (fn [x] (if (= 7 x) :hidden x)))
          (try
            (is (= :hidden (go-to data :state)))
            (finally (inspect/redact-with nil))))))))

(deftest a-reason-that-cannot-be-hidden-is-not-shown-as-nil
  (let [pid (actor/spawn #(receive :never nil))]
    (actor/exit pid :shutdown)
    (is (eventually (= :shutdown (:reason (datafy pid)))))
    (inspect/redact-with (fn [_] (throw (ex-info "secret" {}))))
    (try
      (is (= "(not shown: clojure.lang.ExceptionInfo)" (:reason (datafy pid))))
      (finally (inspect/redact-with nil)))))

(deftest a-server-that-does-not-answer-is-told
  (let [[_ pid] (gs/start counter 7)
        data (datafy pid)]
    (actor/exit pid :kill)
    (is (string? (:unavailable (go-to data :state))))))

(deftest a-process-that-has-ended-tells-its-reason
  (let [pid (actor/spawn #(receive :never nil))]
    (actor/exit pid :shutdown)
    (is (eventually (= [:dead :shutdown] ((juxt :status :reason) (datafy pid)))))))

(deftest a-process-without-a-server-has-no-state
  (let [pid (actor/spawn #(receive :never nil))]
    (is (not-any? (datafy pid) [:state :children :dictionary]))
    (actor/exit pid :kill)))

(deftest a-reference-leads-to-the-process-it-watches
  (actor/with-process {}
    (let [[pid ref] (actor/spawn-monitor #(receive :never nil))]
      (is (= [pid (actor/self)] ((juxt :watched :maker) (datafy ref))))
      (actor/exit pid :kill))))

(deftest scopes-and-forks-tell-their-state
  (scope/with-scope [s]
    (let [done (scope/fork s (constantly 42))
          waiting (scope/fork s #(actor/with-process {} (receive :never nil)))]
      (is (= 42 @done))
      (is (= [:succeeded 42] ((juxt :state :value) (datafy done))))
      (is (= :running (:state (datafy waiting))))
      (is (= [waiting] (:forks (datafy s))))
      (is (= [false false] ((juxt :closed? :cancelled?) (datafy s))))
      (is (identical? s (go-to (datafy waiting) :scope)))
      (scope/cancel waiting)
      (is (eventually (= :cancelled (:state (datafy waiting))))))))

(deftest a-table-tells-its-rows-when-they-are-navigated-to
  (actor/with-process {}
    (let [t (table/create :set)]
      (run! #(table/insert t [% :apples]) (range 200))
      (let [data (datafy t)]
        (is (= [200 '..] ((juxt :size :rows) data)))
        (is (= 100 (count (go-to data :rows))))
        (table/drop t)
        (is (= {:deleted? true} (datafy t)))
        (is (string? (:unavailable (go-to data :rows))))))))
