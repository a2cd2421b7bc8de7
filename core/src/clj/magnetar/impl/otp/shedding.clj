(ns magnetar.impl.otp.shedding
  "What a server that sheds and its callers tell each other: when a call was sent and how long its caller waits, and that it was refused."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.otp.host]
   [magnetar.impl.runtime]
   [magnetar.impl.stamped])
  (:import
   (magnetar.impl.otp.host Server)
   (magnetar.impl.stamped Stamped)
   (magnetar.kernel.process LocalProcess Pid ProcessTable)))

(set! *warn-on-reflection* true)

;; A Kind of server whose callers stamp their calls. Others pay for no clock: a caller looks at the kind first.
(definterface Sheds)

;; The answer to a call that was refused after it had waited for so many milliseconds.
(deftype Refused [^long waited])

(defn sheds?
  "True if the process is a server that sheds."
  [^Pid pid]
  (when-some [^LocalProcess process (ProcessTable/live pid)]
    (let [server (.server process)]
      (and (instance? Server server) (instance? Sheds (.-kind ^Server server))))))

(defn stamped
  "The request of a call that is sent now and waits for so many nanoseconds."
  [request ^long nanos]
  (let [sent (clock/now)]
    (Stamped. request sent (clock/instant-after sent nanos))))
