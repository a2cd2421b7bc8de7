(ns magnetar.context-propagation-test
  "Thread-locals that travel: OpenTelemetry's Context and Logback's MDC, by io.micrometer:context-propagation."
  (:require
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [! receive self spawn with-message-context]]
   [magnetar.agent :as agent]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.dev.guide :as guide]
   [magnetar.fold :as fold]
   [magnetar.gen-event :as ge]
   [magnetar.gen-server :as gs]
   [magnetar.gen-statem :as statem]
   [magnetar.impl.propagation :as propagation]
   [magnetar.otel :as otel]
   [magnetar.otel.current :as current]
   [magnetar.report :as report]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.scope.context :refer [defcontext with-context]]
   [magnetar.scope.thread-locals :as thread-locals]
   [magnetar.supervisor :as sup]
   [magnetar.task :as task]
   [magnetar.task.supervisor :as tasks]
   [magnetar.timer :as timer]
   [magnetar.trace :as trace])
  (:import
   (ch.qos.logback.classic Logger)
   (ch.qos.logback.classic.spi ILoggingEvent)
   (ch.qos.logback.core Appender AppenderBase)
   (io.micrometer.context ContextRegistry ThreadLocalAccessor)
   (io.micrometer.context.integration Slf4jThreadLocalAccessor)
   (io.opentelemetry.api OpenTelemetry)
   (io.opentelemetry.api.trace Span SpanContext TraceFlags TraceState)
   (io.opentelemetry.context Context)
   (org.slf4j LoggerFactory MDC)))

(set! *warn-on-reflection* true)

(def ^:private opentelemetry
  "OpenTelemetry's current Context."
  (reify ThreadLocalAccessor
    (key [_] "opentelemetry")
    (getValue [_] (let [context (Context/current)] (when-not (identical? context (Context/root)) context)))
    (setValue [_ context] (.makeCurrent ^Context context))
    (setValue [_] (.makeCurrent (Context/root)))))

(def ^:private failing (atom nil))

(def ^:private fails
  "Throws when it is told to."
  (reify ThreadLocalAccessor
    (key [_] "fails")
    (getValue [_] (when-some [e @failing] (throw e)))
    (setValue [_ _])
    (setValue [_])))

(defn- registry ^ContextRegistry []
  (ContextRegistry/getInstance))

(use-fixtures :once
  (fn [run]
    (.registerThreadLocalAccessor (registry) opentelemetry)
    (.registerThreadLocalAccessor (registry) (Slf4jThreadLocalAccessor. (into-array String [])))
    (run)))

(def ^:private slf4j "slf4j's key" Slf4jThreadLocalAccessor/KEY)

(use-fixtures :each
  (fn [run]
    (try
      (thread-locals/propagate)
      (run)
      (finally
        (thread-locals/stop)
        (MDC/clear)
        (.makeCurrent (Context/root))))))

;; ---- what is set and seen

(defn- span ^Context [^String trace]
  (.with (Context/root) (Span/wrap (SpanContext/create trace "00f067aa0ba902b7" (TraceFlags/getSampled) (TraceState/getDefault)))))

(def ^:private ada "4bf92f3577b34da6a3ce929d0e0e4736")
(def ^:private bob "0af7651916cd43dd8448eb211c80319c")

(defn- set-user [user trace]
  (MDC/put "user" user)
  (.makeCurrent (span trace)))

(defn- seen
  "The user of the MDC, and the user that the current trace belongs to."
  []
  [(MDC/get "user")
   ({ada :ada, bob :bob} (.getTraceId (.getSpanContext (Span/current))))])

(def ^:private adas ["ada" :ada])
(def ^:private bobs ["bob" :bob])
(def ^:private none [nil nil])

(defn- as
  "Calls f on a fiber of its own, where the user is set."
  [user f]
  (with-scope [s]
    @(fork s (fn []
               (case user
                 :ada (set-user "ada" ada)
                 :bob (set-user "bob" bob)
                 :none (do (MDC/clear) (.makeCurrent (Context/root))))
               (f)))))

