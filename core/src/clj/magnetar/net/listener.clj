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
   (java.io IOException Writer)
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

  Object
  (toString [_] (str "#magnetar/listener \"" (transport/text local) "\"")))

(defmethod print-method Listener [listener ^Writer out]
  (.write out (str listener)))

(defn check
  "Refuses what is no listener."
  ^Listener [operation x]
  (when-not (instance? Listener x)
    (arguments/misuse :magnetar/not-a-listener
                      (str "`" operation "` wants a listener, as `listen` returns it; this is " (arguments/show x) ".") {:value x}))
  x)

;; The file of a socket may be closed later than the listener, see the acceptor. The thread that ends a process does not wait for that. It lists
;; the listener here, and `listen` waits.
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
      (acceptor/close acceptor))
    (some-> (.-owner listener) (owned/disown listener))))

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
                            (select-keys options options/of-connection) (group/group))]
    (when-not (or (nil? owner) (owned/own owner listener))
      (close listener))
    listener))

(defn- accept-socket [^Listener listener deadline]
  (try
    (or (acceptor/accept (.-acceptor listener) deadline)
        (throw (refusals/closed "accept" :listener listener)))
    (catch IOException e
      (throw (refusals/accept-failed listener e)))))

(defn- opened
  "The connection over a new socket; or what the end of the wait is."
  [socket options operation target timeout group]
  (if (= ::transport/timeout socket)
    (timeouts/outcome options operation target timeout [target options])
    (doto (connection/connection socket (active/current-owner) options group)
      active/ensure-reader)))

(defn accept
  "The next connection, which belongs to the current process."
  [^Listener listener {:keys [timeout] :or {timeout :infinity} :as given}]
  (let [options (merge (.-options listener) given)]
    (active/check-owner (:active options) (active/current-owner))
    (opened (accept-socket listener (clock/deadline (arguments/nanos :timeout timeout)))
            options 'magnetar.net/accept listener timeout (.-group listener))))

(defn drain
  "Closes the listener, waits for the end of its connections, and closes those that are left; returns how many."
  [^Listener listener {:keys [timeout] :or {timeout 5000}}]
  (let [deadline (clock/deadline (arguments/nanos :timeout timeout))]
    (close listener)
    (group/await-empty (.-group listener) deadline)
    (count (filterv connection/close (group/end (.-group listener))))))

(defn connect
  "A connection to a place, [host port] or [{:path p}], which belongs to the current process."
  [[host port] {:keys [timeout] :or {timeout :infinity} :as options}]
  (active/check-owner (:active options) (active/current-owner))
  (let [deadline (clock/deadline (arguments/nanos :timeout timeout))
        socket (if (map? host)
                 (unix/connect (:path host) deadline)
                 (handshake/connect host port (:tls options) deadline))]
    (opened socket options 'magnetar.net/connect (transport/text (if (map? host) host {:host host :port port})) timeout nil)))
