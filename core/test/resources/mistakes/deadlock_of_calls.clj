(ns deadlock-of-calls
  (:require [magnetar.gen-server :as gs]))

(def stock
  {:init (fn [_] [:ok nil])
   :handle-call (fn [[_ book] _ state] [:reply (gs/call :orders [:open? book]) state])
   :handle-cast (fn [_ state] [:noreply state])})

(def orders
  {:init (fn [_] [:ok nil])
   :handle-call (fn [_ _ state] [:reply (gs/call :stock [:left "SICP"]) state])
   :handle-cast (fn [_ state] [:noreply state])})

(defn -main []
  (gs/start stock nil {:name :stock})
  (gs/start orders nil {:name :orders})
  (gs/call :stock [:left "SICP"]))