(defmacro ^:private as-ada [& body]
  `(as :ada (fn [] ~@body)))

;; ---- on and off

(deftest one-call-turns-it-on-and-tells-what-travels
  (is (= #{"opentelemetry" slf4j} (set (thread-locals/propagate)) (set (thread-locals/propagated))))
  (testing "some of it"
    (is (= [slf4j] (thread-locals/propagate {:keys [slf4j]}) (thread-locals/propagated)))
    (is (= ["ada" nil] (as-ada (a/<!! (a/go (seen)))))))
  (testing "a key that is not registered"
    (let [e (try (thread-locals/propagate {:keys ["mdc"]}) (catch IllegalArgumentException e e))]
      (is (= :magnetar/no-such-accessor (:magnetar/reason (ex-data e))))
      (is (re-find #"opentelemetry" (ex-message e)))))
  (testing "off"
    (is (nil? (thread-locals/stop)))
    (is (= [] (thread-locals/propagated)))
    (is (= none (as-ada (a/<!! (a/go (seen))))))))

;; ---- together with magnetar.otel

(deftest magnetar-otel-lets-the-context-travel-once
  (let [start #(otel/start {:open-telemetry (OpenTelemetry/noop)})
        seen #(as-ada (gs/call (second (gs/start {:init (fn [_] [:ok nil]) :handle-call (fn [_ _ s] [:reply (seen) s])} nil)) :x))]
    (try
      (start)
      (is (= [] (current/besides (propagation/accessors :thread-locals))) "by the accessor of the program")
      (is (= adas (seen)))
      (thread-locals/propagate {:keys [slf4j]})
      (is (= 1 (count (current/besides (propagation/accessors :thread-locals)))) "by one of magnetar.otel, where the program has chosen none")
      (is (= adas (seen)))
      (thread-locals/stop)
      (is (= [nil :ada] (seen)))
      (thread-locals/propagate {:keys [slf4j]})
      (otel/stop)
      (is (= ["ada" nil] (seen)))
      (finally (otel/stop)))))

;; ---- started work

(deftest ^{:spec ["C44"]} started-work-sees-the-thread-locals-of-its-starter
  (as-ada
    (is (= adas (with-scope [s] @(fork s seen))) "fork")
    (is (= adas (with-scope [s] @(fork s #(with-scope [t] @(fork t seen))))) "fork in a fork")
    (is (= adas (with-scope [s] @(scope/daemon s seen))) "daemon")
    (is (= adas (with-scope [s] (a/<!! (scope/go s (seen))))) "scope/go")
    (is (= adas (a/<!! (a/go (seen)))) "go")
    (is (= adas (a/<!! (a/go (a/<! (a/go (seen)))))) "go in go")
    (is (= adas (a/<!! (a/io-thread (seen)))) "io-thread")
    (is (= adas (a/<!! (a/thread (seen)))) "thread")
    (is (= adas (a/<!! (a/thread-call seen :compute))) "thread-call :compute")
    (is (= adas (scope/offload seen)) "offload")
    (is (= (repeat 1000 adas) (fold/pmap (fn [_] (seen)) (range 1000))) "pmap")
    (is (= (repeat 100 adas) (fold/pmap (fn [_] (seen)) (range 100) {:lazy true})) "lazy pmap")
    (is (= #{adas} (set (fold/fold into conj (fold/map (fn [_] (seen)) (vec (range 100000)))))) "fold")
    (is (= adas (actor/join (spawn seen))) "spawn")
    (is (= adas (actor/with-process {} (task/await (task/async seen)))) "task")
    (is (= adas (let [p (promise)] (timer/apply-after 0 #(deliver p (seen))) (deref p 5000 :late))) "apply-after")
    (is (= none (actor/join (actor/spawn-opt seen {:context :none}))) "spawn without a context")
    (is (= adas (actor/join (actor/spawn-opt seen {:context {}}))) "spawn with context values of its own")
    (is (= adas (actor/with-process {} (seen))) "with-process")))

(deftest a-thread-of-clojure-keeps-its-own
  (is (= none (as-ada (let [p (promise)] (send-off (agent nil) (fn [_] (deliver p (seen)))) (deref p 5000 :late))))))

(deftest a-lazy-pmap-sees-what-its-caller-had
  (let [lazily (as-ada (fold/pmap (fn [_] (seen)) (range 10) {:lazy true}))]
    (is (= #{adas} (as :bob #(set lazily))))))

(deftest a-callback-of-a-channel-sees-the-thread-locals-of-its-registrar
  (doseq [on-caller? [true false]]
    (let [c (channel/chan)
          got (promise)]
      (as-ada (a/take! c (fn [_] (deliver got (seen)) (MDC/put "user" "callback")) on-caller?))
      (is (= bobs (as :bob #(do (a/put! c 1) @got (seen)))) "restored on the completing thread")
      (is (= adas @got))))
  (let [c (channel/chan)
        got (promise)]
    (as-ada (a/put! c 1 (fn [_] (deliver got (seen)))))
    (is (= bobs (as :bob #(do (a/<!! c) @got (seen)))))
    (is (= adas @got))))

(deftest what-started-work-changes-does-not-reach-its-starter-or-others
  (as-ada
    (with-scope [s] @(fork s #(set-user "bob" bob)))
    (a/<!! (a/go (set-user "bob" bob)))
    (scope/offload #(set-user "bob" bob))
    (is (= adas (seen)))
    (is (= (repeat 1000 adas) (fold/pmap (fn [_] (let [before (seen)] (set-user "bob" bob) before)) (range 1000) {:parallelism 4}))
        "an element of pmap after the other"))
  (testing "nor the next work of a pooled thread"
    (dotimes [_ 20]
      (as-ada (scope/offload seen) (a/<!! (a/thread-call #(set-user "bob" bob) :compute)))
      (as :none #(a/<!! (a/thread-call (fn [] (set-user "bob" bob)) :compute)))
      (is (= none (as :none #(scope/offload seen)) (as :none #(a/<!! (a/thread-call seen :compute))))))))

;; ---- messages

(def ^:private server
  "Answers what its callbacks see."
  {:init (fn [{:keys [own] :as state}]
           (when own (own))
           [:ok state])
   :handle-call (fn [request from {:keys [out] :as state}]
                  (case (if (vector? request) (first request) request)
                    :seen [:reply (seen) state]
                    :set (do (set-user "bob" bob) [:reply :ok state])
                    :continue [:reply :ok state [:continue :continued]]
                    :leave (gs/reply from :left)
                    :later (do (a/go (gs/reply from (seen))) [:noreply state])
                    :own-timer (do (actor/send-after 0 (self) :tick) [:reply :ok state])
                    :timeout [:reply :ok state 0]
                    :forward (do (gs/cast (second request) [:answer from]) [:noreply state])
                    :ask [:reply (gs/call (second request) :seen) state]))
   :handle-cast (fn [request {:keys [out] :as state}]
                  (if (vector? request)
                    (gs/reply (second request) (seen))
                    (a/>!! out [request (seen)]))
                  [:noreply state])
   :handle-continue (fn [x {:keys [out] :as state}]
                      (a/>!! out [x (seen)])
                      (set-user "bob" bob)
                      [:noreply state])
   :handle-info (fn [message {:keys [out] :as state}]
                  (a/>!! out [message (seen)])
                  [:noreply state])})

(defn- start
  ([] (start nil nil))
  ([state options] (second (as :none #(gs/start server state options)))))

(deftest ^{:spec ["C44"]} a-callback-of-a-server-sees-the-thread-locals-of-its-caller
  (doseq [hosting [:threaded :activated]]
    (testing hosting
      (let [out (a/chan 10)
            pid (start {:out out} {:hosting hosting})]
        (as-ada
          (is (= adas (gs/call pid :seen)) "call")
          (is (= adas (gs/call (start) [:ask pid])) "call in a callback")
          (is (= adas (gs/call pid :later)) "go in a callback")
          (is (= adas (gs/call (start) [:forward pid])) "a call that is passed on")
          (is (= [:reply adas] (actor/with-process {} (gs/receive-response (gs/send-request pid :seen)))) "send-request")
          (gs/cast pid :cast)
          (is (= [:cast adas] (a/<!! out)))
          (! pid :info)
          (is (= [:info adas] (a/<!! out)))
          (gs/call pid :continue)
          (is (= [:continued adas] (a/<!! out)))
          (actor/send-after 0 pid :timer)
          (is (= [:timer adas] (a/<!! out)) "a timer of another process")
          (gs/call pid :own-timer)
          (is (= [:tick none] (a/<!! out)) "an own timer")
          (gs/call pid :timeout)
          (is (= [:timeout none] (a/<!! out)) "a time-out")
          (is (= adas (seen)) "the caller has what it had"))
        (is (= none (as :none #(gs/call pid :seen))) "restored after each callback")))))

(deftest ^{:spec ["C44"]} a-server-has-its-own-thread-locals-after-each-callback
  (doseq [hosting [:threaded :activated]
          [how own] {"set by init" #(start {:own (fn [] (set-user "ada" ada))} %)
                     "of its starter" (fn [options] (second (as-ada (gs/start server {} options))))}]
    (testing [hosting how]
      (let [pid (own {:hosting hosting})
            ask (fn [user request] (as user #(gs/call pid request)))]
        (is (= adas (ask :none :seen)))
        (is (= bobs (ask :bob :seen)))
        (is (= adas (ask :none :seen)))
        (testing "also if a callback has set them"
          (is (= :ok (ask :none :set)))
          (is (= adas (ask :none :seen)))
          (is (= :ok (ask :bob :set)))
          (is (= adas (ask :none :seen))))
        (testing "of one the caller has, and of the other the server"
          (is (= ["bob" :ada] (as :none #(do (MDC/put "user" "bob") (gs/call pid :seen))))))))))

(deftest ^{:spec ["C44"]} a-handler-that-throws-leaves-nothing-behind
  (let [out (a/chan 10)
        handler (fn [id f] {:init (fn [_] [:ok nil])
                            :handle-event (fn [event s] (a/>!! out [id (seen)]) (f event) [:ok s])})]
    (actor/with-process {}
      (let [[_ pid] (as :none #(ge/start))
            hook (report/add-hook :report (fn [_]))]
        (try
          (ge/add-handler pid [(handler :sets (fn [_] (set-user "bob" bob))) :first] nil)
          (ge/add-handler pid [(handler :throws (fn [_] (set-user "bob" bob) (throw (ex-info "no" {})))) :second] nil)
          (as-ada (ge/notify pid :event))
          (is (= #{[:sets adas] [:throws adas]} (set [(a/<!! out) (a/<!! out)])) "a handler does not see what another has set")
          (as :none #(ge/sync-notify pid :event))
          (is (= [:sets none] (a/<!! out)))
          (finally (report/remove-hook :report hook)))))))

(deftest a-body-that-throws-leaves-nothing-behind
  (let [pid (spawn (fn []
                     (receive
                       [:go to] (do (try (with-message-context (! to (seen)) (MDC/put "user" "x") (throw (ex-info "no" {})))
                                         (catch Exception _))
                                    (! to (seen))))))]
    (actor/with-process {}
      (set-user "ada" ada)
      (! pid [:go (self)])
      (is (= [adas none] [(receive x x) (receive x x)])))))

(deftest a-receive-keeps-its-own-thread-locals-and-can-ask-for-those-of-the-message
  (let [out (a/chan 10)
        pid (as :bob (fn [] (actor/spawn-opt #(dotimes [_ 3]
                                                (receive m (a/>!! out [(if (vector? m) (first m) m) (seen) (with-message-context (seen)) (seen)])))
                                             {:trap-exit true :mailbox {:capacity 5}})))]
    (as-ada
      (! pid :message)
      (is (= [:message bobs adas bobs] (a/<!! out)))
      (actor/exit pid :reason)
      (is (= [:EXIT bobs adas bobs] (a/<!! out))))
    (as :none #(! pid :message))
    (is (= [:message bobs bobs bobs] (a/<!! out)))))

(def ^:private door
  "Postpones :seen while it is closed."
  {:callback-mode :handle-event-function
   :init (fn [out] [:ok :closed out])
   :handle-event (fn [_ event state out]
                   (case [state event]
                     [:closed :seen] (do (MDC/put "user" "postponed") [:keep-state-and-data :postpone])
                     [:closed :open] (do (a/>!! out [:open (seen)]) (set-user "ada" ada) [:next-state :open out])
                     (do (a/>!! out [event (seen)]) (set-user "ada" ada) :keep-state-and-data)))})

(deftest an-event-that-is-postponed-keeps-the-thread-locals-of-its-sender
  (let [out (a/chan 10)
        [_ pid] (as :none #(statem/start door out nil))]
    (as-ada (statem/cast pid :seen))
    (as :none #(statem/cast pid :seen))
    (as :bob #(statem/cast pid :open))
    (is (= [[:open bobs] [:seen adas] [:seen none]] (repeatedly 3 #(a/<!! out))))))

(deftest a-child-sees-the-thread-locals-of-its-supervisor
  (let [out (a/chan 10)
        hook (report/add-hook :report (fn [_]))
        start-child (fn [] [:ok (actor/spawn-link (fn [] (a/>!! out (seen)) (receive :end :ended)))])]
    (try
      (as :bob
        (fn []
          (actor/with-process {}
            (let [[_ supervisor] (sup/start-link {:strategy :one-for-one})
                  [_ child] (do (set-user "ada" ada) (sup/start-child supervisor {:id :child :start [start-child]}))]
              (is (= bobs (a/<!! out)))
              (! child :end)
              (is (= bobs (a/<!! out)) "after a restart too")))))
      (finally (report/remove-hook :report hook)))))

(deftest tasks-and-functions-of-agents-see-the-thread-locals-of-their-callers
  (actor/with-process {}
    (let [[_ supervisor] (tasks/start-link)
          [_ agent] (agent/start (fn [] 0))]
      (set-user "ada" ada)
      (is (= adas (task/await (tasks/async supervisor seen))))
      (is (= adas (agent/get agent (fn [_] (seen)))))
      (agent/update agent (fn [n] (set-user "bob" bob) n))
      (is (= none (as :none #(agent/get agent (fn [_] (seen)))))))))

;; ---- beside context values

(defcontext user :nobody)

(deftest context-values-and-thread-locals-travel-together
  (let [pid (second (gs/start {:init (fn [_] [:ok nil]) :handle-call (fn [_ _ s] [:reply [@user (seen)] s])} nil nil))]
    (as-ada
      (with-context [user "eve"]
        (is (= ["eve" adas] (gs/call pid :seen) (a/<!! (a/go [@user (seen)]))))
        (MDC/put "user" "changed"))
      (is (= "changed" (MDC/get "user")) "with-context leaves thread-locals alone")
      (is (= :nobody @user)))))

;; ---- a log, and a crash

(defn- users-logged
  "The users in the MDC of the lines that come to the logger of that name while f runs."
  [^String to f]
  (let [^Logger logger (LoggerFactory/getLogger to)
        users (atom [])
        appender (doto (proxy [AppenderBase] []
                         (append [event] (swap! users conj (get (.getMDCPropertyMap ^ILoggingEvent event) "user"))))
                   (.start))]
    (.addAppender logger appender)
    (.setAdditive logger false)
    (try
      (f)
      @users
      (finally (.detachAppender logger ^Appender appender)))))

(deftest a-trace-of-messages-and-thread-locals-travel-together
  (let [told (promise)
        [_ server] (gs/start {:init (fn [_] [:ok nil]), :handle-cast (fn [_ s] (deliver told (seen)) [:noreply s])} nil)
        messages (trace/messages {:limit 10, :match ::cast, :to (fn [_])})]
    (as-ada (gs/cast server ::cast))
    (is (= adas (deref told 20000 :late)))
    (trace/stop messages)
    (is (= [[:send 1] [:take 1]] (map (juxt :event :number) (butlast (trace/events messages)))))
    (gs/stop server)))

(deftest a-line-that-a-server-logs-has-the-mdc-of-its-caller
  (let [logger (LoggerFactory/getLogger "books")
        pid (second (gs/start {:init (fn [_] [:ok nil]) :handle-call (fn [_ _ s] (.info logger "closed") [:reply :ok s])} nil nil))]
    (is (= ["ada" nil] (users-logged "books" #(do (as-ada (gs/call pid :close)) (as :none (fn [] (gs/call pid :close)))))))))

(deftest the-report-of-a-crash-has-the-mdc-of-the-caller
  (let [[_ pid] (gs/start {:init (fn [_] [:ok nil]) :handle-cast (fn [_ _] (throw (ex-info "the ledger is gone" {})))} nil nil)]
    (is (= ["ada"] (users-logged "magnetar" #(actor/with-process {}
                                               (let [monitor (actor/monitor pid)]
                                                 (as-ada (gs/cast pid :crash))
                                                 (receive [:DOWN monitor :process _ _] nil))))))))

(deftest the-examples-of-the-page-give-what-it-says
  (is (pos? (long (guide/run-page "docs/guide/thread-locals.md")))))

;; ---- accessors that fail, and changes while messages are under way

(deftest an-accessor-that-throws-is-reported-and-nothing-else-fails
  (let [failures (atom [])
        hook (report/add-hook :failure #(swap! failures conj (ex-message (:error %))))
        pid (start)]
    (.registerThreadLocalAccessor (registry) ^ThreadLocalAccessor fails)
    (thread-locals/propagate)
    (try
      (is (= adas (as-ada (reset! failing (ex-info "broken" {}))
                          (let [seen (gs/call pid :seen)] (reset! failing nil) seen))))
      (is (= #{"broken"} (set @failures)))
      (finally
        (reset! failing nil)
        (.removeThreadLocalAccessor (registry) "fails")
        (report/remove-hook :failure hook)))))

(deftest a-message-under-way-keeps-what-was-captured-when-it-is-turned-off
  (let [out (a/chan 1)
        go-on (promise)
        pid (as :none (fn [] (spawn (fn [] @go-on (receive m (do (a/>!! out (with-message-context (seen))) (a/>!! out (seen))))))))]
    (as-ada (! pid :message))
    (thread-locals/stop)
    (deliver go-on true)
    (is (= [adas none] [(a/<!! out) (a/<!! out)]))))
