(ns magnetar.http
  "Serves HTTP: calls a Ring handler for each request, on a fiber of its own.

    (def server (http/start (fn [request] {:status 200 :headers {} :body (str \"hello \" (:uri request) \"\\n\")})
                            {:port 0 :host \"127.0.0.1\"}))
    (slurp (str \"http://127.0.0.1:\" (http/port server) \"/orders\")) ;=> \"hello /orders\\n\"
    (http/stop server) ;=> 0

  start   start start-link
  stop    stop
  look    port status
  answer  events websocket

  The server is Jetty, for HTTP/1.1 and HTTP/2, with TLS or without. A handler may block, since it runs on a
  fiber. It has a deadline, :request-timeout. If the client goes away the handler is cancelled: it ends
  where it waits, and its `finally` blocks run. Dynamic bindings of the caller of `start` are not seen by
  handlers.

  A request is a map with the keys of Ring's SPEC, and :magnetar.http/scope. That scope has no deadline: its
  forks may feed the body of the response, and are cancelled when the body has been sent. A response is a
  map of :status, :headers and :body. The body is nil, a string, an array of bytes, a seq, a File, an
  InputStream, or a channel of strings and arrays of bytes. Other bodies are written by
  ring.core.protocols if Ring is on the class path.

  Options of `start` and `start-link`:

    :port             where to listen, 0 for a free port. Default 8080
    :host             the address of this machine to listen on. Default: all of them
    :tls              a map of the options of TLS of `magnetar.net/listen`, as {:certfile .. :keyfile ..},
                      except :alpn-preferred-protocols: the server chooses HTTP/2 or HTTP/1.1 itself.
                      Default: no TLS
    :http2            false: HTTP/1.1 alone. Default true
    :request-timeout  how long a request may take until the handler has returned, a duration or :infinity. The
                      time that it waits for its turn counts as well. After it the client gets status 503.
                      Default 30000 ms
    :max-concurrent   how many requests run at a time. Default 1000
    :max-queue        how many more may wait. One more makes the request that has waited longest fail with
                      status 503 and a Retry-After. Default 1000
    :max-header       the most bytes of the head of a request: its first line and its headers. Default 8192
    :max-body         the most bytes of the body of a request. Default 1048576 (1 MiB)
    :header-timeout   how long the head of a request may take to arrive. Default 10000 ms
    :idle-timeout     how long a connection may be without a request, and a body without a byte. A client has
                      as long to read each part of a response: 64 KiB of a string, array or File, 16 KiB of
                      an InputStream or seq, or one value of a seq or channel. Default 60000 ms
    :max-connections  how many connections may be open. Up to 256 others wait to be accepted. Default 10000
    :max-streams      how many requests one connection of HTTP/2 may have at a time. Default 128
    :max-events       how many resets, pings, settings and other small frames of HTTP/2 one connection may
                      send in a second before it is closed. Default 128
    :drain-timeout    how long a server of `start-link` lets requests end when it stops. Default 3000 ms

  The artifact is magnetar/magnetar-http. Jetty logs through SLF4J: add an SLF4J back end to see its log.

  Require it as `[magnetar.http :as http]`."
  {:added "0.2"}
  (:require
   [magnetar.actor :as actor]
   [magnetar.channel :as channel]
   [magnetar.gen-server :as gs]
   [magnetar.http.options :as options]
   [magnetar.http.refusals :as refusals]
   [magnetar.http.server :as server]
   [magnetar.http.upgrade :as upgrade]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (magnetar.http.events Events)
   (magnetar.http.server HttpServer)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(defn- checked [operation handler options]
  (refusals/check-real operation)
  (arguments/function operation handler (str "(http/" operation " (fn [request] {:status 200}) {:port 8080})"))
  (options/checked operation options))

(defn start
  "Starts a server; returns it once it listens.

  It runs until `stop`. In a program of supervisors prefer `start-link`.

  Throws an ExceptionInfo of :magnetar/port-in-use if another socket has the port, one of
  :magnetar/socket-failed if it cannot listen there for another reason, and one of :magnetar/bad-tls-file for
  a certificate that cannot be used. Throws an IllegalArgumentException for an option that is wrong, or if the
  handler is not a function.

  Options: see the namespace.

  Example:

    (http/start (fn [request] {:status 200 :headers {} :body \"hello\\n\"}) {:port 8080})

  See also `start-link`, `stop`."
  {:added "0.2"}
  ([handler] (start handler nil))
  ([handler options]
   (server/start handler (checked "start" handler options))))

;; ---- a server that is a process

(defn- init [[handler options]]
  (actor/flag :trap-exit true)
  (try
    (let [server (server/start handler options)]
      (when-not (server/own (actor/self) server) ; it was killed meanwhile
        (server/close server))
      [:ok server])
    (catch clojure.lang.ExceptionInfo e
      [:error (assoc (ex-data e) :message (ex-message e))])))

(def ^:private process
  {:init init
   :handle-call (fn [request _ server]
                  (case request
                    :server [:reply server server]))
   :handle-info (fn [_ server] [:noreply server])
   :terminate (fn [_ ^HttpServer server]
                (server/stop server (:drain-nanos (.-service server))))})

(defn start-link
  "Starts a server as a process that is linked to this process.

  The server stops when the process ends. On :shutdown it first lets the requests in progress end, at most for
  :drain-timeout. The others are cancelled, and have one more second to clean up. So the child's :shutdown has
  to exceed :drain-timeout by more than a second. The defaults, 5000 ms and 3000 ms, do. A kill closes the
  port and the connections at once.

  Returns [:ok pid], or [:error why] where why is a map with a :magnetar/reason, as of a port in use.

  Blocks until it listens.

  Options: see the namespace, and
    :name  as in `magnetar.gen-server/start-link`

  Example:

    {:id :web :start [http/start-link handler {:port 8080 :name :web}]}

  See also `port`."
  {:added "0.2"}
  ([handler] (start-link handler nil))
  ([handler options]
   (let [checked (checked "start-link" handler (if (map? options) (dissoc options :name) options))]
     (gs/start-link process [handler checked] (select-keys options [:name])))))

(defn- process? [x]
  (or (instance? Pid x) (ident? x) (vector? x)))

(defn- pid-of [x]
  (cond
    (instance? Pid x) x
    (or (ident? x) (#{:via :global} (first x))) (actor/whereis x)))

(defn- server-of ^HttpServer [operation x]
  (cond
    (instance? HttpServer x) x
    (process? x) (or (some-> (pid-of x) server/of-process) (gs/call x :server)) ; a process that starts knows it later
    :else (refusals/not-a-server operation x)))

(defn port
  "Returns the port of a server, or of the process of one.

  Example:

    (http/port server) ;=> 8080"
  {:added "0.2"}
  [server]
  (.-port (server-of "port" server)))

(defn status
  "Returns what a server does now: {:running :waiting :connections}.

  :running counts requests and WebSockets in progress, :waiting requests that wait for their turn, and
  :connections open connections.

  Example:

    (http/status server) ;=> {:running 2, :waiting 0, :connections 5}"
  {:added "0.2"}
  [server]
  (server/status (server-of "status" server)))

(defn stop
  "Stops a server of `start`; returns how many requests and sockets it cancelled.

  It closes the port. Requests in progress, and requests that wait for their turn, may end. Requests and
  WebSockets that have not ended in time are cancelled. Their clients get status 503, or see the
  connection closed before the end of a response that has begun. A second `stop` may have a shorter
  :timeout, which then ends both. A `stop` of a server that has stopped returns 0.

  A handler or WebSocket function may stop its own server. `stop` does not wait for that caller. The caller
  has another :timeout, at least a second, to answer.

  Blocks until all requests have ended, at most a second longer than :timeout.

  Cancellation: the requests in progress are cancelled, and the server ends.

  Options:
    :timeout  how long the requests in progress may take, a duration. Default 5000 ms

  Example:

    (http/stop server {:timeout 5000}) ;=> 0

  See also `start-link`, whose server stops with its process."
  {:added "0.2"}
  ([server] (stop server nil))
  ([server options]
   (arguments/options "stop" [:timeout] options)
   (when-not (instance? HttpServer server)
     (refusals/not-a-server "stop" server))
   (server/stop server (arguments/nanos :timeout (:timeout options 5000)))))

;; ---- answers

(defn events
  "Returns a response that sends the values of a channel as server-sent events.

  A value is a string, the data of an event, or a map with :data, :event, :id and :retry, the latter in
  milliseconds. All but :retry are strings, and only :data may have several lines. The response ends when the
  channel is closed. If the client goes away the channel is closed, and what waits to be put is dropped.

  While no event comes, a comment is sent now and then. It keeps proxies from closing the connection, and
  shows a client that has disappeared.

  Options:
    :heartbeat  after how long without an event a comment is sent, a duration above 0. Default 15000 ms

  Example:

    (defn handler [_]
      (let [ch (channel/chan)]
        (subscribe-to-orders ch)
        (http/events ch)))"
  {:added "0.2"}
  ([ch] (events ch nil))
  ([ch options]
   (arguments/options "events" [:heartbeat] options)
   (let [heartbeat (:heartbeat options 15000)]
     (arguments/period :heartbeat heartbeat)
     (when-not (channel/channel? ch)
       (arguments/misuse :magnetar/not-a-channel (str "`events` wants a channel; this is " (arguments/show ch) ".") {:value ch}))
     {:status 200
      :headers {"Content-Type" "text/event-stream" "Cache-Control" "no-cache"}
      :body (Events. ch heartbeat)})))

(defn websocket
  "Returns a response that makes a WebSocket of the connection.

  A handler returns it for a request that asks for a WebSocket. Another request gets status 426. The socket
  runs on a fiber and in a scope of its own, and keeps its place in :max-concurrent until it has closed.
  `magnetar.http.websocket` has the functions that use a socket. A peer is one of:

    functions     {:on-open (fn [socket] ..), :on-message (fn [socket message] ..), :on-pong and :on-ping
                  (fn [socket bytes] ..), :on-error (fn [socket throwable] ..),
                  :on-close (fn [socket code reason] ..)}, each of them optional. They are called one after
                  the other, and may block. If one throws, that is reported, and the socket is closed with
                  1011
    channels      {:in ch :out ch}. Messages are put on :in, and what is put on :out is sent. Closing :out
                  closes the socket with 1000. Closing :in closes it when the client sends its next message.
                  If the socket closes, both are closed. Either channel may be left out
    a process     its pid. It gets [:ws socket message], [:ws-passive socket], [:ws-error socket why] and
                  [:ws-closed socket code reason]. why is :emsgsize, :einval, :etimedout or :closed. :active
                  says how many messages, as in `magnetar.net`. The socket is closed with 1001 if the process
                  ends
    a listener    of ring.websocket.protocols

  A message is a string, or an array of bytes; a listener of Ring gets a ByteBuffer. While the peer works on a
  message, one more is read from the client, and no more. If the client disappears, the scope of the functions
  is cancelled: they end where they wait, and :on-close is called with 1006. A client that closes in the usual
  way lets them end, for :close-timeout at most. Then :on-close may take as long again, at least a second.

  If the WebSocket does not open, as for a page of another host, the channels are closed. A process gets
  [:ws-closed socket 1006 reason]. Functions are not called.

  Options:
    :max-message    the most bytes of a message of the client. A longer one closes with 1009. Default 65536
    :origins        which pages of a browser may open it: a set of origins as \"https://shop.example\", or
                    :any. They replace the default: pages of the same host and port, with TLS if the
                    server has it. Others get status 403. Clients that send no Origin are not
                    browsers, and may
    :protocols      subprotocols, the best one first. The first that the client offers is chosen. Default []
    :idle-timeout   how long the client may be silent, a duration or :infinity. The server sends pings, which
                    a client answers automatically. A client that stays silent for so long is closed with
                    1001. Default 30000 ms
    :send-timeout   how long a send may wait for its turn, and then for the client to read. After it the
                    connection is cut. Default 30000 ms
    :close-timeout  how long the peer and the client may take once one side has closed, and then :on-close.
                    Default 5000 ms
    :active         of a process: :once, true, false or a number of messages. Default :once

  Example:

    (defn handler [request]
      (http/websocket {:on-message (fn [socket text] (ws/send socket (str \"you said \" text)))}))

  See also `events`, which is enough if the server alone sends.

  Ring: a response with :ring.websocket/listener works too, with these defaults."
  {:added "0.2"}
  ([peer] (websocket peer nil))
  ([peer options]
   (upgrade/websocket peer options)))
