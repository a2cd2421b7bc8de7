;; Healthy: one to many. A mult with two fast taps and a tap with a sliding buffer that is read every 50 ms. A
;; mult with a tap with a dropping buffer that nothing reads: it never makes the mult wait. A publication with
;; two subscribers, and a topic without one. A mix of two inputs, one of them paused.
;;
;; Expected answer: nothing is stuck, deadlocked or leaked.
(ns healthy-4
  (:require
   [magnetar.async :as a]
   [magnetar.scope :as scope]))

(defn- take-all [ch done]
  (loop []
    (when (a/<! ch)
      (swap! done inc)
      (recur))))

(defn- feed [ch running value-of]
  (loop [n 0]
    (scope/sleep 2)
    (when (and @running (a/>! ch (value-of n)))
      (recur (inc n))))
  (a/close! ch))

(defn- show-latest [latest running]
  (while @running
    (a/poll! latest)
    (scope/sleep 50)))

(defn start []
  (let [running (atom true)
        done (atom 0)
        prices (a/chan)
        quotes (a/mult prices)
        logged (a/chan)
        log (a/mult logged)
        news (a/chan)
        papers (a/pub news :topic)
        front (a/chan)
        pages (a/mix front)
        today (a/chan)
        old (a/chan)
        latest (a/tap quotes (a/chan (a/sliding-buffer 1)))]
    (a/tap log (a/chan (a/dropping-buffer 10)))
    (a/toggle pages {old {:pause true}, today {:pause false}})
    (dotimes [_ 2]
      (let [ch (a/tap quotes (a/chan))]
        (a/go (take-all ch done))))
    (doseq [topic [:sports :weather]]
      (let [ch (a/sub papers topic (a/chan))]
        (a/go (take-all ch done))))
    (a/go (take-all front done))
    (let [fibers [(a/go (feed prices running identity))
                  (a/go (feed logged running identity))
                  (a/go (feed news running (fn [n] {:topic (nth [:sports :weather :chess] (rem n 3)) :n n})))
                  (a/go (feed today running identity))
                  (a/go (show-latest latest running))]]
      {:resume-old #(a/toggle pages {old {:pause false}})
       :ready #(< 100 @done)
       :stop #(do
                (reset! running false)
                (run! a/<! fibers)
                (run! a/close! [old front]))})))
