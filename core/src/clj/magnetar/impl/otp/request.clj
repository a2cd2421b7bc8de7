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
   [magnetar.impl.clock :as clock]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.otp.names :as names]
   [magnetar.impl.otp.reply :as reply]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime]
   [magnetar.impl.transactions :as transactions]
   [magnetar.proc-lib :as proc-lib])
  (:import
   (clojure.lang MapEntry)
   (java.util.function Predicate)
   (magnetar.impl.otp.host Desk Visit)
   (magnetar.kernel.park Failures Fiber)
   (magnetar.kernel.process Inline LocalProcess Matcher Pid Processes Ref)
   (magnetar.kernel.scope Scope)))

(set! *warn-on-reflection* true)

;; ---- what a server is doing

(defn- of-program? [^StackTraceElement frame]
  (Failures/isOfProgram (.getClassName frame)))

(defn- frame-text [^StackTraceElement frame]
  (str (main/demunge (.getClassName frame)) " at " (.getFileName frame) ":" (.getLineNumber frame)))

(defn- frame-of [^Thread thread]
  (some->> thread .getStackTrace (filter of-program?) first frame-text))

(defn- carries? ^Predicate [ref]
  (reify Predicate
    (test [_ message]
      (and (vector? message) (= 3 (count message)) (= :magnetar/call (nth message 0)) (identical? ref (nth (nth message 1) 1))))))

(defn- held
  "What the server has in its hands."
  [process]
  (when-some [desk (host/desk-of process)]
    (.edge desk) ; who sees that it waits for another sees the call that it waits in: that was written before
    (.handling desk)))

