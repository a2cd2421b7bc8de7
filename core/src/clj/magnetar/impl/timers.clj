(ns magnetar.impl.timers
  "Timers as the functions that start them return them: a reference of the kernel, or a process that waits. Both are cancelled and read alike."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.info :as info]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (java.io Writer)
   (magnetar.kernel.process Pid Ref Send SendTimers)))

(set! *warn-on-reflection* true)

;; A timer is the process that waits for it. `state` of one that fires once is an atom, :waiting until it fires or is cancelled; an interval has none.
;; (left) are the nanoseconds until it fires next.
(deftype Timer [^Pid pid state left]
  Object
  (toString [_] (str "timer " pid)))

(defmethod print-method Timer [^Timer timer ^Writer out]
  (.write out (str "#<" timer ">")))

(defn- waits? [^Timer timer]
  (if-some [state (.-state timer)]
    (= :waiting @state)
    (info/alive? (.-pid timer))))

(defn- stopped?
  "Stops it: true if it had not fired, for an interval if it still ran."
  [^Timer timer]
  (let [state (.-state timer)
        stopped (if state (compare-and-set! state :waiting :cancelled) (info/alive? (.-pid timer)))]
    (when (or stopped (nil? state))
      (Send/exit (.-pid timer) :kill))
    stopped))

(defn- timer? [x]
  (or (instance? Timer x) (and (instance? Ref x) (SendTimers/isTimer x))))

(defn- check [operation x]
  (when-not (timer? x)
    (arguments/misuse :magnetar/not-a-timer
                      (str "`" operation "` wants a timer, as `send-after`, `start-timer` or `timer/apply-after` return it; this is " (arguments/show x)
                           (if (instance? Ref x) ", a reference that is no timer. `demonitor` ends a monitor, and `unalias` an alias." "."))
                      {:value x})))

(defn cancel
  "Stops the timer: the nanoseconds that were left, or a negative number if it has fired or was stopped."
  ^long [operation timer]
  (check operation timer)
  (if (instance? Ref timer)
    (SendTimers/cancel timer)
    (let [left ((.-left ^Timer timer))]
      (if (stopped? timer) left -1))))

(defn left
  "The nanoseconds until the timer fires, or a negative number as for `cancel`."
  ^long [operation timer]
  (check operation timer)
  (if (instance? Ref timer)
    (SendTimers/read timer)
    (if (waits? timer) ((.-left ^Timer timer)) -1)))
