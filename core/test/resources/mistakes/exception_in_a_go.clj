(ns exception-in-a-go
  (:require [magnetar.async :as a]))

(defn charge [order]
  (throw (ex-info "The card was refused." {:order order})))

(defn -main []
  (println "charged:" (a/<!! (a/go (charge {:id 7})))))
