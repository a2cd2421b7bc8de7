(ns magnetar.net.connection
  "Connections: whose they are, their options, and their use as a stream.

  One atom holds the state: the owner, the options, :closed once it is closed, :late? if that was for the
  :send-timeout, :idle? if the socket was closed for the :idle-timeout, :watch of that, see
  `magnetar.net.reader`; and of messages what `magnetar.net.active` says. `reading` guards the input: a fiber
  that reads for messages and a `recv` exclude each other. So bytes never pass each other, and a packet that
  was found stays in the input until it has a receiver."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.net.active :as active]
   [magnetar.net.framing :as framing]
   [magnetar.net.group :as group]
   [magnetar.net.options :as options]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.transport :as transport])
  (:import
   (java.io Closeable IOException Writer)
   (java.net SocketTimeoutException)
   (java.nio.charset StandardCharsets)
   (java.util.concurrent.atomic AtomicBoolean)
   (java.util.concurrent.locks ReentrantLock)
   (magnetar.kernel.process Owned)
   (magnetar.net.framing Undecodable)))

(set! *warn-on-reflection* true)

(declare close)

;; `touched` is a volatile, of the instant at which bytes last arrived or were sent.
(deftype Connection [socket local remote state input touched ^ReentrantLock reading ^ReentrantLock writing]
  Owned
  (ownerDied [this pid] (active/owner-died this pid))

  Closeable
  (close [this] (close this) nil)

  Object
  (toString [_] (str "#magnetar/connection \"" (transport/text local) " to " (transport/text remote) "\"")))

(defmethod print-method Connection [conn ^Writer out]
  (.write out (str conn)))

(defn state
  "Its state, a map."
  [^Connection conn]
  @(.-state conn))

(defn check
  "Refuses what is no connection."
  ^Connection [operation x]
  (when-not (instance? Connection x)
    (arguments/misuse :magnetar/not-a-connection
                      (str "`" operation "` wants a connection, as `connect` and `accept` return it; this is "
                           (arguments/show x) ".")
                      {:value x}))
  x)

(defn closes-at-end?
  "Is it closed when the other side ends the stream, while its data are messages?"
  [conn]
  (:exit-on-close (:options (state conn))))

(defn check-open
  "Refuses a connection that is closed."
  [operation conn]
  (when (:closed (state conn))
    (throw (refusals/closed operation :connection conn))))

;; ---- closed

