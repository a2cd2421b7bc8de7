(ns take-from-no-channel
  (:require [magnetar.async :as a]))

(defn total [orders]
  (reduce + (a/<!! orders)))

(defn -main []
  (println (total [10 20])))
