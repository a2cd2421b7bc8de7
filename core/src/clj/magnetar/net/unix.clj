(ns magnetar.net.unix
  "Unix sockets, which have a path in place of a host and a port, as kinds of sockets.

  The JDK's channels have no limit of time for a read. So a read with a limit is done by a fiber of its own.
  When time runs out it goes on, and what it reads is for the next read."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.impl.waits :as waits]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.transport :as transport])
  (:import
   (java.io IOException)
   (java.net BindException ConnectException SocketTimeoutException StandardProtocolFamily UnixDomainSocketAddress)
   (java.nio ByteBuffer)
   (java.nio.channels ClosedByInterruptException ServerSocketChannel SocketChannel)
   (java.nio.file Files LinkOption Path)
   (java.nio.file.attribute BasicFileAttributes)
   (java.util.concurrent ExecutionException FutureTask)
   (java.util.concurrent.locks ReentrantLock)
   (magnetar.kernel.fiber Fibers)))

(set! *warn-on-reflection* true)

(defn- address
  "An address as a map. The path of a socket that was not bound is empty."
  [address]
  {:path (str address)})

;; ---- reads

(defn- read-now ^long [^SocketChannel channel ^bytes bytes ^long from]
  (let [buffer (ByteBuffer/wrap bytes from (- (alength bytes) from))]
    (long (waits/at waits/for-data channel (.read channel buffer)))))

;; `done` is a latch, which is released when the task has ended.
(deftype Read [^FutureTask task done])

(defn- read-apart
  "Reads on a fiber, at most so many bytes: a Read of a buffer with the bytes, which is nil at the end of the
  stream."
  ^Read [channel room]
  (let [done (waits/latch)
        bytes (byte-array room)
        task (FutureTask. #(let [n (read-now channel bytes 0)]
                             (when-not (neg? n)
                               (ByteBuffer/wrap bytes 0 n))))
        run (fn []
              (let [fiber (Fibers/begun)]
                (try
                  (.run task)
                  (finally
                    (waits/release done)
                    (Fibers/ended fiber)))))]
    (Fibers/begin (Fibers/prepareWithoutContext "read of a unix socket" nil run))
    (Read. task done)))

(defn- close-by-interrupt [^SocketChannel channel]
  (.interrupt (Thread/currentThread))
  (.close channel)
  (throw (ClosedByInterruptException.)))

(defn- ended?
  "Has the read ended before the deadline? An interrupt closes the channel, as it does in a read of this
  thread."
  [channel ^Read read deadline]
  (try
    (waits/released? (.-done read) waits/for-data channel (clock/left deadline))
    (catch Throwable e
      (if (waits/ends-wait? e)
        (close-by-interrupt channel)
        (throw e)))))

(defn- outcome
  "What the read has read, once it has ended."
  [channel ^Read read deadline]
  (when-not (ended? channel read deadline)
    (throw (SocketTimeoutException. "no byte in time")))
  (try
    (.get ^FutureTask (.-task read))
    (catch ExecutionException e
      (throw (ex-cause e)))))

(defn- take-read
  "Copies bytes of a read that has ended into the array; how many. The rest stays for the next one."
  ^long [pending ^ByteBuffer read ^bytes bytes ^long from]
  (if (nil? read)
    (do (vreset! pending nil) -1)
    (let [n (min (.remaining read) (- (alength bytes) from))]
      (.get read bytes from n)
      (when-not (.hasRemaining read)
        (vreset! pending nil))
      n)))

(defn- read-into [channel pending ^bytes bytes from deadline]
  (if (and (nil? @pending) (= clock/infinite deadline))
    (read-now channel bytes from)
    (let [read (or @pending (vreset! pending (read-apart channel (- (alength bytes) (long from)))))]
      (take-read pending (outcome channel read deadline) bytes from))))

;; ---- connections

(defn- write-part [^SocketChannel channel ^bytes bytes from n]
  (let [buffer (ByteBuffer/wrap bytes from n)]
    (waits/at waits/for-room channel
      (while (.hasRemaining buffer)
        (.write channel buffer)))))

