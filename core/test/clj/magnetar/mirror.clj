(ns magnetar.mirror
  "A node that is this node itself, for tests: what is sent to it comes in again as from another node.

  Two peers stand for the two directions. A signal to a process of the one arrives at this node from the other one,
  with the pids and references turned round. Nothing is written as bytes."
  (:require
   [clojure.string :as str]
   [clojure.walk :as walk]
   [magnetar.actor :as actor]
   [magnetar.channel :as a]
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent ConcurrentLinkedQueue)
   (magnetar.kernel.process Connection Exports Outbox Peer Peers Pid Ref Signal Signal$Demonitor Signal$Down Signal$Exit Signal$ExitLink Signal$Link Signal$Message Signal$Monitor Signal$Spawn Signal$SpawnReply Signal$Unlink Signal$UnlinkAck Transport)))

(set! *warn-on-reflection* true)

;; ---- turning identities round

(defn- mirrored?
  "Is this the name of one of the two nodes of the mirror?"
  [^Peer sender node]
  (= (subs (.name sender) 1) (some-> node (subs 1))))

(defn- pid-there [^Peer sender ^Pid pid]
  (cond
    (nil? pid) nil
    (zero? (.node pid)) (do (Exports/pid pid) (.pid sender (.serial pid)))
    (mirrored? sender (.nodeName pid)) (Exports/pid (.serial pid) (Peers/creation))
    :else pid)) ; of a third node

(defn- ref-there [^Peer sender ^Ref ref]
  (let [^Pid maker (.maker ref)]
    (if (= (Peers/creation) (.creation ref))
      (.ref sender (.id ref) (pid-there sender maker) (Exports/ref ref))
      (Exports/ref (.id ref) (Peers/creation) (pid-there sender maker) (not (.isPlain ref))))))

(defn- value-there
  "The value as the other side reads it, whose peer for this side is `sender`."
  [sender x]
  (walk/prewalk #(cond (instance? Pid %) (pid-there sender %)
                       (instance? Ref %) (ref-there sender %)
                       :else %)
                x))

