(ns magnetar.gen-server.loop
  "A server at work: takes a message, calls its callback, does what that returned."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.gen-server.behaviour :as gen-server]
   [magnetar.gen-server.queue-age :as queue-age]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.context :as context]
   [magnetar.impl.otp.behaviour :as behaviour]
   [magnetar.impl.otp.debug :as debug]
   [magnetar.impl.otp.host :as host :refer [at guarded head size]]
   [magnetar.impl.otp.reply :as reply]
   [magnetar.impl.otp.shedding]
   [magnetar.impl.runtime]
   [magnetar.impl.stamped]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.report :as report])
  (:import
   (clojure.lang MapEntry)
   (magnetar.impl.otp.behaviour Behaviour)
   (magnetar.impl.otp.host Failed Kind Next Server)
   (magnetar.impl.otp.shedding Refused Sheds)
   (magnetar.impl.stamped Stamped)
   (magnetar.kernel.fiber Exit Fiber)))

(set! *warn-on-reflection* true)

;; ---- the end

(defn- stop
  "Ends the server. `answered` is called when terminate has been, and a crash is reported."
  ([server reason state message debug] (stop server reason state message debug nil))
  ([^Server server reason state message debug answered]
   (let [last-reason (try
                       (host/clean-up server (.-behaviour server) reason reason state)
                       (catch Throwable t
                         (when answered (answered))
                         (throw t)))]
     (when-not (report/silent? last-reason)
       (host/report-crash server (.-behaviour server) last-reason {:state state} message debug))
     (when answered (answered))
     (throw (Exit. last-reason)))))

;; ---- what callbacks return

(def ^:private shapes
  {:init "[:ok state], [:stop reason], [:error reason] or :ignore; the first"
   :handle-call "[:reply value state], [:noreply state], [:stop reason state] or [:stop reason value state]; the first two"})

(defn- bad-return [^Server server callback value]
  (let [shown (codec/plain value)]
    [:bad-return-value shown
     (str (name callback) " of " (host/label server) " returned " (codec/text value) "; it has to return "
          (shapes callback "[:noreply state] or [:stop reason state]; the first") " may end with a timeout, :hibernate or [:continue x].")]))

(defn- nanos
  "The nanoseconds that the server waits for the next message after a callback that returned this action;
  nil if this is not an action."
  [action]
  (if (or (identical? :infinity action) (identical? :hibernate action))
    clock/infinite
    (host/nanos action)))

(defn- action-at
  "The action that a callback returned at this place; where the value is at an end, to wait for a message. A nil there is no action, so that a
  time-out that is missing is no wait without end."
  [value ^long place]
  (if (< place (size value)) (at value place) :infinity))

(defn- continue? [action]
  (and (vector? action) (= 2 (count action)) (= :continue (nth action 0))))

(declare interpret)

(defn- lacking
  "The callback of a server that was started without it: what was defined since, or an error that says what is
  missing, and what was asked for."
  [^Server server word what]
  (let [^Behaviour behaviour (.-behaviour server)]
    (or (behaviour/callback behaviour word)
        (gen-server/without (.-label behaviour) (.-source behaviour) word what))))

;; A callback has returned [:continue x]: what is done next, before any message.
(deftype Continuing [state debug action])

(defn- continue-with [^Server server ^Continuing now]
  (let [[_ argument :as message] (.-action now)
        state (.-state now)
        value (guarded server
                       (context/restored ((lacking server :handle-continue (codec/text message)) argument state)))]
    (interpret server :handle-continue message state (.-debug now) value)))

(defn- next-of
  "The Next when all is done that has to be before any message. A server may go on so for ever: it takes no stack, and an exit signal ends it."
  [server now]
  (if (instance? Next now)
    now
    (do (.enter (Fiber/current))
        (recur server (continue-with server now)))))

(defn- proceed
  "The server goes on after a callback that returned the state and this action."
  [^Server server callback message state debug action value]
  (let [wait (nanos action)]
    (cond
      wait (Next. state debug wait)
      (continue? action) (Continuing. state debug action)
      :else (stop server (bad-return server callback value) state message debug))))

(defn- from-of [message]
  (at message 1))

(defn- answer [^Server server message value debug]
  (let [from (from-of message)]
    (reply/reply from value)
    (when debug
      (debug/note debug (.-who server) [:out value (nth from 0)]))))

