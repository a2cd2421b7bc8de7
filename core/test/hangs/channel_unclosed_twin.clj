;; What hangs: a fork puts three readings of a meter on a channel and ends without closing it. The fork that
;; averages them waits for more.
;; Innocent beside it: the till puts a receipt on another channel every 20 ms, and the journal waits for it.
;; Three workers wait on an empty queue, on which `:submit` of the returned map puts jobs.
;;
;; Expected answer
;;   kind   :leak: a fiber waits on a channel that no live code can put on or close
;;   names  the fork of [average]
;;   lines  [A] takes from the channel of readings
;;   should the fork of [meter], which put last and has ended; the line [K], which made the channel
;;   victim the go block of [owner], which waits for the forks of its scope
;;   never  the go blocks of [till], [journal] and [workers]
(ns channel-unclosed-twin
  (:require
   [magnetar.async :as a]
   [magnetar.scope :as scope]))

(defn- read-meter [readings ended]
  (doseq [reading [17 19 23]]
    (a/>! readings reading)) ; (a/close! readings) is missing
  (deliver ended true))

(defn- average [readings seen averager]
  (deliver averager (Thread/currentThread))
  (loop [sum 0 n 0]
    (if-some [reading (a/<! readings)] ; [A]
      (do
        (swap! seen inc)
        (recur (+ sum reading) (inc n)))
      (/ sum (max 1 n)))))

(defn- take-all [ch]
  (loop []
    (when (a/<! ch)
      (recur))))

(defn- waits? [averager]
  (and (realized? averager) (= Thread$State/WAITING (.getState ^Thread @averager))))

(defn start []
  (let [seen (atom 0)
        ended (promise)
        averager (promise)
        opened (promise)
        receipts (a/chan)
        jobs (a/chan 10)]
    (a/go-loop [receipt 1] ; [till]
      (scope/sleep 20)
      (when (a/>! receipts receipt)
        (recur (inc receipt))))
    (a/go ; [journal]
      (take-all receipts))
    (dotimes [_ 3]
      (a/go ; [workers]
        (take-all jobs)))
    (a/go ; [owner]
      (scope/with-scope [s]
        (deliver opened s)
        (let [readings (a/chan)] ; [K]
          (scope/fork s read-meter readings ended) ; [meter]
          (scope/fork s average readings seen averager)))) ; [average]
    {:submit #(a/>! jobs %)
     :ready #(and (= 3 @seen) (realized? ended) (waits? averager))
     :stop #(do
              (run! a/close! [receipts jobs])
              (scope/cancel @opened :stopped))}))
