(ns magnetar.impl.waits
  "Waits of code outside of the kernel, which `magnetar.inspect` tells of: at a socket of the JDK, or for a latch."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.park Latch WaitElsewhere WaitReason)
   (magnetar.kernel.report Unwinding)
   (magnetar.kernel.time Waits)))

(set! *warn-on-reflection* true)

;; ---- the reasons

(def for-connection WaitReason/SOCKET_ACCEPT)
(def to-connect WaitReason/SOCKET_CONNECT)
(def for-data WaitReason/SOCKET_READ)
(def for-room WaitReason/SOCKET_WRITE)
(def for-address WaitReason/HOST_LOOKUP)

;; ---- in the JDK

(defn begin
  "The current thread may park from now on. Returns what `end` wants."
  [reason on]
  (WaitElsewhere/begin reason on))

(defn end
  "It does not park any more."
  [begun]
  (WaitElsewhere/end begun))

(defmacro at
  "Does the body, which may wait for this reason in a socket of the JDK, and in nothing else. `on` is the socket or an address, whose
  name is told."
  [reason on & body]
  `(let [begun# (begin ~reason ~on)]
     (try
       ~@body
       (finally (end begun#)))))

;; ---- latches

(defn latch
  "A latch, which is released once."
  []
  (Latch.))

(defn release
  "Wakes all that wait for the latch, and lets later ones go on."
  [^Latch latch]
  (.release latch))

(defn released?
  "Waits for this reason until the latch is released; false after so many nanoseconds."
  [^Latch latch reason on ^long nanos]
  (Waits/await latch reason on nanos))

(defn ends-wait?
  "Is it what a cancellation or an interrupt throws in a wait?"
  [error]
  (or (instance? Unwinding error) (instance? InterruptedException error)))
