(ns receive-in-a-go
  (:require [magnetar.actor :as actor :refer [receive]]
            [magnetar.async :as a]))

(defn serve []
  (receive [:order n] n))

(defn -main []
  (actor/with-process {}
    (a/<!! (a/go (serve)))))
