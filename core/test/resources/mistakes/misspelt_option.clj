(ns misspelt-option
  (:require [magnetar.gen-server :as gs]))

(def counter
  {:init (fn [n] [:ok n])
   :handle-call (fn [_ _ n] [:reply n n])
   :handle-cast (fn [_ n] [:noreply (inc n)])})

(defn -main []
  (gs/start counter 0 {:nmae :counter}))
