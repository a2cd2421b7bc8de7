(ns magnetar.otel.instruments
  "The instruments of OpenTelemetry that Magnetar records with, and those that read what it counts."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (io.opentelemetry.api.metrics DoubleHistogram LongCounter Meter ObservableLongMeasurement)
   (java.util List)
   (java.util.function Consumer)
   (magnetar.kernel.process DeadLetters ProcessTable)))

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

(defn- count-of-processes []
  (.size (ProcessTable/all)))

(defn- processes ^java.lang.AutoCloseable [^Meter meter]
  (-> (.upDownCounterBuilder meter "magnetar.processes")
      (.setUnit "{process}")
      (.setDescription "Processes that live")
      (.buildWithCallback (reading count-of-processes))))

(defn- dead-letters ^java.lang.AutoCloseable [^Meter meter]
  (-> (.counterBuilder meter "magnetar.dead_letters")
      (.setUnit "{message}")
      (.setDescription "Messages that were sent to processes which are dead, or to names that no process has")
      (.buildWithCallback (reading #(DeadLetters/count)))))

(defn- restarts ^LongCounter [^Meter meter]
  (-> (.counterBuilder meter "magnetar.supervisor.restarts")
      (.setUnit "{restart}")
      (.setDescription "Children that supervisors have started again")
      (.build)))

(defn make
  "The instruments of the meter: :queue, :handling and :calling are histograms, :restarts a counter, :observed those that read."
  [meter]
  {:queue (durations meter "magnetar.server.queue.duration" "How long messages of servers wait in the mailbox")
   :handling (durations meter "magnetar.server.handling.duration" "How long servers handle messages")
   :calling (durations meter "magnetar.call.duration" "How long callers wait for the end of a call")
   :restarts (restarts meter)
   :observed [(processes meter) (dead-letters meter)]})

(defn close
  "Lets the instruments no longer read."
  [{:keys [observed]}]
  (run! #(.close ^java.lang.AutoCloseable %) observed))
