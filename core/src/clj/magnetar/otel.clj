(ns magnetar.otel
  "Spans and metrics of servers and calls for OpenTelemetry.

  start  turns them on
  stop   turns them off

  A call is a span of the caller, and the parent of the span in which the server handles it. The handling of a
  cast or of any other message is a trace of its own, with a link to the span that it was sent in. The current
  Context of OpenTelemetry travels to what is started and sent. Crash reports carry the ids of the current
  span.

  Magnetar does not depend on OpenTelemetry: add `io.opentelemetry/opentelemetry-api` and an SDK to your
  project, or run with the Java agent.

  Require it as `[magnetar.otel :as otel]`."
  {:added "0.2"}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.loading :as loading]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(defn- check-library []
  (errors/library-class "otel/start" 'io.opentelemetry/opentelemetry-api "1.51.0" "io.opentelemetry.api.OpenTelemetry"))

(defn- check [{:keys [message-name] :as options}]
  (arguments/options "start" [:open-telemetry :message-name] options)
  (when-not (or (nil? message-name) (ifn? message-name))
    (arguments/misuse :magnetar/bad-option
                      (str (arguments/subject :message-name) " a function of a message; this is " (arguments/show message-name) ".")
                      (arguments/data :message-name message-name))))

(defn start
  "Turns spans and metrics on, for the whole JVM.

  What begins from now on is recorded. A second start with the same OpenTelemetry and options does nothing;
  with others it replaces the first. `docs/guide/opentelemetry.md` lists the spans, metrics and attributes.

  Spans and metrics have the names of callback modules and the registered names of servers, and no pids. Parts
  of a message are in them only by :message-name, or where the text of an exception quotes them: the span of a
  server that crashes has that text.

  Returns nil.

  Throws an ExceptionInfo with the :magnetar/reason :magnetar/library-missing if
  io.opentelemetry:opentelemetry-api is not on the class path. Throws an IllegalArgumentException for an
  option that is wrong.

  Options:
    :open-telemetry  the io.opentelemetry.api.OpenTelemetry. Default GlobalOpenTelemetry.get(): if none is set
                     before, OpenTelemetry takes one that does nothing, for the life of the JVM
    :message-name    a function that returns a name of a request or message for its span, or nil. There must
                     be few such names. Default none: messages do not appear

  Example:

    (otel/start {:open-telemetry sdk :message-name #(when (vector? %) (first %))})

  See also `stop`, `magnetar.scope.thread-locals/propagate`, `magnetar.telemetry`."
  {:added "0.2"}
  ([] (start nil))
  ([options]
   (check options)
   (check-library)
   ((loading/value 'magnetar.otel.bridge/start) options)
   nil))

(defn stop
  "Turns spans and metrics off; returns nil.

  Spans of messages and calls that are under way end as they would. The OpenTelemetry is not closed.

  See also `start`."
  {:added "0.2"}
  []
  (when (find-ns 'magnetar.otel.bridge)
    ((loading/value 'magnetar.otel.bridge/stop)))
  nil)
