(ns magnetar.otel.bridge
  "Connects Magnetar with an OpenTelemetry, and disconnects it. Loaded by the first start, since it needs the API of OpenTelemetry."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.otp.instrument :as instrument]
   [magnetar.impl.propagation :as propagation]
   [magnetar.impl.runtime]
   [magnetar.impl.sent :as sent]
   [magnetar.impl.telemetry :as telemetry]
   [magnetar.otel.current :as current]
   [magnetar.otel.instruments :as instruments]
   [magnetar.otel.spans :as spans]
   [magnetar.proc-lib.report :as report])
  (:import
   (io.opentelemetry.api GlobalOpenTelemetry OpenTelemetry)
   (java.lang AutoCloseable)
   (magnetar.kernel.process Traffic)))

(set! *warn-on-reflection* true)

(def ^:private scope-name "magnetar")

;; What is connected: {:open-telemetry .. :options .. :parts ..}, or nil.
(defonce ^:private connected (atom nil))

(def ^:private lock
  "Held while it is connected or disconnected."
  (Object.))

(defn- checked ^OpenTelemetry [open-telemetry]
  (when-not (instance? OpenTelemetry open-telemetry)
    (arguments/misuse :magnetar/bad-option
                      (str (arguments/subject :open-telemetry) " an io.opentelemetry.api.OpenTelemetry, such as an OpenTelemetrySdk; this is "
                           (arguments/show open-telemetry) ".")
                      (arguments/data :open-telemetry open-telemetry)))
  open-telemetry)

(defn- detach
  "Takes the parts out of where `attach` has put them, or some of them."
  [{:keys [instrument listener observer processes]}]
  (instrument/remove-instrument instrument)
  (telemetry/remove-listener listener)
  (Traffic/remove observer)
  (sent/want-no-more :otel)
  (propagation/use-accessors :otel nil)
  (report/add-to-crashes nil)
  (.close ^AutoCloseable processes))

(defn- attach [{:keys [instrument listener observer]}]
  (propagation/use-accessors :otel current/besides)
  (report/add-to-crashes current/ids)
  (sent/want :otel)
  (Traffic/add observer)
  (telemetry/add listener)
  (instrument/add instrument))

(defn- parts [^OpenTelemetry open-telemetry {:keys [message-name]}]
  (let [meter (.getMeter open-telemetry scope-name)
        instruments (instruments/make meter)]
    (assoc {:instrument (spans/instrument (.getTracer open-telemetry scope-name) instruments message-name)
            :listener (instruments/restart-listener (:restarts instruments))
            :observer (instruments/loss-observer (:dead-letters instruments))}
           :processes (instruments/processes meter)))) ; last, since it is read from then on

(defn- disconnect []
  (when-some [{:keys [parts]} @connected]
    (reset! connected nil)
    (detach parts)))

(defn- connect [open-telemetry options]
  (let [parts (parts open-telemetry options)]
    (try
      (attach parts)
      (catch Throwable t
        (detach parts)
        (throw t)))
    (reset! connected {:open-telemetry open-telemetry, :options options, :parts parts})))

(defn start
  "Connects; if another OpenTelemetry is connected, that is disconnected first."
  [{:keys [open-telemetry] :as options}]
  (let [open-telemetry (if (nil? open-telemetry) (GlobalOpenTelemetry/get) (checked open-telemetry))
        options (dissoc options :open-telemetry)]
    (locking lock
      (when-not (and (identical? open-telemetry (:open-telemetry @connected)) (= options (:options @connected)))
        (disconnect)
        (connect open-telemetry options)))))

(defn stop
  "Disconnects."
  []
  (locking lock
    (disconnect)))