(defn close
  "Closes it, unless it is closed: then nothing. True for the call that did it."
  [^Connection conn]
  (let [[before _] (swap-vals! (.-state conn) assoc :closed true :active false)]
    (when-not (:closed before)
      (try
        (transport/close-quietly (.-socket conn))
        (finally
          (some-> (:owner before) (owned/disown conn))
          (when-some [group (:group before)]
            (transport/when-gone (.-socket conn) #(group/leave group conn)))))
      true)))

(defn cause-of
  "The error of a read: its :idle-timeout, if the socket was closed for that by another thread, or the error
  itself."
  [conn cause]
  (let [{:keys [idle? options]} (state conn)]
    (if idle?
      (refusals/idle (:idle-timeout options))
      cause)))

(defn failed
  "Closes the connection after an error of its socket; throws what the caller shall see."
  [operation conn cause]
  (let [here? (:closed (state conn))]
    (close conn)
    (transport/check-interrupt)
    (throw (if here?
             (refusals/closed operation :connection conn)
             (refusals/lost operation conn (cause-of conn cause))))))

(defmacro using-socket
  "Runs body, in which the socket may fail."
  [operation conn & body]
  `(try
     ~@body
     (catch SocketTimeoutException e# (throw e#))
     (catch IOException e# (failed ~operation ~conn e#))))

;; ---- made

;; If memory ends while the owner gets the connection, `group/in-place` frees the place.
(defn- joined?
  "Lets the connection join the group and belong to the owner, where they are not nil; false if it has to be
  closed."
  [conn group owner]
  (try
    (and (or (nil? group) (group/join group conn))
         (or (nil? owner) (owned/own owner conn)))
    (catch Throwable e
      (some-> group (group/withdraw conn))
      (throw e))))

(defn connection
  "A connection over the socket that belongs to this owner, a pid or nil, and to the group of its listener, or
  nil. It reads nothing yet."
  ^Connection [socket owner options group]
  (let [settings (merge options/defaults (select-keys options options/of-connection))
        state {:owner owner :group group :active (active/active-at-first options owner) :options
               (dissoc settings :active)}
        conn (Connection. socket (transport/local socket) (transport/remote socket) (atom state)
                          (volatile! framing/empty-input) (volatile! (clock/now)) (ReentrantLock.)
                          (ReentrantLock.))]
    (transport/set-options socket settings)
    (when-not (joined? conn group owner)
      (close conn))
    conn))

;; ---- input. The caller holds `reading`.

(defn- found [^Connection conn {:keys [packet max-packet]} exact]
  (framing/packet @(.-input conn) packet max-packet exact))

(defn- touch
  "Bytes have arrived or were sent: the :idle-timeout begins again."
  [^Connection conn]
  (vreset! (.-touched conn) (clock/now)))

(defn idle-until
  "The instant at which the connection has been idle for too long."
  ^long [^Connection conn]
  (let [limit (arguments/nanos :idle-timeout (:idle-timeout (:options (state conn))))]
    (if (= clock/infinite limit)
      limit
      (clock/instant-after @(.-touched conn) limit))))

(defn- check-idle [conn]
  (when (zero? (clock/left (idle-until conn)))
    (throw (refusals/idle (:idle-timeout (:options (state conn)))))))

(def ^:private ^:const look-again-nanos
  "How soon a read that waits for the rest of a packet looks at the options again: with a new :packet the
  bytes may be one."
  200000000)

(defn- wake-at
  "The instant at which a read has to look at the options again. With no bytes in the input it need not."
  ^long [{:keys [^long from ^long to]}]
  (if (= from to)
    clock/infinite
    (clock/deadline look-again-nanos)))

(defn- read-bytes
  "Reads into the input; how many bytes, -1 at the end of the stream, 0 if the options may have changed. Bytes
  that have arrived are read even if the connection was idle for too long."
  ^long [^Connection conn {:keys [bytes to] :as input} ^long deadline]
  (try
    (long (transport/read-into (.-socket conn) bytes to (min deadline (idle-until conn) (wake-at input))))
    (catch SocketTimeoutException e
      (check-idle conn)
      (when (zero? (clock/left deadline))
        (throw e))
      0)))

(defn- with-room
  "The input, with room for more bytes, in which no packet of this kind was found."
  [^Connection conn kind]
  (vswap! (.-input conn) #(framing/with-room (framing/searched % kind))))

(defn- fill
  "Reads what there is; false at the end of the stream."
  [^Connection conn kind deadline]
  (let [n (read-bytes conn (with-room conn kind) deadline)]
    (when (pos? n)
      (touch conn)
      (vswap! (.-input conn) framing/grown n))
    (not (neg? n))))

;; The options are read once in each round. T1 looks for a packet of a length, T2 changes :packet to :line. If
;; T1 then took its bytes for searched, it would never find the line in them.
(defn await-packet
  "The next packet, which stays in the input; nil at the end of the stream, :too-long for one that is too
  long."
  [conn exact deadline]
  (loop []
    (let [options (:options (state conn))]
      (or (found conn options exact)
          (when (fill conn (:packet options) deadline)
            (recur))))))

(defn take-packet
  "Takes a packet out of the input: its data as the options want them."
  [^Connection conn packet]
  (let [data (framing/data @(.-input conn) packet (:as (:options (state conn))))]
    (vswap! (.-input conn) framing/after-packet packet)
    data))

;; ---- recv

(defn- check-recv [conn exact]
  (check-open "recv" conn)
  (let [{:keys [active options]} (state conn)]
    (when active
      (refusals/refuse-active "recv" conn active))
    (when (and exact (not= :raw (:packet options)))
      (refusals/refuse-count conn (:packet options)))))

(defn- no-packet [conn outcome]
  (if (= :too-long outcome)
    (refusals/packet-too-long conn (:max-packet (:options (state conn))))
    (refusals/bad-packet conn (.-failure ^Undecodable outcome))))

(defn- receive-packet [conn exact deadline]
  (check-recv conn exact)
  (let [packet (using-socket "recv" conn (await-packet conn exact deadline))]
    (cond
      (nil? packet) nil
      (framing/packet? packet) (take-packet conn packet)
      :else (do
              (close conn)
              (throw (no-packet conn packet))))))

(defn recv
  "The next packet, or so many bytes; nil at the end of the stream."
  [^Connection conn exact {:keys [timeout] :or {timeout :infinity} :as options}]
  (check-recv conn exact)
  (let [deadline (clock/deadline (arguments/nanos :timeout timeout))
        data (try
               (transport/locked (.-reading conn) deadline #(receive-packet conn exact deadline))
               (catch SocketTimeoutException _ ::transport/timeout))]
    (if (= ::transport/timeout data)
      (timeouts/outcome options 'magnetar.net/recv conn timeout [conn options])
      data)))

;; ---- send

(defn- data-bytes ^bytes [kind data]
  (cond
    (string? data) (.getBytes ^String data StandardCharsets/UTF_8)
    (bytes? data) data
    (and (map? data) (framing/layout? kind)) (framing/built kind data)
    :else (options/refuse-data "send" data)))

(defn- framed ^bytes [conn kind data]
  (let [bytes (data-bytes kind data)]
    (when (< (framing/longest kind) (alength bytes))
      (arguments/misuse :magnetar/packet-too-long
                        (str "`send` of " (alength bytes) " bytes on " conn ", whose length header has room "
                             "for "
                             (framing/longest kind) ": send less at once, or let both sides use {:packet 4}.")
                        {:socket conn :size (alength bytes) :reason :emsgsize}))
    (framing/framed kind bytes)))

(defn- write [^Connection conn bytes]
  (check-open "send" conn)
  (when (transport/output-shut? (.-socket conn))
    (throw (refusals/shut conn)))
  (using-socket "send" conn (transport/write (.-socket conn) bytes #(touch conn))))

(defn- close-late
  "Closes the connection if the send is still under way. This ends the write of another thread, since a write
  has no time limit."
  [^Connection conn ^AtomicBoolean under-way]
  (when (.getAndSet under-way false)
    (swap! (.-state conn) #(if (:closed %) % (assoc % :late? true)))
    (close conn)))

;; T1 writes, T2 finds the time over. The one that takes `under-way` first decides: T2 then closes the
;; connection, and T1 throws, although its write may have ended well in the meantime.
(defn- write-until
  "Writes the bytes; ::transport/timeout if the connection is closed because that took too long."
  [conn bytes deadline]
  (if (= clock/infinite deadline)
    (write conn bytes)
    (let [under-way (AtomicBoolean. true)
          stop-timer (fibers/dispatch-at deadline "send time-out of " conn #(close-late conn under-way))]
      (try
        (write conn bytes)
        (when-not (.getAndSet under-way false)
          ::transport/timeout)
        (finally
          (.set under-way false)
          (stop-timer))))))

(defn send-data
  "Sends the data, as a packet; packets of several threads do not mix."
  [^Connection conn data]
  (check-open "send" conn)
  (let [{:keys [packet send-timeout]} (:options (state conn))
        bytes (framed conn packet data)
        deadline (clock/deadline (arguments/nanos :send-timeout send-timeout))
        outcome (try
                  (transport/locked (.-writing conn) deadline #(write-until conn bytes deadline))
                  (catch clojure.lang.ExceptionInfo e
                    (if (:late? (state conn)) ::transport/timeout (throw e))))]
    (when (= ::transport/timeout outcome)
      (close conn)
      (throw (refusals/send-timeout conn send-timeout)))))
