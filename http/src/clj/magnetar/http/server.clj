(ns magnetar.http.server
  "A server of Jetty whose requests run on fibers: how it is made, looked after and stopped.

  Platform threads: one accepts, and half as many as there are processors wait for events of sockets. Jetty hands what blocks to an executor,
  which starts a fiber. That fiber reads the head of the request, calls the handler and writes the response."
  {:no-doc true}
  (:require
   [magnetar.channel :as channel]
   [magnetar.http.connections :as connections]
   [magnetar.http.door :as door]
   [magnetar.http.exchange :as exchange]
   [magnetar.http.refusals :as refusals]
   [magnetar.http.response :as response]
   [magnetar.http.ring :as ring]
   [magnetar.http.socket :as socket]
   [magnetar.http.tls :as tls]
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.net.refusals :as net]
   [magnetar.scope :as scope])
  (:import
   (java.io IOException Writer)
   (java.net BindException)
   (java.util Map Set)
   (java.util.concurrent ConcurrentHashMap CountDownLatch Executor TimeUnit)
   (magnetar.http.exchange Exchange)
   (magnetar.kernel.process Owned)
   (org.eclipse.jetty.http2 WindowRateControl$Factory)
   (org.eclipse.jetty.http2.server AbstractHTTP2ServerConnectionFactory HTTP2CServerConnectionFactory HTTP2ServerConnectionFactory)
   (org.eclipse.jetty.io EofException)
   (org.eclipse.jetty.server ConnectionFactory ConnectionFactory$Upgrading Connector Handler Handler$Abstract HttpConfiguration HttpConnectionFactory NetworkConnectionLimit Request Request$Handler Response Server ServerConnector)
   (org.eclipse.jetty.server.handler ErrorHandler)
   (org.eclipse.jetty.util.component Container Graceful)
   (org.eclipse.jetty.util.thread QueuedThreadPool)
   (org.eclipse.jetty.websocket.server ServerWebSocketContainer)))

(set! *warn-on-reflection* true)

(declare close)

;; The server of each process that owns one. A process that drains answers no call, and a request in progress may ask for the port or the status.
(defonce ^:private ^ConcurrentHashMap owners (ConcurrentHashMap.))

;; `service` is what exchanges see of a server. `ended` is a channel that closes when the server stops.
(deftype HttpServer [^Server jetty ^ServerConnector connector port service ended]
  Owned
  (ownerDied [this pid]
    (.remove ^ConcurrentHashMap owners pid)
    (close this))

  Object
  (toString [_] (str "#magnetar/http-server \"" (when-some [host (.getHost connector)] (str host ":")) port "\"")))

(defmethod print-method HttpServer [server ^Writer out]
  (.write out (str server)))

;; ---- Jetty

(defn- selectors ^long []
  (max 1 (quot (.availableProcessors (Runtime/getRuntime)) 2)))

(defn- thread-pool
  "Platform threads for accepting, for events and for what Jetty does without blocking. What blocks runs on fibers."
  ^QueuedThreadPool []
  (let [n (int (+ 4 (selectors)))]
    (doto (QueuedThreadPool. n n)
      (.setName "magnetar-http")
      (.setReservedThreads 0)
      (.setVirtualThreadsExecutor (reify Executor (execute [_ task] (fibers/dispatch "http" task)))))))

(defn- configuration ^HttpConfiguration [{:keys [max-header]}]
  (doto (HttpConfiguration.)
    (.setSendServerVersion false)
    (.setSendXPoweredBy false)
    (.setRequestHeaderSize max-header)
    (.setMaxResponseHeaderSize (* 2 (long response/most-head)))))

(def ^:private ^:const stream-window "The most bytes of a body of HTTP/2 that are kept for a handler that does not read." 65536)
(def ^:private ^:const session-window "The most of all bodies of a connection of HTTP/2." 262144)

(defn- http2-settings [^AbstractHTTP2ServerConnectionFactory factory {:keys [max-streams max-events]}]
  (doto factory
    (.setMaxConcurrentStreams max-streams)
    (.setConnectProtocolEnabled false) ; WebSockets use HTTP/1.1
    (.setRateControlFactory (WindowRateControl$Factory. (int max-events)))
    (.setInitialStreamRecvWindow stream-window)
    (.setInitialSessionRecvWindow session-window)))

