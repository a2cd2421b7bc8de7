(ns timeout-of-a-call
  (:require [magnetar.actor :refer [after receive]]
            [magnetar.gen-server :as gs]))

(defn print-page [_]
  (receive :paper :printed (after 60000 :no-paper)))

(def printer
  {:init (fn [_] [:ok nil])
   :handle-call (fn [page _ state] [:reply (print-page page) state])
   :handle-cast (fn [_ state] [:noreply state])})

(defn -main []
  (let [[_ pid] (gs/start printer nil {:name :printer})]
    (gs/call pid [:page 1] {:timeout 500})))
