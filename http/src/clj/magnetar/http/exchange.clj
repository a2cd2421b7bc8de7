(ns magnetar.http.exchange
  "One request from its arrival to the end of its response, on the fiber that Jetty handles it on.

  Invariants:
    1. `phase` leaves :open once. The fiber of the request changes it to :fiber, another thread to :other. That one writes the response.
    2. A place at the door is left once, by the fiber of the request.
    3. The exchange is in the set of those in progress until Jetty has completed the response."
  {:no-doc true}
  (:require
   [magnetar.http.body :as body]
   [magnetar.http.departure :as departure]
   [magnetar.http.door :as door]
   [magnetar.http.request :as request]
   [magnetar.http.response :as response]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (java.io InputStream)
   (java.util Set)
   (java.util.concurrent.atomic AtomicReference)
   (java.util.concurrent.locks ReentrantLock)
   (java.util.function Consumer Predicate)
   (magnetar.kernel.scope Scope)
   (org.eclipse.jetty.http HttpException)
   (org.eclipse.jetty.server Request Response)
   (org.eclipse.jetty.util Callback)))

(set! *warn-on-reflection* true)

;; `ends` is the instant of the deadline. `scope` is the scope of the request once it has begun. `facts` holds what
;; the body met, and :gone once the client was seen to leave.
(deftype Exchange [service ^String site ^Request request ^Response response ^Callback callback ^Thread thread ^long ends
                   ^AtomicReference phase ^AtomicReference scope facts watch ^ReentrantLock lock])

(defn- claim
  "True if this fiber may write the response: it is the first to ask, or has asked before."
  [^Exchange x]
  (or (.compareAndSet ^AtomicReference (.-phase x) :open :fiber)
      (= :fiber (.get ^AtomicReference (.-phase x)))))

(defn- claim-for-fiber
  "True if this thread, which is not the fiber of the request, may write the response. It also reports why."
  [^Exchange x]
  (.compareAndSet ^AtomicReference (.-phase x) :open :other))

(defn- claimed-by-other? [^Exchange x]
  (= :other (.get ^AtomicReference (.-phase x))))

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

(defn- end-watch [^Exchange x]
  (departure/end (.-watch x) (.-lock x)))

;; ---- failures

