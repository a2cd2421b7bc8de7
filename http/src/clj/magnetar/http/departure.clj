(ns magnetar.http.departure
  "Notices that the client of a request has gone while a handler works.

  HTTP/2: Jetty tells it. HTTP/1.1: Jetty does not read while a handler works, so the socket is watched here. The watch asks Jetty's selector for
  the next event of reading. Is there no byte to read then, it was the end of the stream. A byte belongs to the next request and is left alone.

  An event may be stale: T1, Jetty's selector, sees bytes of a request and starts a fiber that tells; T2 reads them, and begins the next watch,
  before that fiber runs. So an event without a byte is not believed, and the selector is asked again. At the end of a stream it tells at
  once, again and again. A stale event needs a watch of its own, of a second at least, so as many as are asked for do not come together.

  Invariants:
    1. One party at a time asks the selector. The watch begins when the body of the request was read, and ends before the response does. Before
       and after, Jetty asks.
    2. The lock of the exchange orders T1, which begins the watch or asks again, and T2, which ends it for good.
    3. Jetty calls the watch on a fiber. It chooses the thread by the callback that is there when the event is taken up. When the event is told,
       the callback may be Jetty's own, which calls the handler of the next request. So a watch counts as one that blocks."
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

(defn- sign
  "What an event of reading was about: :end, the client has closed or reset its socket; :bytes of another request; :nothing, which is an end or a
  stale event. TLS has :end and :nothing, where :nothing may also be bytes."
  [^AbstractEndPoint end-point]
  (try
    (cond
      (tls/secure? end-point) (if (ended? end-point) :end :nothing)
      (pos? (.available (.getInputStream (.socket ^SocketChannel (.getTransport end-point))))) :bytes
      :else :nothing)
    (catch IOException _ :end)))

(defn- locked [^ReentrantLock lock f]
  (.lock lock)
  (try
    (f)
    (finally (.unlock lock))))

(declare watching)

(def ^:private ^:const confirmations
  "How many events without a byte are not believed."
  8)

(defn- after-nothing
  "Asks again. True if the client of a socket without TLS has gone, since there was never a byte."
  [^AbstractEndPoint end-point {:keys [left] :as watch}]
  (if (pos? (long left))
    (do (.tryFillInterested end-point (watching end-point (update watch :left dec)))
        false)
    (not (tls/secure? end-point))))

(defn- after-event
  "Under the lock: true if the client has gone."
  [end-point {:keys [over?] :as watch}]
  (when-not @over?
    (case (sign end-point)
      :end true
      :nothing (after-nothing end-point watch)
      :bytes false)))

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
    (getInvocationType [_] Invocable$InvocationType/BLOCKING)))

;; A watch is an atom: nil, :over, or the end point that is watched.

(defn begin
  "Begins to watch the client, unless that was done or is over. Calls (gone) on a thread of Jetty."
  [watch lock request gone]
  (locked lock
    (fn []
      (when (nil? @watch)
        (when-some [end-point (end-point request)]
          (let [over? (atom false)]
            (when (.tryFillInterested end-point (watching end-point {:over? over? :lock lock :gone gone :left confirmations}))
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
