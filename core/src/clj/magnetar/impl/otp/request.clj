(ns magnetar.impl.otp.request
  "Requests to servers: sends them, waits for the answer, and words the failure when none comes."
  {:no-doc true}
  (:refer-clojure :exclude [cast])
  (:require
   [clojure.main :as main]
   [magnetar.impl.actor.language :as language]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.actor.send :refer [!]]
   [magnetar.impl.actor.servers :as servers]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.otp.reply :as reply]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.transactions :as transactions]
   [magnetar.proc-lib :as proc-lib])
  (:import
   (java.util.function Predicate)
   (magnetar.kernel.process Aliases Calls Calls$Failed Calls$Why LocalProcess Monitors Pid ProcessTable Ref Ref$Alias Send)))

(set! *warn-on-reflection* true)

;; ---- what a server is doing

(defn- frame-text [^StackTraceElement frame]
  (str (main/demunge (.getClassName frame)) " at " (.getFileName frame) ":" (.getLineNumber frame)))

(defn- place-of [thread]
  (some-> (reports/frame-of thread) frame-text))

(defn- carries? ^Predicate [ref]
  (reify Predicate
    (test [_ message] (language/request? ref message))))

(defn- held
  "What the server has in its hands."
  [^LocalProcess process]
  (when-some [server (.server process)]
    (.waitsIn server) ; a reader that sees in which call it waits sees the message in its hands too, which was written before
    (.handling server)))

(defn doing
  "What the server is doing, for the caller whose request has the reference; nil if it is dead."
  [pid ref]
  (when-some [^LocalProcess process (ProcessTable/live pid)]
    (let [info (.info process)
          before (.find (.receiver process) (carries? ref))
          held (held process)
          suspended (or (.suspended info) (identical? host/suspended held))]
      {:blocked-in (when (and held (not suspended)) (place-of (.thread info)))
       :handling (when-not suspended (some-> held language/plain))
       :handles-this (.test (carries? ref) held)
       :suspended suspended
       :mailbox (.messages info)
       :number (when-not (neg? before) (inc before))})))

(defn- in-words [message]
  (let [[word a b] (when (vector? message) message)]
    (case word
      :magnetar/call (str "the call " (language/text b) " of " (first a))
      :magnetar/cast (str "the cast " (language/text a))
      (str "the message " (language/text message)))))

(defn- how-many [n]
  (case (long n) 0 "no message is", 1 "one message is", (str n " messages are")))

(defn- doing-text [{:keys [blocked-in handling handles-this suspended mailbox number]}]
  (str "The server "
       (cond
         suspended "is suspended"
         handles-this "is handling this very call"
         handling (str "is handling " (in-words handling))
         number "waits for messages"
         :else "has taken this call, answers later or has postponed it, and waits for messages")
       (when blocked-in (str ", in " blocked-in))
       "; " (how-many mailbox) " in its mailbox"
       (when number (str ", yours is number " number))
       ". Give the call a longer :timeout, or let the server answer later, by `reply`."))

;; ---- failures