(defn- signal-there ^Signal [sender signal]
  (let [there #(value-there sender %)]
    (condp instance? signal
      Signal$Message (let [^Signal$Message s signal] (Signal$Message. (there (.from s)) (there (.to s)) (there (.message s)) (.context s)))
      Signal$Exit (let [^Signal$Exit s signal] (Signal$Exit. (there (.from s)) (there (.to s)) (there (.reason s)) (.context s)))
      Signal$ExitLink (let [^Signal$ExitLink s signal] (Signal$ExitLink. (there (.from s)) (there (.to s)) (there (.reason s))))
      Signal$Link (let [^Signal$Link s signal] (Signal$Link. (there (.from s)) (there (.to s))))
      Signal$Unlink (let [^Signal$Unlink s signal] (Signal$Unlink. (there (.from s)) (there (.to s)) (.id s)))
      Signal$UnlinkAck (let [^Signal$UnlinkAck s signal] (Signal$UnlinkAck. (there (.from s)) (there (.to s)) (.id s)))
      Signal$Monitor (let [^Signal$Monitor s signal] (Signal$Monitor. (there (.from s)) (there (.to s)) (there (.ref s))))
      Signal$Demonitor (let [^Signal$Demonitor s signal] (Signal$Demonitor. (there (.from s)) (there (.to s)) (there (.ref s))))
      Signal$Down (let [^Signal$Down s signal] (Signal$Down. (there (.from s)) (there (.to s)) (there (.ref s)) (there (.reason s))))
      Signal$Spawn (let [^Signal$Spawn s signal]
                     (Signal$Spawn. (there (.from s)) (there (.ref s)) (there (.leader s)) (there (.what s)) (.link s) (.monitor s) (.context s)))
      Signal$SpawnReply (let [^Signal$SpawnReply s signal] (Signal$SpawnReply. (there (.to s)) (there (.ref s)) (there (.result s)))))))

;; ---- the transport

;; One fiber hands on what both peers are sent, since the signals and the end of a connection come one after the other. An outbox holds a byte for each
;; signal in the queue, and lets senders and the fiber wait.
(deftype Streams [^ConcurrentLinkedQueue signals ^Outbox outbox cut? ended])

(defn- streams [limit]
  (->Streams (ConcurrentLinkedQueue.) (Outbox. "the mirror" limit Long/MAX_VALUE) (atom false) (a/chan)))

(defn- take-down [{:keys [a b]}]
  (run! #(some-> ^Peer % .connection .down) [a b]))

(defn- hand-on [{:keys [a b] :as mirror} ^Streams streams]
  (when (compare-and-set! (.-cut? streams) true :done)
    (take-down mirror)
    (a/close (.-ended streams)))
  (when-some [[^Connection to signal] (.poll ^ConcurrentLinkedQueue (.-signals streams))]
    (let [sender (if (identical? a (.peer to)) b a)
          ^Connection receiver (@(:connections mirror) sender)]
      (when (identical? to (@(:connections mirror) (.peer to))) ; else of a connection before
        (.receive receiver (signal-there sender signal))))))

(defn- pump
  "Hands on what is sent until the streams are closed."
  [mirror ^Streams streams]
  (let [bytes (byte-array 1)]
    (while (pos? (.take ^Outbox (.-outbox streams) bytes 0))
      (hand-on mirror streams))))

(defn- wake [^Streams streams]
  (.add ^Outbox (.-outbox streams) (byte-array 1) 0 1 true))

(defn- transport
  "A transport whose streams are in the atom `current`."
  [current work]
  (reify Transport
    (send [_ connection signal]
      (when (and (instance? Signal$Message signal) (str/includes? (pr-str (.message ^Signal$Message signal)) ":unwritable"))
        (throw (IllegalArgumentException. "The other node cannot read :unwritable.")))
      (let [^Streams streams @current]
        (.add ^ConcurrentLinkedQueue (.-signals streams) [connection signal])
        (wake streams)))
    (awaitRoom [_ _]
      (.awaitRoom ^Outbox (.-outbox ^Streams @current)))
    (work [_ _ what] (work what))))

(defrecord Mirror [a b transport current connections limit])

(defn connect
  "Connects the two peers again."
  [{:keys [^Peer a ^Peer b transport current connections limit] :as mirror}]
  (let [streams (streams limit)]
    (reset! current streams)
    (reset! connections {a (Connection. a), b (Connection. b)})
    (run! (fn [[peer connection]] (.connect ^Peer peer transport connection)) @connections)
    (actor/spawn pump mirror streams)
    mirror))

(defn cut
  "Ends both connections, before what is on its way; returns when they are down. Signals that come later are handed on all the same."
  [{:keys [current]}]
  (let [^Streams streams @current]
    (when (compare-and-set! (.-cut? streams) false true)
      (wake streams))
    (a/take (.-ended streams))))

(defn stop
  "Ends the connections and the fiber."
  [{:keys [current] :as mirror}]
  (cut mirror)
  (.close ^Outbox (.-outbox ^Streams @current)))

(defn start
  "Connects this node with itself, as the nodes a and b of the `host`. Senders wait from `limit` signals on; `work` makes the work of a
  process that the other side asks for."
  ([] (start {}))
  ([{:keys [limit work host] :or {limit 1000000 host "mirror"}}]
   (let [current (atom nil)
         transport (transport current work)
         peer (fn [node creation] (Peers/peer (str node "@" host) creation transport))]
     (connect (->Mirror (peer "a" 101) (peer "b" 102) transport current (atom nil) limit)))))

(defn- of-peer ^Pid [^Peer peer ^Pid pid]
  (Exports/pid pid)
  (.pid peer (.serial pid)))

(defn there
  "The pid of the process as a process of the node a, which processes here send to."
  ^Pid [{:keys [a]} pid]
  (of-peer a pid))

(defn there-of-b
  "The pid of the process as a process of the node b, as what arrives from there calls it."
  ^Pid [{:keys [b]} pid]
  (of-peer b pid))

(defn entries
  "How many links, monitors and requests the connections hold."
  [{:keys [connections]}]
  (apply + (map #(.entries ^Connection %) (vals @connections))))
