(ns magnetar.http.body
  "The body of a request as a stream with a limit.

  What a read met is kept in an atom, for the answer of a request that fails: :too-large the error of a body above the limit, :failure another
  error, :cut-short true if the request was cancelled while a read waited for the client, :ended true once all was read."
  {:no-doc true}
  (:require
   [magnetar.http.refusals :as refusals]
   [magnetar.impl.outcomes :as outcomes]
   [magnetar.impl.runtime])
  (:import
   (java.io IOException InputStream)
   (org.eclipse.jetty.io Content$Source)
   (org.eclipse.jetty.server Request)))

(set! *warn-on-reflection* true)

(defn- too-large [facts most]
  (let [e (IOException. ^Throwable (refusals/body-too-large most))]
    (swap! facts assoc :too-large e)
    (throw e)))

(defn- counted
  "Adds n bytes to those that were read; n below 0 is the end."
  [facts ^longs total ^long most ^long n]
  (if (neg? n)
    (swap! facts assoc :ended true)
    (when (< most (aset total 0 (+ n (aget total 0))))
      (too-large facts most)))
  n)

(defn- met
  "The facts after a read that threw."
  [facts e]
  (cond
    (outcomes/by-cancellation? e) (assoc facts :cut-short true)
    (:failure facts) facts
    :else (assoc facts :failure e)))

(defn- watched
  "The value of (f), a read. Its failure is kept."
  [facts f]
  (try
    (f)
    (catch Throwable e
      (swap! facts met e)
      (throw e))))

(defn- read-byte ^long [^InputStream in]
  (let [one (byte-array 1)
        n (.read in one 0 1)]
    (if (neg? n) -1 (bit-and 255 (aget one 0)))))

(defn- check-open [closed?]
  (when closed?
    (throw (IOException. "The handler has closed the body of the request."))))

(defn stream
  "The body of the request. A read beyond `most` bytes throws an IOException, and so does one after `close`. Jetty takes a close of its own
  stream before the end for a client that has gone, so it is not told; it drops the rest after the response."
  ^InputStream [^Request request most facts]
  (let [in (Content$Source/asInputStream request)
        total (long-array 1)
        closed? (volatile! false)
        count-in #(counted facts total most %)
        reading #(do (check-open @closed?) (watched facts %))]
    (proxy [InputStream] []
      (read
        ([] (let [b (long (reading #(read-byte in)))]
              (count-in (if (neg? b) -1 1))
              (int b)))
        ([^bytes bytes] (int (count-in (reading #(long (.read in bytes 0 (alength bytes)))))))
        ([^bytes bytes from length] (int (count-in (reading #(long (.read in bytes (int from) (int length))))))))
      (available [] (if @closed? 0 (.available in)))
      (close [] (vreset! closed? true)))))