(defn- prior-knowledge
  "Lets clients begin with HTTP/2. A request of HTTP/1.1 that asks for an upgrade to HTTP/2 stays one of HTTP/1.1: a proxy in front may not know
  of the upgrade, and would not see the requests after it."
  [^HTTP2CServerConnectionFactory factory]
  (reify ConnectionFactory$Upgrading
    (getProtocol [_] (.getProtocol factory))
    (getProtocols [_] (.getProtocols factory))
    (newConnection [_ connector end-point] (.newConnection factory connector end-point))
    (upgradeConnection [_ connector end-point request headers]
      (when (= "PRI" (.getMethod request))
        (.upgradeConnection factory connector end-point request headers)))))

(defn- add-plain-factories
  "Adds what serves connections without TLS to the connector."
  [^ServerConnector connector ^HttpConfiguration configuration {:keys [http2] :as options}]
  (.addConnectionFactory connector (HttpConnectionFactory. configuration))
  (when http2
    (let [factory (doto (HTTP2CServerConnectionFactory. configuration) (http2-settings options))]
      (.addBean connector factory)
      (.addConnectionFactory connector (prior-knowledge factory)))))

(defn- add-factories [connector ^HttpConfiguration configuration {:keys [tls http2] ::keys [certificates] :as options}]
  (if tls
    (tls/add-factories connector tls certificates (HttpConnectionFactory. configuration)
                       (when http2 (doto (HTTP2ServerConnectionFactory. configuration) (http2-settings options))))
    (add-plain-factories connector configuration options)))

(defn- report-of-acceptor
  "Reports why no connection is accepted. A want of descriptors is told once a minute at most: they may run
  out with each connection that ends."
  [e port {:keys [report-shortage?]} now]
  (if (net/too-many-files? e)
    (when (report-shortage? now)
      (reports/report "http accept" (refusals/too-many-files port e)))
    (reports/report "http accept" e)))

(defn- pause-of-acceptor
  "True if the thread that accepts goes on after a failure, as of too many open files, and a pause. False tells on the latch that it has ended."
  [e port {:keys [stopping ^CountDownLatch accepting] :as service}]
  (when-not @stopping
    (report-of-acceptor e port service (clock/now))
    (try
      (Thread/sleep 1000)
      (catch InterruptedException _)))
  (when @stopping
    (.countDown accepting))
  (not @stopping))

(defn- listening
  "Jetty's connector. Jetty ends the thread that accepts by an interrupt. The JDK forgets a socket that it has accepted when the interrupt comes, and its
  client would wait for ever. The close of the port ends that thread, too."
  ^ServerConnector [jetty service]
  (proxy [ServerConnector] [^Server jetty (int 1) (int (selectors)) ^"[Lorg.eclipse.jetty.server.ConnectionFactory;" (into-array ConnectionFactory [])]
    (interruptAcceptors [])
    (handleAcceptFailure [e] (pause-of-acceptor e (.getLocalPort ^ServerConnector this) service))))

(def ^:private ^:const most-unaccepted
  "How many connections the system keeps that were not accepted yet. It drops the packets of further ones, which come again after a second. The JDK's
  50 is less than what clients open at once. With 1,024, a flood of 20,000 connections held up the handlers: a healthy client got 503."
  256)

(defn- connector ^ServerConnector [^Server jetty {:keys [port host idle-timeout] :as options} service]
  (let [idle (clock/millis (clock/nanos idle-timeout))]
    (doto (listening jetty service)
      (add-factories (configuration options) options)
      (.setPort port)
      (.setHost host)
      (.setAcceptQueueSize most-unaccepted)
      (.setIdleTimeout idle)
      (.setShutdownIdleTimeout idle))))

(defn- jetty-handler ^Handler [service]
  (proxy [Handler$Abstract] []
    (handle [request response callback]
      (exchange/handle service request response callback))))

(defn- refusing-handler
  "Answers a request that Jetty refuses with its status alone. One whose head was not complete when its connection was closed came too late, or while
  the server stops."
  [{:keys [stopping]}]
  (reify Request$Handler
    (handle [_ request response callback]
      (let [cut? (instance? EofException (.getAttribute ^Request request ErrorHandler/ERROR_EXCEPTION))]
        (cond
          (not cut?) (response/write-error response (.getStatus response) nil false callback)
          @stopping (response/write-error response 503 {"Retry-After" "1"} true callback)
          :else (response/write-error response 408 nil true callback)))
      true)))

;; ---- looked after

