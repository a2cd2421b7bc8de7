(ns init-of-wrong-arity
  (:require [magnetar.gen-server :as gs]))

(defn init []
  [:ok {}])

(defn handle-call [_ _ state]
  [:reply state state])

(defn handle-cast [_ state]
  [:noreply state])

(defn -main []
  (let [[_ books] (gs/start 'init-of-wrong-arity {:year 2026})]
    (println (gs/call books :get))))
