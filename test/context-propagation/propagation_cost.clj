(ns propagation-cost
  "What it costs that thread-locals travel: off, on with nothing set, and on with a Context and an MDC of two entries.

    java @kernel/java.options -cp \"$(bin/magnetar classpath context-propagation)\" clojure.main \\
      -i test/context-propagation/propagation_cost.clj -e '(propagation-cost/-main)'"
  (:require
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.scope.thread-locals :as thread-locals])
  (:import
   (com.sun.management ThreadMXBean)
   (io.micrometer.context ContextRegistry ThreadLocalAccessor)
   (io.micrometer.context.integration Slf4jThreadLocalAccessor)
   (io.opentelemetry.context Context ContextKey)
   (java.lang.management ManagementFactory)
   (org.slf4j MDC)))

(set! *warn-on-reflection* true)

(def ^:private opentelemetry
  (reify ThreadLocalAccessor
    (key [_] "opentelemetry")
    (getValue [_] (let [context (Context/current)] (when-not (identical? context (Context/root)) context)))
    (setValue [_ context] (.makeCurrent ^Context context))
    (setValue [_] (.makeCurrent (Context/root)))))

(def ^:private server
  {:init (fn [_] [:ok nil])
   :handle-call (fn [x _ state] [:reply x state])
   :handle-cast (fn [_ state] [:noreply state])})

(def ^:private work
  "Each does so many operations, on the fiber that calls it."
  {"call" (fn [pid n] (dotimes [_ n] (gs/call pid :x)))
   "cast" (fn [pid n] (dotimes [_ (quot (long n) 100)] (dotimes [_ 100] (gs/cast pid :x)) (gs/call pid :x)))
   "go block" (fn [_ n] (dotimes [_ n] (a/<! (a/go :x))))})

(def ^:private modes
  {"off" (fn [f] (thread-locals/stop) (f))
   "on, nothing set" (fn [f] (thread-locals/propagate) (f))
   "on, both set" (fn [f]
                    (thread-locals/propagate)
                    (MDC/put "user" "ada")
                    (MDC/put "order" "2026")
                    (.makeCurrent (.with (Context/root) (ContextKey/named "k") "v"))
                    (f))})

(def ^:private operations 100000)

(defn- allocated ^long []
  (.getTotalThreadAllocatedBytes ^ThreadMXBean (ManagementFactory/getThreadMXBean)))

(defn- measured
  "[nanoseconds bytes] of one operation. The server is started before anything is set."
  [mode f]
  (thread-locals/stop)
  (let [pid (second (gs/start server nil nil))
        result (a/<!! (a/go (mode #(let [bytes (allocated)
                                         begun (System/nanoTime)]
                                     (f pid operations)
                                     [(/ (double (- (System/nanoTime) begun)) (long operations))
                                      (quot (- (allocated) bytes) (long operations))]))))]
    (gs/stop pid)
    result))

(defn- median [values]
  (nth (sort values) (quot (count values) 2)))

(defn- row [what of-mode off]
  (let [ratios (map (fn [[nanos] [base]] (/ nanos base)) of-mode off)]
    (format "%-28s %6.0f ns  %.2f times off (%.2f to %.2f)  %5d bytes" what (median (map first of-mode)) (median ratios)
            (apply min ratios) (apply max ratios) (median (map second of-mode)))))

(defn -main [& [rounds]]
  (.registerThreadLocalAccessor (ContextRegistry/getInstance) opentelemetry)
  (.registerThreadLocalAccessor (ContextRegistry/getInstance) (Slf4jThreadLocalAccessor. (into-array String [])))
  (doseq [[what f] work]
    (let [rounds (if rounds (parse-long rounds) 9)
          results (doall (for [round (range (+ 2 rounds))
                               [name mode] (if (even? round) modes (reverse modes))]
                           [round name (measured mode f)]))
          of (fn [mode] (for [[round name result] results :when (and (= name mode) (< 1 round))] result))]
      (doseq [mode (keys modes)]
        (println (row (str what ", " mode) (of mode) (of "off")))))))
