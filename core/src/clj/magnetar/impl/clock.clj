(ns magnetar.impl.clock
  "The clock of this fiber's world, in nanoseconds: now, a deadline, and what is left until one."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.time Durations)))

(set! *warn-on-reflection* true)

(defn now
  "The clock, virtual in a simulation."
  ^long []
  (.nanoTime (.world (Fiber/current))))

(defn deadline
  "The instant so many nanoseconds from now; INFINITE stays."
  ^long [^long nanos]
  (Durations/deadline (now) nanos))

(defn left
  "The nanoseconds until the instant, 0 once it has passed; INFINITE stays."
  ^long [^long instant]
  (if (= instant Durations/INFINITE)
    instant
    (max 0 (- instant (now)))))

(defn millis
  "The nanoseconds in whole milliseconds, rounded up: a wait of so long does not end too early."
  ^long [^long nanos]
  (quot (+ nanos 999999) 1000000))
