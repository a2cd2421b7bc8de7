(ns magnetar.gen-server.loop
  "A server at work: takes a message, calls its callback, does what that returned."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.gen-server.behaviour :as behaviour]
   [magnetar.gen-server.names :as names]
   [magnetar.impl.actor.language :as language]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.report :as report]
   [magnetar.sys.system :as system])
  (:import
   (clojure.lang IDeref)
   (magnetar.gen_server.behaviour Behaviour)
   (magnetar.kernel.park Exit)
   (magnetar.kernel.process Lendable LocalProcess Matcher Pid)
   (magnetar.kernel.time Durations)))

(set! *warn-on-reflection* true)

;; What a server is doing, for those who ask from outside: the message in its hands, and the call that it waits in.
(definterface Desk
  (handling [])
  (handle [message])
  (edge [])
  (waitFor [edge]))

;; What it is while it waits: nil, threaded; :rests, without a thread; or a function of the request, without a thread and serving callers inline.
(deftype Server [^Behaviour behaviour who parent ^LocalProcess process idle ^:volatile-mutable message ^:volatile-mutable call]
  Desk
  (handling [_] message)
  (handle [_ m] (set! message m))
  (edge [_] call)
  (waitFor [_ e] (set! call e)))

(deftype Next [state debug ^long nanos])

;; A call that the caller may do itself: the answer is there when it is served, or comes as any other.
(definterface Visitor
  (message [])
  (answer [value])
  (answered []))

(deftype Visit [message ^:unsynchronized-mutable value]
  Visitor
  (message [_] message)
  (answer [_ v] (set! value v))
  (answered [_] value))

;; A callback that failed.
(deftype Failed [reason])

(defn- head [message]
  (when (and (vector? message) (pos? (count message)))
    (nth message 0)))

;; ---- leaving a callback early

(defn return
  "An error without a stack that carries what a callback returns."
  [value]
  (proxy [Error IDeref] ["the return value of a callback, thrown outside of one" nil false false]
    (deref [] value)))

(defn- escaped
  "What a callback that threw has returned, or that it failed. After an exit signal it is neither: what was interrupted threw, and the process
  goes, for the reason that it was given."
  [^Server server t]
  (cond
    (not (.isAlive ^Pid (.pid ^LocalProcess (.-process server)))) (throw (Exit. :exiting))
    (and (instance? Error t) (instance? IDeref t)) @t
    :else (Failed. (language/reason t))))

