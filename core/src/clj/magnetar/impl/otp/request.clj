(ns magnetar.impl.otp.request
  "Requests to servers: sends them, waits for the answer, and words the failure when none comes."
  {:no-doc true}
  (:refer-clojure :exclude [cast])
  (:require
   [clojure.main :as main]
   [clojure.string :as str]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.actor.send :refer [!]]
   [magnetar.impl.actor.servers :as servers]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.otp.erlang :as erlang]
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.otp.reply :as reply]
   [magnetar.impl.otp.shedding :as shedding]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.impl.transactions :as transactions]
   [magnetar.proc-lib :as proc-lib])
  (:import
   (java.util.function Predicate)
   (magnetar TimeoutException)
   (magnetar.impl.otp Instruments)
   (magnetar.impl.otp.shedding Refused)
   (magnetar.kernel.process Aliases Calls Calls$Failed Calls$Why LocalProcess Monitors Pid ProcessTable Ref Ref$Alias RemoteName Send)))

(set! *warn-on-reflection* true)

;; ---- what a server is doing

(defn- frame-text [^StackTraceElement frame]
  (str (main/demunge (.getClassName frame)) " at " (.getFileName frame) ":" (.getLineNumber frame)))

(defn- place-of [thread]
  (some-> (reports/frame-of thread) frame-text))

(defn- carries? ^Predicate [ref]
  (reify Predicate
    (test [_ message] (codec/request? ref message))))

(defn- held
  "What the server has in its hands."
  [^LocalProcess process]
  (when-some [server (.server process)]
    (.waitsIn server) ; a reader that sees in which call it waits sees the message in its hands too, which was written before
    (.handling server)))

(defn- queued?
  "True if the thread could run and waits for a carrier. Only the text of a virtual thread tells."
  [thread]
  (str/ends-with? (str thread) "/runnable"))

(defn doing
  "What the server is doing, for the caller whose request has the reference; nil if it is dead."
  [pid ref]
  (when-some [^LocalProcess process (when-not (nodes/elsewhere? pid) (ProcessTable/live pid))]
    (let [info (.info process)
          before (.find process (carries? ref))
          held (held process)
          suspended (or (.suspended info) (identical? host/suspended held))]
      {:blocked-in (when (and held (not suspended)) (place-of (.thread info)))
       :handling (when-not suspended (some-> held codec/plain))
       :handles-this (.test (carries? ref) held)
       :suspended suspended
       :no-carrier (queued? (.thread info))
       :mailbox (.messages info)
       :number (when-not (neg? before) (inc before))})))

(defn- in-words [message]
  (let [[word a b] (when (vector? message) message)]
    (case word
      :magnetar/call (str "the call " (codec/text b) " of " (if (vector? a) (first a) (codec/text a)))
      :magnetar/cast (str "the cast " (codec/text a))
      (str "the message " (codec/text message)))))

(defn- how-many [n]
  (case (long n) 0 "no message is", 1 "one message is", (str n " messages are")))

(defn- doing-text [made? {:keys [blocked-in handling handles-this suspended no-carrier mailbox number]}]
  (str (if made? "The process " "The server ")
       (cond
         suspended "is suspended"
         handles-this "is handling this very call"
         handling (str "is handling " (in-words handling))
         (and number no-carrier) "is ready to run, but waits for a carrier: fibers that compute or block may occupy all of them, see (magnetar.inspect/runtime)"
         number "waits for messages"
         made? "has not answered"
         :else "has taken this call, answers later or has postponed it, and waits for messages")
       (when blocked-in (str ", in " blocked-in))
       "; " (how-many mailbox) " in its mailbox"
       (when number (str ", yours is number " number))
       ". Give the call a longer :timeout, or {:else value}" (when-not made? ", or let the server answer later, by `reply`") "."))

;; ---- failures