(defn- write [channel bytes progress]
  (transport/write-parts bytes #(write-part channel bytes %1 %2) progress))

(defn- shut [^SocketChannel channel direction]
  (try
    (when-not (= :read direction) (.shutdownOutput channel))
    (when-not (= :write direction) (.shutdownInput channel))
    (catch IOException _)))

;; `pending` is a volatile, of the Read that was begun, or nil. The reading thread has it alone.
;; `output-shut` is an atom.
(deftype UnixSocket [^SocketChannel channel pending output-shut]
  transport/Endpoint
  (local [_] (address (.getLocalAddress channel)))
  (close [_] (.close channel))

  transport/Stream
  (remote [_] (address (.getRemoteAddress channel)))
  (set-options [_ _])
  (read-into [_ bytes from deadline] (read-into channel pending bytes from deadline))
  (write [_ bytes progress] (write channel bytes progress))
  (shut [_ direction]
    (when-not (= :read direction) (reset! output-shut true))
    (shut channel direction))
  (output-shut? [_] @output-shut)
  (when-gone [_ f] (f)))

(defn- unix-socket [channel]
  (UnixSocket. channel (volatile! nil) (atom false)))

(defn- socket-address [operation path]
  (try
    (UnixDomainSocketAddress/of ^String path)
    (catch IllegalArgumentException e
      (throw (refusals/path-failed operation path e)))))

(defn- try-connect
  "Connects once: the channel, or nil where the queue of the listener is full. A channel that does not block
  is told so by EAGAIN; one that blocks would hold a platform thread without a limit."
  [address]
  (let [channel (SocketChannel/open StandardProtocolFamily/UNIX)]
    (try
      (.configureBlocking channel false)
      (.connect channel address)
      (.configureBlocking channel true)
      channel
      (catch IOException e
        (.close channel)
        (when-not (= :eagain (refusals/reason e nil))
          (throw e))))))

(def ^:private ^:const pause-millis "Between two tries while the queue of a listener is full." 5)

(defn- await-next-try [deadline]
  (transport/interruptible
    (Thread/sleep (long (min pause-millis (inc (clock/millis (clock/left deadline))))))))

(defn- connect-until [address deadline]
  (if-some [channel (try-connect address)]
    (unix-socket channel)
    (if (zero? (clock/left deadline))
      ::transport/timeout
      (do
        (await-next-try deadline)
        (recur address deadline)))))

(defn connect
  "A socket that is connected to the path; ::transport/timeout after the deadline."
  [path deadline]
  (try
    (let [address (socket-address "connect" path)]
      (waits/at waits/to-connect address (connect-until address deadline)))
    (catch ConnectException e
      (throw (refusals/path-refused path e)))
    (catch IOException e
      (transport/check-interrupt)
      (throw (refusals/path-failed "connect" path e)))))

;; ---- listening

(def ^:private no-links (into-array LinkOption [LinkOption/NOFOLLOW_LINKS]))

(defn- file-key [^Path path]
  (try
    (.fileKey (Files/readAttributes path BasicFileAttributes ^"[Ljava.nio.file.LinkOption;" no-links))
    (catch IOException _ nil)))

(defn- delete-if-same
  "Deletes the file if it is still the one with this key."
  [path file]
  (when (= file (file-key path))
    (Files/deleteIfExists path)))

(defn- delete-own
  "Deletes the file of a socket, unless another socket has been bound to the path since."
  [path file]
  (when file
    (delete-if-same path file)))

(deftype UnixListening [^ServerSocketChannel channel path file]
  transport/Endpoint
  (local [_] {:path (str path)})
  (close [_]
    (try
      (delete-own path file)
      (finally (.close channel))))

  transport/Listening
  (accept [_] (unix-socket (waits/at waits/for-connection channel (.accept channel)))))

(def ^:private ^:const type-mask 0170000)
(def ^:private ^:const type-socket 0140000)

(defn- socket-file? [path]
  (= type-socket (bit-and type-mask (long (Files/getAttribute path "unix:mode" no-links)))))

(defn- stale?
  "Does no program listen on this socket any more? Does not wait in the queue of a program that does. Throws
  an IOException if this program may not know."
  [address]
  (with-open [channel (SocketChannel/open StandardProtocolFamily/UNIX)]
    (.configureBlocking channel false)
    (try
      (.connect channel address)
      false
      (catch ConnectException _ true)
      (catch IOException e
        (when (= :eacces (refusals/reason e nil))
          (throw e))
        false))))

(defn- delete-stale
  "Deletes the file that is in the way, if it is a socket on which no program listens."
  [^UnixDomainSocketAddress address cause]
  (let [path (.getPath address)
        file (file-key path)]
    (cond
      (not (socket-file? path)) (throw (refusals/no-socket-file (str path) cause))
      (not (stale? address)) (throw (refusals/path-in-use (str path) cause))
      :else (delete-if-same path file))))

;; T1 and T2 both find a stale file. T1 deletes it and binds; T2 would delete the file of T1. So one thread at
;; a time replaces a file. Two programs can still do that to each other between the check of the file and its
;; deletion.
(defonce ^:private ^ReentrantLock replacing (ReentrantLock.))

(defn- bind-again [^ServerSocketChannel channel address backlog cause]
  (delete-stale address cause)
  (.bind channel address (int backlog)))

(defn- bind [^ServerSocketChannel channel ^UnixDomainSocketAddress address backlog]
  (try
    (.bind channel address (int backlog))
    (catch BindException e
      (if (= :eaddrinuse (refusals/reason e nil))
        (transport/locked replacing clock/infinite #(bind-again channel address backlog e))
        (throw e)))))

(defn listen
  "A socket that listens on the path."
  [path {:keys [backlog] :or {backlog 0}}]
  (let [^UnixDomainSocketAddress address (socket-address "listen" path)
        channel (ServerSocketChannel/open StandardProtocolFamily/UNIX)]
    (try
      (bind channel address backlog)
      (UnixListening. channel (.getPath address) (file-key (.getPath address)))
      (catch Exception e
        (.close channel)
        (throw (if (instance? IOException e)
                 (refusals/path-failed "listen" path e)
                 e))))))
