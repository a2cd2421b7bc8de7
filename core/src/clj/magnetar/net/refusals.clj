(ns magnetar.net.refusals
  "The errors of sockets. Each has Erlang's word for it under :reason."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime]
   [magnetar.net.alerts :as alerts])
  (:import
   (java.io IOException)
   (java.net SocketException)))

(set! *warn-on-reflection* true)

(defn- failure
  ([id reason sentence data] (errors/failure sentence (assoc data :magnetar/reason id :reason reason)))
  ([id reason sentence data cause] (errors/failure sentence (assoc data :magnetar/reason id :reason reason)
                                                   cause)))

(defn place
  "A host, if it is given, and a port in words."
  [host port]
  (str (when host (str host ":")) port))

(defn port-in-use
  "Another socket listens on the port."
  [operation host port cause]
  (failure :magnetar/port-in-use :eaddrinuse
           (str "`" operation "` on port " (place host port) ": another socket has that port. Stop its "
                "program, or " operation
                " on port 0, which takes a free one.")
           {:host host :port port} cause))

(defn connection-refused
  "No socket listens there."
  [host port cause]
  (failure :magnetar/connection-refused :econnrefused
           (str "`connect` to " (place host port) " was refused: no program listens there. Start the "
                "server, or check host and port.")
           {:host host :port port} cause))

(defn unknown-host
  "The name has no address."
  [operation host cause]
  (failure :magnetar/unknown-host :nxdomain
           (str "`" operation "`: the host " (arguments/show host) " has no address. Check the name, and "
                "the name server of this machine.")
           {:host host} cause))

(defn no-answer
  "The look-up of a name has taken too long."
  [operation host timeout]
  (failure :magnetar/unknown-host :timeout
           (str "`" operation "`: no address of the host " (arguments/show host) " was found within "
                (arguments/show-duration timeout) ". Check the name server of this machine, or give an "
                "address.")
           {:host host}))

(def ^:private words
  "What the JDK or the system says, as Erlang's reason."
  [["Connection reset" :econnreset] ["Permission denied" :eacces]
   ["Cannot assign" :eaddrnotavail] ["unreachable" :enetunreach]
   ["No route" :ehostunreach] ["timed out" :etimedout] ["Too many open files" :emfile]
   ["Broken pipe" :closed] ["Message too long" :emsgsize]
   ["No such file" :enoent] ["path too long" :enametoolong] ["Address already in use" :eaddrinuse]
   ["temporarily unavailable" :eagain]])

(defn reason
  "Erlang's word for an error of a socket; `otherwise` if it is not a usual one."
  [^Throwable cause otherwise]
  (cond
    (alerts/of-tls? cause) (alerts/reason cause)
    (= :magnetar/mailbox-full (:magnetar/reason (ex-data cause))) :enobufs
    :else
    (let [message (str (ex-message cause))]
      (or (some (fn [[text word]] (when (str/includes? message text) word)) words) otherwise))))

(defn socket-failed
  "An error of the operating system that has no id of its own."
  [operation host port cause]
  (failure :magnetar/socket-failed (reason cause :eio)
           (str "`" operation "` of " (place host port) " failed: " (ex-message cause)
                ". Check the address, the network and the limits of this process.")
           {:host host :port port} cause))

;; ---- paths

(defn path-in-use
  "A program listens on the path."
  [path cause]
  (failure :magnetar/port-in-use :eaddrinuse
           (str "`listen` on the path " path ": a program listens there. Stop it, or take another path.")
           {:path path} cause))

(defn path-refused
  "The file of the socket is there, and no program listens on it."
  [path cause]
  (failure :magnetar/connection-refused :econnrefused
           (str "`connect` to the path " path " was refused: no program listens there. Start the server, or "
                "check the path.")
           {:path path} cause))

(defn no-socket-file
  "A file that is no socket is in the way."
  [path cause]
  (failure :magnetar/socket-failed :eaddrinuse
           (str "`listen` on the path " path ": a file that is no socket is there, and is not deleted. Take "
                "another path.")
           {:path path} cause))

(defn- path-remedy [operation word cause]
  (case word
    :enoent (if (= "listen" operation)
              "its directory does not exist. Create it first"
              "there is no such file. Start the server, or check the path")
    :enametoolong "the path is too long for a socket. Take one of at most 100 bytes"
    :eacces (str "this program has no permission there. Check the owner and the mode of the file and of its "
                 "directories")
    (str (ex-message cause) ". Check the path, and the limits of this process")))

(defn path-failed
  "An error of the operating system about a path."
  [operation path cause]
  (let [word (reason cause :einval)]
    (failure :magnetar/socket-failed word
             (str "`" operation "` " (if (= "listen" operation) "on" "to") " the path " path ": "
                  (path-remedy operation word cause) ".")
             {:path path} cause)))

;; ---- connections and listeners

(defn closed
  "A socket that was closed here. `what` is :connection, :listener or :udp-socket."
  [operation what socket]
  (failure :magnetar/socket-closed :closed
           (str "`" operation "` on " socket ", which is closed: by `close`"
                (case what
                  :listener " or by the end of its owner. Listen again."
                  :udp-socket ", by the end of its owner or by a cancellation. Open a new one."
                  :connection (str ", by the end of its owner, by a cancellation or by an error before. "
                                   "Open a new connection.")))
           {:socket socket}))

