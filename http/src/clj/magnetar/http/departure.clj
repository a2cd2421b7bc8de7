(ns magnetar.http.departure
  "Notices that the client of a request has gone while a handler works.

  HTTP/2: Jetty tells it. HTTP/1.1: Jetty does not read while a handler works, so the socket is watched here. The watch asks Jetty's selector for
  the next event of reading. Is there no byte to read then, it was the end of the stream. A byte belongs to the next request and is left alone.

  Invariants:
    1. One party at a time asks the selector. The watch begins when the body of the request was read, and ends before the response does. Before
       and after, Jetty asks.
    2. The lock of the exchange orders T1, which begins the watch, and T2, which ends it for good."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (java.io IOException)
   (java.nio.channels SocketChannel)
   (java.util.concurrent.locks ReentrantLock)
   (org.eclipse.jetty.io AbstractEndPoint Connection$UpgradeFrom)
   (org.eclipse.jetty.server Request)
   (org.eclipse.jetty.util Callback)
   (org.eclipse.jetty.util.thread Invocable$InvocationType)))

(set! *warn-on-reflection* true)

(defn- end-point
  "The end point of a request of HTTP/1 over a socket, else nil."
  ^AbstractEndPoint [^Request request]
  (let [connection (.getConnection (.getConnectionMetaData request))
        end-point (.getEndPoint connection)]
    (when (and (instance? Connection$UpgradeFrom connection) ; Jetty's class of HTTP/1
               (instance? AbstractEndPoint end-point)
               (instance? SocketChannel (.getTransport end-point)))
      end-point)))

(defn- nothing-to-read?
  "True of a socket that an event of reading was told of, and that has no byte: the client has closed it or reset it."
  [^AbstractEndPoint end-point]
  (try
    (zero? (.available (.getInputStream (.socket ^SocketChannel (.getTransport end-point)))))
    (catch IOException _ true)))

(defn- event [end-point over? gone]
  (reify Callback
    (succeeded [_]
      (when (and (not @over?) (nothing-to-read? end-point))
        (gone)))
    (failed [_ _]
      (when-not @over?
        (gone)))
    (getInvocationType [_] Invocable$InvocationType/NON_BLOCKING)))

;; A watch is an atom: nil, :over, or the end point that is watched.

(defn begin
  "Begins to watch the client, unless that was done or is over. Calls (gone) on a thread of Jetty."
  [watch ^ReentrantLock lock request gone]
  (.lock lock)
  (try
    (when (nil? @watch)
      (when-some [end-point (end-point request)]
        (let [over? (atom false)]
          (when (.tryFillInterested end-point (event end-point over? gone))
            (reset! watch [end-point over?])))))
    (finally (.unlock lock))))

(defn end
  "Ends the watch for good."
  [watch ^ReentrantLock lock]
  (.lock lock)
  (try
    (let [[^AbstractEndPoint end-point over? :as watched] (when (vector? @watch) @watch)]
      (reset! watch :over)
      (when watched
        (reset! over? true)
        (.fillable (.getFillInterest end-point))))
    (finally (.unlock lock))))
