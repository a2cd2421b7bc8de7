(ns magnetar.otel.bridge
  "Connects Magnetar with an OpenTelemetry, and disconnects it. Loaded by the first start, since it needs the API of OpenTelemetry."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.otp.instrument :as instrument]
   [magnetar.impl.propagation :as propagation]
   [magnetar.impl.runtime]
   [magnetar.impl.sent :as sent]
   [magnetar.otel.current :as current]
   [magnetar.otel.instruments :as instruments]
   [magnetar.otel.spans :as spans]
   [magnetar.proc-lib.report :as report])
  (:import
   (io.opentelemetry.api GlobalOpenTelemetry OpenTelemetry)))

(set! *warn-on-reflection* true)

(def ^:private scope-name "magnetar")

;; What is connected: {:open-telemetry .. :options .. :instrument .. :instruments ..}, or nil.
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

(defn- disconnect []
  (when-some [{:keys [instrument instruments]} @connected]
    (reset! connected nil)
    (instrument/remove-instrument instrument)
    (sent/want-no-more :otel)
    (propagation/use-accessors :otel nil)
    (report/add-to-crashes nil)
    (instruments/close instruments)))

(defn- connect [^OpenTelemetry open-telemetry {:keys [message-name] :as options}]
  (let [meter (.getMeter open-telemetry scope-name)
        instruments (instruments/make meter)
        instrument (spans/instrument (.getTracer open-telemetry scope-name) instruments message-name)]
    (reset! connected {:open-telemetry open-telemetry :options options :instrument instrument :instruments instruments})
    (propagation/use-accessors :otel current/besides)
    (report/add-to-crashes current/ids)
    (sent/want :otel)
    (instrument/add instrument)))

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