(defn accept-failed
  "The system gave the listener no connection."
  [listener cause]
  (failure :magnetar/socket-failed (reason cause :eio)
           (str "`accept` on " listener " failed: " (ex-message cause) ". The listener is open; check the "
                "limits of this process.")
           {:socket listener} cause))

(defn too-many-files?
  "True of the error of a socket that there is no descriptor for."
  [x]
  (and (instance? IOException x) (= :emfile (reason x nil))))

(defn too-many-files
  "What is reported while a listener can accept nothing, for want of descriptors."
  [acceptor cause]
  (failure :magnetar/socket-failed :emfile
           (str "The " acceptor " waits, as this program has as many open files and sockets as it may have. "
                "It tries again every second. Close connections, raise the limit (`ulimit -n`), or give "
                "`listen` a :max-connections.")
           {} cause))

(defn shut
  "The sending side was shut."
  [conn]
  (failure :magnetar/socket-closed :closed
           (str "`send` on " conn ", whose sending side is shut: send before `shutdown`.") {:socket conn}))

(defn- tls-failed [operation-and-target cause data]
  (failure :magnetar/tls-failed (alerts/reason cause)
           (str operation-and-target " failed in TLS: " (alerts/sentences cause)) data cause))

(defn tls-failed-to-connect
  "The handshake of `connect` failed."
  [host port cause]
  (tls-failed (str "`connect` to " (place host port)) cause {:host host :port port}))

(defn lost
  "The other side, or the network, ended the connection in the middle; or TLS failed."
  [operation conn cause]
  (if (alerts/of-tls? cause)
    (tls-failed (str "`" operation "` on " conn) cause {:socket conn})
    (failure :magnetar/connection-lost (reason cause :closed)
             (str "`" operation "` on " conn " failed: " (ex-message cause) ". The connection is closed; "
                  "open a new one.")
             {:socket conn} cause)))

(defn packet-too-long
  "A packet that came is longer than :max-packet."
  [conn most]
  (failure :magnetar/packet-too-long :emsgsize
           (str "A packet for " conn " is longer than its :max-packet of " most " bytes. The connection is "
                "closed; give a larger :max-packet if the "
                "sender is right.")
           {:socket conn :max-packet most}))

(defn bad-packet
  "The function or the layout of :packet cannot read the bytes that came."
  [conn cause]
  (failure :magnetar/bad-packet :einval
           (str "The :packet of " conn " cannot read what has arrived: " (or (ex-message cause) (class cause))
                " The connection is closed; check what "
                "the sender sends.")
           {:socket conn} cause))

(defn idle
  "What is thrown in place of the time-out of a read on a connection that was idle for too long."
  [timeout]
  (SocketException. (str "timed out, as no byte has arrived or was sent within the :idle-timeout of "
                         (arguments/show-duration timeout))))

(defn send-timeout
  "The other side did not take the data in time."
  [conn timeout]
  (failure :magnetar/send-timeout :etimedout
           (str "`send` on " conn " did not end within its :send-timeout of "
                (arguments/show-duration timeout) ", because the other side does not "
                "read. The connection is closed, since a part may have been sent.")
           {:socket conn :send-timeout timeout}))

(defn refuse-active
  "The data of the connection arrive as messages."
  [operation conn active]
  (throw (errors/illegal-state :magnetar/connection-active
           (str "`" operation "` on " conn ", whose data arrive as messages, as :active is " active
                ": receive them, or call (set-options conn {:active false}) before.")
           {:socket conn :active active :reason :einval})))

(defn refuse-count
  "Only a raw stream is read by the byte."
  [conn kind]
  (throw (errors/illegal-state :magnetar/bad-option
           (str "`recv` of a number of bytes on " conn ", whose :packet is " (arguments/show kind)
                ": a number goes with {:packet :raw}. Leave it out.")
           {:socket conn :packet kind :reason :einval})))

(defn refuse-without-owner
  "There is no process that the messages could go to."
  [active]
  (arguments/misuse :magnetar/no-process
                    (str "{:active " (arguments/show active) "} sends data to the process that owns the "
                         "connection, and \""
                         (.getName (Thread/currentThread)) "\" is no process: give {:active false} and use "
                         "`recv`, or call it in a process.")
                    (assoc (arguments/data :active active) :reason :einval)))

(defn refuse-owner
  "Only the owner gives a connection away."
  [conn owner]
  (throw (errors/illegal-state :magnetar/not-owner
           (str "`controlling-process` on " conn ", which belongs to " owner ": only its owner may give it "
                "away, so ask it by a message.")
           {:socket conn :owner owner :reason :not-owner})))

(defn check-real
  "Refuses sockets in a simulation, where a seed orders everything."
  [operation]
  (when (environment/simulated?)
    (arguments/misuse :magnetar/not-simulated
                      (str "`" operation "` was called in a simulation, which cannot order the network: put "
                           "a process there that answers as the other "
                           "side would.")
                      {:operation operation})))
