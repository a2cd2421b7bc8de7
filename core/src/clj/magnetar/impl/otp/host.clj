(ns magnetar.impl.otp.host
  "What servers of each kind are made of: a process that takes one message after the other, rests, answers `magnetar.sys`, and says why it ended.

  A kind says what a message does (a Next), how the server ends, what it shows, and what it is while it rests: gen-server, gen-event and
  gen-statem are kinds."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.actor.current :refer [pdict perase pput self]]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.context :as context]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.otp.behaviour :as behaviour]
   [magnetar.impl.otp.debug :as debug]
   [magnetar.impl.otp.erlang :as erlang]
   [magnetar.impl.otp.names :as names]
   [magnetar.impl.runtime]
   [magnetar.impl.versions :as versions]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.report :as report])
  (:import
   (clojure.lang PersistentVector)
   (magnetar.impl.otp Instruments Return)
   (magnetar.impl.otp.behaviour Behaviour)
   (magnetar.kernel.fiber Cancelled Exit)
   (magnetar.kernel.process Calls$Edge Calls$Server Hosting LocalProcess Pid ProcessTable Receiver)
   (magnetar.kernel.time Durations)))

(set! *warn-on-reflection* true)

(definterface ServerContext
  (handle [message]))

(deftype Next [state debug ^long nanos])

(defn nanos
  "The nanoseconds of a duration, which may be :infinity; nil if it is not a duration."
  [x]
  (when (or (= :infinity x) (number? x) (instance? java.time.Duration x))
    (try
      (Durations/nanos x)
      (catch IllegalArgumentException _))))

(definterface Kind
  (^Object process [server message state debug]) ; what the message does: the Next
  (^Object end [server reason state message debug]) ; throws
  (^Object view [server debug]) ; what `magnetar.impl.otp.debug` wants
  (^Object idle [server state debug frame])) ; what it goes on with when it was idle

;; What a server is doing others read: the message in its hands, and the call that it waits in. Only the server writes `message`, and no message pays for a
;; fence: who reads it may be a little late, unless `call` was read before.
(deftype Server [^Behaviour behaviour ^magnetar.impl.otp.host.Kind kind who parent ^LocalProcess process
                 ^:unsynchronized-mutable message ^:volatile-mutable ^Calls$Edge call]
  ServerContext
  (handle [_ m] (set! message m))
  Calls$Server
  (handling [_] message)
  (waitsIn [_] call)
  (waitFor [_ edge] (set! call edge)))

(defn label
  "What the callback module of the server is called."
  [^Server server]
  (.-label ^Behaviour (.-behaviour server)))

(defn- pid-at
  "The pid, or that of a process that has the name here. No registry is asked, since that may be code of the program."
  [address]
  (if (instance? Pid address)
    address
    (let [[kind plain] (address/parts address)]
      (when (= :local kind)
        (ProcessTable/whereis plain)))))

(defn label-at
  "What the behaviour of the server is called that has the pid or the local name; nil if there is none."
  [address]
  (let [^LocalProcess process (some-> ^Pid (pid-at address) ProcessTable/live)
        server (some-> process .server)]
    (when (instance? Server server)
      (label server))))

(Instruments/setLabels label-at)

;; A callback that failed: the reason to exit for, and what its terminate is told.
(deftype Failed [reason bare])

;; What a gen-server takes and what its callbacks return is looked at a dozen times a call: `nth` and `count` search each time for the interface that a
;; vector has them from.
;; In `size` all branches are longs, or it would box.
(defn size
  "The number of items of a vector, 0 of all else."
  ^long [x]
  (cond
    (instance? PersistentVector x) (long (.count ^PersistentVector x))
    (vector? x) (long (count x))
    :else 0))

(defn at
  "The item of a vector that has one there."
  [x ^long i]
  (if (instance? PersistentVector x)
    (.nth ^PersistentVector x (int i))
    (nth x i)))

(defn head
  "The first of a message that is a vector."
  [message]
  (when (pos? (size message))
    (at message 0)))

;; ---- leaving a callback early

(defn- note-place
  "Keeps where the error was thrown, which its reason does not say, for the report of the crash."
  [t reason]
  (pput ::place [reason (codec/frames t)]))

