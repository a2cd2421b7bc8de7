(ns magnetar.net.active
  "Data as messages: a fiber reads while the socket is active, and ends when it is not.

  A socket has at most one such fiber. It decides in one step of the state that a packet becomes a message;
  otherwise the packet stays in the input, for a receive call or the next fiber. While :handing is set it
  begins no message. The owner that sets it waits for the one under way.

  T1 is the fiber, and waits for room in the mailbox of the owner, T2, which gives the socket away. T2 would
  wait for T1. So T2 interrupts T1, which leaves its messages in :undelivered for T2 and ends. T1 reads from
  no socket after that, since :handing was set while it was :delivering, so the interrupt closes none."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.net.options :as options]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.transport :as transport])
  (:import
   (java.io IOException)
   (magnetar.kernel.fiber Fibers)
   (magnetar.kernel.process LocalProcess Pid Send)))

(set! *warn-on-reflection* true)

(defprotocol Source
  "A socket whose data may be messages. Its state is a map in an atom, with :owner, :active, :options,
  :closed, and of its fiber :reader? while there is one, :delivering, its thread while it sends messages,
  :handing and :undelivered."
  (state-of [source] "The atom of its state.")
  (lock-of [source] "The lock that a thread holds while it reads.")
  (close [source] "Closes it.")
  (await-packet [source]
    "Waits for the next packet, which stays in the input. Throws an IOException. The caller holds the lock.")
  (messages-of [source packet active]
    "Takes the packet out of the input: {:messages [..]}, with :last? true if the socket is closed then, and
    :end? true if there is nothing more to read.")
  (messages-of-failure [source cause] "The messages of an error, in the same way."))

;; ---- owners

(defn current-owner
  "The pid of this process; nil of a thread that is not a process."
  []
  (some-> (LocalProcess/current) .pid))

(defn check-owner
  "Refuses an :active that wants messages where there is no owner to get them."
  [active owner]
  (when (and active (nil? owner))
    (refusals/refuse-without-owner active)))

(defn active-at-first
  "What :active is of a new socket with this owner, or nil."
  [options owner]
  (let [active (get options :active (if owner :once false))]
    (check-owner active owner)
    active))

(defn owner-died
  "Called when a process has died that has owned it."
  [source pid]
  (when (= pid (:owner @(state-of source)))
    (close source)))

(defn settle-owner
  "Called after a new owner was set: closes the socket if that is dead. If the socket was closed meanwhile,
  the owner does not own it."
  [source]
  (let [{:keys [^Pid owner closed]} @(state-of source)]
    (cond
      closed (owned/disown owner source)
      (.ended owner) (close source))))

;; ---- the mode

(defn- begun [{:keys [closed active handing] :as state}]
  (if (and active (not closed) (not handing))
    (assoc state :delivering (Thread/currentThread) :active (options/active-after-one active))
    (assoc state :reader? false)))

(defn- begin
  "Decides that the next packet becomes a message: the state before, or nil where it does not."
  [source]
  (let [[before after] (swap-vals! (state-of source) begun)]
    (when (:delivering after)
      before)))

(defn- finished [{:keys [closed active handing] :as state}]
  (assoc state :delivering nil :reader? (boolean (and active (not closed) (not handing)))))

(defn- finish
  "The message is in the mailbox; true if the fiber reads on. An owner that gives the connection away is
  told."
  [source]
  (let [{:keys [handing owner reader?]} (swap! (state-of source) finished)]
    (when handing
      (Send/signal owner [::delivered handing]))
    reader?))

;; ---- messages

(defn word
  "Erlang's word for what has failed: the socket, the mailbox of the owner, or code of this namespace."
  [error]
  (refusals/reason error (if (instance? IOException error) :closed :einval)))

(defn- event [source messages-of]
  (when-some [{:keys [owner active]} (begin source)]
    (let [{:keys [end?] :as event} (messages-of active)]
      (when end?
        (swap! (state-of source) assoc :active false))
      (assoc event :owner owner))))

(defn- read-messages
  "Waits for the next packet: its messages with the :owner, nil if it is no message any more."
  [source]
  (transport/locked (lock-of source) clock/infinite
    #(try
       (let [packet (await-packet source)]
         (event source (fn [active] (messages-of source packet active))))
       (catch IOException e
         (event source (fn [_] (messages-of-failure source e)))))))

(defn- send-waiting
  "Sends the messages to the owner; waits while its mailbox is full. What an interrupt leaves is
  :undelivered."
  [source owner messages]
  (when-some [[message & more] (seq messages)]
    (if (try
          (Send/send owner message)
          true
          (catch InterruptedException _ false))
      (recur source owner more)
      (swap! (state-of source) assoc :undelivered messages))))

(defn- send-to-owner
  "Sends the messages to the owner. No limit of its mailbox applies to the last ones, so that it learns of the
  end."
  [source {:keys [owner last? messages]}]
  (if last?
    (do
      (close source)
      (run! #(Send/signal owner %) messages))
    (send-waiting source owner messages)))

(defn- fail
  "The fiber has failed, as its code or the mailbox of the owner does: the owner learns of it, and the socket
  is closed."
  [source e]
  (let [{:keys [owner closed]} @(state-of source)]
    (reports/report (str "reader of " source) e)
    (when-not closed
      (send-to-owner source (assoc (messages-of-failure source e) :owner owner)))))

(defn- read-all [source]
  (when-some [event (read-messages source)]
    (try
      (send-to-owner source event)
      (catch Throwable e (fail source e)))
    (when (finish source)
      (recur source))))

;; ---- its fiber

(defn- fail-and-finish
  "The fiber has failed before it had messages to send. An owner that gives the socket away does not wait for
  it."
  [source e]
  (try
    (fail source e)
    (finally (finish source))))

(defn- run-fiber [source]
  (let [fiber (Fibers/begun)]
    (try
      (read-all source)
      (catch Throwable e (fail-and-finish source e))
      (finally (Fibers/ended fiber)))))

(defn- wanted [{:keys [closed active handing reader?] :as state}]
  (if (and active (not closed) (not handing) (not reader?))
    (assoc state :reader? true)
    state))

(defn- start-fiber
  "Starts the fiber. It takes no context along: what arrives is no work of the caller's."
  [source]
  (Fibers/begin (Fibers/prepareWithoutContext (str "reader of " source) nil #(run-fiber source))))

(defn ensure-reader
  "Starts the fiber if the socket is active and has none."
  [source]
  (let [[before after] (swap-vals! (state-of source) wanted)]
    (when (and (:reader? after) (not (:reader? before)))
      (try
        (start-fiber source)
        (catch Throwable e ; of memory that runs out
          (swap! (state-of source) assoc :reader? false)
          (throw e))))
    nil))

;; ---- options

(defn- added
  "The new :active: a number is added to one that counts already."
  [before active]
  (if (and (int? before) (int? active))
    (options/check-messages (+ (long before) (long active)))
    active))

(defn- with-options [{:keys [closed] :as state} {:keys [active] :as given}]
  (cond-> (update state :options merge (dissoc given :active))
    (and (some? active) (not closed)) (update :active added active)))

(defn change-options
  "Changes the options of the state, and starts or stops the messages."
  [source given]
  (swap! (state-of source) with-options given)
  (ensure-reader source))
