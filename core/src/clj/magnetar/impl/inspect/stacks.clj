(ns magnetar.impl.inspect.stacks
  "The stack of a waiting thread: its line in the program, and what its local variables hold.

  The local variables of a virtual thread can be read while it waits, if the JVM lets us, see `Locals` in the kernel. A platform thread's cannot be read."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (java.util IdentityHashMap)
   (magnetar.kernel.inspect Locals Locals$Frame)))

(set! *warn-on-reflection* true)

(defn- read-stack [^Thread thread]
  (if-some [frames (Locals/of thread)]
    {:at (mapv #(.at ^Locals$Frame %) frames) :frames frames}
    {:at (vec (.getStackTrace thread)) :frames []}))

(defn of
  "The stack of the node's thread, {:at [StackTraceElement ..] :frames [Locals$Frame ..]}, the innermost frame first. It is read once for a snapshot. :frames is
  empty if local variables cannot be read. Both are empty without a thread."
  [{:keys [^IdentityHashMap stacks]} {:keys [thread]}]
  (if thread
    (or (.get stacks thread)
        (let [stack (read-stack thread)]
          (.put stacks thread stack)
          stack))
    {:at [] :frames []}))

(defn- of-program? [^StackTraceElement frame]
  (and (pos? (.getLineNumber frame))
       (reports/of-program? frame)))

(def ^:private database-prefixes
  "Prefixes of the classes of pools and drivers. The line of a wait in them is the line where the program calls them."
  ["com.zaxxer.hikari." "org.apache.commons.dbcp2." "org.apache.commons.pool2." "org.apache.tomcat.jdbc." "com.mchange." "org.postgresql." "com.mysql."
   "org.mariadb." "oracle.jdbc." "org.h2."])

(defn- of-database? [^StackTraceElement frame]
  (some #(str/starts-with? (.getClassName frame) %) database-prefixes))

(defn frame-of
  "The innermost of these frames that belongs to the program; nil without such a frame."
  ^StackTraceElement [frames]
  (let [frames (filter of-program? frames)]
    (or (first (remove of-database? frames)) (first frames))))

(defn line-of
  "FILE:LINE of the innermost of these frames that belongs to the program; nil without such a frame."
  [frames]
  (when-some [frame (frame-of frames)]
    (str (.getFileName frame) ":" (.getLineNumber frame))))

(defn frames
  "The frames of the node's thread, StackTraceElements, the innermost first. A stack that was not read yet is read without its local variables, which takes less
  than half the time."
  [{:keys [^IdentityHashMap stacks ^IdentityHashMap traces]} {:keys [^Thread thread]}]
  (when thread
    (or (:at (.get stacks thread))
        (.get traces thread)
        (let [trace (vec (.getStackTrace thread))]
          (.put traces thread trace)
          trace))))

(defn line
  "`line-of` the stack of the node."
  [snapshot node]
  (line-of (frames snapshot node)))

(defn locals
  "The objects in the local variables of all frames."
  [snapshot node]
  (mapcat #(.objects ^Locals$Frame %) (:frames (of snapshot node))))

(defn locals-of-class
  "The objects in the local variables of the methods of this class."
  [snapshot node class-name]
  (for [^Locals$Frame frame (:frames (of snapshot node))
        :when (= class-name (.getClassName ^StackTraceElement (.at frame)))
        x (.objects frame)]
    x))

(defn in-frames?
  "Is one of the frames in a class whose name begins so, and in the method of this name if `method` is not nil?"
  [frames beginning method]
  (boolean (some (fn [^StackTraceElement frame]
                   (and (str/starts-with? (.getClassName frame) beginning)
                        (or (nil? method) (= method (.getMethodName frame)))))
                 frames)))

(defn in?
  "Is the node in such a class and method? As `in-frames?`, of the node's frames."
  ([snapshot node beginning] (in? snapshot node beginning nil))
  ([snapshot node beginning method] (in-frames? (frames snapshot node) beginning method)))

;; ---- sockets

(def ^:private socket-class
  #"sun\.nio\.ch\.(NioSocketImpl|SocketChannelImpl|ServerSocketChannelImpl|DatagramChannelImpl)")

(def ^:private what-of-method
  "What a method of a socket waits for, by a part of its name."
  {"accept" "a connection to a server socket", "connect" "a connection of a socket", "read" "data from a socket", "receive" "data from a socket"
   "write" "room in the buffer of a socket", "send" "room in the buffer of a socket"})

(defn- in-socket
  "What the frame waits for, if it is in a method of a socket that may wait."
  [^StackTraceElement frame]
  (when (re-matches socket-class (.getClassName frame))
    (let [method (str/lower-case (.getMethodName frame))]
      (some (fn [[part words]] (when (str/includes? method part) words)) what-of-method))))

(defn socket
  "What the node waits for at a socket, in words; nil if it does not. A virtual thread is parked there. The JVM shows a platform thread as one that runs."
  [snapshot {:keys [wait] :as node}]
  (when (or (nil? wait) (and (= :park (:why wait)) (nil? (:on wait))))
    (some in-socket (take 12 (frames snapshot node)))))