(defn- reason-of
  "The reason of a callback that threw this."
  [behaviour t]
  (let [reason (codec/reason t)
        sentence (behaviour/wrong-arity behaviour t)]
    (cond-> reason sentence (assoc-in [0 :message] sentence))))

(defn- failed [behaviour t]
  (let [reason (reason-of behaviour t)]
    (cond
      (or (instance? Exit t) (instance? Cancelled t)) (Failed. reason reason)
      (contains? (ex-data t) :magnetar/exit) (do (note-place t reason) (Failed. reason reason))
      :else (Failed. reason (first reason)))))

(defn escaped
  "What a callback that threw has returned, or that it failed. After an exit signal it is neither: what was interrupted threw, and the process
  goes, for the reason that it was given."
  [^Server server behaviour t]
  (cond
    (not (.isAlive ^Pid (.pid ^LocalProcess (.-process server)))) (throw (Exit. :exiting))
    (Hosting/isContinue t) (throw t) ; it goes on as something else
    (instance? Return t) @t
    :else (failed behaviour t)))

(defmacro guarded
  "The value of the body, a callback of the server; or that it Failed. To be the last of a function: elsewhere Clojure makes a closure of it."
  [server & body]
  `(let [^Server server# ~server]
     (try ~@body (catch Throwable t# (escaped server# (.-behaviour server#) t#)))))

;; ---- the end

(defn- hidden
  "What is shown where format-status does not say it: why not, and the reason, which links and monitors learn anyway."
  [{:keys [reason]} ^String why]
  {:state (str "format-status " why) :reason reason})

(defn- redacted
  "What a report may show of a server, as the callback format-status of its callback module wants it."
  [behaviour status]
  (if-some [hide (behaviour/callback behaviour :format-status)]
    (try
      (let [shown (hide status)]
        (if (map? shown) shown (hidden status (str "returned " (codec/text shown) ", which is no map."))))
      (catch Throwable t
        (if (proc-lib/failed-here? t)
          (hidden status (str "failed: " (ex-message t)))
          (throw t))))
    status))

(defn- frames
  "The frames of the error that the reason is, or that it was noted for; what was noted is forgotten."
  [reason]
  (let [[noted place] (perase ::place)]
    (cond
      (codec/of-error? reason) (peek reason)
      (= noted reason) place)))

(defn report-crash
  "Reports that the server ends for the reason; `parts` is what is shown of its state, a map."
  [^Server server ^Behaviour behaviour reason parts message debug]
  (let [shown (redacted behaviour (assoc parts :message message :reason reason :log (vec (get-in debug [:log :events]))))]
    (pput ::proc-lib/reported true)
    (report/crash (merge {:pid (self)
                          :name (.-who server)
                          :callback-module (.-label behaviour)
                          :reason (codec/plain (:reason shown))
                          :last-message (codec/plain (:message shown))
                          :log (codec/plain (:log shown))
                          :ancestors (proc-lib/ancestors)
                          :frames (frames (:reason shown))}
                         (update-vals (select-keys shown (keys parts)) codec/plain)))))

(defn clean-up
  "Calls terminate with the arguments; the reason to exit for, which is its own if it fails."
  [server behaviour reason & arguments]
  (if-some [terminate (behaviour/callback behaviour :terminate)]
    (let [outcome (guarded server (apply terminate arguments))]
      (if (instance? Failed outcome) (.-reason ^Failed outcome) reason))
    reason))

(defn unexpected
  "Reports a message that no callback wanted."
  [^Server server message]
  (report/ignored message {:event :unexpected-message :pid (self) :name (.-who server)
                           :callback-module (label server) :message (codec/plain message)}))

;; ---- messages of sys

(defn status
  "What `magnetar.sys/get-status` shows; `parts` is what is shown of the state, a map."
  [^Server server ^Behaviour behaviour parts debug running]
  (merge {:pid (self)
          :name (.-who server)
          :callback-module (.-label behaviour)
          :status running
          :parent (.-parent server)
          :dictionary (versions/without-notes (pdict))
          :code (versions/of-dictionary (pdict))}
         (select-keys (redacted behaviour (assoc parts :log (vec (get-in debug [:log :events])))) (conj (keys parts) :log))))

(def suspended
  "What a server has in its hands while it is suspended."
  [::suspended])

(defn- on-system [^Server server [_ from request] state debug nanos]
  (let [[from request] (erlang/own from request)
        _ (when (= :suspend (first request))
            (.handle server suspended))
        [state debug] (debug/handle (.view ^Kind (.-kind server) server debug) state debug from request)]
    (.handle server nil)
    (Next. state debug nanos)))

;; ---- waiting

(defn- taken [message]
  (if (identical? Receiver/NULL message) nil message))

(defn- next-message [^LocalProcess process ^long nanos]
  (let [message (.next process nanos)]
    (if (nil? message)
      (do (.takeMessageContext process) ; of a message of sys, perhaps
          :timeout)
      (taken message))))

(declare serve)

(deftype Idle [server state frame]
  Callable
  (call [_]
    (fibers/install frame)
    (serve server (Next. state nil Durations/INFINITE))))

;; A type of its own: there may be a million servers that are not debugged.
(deftype DebuggedIdle [server state debug frame]
  Callable
  (call [_]
    (fibers/install frame)
    (serve server (Next. state debug Durations/INFINITE))))

(defn idle
  "What a passivated server continues with."
  [server state debug frame]
  (if (nil? debug)
    (Idle. server state frame)
    (DebuggedIdle. server state debug frame)))

(defn- passivate
  "Gives the thread back until there is a message, which another one handles; does not return."
  [^Server server state debug]
  (Hosting/passivate ^LocalProcess (.-process server) (.idle ^Kind (.-kind server) server state debug (fibers/frame-here))))

(defn- next-or-passivate [^Server server ^Next now]
  (let [message (.next ^LocalProcess (.-process server) 0)]
    (if (nil? message)
      (passivate server (.-state now) (.-debug now))
      (taken message))))

(defn- await-message [^Server server ^Next now]
  (if (and (.passivates ^LocalProcess (.-process server)) (= Durations/INFINITE (.-nanos now)))
    (next-or-passivate server now)
    (next-message (.-process server) (.-nanos now))))

(defn kind-of
  "What the message is for a server: a :call, a :cast or an :info."
  [message]
  (let [word (head message)]
    (cond
      (identical? :magnetar/call word) :call
      (identical? :magnetar/cast word) :cast
      :else :info)))

(defn- process-instrumented [^Server server message state debug]
  (let [begun (Instruments/handles server (kind-of message) message)]
    (try
      (let [next (.process ^Kind (.-kind server) server message state debug)]
        (.end begun nil)
        next)
      (catch Throwable t
        (.end begun t)
        (throw t)))))

(defn- handle-here [^Server server message state debug]
  (.handle server message)
  (let [next (if (Instruments/isOn)
               (process-instrumented server message state debug)
               (.process ^Kind (.-kind server) server message state debug))]
    (.handle server nil)
    next))

(defn- handle
  "Handles the message, in the context of its sender over the server's own."
  [^Server server message state debug]
  (let [^LocalProcess process (.-process server)]
    (if-some [context (.takeMessageContext process)]
      (context/handle process context #(handle-here server message state debug))
      (context/restored (handle-here server message state debug)))))

(defn- step [^Server server message state debug nanos]
  (let [word (head message)]
    (cond
      (identical? :magnetar/system word) (on-system server message state debug nanos)
      (and (identical? :EXIT word) (.-parent server) (= (.-parent server) (nth message 1 nil)) (= 3 (count message)))
      (.end ^Kind (.-kind server) server (nth message 2) state message debug)
      :else (handle server message state debug))))

(defn serve
  "Serves for ever; the process ends by what a callback returned or threw."
  [^Server server ^Next begin]
  (loop [^Next now begin]
    (let [message (await-message server now)]
      (recur (step server message (.-state now) (.-debug now) (.-nanos now))))))

;; ---- the beginning

(defn server
  "This process, made a server of the kind."
  ^Server [kind behaviour name parent passivates?]
  (let [me (LocalProcess/current)
        server (Server. behaviour kind (or name (.pid me)) parent me nil nil)]
    (.setServer me server (boolean passivates?))
    (versions/serves (.-source ^Behaviour behaviour))
    server))

(defn- fail
  "Ends a server that does not come up; the process that started it gets the answer."
  [^Server server name answer reason crash?]
  (names/unregister name)
  (when (and crash? (not (report/silent? reason)))
    (report-crash server (.-behaviour server) reason {:state nil} [:init] nil))
  (proc-lib/init-fail answer reason))

(defn begin
  "The body of the process of a server: takes the name, calls init; (up server debug value fail) goes on, unless init says that it does not come
  up; (fail reason) ends it."
  [kind behaviour argument {:keys [name debug passivates?]} parent up]
  (if-some [taken (names/register name)]
    (proc-lib/init-fail [:error [:already-started taken]] :normal)
    (let [server (server kind behaviour name parent passivates?)
          init (behaviour/callback behaviour :init)
          value (guarded server (init argument))
          [word x] (when (vector? value) value)
          two? (and (vector? value) (= 2 (count value)))]
      (cond
        (and two? (= :stop word)) (fail server name [:error x] x true)
        (and two? (= :error word)) (fail server name [:error x] :normal false)
        (= :ignore value) (fail server name :ignore :normal false)
        (instance? Failed value) (fail server name [:error (.-reason ^Failed value)] (.-reason ^Failed value) true)
        :else (up server (debug/start-debug debug) value #(fail server name [:error %] % true))))))

;; ---- starts

(def options
  "The options of a start that all kinds of servers have."
  [:name :timeout :debug :hosting :spawn-opt])

;; A test runs all scenarios with others.
(def ^:private defaults
  {:hosting :threaded})

(defn- check-hosting [hosting]
  (when-not (contains? #{:threaded :activated} hosting)
    (arguments/misuse :magnetar/bad-hosting
                      (str "The :hosting of a server is :threaded or :activated; this is " (arguments/show hosting) ".") {:hosting hosting})))

(defn- check-spawn-opt [spawn-opt hosting]
  (proc-lib/check-spawn-opt spawn-opt)
  (when (contains? spawn-opt :name)
    (arguments/misuse :magnetar/bad-options
                      (str "The :spawn-opt of a server takes no :name, this is " (arguments/show (:name spawn-opt))
                           ": give the :name beside the :spawn-opt, as in {:name :counter :spawn-opt {..}}.")
                      {:spawn-opt spawn-opt}))
  (when (and (= :activated hosting) (:platform-thread spawn-opt))
    (arguments/misuse :magnetar/bad-hosting
                      "A server on a platform thread keeps it: leave {:hosting :activated} out, or the :platform-thread of its :spawn-opt."
                      {:hosting hosting :spawn-opt spawn-opt})))

(defn- hosting [given]
  (let [said (:hosting given)]
    (if (nil? said) (:hosting defaults) said)))

(defn- check [operation {:keys [name timeout debug spawn-opt] :as given}]
  (arguments/options operation options given)
  (names/check-name name)
  (when (contains? given :timeout)
    (arguments/nanos :timeout timeout))
  (debug/check-debug debug)
  (check-hosting (hosting given))
  (check-spawn-opt spawn-opt (:hosting given)))

(defn start
  "Starts a server in step with this process: (body options parent) is what it does, `how` says :link or :keep-monitor."
  [operation label body {:keys [name timeout debug spawn-opt] :as given} how]
  (check operation given)
  (let [passivates? (= :activated (hosting given))
        parent (when (:link how) (.pid (LocalProcess/require operation)))]
    (proc-lib/start-here #(body {:name name :debug debug :passivates? passivates?} parent)
                         (merge how {:report? false :spawn-opt spawn-opt :timeout (or timeout :infinity)
                                     :label (str (or name label))}))))

(defn monitored
  "The outcome of a start that kept its monitor, as a start-monitor returns it."
  [outcome]
  (let [[how x] (when (vector? outcome) outcome)]
    (if (vector? how) [:ok [(second how) x]] outcome)))
