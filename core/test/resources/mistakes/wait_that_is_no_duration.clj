(ns wait-that-is-no-duration
  (:require [magnetar.actor :as actor :refer [self send-after]]))

(defn -main []
  (actor/with-process {}
    (send-after "500" (self) :tick)))
