(ns call-to-oneself
  (:require [magnetar.gen-server :as gs]))

(def counter
  {:init (fn [n] [:ok n])
   :handle-call (fn [request _ n]
                  (case request
                    :get [:reply n n]
                    :next [:reply (inc (gs/call :counter-of-visits :get)) n]))
   :handle-cast (fn [_ n] [:noreply n])})

(defn -main []
  (gs/start counter 0 {:name :counter-of-visits})
  (gs/call :counter-of-visits :next))
