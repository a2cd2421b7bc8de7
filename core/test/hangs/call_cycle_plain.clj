;; What hangs: a cycle of three calls through a raw process. The server :billing calls :stock, :stock calls
;; :courier, which is no server, only a process that answers calls. :courier calls :billing. All calls wait
;; without a limit.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of three: :billing -> :stock -> :courier -> :billing
;;   names  :billing, :stock, :courier
;;   lines  [A] :billing calls :stock; [B] :stock calls :courier; [C] :courier calls :billing
;;   victim the go block of [client], which waits for :billing
;;   never  any other process
(ns call-cycle-plain
  (:require
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.inspect :as inspect]))

(def ^:private billing
  {:init (fn [_] [:ok nil])
   :handle-call (fn [[_ order] _client state]
                  (let [fee (gs/call :stock [:reserve order] {:timeout :infinity})] ; [A]
                    [:reply fee state]))})

(def ^:private stock
  {:init (fn [_] [:ok nil])
   :handle-call (fn [[_ order] _client state]
                  (let [fee (gs/call :courier [:pick-up order] {:timeout :infinity})] ; [B]
                    [:reply fee state]))})

(defn- courier [asked]
  (receive
    [:magnetar/call client [:pick-up order]]
    (do
      (deliver asked true)
      (gs/reply client (gs/call :billing [:fee order] {:timeout :infinity})) ; [C]
      (recur asked))))

(defn- messages [name]
  (some-> (actor/whereis name) inspect/mailbox :messages))

(defn start []
  (let [asked (promise)]
    (gs/start billing nil {:name :billing})
    (gs/start stock nil {:name :stock})
    (actor/spawn-opt courier asked {:name :courier})
    (a/go ; [client]
      (gs/call :billing [:invoice 17] {:timeout :infinity}))
    {:ready #(and (realized? asked) (= 1 (messages :billing)))
     :stop #(doseq [name [:billing :stock :courier]]
              (some-> (actor/whereis name) (actor/exit :kill)))}))
