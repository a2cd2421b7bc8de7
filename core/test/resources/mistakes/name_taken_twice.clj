(ns name-taken-twice
  (:require [magnetar.actor :as actor :refer [receive register spawn]]))

(defn log []
  (receive line (do (println line) (actor/continue #'log))))

(defn -main []
  (register :logger (spawn log))
  (register :logger (spawn log)))
