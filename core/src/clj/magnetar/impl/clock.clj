(ns magnetar.impl.clock
  "The clock of this fiber's environment, in nanoseconds: now, a deadline, what is left until one, and durations."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.time Durations Waits)))

(set! *warn-on-reflection* true)

(def ^:const infinite
  "The nanoseconds that stand for no limit, in a duration and in an instant."
  Durations/INFINITE)

(defn nanos
  "The duration, milliseconds, a java.time.Duration or :infinity, in nanoseconds; throws an IllegalArgumentException for anything else."
  ^long [duration]
  (Durations/nanos duration))

(defn now
  "The clock, virtual in a simulation."
  ^long []
  (.nanoTime (.environment (Fiber/current))))

(defn instant-after
  "The instant so many nanoseconds after `start`; `infinite` stays."
  ^long [^long start ^long nanos]
  (Durations/deadline start nanos))

(defn deadline
  "The instant so many nanoseconds from now; `infinite` stays."
  ^long [^long nanos]
  (instant-after (now) nanos))

(defn left
  "The nanoseconds until the instant, 0 once it has passed; `infinite` stays."
  ^long [^long instant]
  (if (= instant infinite)
    instant
    (max 0 (- instant (now)))))

(defn millis
  "The nanoseconds in whole milliseconds, rounded up: a wait of so long does not end too early."
  ^long [^long nanos]
  (quot (+ nanos 999999) 1000000))

(defn sleep
  "Parks the fiber for so many nanoseconds."
  [^long nanos]
  (Waits/sleep nanos))
