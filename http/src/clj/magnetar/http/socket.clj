(ns magnetar.http.socket
  "A WebSocket: Jetty's events become events in a channel, which one fiber hands to the peer, the part of the program that serves the socket.

  Invariants:
    1. Jetty reads one event per demand. `queued` counts the events that wait for the peer or are with it. There is a demand while it is below 2. So a
       client is read ahead by one message, and its departure is noticed while the peer works on one.
    2. `permit` holds one value unless a frame is on its way to the client. Jetty puts it back when the frame is written or has failed. So the frames
       of a client that does not read take the memory of one message.
    3. The place at the door is left once, by the fiber of the socket. A socket that never opened has no fiber, and `give-up` leaves it.
    4. The last call of the peer, :close or :unopened, comes once. `cancel` does not reach :close, which has a deadline of its own."
  {:no-doc true}
  (:require
   [magnetar.channel :as channel]
   [magnetar.http.door :as door]
   [magnetar.http.refusals :as refusals]
   [magnetar.http.signal :as signal]
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (java.io Writer)
   (java.nio ByteBuffer)
   (java.time Duration)
   (java.util Set)
   (java.util.concurrent TimeoutException)
   (java.util.concurrent.atomic AtomicLong AtomicReference)
   (magnetar.kernel.process Owned)
   (org.eclipse.jetty.websocket.api Callback Session Session$Listener)))

(set! *warn-on-reflection* true)

(declare close)

(def ^:private stopping "The server stops.")

