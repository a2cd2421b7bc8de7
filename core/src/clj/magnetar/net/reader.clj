(ns magnetar.net.reader
  "Data as messages: a fiber reads while the connection is active, and ends when it is not.

  A connection has at most one such fiber. It decides in one step of the state that a packet becomes a message; otherwise the packet stays in
  the input, for `recv` or the next fiber. While :handing is set it begins no message. The owner that sets it waits for the one under way."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.net.connection :as connection]
   [magnetar.net.framing :as framing]
   [magnetar.net.options :as options]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.transport :as transport])
  (:import
   (java.io IOException)
   (magnetar.kernel.fiber Fibers)
   (magnetar.kernel.process Send)
   (magnetar.net.connection Connection)))

(set! *warn-on-reflection* true)

;; ---- the mode

(defn- after-one [active]
  (cond
    (true? active) true
    (and (int? active) (< 1 (long active))) (dec (long active))
    :else false))

(defn- begun [{:keys [closed active handing] :as state}]
  (if (and active (not closed) (not handing))
    (assoc state :delivering? true :active (after-one active))
    (assoc state :reader? false)))

(defn- begin
  "Decides that the next packet becomes a message: the state before, or nil where it does not."
  [^Connection conn]
  (let [[before after] (swap-vals! (.-state conn) begun)]
    (when (:delivering? after)
      before)))

(defn- finished [{:keys [closed active handing] :as state}]
  (assoc state :delivering? false :reader? (boolean (and active (not closed) (not handing)))))

(defn- finish
  "The message is in the mailbox; true if the fiber reads on. An owner that gives the connection away is told."
  [^Connection conn]
  (let [{:keys [handing owner reader?]} (swap! (.-state conn) finished)]
    (when handing
      (Send/signal owner [::delivered handing]))
    reader?))

;; ---- messages

(defn- messages-of [^Connection conn packet {:keys [active]}]
  (cond
    (nil? packet) [[:tcp-closed conn]]
    (framing/packet? packet) (cond-> [[:tcp conn (connection/take-packet conn packet)]]
                               (= 1 active) (conj [:tcp-passive conn]))
    :else [[:tcp-error conn (if (= :too-long packet) :emsgsize :einval)] [:tcp-closed conn]]))

(defn- next-messages
  "Waits for the next packet: its messages with the :owner, nil if it is no message any more."
  [^Connection conn]
  (let [packet (connection/await-packet conn nil clock/infinite)]
    (when-some [before (begin conn)]
      {:owner (:owner before) :last? (not (framing/packet? packet)) :messages (messages-of conn packet before)})))

(defn- failure-messages [conn ^IOException e]
  (when-some [before (begin conn)]
    {:owner (:owner before)
     :last? true
     :messages [[:tcp-error conn (refusals/reason e :closed)] [:tcp-closed conn]]}))

(defn- read-messages [^Connection conn]
  (transport/locked (.-reading conn) clock/infinite
    #(try
       (next-messages conn)
       (catch IOException e
         (failure-messages conn e)))))

(defn- send-to-owner
  "Sends the messages to the owner; waits while its mailbox is full."
  [conn {:keys [owner last? messages]}]
  (when last?
    (connection/close conn))
  (run! #(Send/send owner %) messages))

(defn- read-all [conn]
  (when-some [event (read-messages conn)]
    (try
      (send-to-owner conn event)
      (catch Throwable e
        (finish conn)
        (throw e)))
    (when (finish conn)
      (recur conn))))

;; ---- its fiber

(defn- run-fiber [^Connection conn]
  (let [fiber (Fibers/begun)]
    (try
      (read-all conn)
      (catch Throwable e
        (connection/close conn)
        (reports/report (str "reader of " conn) e))
      (finally (Fibers/ended fiber)))))

(defn- wanted [{:keys [closed active handing reader?] :as state}]
  (if (and active (not closed) (not handing) (not reader?))
    (assoc state :reader? true)
    state))

(defn ensure-reader
  "Starts the fiber if the connection is active and has none. It takes no context along: what arrives is no work of the caller's."
  [^Connection conn]
  (let [[before after] (swap-vals! (.-state conn) wanted)]
    (when (and (:reader? after) (not (:reader? before)))
      (Fibers/begin (Fibers/prepareWithoutContext (str "reader of " conn) nil #(run-fiber conn))))
    nil))

;; ---- options

(defn- added
  "The new :active: a number is added to one that counts already."
  [before active]
  (if (and (int? before) (int? active))
    (min options/most-messages (+ (long before) (long active)))
    active))

(defn- with-options [{:keys [closed] :as state} {:keys [active] :as given}]
  (cond-> (update state :options merge (dissoc given :active))
    (and (some? active) (not closed)) (update :active added active)))

(defn set-options
  "Changes the options of an open connection."
  [^Connection conn {:keys [active] :as given}]
  (connection/check-open "set-options" conn)
  (connection/check-owner active (:owner (connection/state conn)))
  (transport/set-options (.-socket conn) given)
  (swap! (.-state conn) with-options given)
  (ensure-reader conn))
