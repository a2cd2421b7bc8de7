(ns magnetar.cluster.impl.session
  "The session of this node with one member of its network: greets, proves the cookie, and then carries the stream.

  Each side sends a nonce, and proves the cookie for the nonce of the other. A side is up when the other has proved
  it. Parts of the stream have the tag of their receiver's nonce and a number, so a part of an older session, or behind
  a lost one, is found. Then the session begins again with a new nonce, which tells the other to begin again as well.
  The connection of the kernel is down in between, so links and monitors fire on both sides.

  A node that leaves sends what waits in its streams, and an end behind it. It goes when the others have answered. So
  they tell a node that has left from one that was lost. If both leave, each answers behind its own end. So each reads
  all before the answer comes. The end follows the proof if this side has no connection yet, since the other may have
  one.

  Two nodes that a program disconnects are apart: neither greets, and one that is greeted says that they are apart,
  unless a program of the other has asked for the greeting.

  At most one session of a node holds a name. While two members have one name, the older one gets it, and the other
  is up on neither side.

  A session is a process. Its connection begins and receives in it, and ends there as well, unless the session is stuck,
  as in a :read of the program. Then the hub ends the connection. It calls `notify` itself: the hub that ends it hears
  nothing meanwhile."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.cluster.impl.frames :as frames]
   [magnetar.gen-server :as gs]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (java.security SecureRandom)
   (java.util Arrays List)
   (java.util.function Consumer)
   (magnetar.cluster.wire BadStream Stream Streams Unread$Share)
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.network Member Network)
   (magnetar.kernel.process Connection Outbox Peers)))

(set! *warn-on-reflection* true)

(def ^:private retry-ms 500)

(def ^:private patience-ms
  "How long a call waits for a connection."
  10000)

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

(defn- send-frame
  "Sends what belongs to no stream."
  [{:keys [^Network network ^Member member]} frame]
  (.send network member frame))

;; ---- the stream

(def ^:private longest-part (- Network/MAX_FRAME (long frames/data-header)))

(defn- next-frame
  "The next part of the stream as a frame, or nil when the stream is closed. What waits already goes into the frame at
  once. Else the array is what the wait fills, of which the frame is a copy."
  ^bytes [^Stream stream ^bytes array tag number]
  (let [ready (min (.size stream) (long longest-part))
        target (if (pos? ready) (byte-array (+ (long frames/data-header) ready)) array)
        n (.take stream target frames/data-header)]
    (when (pos? n)
      (frames/data (if (pos? ready) target (Arrays/copyOf array (+ (long frames/data-header) n))) tag number))))

(defn- drained?
  "Has the stream ended with all that was sent?"
  [^Stream stream]
  (not (.isDropped stream)))

(defn- pump
  "Sends what is to leave until the stream is closed, and its end if nothing was dropped. Tells its session that, or that
  the stream has overflowed."
  [{:keys [^Network network ^Member member]} pid ^Stream stream ^long tag]
  (let [array (byte-array Network/MAX_FRAME)]
    (loop [number 0]
      (if-some [frame (next-frame stream array tag number)]
        (do
          (.send network member frame)
          (recur (inc number)))
        (cond
          (.hasOverflowed stream) (! pid [:slow stream])
          (drained? stream) (do
                              (.send network member (frames/end tag number))
                              (! pid [:all-sent tag])))))))

(defn- left-out [{:keys [theirs]}]
  (reify Consumer
    (accept [_ error]
      (reports/report (str "a message of the node " (:name theirs) " that cannot be read here") error))))