(defn- unharmed
  "Calls f. Its error is reported, and harms no other request."
  [f]
  (try
    (f)
    (catch Throwable t
      (reports/stop-here t)
      (reports/report "http" t))))

(defn- busy
  "The connections with a request in progress."
  [in-progress]
  (into #{} (map (fn [^Exchange x] (.getConnection (.getConnectionMetaData ^Request (.-request x))))) in-progress))

(defn- look-after [{:keys [in-progress websockets connections limits]} now]
  (doseq [x (vec in-progress)]
    (unharmed #(exchange/look-after x now)))
  (doseq [socket (vec websockets)]
    (unharmed #(socket/look-after socket now)))
  (connections/close-late connections limits (busy in-progress) now))

(defn- repeat-until
  "Starts a fiber that calls f after each period, until the channel closes."
  [ended site period f]
  (fibers/dispatch site
    (fn []
      (loop []
        (when (= :again (channel/take ended {:timeout period :else :again}))
          (unharmed f)
          (recur))))))

(def ^:private ^:const renewal-period
  "How often the files of certificates are looked at, in milliseconds."
  250)

;; ---- start

(defn- limits [{:keys [idle-timeout header-timeout tls]}]
  {:idle (clock/nanos idle-timeout)
   :header (clock/nanos header-timeout)
   :handshake (clock/nanos (:handshake-timeout tls idle-timeout))})

(defn- period
  "How often a server is looked after, in milliseconds: often enough for its shortest time-out."
  [limits]
  (-> (quot (long (apply min (vals limits))) 4000000) (min 250) (max 5)))

(defn- service [handler {:keys [max-concurrent max-queue drain-timeout] :as options}]
  {:handler handler
   :options options
   :limits (limits options)
   :drain-nanos (clock/nanos drain-timeout)
   :door (door/door max-concurrent max-queue)
   :in-progress (ConcurrentHashMap/newKeySet)
   :websockets (ConcurrentHashMap/newKeySet)
   :connections (ConcurrentHashMap.)
   :stopping (atom false)
   :report-shortage? (reports/once-a-minute)
   :accepting (CountDownLatch. 1)})

(defn- stop-quietly [^Server jetty]
  (try
    (.stop jetty)
    (catch Exception e (reports/report "http" e))))

;; T1 accepts for a server whose port T2 has closed. The system frees the port when T1 has left its call, which may be after T3 wants to listen there, as
;; the restarted process of the server. So a port that was closed here is tried again for a while.
(defonce ^:private ^Map closed-at (ConcurrentHashMap.))

(def ^:private ^:const freeing-nanos
  "How long after the close of a port the system may take to free it."
  2000000000)

(defn- being-freed? [port]
  (when-some [at (.get closed-at port)]
    (or (< (- (System/nanoTime) (long at)) (long freeing-nanos))
        (do (.remove closed-at port at)
            false))))

(defn- open [^ServerConnector connector]
  (let [failure (try
                  (.open connector)
                  nil
                  (catch IOException e
                    (if (and (refusals/cause-of-kind BindException e) (being-freed? (.getPort connector))) e (throw e))))]
    (when failure
      (clock/sleep 5000000)
      (recur connector))))

(defn- begin
  "Starts it, or throws after all of it was stopped."
  [^Server jetty connector options]
  (try
    (open connector)
    (.start jetty)
    (catch Throwable e
      (stop-quietly jetty)
      (throw (if (instance? Exception e) (refusals/not-started options e) e)))))

(defn start
  "A server that listens."
  ^HttpServer [f options]
  (ring/prepare)
  (let [jetty (Server. (thread-pool))
        service (assoc (service f options) :container (ServerWebSocketContainer/ensure jetty))
        certificates (tls/certificates (:tls options))
        connector (connector jetty (assoc options ::certificates certificates) service)
        ended (channel/chan)]
    (.addBean connector (connections/listener (:connections service) #(channel/closed? ended)))
    (.addBean connector (NetworkConnectionLimit. (int (:max-connections options)) ^"[Lorg.eclipse.jetty.server.Connector;" (into-array Connector [connector])))
    (doto jetty
      (.addConnector connector)
      (.setHandler (jetty-handler service))
      (.setErrorHandler (refusing-handler service))
      (.setStopTimeout 0)
      (begin connector options))
    (repeat-until ended "http time-outs" (period (:limits service)) #(look-after service (clock/now)))
    (when certificates
      (repeat-until ended "http certificates" renewal-period #(tls/renew certificates)))
    (HttpServer. jetty connector (.getLocalPort connector) service ended)))

;; ---- stop

(defn- of-caller
  "The requests and WebSockets that this thread works on: a handler may stop its server."
  [{:keys [in-progress] :as service}]
  (let [thread (Thread/currentThread)]
    (into (set (socket/of-thread service thread))
          (filter (fn [^Exchange x] (identical? thread (.-thread x))))
          in-progress)))

(defn- none-but?
  "True if no request is in progress and no WebSocket is open, except some."
  [{:keys [in-progress websockets]} kept]
  (and (every? kept in-progress) (every? kept websockets)))

(defn- await-none
  "Waits until no request is in progress and no WebSocket is open, except some, at most for so many nanoseconds; true if none is."
  [service kept nanos]
  (let [deadline (clock/deadline nanos)]
    (loop []
      (cond
        (none-but? service kept) true
        (zero? (clock/left deadline)) false
        :else (do (clock/sleep (min 5000000 (clock/left deadline)))
                  (recur))))))

(def ^:private unwinding-nanos
  "How long the requests that were cancelled may take to clean up."
  1000000000)

(defn- cancel
  "Cancels the requests in progress and the WebSockets, except some; returns how many."
  [{:keys [in-progress] :as service} kept]
  (let [cancelled (into [] (remove kept) in-progress)
        sockets (socket/cancel-all service kept)]
    (run! exchange/stop cancelled)
    (+ (count cancelled) (long sockets))))

(defn- refuse-more
  "Closes the port, and tells the clients of open connections to send no more: responses of HTTP/1.1 end their connections, and HTTP/2 has a frame
  for it. Later requests on these connections get status 503."
  [^HttpServer server]
  (when (compare-and-set! (:stopping (.-service server)) false true)
    (.put closed-at (.-port server) (System/nanoTime))
    (.close ^ServerConnector (.-connector server))
    (Graceful/shutdown ^Container (.-connector server))))

(defn- end
  "Ends Jetty and its connections. Of several callers one does it, and the others wait."
  [^HttpServer server]
  (channel/close (.-ended server))
  (.await ^CountDownLatch (:accepting (.-service server)) 100 TimeUnit/MILLISECONDS) ; it may wait for :max-connections, and not tell
  (stop-quietly (.-jetty server))
  (connections/close-all (:connections (.-service server))))

(defn- ended? [^HttpServer server]
  (channel/closed? (.-ended server)))

(defn- drain
  "Waits for the requests and WebSockets, except some, and then cancels them; returns how many were cancelled. If the caller is cancelled meanwhile, so
  are they."
  [service kept nanos]
  (try
    (if (await-none service kept nanos)
      0
      (let [n (cancel service kept)]
        (await-none service kept unwinding-nanos)
        n))
    (catch Throwable t
      (cancel service kept)
      (throw t))))

(defn- end-later
  "Ends the server after the request that has stopped it."
  [^HttpServer server nanos]
  (fibers/dispatch "http stop"
    (fn []
      (try
        (drain (.-service server) #{} (max (long nanos) (long unwinding-nanos)))
        (finally (end server))))))

(defn stop
  "Stops the server after the requests in progress, at most after so many nanoseconds; returns how many were cancelled. A request that stops its own
  server is not waited for."
  [^HttpServer server nanos]
  (if (ended? server)
    0
    (let [service (.-service server)
          own (of-caller service)]
      (refuse-more server)
      (try
        (socket/go-away service)
        (drain service own nanos)
        (finally
          (if (seq own)
            (end-later server nanos)
            (scope/shield (end server))))))))

(defn close
  "Closes the port at once, and ends the rest on a fiber: the caller may be the thread that ends a process. A stop that is under way is cut short."
  [^HttpServer server]
  (when-not (ended? server)
    (refuse-more server)
    (fibers/dispatch "http stop" (fn []
                                   (cancel (.-service server) #{})
                                   (end server)))))

(defn own
  "Lets the process own the server; false if it is dead."
  [pid server]
  (.put owners pid server)
  (or (owned/own pid server)
      (do (.remove owners pid)
          false)))

(defn of-process
  "The server that the process owns, or nil."
  [pid]
  (.get owners pid))

(defn status
  "What the server does now."
  [^HttpServer server]
  (assoc (door/look (:door (.-service server)))
         :connections (.size ^Map (:connections (.-service server)))))