(defmacro ^:private guarded [server & body]
  `(try ~@body (catch Throwable t# (escaped ~server t#))))

;; ---- the end

(defn- redacted
  "What a report may show of a server, as its callback format-status wants it."
  [^Server server status]
  (if-some [hide (behaviour/callback (.-behaviour server) :format-status)]
    (try
      (hide status)
      (catch Exception e {:state (str "format-status failed: " (ex-message e))}))
    status))

(defn- frames [reason]
  (when (and (vector? reason) (vector? (peek reason)) (every? string? (peek reason)))
    (peek reason)))

(defn- report-crash [^Server server reason state message debug]
  (let [shown (redacted server {:state state :message message :reason reason :log (vec (get-in debug [:log :events]))})]
    (actor/pput ::proc-lib/reported true)
    (report/crash {:pid (actor/self)
                   :name (.-who server)
                   :behaviour (.-label ^Behaviour (.-behaviour server))
                   :reason (language/plain (:reason shown))
                   :last-message (language/plain (:message shown))
                   :state (language/plain (:state shown))
                   :log (language/plain (:log shown))
                   :ancestors (proc-lib/ancestors)
                   :frames (frames (:reason shown))})))

(defn- clean-up
  "Calls terminate; the reason to exit for, which is its own if it fails."
  [^Server server reason state]
  (if-some [terminate (behaviour/callback (.-behaviour server) :terminate)]
    (let [outcome (guarded server (terminate reason state))]
      (if (instance? Failed outcome) (.-reason ^Failed outcome) reason))
    reason))

(defn- stop
  "Ends the server. `answered` is called when terminate has been."
  ([server reason state message debug] (stop server reason state message debug nil))
  ([server reason state message debug answered]
   (let [last-reason (try
                       (clean-up server reason state)
                       (finally (when answered (answered))))]
     (when-not (report/silent? last-reason)
       (report-crash server last-reason state message debug))
     (throw (Exit. last-reason)))))

;; ---- what callbacks return

(def ^:private shapes
  {:init "[:ok s], [:stop why], [:error why] or :ignore"
   :handle-call "[:reply v s], [:noreply s], [:stop why s] or [:stop why v s]"})

(defn- bad-return [^Server server callback value]
  (let [shown (language/plain value)]
    [:bad-return-value shown
     (str (name callback) " of " (.-label ^Behaviour (.-behaviour server)) " returned " (language/text value) "; it has to return "
          (shapes callback "[:noreply s] or [:stop why s]") ", the first two with a timeout, :hibernate or [:continue x] behind.")]))

(defn- nanos
  "The nanoseconds that the server waits for the next message after a callback that returned this action; nil if it is none."
  [action]
  (cond
    (or (nil? action) (= :hibernate action) (= :infinity action)) Durations/INFINITE
    (or (number? action) (instance? java.time.Duration action)) (try (Durations/nanos action) (catch IllegalArgumentException _))))

(defn- continue? [action]
  (and (vector? action) (= 2 (count action)) (= :continue (nth action 0))))

(declare interpret)

(defn- continue-with [^Server server state debug [_ argument :as message]]
  (let [handle (behaviour/callback (.-behaviour server) :handle-continue)
        value (guarded server
                       (if handle
                         (handle argument state)
                         (throw (ex-info (str "The behaviour " (.-label ^Behaviour (.-behaviour server)) " has no handle-continue, and returned "
                                              (language/text message) ".") {}))))]
    (interpret server :handle-continue message state debug value)))

(defn- proceed
  "The server goes on after a callback that returned the state and this action."
  [^Server server callback message state debug action value]
  (let [wait (nanos action)]
    (cond
      wait (Next. state debug wait)
      (continue? action) (continue-with server state debug action)
      :else (stop server (bad-return server callback value) state message debug))))

(defn- from-of [message]
  (nth message 1))

(defn- answer [^Server server message value debug]
  (let [from (from-of message)]
    (system/reply from value)
    (when debug
      (system/note debug (.-who server) [:out value (nth from 0)]))))

(defn- quit [server callback [_ why x y :as value] message old debug]
  (case (count value)
    3 (stop server why x message debug)
    4 (if (= :handle-call callback)
        (stop server why y message debug #(system/reply (from-of message) x))
        (stop server (bad-return server callback value) old message debug))
    (stop server (bad-return server callback value) old message debug)))

(defn- interpret [^Server server callback message old debug value]
  (let [size (if (vector? value) (count value) 0)
        word (head value)]
    (cond
      (and (identical? :noreply word) (<= 2 size 3))
      (proceed server callback message (nth value 1) (when debug (system/note debug (.-who server) [:noreply (nth value 1)]))
               (nth value 2 nil) value)

      (and (identical? :reply word) (<= 3 size 4) (identical? :handle-call callback))
      (let [debug (answer server message (nth value 1) debug)]
        (proceed server callback message (nth value 2) debug (nth value 3 nil) value))

      (and (identical? :stop word)) (quit server callback value message old debug)
      (instance? Failed value) (stop server (.-reason ^Failed value) old message debug)
      :else (stop server (bad-return server callback value) old message debug))))

;; ---- messages

(defn- unexpected [^Server server message state]
  (report/tell {:event :unexpected-message :level :warning :pid (actor/self) :name (.-who server)
                :behaviour (.-label ^Behaviour (.-behaviour server)) :message (language/plain message)})
  [:noreply state])

(defn- inform [^Server server message state]
  (if-some [handle (behaviour/callback (.-behaviour server) :handle-info)]
    (handle message state)
    (unexpected server message state)))

(defn- handle [^Server server message state debug]
  (let [word (head message)
        ^Behaviour behaviour (.-behaviour server)
        debug (when debug (system/note debug (.-who server) [:in message]))]
    (cond
      (identical? :magnetar/call word)
      (let [call (.-handle-call behaviour)]
        (interpret server :handle-call message state debug (guarded server (call (nth message 2) (nth message 1) state))))

      (identical? :magnetar/cast word)
      (let [cast (.-handle-cast behaviour)]
        (interpret server :handle-cast message state debug (guarded server (cast (nth message 1) state))))

      :else (interpret server :handle-info message state debug (guarded server (inform server message state))))))

(defn- change-code [^Server server state old extra]
  (if-some [change (behaviour/callback (.-behaviour server) :code-change)]
    (let [[how new :as value] (change old state extra)]
      (if (and (= :ok how) (= 2 (count value)))
        new
        (throw (ex-info (str "code-change returned " (language/text value) "; it has to return [:ok s].") {}))))
    state))

(defn- status [^Server server state debug running]
  (let [shown (redacted server {:state state :log (vec (get-in debug [:log :events]))})]
    {:pid (actor/self)
     :name (.-who server)
     :behaviour (.-label ^Behaviour (.-behaviour server))
     :status running
     :parent (.-parent server)
     :dictionary (dissoc (actor/pdict) ::desk)
     :state (:state shown)
     :log (:log shown)}))

(defn- face [^Server server debug]
  {:who (.-who server)
   :parent (.-parent server)
   :state-of identity
   :replaced (fn [state f] (f state))
   :change-code #(change-code server %1 %2 %3)
   :status #(status server %1 %2 %3)
   :terminate (fn [state reason] (stop server reason state nil debug))})

(defn- on-system [^Server server [_ from request] state debug nanos]
  (let [[state debug] (system/handle (face server debug) state debug from request)]
    (Next. state debug nanos)))

(def ^:private anything
  (reify Matcher
    (match [_ message] (if (nil? message) ::nil message))))

(defn- taken [message]
  (if (identical? ::nil message) nil message))

(defn- next-message [^LocalProcess process ^long nanos]
  (let [message (.receive process anything nanos 0)]
    (if (nil? message) :timeout (taken message))))

;; ---- a server at rest

(declare serve idle)

;; A handler that is said not to block takes less than this, in nanoseconds: who waits less than that is not served inline.
(def ^:private ^:const ^long inline-bound 1000000000)

(deftype Idle [server state debug frame]
  Callable
  (call [_]
    (fibers/install frame)
    (serve server (Next. state debug Durations/INFINITE))))

(defn- awake
  "The server goes on, on a thread of its own, with what its handler returned to a visitor."
  [^Server server message state frame value]
  (fn []
    (fibers/install frame)
    (.handle server message)
    (let [next (interpret server :handle-call message state nil value)]
      (.handle server nil)
      (serve server next))))

(defn- at-once? [value]
  (and (vector? value) (= 3 (count value)) (identical? :reply (nth value 0))))

(defn- receive-visit
  "What the server goes on with: an answer at once leaves it at rest, all else is done on a thread of its own."
  [^Server server state frame ^Visit visit]
  (let [message (.message visit)
        call (.-handle-call ^Behaviour (.-behaviour server))]
    (.handle server message)
    (let [value (guarded server (call (nth message 2) (nth message 1) state))]
      (.handle server nil)
      (if (and (at-once? value) (.isAlive ^Pid (.pid ^LocalProcess (.-process server))))
        (do (.answer visit (nth value 1))
            (idle server (nth value 2) nil frame))
        (awake server message state frame value)))))

(deftype Visitable [^Server server state debug frame]
  Lendable
  (call [_]
    (fibers/install frame)
    (serve server (Next. state debug Durations/INFINITE)))
  (takes [_ visit nanos]
    (and (nil? debug)
         (< inline-bound nanos)
         (boolean ((.-idle server) (nth (.message ^Visit visit) 2)))))
  (serve [_ visit]
    (let [callers (fibers/frame-here)]
      (if (identical? frame callers)
        (receive-visit server state frame visit)
        (try
          (fibers/install-here frame)
          (receive-visit server state frame visit)
          (finally (fibers/install-here callers)))))))

(defn- idle
  "What a server that waits without a thread goes on with."
  [^Server server state debug frame]
  (if (= :rests (.-idle server))
    (Idle. server state debug frame)
    (Visitable. server state debug frame)))

(defn- rest-until-message
  "Gives the thread back until there is a message, which another one handles; does not return."
  [^Server server state debug]
  (.rest ^LocalProcess (.-process server) (idle server state debug (fibers/frame-here))))

(defn- next-or-rest [^Server server ^Next now]
  (let [message (.receive ^LocalProcess (.-process server) anything 0 0)]
    (if (nil? message)
      (rest-until-message server (.-state now) (.-debug now))
      (taken message))))

(defn- await-message [^Server server ^Next now]
  (if (and (.-idle server) (= Durations/INFINITE (.-nanos now)))
    (next-or-rest server now)
    (next-message (.-process server) (.-nanos now))))

(defn- step [^Server server message state debug nanos]
  (let [word (head message)]
    (cond
      (identical? :magnetar/system word) (on-system server message state debug nanos)
      (and (identical? :EXIT word) (.-parent server) (= (.-parent server) (nth message 1 nil)) (= 3 (count message)))
      (stop server (nth message 2) state message debug)
      :else (do
              (.handle server message)
              (let [next (handle server message state debug)]
                (.handle server nil)
                next)))))

(defn- serve
  "Serves for ever; the process ends by what a callback returned or threw."
  [^Server server ^Next begin]
  (loop [^Next now begin]
    (let [message (await-message server now)]
      (recur (step server message (.-state now) (.-debug now) (.-nanos now))))))

;; ---- the beginning

(defn desk-of
  "The desk of the process, nil if it is no server."
  ^Desk [^LocalProcess process]
  (get (.dictionary process) ::desk))

(defn- server [behaviour name parent idle]
  (let [server (Server. behaviour (or name (actor/self)) parent (LocalProcess/current) idle nil nil)]
    (actor/pput ::desk server)
    server))

(defn enter
  "Makes this process a server with the state; does not return."
  [behaviour state {:keys [name debug action]} parent]
  (let [server (server behaviour name parent nil)
        debug (system/start-debug debug)]
    (serve server (proceed server :init nil state debug action [:ok state action]))))

(defn- fail [server name answer reason crash?]
  (names/unregister name)
  (when (and crash? (not (report/silent? reason)))
    (report-crash server reason nil [:init] nil))
  (proc-lib/init-fail answer reason))

(defn- up [^Server server state debug action value]
  (proc-lib/init-ack [:ok (actor/self)])
  (serve server (proceed server :init nil state debug action value)))

(defn- after-init [^Server server name debug value]
  (let [[word x action] (when (vector? value) value)
        size (if (vector? value) (count value) 0)]
    (cond
      (and (= :ok word) (<= 2 size 3) (or (nanos action) (continue? action))) (up server x debug action value)
      (and (= :stop word) (= 2 size)) (fail server name [:error x] x true)
      (and (= :error word) (= 2 size)) (fail server name [:error x] :normal false)
      (= :ignore value) (fail server name :ignore :normal false)
      (instance? Failed value) (fail server name [:error (.-reason ^Failed value)] (.-reason ^Failed value) true)
      :else (let [reason (bad-return server :init value)]
              (fail server name [:error reason] reason true)))))

(defn begin
  "The body of the process of a server: takes the name, calls init, serves."
  [behaviour argument {:keys [name debug idle]} parent]
  (if-some [taken (names/register name)]
    (proc-lib/init-fail [:error [:already-started taken]] :normal)
    (let [server (server behaviour name parent idle)
          init (behaviour/callback behaviour :init)]
      (after-init server name (system/start-debug debug) (guarded server (init argument))))))