(defn- quit [server callback [_ why x y :as value] message old debug]
  (case (count value)
    3 (stop server why x message debug)
    4 (if (= :handle-call callback)
        (stop server why y message debug #(reply/reply (from-of message) x))
        (stop server (bad-return server callback value) old message debug))
    (stop server (bad-return server callback value) old message debug)))

(defn- interpret [^Server server callback message old debug value]
  (let [size (size value)
        word (head value)]
    (cond
      (and (identical? :noreply word) (<= 2 size 3))
      (proceed server callback message (at value 1) (when debug (debug/note debug (.-who server) [:noreply (at value 1)]))
               (action-at value 2) value)

      (and (identical? :reply word) (<= 3 size 4) (identical? :handle-call callback))
      (let [debug (answer server message (at value 1) debug)]
        (proceed server callback message (at value 2) debug (action-at value 3) value))

      (and (identical? :stop word)) (quit server callback value message old debug)
      (instance? Failed value) (stop server (.-reason ^Failed value) old message debug)
      :else (stop server (bad-return server callback value) old message debug))))

;; ---- messages

(defn- inform [^Server server message state]
  (if-some [handle (behaviour/callback (.-behaviour server) :handle-info)]
    (handle message state)
    (do
      (host/unexpected server message)
      [:noreply state])))

(defn- call-anyway [server message state]
  ((lacking server :handle-call (str "the call " (codec/text (at message 2)) " of " (at (at message 1) 0)))
   (at message 2) (at message 1) state))

(defn- cast-anyway [server message state]
  ((lacking server :handle-cast (str "the cast " (codec/text (at message 1)))) (at message 1) state))

(defn- on-call [server call message state]
  (guarded server (if call
                    (call (at message 2) (at message 1) state)
                    (call-anyway server message state))))

(defn- on-cast [server cast message state]
  (guarded server (if cast
                    (cast (at message 1) state)
                    (cast-anyway server message state))))

(defn- on-info [server message state]
  (guarded server (inform server message state)))

;; Another node may send what only begins as a request. Such a message is one without a meaning, as all else that comes.

(defn- call?
  "Is a message that begins as a call one?"
  [message]
  (and (= 3 (size message))
       (let [from (at message 1)]
         (or (instance? MapEntry from) (= 2 (size from))))))

(defn- handle [^Server server message state debug]
  (let [word (head message)
        ^Behaviour behaviour (.-behaviour server)
        debug (when debug (debug/note debug (.-who server) [:in message]))]
    (cond
      (and (identical? :magnetar/call word) (call? message))
      (interpret server :handle-call message state debug (on-call server (.-handle-call behaviour) message state))

      (and (identical? :magnetar/cast word) (= 2 (size message)))
      (interpret server :handle-cast message state debug (on-cast server (.-handle-cast behaviour) message state))

      :else (interpret server :handle-info message state debug (on-info server message state)))))

(defn- change-code [^Server server state old extra]
  (if-some [change (behaviour/callback (.-behaviour server) :code-change)]
    (let [[how new :as value] (change old state extra)]
      (if (and (= :ok how) (= 2 (count value)))
        new
        (throw (ex-info (str "code-change returned " (codec/text value) "; it has to return [:ok s].") {}))))
    state))

(defn debug-view
  "What `magnetar.sys` asks a server."
  [^Server server debug]
  {:who (.-who server)
   :parent (.-parent server)
   :state-of identity
   :replaced (fn [state f] (f state))
   :change-code #(change-code server %1 %2 %3)
   :status #(host/status server (.-behaviour server) {:state %1} %2 %3)
   :terminate (fn [state reason] (stop server reason state nil debug))})

(def kind
  "The kind of server that gen-server is."
  (reify Kind
    (process [_ server message state debug] (next-of server (handle server message state debug)))
    (end [_ server reason state message debug] (stop server reason state message debug))
    (view [_ server debug] (debug-view server debug))
    (idle [_ server state debug frame] (host/idle server state debug frame))))

;; ---- servers that shed calls

(defn- judge
  "Counts the call in `ages`, an atom. Returns nil if the call may pass, else what a callback would return to refuse it."
  [ages limits ^Stamped call state]
  (let [at (clock/now)
        sent (.-sent call)
        judged (swap! ages queue-age/counted limits {:at at :sent sent :due (.-due call)})]
    (case (:verdict judged)
      nil nil
      :expired [:noreply state]
      :shed [:reply (Refused. (quot (- at sent) 1000000)) state])))

(defn- handle-stamped [^Server server ages limits message state debug]
  (let [^Stamped call (at message 2)
        message (assoc message 2 (.-request call))]
    (.handle server message) ; what others read of it, as they read it of any server
    (if-some [refused (judge ages limits call state)]
      (interpret server :handle-call message state (when debug (debug/note debug (.-who server) [:in message])) refused)
      (handle server message state debug))))

(defn- stamped? [message]
  (and (identical? :magnetar/call (head message))
       (call? message)
       (instance? Stamped (at message 2))))

(defn shedding
  "The kind of a server that refuses calls which have waited for too long, as `magnetar.gen-server.queue-age` judges them."
  [limits]
  (let [ages (atom queue-age/idle)]
    (reify Kind
      (process [_ server message state debug]
        (next-of server (if (stamped? message)
                          (handle-stamped server ages limits message state debug)
                          (handle server message state debug))))
      (end [_ server reason state message debug] (stop server reason state message debug))
      (view [_ server debug] (update (debug-view server debug) :status #(comp (fn [shown] (assoc shown :shed (queue-age/counts @ages))) %)))
      (idle [_ server state debug frame] (host/idle server state debug frame))
      Sheds)))

;; ---- the beginning

(defn enter
  "Makes this process a server with the state; does not return."
  [behaviour state {:keys [name debug action] :or {action :infinity}} parent]
  (let [server (host/server kind behaviour name parent nil)
        debug (debug/start-debug debug)]
    (host/serve server (next-of server (proceed server :init nil state debug action [:ok state action])))))

(defn- up [server debug value fail]
  (let [[word state] (when (vector? value) value)
        action (action-at value 2)]
    (if (and (= :ok word) (<= 2 (count value) 3) (or (nanos action) (continue? action)))
      (do
        (proc-lib/init-ack [:ok (actor/self)])
        (host/serve server (next-of server (proceed server :init nil state debug action value))))
      (fail (bad-return server :init value)))))

(defn begin
  "The body of the process of a server of this kind: takes the name, calls init, serves."
  ([behaviour argument options parent] (begin kind behaviour argument options parent))
  ([kind behaviour argument options parent]
   (host/begin kind behaviour argument options parent up)))
