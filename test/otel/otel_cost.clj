(ns otel-cost
  "What magnetar.otel costs: off, on where the sampler drops each span, and on where each span is recorded and handed to an exporter that drops it.

    java @kernel/java.options -cp \"$(bin/magnetar classpath otel)\" clojure.main -i test/otel/otel_cost.clj -e '(otel-cost/-main)'"
  (:require
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.otel :as otel])
  (:import
   (com.sun.management ThreadMXBean)
   (io.opentelemetry.sdk OpenTelemetrySdk)
   (io.opentelemetry.sdk.common CompletableResultCode)
   (io.opentelemetry.sdk.metrics SdkMeterProvider)
   (io.opentelemetry.sdk.testing.exporter InMemoryMetricReader)
   (io.opentelemetry.sdk.trace SdkTracerProvider)
   (io.opentelemetry.sdk.trace.export BatchSpanProcessor SpanExporter)
   (io.opentelemetry.sdk.trace.samplers Sampler)
   (java.lang.management ManagementFactory)))

(set! *warn-on-reflection* true)

(defn- dropping ^SpanExporter []
  (reify SpanExporter
    (export [_ _] (CompletableResultCode/ofSuccess))
    (flush [_] (CompletableResultCode/ofSuccess))
    (shutdown [_] (CompletableResultCode/ofSuccess))))

(defn- sdk ^OpenTelemetrySdk [^Sampler sampler]
  (-> (OpenTelemetrySdk/builder)
      (.setTracerProvider (-> (SdkTracerProvider/builder)
                              (.setSampler sampler)
                              (.addSpanProcessor (.build (BatchSpanProcessor/builder (dropping))))
                              (.build)))
      (.setMeterProvider (-> (SdkMeterProvider/builder) (.registerMetricReader (InMemoryMetricReader/create)) (.build)))
      (.build)))

(def ^:private server
  {:name "server"
   :init (fn [_] [:ok nil])
   :handle-call (fn [x _ state] [:reply x state])
   :handle-cast (fn [_ state] [:noreply state])})

(def ^:private work
  "Each does so many operations, on the fiber that calls it."
  {"call" (fn [pid n] (dotimes [_ n] (gs/call pid :x)))
   "cast" (fn [pid n] (dotimes [_ (quot (long n) 100)] (dotimes [_ 100] (gs/cast pid :x)) (gs/call pid :x)))})

(def ^:private sdks
  (delay {"on, no span sampled" (sdk (Sampler/alwaysOff)), "on, each span recorded" (sdk (Sampler/alwaysOn))}))

(def ^:private modes ["off" "on, no span sampled" "on, each span recorded"])

(def ^:private operations 50000)

(defn- allocated ^long []
  (.getTotalThreadAllocatedBytes ^ThreadMXBean (ManagementFactory/getThreadMXBean)))

(defn- measured
  "[nanoseconds bytes] of one operation."
  [mode f]
  (if-some [open-telemetry (@sdks mode)]
    (otel/start {:open-telemetry open-telemetry})
    (otel/stop))
  (let [pid (second (gs/start server nil nil))
        result (a/<!! (a/go (let [bytes (allocated)
                                  begun (System/nanoTime)]
                              (f pid operations)
                              [(/ (double (- (System/nanoTime) begun)) (long operations))
                               (quot (- (allocated) bytes) (long operations))])))]
    (gs/stop pid)
    result))

(defn- median [values]
  (nth (sort values) (quot (count values) 2)))

(defn- row [what of-mode off]
  (let [ratios (map (fn [[nanos] [base]] (/ nanos base)) of-mode off)]
    (format "%-30s %6.0f ns  %.2f times off (%.2f to %.2f)  %5d bytes" what (median (map first of-mode)) (median ratios)
            (apply min ratios) (apply max ratios) (median (map second of-mode)))))

(defn -main [& [rounds]]
  (doseq [[what f] work]
    (let [rounds (if rounds (parse-long rounds) 9)
          results (doall (for [round (range (+ 2 rounds))
                               mode (if (even? round) modes (reverse modes))]
                           [round mode (measured mode f)]))
          of (fn [mode] (for [[round name result] results :when (and (= name mode) (< 1 round))] result))]
      (doseq [mode modes]
        (println (row (str what ", " mode) (of mode) (of "off"))))))
  (otel/stop)
  (run! #(.close ^OpenTelemetrySdk %) (vals @sdks)))
