(ns bank.account
  "The callback module of an account: a server that does the transfers from it, one at a time."
  (:require
   [bank.books :as books]))

(set! *warn-on-reflection* true)

(defn init
  "An account whose transfers are done by (transfer url payer payee amount between)."
  [account]
  [:ok account])

(defn handle-call
  "[:pay payee amount] moves money; :balance is what there is."
  [request _ {:keys [id url transfer between] :as account}]
  (if (= :balance request)
    [:reply (books/balance url id) account]
    (let [[_ payee amount] request]
      (transfer url id payee amount between)
      [:reply :paid account])))
