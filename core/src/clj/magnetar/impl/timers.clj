(ns magnetar.impl.timers
  "Timers as the functions that start them return them: a reference of the kernel, or a process that waits. Both are cancelled and read alike."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.info :as info]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime])
  (:import
   (java.io Writer)
   (magnetar.kernel.process Pid ProcessTable Ref Send SendTimers)))

(set! *warn-on-reflection* true)

;; A timer is the process that waits for it. (left) are the nanoseconds until it fires next. `state` is an atom. It is :waiting; then :fired, or :firing
;; each time an interval does its work; :cancelled at last.
(deftype Timer [^Pid pid state left interval?]
  Object
  (toString [_] (str "timer " pid)))

(defmethod print-method Timer [^Timer timer ^Writer out]
  (.write out (str "#<" timer ">")))

(defn firing
  "Calls f for an interval with this state; true unless the interval has been cancelled."
  [state f]
  (when (compare-and-set! state :waiting :firing)
    (f)
    (compare-and-set! state :firing :waiting)))

(defn- waits? [^Timer timer]
  (if (.-interval? timer)
    (info/alive? (.-pid timer))
    (= :waiting @(.-state timer))))

(defn- stopped-once? [^Timer timer]
  (when (compare-and-set! (.-state timer) :waiting :cancelled)
    (Send/exit (.-pid timer) :kill)
    true))

;; T1 is the interval, T2 cancels it. T1 sets :firing before it sends, T2 sets :cancelled before it looks. Either T1 finds :cancelled, and sends nothing;
;; or T2 finds :firing, and waits for the end of T1. The signal is no :kill, for which T1 would be dead while it still sends.
(defn- stopped-interval? [^Timer timer]
  (let [pid (.-pid timer)
        ran (info/alive? pid)
        [before _] (reset-vals! (.-state timer) :cancelled)]
    (Send/exit pid :shutdown)
    (when-not (= :waiting before)
      (ProcessTable/join pid clock/infinite))
    (and ran (not= :cancelled before))))

(defn- stopped?
  "Stops it: true if it had not fired, for an interval if it still ran."
  [^Timer timer]
  (if (.-interval? timer) (stopped-interval? timer) (stopped-once? timer)))

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
