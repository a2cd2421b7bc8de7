(ns send-to-a-name-that-nobody-has
  (:require [magnetar.actor :refer [!]]))

(defn -main []
  (! :loger "hello"))
