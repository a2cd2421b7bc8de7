(ns magnetar.otel-test
  "Spans and metrics of Magnetar in the real SDK of OpenTelemetry, with its exporters in memory."
  (:require
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.async :as a]
   [magnetar.dev.guide :as guide]
   [magnetar.gen-server :as gs]
   [magnetar.gen-statem :as statem]
   [magnetar.impl.context :as context]
   [magnetar.otel :as otel]
   [magnetar.pool :as pool]
   [magnetar.proc-lib.report :as crashes]
   [magnetar.report :as report]
   [magnetar.scope :as scope]
   [magnetar.scope.thread-locals :as thread-locals]
   [magnetar.supervisor :as sup]
   [magnetar.test :as mt])
  (:import
   (ch.qos.logback.classic Logger)
   (ch.qos.logback.classic.spi ILoggingEvent)
   (ch.qos.logback.core.read ListAppender)
   (io.opentelemetry.api GlobalOpenTelemetry OpenTelemetry)
   (io.opentelemetry.api.baggage Baggage)
   (io.opentelemetry.api.common AttributeKey Attributes)
   (io.opentelemetry.api.trace Span Tracer)
   (io.opentelemetry.context Context)
   (io.opentelemetry.sdk OpenTelemetrySdk)
   (io.opentelemetry.sdk.common CompletableResultCode)
   (io.opentelemetry.sdk.metrics SdkMeterProvider)
   (io.opentelemetry.sdk.metrics.data HistogramPointData LongPointData MetricData PointData)
   (io.opentelemetry.sdk.testing.exporter InMemoryMetricReader InMemorySpanExporter)
   (io.opentelemetry.sdk.trace SdkTracerProvider)
   (io.opentelemetry.sdk.trace.data EventData LinkData SpanData)
   (io.opentelemetry.sdk.trace.export SimpleSpanProcessor SpanExporter)
   (magnetar.impl.otp Instruments)
   (magnetar.kernel.fiber Propagation)
   (magnetar.kernel.report Telemetry)
   (org.slf4j LoggerFactory)
   (org.slf4j.event KeyValuePair)))

(set! *warn-on-reflection* true)

;; ---- an SDK that keeps what it gets

(defrecord Kept [^OpenTelemetrySdk sdk ^InMemorySpanExporter spans ^InMemoryMetricReader metrics])

(defn- sdk
  ([] (let [spans (InMemorySpanExporter/create)] (assoc (sdk spans) :spans spans)))
  ([^SpanExporter exporter]
   (let [reader (InMemoryMetricReader/create)
         traces (-> (SdkTracerProvider/builder) (.addSpanProcessor (SimpleSpanProcessor/create exporter)) (.build))
         meters (-> (SdkMeterProvider/builder) (.registerMetricReader reader) (.build))]
     (->Kept (-> (OpenTelemetrySdk/builder) (.setTracerProvider traces) (.setMeterProvider meters) (.build)) nil reader))))

(def ^:private ^:dynamic ^Kept *kept* nil)

(use-fixtures :each
  (fn [run]
    (binding [*kept* (sdk)]
      (try
        (run)
        (finally
          (otel/stop)
          (.makeCurrent (Context/root))
          (.close ^OpenTelemetrySdk (:sdk *kept*)))))))

(defn- start
  ([] (start {}))
  ([options] (otel/start (assoc options :open-telemetry (:sdk *kept*)))))

(defn- spans
  ([] (spans *kept*))
  ([kept] (vec (.getFinishedSpanItems ^InMemorySpanExporter (:spans kept)))))

(defn- attributes [^Attributes from]
  (into {} (for [[k v] (.asMap from)] [(.getKey ^AttributeKey k) v])))

(defn- status [^SpanData span]
  (keyword (str (.getStatusCode (.getStatus span)))))

