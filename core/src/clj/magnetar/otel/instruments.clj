(ns magnetar.otel.instruments
  "The instruments of OpenTelemetry that Magnetar records with, and those that read what it counts."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime]
   [magnetar.impl.telemetry :as telemetry]
   [magnetar.otel.attributes :as attributes])
  (:import
   (io.opentelemetry.api.metrics DoubleHistogram LongCounter Meter ObservableLongMeasurement)
   (java.lang AutoCloseable)
   (java.util List)
   (java.util.function Consumer)
   (magnetar.kernel.process ProcessTable Traffic$Observer)))

(set! *warn-on-reflection* true)

(def ^:private ^List boundaries
  "The upper bounds of the buckets, in seconds: most messages take some microseconds."
  (mapv double [1e-5 2.5e-5 1e-4 2.5e-4 0.001 0.0025 0.01 0.025 0.1 0.25 1 2.5 10]))

(defn- durations ^DoubleHistogram [^Meter meter ^String named ^String description]
  (-> (.histogramBuilder meter named)
      (.setUnit "s")
      (.setDescription description)
      (.setExplicitBucketBoundariesAdvice boundaries)
      (.build)))

(defn- reading ^Consumer [f]
  (reify Consumer
    (accept [_ measurement] (.record ^ObservableLongMeasurement measurement (long (f))))))

(defn processes
  "The instrument that reads how many processes live, until it is closed."
  ^AutoCloseable [^Meter meter]
  (-> (.upDownCounterBuilder meter "magnetar.processes")
      (.setUnit "{process}")
      (.setDescription "Processes that live")
      (.buildWithCallback (reading #(ProcessTable/count)))))

(defn- counter ^LongCounter [^Meter meter ^String named ^String unit ^String description]
  (-> (.counterBuilder meter named)
      (.setUnit unit)
      (.setDescription description)
      (.build)))

(defn make
  "The instruments of the meter: :queue, :handling and :calling are histograms, :restarts and :dead-letters counters."
  [meter]
  {:queue (durations meter "magnetar.server.queue.duration" "How long messages of servers wait in the mailbox")
   :handling (durations meter "magnetar.server.handling.duration" "How long servers handle messages")
   :calling (durations meter "magnetar.call.duration" "How long callers wait for the end of a call")
   :restarts (counter meter "magnetar.supervisor.restarts" "{restart}" "Children that supervisors have started again")
   :dead-letters (counter meter "magnetar.dead_letters" "{message}" "Messages that did not arrive")})

(defn restart-listener
  "A listener that counts restarts with the counter."
  [^LongCounter restarts]
  (telemetry/listener {:restarted (fn [supervisor child _] (.add restarts 1 (attributes/of-restart supervisor child)))}))

(defn loss-observer
  "An observer of messages that counts those that do not arrive with the counter."
  ^Traffic$Observer [^LongCounter dead-letters]
  (reify Traffic$Observer
    (loses [_ _ _ _]
      (try
        (.add dead-letters 1)
        (catch Throwable _))))) ; an observer must not throw
