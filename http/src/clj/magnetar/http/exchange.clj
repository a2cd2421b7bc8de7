(ns magnetar.http.exchange
  "One request from its arrival to the end of its response, on the fiber that Jetty handles it on.

  Invariants:
    1. `phase` leaves :open once. The fiber of the request changes it to :fiber, another thread to :outside. That one writes the response.
    2. A place at the door is left once, by the fiber of the request, or by the WebSocket that the connection became.
    3. The exchange is in the set of those in progress until Jetty has completed the response.
    4. The body that a handler returned is released once the fiber is done with it, sent or not."
  {:no-doc true}
  (:require
   [magnetar.http.body :as body]
   [magnetar.http.departure :as departure]
   [magnetar.http.door :as door]
   [magnetar.http.refusals :as refusals]
   [magnetar.http.request :as request]
   [magnetar.http.response :as response]
   [magnetar.http.upgrade :as upgrade]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (java.io IOException InputStream)
   (java.util Set)
   (java.util.concurrent TimeoutException)
   (java.util.concurrent.atomic AtomicLong AtomicReference)
   (java.util.concurrent.locks ReentrantLock)
   (java.util.function Consumer Predicate)
   (magnetar.kernel.scope Fork Scope)
   (org.eclipse.jetty.http HttpException)
   (org.eclipse.jetty.server HttpChannel Request Response)
   (org.eclipse.jetty.util Callback)
   (org.eclipse.jetty.util.thread Invocable$InvocationType)))

(set! *warn-on-reflection* true)

;; `began` is the instant of the arrival, `ends` of the deadline, `since` that at which the client began to be waited for with a part of the
;; response. `scope` is the scope of the request once it has begun. `facts` holds what the body met, :gone once the client was seen to leave,
;; :bad, the error of a request that turned out to break the protocol, and ::admitted once the door has let it in.
(deftype Exchange [service ^String site ^Request request ^Response response ^Callback callback ^Thread thread ^long began ^long ends ^AtomicLong since
                   ^AtomicReference phase ^AtomicReference scope facts watch ^ReentrantLock lock])

(defn- claim
  "True if this fiber may write the response: it is the first to ask, or has asked before."
  [^Exchange x]
  (or (.compareAndSet ^AtomicReference (.-phase x) :open :fiber)
      (= :fiber (.get ^AtomicReference (.-phase x)))))

(defn- claim-from-outside
  "True if this thread, which is not the fiber of the request, may write the response. It also reports why."
  [^Exchange x]
  (.compareAndSet ^AtomicReference (.-phase x) :open :outside))

(defn- claimed-from-outside? [^Exchange x]
  (= :outside (.get ^AtomicReference (.-phase x))))

(defn cancel
  "Cancels what the request does."
  [^Exchange x why]
  (when-some [s (.get ^AtomicReference (.-scope x))]
    (scope/cancel s why)))

(defn- gone
  "The client has left."
  [^Exchange x]
  (swap! (.-facts x) assoc :gone true)
  (cancel x :client-gone))

(defn- client-failed
  "Jetty tells that the client has left, or that the rest of the request breaks the protocol."
  [^Exchange x e]
  (if (instance? HttpException e)
    (do (swap! (.-facts x) assoc :bad e)
        (cancel x :bad-request))
    (gone x)))

(defn- end-watch [^Exchange x]
  (departure/end (.-watch x) (.-lock x)))

;; ---- failures

(defn- abort
  "Ends the connection, or the stream of HTTP/2, so that the client does not take the response as complete."
  [^Exchange x e]
  (end-watch x)
  (.failed ^Callback (.-callback x) e))

(defn- answer
  "Answers with a status. The caller has the claim."
  [^Exchange x [status headers close?]]
  (end-watch x)
  (response/write-error (.-response x) status headers close? (.-callback x)))

(defn- site-of
  "The name of the fiber of the request, and of its scopes. A query may hold secrets, and is left out."
  [^Request request]
  (str "http " (.getMethod request) " " (.getPath (.getHttpURI request))))

