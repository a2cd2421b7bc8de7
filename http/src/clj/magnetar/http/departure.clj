(ns magnetar.http.departure
  "Notices that the client of a request has gone while a handler works.

  HTTP/2: Jetty tells it. HTTP/1.1: Jetty does not read while a handler works, so the socket is watched here. The watch asks Jetty's selector for
  the next event of reading. Is there no byte to read then, it was the end of the stream. A byte belongs to the next request and is left alone.

  An event may be stale: T1, Jetty's selector, sees bytes of a request; T2 reads them before T1 tells. So the first event without a byte is
  not believed, and the selector is asked again. At the end of a stream it tells at once.

  Invariants:
    1. One party at a time asks the selector. The watch begins when the body of the request was read, and ends before the response does. Before
       and after, Jetty asks.
    2. The lock of the exchange orders T1, which begins the watch or asks again, and T2, which ends it for good."
  {:no-doc true}
  (:require
   [magnetar.http.tls :as tls]
   [magnetar.impl.runtime])
  (:import
   (java.io IOException)
   (java.nio.channels SocketChannel)
   (java.util.concurrent.locks ReentrantLock)
   (org.eclipse.jetty.io AbstractEndPoint Connection$UpgradeFrom)
   (org.eclipse.jetty.server Request)
   (org.eclipse.jetty.util BufferUtil Callback)
   (org.eclipse.jetty.util.thread Invocable$InvocationType)))

(set! *warn-on-reflection* true)

(defn- end-point
  "The end point of a request of HTTP/1 over a socket, else nil."
  ^AbstractEndPoint [^Request request]
  (let [connection (.getConnection (.getConnectionMetaData request))
        end-point (.getEndPoint connection)]
    (when (and (instance? Connection$UpgradeFrom connection) ; Jetty's class of HTTP/1
               (instance? AbstractEndPoint end-point)
               (or (tls/secure? end-point) (instance? SocketChannel (.getTransport end-point))))
      end-point)))

(defn- ended?
  "True at the end of a stream of TLS. A fill of no bytes takes records apart, and keeps what is in them."
  [^AbstractEndPoint end-point]
  (neg? (.fill end-point BufferUtil/EMPTY_BUFFER)))

(defn- nothing-to-read?
  "True of a socket that an event of reading was told of, and that has no byte: the client has closed it or reset it."
  [^AbstractEndPoint end-point]
  (try
    (if (tls/secure? end-point)
      (ended? end-point)
      (zero? (.available (.getInputStream (.socket ^SocketChannel (.getTransport end-point))))))
    (catch IOException _ true)))

(defn- locked [^ReentrantLock lock f]
  (.lock lock)
  (try
    (f)
    (finally (.unlock lock))))

(declare watching)

(defn- after-event
  "Under the lock: true if the client has gone. Asks again where that has to be confirmed."
  [^AbstractEndPoint end-point {:keys [over? confirmations] :as watch}]
  (when (and (not @over?) (nothing-to-read? end-point))
    (or (zero? (long confirmations))
        (do (.tryFillInterested end-point (watching end-point (update watch :confirmations dec)))
            false))))

(defn- watching
  "Jetty's callback for the next event of reading."
  ^Callback [end-point {:keys [over? lock gone] :as watch}]
  (reify Callback
    (succeeded [_]
      (when (locked lock #(after-event end-point watch))
        (gone)))
    (failed [_ _]
      (when-not @over?
        (gone)))
    (getInvocationType [_] Invocable$InvocationType/NON_BLOCKING)))

;; A watch is an atom: nil, :over, or the end point that is watched.

(defn begin
  "Begins to watch the client, unless that was done or is over. Calls (gone) on a thread of Jetty."
  [watch lock request gone]
  (locked lock
    (fn []
      (when (nil? @watch)
        (when-some [end-point (end-point request)]
          (let [over? (atom false)]
            (when (.tryFillInterested end-point (watching end-point {:over? over? :lock lock :gone gone :confirmations 1}))
              (reset! watch [end-point over?]))))))))

(defn end
  "Ends the watch for good."
  [watch lock]
  (locked lock
    (fn []
      (let [[^AbstractEndPoint end-point over? :as watched] (when (vector? @watch) @watch)]
        (reset! watch :over)
        (when watched
          (reset! over? true)
          (.fillable (.getFillInterest end-point)))))))
