;; What hangs: a mult of orders with two taps. The invoices took one order and are slow: they sleep for an
;; hour. The mult waits until they take the next order, so the kitchen gets nothing, and the till waits for
;; the mult.
;; Innocent beside it: a mult of trades with two taps. A trade comes every 20 ms, and both taps take at once.
;; A mult of news with a tap: its source is fed from outside, and nothing has come yet.
;;
;; Expected answer
;;   kind   :stuck: the mult waits for one tap, whose consumer does not take
;;   names  the mult of [mult]; the go block of [invoices], which took last from the slow tap
;;   lines  [A] where the invoices sleep
;;   should the line [T], which tapped; the number of other taps that get nothing, 1
;;   victim the go block of [till], which waits to put; the go-loop of [kitchen], which waits to take
;;   never  the mults of [trades-mult] and [news-mult]; the go-loops of [chart], [tape], [market] and [reader]
(ns mult-slow-tap-twin
  (:require
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.scope :as scope]))

(defn- write-invoices [invoices began]
  (loop []
    (when (a/<! invoices)
      (deliver began true)
      (scope/sleep 3600000) ; [A]
      (recur))))

(defn- start-trades [trades]
  (let [ticker (a/mult trades) ; [trades-mult]
        chart (a/tap ticker (a/chan))
        tape (a/tap ticker (a/chan))]
    (a/go-loop [] ; [chart]
      (when (a/<! chart)
        (recur)))
    (a/go-loop [] ; [tape]
      (when (a/<! tape)
        (recur)))
    (a/go-loop [trade 1] ; [market]
      (scope/sleep 20)
      (when (a/>! trades trade)
        (recur (inc trade))))))

(defn- start-news [news]
  (let [papers (a/mult news) ; [news-mult]
        reader (a/tap papers (a/chan))]
    (a/go-loop [] ; [reader]
      (when (a/<! reader)
        (recur)))))

(defn start []
  (let [trades (a/chan)
        news (a/chan)
        orders (a/chan)
        board (a/mult orders) ; [mult]
        kitchen (a/chan)
        invoices (a/chan)
        began (promise)
        sleeper (promise)]
    (start-trades trades)
    (start-news news)
    (a/tap board kitchen)
    (a/tap board invoices) ; [T]
    (a/go-loop [] ; [kitchen]
      (when (a/<! kitchen)
        (recur)))
    (a/go ; [invoices]
      (deliver sleeper (Thread/currentThread))
      (write-invoices invoices began))
    (a/go-loop [order 1] ; [till]
      (when (a/>! orders order)
        (recur (inc order))))
    {:publish #(a/put! news %)
     :ready #(and (realized? began)
                  (seq (:putters (channel/info invoices)))
                  (seq (:putters (channel/info orders)))
                  true)
     :stop #(do
              (run! a/close! [trades news orders])
              (a/untap board invoices)
              (a/close! invoices)
              (.interrupt ^Thread @sleeper))}))
