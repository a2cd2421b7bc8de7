(ns exception-in-a-server
  (:require [magnetar.gen-server :as gs]))

(defn charge [order]
  (throw (ex-info "The card was refused." {:order order})))

(def till
  {:init (fn [_] [:ok {:sold (vec (repeat 1000 "a book of many pages"))}])
   :handle-call (fn [order _ state] [:reply (charge order) state])
   :handle-cast (fn [_ state] [:noreply state])})

(defn -main []
  (let [[_ pid] (gs/start till nil {:name :till})]
    (gs/call pid {:id 7})))
