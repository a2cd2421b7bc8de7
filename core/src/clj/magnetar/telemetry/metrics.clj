(ns magnetar.telemetry.metrics
  "Numbers of what the program does, by callback module.

  A message carries the time of its send while metrics are on. So the queue time of a server's message is known when the
  server takes it. Nothing here calls code of the program, and nothing waits, so numbers are added where things happen."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.otp.instrument :as instrument]
   [magnetar.impl.runtime]
   [magnetar.impl.sent :as sent]
   [magnetar.impl.telemetry :as telemetry]
   [magnetar.proc-lib.report :as report])
  (:import
   (java.util.concurrent ConcurrentHashMap)
   (java.util.concurrent.atomic LongAccumulator LongAdder)
   (java.util.function Function LongBinaryOperator)
   (magnetar.impl.otp Instrument)
   (magnetar.impl.otp.host Server)
   (magnetar.impl.telemetry Histogram Histogram$Summary)
   (magnetar.kernel.process LocalProcess ProcessTable Traffic Traffic$Observer)))

(set! *warn-on-reflection* true)

;; ---- numbers

(deftype Numbers [^LongAdder calls ^LongAdder casts ^LongAdder infos ^LongAdder failures ^Histogram queue ^Histogram handling ^LongAccumulator peak])

(def ^:private larger
  (reify LongBinaryOperator (applyAsLong [_ a b] (max a b))))

(def ^:private ^Function new-numbers
  (reify Function
    (apply [_ _] (Numbers. (LongAdder.) (LongAdder.) (LongAdder.) (LongAdder.) (Histogram.) (Histogram.) (LongAccumulator. larger 0)))))

(def ^:private counted
  "What is counted for the whole program."
  [:spawned :exited :crashed :restarts :dead-letters :mailbox-high-waters :channels-blocked :scope-timeouts])

(deftype Metrics [since ^ConcurrentHashMap modules counters])

(defn- new-metrics []
  (Metrics. (environment/date) (ConcurrentHashMap.) (into {} (map (fn [k] [k (LongAdder.)])) counted)))

(defn- count-one [^Metrics metrics k]
  (.increment ^LongAdder (get (.-counters metrics) k)))

(def ^:private most-modules
  "A program may make callback modules without end, as maps with names of their own. Further ones are counted as :others."
  1000)

(defn- numbers-of ^Numbers [^Metrics metrics server]
  (let [^ConcurrentHashMap modules (.-modules metrics)
        label (instrument/label server)]
    (or (.get modules label)
        (.computeIfAbsent modules (if (< (.size modules) (long most-modules)) label :others) new-numbers))))

;; ---- where numbers come from

(deftype Handling [^Numbers numbers ^long begun])

(defn- adder-of ^LongAdder [^Numbers numbers kind]
  (case kind
    :call (.-calls numbers)
    :cast (.-casts numbers)
    (.-infos numbers)))

(defn- of-servers [metrics]
  (reify Instrument
    (handles [_ server kind _]
      (let [numbers (numbers-of metrics server)]
        (.increment (adder-of numbers kind))
        (.accumulate ^LongAccumulator (.-peak numbers) (inc (.queued (LocalProcess/current))))
        (Handling. numbers (clock/now))))
    (handled [_ token _ error]
      (let [^Numbers numbers (.-numbers ^Handling token)]
        (.add ^Histogram (.-handling numbers) (- (clock/now) (.-begun ^Handling token)))
        (when (instrument/failure error)
          (.increment ^LongAdder (.-failures numbers)))))
    (calls [_ _ _ _] nil)
    (called [_ _ _])))

(defn- of-messages [metrics]
  (reify Traffic$Observer
    (takes [_ _ context]
      (when-some [nanos (sent/waited context)]
        (let [server (some-> (LocalProcess/current) .server)]
          (when (instance? Server server)
            (.add ^Histogram (.-queue (numbers-of metrics server)) (long nanos))))))
    (loses [_ _ _ _] (count-one metrics :dead-letters))))

(defn- kernel-events [metrics]
  (telemetry/listener
    {:spawned (fn [_ _] (count-one metrics :spawned))
     :exited (fn [_ reason]
               (count-one metrics :exited)
               (when-not (report/silent? reason)
                 (count-one metrics :crashed)))
     :restarted (fn [_ _ _] (count-one metrics :restarts))
     :mailbox-grew (fn [_ _] (count-one metrics :mailbox-high-waters))
     :channel-blocked (fn [_ _] (count-one metrics :channels-blocked))
     :scope-timed-out (fn [_] (count-one metrics :scope-timeouts))}))

;; ---- as data

(defn- summary [^Histogram histogram]
  (let [^Histogram$Summary s (.summary histogram)]
    {:count (.count s)
     :mean (telemetry/ms (.mean s))
     :p50 (telemetry/ms (.p50 s))
     :p90 (telemetry/ms (.p90 s))
     :p99 (telemetry/ms (.p99 s))
     :max (telemetry/ms (.max s))}))

(defn- of-module [^Numbers numbers]
  (let [[calls casts infos] (map #(.sum ^LongAdder %) [(.-calls numbers) (.-casts numbers) (.-infos numbers)])]
    {:messages (+ (long calls) (long casts) (long infos))
     :calls calls
     :casts casts
     :infos infos
     :failures (.sum ^LongAdder (.-failures numbers))
     :queue-ms (summary (.-queue numbers))
     :handling-ms (summary (.-handling numbers))
     :peak-mailbox (.get ^LongAccumulator (.-peak numbers))}))

(defn- as-data [^Metrics metrics]
  (let [counts (update-vals (.-counters metrics) #(.sum ^LongAdder %))
        of-processes [:spawned :exited :crashed]]
    (merge {:since (.-since metrics)
            :callback-modules (update-vals (into {} (.-modules metrics)) of-module)
            :processes (assoc (select-keys counts of-processes) :live (ProcessTable/count))}
           (apply dissoc counts of-processes))))

;; ---- on and off

;; nil, or {:metrics :off}, with a function that takes the sources away.
(defonce ^:private on (atom nil))

(defn start
  "Starts to count, unless that is on."
  []
  (locking on
    (when-not @on
      (let [metrics (new-metrics)
            servers (of-servers metrics)
            messages (of-messages metrics)
            events (kernel-events metrics)]
        (instrument/add servers)
        (sent/want :metrics)
        (Traffic/add messages)
        (telemetry/add events)
        (reset! on {:metrics metrics
                    :off #(do
                            (instrument/remove-instrument servers)
                            (Traffic/remove messages)
                            (sent/want-no-more :metrics)
                            (telemetry/remove-listener events))})))))

(defn current
  "The numbers as data; nil if they are not counted."
  []
  (some-> @on :metrics as-data))

(defn stop
  "Ends the counting. Returns the last numbers, or nil."
  []
  (locking on
    (when-some [{:keys [metrics off]} @on]
      (off)
      (reset! on nil)
      (as-data metrics))))
