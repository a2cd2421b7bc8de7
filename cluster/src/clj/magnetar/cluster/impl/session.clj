(ns magnetar.cluster.impl.session
  "The session of this node with one member of its network: greets, proves the cookie, and then carries the stream.

  Each side sends a nonce, and proves the cookie for the nonce of the other. A side is up when the other has proved
  it. Parts of the stream have the tag of their receiver's nonce and a number, so a part of an older session, or behind
  a lost one, is found. Then the session begins again with a new nonce, which tells the other to begin again as well.
  The connection of the kernel is down in between, so links and monitors fire on both sides.

  A session is a process. Its connection begins, receives and ends in it."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! receive after]]
   [magnetar.cluster.impl.frames :as frames]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (java.security SecureRandom)
   (java.util List)
   (java.util.function Consumer)
   (magnetar.cluster.wire BadStream Stream Streams)
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.network Member Network)
   (magnetar.kernel.process Connection Peers)))

(set! *warn-on-reflection* true)

(def ^:private retry-ms 500)

(defonce ^:private ^SecureRandom random (SecureRandom.))

(defn- nonce
  "Random bytes; in a simulation they follow from its seed."
  ^bytes []
  (let [bytes (byte-array frames/nonce-size)]
    (if (environment/simulated?)
      (let [fiber (Fiber/current)]
        (dotimes [i (alength bytes)]
          (aset bytes i (unchecked-byte (.random fiber 256)))))
      (.nextBytes random bytes))
    bytes))

(defn- send-frame [{:keys [^Network network ^Member member]} frame]
  (.send network member frame))

;; ---- the stream

(defn- pump
  "Sends what is to leave until the stream is closed."
  [session ^Stream stream ^long tag]
  (let [array (byte-array Network/MAX_FRAME)]
    (loop [number 0]
      (let [n (.take stream array frames/data-header)]
        (when (pos? n)
          (send-frame session (frames/data array n tag number))
          (recur (inc number)))))))

(defn- left-out [{:keys [theirs]}]
  (reify Consumer
    (accept [_ error]
      (reports/report (str "a message of the node " (:name theirs) " that cannot be read here") error))))

(defn- open
  "The session with its connection."
  [{:keys [^Streams streams codec limit largest theirs hub] :as session}]
  (let [{:keys [name creation]} theirs
        stream (Stream. codec name limit largest (left-out session))
        connection (.open streams (Peers/peer name creation streams) stream)]
    (! hub [:up name])
    (assoc session
           :stream stream
           :connection connection
           :next 0
           :pump (actor/spawn-link pump session stream (frames/tag-of (:nonce theirs))))))

(defn- close
  "The session without its connection, of which all links and monitors have fired."
  [{:keys [^Streams streams connection pump theirs hub] :as session}]
  (when connection
    (actor/unlink pump)
    (actor/exit pump :kill)
    (.close streams connection)
    (! hub [:down (:name theirs)]))
  (dissoc session :stream :connection :next :pump))

;; ---- greetings

(defn- greet [{:keys [mine] :as session}]
  (send-frame session (frames/hello mine))
  session)

(defn- begin
  "The session at its begin, with a new nonce."
  [session]
  (-> (close session)
      (dissoc :theirs)
      (assoc-in [:mine :nonce] (nonce))
      greet))

(defn- version
  "The version that both speak, or nil."
  [{:keys [mine theirs]}]
  (let [[[least most] [their-least their-most]] (map :versions [mine theirs])
        version (min (long most) (long their-most))]
    (when (<= (max (long least) (long their-least)) version)
      version)))

(defn- prove [{:keys [mine theirs cookie] :as session}]
  (when-some [v (version session)]
    (send-frame session (frames/proof (:nonce theirs) v (frames/mac cookie v mine theirs))))
  session)

(defn- refuse
  "Lets the other not in: says why, and cuts it off. The other finds the same."
  [{:keys [^Network network ^Member member] :as session} why]
  (reports/report (str "the node " (.name member) " is not let in") (ex-info why {:member (str member)}))
  (.cut network member)
  (dissoc session :theirs))

(defn- same-nonce? [a b]
  (and a b (frames/same? (:nonce a) (:nonce b))))

(defn- greeted [{:keys [mine theirs connection] :as session} hello]
  (let [session (if (and connection (not (same-nonce? theirs hello))) (begin session) session)
        session (if (same-nonce? theirs hello) session (assoc session :theirs hello))]
    (if (version session)
      (prove session)
      (refuse session (str "The node " (:name mine) " speaks the versions " (:versions mine) " of the wire, and " (:name hello) " "
                           (:versions hello) ". Update the older one.")))))

(defn- older?
  "Has the member been in the network for longer than this node?"
  [{:keys [^Network network member self]}]
  (let [^List members (.members (.view network))]
    (< (.indexOf members member) (.indexOf members self))))

(defn- collide
  "Two nodes have one name: the younger one is told to stop."
  [{:keys [hub mine] :as session}]
  (when (older? session)
    (! hub [:refused (str "The name " (:name mine) " is taken by another node of the cluster. Start this one with another name.")]))
  session)

(defn- proved [{:keys [mine theirs cookie connection] :as session} proof]
  (cond
    (or connection (nil? theirs) (not (frames/same? (:nonce proof) (:nonce mine)))) session
    (not (and (= (:version proof) (version session))
              (frames/same? (:mac proof) (frames/mac cookie (:version proof) theirs mine))))
    (refuse session (str "The node " (:name theirs) " has another cookie than " (:name mine) ". Give all nodes of a cluster the same one."))
    (= (:name theirs) (:name mine)) (collide session)
    :else (open session)))

;; ---- parts of the stream

(defn- stale [session tag]
  (send-frame session (frames/reset tag))
  session)

(defn- read-part [{:keys [^Stream stream ^Connection connection] :as session} frame]
  (.read stream frame frames/data-header (reify Consumer (accept [_ signal] (.receive connection signal))))
  (update session :next inc))

(defn- behind-a-loss?
  "Is the number of the part not the next one?"
  [{:keys [next]} number]
  (not= number next))

(defn- part [{:keys [mine theirs ^Network network member] :as session} {:keys [tag number bytes]}]
  (cond
    (not= tag (frames/tag-of (:nonce mine))) (stale session tag)
    (behind-a-loss? session number) (begin session)
    :else (try
            (read-part session bytes)
            (catch BadStream e
              (reports/report (str "the stream of the node " (:name theirs)) e)
              (.cut network member)
              (close session)))))

(defn- reset [{:keys [theirs connection] :as session} {:keys [tag]}]
  (if (and connection (= tag (frames/tag-of (:nonce theirs))))
    (begin session)
    session))

;; ---- the process

(defn- handle [session frame]
  (let [{:keys [kind] :as parsed} (frames/parsed frame)]
    (case kind
      :hello (greeted session parsed)
      :proof (proved session parsed)
      :data (part session parsed)
      :reset (reset session parsed)
      session)))

(defn- serve [current {:keys [connection] :as session}]
  (vreset! current session)
  (receive
    [:frame bytes] (recur current (handle session bytes))
    :left (vreset! current (close session))
    (after (if connection :infinity retry-ms) (recur current (greet session)))))

(defn run
  "The work of the session's process, until it is told that the member has left."
  [{:keys [^Streams streams] :as session}]
  (let [current (volatile! nil)]
    (try
      (serve current (begin session))
      (finally
        (when-some [connection (:connection @current)] ; it has failed, or was killed
          (.close streams connection))))))
