(ns magnetar.timer
  "Timers: calls and exit signals at a later time, calls and messages at intervals.

  once    apply-after exit-after kill-after
  again   apply-interval apply-repeatedly send-interval
  also    tc, how long a call takes

  `magnetar.actor/send-after` sends a message later. `magnetar.actor/cancel-timer` stops every timer, of both
  namespaces.

    (timer/send-interval 1000 :tick)
    (timer/apply-interval 60000 clean-up)

  An interval does not drift: its n-th time is n periods after its start, whatever the calls before took. It
  is a process of its own. It ends with its owner, which is the process that started it, or the process that
  it sends to. An interval that is started outside of processes has no owner. It goes on until it is
  cancelled.

  Time is the clock of the runtime environment, so in `magnetar.test` it is virtual. The names follow Erlang's
  module timer. Where Erlang returns badarg, these functions throw. Where it returns {ok, Timer}, they return
  the timer.

  Require it as `[magnetar.timer :as timer]`."
  (:require
   [magnetar.actor :as actor :refer [! after receive]]
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.start :as start]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.runtime]
   [magnetar.impl.timers :as timers])
  (:import
   (java.time Duration)
   (magnetar.impl.timers Timer)
   (magnetar.kernel.process LocalProcess Pid)))

(set! *warn-on-reflection* true)

(defn- left ^Duration [^long instant]
  (Duration/ofNanos (clock/left instant)))

