(ns magnetar.nrepl.session
  "The process of an nREPL session: its evaluations run in it, one after another.

  It is a guest on a platform thread of the session. An interrupt closes the sockets that a virtual thread
  writes to, and the answers go out on this thread. nREPL is found on the class path when it is used."
  (:require
   [magnetar.actor :as actor]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.shell :as shell])
  (:import
   (clojure.lang Compiler DynamicClassLoader)
   (java.io IOException)
   (java.time Duration)
   (java.util.concurrent CountDownLatch LinkedBlockingQueue TimeUnit)))

(set! *warn-on-reflection* true)

(def ^{:dynamic true :added "0.3"} *message*
  "The message that a thread of the server handles.

  nREPL 1.0 does not pass it to `exec`."
  nil)

;; A binding would be kept by nREPL as one of the session.
(def ^:private ^ThreadLocal current-job (ThreadLocal.))

;; --- answers

(defn- not-answered
  "Reports why an answer failed and returns true; nil if the client is gone, or an interrupt ended the evaluation."
  [thrown]
  (when-not (some #(shell/cause-of % thrown) [ThreadDeath IOException])
    (reports/report "nREPL, which answers an evaluation" thrown)
    true))

(defn- respond
  "Sends an answer to a message. It is dropped if the client is gone."
  [{:keys [transport id session]} answer]
  (try
    ((requiring-resolve 'nrepl.transport/send)
     transport
     (cond-> (assoc answer :session (:id (meta session)))
       id (assoc :id id)))
    (catch Throwable thrown
      (not-answered thrown))))

(defn- acknowledge [{:keys [^Runnable ack state]}]
  (when (and ack (not (:interrupted @state)))
    (try (.run ack)
         (catch Throwable thrown
           (not-answered thrown)))))

(defn- forsake
  "Answers an evaluation that `close` has ended, or that never began."
  [{:keys [message]}]
  (respond message {:status #{:interrupted :done}}))

;; --- one evaluation

(defn- stop-quietly
  "Throws what nREPL takes for the end of an evaluation that is not to be printed."
  [job thrown]
  (swap! (:state job) assoc :error thrown)
  (Thread/interrupted) ; a channel that the answer is written to would be closed
  (throw (ThreadDeath.)))

(defn- ended-by [{:keys [state] :as job} thrown]
  (let [exit (shell/exit-of thrown)
        refusal (shell/refusal-of thrown "the nREPL session")]
    (cond
      (:interrupted @state)     (stop-quietly job thrown)
      (or exit (shell/over?))   (do (swap! state assoc :exit exit :over true)
                                    (stop-quietly job thrown))
      refusal                   (throw (IllegalStateException. ^String refusal))
      :else                     (throw thrown))))

(defn- evaluator [job]
  (if-some [named (::eval (:message job))]
    (find-var (symbol named))
    eval))

(defn evaluate
  "Evaluates a form of the current message.

  After an exit or an interrupt no further form of the message is evaluated."
  {:added "0.3"}
  [form]
  (let [{:keys [state] :as job} (.get current-job)]
    (when (or (:over @state) (:interrupted @state))
      (throw (ThreadDeath.)))
    (try
      ((evaluator job) form)
      (catch Throwable thrown
        (ended-by job thrown)))))

(defn- keep-bindings [session]
  (let [message (resolve 'nrepl.middleware.interruptible-eval/*msg*)]
    (swap! session merge (dissoc (get-thread-bindings) message Compiler/LOADER))))

(defn- run-in-bindings
  "From 1.3, `exec` sets the bindings of the session and keeps what they became. Before, the evaluation does."
  [session {:keys [^Runnable thunk message]}]
  (if-some [bindings (resolve 'nrepl.middleware.session/add-per-message-bindings)]
    (do (push-thread-bindings (bindings message @session))
        (try
          (.run thunk)
          (keep-bindings session)
          (finally (pop-thread-bindings))))
    (.run thunk)))

(defn- run-job
  "Runs the evaluation. Its answers are dropped if the client is gone."
  [{:keys [session]} {:keys [state] :as job}]
  (.set current-job job)
  (try
    (run-in-bindings session job)
    (catch Throwable thrown
      (when (not-answered thrown)
        (respond (:message job) {:status #{:error :eval-error}, :err (str "nREPL failed: " (ex-message thrown) "\n")})))
    (finally
      (.remove current-job)
      (some->> (:error @state) (swap! session assoc #'*e)))))

;; --- the process

(defn- begin
  "Returns false if the session was closed since the job was taken."
  [{:keys [^LinkedBlockingQueue queue now]} job]
  (locking queue
    (Thread/interrupted)
    (when-not (:closed @now)
      (vswap! now assoc :running job :last job)
      true)))

(defn- finish [{:keys [^LinkedBlockingQueue queue now]} job]
  (locking queue
    (Thread/interrupted) ; an interrupt for this evaluation is not for the next one
    (vswap! now assoc :running nil))
  (.countDown ^CountDownLatch (:done job)))

(defn- next-job [{:keys [^LinkedBlockingQueue queue]}]
  (try (.take queue)
       (catch InterruptedException _ nil)))

(defn- now-of [{:keys [^LinkedBlockingQueue queue now]}]
  (locking queue @now))

(defn- over-after?
  "Runs the evaluation; returns true if the process has to end."
  [process {:keys [state] :as job}]
  (run-job process job)
  (let [over (or (shell/over?) (:over @state))]
    (finish process job)
    over))

(defn- work
  "Runs evaluations until the process has to end. Then `left` gets the last one, which is not yet acknowledged."
  [process left]
  (when-not (shell/over?)
    (when (:closed (now-of process))
      (actor/exit :shutdown))
    (let [job (next-job process)]
      (cond
        (nil? job)                (recur process left)
        (not (begin process job)) (do (forsake job)
                                      (recur process left))
        (over-after? process job) (do (vreset! left job)
                                      (:exit @(:state job)))
        :else                     (do (acknowledge job)
                                      (recur process left))))))

(defn- goes-on?
  "Tells the client why the process exited; false after `close`."
  [process left reason]
  (Thread/interrupted)
  (let [{:keys [closed last]} (now-of process)]
    (when (and last (not closed))
      (respond (:message last) {:out (str (shell/farewell reason) "\n")}))
    (some-> @left acknowledge)
    (vreset! left nil)
    (not closed)))

(defn- serve [{:keys [id] :as process}]
  (let [left (volatile! nil)]
    (shell/host (str "nrepl-session-" (subs id 0 (min 8 (count id)))) #(work process left) #(goes-on? process left %))))

(defn- start-thread ^Thread [{:keys [id] :as process}]
  (let [loader (DynamicClassLoader. (.getContextClassLoader (Thread/currentThread)))]
    (doto (Thread. ^Runnable #(serve process) (str "nREPL-session-" id))
      (.setDaemon true)
      (.setContextClassLoader loader)
      (.start))))

;; --- what nREPL calls: :exec, :interrupt and :close of a session

(defn- accept
  "Queues the evaluation, and starts the thread with the first one. Returns false if the session is closed."
  [{:keys [^LinkedBlockingQueue queue now] :as process} job]
  (locking queue
    (when-not (:closed @now)
      (.put queue job)
      (when-not (:thread @now)
        (vswap! now assoc :thread (start-thread process)))
      true)))

(defn- exec [process id thunk ack message]
  (let [job {:id (or id (str (random-uuid))), :thunk thunk, :ack ack, :message (or message *message*)
             :state (atom {}), :done (CountDownLatch. 1)}]
    (when-not (accept process job)
      (forsake job))))

(def ^:private patience
  "Milliseconds after which an evaluation that was interrupted is said to go on."
  2000)

(def ^:private goes-on
  "The evaluation is marked as interrupted, and computes on: it looks at no interrupt, and a JDK 25 cannot stop a thread. ")

(defn- say-it-goes-on [{:keys [message]} consequence]
  (respond message {:err (str goes-on consequence "\n")}))

(defn- mark [{:keys [^LinkedBlockingQueue queue now]} id]
  (locking queue
    (let [{:keys [running ^Thread thread]} @now]
      (cond
        (nil? running) :idle
        (or (nil? id) (= id (:id running))) (do (swap! (:state running) assoc :interrupted true)
                                                (.interrupt thread)
                                                running)))))

(defn- interrupt [process id]
  (let [job (mark process id)]
    (if (map? job)
      (do (when-not (.await ^CountDownLatch (:done job) (long patience) TimeUnit/MILLISECONDS)
            (say-it-goes-on job "Until it ends, this session evaluates nothing else; a new session does."))
          (:id job))
      job)))

(defn- mark-closed
  "Returns the evaluation that runs and those that now never will."
  [{:keys [^LinkedBlockingQueue queue now]}]
  (locking queue
    (let [{:keys [running]} (vswap! now assoc :closed true)
          waiting (vec (.toArray queue))]
      (.clear queue)
      [running waiting])))

(defn- end-from-outside
  "Ends the process. If it does not end in time, the client is told so."
  [process ^Thread thread running]
  (some-> running :state (swap! assoc :interrupted true))
  (.interrupt thread)
  (when-not (.join thread (Duration/ofMillis patience))
    (say-it-goes-on (or running (:last (now-of process))) "The session is closed. Its process and its thread stay until it ends."))
  (some-> running forsake))

(defn- close
  "Ends the process, which has exited when this returns. An evaluation that closes its own session is its last one."
  [process]
  (let [[running waiting] (mark-closed process)
        ^Thread thread (:thread (now-of process))]
    (when-not (or (nil? thread) (identical? thread (Thread/currentThread)))
      (end-from-outside process thread running))
    (run! forsake waiting)))

(defn- functions [process]
  {::process process
   :exec (fn
           ([id thunk ack] (exec process id thunk ack nil))
           ([id thunk ack message] (exec process id thunk ack message)))
   :interrupt #(interrupt process %)
   :close #(close process)})

(defn lasting?
  "Returns true for a session that was cloned.

  A session without an id ends with its message, and nREPL runs it."
  {:added "0.3"}
  [session]
  (boolean (:close (meta session))))

(defn adopt
  "Lets evaluations of the session, nREPL's atom, run in a process.

  Ends the thread that nREPL has for the session."
  {:added "0.3"}
  [session]
  (locking session
    (let [{:keys [id close] ::keys [process]} (meta session)]
      (when-not process
        (close)
        (alter-meta! session merge
          (functions {:id id, :session session, :queue (LinkedBlockingQueue.), :now (volatile! {})}))))))
