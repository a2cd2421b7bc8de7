;; What hangs: a mult of events with three taps. The index took one event and puts it on a channel for the
;; compressor. The compressor waits for a latch of the JDK that nothing counts down. So the index waits for
;; the compressor, the mult waits for the index, and the two other taps get nothing.
;;
;; Expected answer
;;   kind   :stuck: mult -> tap -> index -> compressor -> CountDownLatch
;;   names  the mult of [mult]; the go block of [index]; the go block of [compressor]
;;   lines  [A] the index puts; [B] the compressor waits for the latch
;;   should the line [T], which tapped; the number of other taps that get nothing, 2
;;   victim the go block of [source]; the go-loops of [mail] and [audit]
;;   never  any other fiber; neither [mail] nor [audit] as the cause
(ns mult-slow-tap-hop
  (:require
   [magnetar.async :as a]
   [magnetar.channel :as channel])
  (:import
   (java.util.concurrent CountDownLatch)))

(defn- index [entries blocks began]
  (loop []
    (when-some [entry (a/<! entries)]
      (a/>! blocks entry) ; [A]
      (deliver began true)
      (recur))))

(defn- compress [blocks ^CountDownLatch disk]
  (loop []
    (when (a/<! blocks)
      (.await disk) ; [B]
      (recur))))

(defn start []
  (let [events (a/chan)
        everywhere (a/mult events) ; [mult]
        mail (a/chan)
        audit (a/chan)
        entries (a/chan)
        blocks (a/chan)
        disk (CountDownLatch. 1)
        began (promise)]
    (a/tap everywhere mail)
    (a/tap everywhere entries) ; [T]
    (a/tap everywhere audit)
    (a/go-loop [] ; [mail]
      (when (a/<! mail)
        (recur)))
    (a/go-loop [] ; [audit]
      (when (a/<! audit)
        (recur)))
    (a/go ; [index]
      (index entries blocks began))
    (a/go ; [compressor]
      (compress blocks disk))
    (a/go-loop [event 1] ; [source]
      (when (a/>! events event)
        (recur (inc event))))
    {:ready #(and (realized? began)
                  (seq (:putters (channel/info blocks)))
                  (seq (:putters (channel/info entries)))
                  (seq (:putters (channel/info events)))
                  true)
     :stop #(do
              (a/close! events)
              (a/close! entries)
              (a/close! blocks)
              (.countDown disk))}))
