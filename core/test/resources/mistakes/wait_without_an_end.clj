(ns wait-without-an-end
  (:require [magnetar.scope :as scope]))

(defn fetch [answer]
  @answer)

(defn -main []
  (scope/with-scope [s {:deadline 50}]
    (scope/fork s fetch (promise))))
