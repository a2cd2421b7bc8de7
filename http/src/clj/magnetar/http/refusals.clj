(ns magnetar.http.refusals
  "The errors of HTTP servers."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.explain :as explain]
   [magnetar.impl.runtime]
   [magnetar.net.refusals :as net])
  (:import
   (java.net BindException)
   (java.nio.channels UnresolvedAddressException)))

(set! *warn-on-reflection* true)

(defn caused-by?
  "Is this very cause the error, or behind it?"
  [e cause]
  (and cause (some #(identical? cause %) (explain/causes e))))

(defn cause-of-kind
  "The first error of a class among the error and its causes, or nil."
  [^Class kind e]
  (first (filter #(instance? kind %) (explain/causes e))))

(defn- not-of-this-machine? [^Throwable e]
  (or (some-> (cause-of-kind BindException e) (net/reason nil) (= :eaddrnotavail))
      (cause-of-kind UnresolvedAddressException e)))

(defn- socket-failed [reason sentence {:keys [host port]} e]
  (errors/failure (str "The HTTP server did not start on " (net/place host port) ": " sentence)
                  {:magnetar/reason :magnetar/socket-failed :reason reason :host host :port port} e))

(defn not-started
  "The error of a server that cannot listen."
  [{:keys [host port] :as options} ^Throwable e]
  (let [reason (some-> (cause-of-kind BindException e) (net/reason :eaddrinuse))]
    (cond
      (not-of-this-machine? e)
      (socket-failed :eaddrnotavail (str (arguments/show host) " is no address of this machine. Give another :host, or none for all addresses.") options e)

      (= :eacces reason)
      (socket-failed :eacces "this program has no permission for that port. Give a :port above 1023, or the permission." options e)

      reason
      (errors/failure (str "The HTTP server cannot listen on " (net/place host port) ": another socket has that port. "
                           "Stop the other program, or give {:port 0} for a free port.")
                      {:magnetar/reason :magnetar/port-in-use :reason :eaddrinuse :host host :port port} e)

      :else
      (socket-failed :eio (str (ex-message e) ". Check the address and the limits of this process.") options e))))

(defn too-many-files
  "What is reported while a server can accept nothing, for want of descriptors."
  [port cause]
  (errors/failure (str "The HTTP server on port " port " accepts no connection, as this program has as many open files and sockets as it may have. "
                       "It tries again every second. Raise the limit (`ulimit -n`), or give a :max-connections below it.")
                  {:magnetar/reason :magnetar/socket-failed :reason :emfile :port port} cause))

(defn bad-response
  "The error of a handler that returned what is no response."
  [sentence value]
  (errors/failure sentence {:magnetar/reason :magnetar/bad-response :value value}))

(defn body-too-large
  "The error of a handler that reads more of a body than :max-body."
  [most]
  (errors/failure (str "The body of the request is longer than :max-body, " most " bytes. The client gets status 413; raise :max-body if the client is right.")
                  {:magnetar/reason :magnetar/body-too-large :max-body most}))

(defn not-a-server
  "Refuses what is no server. `stop` takes no process."
  [operation x]
  (let [stop? (= "stop" operation)]
    (arguments/misuse :magnetar/not-a-server
                      (str "`" operation "` wants a server, as `magnetar.http/start` returns it"
                           (when-not stop? ", or the pid or name of a process that `start-link` started")
                           "; this is " (arguments/show x) "."
                           (when stop? " A process of `start-link` is stopped by its supervisor, or by `magnetar.proc-lib/stop`."))
                      {:value x})))

(defn not-a-peer
  "Refuses what cannot serve a WebSocket."
  [x]
  (arguments/misuse :magnetar/not-a-peer
                    (str "`websocket` wants a map of functions as {:on-message (fn [socket message] ..)}, of channels as {:in ch :out ch}, the pid of a process, "
                         "or a listener of Ring; this is " (arguments/show x) ".") {:value x}))

(defn not-a-websocket
  "Refuses what is no socket."
  [operation x]
  (arguments/misuse :magnetar/not-a-websocket
                    (str "`" operation "` wants a WebSocket, as the functions of `magnetar.http/websocket` get it; this is " (arguments/show x) ".") {:value x}))

(defn not-sendable
  "Refuses what no frame of a WebSocket can hold."
  [operation wanted x]
  (arguments/misuse :magnetar/not-sendable (str "`" operation "` wants " wanted "; this is " (arguments/show x) ".") {:value x}))

(defn check-real
  "Refuses servers in a simulation, where a seed orders everything."
  [operation]
  (when (environment/simulated?)
    (arguments/misuse :magnetar/not-simulated
                      (str "`" operation "` was called in a simulation, which cannot order the network: call the handler itself with a request map.")
                      {:operation operation})))
