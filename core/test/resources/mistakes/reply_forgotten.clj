(ns reply-forgotten
  (:require [magnetar.gen-server :as gs]))

(def counter
  {:init (fn [n] [:ok n])
   :handle-call (fn [_ _ n] n)
   :handle-cast (fn [_ n] [:noreply n])})

(defn -main []
  (let [[_ pid] (gs/start counter 0 {:name :visits})]
    (println (gs/call pid :get))))
