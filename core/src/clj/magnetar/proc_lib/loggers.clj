(ns magnetar.proc-lib.loggers
  "Where events go without a hook: to tools.logging, SLF4J or the System.Logger, whichever the program has."
  {:no-doc true}
  (:require
   [clojure.java.io :as io]
   [magnetar.impl.loading :as loading]
   [magnetar.impl.runtime]
   [magnetar.proc-lib.text :as text])
  (:import
   (clojure.lang APersistentMap)
   (java.lang System$Logger$Level System$LoggerFinder)
   (java.lang.reflect Method)
   (java.util Map ServiceLoader)))

(set! *warn-on-reflection* true)

(def ^:private logger-name "magnetar")

(defn event
  "The event as a map whose `str` is its text: a back end that takes data gets data, and one that takes text gets lines to read."
  [^Map data]
  (proxy [APersistentMap] []
    (assoc [k v] (assoc data k v))
    (assocEx [k v] (assoc data k v))
    (without [k] (dissoc data k))
    (containsKey [k] (contains? data k))
    (entryAt [k] (find data k))
    (valAt ([k] (get data k)) ([k else] (get data k else)))
    (count [] (count data))
    (empty [] {})
    (seq [] (seq data))
    (iterator [] (.iterator ^Iterable data))
    (toString [] (text/event data))))

;; ---- clojure.tools.logging

(defn- tools-logging []
  (when (or (io/resource "clojure/tools/logging.clj") (io/resource "clojure/tools/logging__init.class"))
    (let [get-logger (loading/var-of 'clojure.tools.logging.impl/get-logger)
          enabled? (loading/var-of 'clojure.tools.logging.impl/enabled?)
          factory (loading/var-of 'clojure.tools.logging/*logger-factory*)
          log (loading/var-of 'clojure.tools.logging/log*)]
      (fn [level data]
        (let [to (get-logger @factory logger-name)
              level (if (= :warning level) :warn level)]
          (when (enabled? to level)
            (log to level nil (event data))))))))

;; ---- SLF4J

(defn- slf4j-bound?
  "True if a back end of SLF4J is on the class path: without one it would drop everything."
  []
  (or (io/resource "META-INF/services/org.slf4j.spi.SLF4JServiceProvider")
      (io/resource "org/slf4j/impl/StaticLoggerBinder.class")))

(defn- class-of
  "The class of the name; nil if there is no such class."
  ^Class [^String named]
  (try
    (Class/forName named true (clojure.lang.RT/baseLoader))
    (catch ClassNotFoundException _)))

(defn- method ^Method [^Class of ^String named & parameters]
  (.getMethod of named (into-array Class parameters)))

(defn- call [^Method method on & arguments]
  (.invoke method on (object-array arguments)))

(def ^:private conventional
  "The keys that have another name in the conventions of OpenTelemetry for logs."
  {:trace-id "trace_id", :span-id "span_id"})

(defn- pairs
  "The event as pairs of names and texts. Each context value has a pair of its own."
  [{:keys [context] :as data}]
  (let [[data values] (if (map? context) [(dissoc data :context) context] [data nil])]
    (concat (for [[k v] data] [(conventional k (name k)) (text/value v)])
            (for [[sym v] values] [(str sym) (text/value v)]))))

(defn- with-pairs
  "Logs to a logger of SLF4J 2 that takes key-value pairs."
  [^Class logger to word data]
  (let [builder-type (class-of "org.slf4j.spi.LoggingEventBuilder")
        add (method builder-type "addKeyValue" String Object)
        builder (reduce (fn [builder [k v]] (call add builder k v))
                        (call (method logger ({:error "atError", :info "atInfo"} word "atWarn")) to)
                        (pairs data))]
    (call (method builder-type "log" String) builder (text/event data))))

(defn logging-to
  "A function that logs to this logger of SLF4J; nil for the one of slf4j-nop, which quiets libraries, and would drop everything."
  [to]
  (let [logger (class-of "org.slf4j.Logger")
        pairs (class-of "org.slf4j.spi.LoggingEventAware")]
    (when-not (= "org.slf4j.helpers.NOPLogger" (.getName (class to)))
      (fn [level data]
        (if (and pairs (instance? pairs to))
          (with-pairs logger to level data)
          (call (method logger ({:error "error", :info "info"} level "warn") String) to (text/event data)))))))

(defn- slf4j []
  (when-some [factory (and (slf4j-bound?) (class-of "org.slf4j.LoggerFactory"))]
    (logging-to (call (method factory "getLogger" String) nil logger-name))))

;; ---- the JDK's

(defn- jul
  "Logs by java.util.logging, unless the program has a System.Logger of its own; nil where the JDK has no such module. A System.Logger would name
  a function of ours as the source of each line."
  []
  (when (and (empty? (ServiceLoader/load System$LoggerFinder)) (class-of "java.util.logging.Logger"))
    (loading/value 'magnetar.proc-lib.jul/log)))

(def ^:private levels
  {:error System$Logger$Level/ERROR, :warning System$Logger$Level/WARNING, :info System$Logger$Level/INFO})

(defn- to-system-logger [level data]
  (let [^String said (text/event data)]
    (.log (System/getLogger logger-name) ^System$Logger$Level (levels level System$Logger$Level/WARNING) said)))

(defonce ^:private chosen (atom nil))

(defn- choice
  "The logger, chosen at the first report. A choice that fails is made again at the next one."
  []
  (or @chosen
      (reset! chosen (or (tools-logging) (slf4j) (jul) to-system-logger))))

(defn log
  "Logs the event, a map, at the level."
  [level data]
  ((choice) level data))