;; [status headers close?]
(def ^:private overloaded [503 {"Retry-After" "1"} false])
(def ^:private stopping [503 {"Retry-After" "1"} true])

(defn- of-time? [e]
  (refusals/cause-of-kind TimeoutException e))

(defn- of-network?
  "True if a write failed because the client has gone or does not read. Jetty's other errors are about what the program writes."
  [e]
  (or (instance? IOException e) (of-time? e)))

(defn- refused
  "What a client gets whose request cannot be read."
  [status]
  [status nil true])

(defn- of-read
  "The answer to a request of which a read failed; :gone if there is no client to answer."
  [failure]
  (cond
    (instance? HttpException failure) (refused (.getCode ^HttpException failure))
    (of-time? failure) (refused 408)
    (instance? IOException failure) :gone))

(defn- of-client
  "The answer for what the client did, if that is what ended the handler; else nil."
  [{:keys [gone bad too-large failure write-failure]} e]
  (cond
    gone :gone
    bad (of-read bad)
    (refusals/caused-by? e write-failure) (when (of-network? write-failure) :gone)
    (refusals/caused-by? e too-large) (refused 413)
    (refusals/caused-by? e failure) (of-read failure)))

(defn- outcome
  "What becomes of a request whose handler ended by the error: [status headers close?], or :gone."
  [^Exchange x e]
  (let [{:keys [cut-short] ::keys [late stopped admitted] :as facts} @(.-facts x)]
    (or (of-client facts e)
        (cond
          (and late (not admitted)) overloaded
          late (if cut-short (refused 408) [503 nil false])
          stopped stopping
          :else [500 nil false]))))

(defn- report
  "Reports the error once, if it is a failure of the program: the client's are not, and neither is a deadline that passes in the queue."
  [^Exchange x e outcome]
  (let [{::keys [late admitted]} @(.-facts x)]
    (when (and (vector? outcome)
               (not (claimed-from-outside? x))
               (or (= 500 (first outcome)) (and late admitted (= 503 (first outcome)))))
      (reports/report (.-site x) e))))

(defn- failed
  "The handler, or the writing of its response, ended by the error."
  [^Exchange x e]
  (let [outcome (outcome x e)]
    (report x e outcome)
    (when (claim x)
      (if (or (= :gone outcome) (.isCommitted ^Response (.-response x)))
        (abort x e)
        (answer x outcome)))))

(defn- with-lock [^Exchange x f]
  (let [^ReentrantLock lock (.-lock x)]
    (.lock lock)
    (try
      (f)
      (finally (.unlock lock)))))

