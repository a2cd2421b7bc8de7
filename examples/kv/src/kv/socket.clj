(ns kv.socket
  "A client's connection. Where it is lost, the process that uses it ends, quietly."
  (:require
   [kv.resp :as resp]
   [magnetar.actor :as actor]
   [magnetar.net :as net])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(defn- or-end [f]
  (try
    (f)
    (catch ExceptionInfo e
      (actor/exit [:shutdown (:reason (ex-data e))]))))

(defn send-text
  "Sends the text of replies."
  [conn text]
  (or-end #(net/send conn (resp/bytes-of text))))

(defn receive-bytes
  "The bytes that are there; exactly n where so many are missing. nil when the client has left."
  [conn n]
  (or-end #(if (< (long n) 8192)
             (net/recv conn)
             (net/recv conn n))))

(defn ask-for-message
  "Lets the next bytes arrive as a message."
  [conn]
  (or-end #(net/set-options conn {:active :once})))
