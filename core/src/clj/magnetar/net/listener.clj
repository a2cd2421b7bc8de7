(ns magnetar.net.listener
  "Sockets that listen, and the connections that they accept."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.net.connection :as connection]
   [magnetar.net.options :as options]
   [magnetar.net.reader :as reader]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.tcp :as tcp]
   [magnetar.net.transport :as transport])
  (:import
   (java.io IOException Writer)
   (java.util Set)
   (java.util.concurrent ConcurrentHashMap)
   (java.util.concurrent.locks ReentrantLock)
   (magnetar.kernel.process Owned)))

(set! *warn-on-reflection* true)

(declare close)

;; `closed` is an atom. Threads that accept do so one after the other, as the limit of the wait belongs to the socket.
(deftype Listener [socket local owner closed options ^ReentrantLock accepting]
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

;; T1 waits in `accept` on a fiber, T2 closes the listener or ends its owner. The JDK then leaves the close of the file to T1, and until T1 has run
;; the port is taken. T2 may be the thread that ends a process, so it does not wait. It lists the listener here, and `listen` waits for T1. T1 takes
;; the listener out after it has left the lock. T2 looks at the lock again after it has listed it: one of the two takes it out.
(defonce ^:private ^Set closing (ConcurrentHashMap/newKeySet))

(defn- list-while-accepting [^Listener listener]
  (let [^ReentrantLock lock (.-accepting listener)]
    (when (.isLocked lock)
      (.add closing listener)
      (when-not (.isLocked lock)
        (.remove closing listener)))))

(defn- await-closed
  "Waits until the files of listeners of this port that are closed have been closed."
  [port]
  (doseq [^Listener listener (filterv #(= port (:port (.-local ^Listener %))) closing)]
    (transport/locked (.-accepting listener) clock/infinite #(.remove closing listener))))

(defn close
  "Closes it, unless it is closed."
  [^Listener listener]
  (when (compare-and-set! (.-closed listener) false true)
    (list-while-accepting listener)
    (transport/close-quietly (.-socket listener))
    (some-> (.-owner listener) (owned/disown listener))))

(defn listen
  "A listener of the current process, if there is one."
  [port options]
  (await-closed port)
  (let [socket (tcp/listen port options)
        owner (connection/current-owner)
        listener (Listener. socket (transport/local socket) owner (atom false)
                            (select-keys options options/of-connection) (ReentrantLock.))]
    (when-not (or (nil? owner) (owned/own owner listener))
      (close listener))
    listener))

(defn- check-open [^Listener listener]
  (when @(.-closed listener)
    (throw (refusals/closed "accept" :listener listener))))

(defn- accept-failed [^Listener listener e]
  (let [here? @(.-closed listener)]
    (when (transport/closed? (.-socket listener)) ; by the interrupt of this thread
      (close listener))
    (transport/check-interrupt)
    (throw (if here?
             (refusals/closed "accept" :listener listener)
             (refusals/socket-failed "accept" (:host (.-local listener)) (:port (.-local listener)) e)))))

(defn- accept-socket [^Listener listener deadline]
  (try
    (transport/locked (.-accepting listener) deadline
      (fn []
        (check-open listener)
        (try
          (transport/accept (.-socket listener) deadline)
          (catch IOException e
            (accept-failed listener e)))))
    (finally (.remove closing listener))))

(defn- opened
  "The connection over a new socket; or what the end of the wait is."
  [socket options operation target timeout]
  (if (= ::transport/timeout socket)
    (timeouts/outcome options operation target timeout [target options])
    (doto (connection/connection socket (connection/current-owner) options)
      reader/ensure-reader)))

(defn accept
  "The next connection, which belongs to the current process."
  [^Listener listener {:keys [timeout] :or {timeout :infinity} :as given}]
  (let [options (merge (.-options listener) given)]
    (connection/check-owner (:active options) (connection/current-owner))
    (check-open listener)
    (opened (accept-socket listener (clock/deadline (arguments/nanos :timeout timeout)))
            options 'magnetar.net/accept listener timeout)))

(defn connect
  "A connection to the port of a host, which belongs to the current process."
  [host port {:keys [timeout] :or {timeout :infinity} :as options}]
  (connection/check-owner (:active options) (connection/current-owner))
  (opened (tcp/connect host port (clock/deadline (arguments/nanos :timeout timeout)))
          options 'magnetar.net/connect (str host ":" port) timeout))
