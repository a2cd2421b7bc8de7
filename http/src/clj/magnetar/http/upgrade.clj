(ns magnetar.http.upgrade
  "Checks a request that a handler answers with a WebSocket, and lets Jetty switch the protocol."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.http.peers :as peers]
   [magnetar.http.refusals :as refusals]
   [magnetar.http.request :as request]
   [magnetar.http.response :as response]
   [magnetar.http.socket :as socket]
   [magnetar.http.tls :as tls]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.net.options :as net])
  (:import
   (java.net URI URISyntaxException)
   (java.util Base64)
   (java.util.function Consumer)
   (org.eclipse.jetty.http HttpFields HttpVersion)
   (org.eclipse.jetty.server Request Response)
   (org.eclipse.jetty.util Callback)
   (org.eclipse.jetty.websocket.server ServerUpgradeResponse ServerWebSocketContainer WebSocketCreator)))

(set! *warn-on-reflection* true)

;; ---- the response of a handler

(def ^:private defaults
  {:max-message 65536
   :origins nil
   :protocols []
   :idle-timeout 30000
   :send-timeout 30000
   :close-timeout 5000
   :active :once})

(deftype Peer [peer options])

(defn- refuse [what wanted x]
  (arguments/misuse :magnetar/bad-option (str (arguments/subject what) " " wanted "; this is " (arguments/show x) ".")
                    (arguments/data what x)))

(defn- check [[what x]]
  (case what
    :max-message (arguments/whole what x Integer/MAX_VALUE)
    :origins (when-not (or (nil? x) (= :any x) (and (coll? x) (every? string? x)))
               (refuse what "a set of origins as \"https://shop.example\", or :any" x))
    :protocols (when-not (and (sequential? x) (every? string? x))
                 (refuse what "a vector of strings" x))
    :idle-timeout (when-not (= :infinity x) (arguments/period what x))
    (:send-timeout :close-timeout) (arguments/nanos what x)
    :active (net/check-active x)))

(defn websocket
  "The response of Ring that holds the peer."
  [peer options]
  (arguments/options "websocket" (vec (keys defaults)) options)
  (run! check options)
  {:ring.websocket/listener (Peer. (peers/check peer) (merge defaults options))})

(defn check-options
  "Refuses an :active that is none."
  [options]
  (run! check options))

(defn response?
  "True of the response of a handler that wants a WebSocket."
  [x]
  (and (map? x) (contains? x :ring.websocket/listener)))

(defn- options-of [{:ring.websocket/keys [listener]}]
  (if (instance? Peer listener) (.-options ^Peer listener) defaults))

(defn- functions-of [{:ring.websocket/keys [listener]}]
  (if (instance? Peer listener)
    (peers/functions (.-peer ^Peer listener) (.-options ^Peer listener))
    (or (peers/of-ring listener)
        (throw (refusals/bad-response
                 (str "The handler returned a :ring.websocket/listener that is no map of functions and no listener of Ring's protocol: "
                      (arguments/show listener) ".") listener)))))

;; ---- the request

(defn- header [^Request request ^String name]
  (.get ^HttpFields (.getHeaders request) name))

