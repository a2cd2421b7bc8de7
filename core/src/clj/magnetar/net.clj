(ns magnetar.net
  "TCP, unix and UDP sockets, and TLS: Erlang's gen_tcp, gen_udp and ssl.

  open           listen accept connect handshake close shutdown drain
  use            send recv set-options controlling-process
  UDP            open send-to recv-from
  look           port local-address remote-address connection-information

    (def listener (net/listen 0 {:host \"127.0.0.1\" :packet :line :as :string :active false}))
    (def client (net/connect \"127.0.0.1\" (net/port listener) {:packet :line :as :string :active false}))
    (def served (net/accept listener))
    (net/send client \"hello\\n\")
    (net/recv served) ;=> \"hello\\n\"

  A packet is the data of one `recv` or one message. :packet says how the bytes are cut. A connection with
  {:active false} is passive, a stream: `recv` waits for the next packet. Otherwise it is active, and its data
  are messages to the process that owns it:

    [:tcp conn data]        a packet
    [:tcp-closed conn]      the other side has closed it, or shut its sending side. All data came before, and
                            the connection is closed here too, except with {:exit-on-close false}
    [:tcp-error conn why]   :econnreset, :emsgsize for a packet above :max-packet, :einval for bytes that
                            :packet cannot read, :etimedout for the :idle-timeout, :enobufs for a mailbox
                            that refuses messages as it is full; with TLS also
                            [:tls-alert word], :timeout, and :closed if the other side ended the stream
                            without saying so in TLS. [:tcp-closed conn] follows
    [:tcp-passive conn]     the number of messages of :active was reached

  Options of connections, for `listen`, `connect`, `accept` and `set-options`:

    :active        false: no messages. :once: the next packet is a message, then it is false. n: that many
                   messages, then [:tcp-passive conn]. true: all packets are messages. Default :once in a
                   process, and false for a thread that is not a process, which may give no other
    :packet        :raw: what has arrived, cut anywhere. :line: up to \"\\n\", which is included. 1, 2 or 4: a
                   length in so many bytes, big endian, stands before each packet; `send` adds it and it is
                   removed on arrival. A function or a layout of magnetar.bits: see below. Default :raw
    :max-packet    the most bytes of a packet that arrives, except :raw, at most 2^30. A longer one is an
                   error, and the connection is closed. Default 1048576 (1 MiB)
    :as            :bytes: data are arrays of bytes. :string: strings in UTF-8. With :raw a character may be
                   cut in two. Default :bytes
    :send-timeout  for how long a `send` may take. Then it throws, and the connection is closed, as a part may
                   have been sent. Default :infinity
    :idle-timeout  for how long no byte may arrive or be sent. Bytes count as sent when the system's buffer
                   takes them, for a slow reader in large steps. A `recv`, or the wait for a message, checks
                   it. Bytes that have arrived are read first. If no byte has arrived, the connection is
                   closed with the reason :etimedout. A connection that nothing reads stays open. Default
                   :infinity
    :exit-on-close false: an active connection stays open for `send` when the other side has ended its stream,
                   and the owner closes it. Default true
    :nodelay       true: small packets are sent at once (TCP_NODELAY). Default true
    :keepalive     true: the system looks for a dead peer (SO_KEEPALIVE). Default false
    :linger        a duration, in whole seconds: what is not sent so long after `close` is dropped; 0 drops it
                   at once and resets the connection. false leaves it to the system. Default false
    :recbuf        the bytes of the system's buffer for what arrives. Default: what the system takes
    :sndbuf        the bytes of its buffer for what is sent. Default: what the system takes

  The last five are of TCP, and a unix socket ignores them.

  A :packet function gets a read-only java.nio.ByteBuffer of the bytes that no packet has taken, one at least.
  It reads a packet from it and returns a value, which is the data; what follows the position of the buffer is
  the next packet. It returns nil if bytes are missing. It may be called again with the same bytes, so it has
  no side effects, and it copies the bytes that it keeps. A layout is a vector or compiled. Its packets are
  maps, and `send` also takes a map, from which it builds the bytes. What a function throws, or bytes that a
  layout cannot match, close the connection (:einval).

  TLS is switched on by :tls of `listen` and `connect`, and changes nothing else. `connect` returns after the
  handshake. `accept` returns before it, so that no client holds up others: the first use of the connection
  does it, or `handshake`. Options in the map :tls, with Erlang's names; files are PEM:

    :certfile, :keyfile     the certificate of this side, with those between it and its authority, and its
                            private key (PKCS#8). The key may stand in the :certfile. A server needs them, or
                            a :context
    :cacertfile             certificates of the authorities to trust. Default for a client: those of the JDK
    :verify                 :verify-peer: a client checks the server's certificate and host name. A server
                            asks for a client certificate, and needs :cacertfile or :context. :verify-none:
                            no check. Default: :verify-peer for a client, :verify-none for a server
    :fail-if-no-peer-cert   of a server with :verify-peer. true: a client has to have a certificate
    :server-name-indication of a client: the name of the host to ask for and to check, in place of the one
                            that it connects to. :disable: asks for none, and checks no name
    :sni-hosts              of a server: a map of names of hosts to {:certfile .. :keyfile ..}
    :alpn-advertised-protocols, :alpn-preferred-protocols
                            names of protocols, of a client and of a server, such as [\"h2\" \"http/1.1\"]
    :versions               of :tlsv1.3 and :tlsv1.2, a vector. Default both
    :handshake-timeout      how long a handshake may take before the connection fails. Default 10000 ms
    :context                a javax.net.ssl.SSLContext in place of the files, for key stores and the rest

  Files that have changed are read again for the next handshake, so that a certificate is renewed without a
  restart. Invalid new files are reported, and the old ones stay in use.

  {:active true} is dangerous with an unbounded mailbox, since a fast sender fills the memory. Use :once or a
  number, or a mailbox with {:capacity n}: while it is full, nothing is read, and TCP slows the sender down.
  The messages that end a connection come into a full mailbox too.

  A listener or connection belongs to the process that made it, and is closed when that process ends. A
  thread that is not a process owns none, and has to call `close`, or `with-open`. An interrupt or a
  cancellation of a fiber that waits in an operation of a connection closes the connection, as the JDK does. A
  platform thread is not interrupted there, except in an operation of a unix socket.

  What fails is an ExceptionInfo with Erlang's word under :reason, such as :econnrefused. In a simulation
  sockets are refused. Require it as `[magnetar.net :as net]`. Erlang's modules are gen_tcp, ssl and inet."
  (:refer-clojure :exclude [send])
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.impl.transactions :as transactions]
   [magnetar.net.connection :as connection]
   [magnetar.net.datagram :as datagram]
   [magnetar.net.handover :as handover]
   [magnetar.net.handshake :as handshake]
   [magnetar.net.listener :as listener]
   [magnetar.net.options :as options]
   [magnetar.net.reader :as reader]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.transport :as transport])
  (:import
   (magnetar.kernel.fiber Fiber)
   (magnetar.net.connection Connection)
   (magnetar.net.datagram UdpSocket)
   (magnetar.net.listener Listener)))

(set! *warn-on-reflection* true)

(defn- enter [operation]
  (transactions/check operation)
  (.enter (Fiber/current)))

;; ---- open

(defn listen
  "Listens on a port, 0 for a free one, or on a path; returns the listener.

  {:path \"/run/my.sock\"} in place of the port is a unix socket. Its file is deleted when the listener is
  closed. A file that a dead program has left is replaced.

  It belongs to this process, and is closed when the process ends. Connections that it accepts have its
  options. A name as :host is looked up on a platform thread. While this program has no free file descriptor,
  the listener reports that once. It tries again after 10 ms, then after longer pauses, up to a second.

  Throws an ExceptionInfo if the port or path is in use (:eaddrinuse), the host has no address (:nxdomain), or
  a file of :tls will not do.

  Options:
    :active, :packet, :max-packet, :as, :send-timeout, :idle-timeout, :exit-on-close, :nodelay, :keepalive,
    :linger, :recbuf, :sndbuf
                    options of the connections, see the namespace
    :host           the address of this machine to listen on, not for a path. Default: all of them
    :backlog        how many connections may wait for `accept`. Default: what the JDK takes
    :reuse-address  true: the port can be taken although old connections of it linger. Not for a path.
                    Default true
    :max-connections
                    how many of its connections may be open at once. `accept` then waits for one to close.
                    The system queues as many more as :backlog says. Default: no limit
    :tls            a map: the connections have TLS, see the namespace. Not for a path

  Example:

    (net/listen 8080 {:packet :line :active false})

  See also `accept`, `port`.

  Erlang: gen_tcp:listen/2."
  {:erlang "gen_tcp:listen/2" :added "0.2"}
  ([port] (listen port nil))
  ([port options]
   (enter "listen")
   (refusals/check-real "listen")
   (if (map? port)
     (options/check-path "listen" port)
     (options/check-port "listen" port 0))
   (let [options (options/checked "listen" (if (map? port) options/of-path options/of-listen) options)]
     (some->> (:host options) (options/check-host "listen"))
     (listener/listen port options))))

(defn accept
  "Waits for the next connection of a listener; returns the connection.

  It belongs to this process, which need not be the owner of the listener. Its options are the options of the
  listener, with the given ones in place of them. Several processes may accept at once.

  Blocks until there is a connection; a fiber parks.

  Throws a TimeoutException when time runs out, and an ExceptionInfo (:closed) if the listener is closed.

  Cancellation: ends the wait. No connection is lost by that, nor by a :timeout: the next `accept` gets it.

  Options:
    :active, :packet, :max-packet, :as, :send-timeout, :idle-timeout, :exit-on-close, :nodelay, :keepalive,
    :linger, :recbuf, :sndbuf
              options of the connection, see the namespace
    :timeout  how long to wait. Default :infinity
    :else     what to return when time runs out

  Example:

    (net/accept listener {:timeout 1000 :else nil})

  Erlang: gen_tcp:accept/2."
  {:erlang "gen_tcp:accept/2" :added "0.2"}
  ([listener] (accept listener nil))
  ([listener options]
   (enter "accept")
   (listener/check "accept" listener)
   (listener/accept listener (options/checked "accept" options/of-accept options))))

(defn- connect-to [[host port :as place] options]
  (enter "connect")
  (refusals/check-real "connect")
  (if (= 1 (count place))
    (options/check-path "connect" host)
    (do
      (options/check-host "connect" host)
      (options/check-port "connect" port 1)))
  (let [known (if (= 1 (count place)) options/of-connect-to-path options/of-connect)]
    (listener/connect place (options/checked "connect" known options))))

(defn connect
  "Connects to a port of a host, or to a path; returns the connection.

  {:path \"/run/my.sock\"} in place of host and port is a unix socket.

  It belongs to this process, and is closed when the process ends. A name of a host is looked up on a platform
  thread, since the JDK would hold the carrier thread of a fiber. At most 256 names are looked up at once.
  The addresses of IPv4 and IPv6 are tried in turn, and the last failure is reported. The :timeout includes
  the look-up, which is abandoned when time runs out. With several addresses, each gets a share of the time,
  at least two seconds.

  Blocks until the connection is there; a fiber parks.

  Throws a TimeoutException when time runs out, and an ExceptionInfo if the connection is refused
  (:econnrefused), the host has no address (:nxdomain), the path has no file (:enoent), or the TLS
  handshake fails ([:tls-alert word]).

  Cancellation: ends the attempt.

  Options:
    :active, :packet, :max-packet, :as, :send-timeout, :idle-timeout, :exit-on-close, :nodelay, :keepalive,
    :linger, :recbuf, :sndbuf
              options of the connection, see the namespace
    :tls      true or a map: the connection has TLS, see the namespace. Not for a path
    :timeout  how long to wait. Default :infinity, which leaves it to the system
    :else     what to return when time runs out

  Example:

    (net/connect \"127.0.0.1\" (net/port listener) {:packet 4 :timeout 5000})

  Erlang: gen_tcp:connect/4."
  {:erlang "gen_tcp:connect/4" :added "0.2"}
  ([path] (connect path nil))
  ([host-or-path port-or-options]
   (if (map? host-or-path)
     (connect-to [host-or-path] port-or-options)
     (connect-to [host-or-path port-or-options] nil)))
  ([host port options]
   (connect-to [host port] options)))

(defn handshake
  "Does the TLS handshake, unless it is done; returns the connection.

  The first use of a connection does it too. Call it to know of the other side before that, or to limit the
  time. It does nothing for a plain connection.

  Blocks until the handshake is done; a fiber parks.

  Throws a TimeoutException when time runs out, after which it may be called again; and an ExceptionInfo if
  the handshake fails ([:tls-alert word], or :timeout after the :handshake-timeout). Then the connection is
  closed.

  Cancellation: closes the connection if the fiber waits for the network.

  Options:
    :timeout  how long to wait. Default :infinity, so that :handshake-timeout is the limit
    :else     what to return when time runs out

  Example:

    (net/handshake (net/accept listener))

  See also `connection-information`.

  Erlang: ssl:handshake/2."
  {:erlang "ssl:handshake/2" :added "0.2"}
  ([conn] (handshake conn nil))
  ([conn options]
   (enter "handshake")
   (connection/check "handshake" conn)
   (handshake/handshake conn (options/checked "handshake" [:timeout :else] options))))

(defn- refuse-socket [operation x]
  (arguments/misuse :magnetar/not-a-connection
                    (str "`" operation "` wants a connection, a listener or a UDP socket; this is "
                         (arguments/show x) ".") {:value x}))

(defn close
  "Closes a connection, a listener or a UDP socket; returns nil.

  Any thread may do it. What waits in an operation on it gets an ExceptionInfo (:closed). The owner gets no
  message; messages that have arrived stay in its mailbox. Nothing happens if it is closed already. Each of
  them is a java.io.Closeable, for `with-open`.

  A fiber sends the end of a TLS stream, within a second, and `close` does not wait for it. If the program is
  about to exit, call `shutdown` with :write before `close`, or call `drain`, so that the end is sent.

  Example:

    (net/close conn)

  Erlang: gen_tcp:close/1."
  {:erlang "gen_tcp:close/1" :added "0.2"}
  [socket]
  (cond
    (instance? Connection socket) (connection/close socket)
    (instance? Listener socket) (listener/close socket)
    (datagram/udp? socket) (datagram/close socket)
    :else (refuse-socket "close" socket))
  nil)

(defn drain
  "Closes a listener, waits for its connections to end; returns how many were cut.

  A connection that `accept` has returned ends when it is closed: by `close`, by the end of its owner, or by
  the other side if its data are messages. Those that are open when time runs out are closed here. Connections
  that no `accept` has got are closed at once. `drain` waits until the ends of TLS streams were sent, up to
  two seconds more.

  Blocks until there is no open connection, or time runs out.

  Cancellation: ends the wait. The listener is closed, and its connections stay open.

  Options:
    :timeout  how long to wait. Default 5000 ms

  Example:

    (net/drain listener {:timeout 10000})

  See also `close`."
  {:added "0.2"}
  ([listener] (drain listener nil))
  ([listener options]
   (enter "drain")
   (listener/check "drain" listener)
   (listener/drain listener (options/checked "drain" [:timeout] options))))

(defn shutdown
  "Ends one direction of a connection, :read, :write or :both; returns nil.

  After :write the other side gets what was sent, then the end of the stream. It can still answer, except with
  TLS 1.2, which ends both directions at once. Close the connection when it is done.

  Blocks with TLS while another thread sends, and until the end is sent. A peer that does not accept the end
  within a second loses the connection.

  Example:

    (net/shutdown conn :write)

  Erlang: gen_tcp:shutdown/2."
  {:erlang "gen_tcp:shutdown/2" :added "0.2"}
  [conn direction]
  (enter "shutdown")
  (connection/check "shutdown" conn)
  (when-not (#{:read :write :both} direction)
    (arguments/misuse :magnetar/bad-option
                      (str "`shutdown` wants :read, :write or :both; this is " (arguments/show direction) ".")
                      {:value direction :reason :einval}))
  (connection/check-open "shutdown" conn)
  (transport/shut (.-socket ^Connection conn) direction)
  nil)

;; ---- use

(defn send
  "Sends a string, as UTF-8, or an array of bytes; returns nil.

  A map of fields is sent where :packet is a layout. A length goes before it where :packet wants one. To a
  :line nothing is added: end it with \"\\n\". Any thread may send. What two threads send does not mix.

  Blocks while the other side does not read and the buffers of the system are full; a fiber parks.

  Throws an ExceptionInfo if the connection is closed (:closed) or lost (:econnreset), or if the :send-timeout
  has passed (:etimedout). Then it is closed. What was sent before may have arrived or not.

  Cancellation: closes the connection if the fiber waits for the network.

  Example:

    (net/send conn \"hello\\n\")

  Erlang: gen_tcp:send/2."
  {:erlang "gen_tcp:send/2" :added "0.2"}
  [conn data]
  (enter "send")
  (connection/send-data (connection/check "send" conn) data)
  nil)

(defn- recv-packet [conn n options]
  (enter "recv")
  (connection/check "recv" conn)
  (connection/recv conn n (options/checked "recv" [:timeout :else] options)))

(defn recv
  "Waits for the next packet of a connection that is not active; returns its data.

  With a number n it waits for exactly n bytes, which goes with {:packet :raw} alone. Otherwise a :raw
  connection gives what there is, and one byte at least.

  Returns nil at the end of the stream, after all packets. A packet that is not complete there is dropped.
  Bytes fewer than n stay for a `recv` without a number. The connection stays open, and `send` still works.

  Blocks until the packet is there; a fiber parks.

  Throws a TimeoutException when time runs out, which loses nothing. Throws an ExceptionInfo if the connection
  is closed (:closed), lost (:econnreset) or idle for too long (:etimedout), or if a packet is too long
  (:emsgsize) or cannot be read (:einval). Throws an IllegalStateException if the connection is active.

  Cancellation: closes the connection if the fiber waits for the network.

  Options:
    :timeout  how long to wait. Default :infinity
    :else     what to return when time runs out

  Example:

    (net/recv conn {:timeout 1000 :else :late})

  Erlang: gen_tcp:recv/3."
  {:erlang "gen_tcp:recv/3" :added "0.2"}
  ([conn] (recv-packet conn nil nil))
  ([conn n-or-options]
   (if (int? n-or-options)
     (recv conn n-or-options nil)
     (recv-packet conn nil n-or-options)))
  ([conn n options]
   (recv-packet conn (arguments/whole "recv" n options/longest-packet) options)))

(defn set-options
  "Changes options of a connection or UDP socket; returns nil.

  The namespace lists the options of connections; options of UDP sockets are in `open`, except :host
  and :reuse-address.

  Any thread may do it. {:active :once} asks for the next packet as a message. A number is added to what is
  left of one before, up to 32767. After {:active false} no message follows, except one that is on its way. A
  new :packet applies to the bytes that no packet has taken. A `recv` that waits gets the next packet, also if
  the connection becomes active; messages follow. A new :packet or :idle-timeout takes effect in it within
  0.2 s.

  Throws an ExceptionInfo (:closed) if the connection is closed, and an IllegalArgumentException if the
  numbers of :active exceed 32767 together.

  Example:

    (net/set-options conn {:active :once :packet 4})

  Erlang: inet:setopts/2."
  {:erlang "inet:setopts/2" :added "0.2"}
  [conn options]
  (enter "set-options")
  (if (datagram/udp? conn)
    (datagram/set-options conn (options/checked "set-options" options/of-udp options))
    (reader/set-options (connection/check "set-options" conn)
                        (options/checked "set-options" options/of-connection options)))
  nil)

(defn controlling-process
  "Makes another process the owner of a connection or UDP socket; returns nil.

  Messages about it move from the mailbox of this process to the new owner's, where no limit of the mailbox
  applies to them. Later ones arrive after them. Only the owner may give it away, or any thread if it has no
  owner.

  Throws an IllegalStateException if this is not the owner, and an IllegalArgumentException if the other
  process is not alive.

  Cancellation: takes effect when the connection has its new owner.

  Example:

    (net/controlling-process conn worker)

  Erlang: gen_tcp:controlling_process/2."
  {:erlang "gen_tcp:controlling_process/2" :added "0.2"}
  [conn pid]
  (enter "controlling-process")
  (handover/give (if (datagram/udp? conn) conn (connection/check "controlling-process" conn)) pid)
  nil)

;; ---- UDP

(defn open
  "Opens a UDP socket on a port, 0 for a free one; returns the socket.

  It belongs to this process, and is closed when the process ends. Where it is active, the owner gets

    [:udp socket host port data]  a datagram, and where it came from
    [:udp-passive socket]         the number of messages of :active was reached
    [:udp-error socket why]       it has failed, and is closed

  `close`, `set-options`, `controlling-process`, `local-address` and `port` are for it too. A datagram that
  comes while the buffer of the system is full is lost, as with a full mailbox of an {:active true} socket.

  Throws an ExceptionInfo if the port is in use (:eaddrinuse) or the host has no address (:nxdomain).

  Options:
    :active           as for a connection, see the namespace
    :as               :bytes or :string. Default :bytes
    :host             the address of this machine. Default: all of them
    :broadcast        true: it may send to a broadcast address. Default true
    :recbuf, :sndbuf  the bytes of the system's buffers. Default: what the system takes
    :reuse-address    true: other sockets may have the port too. Default false
    :multicast-ttl    how many routers a multicast datagram may pass. Default 1
    :multicast-loop   true: this machine gets its own multicast datagrams. Default true
    :add-membership   the address of a multicast group to join
    :drop-membership  the address of a multicast group to leave

  Example:

    (net/open 0 {:active false})

  See also `send-to`, `recv-from`.

  Erlang: gen_udp:open/2."
  {:erlang "gen_udp:open/2" :added "0.2"}
  ([port] (open port nil))
  ([port options]
   (enter "open")
   (refusals/check-real "open")
   (options/check-port "open" port 0)
   (let [options (options/checked "open" options/of-open options)]
     (some->> (:host options) (options/check-host "open"))
     (datagram/open port options))))

(defn send-to
  "Sends a string or an array of bytes as one datagram; returns nil.

  It may be lost on its way, or arrive twice. A name of a host is looked up each time, on a platform thread.

  Throws an ExceptionInfo if the socket is closed (:closed), the host has no address (:nxdomain) or the data
  are too long (:emsgsize).

  Example:

    (net/send-to socket \"127.0.0.1\" 5353 \"hello\")

  Erlang: gen_udp:send/4."
  {:erlang "gen_udp:send/4" :added "0.2"}
  [socket host port data]
  (enter "send-to")
  (datagram/check "send-to" socket)
  (options/check-host "send-to" host)
  (options/check-port "send-to" port 1)
  (datagram/send-data socket host port data)
  nil)

(defn recv-from
  "Waits for the next datagram of a UDP socket that is not active.

  Returns {:host h :port p :data d}, with the address that it came from.

  Blocks until there is one; a fiber parks.

  Throws a TimeoutException when time runs out, an ExceptionInfo if the socket is closed (:closed), and an
  IllegalStateException if it is active.

  Cancellation: closes the socket if the fiber waits for the network.

  Options:
    :timeout  how long to wait. Default :infinity
    :else     what to return when time runs out

  Example:

    (net/recv-from socket {:timeout 1000 :else nil})

  Erlang: gen_udp:recv/3."
  {:erlang "gen_udp:recv/3" :added "0.2"}
  ([socket] (recv-from socket nil))
  ([socket options]
   (enter "recv-from")
   (datagram/check "recv-from" socket)
   (datagram/recv socket (options/checked "recv-from" [:timeout :else] options))))

;; ---- look

(defn- local [operation x]
  (cond
    (instance? Connection x) (.-local ^Connection x)
    (instance? Listener x) (.-local ^Listener x)
    (datagram/udp? x) (.-local ^UdpSocket x)
    :else (refuse-socket operation x)))

(defn local-address
  "Returns the address of a listener, a UDP socket or this side of a connection.

  It is {:host h :port p}, or {:path p} of a unix socket. The path of one that has connected is empty.

  Example:

    (net/local-address listener) ;=> {:host \"127.0.0.1\", :port 8080}

  Erlang: inet:sockname/1."
  {:erlang "inet:sockname/1" :added "0.2"}
  [socket]
  (local "local-address" socket))

(defn remote-address
  "Returns the address of the other side of a connection, as a map.

  It is still known when the connection is closed.

  Example:

    (:host (net/remote-address conn)) ;=> \"127.0.0.1\"

  Erlang: inet:peername/1."
  {:erlang "inet:peername/1" :added "0.2"}
  [conn]
  (.-remote (connection/check "remote-address" conn)))

(defn port
  "Returns the port of a listener, a UDP socket or this side of a connection.

  Throws an IllegalArgumentException for a unix socket, which has a path.

  Example:

    (net/port listener) ;=> 8080

  Erlang: inet:port/1."
  {:erlang "inet:port/1" :added "0.2"}
  [socket]
  (let [{:keys [port] :as address} (local "port" socket)]
    (or port
        (arguments/misuse :magnetar/bad-option
                          (str "`port` of " socket ", which has a path and no port: call `local-address`.")
                          {:value socket :address address}))))

(defn connection-information
  "Returns what both sides of TLS agreed on, as a map; nil of a plain connection.

  Does the handshake if that is not done yet, and then blocks and throws as `handshake` does.

  Returns a map:
    :protocol           :tlsv1.3 or :tlsv1.2
    :cipher             the name of the cipher suite
    :alpn               the protocol of ALPN, nil for none
    :peer-certificates  the X509Certificates of the other side, its own first; empty for none
    :sni-hostname       the name of the host that the client asked for, nil for none

  Example:

    (:alpn (net/connection-information conn)) ;=> \"h2\"

  Erlang: ssl:connection_information/1."
  {:erlang "ssl:connection_information/1" :added "0.2"}
  [conn]
  (enter "connection-information")
  (handshake/information (connection/check "connection-information" conn)))