(def ^:private by-gen-server 'magnetar.gen-server/call)

;; An operation is a qualified symbol, if the program gave it the address, the request and the time-out. It is a vector [operation address & arguments]
;; of what the program called, if the library has made the request of it: [magnetar.agent/get :hits f 5000]. No program can `reply` to such a request.

(defn- called
  "What the program called: [operation address & arguments]."
  [operation address message timeout]
  (if (vector? operation) operation [operation address message timeout]))

(defn- call-of [[operation & args]]
  (timeouts/call operation args))

(defn- sentence [operation address message why more]
  (str (if (vector? operation)
         (str "`" (first operation) "` of " (arguments/show address))
         (str "The call of " (arguments/show address) " with " (arguments/show message)))
       " failed: " why ". " more))

(defn- failed [operation reason address message timeout pid note]
  (let [call (call-of (called operation address message timeout))]
    (errors/failure (sentence operation address message (reasons/text reason) note)
      {:magnetar/reason :magnetar/call-failed
       :reason reason
       :call call
       :server pid
       :magnetar/exit [reason call]})))

(defn- late [operation address message timeout pid ref]
  (let [state (doing pid ref)
        [function & args :as public] (called operation address message timeout)
        why (str (reasons/text :timeout) " after " (arguments/show-duration timeout))
        more (cond
               state (doing-text (vector? operation) state)
               (nodes/elsewhere? pid) "The server is on another node, which is connected. Ask it there, by `sys/get-status` or inspect."
               :else "The server has ended.")]
    (timeouts/error (sentence operation address message why more) function address timeout args
                    {:reason :timeout :call (call-of public) :server pid :doing state})))

;; ---- calls

(defn- callable
  "The pid or RemoteName that was found, which has to be another process than this one."
  [^LocalProcess me found operation address message timeout]
  (let [pid (or found
                (throw (failed operation (servers/absent address) address message timeout nil (servers/absent-note address))))]
    (when (.equals (.pid me) pid)
      (throw (failed operation :calling-self address message timeout pid
                     "A server that calls itself waits for itself: call the function that does the work, or cast.")))
    pid))

(defn- find-server
  "The pid of the server, which is another process than this one; or its RemoteName."
  [me operation address message timeout]
  (callable me (if (instance? Pid address) address (servers/server "call" address)) operation address message timeout))

(defn- time-out? [end]
  (and (instance? Calls$Failed end) (identical? Calls$Why/TIMEOUT (.why ^Calls$Failed end))))

(defn- ended
  "The error of a call whose server has ended, or was lost with its node."
  [reason operation pid address message timeout]
  (if (and (= :noconnection reason) (nodes/elsewhere? pid))
    (failed operation [:nodedown (nodes/name-of pid)] address message timeout pid
            "This node is not connected with that node, or the connection with it has ended: then the server may have had the request.")
    (failed operation reason address message timeout pid "The server has ended.")))

(defn- unanswered
  "The error of a call that has failed before its time was over."
  [^Calls$Failed end operation pid address message timeout]
  (condp identical? (.why end)
    Calls$Why/DOWN (ended (.detail end) operation pid address message timeout)
    Calls$Why/CYCLE (failed operation [:call-cycle (vec (.detail end))] address message timeout pid nil)))

(defn- given-up
  "The value of an answer that came while the time-out was worded; else the :else of the options, or throws."
  [^LocalProcess me ^Calls$Failed end operation pid address message timeout options]
  (let [else? (contains? options :else)
        error (when-not else? (late operation address message timeout pid (.ref end)))
        last-answer (Calls/giveUp me (.ref end))]
    (cond
      (not (instance? Calls$Failed last-answer)) last-answer
      else? (:else options)
      :else (throw error))))

(defn- value-or-failure
  "The value that the call has ended with; throws if it has failed."
  [me operation pid address message timeout options end]
  (cond
    (not (instance? Calls$Failed end)) end
    (time-out? end) (given-up me end operation pid address message timeout options)
    :else (throw (unanswered end operation pid address message timeout))))

(defn- shed [operation address request timeout pid ^Refused refused]
  (let [call (call-of (called operation address request timeout))]
    (errors/failure (str "The server " (arguments/show address) " is overloaded: the call had waited for " (.-waited refused) " ms and was refused. "
                      "Try again later, or do without the answer.")
      {:magnetar/reason :magnetar/overloaded
       :reason :overloaded
       :call call
       :server pid
       :waited-ms (.-waited refused)
       :magnetar/exit [:overloaded call]})))

(defn- call-shedding
  "The value of a call to a server that sheds, which is told when the call was sent; throws if the server refuses it."
  [^LocalProcess me operation ^Pid pid address message timeout options nanos]
  (let [end (Calls/call me pid address (shedding/stamped message nanos) nanos)
        value (value-or-failure me operation pid address message timeout options end)]
    (if (instance? Refused value)
      (throw (shed operation address message timeout pid value))
      value)))

(defn- call-at [^LocalProcess me pid operation address message timeout options nanos]
  (cond
    (instance? RemoteName pid)
    (value-or-failure me operation pid address message timeout options (Calls/await me (Calls/send me ^RemoteName pid message) nanos))
    (shedding/sheds? pid) (call-shedding me operation pid address message timeout options nanos)
    :else (value-or-failure me operation pid address message timeout options (Calls/call me ^Pid pid address message nanos))))

(defn- call-here [me operation address message timeout options nanos]
  (call-at me (find-server me operation address message timeout) operation address message timeout options nanos))

(def ^:private gave-up
  "Stands for the :else of a call, whose time-out is no error for the program and one for instruments."
  (TimeoutException. "The call was not answered in time, and returned its :else." {:magnetar/reason :magnetar/timeout :reason :timeout}))

(defn- system-at [^LocalProcess me pid operation address message timeout options nanos]
  (let [ref (if (instance? RemoteName pid)
              (Monitors/monitor me ^RemoteName pid nil Ref$Alias/REPLY_DEMONITOR)
              (Monitors/monitor me ^Pid pid address nil Ref$Alias/REPLY_DEMONITOR))]
    (try
      (Send/control pid [:magnetar/system [(.pid me) ref] message])
      (catch Throwable t ; the other node cannot read it
        (Monitors/demonitor me ref)
        (throw t)))
    (value-or-failure me operation pid address message timeout options (Calls/await me ref nanos))))

(defn- system-here [operation address message timeout options nanos]
  (let [me (LocalProcess/current)
        pid (find-server me operation address message timeout)]
    (if (nodes/erlang? pid)
      (let [options-there (cond-> options (contains? options :else) (assoc :else gave-up))
            value (system-at me pid operation address (erlang/asked operation message) timeout options-there nanos)]
        (if (identical? gave-up value) (:else options) (erlang/answered (first message) value)))
      (system-at me pid operation address message timeout options nanos))))

(defn system
  "Asks a process of OTP what `magnetar.sys` asks, and waits for the answer."
  [operation address message timeout options]
  (transactions/refuse "sys")
  (let [nanos (arguments/nanos :timeout timeout)]
    (proc-lib/in-process #(system-here operation address message timeout options nanos))))

(defn- call-in-process [operation address message timeout options nanos]
  (proc-lib/in-process #(call-here (LocalProcess/current) operation address message timeout options nanos)))

(defn- instrumented
  "The value of the call that (f options) makes."
  [operation address message options f]
  (let [begun (Instruments/calls operation address message)]
    (try
      (let [value (f (cond-> options (contains? options :else) (assoc :else gave-up)))
            late? (identical? gave-up value)]
        (.end begun (when late? gave-up))
        (if late? (:else options) value))
      (catch Throwable t
        (.end begun t)
        (throw t)))))

(defn- call-instrumented [operation address message timeout options nanos]
  (instrumented operation address message options #(call-in-process operation address message timeout % nanos)))

(defn call
  "Sends the request and waits for the answer, in the process that this thread is, or is for as long. A failure names the operation. The options may have an :else for a call that is not answered in time."
  ([address message timeout options] (call by-gen-server address message timeout options))
  ([operation address message timeout options]
   (transactions/refuse "call")
   (let [nanos (arguments/nanos :timeout timeout)]
     (if (Instruments/isOn)
       (call-instrumented operation address message timeout options nanos)
       (if-some [me (LocalProcess/current)]
         (call-here me operation address message timeout options nanos)
         (call-in-process operation address message timeout options nanos))))))

;; A request whose words depend on the node of the server: the address is looked up once, so that the words are right.

(defn found
  "The pid or RemoteName of the server at the address, for `call-found` and `send-request`; nil if there is no server."
  [operation address]
  (transactions/refuse operation)
  (servers/server operation address))

(defn call-found
  "Like `call` of what `found` has found. The operation is [symbol address & arguments]."
  [[_ address :as operation] server message timeout options]
  (let [nanos (arguments/nanos :timeout timeout)
        call (fn [options]
               (proc-lib/in-process
                 #(let [me (LocalProcess/current)]
                    (call-at me (callable me server operation address message timeout) operation address message timeout options nanos))))]
    (if (Instruments/isOn)
      (instrumented operation address message options call)
      (call options))))

;; ---- casts, and answers to those who call

(defn cast
  "Sends a request that has no answer; returns :ok, also if there is no such server."
  [server request]
  (when-some [pid (servers/server "cast" server)]
    (! pid [:magnetar/cast request]))
  :ok)

(defn reply
  "Answers the call that came with `from`; returns :ok."
  [from value]
  (when-not (or (nil? from) (and (vector? from) (= 2 (count from)) (some? (peek from))))
    (arguments/misuse :magnetar/bad-from
                      (str "`reply` wants `from` as handle-call was given it, and then the value; this is " (arguments/show from) ".") {:from from}))
  (reply/reply from value)
  :ok)

;; ---- requests whose answers are taken later

(deftype Request [^Ref ref address]
  Object
  (toString [_] (str "request " ref " to " address)))

(defn send-request
  "Sends the request, to what `found` has found if that is given; what its answer is taken with."
  ([address message]
   (transactions/refuse "send-request")
   (LocalProcess/require "send-request")
   (send-request address (servers/server "send-request" address) message))
  ([address server message]
   (let [me (LocalProcess/require "send-request")]
     (cond
       (nil? server) (Request. (monitors/monitor-absent address) address)
       (instance? RemoteName server) (Request. (Calls/send me ^RemoteName server message) address)
       :else (Request. (Calls/send me ^Pid server address message) address)))))

(defn- check-request ^Request [operation x]
  (when-not (instance? Request x)
    (arguments/misuse :magnetar/not-a-request
                      (str "`" operation "` wants what `send-request` returned; this is " (arguments/show x) ".") {:value x}))
  x)

(defn- outcome
  "[:reply value] or [:error [reason address]], :timeout if there was no answer in time."
  [end ^Request request]
  (cond
    (not (instance? Calls$Failed end)) [:reply end]
    (identical? Calls$Why/TIMEOUT (.why ^Calls$Failed end)) :timeout
    :else [:error [(.detail ^Calls$Failed end) (.-address request)]]))

(defn- refuse-request [problem ^Request request]
  (arguments/misuse :magnetar/no-answer (str "The " request " " problem ", so no answer can come. Keep what the first wait returned.") {:request request}))

(defn- wait
  "The outcome of a request of this process: waits for one only that may still come."
  [^LocalProcess me ^Request request ^long nanos]
  (let [^Ref ref (.-ref request)
        open? (Aliases/isOpen me ref)]
    (when (not= (.pid me) (.maker ref))
      (refuse-request (str "was sent by " (.maker ref) ", and this is " (.pid me)) request))
    (let [outcome (outcome (Calls/await me ref (if open? nanos 0)) request)]
      (when (and (= :timeout outcome) (not open?))
        (refuse-request "has had its answer, or was given up" request))
      outcome)))

(defn- response [operation request timeout]
  (let [request (check-request operation request)]
    (wait (LocalProcess/require operation) request (arguments/nanos :timeout timeout))))

(defn- or-outcome [outcome operation ^Request request timeout options]
  (if (= :timeout outcome)
    (timeouts/outcome options (symbol "magnetar.gen-server" operation) (.-address request) timeout [(str request) timeout])
    outcome))

(defn wait-response
  "The outcome of the request. When time runs out, returns the :else of the options, or throws. Then it may be waited for again."
  [request timeout options]
  (or-outcome (response "wait-response" request timeout) "wait-response" request timeout options))

(defn receive-response
  "Like `wait-response`, but after the time the answer is dropped."
  [request timeout options]
  (let [found (response "receive-response" request timeout)
        last-one (if (= :timeout found)
                   (outcome (Calls/giveUp (LocalProcess/current) (.-ref ^Request request)) request)
                   found)]
    (or-outcome last-one "receive-response" request timeout options)))

(defn check-response
  "The outcome of the request, if the message is its answer; else nil."
  [message request]
  (let [request (check-request "check-response" request)
        ref (.-ref request)]
    (when (Calls/answers ref message)
      (outcome (Calls/outcome ref message) request))))