(defn- cut
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

(defn- caused-by? [e cause]
  (and cause (some #(identical? cause %) (take 20 (take-while some? (iterate ex-cause e))))))

(defn- status-of-client
  "The status for what reading from the client or writing to it met, if that is what ended the handler; :gone if there is no client to answer; else nil."
  [{:keys [too-large failure write-failure]} e]
  (cond
    (caused-by? e write-failure) :gone
    (caused-by? e too-large) 413
    (and (caused-by? e failure) (instance? HttpException failure)) (.getCode ^HttpException failure)
    (and (caused-by? e failure) (instance? java.io.IOException failure)) :gone))

(defn- outcome
  "What becomes of a request whose handler ended by the error: [status headers close?], or :gone."
  [^Exchange x e]
  (let [facts @(.-facts x)
        status (status-of-client facts e)]
    (cond
      (or (:gone facts) (= :gone status)) :gone
      status [status nil true]
      (::late facts) (if (:reading facts) [408 nil true] [503 nil false])
      (::stopped facts) stopping
      :else [500 nil false])))

(defn- report
  "Reports the error once, if it is a failure of the program: the client's are not."
  [^Exchange x e outcome]
  (when (and (vector? outcome)
             (not (claimed-by-other? x))
             (or (= 500 (first outcome)) (and (::late @(.-facts x)) (= 503 (first outcome)))))
    (reports/report (.-site x) e)))

(defn- failed
  "The handler, or the writing of its response, ended by the error."
  [^Exchange x e]
  (let [outcome (outcome x e)]
    (report x e outcome)
    (when (claim x)
      (if (or (= :gone outcome) (.isCommitted ^Response (.-response x)))
        (cut x e)
        (answer x outcome)))))

;; ---- the work

(defn- body-of ^InputStream [^Exchange x]
  (if (request/body? (.-request x))
    (body/stream (.-request x) (:max-body (:options (.-service x))) (.-facts x))
    (InputStream/nullInputStream)))

(defn- too-long? [^Exchange x]
  (< (long (:max-body (:options (.-service x)))) (.getLength ^Request (.-request x))))

(defn- call-handler
  "The response of the handler, or ::shed."
  [^Exchange x entered]
  (let [{:keys [handler door]} (.-service x)]
    (if (door/enter door)
      (do (vreset! entered true)
          (handler (request/ring-map (.-request x) (body-of x))))
      ::shed)))

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

(defn- send-response [^Exchange x ring-response]
  (let [kind (response/check ring-response)]
    (if (claim x)
      (response/write (.-response x) ring-response kind (.-facts x) #(end-watch x) (.-callback x))
      (response/release-body (:body ring-response)))))

(defn- shed [x]
  (when (claim x)
    (answer x overloaded)))

(defn- work [^Exchange x]
  (let [entered (volatile! false)]
    (try
      (let [ring-response (within-deadline x #(call-handler x entered))]
        (if (identical? ::shed ring-response)
          (shed x)
          (send-response x ring-response)))
      (finally
        (when @entered
          (door/leave (:door (.-service x))))))))

(defn- in-scope
  "Does the work in a scope that is cancelled when the client leaves, and when the server stops."
  [^Exchange x]
  (scope/scope* (.-site x) nil
    (fn [s]
      (.set ^AtomicReference (.-scope x) s)
      (let [{:keys [gone] ::keys [stopped]} @(.-facts x)] ; told before there was a scope to cancel
        (when (or gone stopped)
          (scope/cancel s (if gone :client-gone :server-stopped))))
      (work x))))

(defn- listen
  "Lets Jetty tell the end of the response, and the end of a stream of HTTP/2. A time-out of a connection does not end a request that is worked on."
  [^Exchange x]
  (let [^Request request (.-request x)
        ^Set in-progress (:in-progress (.-service x))]
    (Request/addCompletionListener request (reify Consumer (accept [_ _] (.remove in-progress x))))
    (.addFailureListener request (reify Consumer (accept [_ _] (gone x))))
    (.addIdleTimeoutListener request (reify Predicate (test [_ _] false)))))

(defn- exchange ^Exchange [service request response callback]
  (Exchange. service (site-of request) request response callback (Thread/currentThread)
             (clock/deadline (clock/nanos (:request-timeout (:options service))))
             (AtomicReference. :open) (AtomicReference.) (atom {:ended (not (request/body? request))}) (atom nil) (ReentrantLock.)))

(defn handle
  "Answers a request of Jetty's."
  [service request response callback]
  (let [x (exchange service request response callback)]
    (.add ^Set (:in-progress service) x)
    (listen x)
    (.setName (Thread/currentThread) (.-site x))
    (try
      (cond
        @(:stopping service) (answer x stopping)
        (too-long? x) (answer x [413 nil true])
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

(defn- answer-for-stuck [^Exchange x]
  (when (claim-for-fiber x)
    (let [told (stuck x)]
      (answer x [503 nil true])
      (reports/notice (.-site x) (.-thread x) told))))

(defn look-after
  "Called from time to time: watches the client of a request that takes long, and answers for a handler that is stuck."
  [^Exchange x now]
  (let [facts @(.-facts x)]
    (when (:ended facts)
      (departure/begin (.-watch x) (.-lock x) (.-request x) #(gone x)))
    (when (and (not= clock/infinite (.-ends x)) (< (+ (.-ends x) (long patience-nanos)) (long now)))
      (answer-for-stuck x))))

(defn stop
  "Cancels the request, because the server stops."
  [^Exchange x]
  (swap! (.-facts x) assoc ::stopped true)
  (cancel x :server-stopped))