(defn- names? [text name]
  (boolean (some #(.equalsIgnoreCase ^String name ^String %) (request/parts text))))

(defn- upgrade? [^Request request]
  (and (= "GET" (.getMethod request))
       (= HttpVersion/HTTP_1_1 (.getHttpVersion (.getConnectionMetaData request)))
       (names? (header request "Upgrade") "websocket")
       (names? (header request "Connection") "upgrade")
       (= "13" (header request "Sec-WebSocket-Version"))))

(defn- key? [request]
  (try
    (let [^String key (or (header request "Sec-WebSocket-Key") "")]
      (= 16 (alength (.decode (Base64/getDecoder) key))))
    (catch IllegalArgumentException _ false)))

(defn- place
  "[scheme host port] of an origin, nil if it is not one of HTTP."
  [^String origin]
  (try
    (let [uri (URI. origin)
          scheme (some-> (.getScheme uri) str/lower-case)
          usual ({"https" 443 "http" 80} scheme)
          host (when usual (.getHost uri))]
      (when host
        [scheme (str/lower-case host) (if (= -1 (.getPort uri)) usual (.getPort uri))]))
    (catch URISyntaxException _ nil)))

;; A proxy may take TLS off before a server without TLS. Then the page has https, and the server does not know it. A server with TLS knows: a page
;; without TLS is one that anybody on the way may have written.
(defn- same-host? [^Request request origin]
  (let [[scheme :as from] (place origin)
        secure? (tls/secure? (.getEndPoint (.getConnection (.getConnectionMetaData request))))
        host (header request "Host")]
    (boolean (and from
                  host
                  (or (= "https" scheme) (not secure?))
                  (= from (place (str scheme "://" host)))))))

(defn- allows? [^String allowed ^String origin]
  (or (.equalsIgnoreCase allowed origin)
      (when-some [from (place origin)]
        (= from (place allowed)))))

(defn- origin? [request {:keys [origins]}]
  (let [origin (header request "Origin")]
    (cond
      (or (nil? origin) (= :any origins)) true
      (nil? origins) (same-host? request origin)
      :else (boolean (some #(allows? % origin) origins)))))

(defn refusal
  "[status headers close?] of a request that cannot become a WebSocket, else nil."
  [request ring-response]
  (cond
    (not (upgrade? request)) [426 {"Upgrade" "websocket" "Connection" "Upgrade" "Sec-WebSocket-Version" "13"} false]
    (not (key? request)) [400 nil true]
    (not (origin? request (options-of ring-response))) [403 nil false]))

;; ---- the switch

(defn- offered [request]
  (request/parts (header request "Sec-WebSocket-Protocol")))

(defn- protocol-of [request {:ring.websocket/keys [protocol] :as ring-response}]
  (let [offered (set (offered request))]
    (if (nil? protocol)
      (some offered (:protocols (options-of ring-response)))
      (or (offered protocol)
          (throw (refusals/bad-response
                   (str "The handler returned a :ring.websocket/protocol that the client does not offer in its Sec-WebSocket-Protocol: "
                        (arguments/show protocol) ".") protocol))))))

(defn- site-of [^Request request]
  (str "ws " (.getPath (.getHttpURI request))))

(defn- creator ^WebSocketCreator [socket protocol]
  (reify WebSocketCreator
    (createWebSocket [_ _ answer _]
      (.setExtensions ^ServerUpgradeResponse answer [])
      (when protocol
        (.setAcceptedSubProtocol ^ServerUpgradeResponse answer protocol))
      (socket/listener socket))))

(defn- check-headers [headers]
  (response/check {:status 200 :headers headers}))

(defn begin
  "Lets Jetty answer 101. The place at the door and the peer now belong to the socket, also if this throws."
  [{:keys [^ServerWebSocketContainer container] :as service} ^Request request ^Response response ^Callback callback ring-response]
  (let [socket (socket/websocket service (site-of request) (options-of ring-response))]
    (try
      (socket/serve socket (functions-of ring-response))
      (let [protocol (protocol-of request ring-response)]
        (check-headers (:headers ring-response))
        (response/write-headers response (:headers ring-response))
        (Request/addCompletionListener request (reify Consumer (accept [_ e] (when e (socket/give-up socket)))))
        (when-not (.upgrade container (creator socket protocol) request response callback)
          (throw (IllegalStateException. "Jetty does not take the request for an upgrade to a WebSocket."))))
      (catch Throwable e
        (socket/give-up socket)
        (throw e)))))

(defn abandon
  "Tells the peer of a response that its WebSocket will not open."
  [service request {:ring.websocket/keys [listener] :as ring-response}]
  (when (instance? Peer listener)
    (doto (socket/never service (site-of request) (options-of ring-response))
      (socket/serve (functions-of ring-response))
      (socket/unopened))))
