(ns magnetar.net.listener
  "Sockets that listen, and the connections that they accept."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.net.acceptor :as acceptor]
   [magnetar.net.active :as active]
   [magnetar.net.connection :as connection]
   [magnetar.net.group :as group]
   [magnetar.net.handshake :as handshake]
   [magnetar.net.options :as options]
   [magnetar.net.reader]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.tcp :as tcp]
   [magnetar.net.tls :as tls]
   [magnetar.net.transport :as transport]
   [magnetar.net.unix :as unix])
  (:import
   (java.io Closeable IOException Writer)
   (java.util Set)
   (java.util.concurrent CompletableFuture ConcurrentHashMap)
   (magnetar.kernel.process Owned)
   (magnetar.net.acceptor Acceptor)))

(set! *warn-on-reflection* true)

(declare close)

;; `closed` is an atom.
(deftype Listener [^Acceptor acceptor local owner closed options group]
  Owned
  (ownerDied [this _] (close this))

  Closeable
  (close [this] (close this) nil)

  Object
  (toString [_] (str "#magnetar/listener \"" (transport/text local) "\"")))

(defmethod print-method Listener [listener ^Writer out]
  (.write out (str listener)))

(defn check
  "Refuses what is no listener."
  ^Listener [operation x]
  (when-not (instance? Listener x)
    (arguments/misuse :magnetar/not-a-listener
                      (str "`" operation "` wants a listener, as `listen` returns it; this is "
                           (arguments/show x) ".")
                      {:value x}))
  x)

;; The file of a socket may be closed later than the listener, see the acceptor. The thread that ends a
;; process does not wait for that. It lists the listener here, and `listen` waits.
(defonce ^:private ^Set closing (ConcurrentHashMap/newKeySet))

(defn- await-closed
  "Waits until the files of listeners of this port that are closed have been closed."
  [port]
  (doseq [^Listener listener (filterv #(= port (:port (.-local ^Listener %))) closing)]
    (.get ^CompletableFuture (.-gone ^Acceptor (.-acceptor listener)))))

(defn close
  "Closes it, unless it is closed."
  [^Listener listener]
  (when (compare-and-set! (.-closed listener) false true)
    (let [^Acceptor acceptor (.-acceptor listener)]
      (.add closing listener)
      (.thenRun ^CompletableFuture (.-gone acceptor) #(.remove closing listener))
      (try
        (acceptor/close acceptor)
        (finally
          (group/end-waits (.-group listener))
          (some-> (.-owner listener) (owned/disown listener)))))))

(defn- bound [place options]
  (if (map? place)
    (unix/listen (:path place) options)
    (do
      (await-closed place)
      (tcp/listen place options))))

(defn listen
  "A listener of the current process, if there is one, on a port or on {:path p}."
  [place options]
  (let [secured (or (tls/server (:tls options)) identity)
        socket (secured (bound place options))
        owner (active/current-owner)
        listener (Listener. (acceptor/acceptor socket) (transport/local socket) owner (atom false)
                            (select-keys options options/of-connection)
                            (group/group (:max-connections options)))]
    (when-not (or (nil? owner) (owned/own owner listener))
      (close listener))
    listener))

(defn- accept-socket [^Listener listener deadline]
  (try
    (or (acceptor/accept (.-acceptor listener) deadline)
        (throw (refusals/closed "accept" :listener listener)))
    (catch IOException e
      (throw (refusals/accept-failed listener e)))))

(defn- connected
  "The connection over a new socket of the current process, or ::transport/timeout."
  [socket options group]
  (if (= ::transport/timeout socket)
    socket
    (try
      (connection/connection socket (active/current-owner) options group)
      (catch Throwable e
        (transport/close-quietly socket)
        (throw e)))))

(defn- with-reader
  "Begins to send the data of the connection as messages, if it is active. Does nothing to
  ::transport/timeout."
  [conn]
  (when-not (= ::transport/timeout conn)
    (try
      (active/ensure-reader conn)
      (catch Throwable e
        (connection/close conn)
        (throw e))))
  conn)

(defn- outcome
  "The connection, or what the end of the wait is."
  [conn options operation target timeout]
  (if (= ::transport/timeout conn)
    (timeouts/outcome options operation target timeout [target options])
    conn))

(defn accept
  "The next connection, which belongs to the current process."
  [^Listener listener {:keys [timeout] :or {timeout :infinity} :as given}]
  (let [options (merge (.-options listener) given)
        group (.-group listener)
        deadline (clock/deadline (arguments/nanos :timeout timeout))]
    (active/check-owner (:active options) (active/current-owner))
    (-> (group/in-place group deadline #(connected (accept-socket listener deadline) options group))
        with-reader ; after in-place: the place belongs to the connection now, whose close leaves it
        (outcome options 'magnetar.net/accept listener timeout))))

(def ^:private ^:const last-words-nanos
  "How long `drain` waits for connections that it cut to send their ends."
  2000000000)

(defn drain
  "Closes the listener, waits for the end of its connections, and closes those that are left; returns how
  many."
  [^Listener listener {:keys [timeout] :or {timeout 5000}}]
  (let [deadline (clock/deadline (arguments/nanos :timeout timeout))]
    (close listener)
    (group/await-empty (.-group listener) deadline)
    (let [cut (filterv connection/close (group/end (.-group listener)))]
      (group/await-empty (.-group listener) (clock/deadline last-words-nanos))
      (count cut))))

(defn connect
  "A connection to a place, [host port] or [{:path p}], which belongs to the current process."
  [[host port] {:keys [timeout] :or {timeout :infinity} :as options}]
  (active/check-owner (:active options) (active/current-owner))
  (let [deadline (clock/deadline (arguments/nanos :timeout timeout))
        socket (if (map? host)
                 (unix/connect (:path host) deadline)
                 (handshake/connect host port (:tls options) deadline))]
    (-> (connected socket options nil)
        with-reader
        (outcome options 'magnetar.net/connect (transport/text (if (map? host) host {:host host :port port}))
                 timeout))))