(defn- tree
  "[name kind links & children] of the span; its links are the names of the spans that they lead to."
  [all ^SpanData span]
  (let [by-id (into {} (map (juxt #(.getSpanId ^SpanData %) identity)) all)
        children (filter #(= (.getSpanId span) (.getParentSpanId ^SpanData %)) all)]
    (into [(.getName span) (keyword (str (.getKind span)))
           (mapv #(.getName ^SpanData (by-id (.getSpanId (.getSpanContext ^LinkData %)))) (.getLinks span))]
          (sort-by pr-str (map #(tree all %) children)))))

(defn- trees
  "The trees of the spans whose parent is none of them, without order."
  ([] (trees (spans)))
  ([all]
   (let [known (set (map #(.getSpanId ^SpanData %) all))]
     (frequencies (map #(tree all %) (remove #(known (.getParentSpanId ^SpanData %)) all))))))

(defn- named ^SpanData [span-name kind]
  (first (filter #(and (= span-name (.getName ^SpanData %)) (= kind (keyword (str (.getKind ^SpanData %))))) (spans))))

(defn- call-in-span [^String span-name f]
  (let [^Tracer tracer (.getTracer ^OpenTelemetry (:sdk *kept*) "program")
        span (.startSpan (.spanBuilder tracer span-name))]
    (try
      (with-open [_ (.makeCurrent span)]
        (f))
      (finally (.end span)))))

(defmacro ^:private in-span [span-name & body]
  `(call-in-span ~span-name (fn [] ~@body)))

(defn- started [[how pid]]
  (assert (= :ok how))
  pid)

(defn- stop-all
  "Ends the servers, so that the spans of what they have handled have ended."
  [& servers]
  (run! gs/stop servers))

;; ---- a program of three servers, a pool and a pipeline

(def ^:private orders
  {:name "orders"
   :init (fn [_] [:ok 0])
   :handle-call (fn [[_ order] _ n]
                  (gs/call :stock [:reserve order])
                  (gs/cast :mail [:placed order])
                  [:reply [:placed order] (inc n)])})

(def ^:private stock
  {:name "stock"
   :init (fn [_] [:ok nil])
   :handle-call (fn [[_ order] _ s]
                  (pool/with-worker [connection :db]
                    (gs/call connection [:write order]))
                  [:reply :reserved s])})

(def ^:private mail
  {:name "mail"
   :init (fn [_] [:ok nil])
   :handle-cast (fn [_ s] [:noreply s])})

(def ^:private connection
  {:name "connection"
   :init (fn [_] [:ok nil])
   :handle-call (fn [_ _ s] [:reply :written s])})

(defn- with-program
  "Calls f while the program runs, and ends it."
  [f]
  (actor/with-process {}
    (let [db (started (pool/start-link {:name :db :worker [gs/start-link connection nil] :size 1}))
          servers (mapv started [(gs/start orders nil {:name :orders}) (gs/start stock nil {:name :stock}) (gs/start mail nil {:name :mail})])]
      (try
        (f)
        (finally
          (apply stop-all servers)
          (stop-all db))))))

(defn- place
  "Places so many orders in a pipeline of go blocks, in one span of the program."
  [n]
  (in-span "checkout"
    (let [out (a/chan n)]
      (a/pipeline-blocking 2 out (map #(gs/call :orders [:place %])) (a/to-chan! (range n)))
      (a/<!! (a/into #{} out)))))

(def ^:private of-one-order
  ["orders/call" :CLIENT []
   ["orders/call" :SERVER []
    ["stock/call" :CLIENT []
     ["stock/call" :SERVER []
      ["connection/call" :CLIENT [] ["connection/call" :SERVER []]]
      ["magnetar.pool/call" :CLIENT [] ["magnetar.pool/call" :SERVER []]]]]]])

(deftest calls-are-parents-and-sends-are-links
  (start)
  (with-program
    #(is (= #{[:placed 0] [:placed 1] [:placed 2]} (place 3))))
  (is (= {["checkout" :INTERNAL [] of-one-order of-one-order of-one-order] 1
          ["process mail" :CONSUMER ["orders/call"]] 3
          ["process magnetar.pool" :CONSUMER ["stock/call"]] 3}
         (trees))))

;; ---- messages

(defn- await-message
  "The next message; nil if none comes."
  []
  (receive x x (after 20000 nil)))

(def ^:private listener
  "Sends the process that started it what it is told, and does to itself what it is asked to."
  {:name "listener"
   :init (fn [to] [:ok to])
   :handle-call (fn [request _ to]
                  (case request
                    :timer (actor/send-after 0 (actor/self) :of-timer)
                    :itself (! (actor/self) :of-itself)
                    :out nil)
                  [:reply :ok to])
   :handle-cast (fn [request to] (! to request) [:noreply to])
   :handle-info (fn [message to] (! to message) [:noreply to])})

(def ^:private linked-to-program ["process listener" :CONSUMER ["program"]])
(def ^:private unlinked ["process listener" :CONSUMER []])
(def ^:private of-call ["listener/call" :CLIENT [] ["listener/call" :SERVER []]])

(deftest a-message-links-to-the-span-that-it-was-sent-in
  (doseq [hosting [:threaded :activated]]
    (testing hosting
      (.reset ^InMemorySpanExporter (:spans *kept*))
      (start)
      (actor/with-process {}
        (let [pid (in-span "starter" (started (gs/start listener (actor/self) {:hosting hosting})))]
          (in-span "program"
            (gs/cast pid :cast)
            (! pid :message)
            (is (= [:cast :message] [(await-message) (await-message)]))
            (is (= [:reply :ok] (gs/receive-response (gs/send-request pid :out)))))
          (testing "outside of a span, also if the server was started in one"
            (gs/cast pid :cast)
            (! pid :message)
            (is (= [:cast :message] [(await-message) (await-message)])))
          (testing "a timer of the server has no sender, and what it sends itself links to its span"
            (gs/call pid :timer)
            (is (= :of-timer (await-message)))
            (gs/call pid :itself)
            (is (= :of-itself (await-message))))
          (stop-all pid)))
      (is (= {["starter" :INTERNAL []] 1
              ["program" :INTERNAL [] ["listener/call" :SERVER []]] 1
              linked-to-program 2
              unlinked 3
              of-call 2
              ["process listener" :CONSUMER ["listener/call"]] 1}
             (trees))))))

(deftest spans-of-the-program-are-children-wherever-they-begin
  (start)
  (let [work {:name "work"
              :init (fn [_] [:ok nil])
              :handle-call (fn [_ _ s]
                             (in-span "callback")
                             (a/<!! (a/go (in-span "go")))
                             (a/<!! (a/thread (in-span "thread")))
                             [:reply :ok s])
              :handle-cast (fn [_ s] (in-span "cast") [:noreply s])}
        pid (started (gs/start work nil))]
    (in-span "program"
      (gs/call pid :x)
      (gs/cast pid :x))
    (stop-all pid)
    (is (= {["program" :INTERNAL []
             ["work/call" :CLIENT []
              ["work/call" :SERVER [] ["callback" :INTERNAL []] ["go" :INTERNAL []] ["thread" :INTERNAL []]]]] 1
            ["process work" :CONSUMER ["program"] ["cast" :INTERNAL []]] 1}
           (trees)))
    (is (identical? (Context/root) (Context/current)))))

(deftest baggage-travels-with-messages-of-all-kinds
  (start)
  (let [user #(.getEntryValue (Baggage/current) "user")
        pid (started (gs/start {:init (fn [to] [:ok to])
                                :handle-call (fn [_ _ s] [:reply (user) s])
                                :handle-cast (fn [to s] (! to (user)) [:noreply s])}
                               nil))]
    (actor/with-process {}
      (with-open [_ (.makeCurrent (-> (Baggage/builder) (.put "user" "ada") (.build)))]
        (is (= "ada" (gs/call pid :x)))
        (gs/cast pid (actor/self))
        (is (= "ada" (await-message)))))
    (is (nil? (gs/call pid :x)))
    (stop-all pid)))

(deftest a-state-machine-has-the-spans-of-a-server
  (start)
  (let [door {:name "door"
              :callback-mode :handle-event-function
              :init (fn [_] [:ok :closed nil])
              :handle-event (fn [type event state _]
                              (cond
                                (= [:closed :enter] [state event]) [:keep-state-and-data :postpone]
                                (= :open event) [:next-state :open nil]
                                :else (in-span "in"
                                        [:keep-state-and-data [:reply (second type) :in]])))}
        pid (started (statem/start door nil nil))]
    (actor/with-process {}
      (let [request (in-span "visitor" (gs/send-request pid :enter))]
        (in-span "porter" (statem/cast pid :open))
        (is (= [:reply :in] (gs/receive-response request)))))
    (statem/stop pid)
    (is (= {["visitor" :INTERNAL [] ["door/call" :SERVER []] ["in" :INTERNAL []]] 1
            ["process door" :CONSUMER ["porter"]] 1
            ["porter" :INTERNAL []] 1}
           (trees))
        "what was postponed is handled in the context of its sender")))

;; ---- failures

(defn- reports-of
  "What is reported while f runs, which ends the processes that report."
  [f]
  (let [reports (atom [])
        hook (report/add-hook :report #(swap! reports conj %))]
    (try
      (f)
      @reports
      (finally (report/remove-hook :report hook)))))

(defn- await-end [pid f]
  (actor/with-process {}
    (let [monitor (actor/monitor pid)]
      (f)
      (receive [:DOWN monitor :process _ _] :ended (after 20000 :late)))))

(def ^:private ledger
  {:name "ledger"
   :init (fn [s] [:ok s])
   :handle-call (fn [request _ s]
                  (case (first request)
                    :fail (throw (ex-info "the ledger is gone" {:secret "s3cret"}))
                    :stop [:stop :full :stopping s]
                    :end [:stop :normal :ending s]
                    :never [:noreply s]))
   :handle-cast (fn [_ _] (throw (IllegalStateException. "no ledger")))})

(defn- error-of
  "The status of the span, the type of its error, and its events."
  [^SpanData span]
  [(status span) ((attributes (.getAttributes span)) "error.type")
   (mapv #(.getName ^EventData %) (.getEvents span))])

(defn- failing-call [pid request]
  (try
    (gs/call pid request {:timeout 20000})
    (catch Exception _ :failed)))

(deftest a-callback-that-throws-ends-its-span-with-the-exception
  (start)
  (let [pid (started (gs/start ledger nil))
        reports (reports-of #(await-end pid (fn [] (in-span "program" (is (= :failed (failing-call pid [:fail "s3cret"])))))))
        server (named "ledger/call" :SERVER)
        [^EventData event] (.getEvents server)
        thrown (attributes (.getAttributes event))]
    (is (= [:ERROR "clojure.lang.ExceptionInfo" ["exception"]] (error-of server)))
    (is (= [:ERROR "clojure.lang.ExceptionInfo" []] (error-of (named "ledger/call" :CLIENT))))
    (is (= ["clojure.lang.ExceptionInfo" "the ledger is gone"] (map thrown ["exception.type" "exception.message"])))
    (is (re-find #"(?m)^clojure.lang.ExceptionInfo: the ledger is gone\n\tat magnetar.otel-test/fn" (thrown "exception.stacktrace")))
    (is (= {["program" :INTERNAL [] ["ledger/call" :CLIENT [] ["ledger/call" :SERVER []]]] 1} (trees)))
    (testing "the report of the crash has its ids"
      (is (= [[:crash (.getTraceId server) (.getSpanId server)]] (map (juxt :event :trace-id :span-id) reports))))))

(deftest a-cast-that-crashes-its-server-is-an-error-of-its-own-trace
  (start)
  (let [pid (started (gs/start ledger nil))
        reports (reports-of #(await-end pid (fn [] (in-span "program" (gs/cast pid :x)))))
        span (named "process ledger" :CONSUMER)]
    (is (= [:ERROR "java.lang.IllegalStateException" ["exception"]] (error-of span)))
    (is (= [[(.getTraceId span) (.getSpanId span)]] (map (juxt :trace-id :span-id) reports)))
    (is (not= (.getTraceId span) (.getTraceId (named "program" :INTERNAL))))))

(deftest a-server-that-stops-is-an-error-only-if-it-stops-for-an-error
  (start)
  (let [[ends stops] (repeatedly 2 #(started (gs/start ledger nil)))]
    (is (= :ending (gs/call ends [:end])))
    (reports-of #(await-end stops (fn [] (is (= :stopping (gs/call stops [:stop]))))))
    (await-end ends (fn []))
    (is (= #{[:UNSET nil []] [:ERROR "full" []]}
           (set (map error-of (filter #(= "SERVER" (str (.getKind ^SpanData %))) (spans))))))))

(deftest a-call-without-an-answer-is-an-error-of-its-caller
  (start)
  (let [pid (started (gs/start ledger nil {:name :ledger}))]
    (is (thrown? magnetar.TimeoutException (gs/call :ledger [:never] {:timeout 1})))
    (is (= :late (gs/call pid [:never] {:timeout 1 :else :late})))
    (is (= :failed (failing-call :nobody [:x])))
    (stop-all pid)
    (let [clients (filter #(= "CLIENT" (str (.getKind ^SpanData %))) (spans))]
      (is (= [["ledger/call" [:ERROR "timeout" []]] ["ledger/call" [:ERROR "timeout" []]] ["call" [:ERROR "noproc" []]]]
             (map (juxt #(.getName ^SpanData %) error-of) clients)))
      (is (= ["ledger" nil "nobody"] (map #((attributes (.getAttributes ^SpanData %)) "magnetar.server.name") clients))))))

(deftest a-failing-exporter-fails-no-call
  (let [logger (java.util.logging.Logger/getLogger (.getName SimpleSpanProcessor))
        failing (sdk (reify SpanExporter
                       (export [_ _] (throw (ex-info "no network" {})))
                       (flush [_] (CompletableResultCode/ofSuccess))
                       (shutdown [_] (CompletableResultCode/ofSuccess))))]
    (.setLevel logger java.util.logging.Level/OFF)
    (otel/start {:open-telemetry (:sdk failing)})
    (with-program
      #(is (= #{[:placed 0]} (place 1))))
    (.setLevel logger nil)
    (.close ^OpenTelemetrySdk (:sdk failing))))

(deftest a-message-name-that-throws-is-reported-once-and-costs-only-the-name
  (let [failures (atom [])
        hook (report/add-hook :failure #(swap! failures conj (ex-message (:error %))))]
    (try
      (start {:message-name (fn [_] (throw (ex-info "no name" {})))})
      (with-program
        #(is (= #{[:placed 0] [:placed 1]} (place 2))))
      (is (= ["no name"] @failures))
      (is (= {"orders/call" 4, "stock/call" 4} (select-keys (frequencies (map SpanData/.getName (spans))) ["orders/call" "stock/call"])))
      (finally (report/remove-hook :failure hook)))))

(deftest slf4j-gets-the-ids-of-the-span-of-a-crash
  (start)
  (let [^Logger logger (LoggerFactory/getLogger "magnetar")
        appender (doto (ListAppender.) (.start))
        pid (started (gs/start ledger nil))]
    (.addAppender logger appender)
    (.setAdditive logger false)
    (try
      (await-end pid #(gs/cast pid :x))
      (finally
        (.setAdditive logger true)
        (.detachAppender logger appender)))
    (let [[^ILoggingEvent event] (.-list appender)
          span (named "process ledger" :CONSUMER)
          pairs (into {} (map (fn [^KeyValuePair p] [(.key p) (.value p)])) (.getKeyValuePairs event))]
      (is (= [(.getTraceId span) (.getSpanId span)] (map pairs ["trace_id" "span_id"])))
      (is (re-find (re-pattern (str "\n  trace: trace_id=" (.getTraceId span) " span_id=" (.getSpanId span) "\n")) (.getFormattedMessage event))))))

;; ---- what spans say

(deftest spans-say-names-and-never-pids-or-messages
  (start)
  (with-program #(in-span "program" (gs/call :orders [:place "s3cret"])))
  (let [of (fn [span-name kind] (attributes (.getAttributes (named span-name kind))))]
    (is (= {"rpc.system" "magnetar", "rpc.service" "orders", "rpc.method" "call", "magnetar.server.name" "orders"}
           (of "orders/call" :SERVER) (of "orders/call" :CLIENT)))
    (is (= {"rpc.system" "magnetar", "rpc.service" "connection", "rpc.method" "call"}
           (of "connection/call" :SERVER) (of "connection/call" :CLIENT))
        "without a name")
    (is (= {"messaging.system" "magnetar", "messaging.operation.name" "process", "messaging.operation.type" "process"
            "messaging.destination.name" "mail", "magnetar.server.name" "mail", "magnetar.message.kind" "cast"}
           (of "process mail" :CONSUMER)))
    (is (not-any? #(re-find #"s3cret|pid|nonode" (str %)) (spans)))))

(deftest a-function-may-name-messages
  (start {:message-name #(when (and (vector? %) (keyword? (first %))) (first %))})
  (with-program #(in-span "program" (gs/call :orders [:place "s3cret"])))
  (is (= {"rpc.method" "place"} (select-keys (attributes (.getAttributes (named "orders/place" :SERVER))) ["rpc.method"])))
  (is (some? (named "stock/reserve" :CLIENT)))
  (is (= "placed" ((attributes (.getAttributes (named "process mail" :CONSUMER))) "magnetar.message.name")))
  (is (not-any? #(re-find #"s3cret" (str %)) (spans))))

;; ---- metrics

(defn- metrics
  "From [name attributes] of each point to its count, of a histogram, or its value."
  []
  (into {} (for [^MetricData metric (.collectAllMetrics ^InMemoryMetricReader (:metrics *kept*))
                 ^PointData point (.getPoints (.getData metric))]
             [[(.getName metric) (attributes (.getAttributes point))]
              (if (instance? HistogramPointData point)
                (.getCount ^HistogramPointData point)
                (.getValue ^LongPointData point))])))

(defn- of-server [module kind & [more]]
  (merge {"magnetar.server.callback_module" module} (when kind {"magnetar.message.kind" kind}) more))

(deftest durations-are-metrics-of-callback-modules-and-names
  (start)
  (with-program #(place 3))
  (let [got (metrics)
        orders {"magnetar.server.name" "orders"}]
    (is (= 3 (got ["magnetar.server.handling.duration" (of-server "orders" "call" orders)])))
    (is (= 3 (got ["magnetar.server.handling.duration" (of-server "mail" "cast" {"magnetar.server.name" "mail"})])))
    (is (= 3 (got ["magnetar.server.queue.duration" (of-server "orders" "call" orders)])))
    (is (= 3 (got ["magnetar.call.duration" (of-server "orders" nil orders)])))
    (is (= 3 (got ["magnetar.call.duration" (of-server "connection" nil)])))
    (is (not-any? #(re-find #"pid|nonode" (str %)) (keys got)))))

(deftest failures-are-metrics-with-the-type-of-the-error
  (start)
  (let [pid (started (gs/start ledger nil))]
    (reports-of #(await-end pid (fn [] (failing-call pid [:fail]))))
    (failing-call :nobody :x)
    (let [got (metrics)
          error {"error.type" "clojure.lang.ExceptionInfo"}]
      (is (= 1 (got ["magnetar.server.handling.duration" (of-server "ledger" "call" error)])))
      (is (= 1 (got ["magnetar.call.duration" (of-server "ledger" nil error)])))
      (is (= 1 (got ["magnetar.call.duration" {"magnetar.server.name" "nobody", "error.type" "noproc"}]))))))

(defn- sum-of
  "The sum in the histogram of the name for the server, in seconds."
  ^double [metric-name module]
  (some (fn [^MetricData metric]
          (when (= metric-name (.getName metric))
            (some (fn [^HistogramPointData point]
                    (when (= module ((attributes (.getAttributes point)) "magnetar.server.callback_module"))
                      (.getSum point)))
                  (.getPoints (.getData metric)))))
        (.collectAllMetrics ^InMemoryMetricReader (:metrics *kept*))))

(def ^:private sleepy
  {:name "sleepy"
   :init (fn [_] [:ok nil])
   :handle-cast (fn [ms s] (scope/sleep ms) [:noreply s])})

(deftest the-wait-in-the-mailbox-is-measured-from-the-send
  (start)
  (mt/simulate {:seed 1}
    (let [[_ pid] (gs/start sleepy nil)]
      (run! #(gs/cast pid %) [200 0])
      (gs/stop pid)))
  (is (<= 0.199 (sum-of "magnetar.server.queue.duration" "sleepy") 0.201)))

(deftest a-message-out-of-a-simulation-has-no-wait-since-there-are-two-clocks
  (start)
  (let [entered (promise)
        go-on (promise)
        gate {:name "gate"
              :init (fn [_] [:ok nil])
              :handle-cast (fn [wait? s] (when wait? (deliver entered true) @go-on) [:noreply s])}
        pid (started (gs/start gate nil))]
    (gs/cast pid true)
    @entered
    (mt/simulate {:seed 1}
      (scope/sleep 1000)
      (gs/cast pid false))
    (deliver go-on true)
    (stop-all pid)
    (is (= [1 2] (map #(get (metrics) [% (of-server "gate" "cast")])
                      ["magnetar.server.queue.duration" "magnetar.server.handling.duration"])))))

(deftest what-messages-carry-does-not-grow-from-one-to-the-next
  (start)
  (let [answers {:init (fn [_] [:ok nil])
                 :handle-call (fn [to _ s]
                                [:reply (if to (gs/call to nil) [(some? (context/sent)) (Propagation/valuesOf (context/sent))]) s])}
        [a b] (repeatedly 2 #(started (gs/start answers nil)))]
    (is (= [true nil] (gs/call a b)))
    (stop-all a b)))

(deftest restarts-are-counted-by-supervisor-and-child
  (start)
  (let [start-child (fn [] (gs/start-link ledger nil {:name :ledger}))]
    (actor/with-process {}
      (let [[_ supervisor] (sup/start-link {:strategy :one-for-one :children [{:id :ledger :start [start-child]}]} {:name :books})
            monitor (actor/monitor :ledger)]
        (reports-of (fn []
                      (gs/cast :ledger :x)
                      (receive [:DOWN monitor :process _ _] nil)
                      (sup/which-children supervisor)
                      (is (= 1 (get (metrics) ["magnetar.supervisor.restarts" {"magnetar.supervisor.name" "books", "magnetar.child.id" "ledger"}])))
                      (gs/stop supervisor)))))))

(deftest living-processes-are-counted
  (start)
  (let [count-now #(long (get (metrics) ["magnetar.processes" {}]))
        before (count-now)
        pids (vec (repeatedly 200 #(started (gs/start ledger nil))))]
    (is (< 150 (- (count-now) before) 250) "others may come and go")
    (apply stop-all pids)))

(deftest dead-letters-are-counted
  (let [dead (actor/spawn (fn []))
        count-now #(long (get (metrics) ["magnetar.dead_letters" {}] 0))
        lose #(dotimes [_ 200] (! dead :message))]
    (actor/join dead)
    (start)
    (lose)
    (is (<= 200 (count-now) 250) "others may lose some")
    (otel/stop)
    (let [before (count-now)]
      (lose)
      (is (= before (count-now)))
      (is (nil? (get (metrics) ["magnetar.processes" {}])) "nothing is read after the stop"))))

(deftest a-start-that-fails-half-way-leaves-nothing-on
  (with-redefs [crashes/add-to-crashes (fn [ids] (when ids (throw (ex-info "no room" {}))))]
    (is (thrown-with-msg? Exception #"no room" (start))))
  (is (not (or (Propagation/isOn) (Instruments/isOn) (Telemetry/isOn))))
  (let [without-tracer (reify OpenTelemetry
                         (getTracerProvider [_] (throw (ex-info "no tracer" {})))
                         (getMeterProvider [_] (.getMeterProvider ^OpenTelemetrySdk (:sdk *kept*))))]
    (is (thrown-with-msg? Exception #"no tracer" (otel/start {:open-telemetry without-tracer})))
    (is (nil? (get (metrics) ["magnetar.processes" {}])) "nothing is read"))
  (start)
  (with-program
    #(is (= #{[:placed 0]} (place 1))))
  (is (seq (spans))))

;; ---- on and off

(deftest without-a-start-there-are-no-spans
  (with-program
    #(is (= #{[:placed 0]} (place 1))))
  (is (= {["checkout" :INTERNAL []] 1} (trees)))
  (is (not (Propagation/isOn)))
  (is (nil? (otel/stop))))

(deftest a-second-start-changes-nothing-and-a-stop-ends-all
  (is (nil? (start)))
  (is (nil? (start)))
  (is (Propagation/isOn))
  (is (= [] (thread-locals/propagated)) "of the program")
  (with-program #(place 1))
  (is (= 1 (get (trees) ["checkout" :INTERNAL [] of-one-order])))
  (is (nil? (otel/stop)))
  (is (nil? (otel/stop)))
  (is (not (Propagation/isOn)))
  (.reset ^InMemorySpanExporter (:spans *kept*))
  (with-program #(place 1))
  (is (= {["checkout" :INTERNAL []] 1} (trees)))
  (let [pid (started (gs/start ledger nil))]
    (is (= [[nil nil]] (map (juxt :trace-id :span-id) (reports-of #(await-end pid (fn [] (in-span "program" (gs/cast pid :x))))))))))

(deftest what-is-under-way-at-the-stop-ends-as-it-would
  (start)
  (let [entered (promise)
        go-on (promise)
        slow {:name "slow"
              :init (fn [_] [:ok nil])
              :handle-call (fn [request _ s]
                             (when (= :slow request)
                               (deliver entered true)
                               @go-on
                               (in-span "late"))
                             [:reply :done s])}
        pid (started (gs/start slow nil))
        answer (a/thread (in-span "program" (gs/call pid :slow)))
        next-answer (do @entered (a/thread (gs/call pid :next)))]
    (otel/stop)
    (deliver go-on true)
    (is (= [:done :done] [(a/<!! answer) (a/<!! next-answer)]))
    (stop-all pid)
    (is (= {["program" :INTERNAL [] ["slow/call" :CLIENT [] ["slow/call" :SERVER [] ["late" :INTERNAL []]]]] 1}
           (dissoc (trees) ["slow/call" :CLIENT []])))))

(deftest one-sdk-after-the-other
  (let [pid (started (gs/start ledger nil {:name :ledger}))
        first-kept *kept*
        second-kept (sdk)]
    (start)
    (gs/call pid [:never] {:timeout 0 :else :late})
    (otel/start {:open-telemetry (:sdk second-kept)})
    (gs/call pid [:never] {:timeout 0 :else :late})
    (otel/stop)
    (stop-all pid)
    (is (= 1 (count (filter #(= "CLIENT" (str (.getKind ^SpanData %))) (spans first-kept)))))
    (is (= 1 (count (filter #(= "CLIENT" (str (.getKind ^SpanData %))) (spans second-kept)))))
    (.close ^OpenTelemetrySdk (:sdk second-kept))))

(deftest the-global-one-is-used-by-default
  (GlobalOpenTelemetry/set (:sdk *kept*))
  (try
    (otel/start)
    (let [pid (started (gs/start ledger nil))]
      (gs/call pid [:never] {:timeout 0 :else :late})
      (stop-all pid)
      (is (some? (named "ledger/call" :CLIENT))))
    (finally (GlobalOpenTelemetry/resetForTest))))

(deftest options-are-checked
  (doseq [options [{:open-telemetry :sdk} {:message-name 5} {:opentelemetry (:sdk *kept*)}]]
    (is (thrown? IllegalArgumentException (otel/start options)) (pr-str options)))
  (is (not (Propagation/isOn))))

(deftest the-examples-of-the-page-give-what-it-says
  (is (pos? (long (guide/run-page "docs/guide/opentelemetry.md")))))
