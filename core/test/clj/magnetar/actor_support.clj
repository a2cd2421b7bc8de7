(ns magnetar.actor-support
  "What the tests of processes share."
  (:require
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.support :as support]))

(set! *warn-on-reflection* true)

(defn outcome
  "How a process has ended: [:value v] or [:exited reason]; :late if it does not."
  [pid]
  (try
    (let [value (actor/join pid {:timeout support/limit-ms :else ::late})]
      (if (= ::late value) :late [:value value]))
    (catch clojure.lang.ExceptionInfo e
      [:exited (:reason (ex-data e))])))

(defn reason
  "The reason that a process has ended for; :late if it does not."
  [pid]
  (let [[how what :as outcome] (outcome pid)]
    (case how
      :value :normal
      :exited what
      outcome)))

(defn waits?
  "True once the process waits for something."
  [pid]
  (support/eventually (= :waiting (:status (actor/process-info pid)))))

(defn idle
  "A process that does nothing."
  []
  (actor/spawn #(receive ::never nil)))

(defn misuse
  "The reason and the sentence of the error that f throws."
  [f]
  (try
    (f)
    :no-error
    (catch Exception e
      [(:magnetar/reason (ex-data e)) (ex-message e)])))
