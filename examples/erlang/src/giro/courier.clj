(ns giro.courier
  "Couriers carry transfers from one bank to the other. Each runs at the bank to which it carries, and is
  supervised by the bank from which it carries."
  (:require
   [magnetar.actor :as actor :refer [!]]
   [magnetar.erlang :as erlang]
   [magnetar.gen-server :as gs]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]))

(set! *warn-on-reflection* true)

(def ^:private couriers 4)

;; ---- one that runs here

(defn- carry [from]
  (let [transfer (gs/call from :next)]
    (if (= :none transfer)
      (scope/sleep 5)
      (let [[_ id to amount] transfer]
        (gs/call :giro_ledger [:deposit id to amount])
        (gs/call from [:done id])))
    (recur from)))

(defn run
  "Is a courier of the bank on that node, which starts and supervises it."
  [bank]
  (! :giro_tally [:started (keyword (actor/node))])
  (carry [:giro_ledger (name bank)]))

;; ---- those that run there

(defn start-there
  "Starts a courier on the node, linked to this process."
  [node]
  [:ok (erlang/spawn node :giro_courier :run [(keyword (actor/node))] {:link true})])

(defn start-link
  "Starts the supervisor of the couriers that run on the node.

  They are killed often, so restarts are hardly limited."
  [node]
  (sup/start-link {:intensity 100000
                   :period 1000
                   :children (for [n (range couriers)]
                               {:id [:courier n] :start [start-there node]})}
                  {:name :giro_couriers}))
