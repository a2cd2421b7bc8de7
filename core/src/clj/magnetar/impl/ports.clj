(ns magnetar.impl.ports
  "The operations on ports of every kind: channels of ours, ports of a program, channels of core.async."
  {:no-doc true}
  (:refer-clojure :exclude [take])
  (:require [magnetar.impl.runtime])
  (:import (clojure.lang IDeref)
           (magnetar.kernel.channel Callback Channel Handler$Completion Port Ports ReadPort Select Select$Chosen
                                    Select$Operation WritePort)
           (magnetar.kernel.time Durations)))

(set! *warn-on-reflection* true)

(defonce ^{:doc "Function that makes a port of ours of another library's, or returns nil; set by the bridge."} adapter
  (atom (constantly nil)))

;; The classes and messages of misuse are core.async's here; `magnetar.channel` has its own.

(defn- no-port [method protocol x]
  (IllegalArgumentException.
   (str "No implementation of method: " method " of protocol: #'clojure.core.async.impl.protocols/" protocol
        " found for class: " (if (nil? x) "nil" (.getName (class x))))))

(defn read-port
  "`x` as a port to take from."
  ^ReadPort [x]
  (if (instance? ReadPort x)
    x
    (or (@adapter x) (throw (no-port :take! "ReadPort" x)))))

(defn write-port
  "`x` as a port to put on."
  ^WritePort [x]
  (if (instance? WritePort x)
    x
    (or (@adapter x) (throw (no-port :put! "WritePort" x)))))

(defn- port [method x]
  (if (instance? Port x)
    x
    (or (@adapter x) (throw (no-port method "Channel" x)))))

(defn pending?
  "True if `answer` is that of an operation that did not happen."
  [answer]
  (identical? answer Port/PENDING))

(defn take
  "Takes a value; waits while there is none; nil if closed."
  [x]
  (if (instance? Channel x)
    (.receive ^Channel x)
    (Ports/take (read-port x) Durations/INFINITE)))

(defn- require-value [value]
  (when (nil? value)
    (throw (IllegalArgumentException. "Can't put nil on channel"))))

(defn put
  "Puts a value; waits while there is no room; false if closed."
  [x value]
  (require-value value)
  (if (instance? Channel x)
    (.send ^Channel x value)
    (Ports/put (write-port x) value Durations/INFINITE)))

(defn poll
  "Takes a value if there is one now; else an answer that is `pending?`."
  [x]
  (if (instance? Channel x)
    (.poll ^Channel x)
    (Ports/take (read-port x) 0)))

(defn offer
  "Puts a value if that is possible now; else an answer that is `pending?`."
  [x value]
  (require-value value)
  (if (instance? Channel x)
    (.offer ^Channel x value)
    (Ports/put (write-port x) value 0)))

(defn close
  "Closes the port."
  [x]
  (.close ^Port (port :close! x)))

(defn closed?
  "True if the port was closed."
  [x]
  (.isClosed ^Port (port :closed? x)))

(defn completion
  "`f` as the function that takes the result of an operation."
  ^Handler$Completion [f]
  (reify Handler$Completion
    (complete [_ result] (f result))))

(defn complete
  "Hands the result to what takes it."
  [^Handler$Completion target result]
  (.complete target result))

(defn take-later
  "Takes a value now, or queues `callback`: the value, or an answer that is `pending?`."
  [x ^Callback callback]
  (Ports/take (read-port x) callback))

(defn put-later
  "Puts a value now, or queues `callback`: true or false, or an answer that is `pending?`."
  [x value ^Callback callback]
  (require-value value)
  (Ports/put (write-port x) value callback))

;; ---- select

(defn- operation [clause]
  (if (vector? clause)
    (Select$Operation. (write-port (nth clause 0)) (nth clause 1))
    (Select$Operation. (read-port clause) nil)))

(defn- check-values [ports]
  (doseq [port ports :when (vector? port)]
    (assert (some? (port 1)) "can't put nil on channel")))

(defn- select ^Select [ports priority?]
  (assert (pos? (count ports)) "alts must have at least one channel operation")
  (check-values ports)
  (let [select (Select/of ^java.util.Collection (mapv operation ports))]
    (if priority? (.inOrder select) select)))

(defn- answer [ports ^Select$Chosen chosen]
  (let [clause (nth ports (.index chosen))]
    [(.value chosen) (if (vector? clause) (nth clause 0) clause)]))

(defn port?
  "True for ports of ours and of other libraries."
  [x]
  (boolean (or (instance? ReadPort x) (instance? WritePort x) (@adapter x))))

(defn- as-clauses [ports]
  (if (seqable? ports)
    (vec ports)
    (throw (IllegalArgumentException. (str "alts! takes a collection of ports; this is " ports ": write it in a vector.")))))

(defn- check-options [opts]
  (when-not (or (nil? opts) (map? opts))
    (throw (IllegalArgumentException. (str "No value supplied for key: " opts)))))

(defn alts
  "Waits for the first of several operations; see `magnetar.async/alts!`."
  [ports {:keys [priority] :as opts}]
  (check-options opts)
  (let [ports (as-clauses ports)
        select (select ports priority)]
    (if (contains? opts :default)
      (if-some [chosen (.now select)]
        (answer ports chosen)
        [(:default opts) :default])
      (answer ports (.await select)))))

(defn alts-within
  "Like `alts` without a default, for so many nanoseconds; nil if nothing happened."
  [ports priority? ^long nanos]
  (let [ports (vec ports)]
    (some->> (.awaitWithin (select ports priority?) nanos) (answer ports))))

(defn box
  "A reference that holds `value`."
  [value]
  (reify IDeref
    (deref [_] value)))

(defn alts-later
  "Does one of the operations now and returns it boxed, or calls `f` with it later and returns nil."
  [f ports {:keys [priority] :as opts} on-caller?]
  (let [ports (vec ports)
        select (select ports priority)
        now (if (contains? opts :default)
              (.now select)
              (.whenChosen select (completion #(f (answer ports %))) on-caller?))]
    (cond
      now (box (answer ports now))
      (contains? opts :default) (box [(:default opts) :default]))))
