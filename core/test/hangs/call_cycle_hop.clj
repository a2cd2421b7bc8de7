;; What hangs: a cycle of four. The server :tickets calls the server :halls, which calls the raw process
;; :doorman. :doorman asks the raw process :cashier with a monitor and an alias, without `call`, and waits in
;; a receive. :cashier calls :tickets.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of four: :tickets -> :halls -> :doorman -> :cashier -> :tickets
;;   names  :tickets, :halls, :doorman, :cashier
;;   lines  [A] :tickets calls :halls; [B] :halls calls :doorman; [C] :doorman receives;
;;          [D] :cashier calls :tickets
;;   victim the go block of [client], which waits for :tickets
;;   never  any other process
(ns call-cycle-hop
  (:require
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.inspect :as inspect]))

(def ^:private tickets
  {:init (fn [_] [:ok nil])
   :handle-call (fn [[_ seat] _client state]
                  (let [price (gs/call :halls [:open seat] {:timeout :infinity})] ; [A]
                    [:reply price state]))})

(def ^:private halls
  {:init (fn [_] [:ok nil])
   :handle-call (fn [[_ seat] _client state]
                  (let [price (gs/call :doorman [:let-in seat] {:timeout :infinity})] ; [B]
                    [:reply price state]))})

(defn- ask-cashier [seat]
  (let [ref (actor/monitor :cashier {:alias :reply-demonitor})]
    (! :cashier [:paid? ref seat])
    (receive ; [C]
      [ref price] price
      [:DOWN ref :process _ why] [:no-cashier why])))

(defn- doorman []
  (receive
    [:magnetar/call client [:let-in seat]]
    (do
      (gs/reply client (ask-cashier seat))
      (recur))))

(defn- cashier [asked]
  (receive
    [:paid? client seat]
    (do
      (deliver asked true)
      (! client [client (gs/call :tickets [:price seat] {:timeout :infinity})]) ; [D]
      (recur asked))))

(defn- messages [name]
  (some-> (actor/whereis name) inspect/mailbox :messages))

(defn start []
  (let [asked (promise)]
    (gs/start tickets nil {:name :tickets})
    (gs/start halls nil {:name :halls})
    (actor/spawn-opt doorman {:name :doorman})
    (actor/spawn-opt cashier asked {:name :cashier})
    (a/go ; [client]
      (gs/call :tickets [:sell 12] {:timeout :infinity}))
    {:ready #(and (realized? asked) (= 1 (messages :tickets)))
     :stop #(doseq [name [:tickets :halls :doorman :cashier]]
              (some-> (actor/whereis name) (actor/exit :kill)))}))
