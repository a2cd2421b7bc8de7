(ns unlinked-child-dies
  (:require [magnetar.actor :as actor :refer [! after receive self]]))

(defn parse-price [text]
  (parse-long (subs text 4)))

(defn worker [parent]
  (! parent [:price (parse-price "EUR")]))

(defn -main []
  (actor/with-process {}
    (actor/spawn worker (self))
    (println (receive
               [:price p] p
               (after 1000 "no price")))))
