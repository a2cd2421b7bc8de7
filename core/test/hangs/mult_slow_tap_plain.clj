;; What hangs: a mult of prices with two taps. The archive took one price and is slow: it sleeps for an hour.
;; The mult waits until the archive takes the next price. So the site gets no prices, and the feed waits for
;; the mult.
;;
;; Expected answer
;;   kind   :stuck: the mult waits for one tap, whose consumer does not take
;;   names  the mult of [mult]; the go block of [archive], which took last from the slow tap
;;   lines  [A] where the archive sleeps
;;   should the line [T], which tapped; the number of other taps that get nothing, 1
;;   victim the go block of [feed], which waits to put; the go-loop of [site], which waits to take
;;   never  any other fiber; [site] must not be the cause
(ns mult-slow-tap-plain
  (:require
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.scope :as scope]))

(defn- write-archive [archive began]
  (loop []
    (when (a/<! archive)
      (deliver began true)
      (scope/sleep 3600000) ; [A]
      (recur))))

(defn start []
  (let [prices (a/chan)
        quotes (a/mult prices) ; [mult]
        site (a/chan)
        archive (a/chan)
        began (promise)
        sleeper (promise)]
    (a/tap quotes site)
    (a/tap quotes archive) ; [T]
    (a/go-loop [] ; [site]
      (when (a/<! site)
        (recur)))
    (a/go ; [archive]
      (deliver sleeper (Thread/currentThread))
      (write-archive archive began))
    (a/go-loop [price 1] ; [feed]
      (when (a/>! prices price)
        (recur (inc price))))
    {:ready #(and (realized? began)
                  (seq (:putters (channel/info archive)))
                  (seq (:putters (channel/info prices)))
                  true)
     :stop #(do
              (a/close! prices)
              (a/untap quotes archive)
              (a/close! archive)
              (.interrupt ^Thread @sleeper))}))
