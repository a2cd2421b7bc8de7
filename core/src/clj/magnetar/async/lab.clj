(ns magnetar.async.lab
  "The four names of clojure.core.async.lab: ports that stand for several, experimental as there."
  (:require [magnetar.async :as a]
            [magnetar.impl.ports :as ports]
            [magnetar.impl.runtime])
  (:import (magnetar.kernel.channel Handler Port Ports ReadPort WritePort)))

(set! *warn-on-reflection* true)

(defn- commit
  "What takes the result of the operation of `handler`, or nil if it has happened elsewhere."
  [^Handler handler]
  (.lock handler)
  (try
    (when (.active handler) (.commit handler))
    (finally (.unlock handler))))

(defn- finish [handler value]
  (when-let [target (commit handler)]
    (ports/complete target value)))

(declare take-any)

(defn- settle
  "Hands the value to the handler; if its port was closed, drops the port and tries the others."
  [live [value port] handler]
  (if (nil? value)
    (let [answer (take-any (swap! live disj port) live handler)]
      (when-not (ports/pending? answer) (finish handler answer)))
    (finish handler value)))

(defn- take-any [open live ^Handler handler]
  (if (empty? open)
    nil
    (let [options (if (.blockable handler) {} {:default Port/PENDING})
          [value port :as now] (some-> (a/do-alts #(settle live % handler) (seq open) options) deref)]
      (cond
        (nil? now) Port/PENDING
        (nil? value) (recur (swap! live disj port) live handler)
        :else value))))

(defn ->MultiplexingReadPort
  "A port to take from any of the ports in the collection read-ports. mutex is not needed and may be nil; see `multiplex`."
  [mutex read-ports]
  (let [live (atom (set read-ports))]
    (reify ReadPort
      (take [_ handler] (take-any @live live handler)))))

(defn multiplex
  "A port that takes from any of ports, at random among those that are ready. A port that is closed is dropped; once all are,
  it is closed.

    (<! (multiplex a b))"
  [& ports]
  (->MultiplexingReadPort nil ports))

(defn- put-rest [left value ^Handler handler]
  (if (= 1 (count left))
    (.put (Ports/writePort (first left)) value handler)
    (let [later (fn [[_ port]]
                  (let [answer (put-rest (disj left port) value handler)]
                    (when-not (ports/pending? answer) (finish handler answer))))
          now (a/do-alts later (mapv #(vector % value) left) {})]
      (if now
        (recur (disj left (second @now)) value handler)
        Port/PENDING))))

(defn ->BroadcastingWritePort
  "A port that puts on each of the ports in the set write-ports; see `broadcast`."
  [write-ports]
  (reify WritePort
    (put [_ value handler] (put-rest write-ports value handler))))

(defn broadcast
  "A port that puts each value on all of ports; the put is done when all have accepted. Give them buffers.

    (>! (broadcast a b) :x)"
  [& ports]
  (->BroadcastingWritePort (set ports)))
