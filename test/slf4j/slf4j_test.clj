(ns slf4j-test
  "Crash reports and other events where SLF4J and a back end of it are on the class path, and tools.logging is not."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.gen-server :as gs]
   [magnetar.otel :as otel]
   [magnetar.proc-lib.loggers :as loggers]
   [magnetar.proc-lib.report :as report]
   [magnetar.scope.context :refer [defcontext with-context]])
  (:import
   (ch.qos.logback.classic Level Logger)
   (ch.qos.logback.classic.spi ILoggingEvent)
   (ch.qos.logback.core.read ListAppender)
   (org.slf4j LoggerFactory)
   (org.slf4j.event KeyValuePair)
   (org.slf4j.helpers NOPLogger)))

(def ^:private server
  {:init (fn [s] [:ok s])
   :handle-call (fn [_ _ s] [:reply s s])
   :handle-cast (fn [_ _] (throw (ex-info "the ledger is gone" {})))})

(defn- logged
  "What comes to the logger \"magnetar\" while f runs: the events of logback."
  [f]
  (let [^Logger logger (LoggerFactory/getLogger "magnetar")
        appender (doto (ListAppender.) (.start))]
    (.addAppender logger appender)
    (.setAdditive logger false)
    (try
      (f)
      (vec (.-list appender))
      (finally
        (.setAdditive logger true)
        (.detachAppender logger appender)))))

(defn- crash []
  (let [[_ pid] (gs/start server {:hits 1} {:name ::books})]
    (actor/with-process {}
      (let [monitor (actor/monitor pid)]
        (gs/cast pid :crash)
        (actor/receive [:DOWN monitor :process _ _] nil)))
    pid))

(deftest a-crash-comes-to-slf4j-as-text-with-its-parts-as-key-value-pairs
  (let [pid (promise)
        [^ILoggingEvent event & more] (logged #(deliver pid (crash)))
        pairs (into {} (map (fn [^KeyValuePair p] [(.key p) (.value p)])) (.getKeyValuePairs event))]
    (is (nil? more))
    (is (= Level/ERROR (.getLevel event)))
    (is (re-find #"^Server :slf4j-test/books crashed: the ledger is gone \(ExceptionInfo\) at slf4j-test/fn" (.getFormattedMessage event)))
    (is (= {"event" ":crash", "name" ":slf4j-test/books", "pid" (pr-str @pid), "state" "{:hits 1}", "last-message" "[:magnetar/cast :crash]"}
           (select-keys pairs ["event" "name" "pid" "state" "last-message"])))))

(deftest a-logger-that-drops-everything-is-no-back-end
  (is (nil? (loggers/logging-to NOPLogger/NOP_LOGGER)))
  (is (some? (loggers/logging-to (LoggerFactory/getLogger "magnetar")))))

(defcontext trace-id)

(deftest each-context-value-of-a-crash-is-a-key-value-pair
  (let [[^ILoggingEvent event] (logged #(with-context [trace-id "4bf92f"] (crash)))
        pairs (into {} (map (fn [^KeyValuePair p] [(.key p) (.value p)])) (.getKeyValuePairs event))]
    (is (= "4bf92f" (pairs "slf4j-test/trace-id")))
    (is (not (contains? pairs "context")))
    (is (re-find #"\n  context: slf4j-test/trace-id 4bf92f\n" (.getFormattedMessage event)))))

(deftest levels-are-those-of-the-events
  (is (= [Level/WARN Level/INFO]
         (map #(.getLevel ^ILoggingEvent %)
              (logged #(do (report/tell {:event :child-terminated :level :warning :reason :boom})
                           (report/tell {:event :code-loaded :level :info})))))))

(deftest braces-in-an-event-are-no-places-for-arguments
  (is (= ["Stopping: {} {0} (signal {})"]
         (map #(.getFormattedMessage ^ILoggingEvent %)
              (logged #(report/tell {:event :stopping :level :info :message "{} {0}" :signal {}}))))))

;; ---- magnetar.otel, whose own tests are in test/otel: the API of OpenTelemetry is not on this class path

(deftest otel-needs-a-library-that-the-program-adds
  (let [e (try (otel/start) (catch clojure.lang.ExceptionInfo e e))]
    (is (= {:magnetar/reason :magnetar/library-missing :library 'io.opentelemetry/opentelemetry-api}
           (select-keys (ex-data e) [:magnetar/reason :library])))
    (is (= (str "`otel/start` needs io.opentelemetry:opentelemetry-api, which is not on the class path: add it to the libraries of the project, "
                "as in io.opentelemetry/opentelemetry-api {:mvn/version \"1.51.0\"}.")
           (ex-message e))))
  (is (nil? (otel/stop))))