(defn- check-process [operation x]
  (when-not (or (instance? Pid x) (#{:local :via} (first (address/parts x))))
    (arguments/misuse :magnetar/not-a-pid
                      (str "`" operation "` wants a pid or the name of a process; this is " (arguments/show x) ".") {:value x})))

(defn- pid-of [to]
  (if (instance? Pid to) to (address/find-pid to)))

(defn- check-function [operation f]
  (arguments/function operation f (str "(timer/" operation " 1000 clean-up)"))
  f)

(defn- own-pid
  "The pid of this process, nil outside of processes."
  []
  (some-> (LocalProcess/current) .pid))

;; ---- once

(defn- once [operation site duration f]
  (let [due (clock/deadline (arguments/finite operation duration))
        state (atom :waiting)]
    (Timer. (start/spawn-opt operation site {}
                             #(do (receive (after (left due) nil))
                                  (when (compare-and-set! state :waiting :fired) (f)))
                             nil)
            state
            #(clock/left due)
            false)))

(defn ^:no-doc apply-after-at
  "`apply-after*`, with the process named after the site."
  [site duration f & args]
  (check-function "apply-after" f)
  (once "apply-after" site duration #(apply f args)))

(def ^{:added "0.2" :arglists '([duration f & args])} apply-after*
  "Does what `apply-after` does, as a function: for `apply` and `with-redefs`.

  The process is named after f, since the line of the call is not known."
  (fibers/starred apply-after-at "apply-after" f [duration f & args]))

(defmacro apply-after
  "Calls (f & args) in a process of its own after a duration; returns the timer.

  The process does not end with the process that started it. An error of f is reported, as in any process.
  Never waits.

  Example:

    (timer/apply-after 500 println \"now\")

  See also `magnetar.actor/send-after`, `magnetar.actor/cancel-timer`, and `apply-after*`, the function: it
  can be mapped and applied, and `with-redefs` of it reaches every call.

  Erlang: timer:apply_after/2,3,4."
  {:erlang "timer:apply_after/3"}
  [duration f & args]
  (fibers/starting &form `apply-after* "apply-after" duration f args))

(defn- self [operation]
  (.pid (LocalProcess/require operation)))

(defn send-after
  "Deprecated: `magnetar.actor/send-after` replaces it.

  That function takes the process to send to, as in (actor/send-after 500 (self) :tick)."
  {:deprecated "0.2"}
  ([duration message] (send-after duration (self "send-after") message))
  ([duration to message] (actor/send-after duration to message)))

(defn- exit-later [operation duration process reason]
  (check-process operation process)
  (once operation operation duration #(some-> (pid-of process) (actor/exit reason))))

(defn exit-after
  "Sends an exit signal after a duration, by default to this process.

  The process is a pid or a name. A name is looked up when the duration has passed. If no process has it then,
  nothing happens.

  Returns the timer. Never waits.

  Example:

    (timer/exit-after 5000 :too-slow)

  Erlang: timer:exit_after/2,3."
  {:erlang "timer:exit_after/3"}
  ([duration reason] (exit-after duration (self "exit-after") reason))
  ([duration process reason]
   (exit-later "exit-after" duration process reason)))

(defn kill-after
  "Kills a process after a duration, by default this process.

  Like `exit-after` in all else.

  Returns the timer. Never waits.

  Example:

    (timer/kill-after 5000 worker)

  Erlang: timer:kill_after/1,2."
  {:erlang "timer:kill_after/2"}
  ([duration] (kill-after duration (self "kill-after")))
  ([duration process] (exit-later "kill-after" duration process :kill)))

;; ---- again

(defn- each-time
  "Calls f at each time of the interval, while it returns true and the owner with the reference has not ended."
  [ref ^long start ^long period f]
  (loop [n 1]
    (when (receive
            [:DOWN ref :process _ _] false
            (after (left (clock/instant-after start (* n period))) (f)))
      (recur (inc n)))))

(defn- interval
  "An interval that ends with its owner, if there is one."
  [operation site duration owner f]
  (let [period (arguments/interval operation duration)
        start (clock/now)
        state (atom :waiting)]
    (Timer. (start/spawn-opt operation site {}
                             #(each-time (if owner (actor/monitor owner) (actor/make-ref)) start period
                                         (fn [] (timers/firing state f)))
                             nil)
            state
            #(- period (rem (- (clock/now) start) period))
            true)))

(defn ^:no-doc apply-interval-at
  "`apply-interval*`, with its processes named after the site."
  [site duration f & args]
  (check-function "apply-interval" f)
  (interval "apply-interval" site duration (own-pid) #(start/spawn-opt "apply-interval" site {} f args)))

(def ^{:added "0.2" :arglists '([duration f & args])} apply-interval*
  "Does what `apply-interval` does, as a function: for `apply` and `with-redefs`.

  Its processes are named after f, since the line of the call is not known."
  (fibers/starred apply-interval-at "apply-interval" f [duration f & args]))

(defmacro apply-interval
  "Calls (f & args) at an interval, each time in a process of its own.

  A call begins also if the one before has not ended. A call that fails is reported, and disturbs no other
  call. The interval ends when this process does.

  Returns the timer. Never waits.

  Example:

    (timer/apply-interval 60000 clean-up)

  See also `apply-repeatedly`, `magnetar.actor/cancel-timer`, and `apply-interval*`, the function: it can be
  mapped and applied, and `with-redefs` of it reaches every call.

  Erlang: timer:apply_interval/2,3,4."
  {:erlang "timer:apply_interval/3"}
  [duration f & args]
  (fibers/starting &form `apply-interval* "apply-interval" duration f args))

(defn- spawn-and-wait [site f args]
  (let [[pid ref] (start/spawn-opt "apply-repeatedly" site {:monitor true} f args)]
    (receive [:DOWN ref :process pid _] nil)))

(defn ^:no-doc apply-repeatedly-at
  "`apply-repeatedly*`, with its processes named after the site."
  [site duration f & args]
  (check-function "apply-repeatedly" f)
  (interval "apply-repeatedly" site duration (own-pid) #(spawn-and-wait site f args)))

(def ^{:added "0.2" :arglists '([duration f & args])} apply-repeatedly*
  "Does what `apply-repeatedly` does, as a function: for `apply` and `with-redefs`.

  Its processes are named after f, since the line of the call is not known."
  (fibers/starred apply-repeatedly-at "apply-repeatedly" f [duration f & args]))

(defmacro apply-repeatedly
  "Calls (f & args) at an interval, one call after the other.

  Like `apply-interval`, except that a call begins only when the one before has ended. Calls that are late by
  then follow at once, one after the other.

  Returns the timer. Never waits.

  Example:

    (timer/apply-repeatedly 1000 poll)

  See also `apply-repeatedly*`, the function: it can be mapped and applied, and `with-redefs` of it reaches
  every call.

  Erlang: timer:apply_repeatedly/2,3,4."
  {:erlang "timer:apply_repeatedly/3"}
  [duration f & args]
  (fibers/starting &form `apply-repeatedly* "apply-repeatedly" duration f args))

(defn- send-to [to message]
  (when-some [pid (pid-of to)]
    (! pid message)))

(defn send-interval
  "Sends the message at an interval, by default to this process.

  The receiver is a pid or a name. With a pid the interval ends when that process does. A name is looked up
  each time, and the interval ends when this process does.

  Returns the timer. Never waits.

  Example:

    (timer/send-interval 1000 :tick)

  See also `magnetar.actor/cancel-timer`.

  Erlang: timer:send_interval/2,3."
  {:erlang "timer:send_interval/3"}
  ([duration message] (send-interval duration (self "send-interval") message))
  ([duration to message]
   (when-not (or (instance? Pid to) (#{:local :via} (first (address/parts to))))
     (arguments/misuse :magnetar/not-an-address
                       (str "`send-interval` wants a pid or a name to send to; this is " (arguments/show to) ".") {:value to}))
   (interval "send-interval" "send-interval" duration (if (instance? Pid to) to (own-pid)) #(send-to to message))))

(defn cancel
  "Deprecated: `magnetar.actor/cancel-timer` replaces it.

  That function returns the milliseconds that were left, where this one returns true."
  {:deprecated "0.2"}
  [timer]
  (not (neg? (timers/cancel "cancel" timer))))

;; ---- how long

(defn tc
  "Measures the call (f & args); returns [microseconds value].

  Example:

    (timer/tc reduce + (range 1000)) ;=> [microseconds 499500]

  Erlang: timer:tc/1,2,3."
  {:erlang "timer:tc/2"}
  [f & args]
  (let [start (clock/now)
        value (apply f args)]
    [(quot (- (clock/now) start) 1000) value]))
