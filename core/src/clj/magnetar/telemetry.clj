(ns magnetar.telemetry
  "Tells what a program does: events to listeners, and metrics as a map.

  events   add-listener remove-listener listeners
  metrics  start-metrics metrics stop-metrics

  Both are off at first, and cost nothing then. The same events go to the JDK's flight recorder when a
  recording enables them; see the guide \"Metrics and events\".

  Require it as `[magnetar.telemetry :as telemetry]`."
  (:require
   [magnetar.impl.runtime]
   [magnetar.telemetry.listeners :as listeners]
   [magnetar.telemetry.metrics :as metrics]))

(set! *warn-on-reflection* true)

;; ---- events

(defn add-listener
  "Calls f with each event from now on; returns f.

  An event is a map of :event, :at (a java.util.Date; in a simulation of its clock), and these:

    :spawn               a process is about to run: :pid, and the :parent that started it, or nil. If its
                         start then fails, as by a name that is taken, an :exit follows. A thread that is a
                         process for a while, as by `with-process` or for a call, is not told
    :exit                a process has ended: :pid, :reason. :lived-ms is there if a listener of :exit was
                         added before its start
    :restart             a supervisor starts a child again: :supervisor (a name or a pid), the :id of the
                         child, the :reason for which it had ended
    :call                a call has ended: :function, as the symbol magnetar.gen-server/call, :to (the server
                         as the program named it), :callback-module (what that is called; nil if it is not
                         known), :by (the caller as text), :took-ms, and the :error if it failed
    :dead-letter         a message does not arrive: there is no such process, its mailbox is full, or it is
                         an answer that its caller no longer waits for: :to, :message, :by
    :mailbox-high-water  a mailbox has reached the length of a :long-message-queue warning, or twice it, and
                         so on: :pid, :messages. Not told in a simulation
    :channel-blocked     a put, take or alts that has waited for long is over: :operation (:put, :take or
                         :alts), :by (its process, fiber or thread as text), :waited-ms
    :scope-timeout       the deadline of a scope has cancelled it: :site, the source line that opened it

  Durations are milliseconds, as doubles. Values such as :reason and :message are the program's own, and not
  redacted. An event is queued before messages about it, such as :DOWN, arrive.

  f is called on a thread of its own, also for the events of a simulation, with one event after the other.
  The program never waits for it: if f is 10000 events behind, further ones are dropped, and counted by
  `listeners`. If f throws, that is reported, and then not again until f has succeeded. What f itself does,
  starts or sends makes no events. A listener that is added again gets the new options.

  Throws an IllegalArgumentException if an event in :events does not exist.

  Options:

    :events       a set of the events that f is called with. Default: all
    :blocked-for  the shortest wait that is :channel-blocked, a duration. Waits below 100 ms never are.
                  Default 1000 ms

  Example:

    (defn tell-of-restart [{:keys [supervisor id reason]}]
      (println supervisor \"starts\" id \"again, which had ended for\" reason))
    (telemetry/add-listener tell-of-restart {:events #{:restart}})

  See also `remove-listener`, `listeners`."
  {:added "0.2"}
  ([f] (add-listener f nil))
  ([f options] (listeners/add f options)))

(defn remove-listener
  "Removes a function that `add-listener` was given; returns nil.

  It still gets the events that were told before, on its thread. If it is added again meanwhile, it is called
  on a second thread too. Nothing happens if it is not a listener.

  Example:

    (telemetry/remove-listener prn) ;=> nil"
  {:added "0.2"}
  [f]
  (listeners/remove-listener f)
  nil)

(defn listeners
  "Returns the listeners, each as a map.

  The map has the :listener, its :events, :queued and :dropped.

  :queued is how many events wait for it, :dropped how many found its queue full.

  Example:

    (telemetry/add-listener prn {:events #{:restart}})
    (telemetry/listeners) ;=> [{:listener f, :events #{:restart}, :queued 0, :dropped 0}]
    (telemetry/remove-listener prn)"
  {:added "0.2"}
  []
  (listeners/shown))

;; ---- metrics

(defn start-metrics
  "Starts to count what the program does, for `metrics`; returns nil.

  Nothing happens if that is on. To begin at zero, call `stop-metrics` before. While it is on a message costs
  more: it carries the time of its send.

  Example:

    (telemetry/start-metrics) ;=> nil
    (telemetry/stop-metrics)

  See also `metrics`, `stop-metrics`."
  {:added "0.2"}
  []
  (metrics/start)
  nil)

(defn metrics
  "Returns what the program has done since `start-metrics`, as a map.

  It is nil if metrics are off. All simulations and the program count together.

    :since               a java.util.Date
    :callback-modules    a map from callback module, a symbol or a text, to the numbers below, of all its
                         servers together. After 1000 modules, further ones are :others
    :processes           a map of how many have :spawned and :exited, have :crashed (exited for another reason
                         than :normal or a :shutdown), and are :live now
    :restarts            how often supervisors have restarted; children that are restarted together count once
    :dead-letters, :mailbox-high-waters, :scope-timeouts
                         as the events of `add-listener`
    :channels-blocked    how many puts, takes and alts have waited for 100 ms or more

  The numbers of a callback module, over all its servers:

    :messages      how many were handled, and of these :calls, :casts and :infos
    :failures      how many messages a server did not survive
    :queue-ms      for how long messages waited in the mailbox
    :handling-ms   how long callbacks took
    :peak-mailbox  the longest mailbox that a server had when it took a message, with that message

  Both times are a map of the :count, :mean, :p50, :p90, :p99 and :max, in milliseconds as doubles. A
  percentile is exact to 4 percent. :queue-ms also counts what a callback receives, and messages of
  `magnetar.sys`. It does not count exit signals and :DOWN, nor messages out of a simulation or into one,
  where there are two clocks.

  Example:

    (telemetry/start-metrics)
    (dotimes [_ 3] (gs/call :counter :get))
    (:calls (get (:callback-modules (telemetry/metrics)) 'my.counter)) ;=> 3
    (telemetry/stop-metrics)

  See also `start-metrics`."
  {:added "0.2"}
  []
  (metrics/current))

(defn stop-metrics
  "Ends the counting; returns the last metrics, or nil if they were off.

  Example:

    (telemetry/stop-metrics) ;=> nil

  See also `start-metrics`."
  {:added "0.2"}
  []
  (metrics/stop))
