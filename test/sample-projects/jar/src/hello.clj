(ns hello
  (:require
   [magnetar.async :as a])
  (:gen-class))

(defn -main [& _]
  (let [squares (a/chan)]
    (dotimes [n 1000]
      (a/go (Thread/sleep 10) (a/>! squares (* n n))))
    (println "the sum of 1000 squares is" (a/<!! (a/reduce + 0 (a/take 1000 squares))))))