;; T1 looks after the request, and drops a client that has not read for too long. T2 tells that the client has read, and lets Jetty go on to the next
;; request, which may use the same channel of Jetty. Under the lock T1 sees that nothing is waited for any more, or T2 comes later.
(defn- taken
  "The client has taken what it was waited for with, or never will."
  [^Exchange x]
  (with-lock x #(.set ^AtomicLong (.-since x) Long/MAX_VALUE)))

(defn- last-callback
  "Jetty's callback of the request, for the last write of its response. An error that is not the network's is the program's."
  ^Callback [^Exchange x]
  (let [^Callback callback (.-callback x)]
    (reify Callback
      (succeeded [_]
        (taken x)
        (.succeeded callback))
      (failed [_ e]
        (taken x)
        (when-not (or (of-network? e) (of-client @(.-facts x) e))
          (reports/report (.-site x) e))
        (.failed callback e))
      (getInvocationType [_] Invocable$InvocationType/NON_BLOCKING))))

;; ---- the work

(defn- body-of ^InputStream [^Exchange x]
  (if (request/body? (.-request x))
    (body/stream (.-request x) (:max-body (:options (.-service x))) (.-facts x))
    (InputStream/nullInputStream)))

(defn- too-long? [^Exchange x]
  (< (long (:max-body (:options (.-service x)))) (.getLength ^Request (.-request x))))

(defn- call-handler
  "Keeps the response of the handler in the volatile, ::shed if it is not called."
  [^Exchange x entered returned]
  (let [{:keys [handler door]} (.-service x)]
    (vreset! returned
             (if (door/enter door)
               (do (vreset! entered true)
                   (swap! (.-facts x) assoc ::admitted true)
                   (handler (request/ring-map (.-request x) (body-of x) (.get ^AtomicReference (.-scope x)))))
               ::shed))
    nil))

(defn- within-deadline
  "The value of (f), which is cancelled at the deadline."
  [^Exchange x f]
  (let [inner (volatile! nil)]
    (try
      (scope/scope* (.-site x) {:deadline (:request-timeout (:options (.-service x)))}
        (fn [s]
          (vreset! inner s)
          (f)))
      (catch Throwable e
        (when (some-> ^Scope @inner .why (identical? Scope/DEADLINE))
          (swap! (.-facts x) assoc ::late true))
        (throw e)))))

(defn- sending
  "What `response/write` has to know of the exchange."
  [^Exchange x]
  {:facts (.-facts x) :since (.-since x) :before-end #(end-watch x) :callback (last-callback x)})

(defn- send-response
  "Sends what the handler returned. The volatile is left with the body alone, which is gone from it when a seq is sent."
  [^Exchange x returned body]
  (let [kind (response/check @returned)
        head (dissoc @returned :body)]
    (vreset! body (:body @returned))
    (vreset! returned nil)
    (when (claim x)
      (response/write (.-response x) head kind body (sending x)))))

(defn- shed [x]
  (when (claim x)
    (answer x overloaded)))

(defn- release [^Exchange x body]
  (try
    (response/release body)
    (catch Exception e
      (reports/stop-here e)
      (reports/report (.-site x) e))))

(defn- switch
  "Makes a WebSocket of the connection. It keeps the place at the door, and owns the peer."
  [^Exchange x returned entered]
  (let [ring-response @returned
        refusal (upgrade/refusal (.-request x) ring-response)]
    (when (claim x)
      (if refusal
        (answer x refusal)
        (do (end-watch x)
            (vreset! entered false)
            (vreset! returned nil)
            (upgrade/begin (.-service x) (.-request x) (.-response x) (.-callback x) ring-response))))))

(defn- abandon
  "Tells the peer of a WebSocket that it will not open."
  [^Exchange x ring-response]
  (when (upgrade/response? ring-response)
    (upgrade/abandon (.-service x) (.-request x) ring-response)))

(defn- answer-handler
  "Calls the handler and sends its response. The volatiles hold what has to be ended afterwards."
  [x entered returned body]
  (within-deadline x #(call-handler x entered returned))
  (cond
    (identical? ::shed @returned) (shed x)
    (upgrade/response? @returned) (switch x returned entered)
    :else (send-response x returned body)))

(defn- work [^Exchange x]
  (let [entered (volatile! false)
        returned (volatile! nil)
        body (volatile! nil)]
    (try
      (answer-handler x entered returned body)
      (finally
        (when @entered
          (door/leave (:door (.-service x))))
        (abandon x @returned)
        (release x (or @body (when (map? @returned) (:body @returned))))))))

(defn- end-forks
  "Cancels what was forked in the scope for a body that has been sent."
  [^Scope s]
  (doseq [^Fork fork (.live s)]
    (.cancel fork :response-sent)))

(defn- in-scope
  "Does the work in a scope that is cancelled when the client leaves, and when the server stops."
  [^Exchange x]
  (scope/scope* (.-site x) nil
    (fn [s]
      (.set ^AtomicReference (.-scope x) s)
      (let [{:keys [gone] ::keys [stopped]} @(.-facts x)] ; told before there was a scope to cancel
        (when (or gone stopped)
          (scope/cancel s (if gone :client-gone :server-stopped))))
      (work x)
      (end-forks s))))

(defn- listen
  "Lets Jetty tell the end of the response, and the end of a stream of HTTP/2. A time-out of a connection does not end a request that is worked on."
  [^Exchange x]
  (let [^Request request (.-request x)
        ^Set in-progress (:in-progress (.-service x))]
    (Request/addCompletionListener request (reify Consumer (accept [_ _] (.remove in-progress x))))
    (.addFailureListener request (reify Consumer (accept [_ e] (client-failed x e))))
    (.addIdleTimeoutListener request (reify Predicate (test [_ _] false)))))

(defn- exchange ^Exchange [service request response callback]
  (Exchange. service (site-of request) request response callback (Thread/currentThread)
             (clock/now) (clock/deadline (clock/nanos (:request-timeout (:options service)))) (AtomicLong. Long/MAX_VALUE)
             (AtomicReference. :open) (AtomicReference.) (atom {:ended (not (request/body? request))}) (atom nil) (ReentrantLock.)))

(defn- refuse [x answered]
  (when (claim x)
    (answer x answered)))

(defn handle
  "Answers a request of Jetty's."
  [service request response callback]
  (let [x (exchange service request response callback)]
    (.add ^Set (:in-progress service) x)
    (listen x)
    (.setName (Thread/currentThread) (.-site x))
    (try
      (cond
        @(:stopping service) (refuse x stopping)
        (too-long? x) (refuse x (refused 413))
        :else (in-scope x))
      (catch Throwable e
        (failed x e)))
    true))

;; ---- seen from outside

(def ^:private ^:const patience-nanos
  "How long after its deadline a handler may take to end, before the client is answered without it."
  1000000000)

(defn- stuck
  "The error that describes a handler that goes on after its deadline, with its stack."
  [^Exchange x]
  (doto ^Throwable (errors/failure (str "The handler of " (.-site x) " goes on after its :request-timeout and does not wait, so it cannot be cancelled. "
                                     "The client was answered with status 503.")
                     {:magnetar/reason :magnetar/deadline :site (.-site x)})
    (.setStackTrace (.getStackTrace ^Thread (.-thread x)))))

(defn- answer-for-stuck
  "Answers for a handler that goes on after its deadline. A request that has no handler yet is on its way out of the queue."
  [^Exchange x]
  (when (claim-from-outside x)
    (if (::admitted @(.-facts x))
      (let [told (stuck x)]
        (answer x [503 nil true])
        (reports/notice (.-site x) (.-thread x) told))
      (answer x overloaded))))

(def ^:private ^:const watched-from-nanos
  "How long a request takes before its client is watched. Most are answered before."
  1000000000)

(defn- watch [^Exchange x ^long now]
  (when (and (:ended @(.-facts x)) (< (long watched-from-nanos) (- now (.-began x))))
    (departure/begin (.-watch x) (.-lock x) (.-request x) #(gone x))))

(defn- drop-slow-reader
  "Ends a response of which the client has not taken a part within :idle-timeout. Jetty's own time-out begins again with each byte."
  [^Exchange x ^long now]
  (let [idle (long (:idle (:limits (.-service x))))
        slow? #(< idle (- now (.get ^AtomicLong (.-since x))))]
    (when (slow?)
      (with-lock x #(when (slow?)
                      (some-> (HttpChannel/from (.-request x))
                              (.onFailure (TimeoutException. "The client does not read."))
                              .run))))))

(defn look-after
  "Called from time to time: watches the client of a request that takes long, drops one that does not read, and answers for a handler that is
  stuck."
  [^Exchange x now]
  (watch x now)
  (drop-slow-reader x now)
  (when (and (not= clock/infinite (.-ends x)) (< (+ (.-ends x) (long patience-nanos)) (long now)))
    (answer-for-stuck x)))

(defn stop
  "Cancels the request, because the server stops."
  [^Exchange x]
  (swap! (.-facts x) assoc ::stopped true)
  (cancel x :server-stopped))