;; `peer` holds its functions, see magnetar.http.peers. `phase` leaves :new once, for :open or for :never. `session` is Jetty's once it is open, `scope`
;; the one of the callbacks. `queued` counts events. `heard` is when the client was last heard, `pinged` when it was last sent a ping. `state` is a map:
;;   :closing  [code reason] and :since, once this side has closed
;;   :closed   [code reason], once Jetty has told the end, and :since if that is missing
;;   :cancelled  why, once the scope was cancelled
;;   :thread  the fiber of the socket, once it has one
;;   :write-failure  what a send threw because the client has gone
;; `memory` is a map of the peer.
(deftype WebSocket [service ^String site options ^AtomicReference peer ^AtomicReference phase ^AtomicReference session ^AtomicReference scope events permit
                    ^AtomicLong queued ^AtomicLong heard ^AtomicLong pinged state memory]
  Owned
  (ownerDied [this _]
    (fibers/dispatch "http ws" #(close this 1001 "The process has ended.")))

  Object
  (toString [_] (str "#magnetar/websocket \"" site "\"")))

(defmethod print-method WebSocket [socket ^Writer out]
  (.write out (str socket)))

(defn- in-phase ^WebSocket [phase service site options]
  (let [now (clock/now)
        permit (doto (channel/chan {:size 1}) (channel/put :free))]
    (WebSocket. service site options (AtomicReference.) (AtomicReference. phase) (AtomicReference.) (AtomicReference.)
                (channel/chan {:size 16}) permit
                (AtomicLong.) (AtomicLong. now) (AtomicLong. now) (atom {:since now}) (atom nil))))

(defn websocket
  "A socket that is not open yet. Its place at the door is taken."
  ^WebSocket [service site options]
  (let [socket (in-phase :new service site options)]
    (.add ^Set (:websockets service) socket)
    socket))

(defn never
  "A socket that will not open, and has no place at the door."
  ^WebSocket [service site options]
  (in-phase :never service site options))

(defn serve
  "Gives it its peer, before Jetty knows it."
  [^WebSocket socket functions]
  (.set ^AtomicReference (.-peer socket) functions))

(defn- functions [^WebSocket socket]
  (.get ^AtomicReference (.-peer socket)))

(defn- session ^Session [^WebSocket socket]
  (.get ^AtomicReference (.-session socket)))

(defn open?
  "True until one side has closed it."
  [^WebSocket socket]
  (let [{:keys [closing closed]} @(.-state socket)]
    (and (= :open (.get ^AtomicReference (.-phase socket))) (nil? closing) (nil? closed))))

(defn release
  "Leaves the door."
  [^WebSocket socket]
  (let [{:keys [websockets door]} (.-service socket)]
    (when (.remove ^Set websockets socket)
      (door/leave door))))

(defn cancel
  "Cancels what the peer does."
  [^WebSocket socket why]
  (swap! (.-state socket) assoc :cancelled why)
  (some-> (.get ^AtomicReference (.-scope socket)) (scope/cancel why)))

;; ---- frames to the client

(defn- written
  "Jetty's callback of a frame, which calls (told true) or (told false)."
  ^Callback [told]
  (reify Callback
    (succeed [_] (told true))
    (fail [_ _] (told false))))

(defn- disconnect [^WebSocket socket]
  (some-> (session socket) .disconnect))

(defn- event [^WebSocket socket event]
  (signal/send-now (.-events socket) event))

(defn close
  "Closes it with a code: sends the frame, and leaves the rest to the fiber of the socket. Nothing happens if one side has closed it before."
  [^WebSocket socket code reason]
  (let [now (clock/now)
        [before after] (swap-vals! (.-state socket) #(if (or (:closing %) (:closed %)) % (assoc % :closing [code reason] :since now)))]
    (when-not (identical? before after)
      (event socket [:closing])
      (some-> (:wake @(.-memory socket)) (signal/send-now true))
      (some-> (session socket) (.close (int code) reason Callback/NOOP)))
    nil))

(defn- too-slow
  "The client has not read for :send-timeout. What is on its way may be sent in part, so the connection is cut."
  [^WebSocket socket]
  (swap! (.-state socket) #(cond-> % (not (:closing %)) (assoc :closing [1006 "The client did not read in time."] :since (clock/now))))
  (disconnect socket)
  false)

(defn- free [^WebSocket socket]
  (signal/send-now (.-permit socket) :free))

(defn- start-frame
  "Hands the frame to Jetty by (write session callback). Afterwards `done` has a value, true if it was written."
  [^WebSocket socket write]
  (let [done (channel/chan {:size 1})
        callback (written (fn [sent?]
                            (free socket)
                            (signal/send-now done sent?)))]
    (if (open? socket)
      (try
        (write (session socket) callback)
        (catch Throwable e
          (.fail callback e)))
      (.fail callback nil))
    done))

(defn transmit
  "Sends a frame by (write session callback): true once it is handed to the system, false if the socket is closed or the client does not read in time."
  [^WebSocket socket write]
  (let [within {:timeout (:send-timeout (.-options socket)) :else ::late}]
    (if (= ::late (channel/take (.-permit socket) within))
      (too-slow socket)
      (let [sent? (channel/take (start-frame socket write) within)]
        (if (= ::late sent?) (too-slow socket) sent?)))))

;; ---- frames of the client

(defn- demand [^WebSocket socket]
  (.demand (session socket)))

(defn- heard [^WebSocket socket]
  (.set ^AtomicLong (.-heard socket) (clock/now)))

(defn- arrived [^WebSocket socket e]
  (heard socket)
  (let [n (.incrementAndGet ^AtomicLong (.-queued socket))]
    (event socket e)
    (when (< n 2)
      (demand socket))))

(defn- consumed [^WebSocket socket]
  (when (= 1 (.decrementAndGet ^AtomicLong (.-queued socket)))
    (heard socket) ; it was not read meanwhile
    (demand socket)))

(defn- ended
  "Jetty has told the end of the socket. If that was no frame of the client the peer is cancelled."
  [^WebSocket socket code reason]
  (let [now (clock/now)
        [before _] (swap-vals! (.-state socket) #(cond-> (assoc % :closed [code (or reason "")]) (not (:closing %)) (assoc :since now)))]
    (when (and (= 1006 code) (not (:closing before)))
      (cancel socket :client-gone))
    (event socket [:closed])))

(defn- bytes-of ^bytes [^ByteBuffer buffer]
  (let [bytes (byte-array (.remaining buffer))]
    (.get buffer bytes)
    bytes))

(defn- pinged
  "A ping of the client: the peer answers it if it wants to, else it is answered here, and then the next frame is read."
  [^WebSocket socket data]
  (if (:ping (functions socket))
    (arrived socket [:ping (bytes-of data)])
    (do (heard socket)
        (.sendPong (session socket) data (written (fn [sent?]
                                                    (when sent?
                                                      (demand socket))))))))

(defn- ponged [^WebSocket socket data]
  (if (:pong (functions socket))
    (arrived socket [:pong (bytes-of data)])
    (do (heard socket)
        (demand socket))))

;; ---- the fiber of the socket

(defn- call
  "Hands an event to the peer."
  [^WebSocket socket what & args]
  (when-some [f (get (functions socket) what)]
    (apply f socket args)))

(defn- converse
  "Hands the events to the peer until one side has closed."
  [^WebSocket socket scope]
  (call socket :open scope)
  (loop []
    (let [[kind x] (channel/take (.-events socket))]
      (case kind
        (:closing :closed) nil
        :error (do (call socket :error x)
                   (recur))
        (do (when-not (:closing @(.-state socket))
              (call socket kind x))
            (consumed socket)
            (recur))))))

(defn- cancelled? [^WebSocket socket]
  (some? (:cancelled @(.-state socket))))

(defn- quietly
  "Calls the peer once more. What it throws is reported, and goes no further."
  [^WebSocket socket what & args]
  (try
    (apply call socket what args)
    (catch Throwable e
      (when-not (or (cancelled? socket) (refusals/caused-by? e (:write-failure @(.-state socket))))
        (reports/report (.-site socket) e)))))

(defn- failed
  "The peer ended by the error. Only an error of the program is reported."
  [^WebSocket socket e]
  (when-not (or (cancelled? socket) (refusals/caused-by? e (:write-failure @(.-state socket))))
    (reports/report (.-site socket) e)
    (close socket 1011 "The server failed.")
    (quietly socket :error e)))

(defn unopened
  "Tells the peer, if there is one, that the socket will not open."
  [^WebSocket socket]
  (when (functions socket)
    (quietly socket :unopened)))

(defn- in-scope
  "Calls f in a scope that `cancel` reaches."
  [^WebSocket socket f]
  (scope/scope* (.-site socket) nil
    (fn [s]
      (.set ^AtomicReference (.-scope socket) s)
      (when-some [why (:cancelled @(.-state socket))] ; told before there was a scope to cancel
        (scope/cancel s why))
      (f s))))

(defn- close-nanos ^long [^WebSocket socket]
  (clock/nanos (:close-timeout (.-options socket))))

(defn- ends-at
  "The instant at which a socket that was closed is cut."
  ^long [^WebSocket socket]
  (clock/instant-after (:since @(.-state socket)) (close-nanos socket)))

(defn- await-end
  "Waits until Jetty tells the end, and drops messages."
  [^WebSocket socket]
  (loop []
    (when-not (:closed @(.-state socket))
      (let [[kind] (channel/take (.-events socket) {:timeout (Duration/ofNanos (clock/left (ends-at socket))) :else [:late]})]
        (case kind
          :late (do (disconnect socket)
                    (swap! (.-state socket) #(cond-> % (not (:closed %)) (assoc :closed [1006 ""]))))
          (:closing :closed) (recur)
          :error (recur)
          (do (consumed socket)
              (recur)))))))

(defn- rest-of-errors
  "Hands over errors of a client that has vanished. One that came after this side has closed is of no interest."
  [^WebSocket socket]
  (when-some [[kind e] (channel/try-take (.-events socket))]
    (when (and (= :error kind) (not (:closing @(.-state socket))))
      (quietly socket :error e))
    (recur socket)))

(def ^:private ^:const least-goodbye-nanos
  "How long the last calls of the peer may take at least."
  1000000000)

(defn- say-goodbye
  "Calls the peer for the last time, for :close-timeout at most, and also if it was cancelled."
  [^WebSocket socket]
  (let [{:keys [closing closed]} @(.-state socket)
        [code reason] (or closing closed)
        nanos (max (long least-goodbye-nanos) (close-nanos socket))]
    (scope/scope* (.-site socket) {:deadline (if (= clock/infinite nanos) :infinity (Duration/ofNanos nanos))}
      (fn [_]
        (rest-of-errors socket)
        (call socket :close code reason)))))

(defn- finish [^WebSocket socket]
  (await-end socket)
  (try
    (say-goodbye socket)
    (catch Throwable e
      (when-not (refusals/caused-by? e (:write-failure @(.-state socket)))
        (reports/report (.-site socket) e)))))

(defn- run [^WebSocket socket]
  (swap! (.-state socket) assoc :thread (Thread/currentThread))
  (try
    (try
      (in-scope socket #(converse socket %))
      (catch Throwable e
        (failed socket e)))
    (finish socket)
    (catch Throwable e
      (disconnect socket)
      (when-not (cancelled? socket)
        (reports/report (.-site socket) e)))
    (finally (release socket))))

;; ---- Jetty

(defn- configure [^WebSocket socket ^Session session]
  (let [most (long (:max-message (.-options socket)))]
    (doto session
      (.setIdleTimeout Duration/ZERO) ; see `look-after`
      (.setMaxTextMessageSize most)
      (.setMaxBinaryMessageSize most)
      (.setMaxFrameSize (max most 65536)))))

(defn- start-fiber [^WebSocket socket]
  (try
    (fibers/dispatch (.-site socket) #(run socket))
    (catch Throwable e
      (release socket)
      (unopened socket)
      (throw e))))

;; T1 closes the socket and then looks for the session. T2 opens it, sets the session and then looks whether it was closed. At least one sends the frame.
(defn- opened [^WebSocket socket ^Session session]
  (if (.compareAndSet ^AtomicReference (.-phase socket) :new :open)
    (do (configure socket session)
        (.set ^AtomicReference (.-session socket) session)
        (when-some [[code reason] (:closing @(.-state socket))]
          (.close session (int code) reason Callback/NOOP))
        (when @(:stopping (.-service socket))
          (close socket 1001 stopping))
        (heard socket)
        (start-fiber socket)
        (demand socket))
    (.disconnect session)))

(defn listener
  "What Jetty tells of the socket."
  ^Session$Listener [^WebSocket socket]
  (reify Session$Listener
    (onWebSocketOpen [_ session] (opened socket session))
    (onWebSocketText [_ text] (arrived socket [:message text]))
    (onWebSocketBinary [_ data callback]
      (let [bytes (bytes-of data)]
        (.succeed callback)
        (arrived socket [:message bytes])))
    (onWebSocketPing [_ data] (pinged socket data))
    (onWebSocketPong [_ data] (ponged socket data))
    (onWebSocketError [_ e] (event socket [:error e]))
    (^void onWebSocketClose [_ ^int code ^String reason] (ended socket code reason))))

;; ---- seen from outside

(def ^:private ^:const opening-nanos
  "How long a client may take to get the answer to its upgrade."
  10000000000)

(defn give-up
  "Ends a socket that will not open."
  [^WebSocket socket]
  (when (.compareAndSet ^AtomicReference (.-phase socket) :new :never)
    (release socket)
    (unopened socket)))

(defn- never-opened [^WebSocket socket now]
  (when (< (+ (long (:since @(.-state socket))) (long opening-nanos)) (long now))
    (give-up socket)))

(defn- idle?
  "True of a client that was read and has been silent for too long."
  [^WebSocket socket ^long idle ^long now]
  (and (< idle (- now (.get ^AtomicLong (.-heard socket))))
       (< (.get ^AtomicLong (.-queued socket)) 2)))

(defn- ping-at-times [^WebSocket socket ^long idle ^long now]
  (let [^AtomicLong pinged (.-pinged socket)
        last (.get pinged)]
    (when (< (quot idle 3) (- now last))
      (.set pinged now)
      (when (= :free (channel/try-take (.-permit socket)))
        (start-frame socket (fn [^Session session ^Callback callback] (.sendPing session (ByteBuffer/allocate 0) callback)))))))

(defn- look-after-open [^WebSocket socket now]
  (let [idle (clock/nanos (:idle-timeout (.-options socket)))]
    (cond
      (= clock/infinite idle) nil
      (idle? socket idle now)
      (do (event socket [:error (TimeoutException. "The client was silent for :idle-timeout.")])
          (close socket 1001 "Idle timeout"))
      :else (ping-at-times socket idle now))))

(defn- look-after-closed [^WebSocket socket now]
  (when (< (ends-at socket) (long now))
    (when-not (cancelled? socket)
      (cancel socket :closed))
    (disconnect socket)))

(defn look-after
  "Called from time to time: sends pings, and closes a socket that takes too long."
  [^WebSocket socket now]
  (cond
    (= :new (.get ^AtomicReference (.-phase socket))) (never-opened socket now)
    (open? socket) (look-after-open socket now)
    :else (look-after-closed socket now)))

(defn go-away
  "Closes all sockets, because the server stops."
  [{:keys [websockets]}]
  (doseq [socket (vec websockets)]
    (close socket 1001 stopping)))

(defn of-thread
  "The sockets whose functions this thread runs."
  [{:keys [websockets]} thread]
  (filterv (fn [^WebSocket socket] (identical? thread (:thread @(.-state socket)))) websockets))

(defn cancel-all
  "Cancels the peers of the sockets that are left, except some; returns how many there are."
  [{:keys [websockets]} kept]
  (let [cancelled (into [] (remove kept) websockets)]
    (doseq [socket cancelled]
      (give-up socket)
      (cancel socket :server-stopped)
      (disconnect socket))
    (count cancelled)))

(defn own
  "Lets the process own the socket; closes it if the process is dead."
  [^WebSocket socket pid]
  (when-not (owned/own pid socket)
    (close socket 1001 "The process has ended.")))

(defn disown
  "Ends that."
  [^WebSocket socket pid]
  (owned/disown pid socket))
