;; What hangs: a go block puts three invoices on a channel and ends. It does not close the channel, so the
;; fiber that adds them up waits for ever. Nothing else has the channel.
;;
;; Expected answer
;;   kind   :leak: a fiber waits on a channel that no live code can put on or close
;;   names  the io-thread of [total]
;;   lines  [A] takes from the channel
;;   should the go block of [sender], which put last and has ended; the line [K], which made the channel
;;   never  any other fiber
(ns channel-unclosed-plain
  (:require
   [magnetar.async :as a]
   [magnetar.channel :as channel]))

(defn- total [invoices seen]
  (loop [sum 0]
    (if-some [amount (a/<! invoices)] ; [A]
      (do
        (swap! seen inc)
        (recur (+ sum amount)))
      sum)))

(defn- send-invoices [invoices]
  (doseq [amount [100 250 70]]
    (a/>! invoices amount))) ; the end of the month: (a/close! invoices) is missing

(defn- start-month [seen adder]
  (let [invoices (a/chan)] ; [K]
    (a/io-thread ; [total]
      (deliver adder (Thread/currentThread))
      (total invoices seen))
    (a/go ; [sender]
      (send-invoices invoices))))

(defn- waits? [adder]
  (and (realized? adder) (= Thread$State/WAITING (.getState ^Thread @adder))))

(defn start []
  (let [seen (atom 0)
        adder (promise)
        sent (start-month seen adder)]
    {:ready #(and (= 3 @seen) (channel/closed? sent) (waits? adder))
     :stop #(.interrupt ^Thread @adder)}))
