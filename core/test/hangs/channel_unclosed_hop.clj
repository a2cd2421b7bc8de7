;; What hangs: a fork puts three lines on a channel and ends without closing it. The parser waits for more
;; lines. The store waits for more rows of the parser, and the scope waits for both.
;;
;; Expected answer
;;   kind   :leak: the parser waits on a channel that no live code can put on or close
;;   names  the fork of [parser], as the cause
;;   lines  [A] takes from the channel of lines
;;   should the fork of [reader], which put last and has ended; the line [K], which made the channel
;;   victim the fork of [store], which waits for the parser at [B]; the go block of [owner]
;;   never  any other fiber; [store] must not be the cause
(ns channel-unclosed-hop
  (:require
   [magnetar.async :as a]
   [magnetar.scope :as scope]))

(defn- read-lines [lines ended]
  (doseq [line ["1" "2" "3"]]
    (a/>! lines line)) ; the end of the file: (a/close! lines) is missing
  (deliver ended true))

(defn- parse [lines rows parser]
  (deliver parser (Thread/currentThread))
  (loop []
    (when-some [line (a/<! lines)] ; [A]
      (a/>! rows (parse-long line))
      (recur)))
  (a/close! rows))

(defn- store [rows seen]
  (loop []
    (when (a/<! rows) ; [B]
      (swap! seen inc)
      (recur))))

(defn- waits? [parser]
  (and (realized? parser) (= Thread$State/WAITING (.getState ^Thread @parser))))

(defn start []
  (let [seen (atom 0)
        ended (promise)
        parser (promise)
        opened (promise)]
    (a/go ; [owner]
      (scope/with-scope [s]
        (deliver opened s)
        (let [lines (a/chan) ; [K]
              rows (a/chan)]
          (scope/fork s read-lines lines ended) ; [reader]
          (scope/fork s parse lines rows parser) ; [parser]
          (scope/fork s store rows seen)))) ; [store]
    {:ready #(and (= 3 @seen) (realized? ended) (waits? parser))
     :stop #(scope/cancel @opened :stopped)}))
