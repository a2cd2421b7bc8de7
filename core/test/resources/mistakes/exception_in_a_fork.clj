(ns exception-in-a-fork
  (:require [magnetar.scope :as scope]))

(defn charge [order]
  (throw (ex-info "The card was refused." {:order order})))

(defn -main []
  (scope/with-scope [s]
    (scope/fork s charge {:id 7})))