(def ^:private by-gen-server 'magnetar.gen-server/call)

(defn- given
  "What the program gave, of a request that the operation has made of it: [:magnetar.agent/get f] for 'magnetar.agent/get."
  [word request]
  (if (and (vector? request) (= (keyword word) (first request)))
    (second request)
    request))

(defn- failed [word reason address message timeout pid ref note]
  (let [request (given word message)
        call [word (language/plain address) (language/plain request) timeout]
        state (when (= :timeout reason) (doing pid ref))]
    (errors/failure (str "The call of " (arguments/show address) " with " (arguments/show request) " failed: " (reasons/text reason)
                      (when (= :timeout reason) (str " after " timeout (when (number? timeout) " ms"))) ". "
                      (if state (doing-text state) note))
      {:magnetar/reason :magnetar/call-failed
       :reason reason
       :call call
       :server pid
       :doing state
       :magnetar/exit [reason call]})))

;; ---- calls

(defn- find-server
  "The pid of the server, which is another process than this one."
  ^Pid [^LocalProcess me word address message timeout]
  (let [^Pid pid (or (if (instance? Pid address) address (servers/server "call" address))
                   (throw (failed word (servers/absent address) address message timeout nil nil (servers/absent-note address))))]
    (when (.equals pid (.pid me))
      (throw (failed word :calling-self address message timeout pid nil
                     "A server that calls itself waits for itself: call the function that does the work, or cast.")))
    pid))

(defn- reason-of
  "Why a call has no answer, and what to know of it."
  [^Calls$Failed failed]
  (condp identical? (.why failed)
    Calls$Why/TIMEOUT [:timeout nil]
    Calls$Why/DOWN [(.detail failed) "The server has ended."]
    Calls$Why/CYCLE [[:call-cycle (vec (.detail failed))] nil]))

(defn- value-or-failure
  "The value that the call has ended with. If time ran out: the value of an answer that came while the failure was worded; else throws."
  [^LocalProcess me word pid address message timeout end]
  (if (instance? Calls$Failed end)
    (let [ref (.ref ^Calls$Failed end)
          [reason note] (reason-of end)
          failure (failed word reason address message timeout pid ref note)
          late (if (= :timeout reason) (Calls/giveUp me ref) end)]
      (if (instance? Calls$Failed late)
        (throw failure)
        late))
    end))

(defn- call-here [^LocalProcess me word address message timeout nanos]
  (let [pid (find-server me word address message timeout)]
    (value-or-failure me word pid address message timeout (Calls/call me pid address message nanos))))

(defn- system-here [address message timeout nanos]
  (let [me (LocalProcess/current)
        pid (find-server me by-gen-server address message timeout)
        ref (Monitors/monitor me pid address nil Ref$Alias/REPLY_DEMONITOR)]
    (Send/control pid [:magnetar/system [(.pid me) ref] message])
    (value-or-failure me by-gen-server pid address message timeout (Calls/await me ref nanos))))

(defn system
  "Asks a process of OTP what `magnetar.sys` asks, and waits for the answer."
  [address message timeout]
  (transactions/refuse "sys")
  (let [nanos (arguments/nanos :timeout timeout)]
    (proc-lib/in-process #(system-here address message timeout nanos))))

(defn call
  "Sends the request and waits for the answer, in the process that this thread is, or is for as long. A failure names the function `word`."
  ([address message timeout] (call by-gen-server address message timeout))
  ([word address message timeout]
   (transactions/refuse "call")
   (let [nanos (arguments/nanos :timeout timeout)]
     (if-some [me (LocalProcess/current)]
       (call-here me word address message timeout nanos)
       (proc-lib/in-process #(call-here (LocalProcess/current) word address message timeout nanos))))))

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
  "Sends the request; what its answer is taken with."
  [address message]
  (transactions/refuse "send-request")
  (let [me (LocalProcess/require "send-request")]
    (if-some [pid (servers/server "send-request" address)]
      (Request. (Calls/send me pid address message) address)
      (Request. (monitors/monitor (when (vector? address) address) :reply-demonitor nil) address))))

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
  (arguments/misuse :magnetar/no-answer (str "The " request " " problem ": nobody answers it here any more.") {:request request}))

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

(defn wait-response
  "The outcome of the request, :timeout if there is none in time."
  [request timeout]
  (let [request (check-request "wait-response" request)]
    (wait (LocalProcess/require "wait-response") request (arguments/nanos :timeout timeout))))

(defn receive-response
  "Like `wait-response`; after the time nobody waits for the answer any more."
  [request timeout]
  (let [found (wait-response request timeout)]
    (if (= :timeout found)
      (outcome (Calls/giveUp (LocalProcess/current) (.-ref ^Request request)) request)
      found)))

(defn check-response
  "The outcome of the request that the message is; nil if it is none of it."
  [message request]
  (let [request (check-request "check-response" request)
        ref (.-ref request)]
    (when (Calls/answers ref message)
      (outcome (Calls/outcome ref message) request))))
