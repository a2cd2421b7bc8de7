(ns magnetar.impl.telemetry
  "Listeners of the kernel's events, made of functions, and the unit of their durations."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.report Telemetry Telemetry$Listener)))

(set! *warn-on-reflection* true)

(defn ms
  "Nanoseconds as milliseconds."
  ^double [nanos]
  (/ (double nanos) 1e6))

(defn listener
  "A listener that calls these functions; see Telemetry.Listener."
  [{:keys [spawned exited mailbox-grew channel-blocked scope-timed-out]}]
  (reify Telemetry$Listener
    (spawned [_ pid parent] (spawned pid parent))
    (exited [_ pid reason] (exited pid reason))
    (mailboxGrew [_ pid messages] (mailbox-grew pid messages))
    (channelBlocked [_ operation _ nanos] (channel-blocked operation nanos))
    (scopeTimedOut [_ scope] (scope-timed-out scope))))

(defn add
  "Adds a listener, which is told from now on."
  [listener]
  (Telemetry/add listener))

(defn remove-listener
  "Removes a listener."
  [listener]
  (Telemetry/remove listener))
