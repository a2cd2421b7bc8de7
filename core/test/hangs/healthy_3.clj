;; Healthy: pipelines with back pressure. No channel has a buffer, and the last stage is the slowest. So each
;; stage waits most of the time to put, and the source waits longest. Every 2 ms a value arrives at the end.
;;
;; Expected answer: nothing is stuck, deadlocked or leaked.
(ns healthy-3
  (:require
   [magnetar.async :as a]
   [magnetar.scope :as scope]))

(defn- produce [lines running]
  (loop [n 0]
    (when (and @running (a/>! lines (str n)))
      (recur (inc n))))
  (a/close! lines))

(defn- look-up [n out]
  (a/go
    (a/>! out {:id n})
    (a/close! out)))

(defn- store [rows done]
  (loop []
    (when (a/<! rows)
      (scope/sleep 2)
      (swap! done inc)
      (recur))))

(defn start []
  (let [running (atom true)
        done (atom 0)
        lines (a/chan)
        numbers (a/chan)
        users (a/chan)
        rows (a/chan)]
    (a/pipeline 2 numbers (map parse-long) lines)
    (a/pipeline-async 4 users look-up numbers)
    (a/pipe users rows)
    (a/go (produce lines running))
    (let [stored (a/go (store rows done))]
      {:ready #(< 20 @done)
       :stop #(do
                (reset! running false)
                (a/<! stored))})))