(defn doing
  "What the server is doing, for the caller whose request has the reference; nil if it is dead."
  [pid ref]
  (when-some [^LocalProcess process (Processes/processOf pid)]
    (let [info (.info process)
          before (.find process (carries? ref))
          held (held process)
          suspended (or (.suspended info) (identical? host/suspended held))]
      {:blocked-in (when (and held (not suspended)) (frame-of (.thread info)))
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

(defn- failed [word reason address request timeout pid ref note]
  (let [call [word (language/plain address) (language/plain request) timeout]
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

;; ---- cycles of calls

;; A server that calls publishes the edge before it walks: so whoever closes a cycle last sees all of it.
(deftype Edge [^Pid callee ^Ref ref])

(defn- held-or-queued? [^LocalProcess callee ref]
  (let [mine (carries? ref)]
    (or (.test mine (held callee))
        (<= 0 (.find callee mine)))))

(defn- owed?
  "Has the callee the call in hand or in its mailbox still? One that it gave away waits for others."
  [^Edge edge]
  (when-some [callee (Processes/processOf (.-callee edge))]
    (held-or-queued? callee (.-ref edge))))

(defn- next-edge
  "The call that the process waits in, if its callee has it in hand or in its mailbox, and owes the answer still."
  [^LocalProcess process]
  (when-some [^Desk desk (some-> process host/desk-of)]
    (when-some [^Edge edge (.edge desk)]
      (when (and (.awaits process (.-ref edge)) (owed? edge))
        edge))))

(defn- way-back
  "The calls on the way from this process back to it, if each waits in the one that follows; nil if one does not."
  [^LocalProcess me first-edge]
  (loop [way [first-edge] seen #{}]
    (let [at (.-callee ^Edge (peek way))]
      (cond
        (= at (.pid me)) way
        (seen at) nil
        :else (when-some [edge (next-edge (Processes/processOf at))]
                (recur (conj way edge) (conj seen at)))))))

;; While one walks, a call seen before may be answered, and its server then close what looks like the rest of a cycle. An edge is of one call and
;; never comes back: so calls that two walks have seen were all there at the instant between them.
(defn- cycle-of
  "The pids on the way from this process back to it, if each waits for the next; nil if one does not."
  [^LocalProcess me first-edge]
  (when-some [way (way-back me first-edge)]
    (when (and (= way (way-back me first-edge)) (owed? first-edge))
      (into [(.pid me)] (map #(.-callee ^Edge %)) way))))

;; ---- calls

;; An answer is a [ref value] of two entries in one object, as `magnetar.impl.otp.reply/reply` makes it, but for one that somebody has sent by hand.
(defn- answer? [message ref]
  (if (instance? MapEntry message)
    (identical? ref (.key ^MapEntry message))
    (and (vector? message) (< 1 (count message)) (identical? ref (nth message 0)))))

(defn- value-of [answer]
  (if (instance? MapEntry answer)
    (.val ^MapEntry answer)
    (nth answer 1)))

(defn- down? [message ref]
  (and (vector? message) (= 5 (count message)) (identical? ref (nth message 1))))

(deftype Answer [^Ref ref]
  Matcher
  (match [_ message]
    (when (or (answer? message ref) (down? message ref))
      message)))

(defn receive-answer
  "[ref value], or the DOWN of the server; nil after so many nanoseconds."
  [^LocalProcess me ^Ref ref ^long nanos]
  (.receive me (Answer. ref) nanos (Processes/mark me (object-array [ref]))))

(defn give-up
  "Waits for the answer no longer: one that is there already, or nil."
  [^LocalProcess me ref]
  (.demonitor me ref)
  (receive-answer me ref 0))

;; The pairs that each call makes are entries of a map: equal to the vectors, and vectors to patterns, `nth` and destructuring, in half the bytes; they
;; take no metadata.
(defn- carried
  "The request as a server takes it."
  [^LocalProcess me ref message]
  [:magnetar/call (MapEntry/create (.pid me) ref) message])

(defn request
  "Sends the request to the server; the reference that its answer has."
  ^Ref [^LocalProcess me ^Pid pid address message]
  (let [ref (.monitor me pid address nil "REPLY_DEMONITOR")]
    (Processes/send pid (carried me ref message))
    ref))

(defn- value-or-end [answer ref fail]
  (if (answer? answer ref)
    (value-of answer)
    (throw (fail (nth answer 4) "The server has ended."))))

(defn- answered
  "The value of the answer, of the late one if there is none in time; throws what `fail` says."
  [^LocalProcess me ref answer fail]
  (if answer
    (value-or-end answer ref fail)
    (let [failure (fail :timeout nil)
          late (give-up me ref)]
      (if (answer? late ref)
        (value-of late)
        (throw failure)))))

(defn- await-answer [^LocalProcess me ref nanos fail]
  (answered me ref (receive-answer me ref nanos) fail))

(defn- on-the-way
  "Waits for the answer as a server, whose calls may come back to it."
  [^LocalProcess me ^Desk desk pid ref nanos fail]
  (let [edge (Edge. pid ref)]
    (.waitFor desk edge)
    (try
      (when-some [way (cycle-of me edge)]
        (give-up me ref)
        (throw (fail [:call-cycle way] nil)))
      (await-answer me ref nanos fail)
      (finally (.waitFor desk nil)))))

(defn- find-server
  "The pid of the server, which is another process than this one."
  ^Pid [^LocalProcess me word address message timeout]
  (let [^Pid pid (or (names/pid-of "call" address)
                   (throw (failed word (servers/absent address) address message timeout nil nil (servers/absent-note address))))]
    (when (.equals pid (.pid me))
      (throw (failed word :calling-self address message timeout pid nil
                     "A server that calls itself waits for itself: call the function that does the work, or cast.")))
    pid))

(defn- failure-of [word pid ref address message timeout]
  (fn [reason note] (failed word reason address message timeout pid ref note)))

(defn- answer-to [^LocalProcess me word pid ref address message timeout nanos]
  (let [fail (failure-of word pid ref address message timeout)]
    (if-some [desk (host/desk-of me)]
      (on-the-way me desk pid ref nanos fail)
      (await-answer me ref nanos fail))))

(defn- ask
  "Asks as a process that is no server: nobody waits for it."
  [^LocalProcess me word ^Pid pid address message timeout nanos]
  (let [ref (.openCall me pid address (long nanos))
        answer (.ask me pid (carried me ref message) (Answer. ref) (long nanos) ref)]
    (if (answer? answer ref)
      (value-of answer)
      (answered me ref answer (failure-of word pid ref address message timeout)))))

;; ---- calls that the caller does itself, as the server

(defn- time-left
  "How long the caller waits at most: its scopes may give it less than it wants."
  ^long [^long nanos]
  (min nanos (clock/left (Scope/deadlineOf (Fiber/current)))))

(defn- visited?
  "Did the server, which rests, serve the visitor here and now? Whoever is a server itself says that it waits for this one."
  [^LocalProcess me ^Pid pid ^Ref ref visit nanos]
  (if-some [^Desk desk (host/desk-of me)]
    (do (.waitFor desk (Edge. pid ref))
        (try
          (Inline/serve me pid visit (time-left nanos))
          (finally (.waitFor desk nil))))
    (Inline/serve me pid visit (time-left nanos))))

(defn- inline
  "The answer of a server that rests and lends itself. If it cannot be had at once the call is as any other."
  [^LocalProcess me word ^Pid pid address message timeout nanos]
  (let [ref (.addressOfCall me pid address)
        sent (carried me ref message)
        visit (Visit. sent ::none)
        visited (visited? me pid ref visit nanos)
        answer (.answered visit)]
    (if (and (not (identical? ::none answer)) (.unalias me ref))
      answer
      (do (.watch me ref)
          (when-not visited (Processes/send pid sent))
          (answer-to me word pid ref address message timeout nanos)))))

(defn- call-here [^LocalProcess me word address message timeout nanos]
  (let [pid (find-server me word address message timeout)]
    (cond
      (Inline/isOffered pid) (inline me word pid address message timeout nanos)
      (host/desk-of me) (answer-to me word pid (request me pid address message) address message timeout nanos)
      :else (ask me word pid address message timeout nanos))))

(defn- system-here [address message timeout nanos]
  (let [me (LocalProcess/current)
        pid (find-server me by-gen-server address message timeout)
        ref (.monitor me pid address nil "REPLY_DEMONITOR")]
    (Processes/control pid [:magnetar/system [(.pid me) ref] message])
    (await-answer me ref nanos (fn [reason note] (failed by-gen-server reason address message timeout pid ref note)))))

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
   (transactions/check "call")
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
  (let [me (Processes/requireCurrent "send-request")]
    (if-some [pid (names/pid-of "send-request" address)]
      (Request. (request me pid address message) address)
      (Request. (monitors/monitor (when (vector? address) address) :reply-demonitor nil) address))))

(defn- check-request ^Request [operation x]
  (when-not (instance? Request x)
    (arguments/misuse :magnetar/not-a-request
                      (str "`" operation "` wants what `send-request` returned; this is " (arguments/show x) ".") {:value x}))
  x)

(defn- outcome [answer ^Request request]
  (if (answer? answer (.-ref request))
    [:reply (value-of answer)]
    [:error [(nth answer 4) (.-address request)]]))

(defn- refuse-request [problem ^Request request]
  (arguments/misuse :magnetar/no-answer (str "The " request " " problem ": nobody answers it here any more.") {:request request}))

(defn- waiting-answer
  "The answer to a request of this process: waits for one only that may still come."
  [^LocalProcess me ^Request request ^long nanos]
  (let [^Ref ref (.-ref request)]
    (cond
      (not= (.pid me) (.maker ref)) (refuse-request (str "was sent by " (.maker ref) ", and this is " (.pid me)) request)
      (.awaits me ref) (receive-answer me ref nanos)
      :else (or (receive-answer me ref 0)
                (refuse-request "has had its answer, or was given up" request)))))

(defn wait-response
  "The outcome of the request, :timeout if there is none in time."
  [request timeout]
  (let [request (check-request "wait-response" request)]
    (if-some [answer (waiting-answer (Processes/requireCurrent "wait-response") request (arguments/nanos :timeout timeout))]
      (outcome answer request)
      :timeout)))

(defn receive-response
  "Like `wait-response`; after the time nobody waits for the answer any more."
  [request timeout]
  (let [found (wait-response request timeout)]
    (if (= :timeout found)
      (let [late (give-up (LocalProcess/current) (.-ref ^Request request))]
        (if late (outcome late request) :timeout))
      found)))

(defn check-response
  "The outcome of the request that the message is; nil if it is none of it."
  [message request]
  (let [request (check-request "check-response" request)]
    (when (.match (Answer. (.-ref request)) message)
      (outcome message request))))
