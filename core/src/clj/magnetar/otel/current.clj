(ns magnetar.otel.current
  "OpenTelemetry's current Context: how it travels, and which span it has."
  {:no-doc true}
  (:require
   [magnetar.impl.context :as context]
   [magnetar.impl.runtime])
  (:import
   (io.opentelemetry.api.trace Span SpanContext)
   (io.opentelemetry.context Context ContextKey)
   (java.util.function Consumer Supplier)
   (magnetar.kernel.fiber Propagation Propagation$Accessor)))

(set! *warn-on-reflection* true)

;; ---- how it travels

(defn- current
  "The current Context; nil where none is set."
  []
  (let [context (Context/current)]
    (when-not (identical? context (Context/root)) context)))

(defn- make-current [^Context context]
  (.makeCurrent context))

(def ^:private access
  (let [get (reify Supplier (get [_] (current)))
        set (reify Consumer (accept [_ context] (make-current context)))
        clear (fn [] (make-current (Context/root)))]
    (Propagation$Accessor. "opentelemetry" get set clear set clear)))

(def ^:private probe (ContextKey/named "magnetar.probe"))

(defn- access-to-it?
  "Does the accessor, which the program has chosen, read the current Context too?"
  [^Propagation$Accessor accessor]
  (let [context (.with (Context/current) probe true)]
    (with-open [_ (.makeCurrent context)]
      (try
        (identical? context (.get (.get accessor)))
        (catch Exception _ false)))))

(defn besides
  "The accessors that let the Context travel besides these: none if one of them does."
  [accessors]
  (if (some access-to-it? accessors) [] [access]))

(defn of-sender
  "The Context that the message which this server handles was sent in, or nil."
  ^Context []
  (Propagation/localOf (context/sent) Context))

;; ---- its span

(defn ids
  "The ids of the current span, for a report; nil where there is no span."
  []
  (let [^SpanContext span (.getSpanContext (Span/current))]
    (when (.isValid span)
      {:trace-id (.getTraceId span) :span-id (.getSpanId span)})))
