(ns telemetry-cost
  "What metrics and a listener of all events cost: a call, a cast and a spawn with each, as a multiple of what they take without.

    java @kernel/java.options -cp \"$(bin/magnetar classpath run)\" clojure.main \\
      -i test/telemetry/telemetry_cost.clj -e '(telemetry-cost/-main)'"
  (:require
   [magnetar.actor :as actor]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.telemetry :as telemetry])
  (:import
   (com.sun.management ThreadMXBean)
   (java.lang.management ManagementFactory)))

(set! *warn-on-reflection* true)

(def ^:private server
  {:name "server"
   :init (fn [_] [:ok nil])
   :handle-call (fn [x _ state] [:reply x state])
   :handle-cast (fn [_ state] [:noreply state])})

(def ^:private work
  "Each does so many operations, on the fiber that calls it."
  {"call" (fn [pid n] (dotimes [_ n] (gs/call pid :x)))
   "cast" (fn [pid n] (dotimes [_ (quot (long n) 100)] (dotimes [_ 100] (gs/cast pid :x)) (gs/call pid :x)))
   "spawn" (fn [_ n] (dotimes [_ n] (actor/join (actor/spawn (fn [])))))})

(defn- with-listener [f]
  (let [listener (telemetry/add-listener (fn [_]))]
    (try
      (f)
      (finally (telemetry/remove-listener listener)))))

(defn- with-metrics [f]
  (telemetry/start-metrics)
  (try
    (f)
    (finally (telemetry/stop-metrics))))

(def ^:private modes
  {"off" (fn [f] (f))
   "metrics" with-metrics
   "a listener of all events" with-listener})

(def ^:private operations 50000)

(defn- allocated ^long []
  (.getTotalThreadAllocatedBytes ^ThreadMXBean (ManagementFactory/getThreadMXBean)))

(defn- measured
  "[nanoseconds bytes] of one operation."
  [mode f]
  (let [pid (second (gs/start server nil))
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
    (format "%-32s %6.0f ns  %.2f times off (%.2f to %.2f)  %5d bytes" what (median (map first of-mode)) (median ratios)
            (apply min ratios) (apply max ratios) (median (map second of-mode)))))

(defn -main [& [rounds]]
  (let [rounds (if rounds (parse-long rounds) 10)]
    (doseq [[what f] work]
      (let [results (doall (for [round (range (+ 2 rounds))
                                 [name mode] (if (even? round) modes (reverse modes))]
                             [round name (measured mode f)]))
            of (fn [mode] (for [[round name result] results :when (and (= name mode) (< 1 round))] result))]
        (doseq [mode (keys modes)]
          (println (row (str what ", " mode) (of mode) (of "off"))))))))
