(ns recursion-without-an-end
  (:require [magnetar.async :as a]))

(defn total [orders]
  (+ (first orders) (total orders)))

(defn -main []
  (println "total:" (a/<!! (a/go (total [1 2])))))
