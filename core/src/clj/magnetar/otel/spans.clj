(ns magnetar.otel.spans
  "The instrument of servers and calls that makes spans and measures durations.

  A call is a span of the kind CLIENT, and the parent of the span SERVER of its callback. Of any other message the callback is a span CONSUMER of a new
  trace, with a link to the span that it was sent in."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.context :as context]
   [magnetar.impl.otp.host]
   [magnetar.impl.otp.instrument :as instrument]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.sent :as sent]
   [magnetar.otel.attributes :as attributes]
   [magnetar.otel.current :as current])
  (:import
   (io.opentelemetry.api.common Attributes)
   (io.opentelemetry.api.metrics DoubleHistogram)
   (io.opentelemetry.api.trace Span SpanBuilder SpanContext SpanKind StatusCode Tracer)
   (io.opentelemetry.context Context Scope)
   (magnetar.impl.otp Instrument)
   (magnetar.impl.otp.host Server)
   (magnetar.otel.attributes About)))

(set! *warn-on-reflection* true)

;; What has begun: its span, which is current until the scope is closed, and what its duration is measured with.
(deftype Begun [^Span span ^Scope scope ^long at attributes])

(defn- begin [^SpanBuilder builder ^Attributes metric]
  (let [span (.startSpan builder)]
    (Begun. span (.makeCurrent (.with (Context/current) span)) (clock/now) metric)))

(defn- fail
  "Marks the span as failed; `thrown` are the attributes of its event `exception`, or nil."
  [^Span span error ^Attributes thrown]
  (let [type (attributes/failure-type error)]
    (when thrown
      (.addEvent span "exception" thrown))
    (.setAttribute span "error.type" ^String type)
    (.setStatus span StatusCode/ERROR type)))

(defn- end
  "Measures the duration while the span is current, so that it may be an exemplar, and ends the span."
  [^Begun begun ^DoubleHistogram durations error thrown]
  (try
    (.record durations (/ (double (- (clock/now) (.-at begun))) 1e9)
             (cond-> ^Attributes (.-attributes begun) error (attributes/with-failure error)))
    (when error
      (fail (.-span begun) error (thrown error)))
    (finally
      (.close ^Scope (.-scope begun))
      (.end ^Span (.-span begun)))))

;; ---- what servers handle

(defn- naming
  "A function that returns what the program calls a message, a text; nil where the program has no name for it, or its function fails."
  [name-of]
  (if name-of
    (reports/unharmed "the :message-name of magnetar.otel" false #(some-> (name-of %) attributes/plain))
    (constantly nil)))

(defn- follow
  "Makes the span of the call a child of the caller's."
  [^SpanBuilder builder ^Context sender]
  (if sender (.setParent builder sender) (.setNoParent builder)))

(defn- link
  "Begins a new trace with a link to the span that the message was sent in."
  [^SpanBuilder builder ^Context sender]
  (let [^SpanBuilder builder (.setNoParent builder)
        sent (when sender (.getSpanContext (Span/fromContext sender)))]
    (if (and sent (.isValid ^SpanContext sent))
      (.addLink builder sent)
      builder)))

(defn- builder ^SpanBuilder [^Tracer tracer ^SpanKind kind ^About about]
  (-> (.spanBuilder tracer (.-span-name about))
      (.setSpanKind kind)
      (.setAllAttributes (.-span about))))

(defn- server-span [tracer ^Server server kind named]
  (let [about (attributes/about (instrument/label server) (attributes/registered (.-who server)) named kind)
        sender (current/of-sender)]
    (begin (if (identical? :call kind)
             (follow (builder tracer SpanKind/SERVER about) sender)
             (link (builder tracer SpanKind/CONSUMER about) sender))
           (.-metric about))))

(defn- waited
  "For how many seconds the message that this server handles was in the mailbox; nil if that is not known."
  []
  (when-some [nanos (sent/waited (context/sent))]
    (/ (double nanos) 1e9)))

(defn- handles [tracer ^DoubleHistogram waits named server kind message]
  (let [seconds (waited)
        ^Begun begun (server-span tracer server kind (named (instrument/request kind message)))]
    (when seconds
      (.record waits (double seconds) ^Attributes (.-attributes begun)))
    begun))

;; ---- calls

(defn- calls [tracer named address request]
  (let [about (attributes/about (instrument/label-at address) (attributes/registered address) (named request) :calls)]
    (begin (builder tracer SpanKind/CLIENT about) (.-metric about))))

;; ---- the instrument

(defn- no-event
  "The span of a caller has no event `exception`: the message of its error shows the request."
  [_])

(defn instrument
  "The instrument with a tracer and instruments of OpenTelemetry. (name-of message), or nil, is what spans call a message."
  ^Instrument [tracer {:keys [queue handling calling]} name-of]
  (let [named (naming name-of)]
    (reify Instrument
      (handles [_ server kind message] (handles tracer queue named server kind message))
      (handled [_ begun _ error] (end begun handling (instrument/failure error) attributes/thrown))
      (calls [_ _ address request] (calls tracer named address request))
      (called [_ begun error] (end begun calling (instrument/failure error) no-event)))))
