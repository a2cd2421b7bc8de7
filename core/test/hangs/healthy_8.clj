;; Healthy: worker pools on an empty queue. Eight workers wait on a channel, on which the dispatcher puts a
;; job every 50 ms, so seven of them wait all the time. Four more wait on a queue that only `:submit` of the
;; returned map fills. The fibers that have put on that queue have ended, as the fibers of requests do; more
;; may come.
;;
;; Expected answer: nothing is stuck, deadlocked or leaked.
(ns healthy-8
  (:require
   [magnetar.async :as a]
   [magnetar.scope :as scope]))

(defonce ^:private uploads
  (a/chan 100))

(defn- submit [upload]
  (a/go (a/>! uploads upload)))

(defn- work [jobs done]
  (loop []
    (when-some [job (a/<! jobs)]
      (when-not (= :end job)
        (scope/sleep 2)
        (swap! done inc)
        (recur)))))

(defn- dispatch [jobs running]
  (loop [n 0]
    (when @running
      (a/>! jobs n)
      (scope/sleep 50)
      (recur (inc n))))
  (a/close! jobs))

(defn start []
  (let [running (atom true)
        done (atom 0)
        jobs (a/chan)
        uploaded (atom 0)
        dispatched (a/go (dispatch jobs running))
        workers (vec (for [_ (range 8)]
                       (a/go (work jobs done))))
        uploaders (vec (for [_ (range 4)]
                         (a/io-thread (work uploads uploaded))))]
    (run! submit ["a.png" "b.png" "c.png"])
    {:submit submit
     :ready #(and (< 5 @done) (= 3 @uploaded))
     :stop #(do
              (reset! running false)
              (a/<! dispatched)
              (run! a/<! workers)
              (dotimes [_ 4] (a/>! uploads :end))
              (run! a/<! uploaders))}))
