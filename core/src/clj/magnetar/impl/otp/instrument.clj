(ns magnetar.impl.otp.instrument
  "Instruments of servers and calls: what metrics, events and traces of other systems are made of.

  An Instrument is a Java interface, see there. It is told before and after a server handles a message, and before and after a call."
  {:no-doc true}
  (:require
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.runtime]
   [magnetar.impl.stamped]
   [magnetar.proc-lib.report :as report])
  (:import
   (magnetar.impl.otp Instrument Instruments)
   (magnetar.impl.stamped Stamped)
   (magnetar.kernel.fiber Cancelled Exit)
   (magnetar.kernel.process Hosting)))

(set! *warn-on-reflection* true)

(defn add
  "Installs the instrument for what begins from now on; returns it."
  [^Instrument instrument]
  (Instruments/add instrument)
  instrument)

(defn remove-instrument
  "Removes the instrument, which still gets the ends of what it was told of."
  [^Instrument instrument]
  (Instruments/remove instrument))

(defn label
  "What the callback module of the server is called, a symbol or a string."
  [server]
  (host/label server))

(defn label-at
  "What the callback module of the server is called that has the pid or the local name; nil if no server has it."
  [address]
  (host/label-at address))

(defn request
  "What the program sent: the request of a call or of a cast, or the message."
  [kind message]
  (case kind
    :call (let [request (host/at message 2)]
            (if (instance? Stamped request) (.-request ^Stamped request) request))
    :cast (host/at message 1)
    message))

(defn failure
  "The error if it is a failure: nil for nil, for an expected exit, for a cancellation, and for a process that continues as something else."
  [error]
  (cond
    (or (nil? error) (Hosting/isContinue error) (instance? Cancelled error)) nil
    (instance? Exit error) (when-not (report/silent? (.reason ^Exit error)) error)
    :else error))
