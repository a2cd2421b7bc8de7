(ns magnetar.net.transport
  "Where kinds of sockets differ: three protocols, and what all kinds use. A connection knows of its socket
  what `Stream` says, a listener what `Listening` says, and both are an `Endpoint`."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime])
  (:import
   (java.io IOException)
   (java.util.concurrent Future TimeUnit)
   (java.util.concurrent.locks ReentrantLock)
   (magnetar.kernel.fiber Fiber)))

(set! *warn-on-reflection* true)

;; ---- kinds of sockets

(defprotocol Endpoint
  "What all sockets have."
  (local [socket] "The address of this side, a map.")
  (close [socket]
    "Closes it, from any thread; ends what waits in it by an IOException. Does not wait. May throw one."))

(defprotocol Stream
  "A connection: two streams of bytes. Each operation throws an IOException when the connection fails or is
  closed."
  (remote [socket] "The address of the other side, a map.")
  (set-options [socket options]
    "Sets those options that are the socket's. One that the other side has left takes none any more.")
  (read-into [socket bytes from deadline]
    "Reads into the array; how many bytes, -1 at the end of the stream. Throws a SocketTimeoutException after
    the deadline, which loses nothing.")
  (write [socket bytes progress] "Writes all the bytes; calls (progress) whenever a part of them is written.")
  (shut [socket direction] "Shuts :read, :write or :both. A direction that is shut already stays so.")
  (output-shut? [socket] "Was its sending side shut?")
  (when-gone [socket f] "Calls (f) once, when the socket was closed and has sent the end of its stream."))

(defprotocol Listening
  "A socket that listens."
  (accept [socket] "Waits for the next connection: its `Stream`."))

(def ^:private ^:const most-per-write
  "The bytes of one write. The JDK copies each into a buffer of its own, and keeps that."
  65536)

(defn write-parts
  "Writes the array in parts by (write from n)."
  [^bytes bytes write progress]
  (loop [from 0]
    (let [n (min most-per-write (- (alength bytes) from))]
      (write from n)
      (progress)
      (when (< (+ from n) (alength bytes))
        (recur (+ from n))))))

(defn no-progress
  "Does nothing, where a write needs no report of its progress."
  [])

(defn close-quietly
  "Closes a socket."
  [socket]
  (try
    (close socket)
    (catch IOException _)))

(defn text
  "An address in words."
  [{:keys [host port path]}]
  (cond
    (nil? path) (str (if (str/includes? (str host) ":") (str "[" host "]") host) ":" port)
    (= "" path) "a socket without a path"
    :else path))

;; ---- waits

(defmacro interruptible
  "Does the body, which waits. An interrupt that came with a cancellation throws what cancels the thread."
  [& body]
  `(try
     ~@body
     (catch InterruptedException e#
       (.check (Fiber/current))
       (throw e#))))

(defn await-future
  "The value of a future. Throws the JDK's TimeoutException after the deadline."
  [^Future future deadline]
  (let [left (clock/left deadline)]
    (interruptible
      (if (= clock/infinite left)
        (.get future)
        (.get future left TimeUnit/NANOSECONDS)))))

(defn check-interrupt
  "Throws if the thread was interrupted while it used a socket: what cancels it, else an
  InterruptedException."
  []
  (.check (Fiber/current))
  (when (Thread/interrupted)
    (throw (InterruptedException. "interrupted in an operation of a socket, which is closed by that"))))

(defn- take-lock
  "Takes the lock; false if it is not free before the deadline."
  [^ReentrantLock lock deadline]
  (let [left (clock/left deadline)]
    (interruptible
      (if (= clock/infinite left)
        (do (.lockInterruptibly lock) true)
        (.tryLock lock left TimeUnit/NANOSECONDS)))))

(defn locked
  "Calls f with the lock held; ::timeout if the lock is not free before the deadline."
  [^ReentrantLock lock deadline f]
  (if (take-lock lock deadline)
    (try
      (f)
      (finally (.unlock lock)))
    ::timeout))
