(ns magnetar.impl.actor.owned
  "What a process leaves behind, removed when it dies: the thread that ends the process does so before links and monitors are told."
  {:no-doc true}
  (:require
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Simulated)
   (magnetar.kernel.process LocalProcess Owned Pid ProcessTable)))

(set! *warn-on-reflection* true)

;; The kernel forbids an exception in `ownerDied`. `clear` compares keys of the program, whose `=` may throw.
(defn clear-away
  "Calls (clear pid), which removes what the process leaves behind. What `clear` throws is reported, unless memory has ended: then it is called again."
  [clear pid]
  (try
    (clear pid)
    (catch OutOfMemoryError e (throw e))
    (catch Throwable e (reports/report "clean-up after a death" e))))

(defn clean-up
  "A thing that removes what its owner leaves behind, by (clear pid)."
  ^Owned [clear]
  (reify Owned
    (ownerDied [_ pid] (clear-away clear pid))))

(defn own
  "Lets the process own the thing; false if the process is dead."
  [^Pid pid ^Owned thing]
  (Simulated/switchPoint)
  (if-some [^LocalProcess process (ProcessTable/live pid)]
    (.own process thing)
    false))

(defn disown
  "Ends the ownership."
  [^Pid pid ^Owned thing]
  (when-some [^LocalProcess process (ProcessTable/live pid)]
    (.disown process thing)))

;; Several threads may change what (owner?) looks at. Each changes that first, then sets the ownership here, then checks again. So the last thread to set
;; the ownership has seen all changes.
(defn update-ownership
  "Lets the process own the thing if (owner?) is true, else disown it."
  [pid thing owner?]
  (let [owner (owner?)]
    (if owner
      (own pid thing)
      (disown pid thing))
    (Simulated/switchPoint)
    (when-not (= owner (owner?))
      (recur pid thing owner?))))

(defn dying?
  "True of a process that is dead or told to exit. Its death may have come before what it leaves behind was there, so the caller removes that."
  [^Pid pid]
  (Simulated/switchPoint)
  (not (.isAlive pid)))
