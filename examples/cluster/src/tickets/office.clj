(ns tickets.office
  "The office that sells numbered tickets: one for the whole cluster, so that no number is sold twice."
  (:require
   [magnetar.gen-server :as gs]
   [tickets.ledger :as ledger]))

(set! *warn-on-reflection* true)

(defn- init [{:keys [port token]}]
  (let [conn (ledger/connect port)
        last (ledger/open conn token)]
    (if (= :stale last)
      [:stop [:shutdown :stale]]
      [:ok {:conn conn :token token :last last}])))

(defn- sell [{:keys [conn token last] :as office}]
  (let [number (inc (long last))]
    (case (ledger/write conn token number)
      :ok [:reply [:ticket number] (assoc office :last number)]
      :stale [:stop [:shutdown :stale] [:refused] office])))

(def ^:private callbacks
  {:init init
   :handle-call (fn [request _ office]
                  (case request
                    :ticket (sell office)))
   :handle-cast (fn [_ office] [:noreply office])})

(defn start-link
  "Starts the office with its fencing token, beside the ledger at this port."
  [port token]
  (gs/start-link callbacks {:port port :token token}))
