(ns magnetar.impl.telemetry
  "Listeners of the kernel's events, made of functions; the event of a restart; the unit of their durations."
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
  "A listener that calls these functions, or does nothing where a function is missing; see Telemetry.Listener."
  [{:keys [spawned exited restarted mailbox-grew channel-blocked scope-timed-out]}]
  (reify Telemetry$Listener
    (spawned [_ pid parent] (when spawned (spawned pid parent)))
    (exited [_ pid reason] (when exited (exited pid reason)))
    (restarted [_ supervisor child reason] (when restarted (restarted supervisor child reason)))
    (mailboxGrew [_ pid messages] (when mailbox-grew (mailbox-grew pid messages)))
    (channelBlocked [_ operation _ nanos] (when channel-blocked (channel-blocked operation nanos)))
    (scopeTimedOut [_ scope] (when scope-timed-out (scope-timed-out scope)))))

(defn add
  "Adds a listener, which is told from now on."
  [listener]
  (Telemetry/add listener))

(defn remove-listener
  "Removes a listener."
  [listener]
  (Telemetry/remove listener))

(defn restarted
  "Tells the listeners that the supervisor starts a child again; see Telemetry.Listener."
  [supervisor child reason]
  (when (Telemetry/isOn)
    (Telemetry/restarted supervisor child reason)))