(defn- answer
  "Answers the calls that wait for a connection."
  [{:keys [waiting] :as session} connected?]
  (run! #(gs/reply % connected?) waiting)
  (dissoc session :waiting))

(defn- await-connection
  "The session that answers the call when it has a connection, or after some seconds."
  [session from]
  (actor/send-after patience-ms (self) [:no-longer from])
  (update session :waiting (fnil conj []) from))

(defn- give-up
  "The session that has no connection yet, for which the call waits no longer."
  [{:keys [waiting] :as session} from]
  (if (some #{from} waiting)
    (do
      (gs/reply from false)
      (assoc session :waiting (filterv #(not= from %) waiting)))
    session))

;; ---- names

(defn- older?
  "Has the member been in the network for longer than the other one? False if one of them has left."
  [{:keys [^Network network]} member other]
  (let [^List members (.members (.view network))]
    (< -1 (.indexOf members member) (.indexOf members other))))

(defn- second?
  "Is an older member in the network that has proved to have the same name?"
  [{:keys [names member theirs] :as session}]
  (some (fn [[other name]] (and (= name (:name theirs)) (older? session other member))) @names))

(defn- hold
  "The member that holds the name, and its session: this one if none did."
  [{:keys [held member theirs]}]
  ((swap! held update (:name theirs) #(or % [member (self)])) (:name theirs)))

(defn- release [{:keys [held member]}]
  (swap! held (fn [all] (into {} (remove (fn [[_ [holder]]] (= member holder))) all))))

(defn- held-by-other? [{:keys [held member theirs]}]
  (when-some [[holder] (@held (:name theirs))]
    (not= member holder)))

(defn- may-connect?
  "Has no other session the name of the other node, or a better right to it?"
  [session]
  (not (or (second? session) (held-by-other? session))))

;; ---- the connection

(defn- open
  "The session with its connection."
  [{:keys [^Streams streams codec limit largest theirs notify opened] :as session}]
  (let [{:keys [name creation]} theirs
        stream (Stream. codec name limit largest (left-out session))
        connection (.open streams (Peers/peer name creation streams) stream)]
    (reset! opened {:connection connection :name name})
    (notify [:up name])
    (-> (assoc session
               :stream stream
               :connection connection
               :next 0
               :pump (actor/spawn-link pump session (self) stream (frames/tag-of (:nonce theirs))))
        (assoc-in [:mine :asked] false)
        (answer true))))

(defn hang-up
  "Ends the connection of the session, if it has one, and tells why. Called by the session, or by the hub if that is stuck: the first one
  takes the connection out of :opened. The lock keeps the end and `read-part` apart, as a connection demands."
  [{:keys [^Streams streams opened notify] :as session} why]
  (let [[{:keys [connection name]}] (reset-vals! opened nil)]
    (when connection
      (locking connection (.close streams connection))
      (notify [:down name why])
      (release session))))

(defn- close
  "The session without its connection, of which all links and monitors have fired; why is :left, :lost or :disconnected."
  [{:keys [connection pump] :as session} why]
  (when connection
    (actor/unlink pump)
    (actor/exit pump :kill)
    (hang-up session why))
  (dissoc session :stream :connection :next :pump :all-sent :end-read))

;; ---- greetings

(defn- greet [{:keys [mine] :as session}]
  (send-frame session (frames/hello mine))
  session)

(defn- renewed
  "The session with a new nonce, so that no frame is for it that is on its way."
  [session]
  (-> session
      (dissoc :theirs :shown)
      (assoc-in [:mine :nonce] (nonce))))

(defn- begin
  "The session at its begin."
  [session]
  (greet (renewed (close session :lost))))

(defn- version
  "The version that both speak, or nil."
  [{:keys [mine theirs]}]
  (let [[[least most] [their-least their-most]] (map :versions [mine theirs])
        version (min (long most) (long their-most))]
    (when (<= (max (long least) (long their-least)) version)
      version)))

(defn- prove
  "Proves the cookie to the other, which may connect then."
  [{:keys [mine theirs cookie leaving] :as session}]
  (if-some [v (and (not leaving) (may-connect? session) (version session))]
    (do
      (send-frame session (frames/proof (:nonce theirs) v (frames/mac cookie v mine theirs)))
      (assoc session :shown true))
    session))

(defn- news?
  "Was this reason not reported of the member? It comes back after each cut."
  [{:keys [refused ^Member member]} why]
  (let [entry [(.id member) why]
        [before _] (swap-vals! refused assoc (.name member) entry)]
    (not= entry (before (.name member)))))

(defn- refuse
  "Lets the other not in: says why once, and cuts it off. The other finds the same."
  [{:keys [^Network network ^Member member] :as session} why]
  (when (news? session why)
    (reports/report (str "the node " (.name member) " is not let in") (ex-info why {:member (str member)})))
  (.cut network member)
  (dissoc session :theirs))

(defn- same-nonce? [a b]
  (and a b (frames/same? (:nonce a) (:nonce b))))

(defn- meet
  "The session when another nonce has come. The other has to have a greeting before the proof, and the first one may
  have come before it had a session."
  [{:keys [connection] :as session} hello]
  (-> (if connection (begin session) session)
      (assoc :theirs hello)
      greet))

(defn- greeted [{:keys [mine theirs] :as session} hello]
  (let [ours? (same-nonce? mine hello) ; sent back, so that this node proves the cookie to itself
        session (if (or ours? (same-nonce? theirs hello)) session (meet session hello))]
    (cond
      ours? session
      (version session) (prove session)
      :else (refuse session (str "The node " (:name mine) " speaks the versions " (:versions mine) " of the wire, and " (:name hello) " "
                                 (:versions hello) ". Update the older one.")))))

(defn- collide
  "Two nodes have one name: the younger one is told to stop."
  [{:keys [notify mine member self-member] :as session}]
  (when (older? session member self-member)
    (notify [:refused (str "The name " (:name mine) " is taken by another node of the cluster. Start this one with another name.")]))
  session)

(defn- decline
  "The session that has no right to the name, for now. If the other has its proof already, it has connected, and has to
  begin again."
  [{:keys [shown] :as session}]
  (if shown (begin session) session))

(defn- take-name
  "The session with its connection, if no older member has the name. A younger one that holds it is told to yield, and
  the next proof comes soon."
  [{:keys [names member theirs] :as session}]
  (swap! names assoc member (:name theirs))
  (if (second? session)
    (decline session)
    (let [[holder pid] (hold session)]
      (if (= member holder)
        (open (prove session)) ; no proof was sent while another one had the name, and parts of the stream follow
        (do
          (when (older? session member holder)
            (! pid [:yield member]))
          (decline session))))))

(defn- yield
  "The session when a member of the same name has come."
  [{:keys [connection member] :as session} other]
  (if (and connection (older? session other member))
    (begin session)
    session))

(defn- proved [{:keys [mine theirs cookie connection] :as session} proof]
  (cond
    (or connection (nil? theirs) (not (frames/same? (:nonce proof) (:nonce mine)))) session
    (not (and (= (:version proof) (version session))
              (frames/same? (:mac proof) (frames/mac cookie (:version proof) theirs mine))))
    (refuse session (str "The node " (:name theirs) " has another cookie than " (:name mine) ". Give all nodes of a cluster the same one."))
    (= (:name theirs) (:name mine)) (collide session)
    :else (take-name session)))

;; ---- parts of the stream

(defn- stale [session tag]
  (send-frame session (frames/reset tag))
  session)

(defn- cut-off
  "The session without its connection, whose member is cut off because of the error."
  [{:keys [^Network network member theirs] :as session} error]
  (reports/report (str "the stream of the node " (:name theirs)) error)
  (.cut network member)
  (close session :lost))

(defn- too-slow [{:keys [theirs stream limit] :as session} overflowed]
  (if (identical? overflowed stream)
    (cut-off session (ex-info (str "The node " (:name theirs) " is cut off, because it does not read what is sent to it: answers and notices of more than "
                                   (* Outbox/CUT_OFF (long limit)) " bytes wait, " Outbox/CUT_OFF " times the :buffer. Look there for what holds it up.")
                              {:node (:name theirs)}))
    session))

(defn- tell-progress
  "Lets the other side send on, when enough was processed."
  [{:keys [^Stream stream theirs] :as session}]
  (let [position (.dueToTell stream)]
    (when (pos? position)
      (send-frame session (frames/processed (frames/tag-of (:nonce theirs)) position)))))

(defn- read-part [{:keys [^Stream stream ^Connection connection] :as session} frame]
  (.read stream frame frames/data-header (reify Consumer (accept [_ signal] (locking connection (.receive connection signal)))))
  (tell-progress session)
  (update session :next inc))

(defn- processed [{:keys [^Stream stream mine] :as session} {:keys [tag position]}]
  (when (and stream (= tag (frames/tag-of (:nonce mine))))
    (.wasProcessed stream position))
  session)

(defn- behind-a-loss?
  "Is the number of the part not the next one?"
  [{:keys [next]} number]
  (not= number next))

(defn- part [{:keys [mine] :as session} {:keys [tag number bytes]}]
  (cond
    (not= tag (frames/tag-of (:nonce mine))) (stale session tag)
    (behind-a-loss? session number) (begin session)
    :else (try
            (read-part session bytes)
            (catch BadStream e (cut-off session e)))))

(defn- reset [{:keys [theirs connection] :as session} {:keys [tag]}]
  (if (and connection (= tag (frames/tag-of (:nonce theirs))))
    (begin session)
    session))

;; ---- apart

(defn- separate
  "The session that does not connect again by itself."
  [session why]
  (-> (close session why)
      renewed
      (assoc-in [:mine :asked] false)
      (assoc :apart true)
      (answer false)))

(defn- separated
  "The session when the other says that the two are apart. If a program of this node waits for a connection, and the other
  was not told that, it is now."
  [{:keys [mine waiting] :as session} {:keys [tag]}]
  (cond
    (not= tag (frames/tag-of (:nonce mine))) session
    (and (seq waiting) (not (:asked mine))) (begin (assoc-in session [:mine :asked] true))
    :else (separate session :disconnected)))

(defn- called
  "The session when a greeting comes while the two are apart. The other side may have forgotten that, after a change of its view."
  [session {:keys [asked nonce] :as hello}]
  (if asked
    (greeted (dissoc session :apart) hello)
    (do
      (send-frame session (frames/apart (frames/tag-of nonce)))
      session)))

(defn- connect [{:keys [connection apart] :as session} from]
  (cond
    connection (do (gs/reply from true) session)
    apart (begin (assoc-in (dissoc (await-connection session from) :apart) [:mine :asked] true))
    :else (await-connection session from)))

(defn- disconnect [{:keys [theirs apart] :as session} from]
  (when theirs
    (send-frame session (frames/apart (frames/tag-of (:nonce theirs)))))
  (let [session (separate session :disconnected)]
    (gs/reply from (not apart))
    session))

;; ---- the end

(defn- finish [^Stream stream]
  (.finish stream))

(defn- leave
  "The session whose node leaves: what waits is sent, and the end behind it. Without a stream the end follows the proof,
  by which the other may have connected."
  [{:keys [stream shown theirs] :as session}]
  (let [half-open (boolean (and shown theirs (nil? stream)))]
    (some-> stream finish)
    (when half-open
      (send-frame session (frames/end (frames/tag-of (:nonce theirs)) 0)))
    (assoc session :leaving true :half-open half-open)))

(defn- answer-end
  "Tells the other, which leaves too, that all was read that it had sent. That goes behind the end of this side's stream, since
  the other reads until it comes."
  [{:keys [theirs end-read all-sent] :as session}]
  (if (and end-read all-sent)
    (do
      (send-frame session (frames/ended (frames/tag-of (:nonce theirs))))
      (dissoc session :end-read))
    session))

(defn- all-sent
  "The session when the end of its stream was sent."
  [{:keys [connection theirs] :as session} tag]
  (if (and connection (= tag (frames/tag-of (:nonce theirs))))
    (answer-end (assoc session :all-sent true))
    session))

(defn- end
  "The other has left, and all that it had sent was read. It is greeted no more. If this node leaves as well, the session
  goes on until the other has read all."
  [{:keys [connection mine theirs names member leaving] :as session} {:keys [tag number]}]
  (cond
    (not= tag (frames/tag-of (:nonce mine))) session
    (and connection (behind-a-loss? session number)) (begin session)
    (and connection leaving) (answer-end (assoc session :end-read true))
    :else (do
            (when theirs
              (send-frame session (frames/ended (frames/tag-of (:nonce theirs)))))
            (swap! names dissoc member)
            (separate session :left))))

(defn- ended
  "The other has read all. It has read the end, so that was sent, also if the pump has not told it yet."
  [{:keys [mine connection] :as session} {:keys [tag]}]
  (if (and connection (= tag (frames/tag-of (:nonce mine))))
    (close (answer-end (assoc session :all-sent true)) :left)
    session))

;; ---- the process

(defn- handle-half-open
  "The session that leaves without a connection. It ends when the other has read that, or has begun again. If the other
  leaves as well, it waits for an answer to its own end; what it had sent was not read, so it has to begin again."
  [{:keys [mine theirs] :as session} {:keys [kind tag] :as parsed}]
  (let [ours? (= tag (frames/tag-of (:nonce mine)))]
    (cond
      (and ours? (= :data kind)) (stale session tag)
      (and ours? (= :end kind)) (do (send-frame session (frames/ended (frames/tag-of (:nonce theirs)))) session)
      (or (and ours? (= :ended kind))
          (and (= :hello kind) (not (same-nonce? theirs parsed)))) (dissoc session :half-open)
      :else session)))

(defn- handle-apart [session {:keys [kind] :as parsed}]
  (if (= :hello kind)
    (called session parsed)
    session))

(defn- handle [session {:keys [kind] :as parsed}]
  (case kind
    :hello (greeted session parsed)
    :proof (proved session parsed)
    :data (part session parsed)
    :processed (processed session parsed)
    :reset (reset session parsed)
    :end (end session parsed)
    :ended (ended session parsed)
    :apart (separated session parsed)
    session))

(defn- read-frame [{:keys [^Unread$Share share apart half-open] :as session} ^bytes frame]
  (let [handler (cond half-open handle-half-open apart handle-apart :else handle)
        session (handler session (frames/parsed frame))]
    (.read share (alength frame))
    session))

(defn- serve [current {:keys [connection apart leaving half-open] :as session}]
  (vreset! current session)
  (when-not (and leaving (nil? connection) (not half-open))
    (receive
      [:frame bytes] (recur current (read-frame session bytes))
      [:connect from] (recur current (connect session from))
      [:no-longer from] (recur current (give-up session from))
      [:yield other] (recur current (yield session other))
      [:disconnect from] (recur current (disconnect session from))
      [:slow stream] (recur current (too-slow session stream))
      [:all-sent tag] (recur current (all-sent session tag))
      :leave (recur current (leave session))
      :gone (vreset! current (close session :lost)) ; also if this node leaves: the other has not answered
      (after (if (or connection apart half-open) :infinity retry-ms) (recur current (greet session))))))

(defn- wait
  "Waits for the pause, if there is one, and drops what comes meanwhile. False if there is nothing to do after it."
  [{:keys [pause ^Unread$Share share]}]
  (when pause
    (actor/send-after pause (self) :begin))
  (or (nil? pause)
      (loop []
        (receive
          :begin true
          [:frame bytes] (do (.read share (alength ^bytes bytes)) (recur))
          :gone false
          :leave false))))

(defn run
  "The work of the session's process, until it is told that the member is gone, or this node has left it. It
  begins after the :pause, in milliseconds."
  [{:keys [names member] :as session}]
  (let [current (volatile! nil)]
    (try
      (when (wait session)
        (serve current (begin session)))
      (finally
        (hang-up session :lost) ; it has failed, or was killed
        (release session) ; it may have failed in between
        (answer @current false)
        (swap! names dissoc member)))))
