(ns magnetar.http.peers
  "The kinds of peers of a WebSocket, each as a map of functions of the socket: :open gets the scope too, :message a string or bytes, :ping and :pong
  bytes, :error a Throwable, :close a code and a reason, :unopened nothing else: the socket will not open. A missing :ping is answered by the library."
  {:no-doc true}
  (:require
   [magnetar.channel :as channel]
   [magnetar.http.refusals :as refusals]
   [magnetar.http.response :as response]
   [magnetar.http.ring :as ring]
   [magnetar.http.signal :as signal]
   [magnetar.http.socket :as socket]
   [magnetar.http.transmission :as transmission]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.net.options :as net]
   [magnetar.scope :as scope])
  (:import
   (java.util.concurrent TimeoutException)
   (magnetar.http.socket WebSocket)
   (magnetar.kernel.process Pid Send)
   (org.eclipse.jetty.websocket.api.exceptions BadPayloadException MessageTooLargeException ProtocolException)))

(set! *warn-on-reflection* true)

;; ---- functions

(def ^:private names
  {:on-open :open :on-message :message :on-ping :ping :on-pong :pong :on-error :error :on-close :close})

(defn- of-functions [functions]
  (-> (into {} (keep (fn [[on what]] (when-some [f (get functions on)] [what f]))) names)
      (update :open (fn [f] (when f (fn [socket _] (f socket)))))))

;; ---- channels

(defn- send-all
  "Sends what comes out of the channel until one side has closed."
  [socket out]
  (let [message (channel/take out)]
    (if (nil? message)
      (socket/close socket 1000 "")
      (when (transmission/send socket message)
        (recur socket out)))))

(defn- of-channels [{:keys [in out]}]
  {:unopened (fn [_]
               (some-> in channel/close)
               (some-> out response/end-channel))
   :open (fn [socket scope]
           (when out
             (scope/daemon scope send-all socket out)))
   :message (fn [socket message]
              (when-not (or (nil? in) (channel/put in message))
                (socket/close socket 1000 "")))
   :close (fn [_ _ _]
            (some-> in channel/close)
            (some-> out response/end-channel))})

;; ---- a process

(defn- why [e]
  (condp instance? e
    MessageTooLargeException :emsgsize
    BadPayloadException :einval
    ProtocolException :einval
    TimeoutException :etimedout
    :closed))

(defn- await-active
  "Waits until the process wants a message: what :active was, nil if this side has closed the socket."
  [^WebSocket socket]
  (let [memory (.-memory socket)
        [{:keys [active]} _] (swap-vals! memory update :active net/active-after-one)]
    (cond
      active active
      (:closing @(.-state socket)) nil
      :else (do (channel/take (:wake @memory))
                (recur socket)))))

(defn- to-process [^Pid pid socket message]
  (when-some [active (await-active socket)]
    (Send/send pid [:ws socket message])
    (when (= 1 active)
      (Send/signal pid [:ws-passive socket]))))

;; Messages about the socket itself are signals: no limit of the mailbox applies to them. A process that waits for one of them alone would not get it.
(defn- of-process [^Pid pid active]
  {:open (fn [^WebSocket socket _]
           (swap! (.-memory socket) (fn [memory] {:wake (channel/chan {:size 1}) :active (:active memory active)}))
           (socket/own socket pid))
   :message (fn [socket message] (to-process pid socket message))
   :unopened (fn [socket] (Send/signal pid [:ws-closed socket 1006 "The WebSocket did not open."]))
   :error (fn [socket e] (Send/signal pid [:ws-error socket (why e)]))
   :close (fn [socket code reason]
            (socket/disown socket pid)
            (Send/signal pid [:ws-closed socket code reason]))})

(defn- added [before active]
  (if (and (int? before) (int? active))
    (net/check-messages (+ (long before) (long active)))
    active))

(defn activate
  "Changes the :active of a socket whose peer is a process."
  [^WebSocket socket active]
  (let [memory (swap! (.-memory socket) update :active added active)]
    (some-> (:wake memory) (signal/send-now true))
    nil))

;; ---- all

(defn- check-functions [functions]
  (arguments/options "websocket" (vec (keys names)) functions)
  (doseq [[what f] functions]
    (arguments/option-function what f "{:on-message (fn [socket message] ..)}")))

(defn- channels? [peer]
  (and (map? peer) (seq peer) (every? #{:in :out} (keys peer)) (every? channel/channel? (vals peer))))

;; A record may be a listener of Ring. With Ring on the class path any map is one, though not one of this library, which gets other bytes.
(defn- plain-map? [peer]
  (and (map? peer) (not (record? peer))))

(defn check
  "Refuses what is no peer; returns it."
  [peer]
  (cond
    (or (instance? Pid peer) (channels? peer)) nil
    (plain-map? peer) (if (or (contains? peer :in) (contains? peer :out))
                        (refusals/not-a-peer peer)
                        (check-functions peer))
    (ring/listener? peer) nil
    :else (refusals/not-a-peer peer))
  peer)

(defn functions
  "The peer as a map of functions."
  [peer {:keys [active]}]
  (cond
    (instance? Pid peer) (of-process peer active)
    (channels? peer) (of-channels peer)
    (plain-map? peer) (of-functions peer)
    :else (ring/functions peer)))

(defn of-ring
  "The listener of Ring's response as a map of functions; nil if it is none. Its bytes are ByteBuffers."
  [listener]
  (cond
    (ring/listener? listener) (ring/functions listener)
    (map? listener) (ring/with-buffers (of-functions listener))))
