(ns cast-without-handle-cast
  (:require [magnetar.actor :as actor]
            [magnetar.gen-server :as gs]))

(def counter
  {:init (fn [n] [:ok n])
   :handle-call (fn [_ _ n] [:reply n n])})

(defn -main []
  (let [[_ pid] (gs/start counter 0)]
    (gs/cast pid :inc)
    (actor/join pid)))
