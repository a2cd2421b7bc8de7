(ns giro.ledger
  "The books of the bank in Clojure: its accounts, and the transfers from them to the other bank.

  The ledger in Erlang, giro_ledger.erl, answers the same requests:

  [:pay id from to amount]  takes the amount from an account, for one of the other bank. :ok, also if that was
                            done for this id before; :refused without the money; :busy if too many are open
  :next                     [:transfer id to amount], which the courier has to carry now, or :none
  [:deposit id to amount]   puts what was carried into an account. :ok, also if this id is booked already
  [:done id]                the transfer is booked at the other bank. :ok
  :books                    what there is and was, a map

  A courier is monitored while it carries a transfer. If it ends, another one gets the transfer. The first one
  may have made the deposit, so a deposit may be repeated."
  (:require
   [magnetar.actor :as actor])
  (:import
   (clojure.lang PersistentQueue)))

(set! *warn-on-reflection* true)

(def accounts
  "How many accounts a bank has: 1 and so on."
  10)

(def balance
  "What is in each at first."
  1000)

(def ^:private most-open 100)

(defn init
  "A ledger. A :careless one books a repeated deposit again."
  [mode]
  [:ok {:careless (= :careless mode)
        :accounts (zipmap (range 1 (inc (long accounts))) (repeat balance))
        :transfers {} :waiting PersistentQueue/EMPTY :taken {} :seen #{}
        :sent 0 :booked 0 :repeated 0 :surplus 0}])

(defn- pay [{:keys [seen transfers] :as ledger} id from to amount]
  (cond
    (seen id) [:ok ledger]
    (<= (long most-open) (count transfers)) [:busy ledger]
    (< (long (get-in ledger [:accounts from])) (long amount)) [:refused ledger]
    :else [:ok (-> ledger
                   (update-in [:accounts from] - amount)
                   (assoc-in [:transfers id] [to amount])
                   (update :waiting conj id)
                   (update :seen conj id)
                   (update :sent inc))]))

(defn- next-transfer [{:keys [waiting transfers] :as ledger} courier]
  (if-some [id (peek waiting)]
    (let [ledger (update ledger :waiting pop)]
      (if-some [[to amount] (transfers id)]
        [[:transfer id to amount] (assoc-in ledger [:taken (actor/monitor courier)] id)]
        (recur ledger courier))) ; it has arrived meanwhile
    [:none ledger]))

(defn- credit [ledger to amount]
  (update-in ledger [:accounts to] + amount))

(defn- deposit [{:keys [seen careless] :as ledger} id to amount]
  [:ok (cond
         (not (seen id)) (-> ledger (credit to amount) (update :seen conj id) (update :booked inc))
         careless (-> ledger (credit to amount) (update :repeated inc) (update :surplus + amount))
         :else (update ledger :repeated inc))])

(defn- done [{:keys [taken] :as ledger} id]
  (let [refs (keep (fn [[ref carried]] (when (= id carried) ref)) taken)]
    (run! #(actor/demonitor % {:flush true}) refs)
    [:ok (-> ledger
             (update :transfers dissoc id)
             (update :taken #(apply dissoc % refs)))]))

(defn- books [{:keys [accounts transfers] :as ledger}]
  [(assoc (select-keys ledger [:sent :booked :repeated :surplus])
          :money (apply + (vals accounts))
          :open (count transfers))
   ledger])

(defn handle-call
  "Answers a request."
  [request from ledger]
  (let [[word & args] (if (vector? request) request [request])
        [answer ledger] (case word
                          :pay (apply pay ledger args)
                          :next (next-transfer ledger (first from))
                          :deposit (apply deposit ledger args)
                          :done (apply done ledger args)
                          :books (books ledger))]
    [:reply answer ledger]))

(defn handle-info
  "A courier has ended, or is out of reach: another one takes what it carried."
  [[what ref] {:keys [taken] :as ledger}]
  [:noreply (if-some [id (when (= :DOWN what) (taken ref))]
              (-> ledger
                  (update :taken dissoc ref)
                  (update :waiting conj id))
              ledger)])
