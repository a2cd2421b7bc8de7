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

(def ^{:dynamic true :added "0.2"} *message*
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

(defn- send-to [transport answer]
  ((requiring-resolve 'nrepl.transport/send) transport answer))

(defn- respond
  "Sends an answer to a message, also of an evaluation that was abandoned. It is dropped if the client is gone."
  [{::keys [transport] :keys [id session] :as message} answer]
  (try
    (send-to (or transport (:transport message))
             (cond-> (assoc answer :session (:id (meta session)))
               id (assoc :id id)))
    (catch Throwable thrown
      (not-answered thrown))))

(defn- unless-abandoned
  "Calls f, unless the evaluation with this state was abandoned. `abandon` waits for the end of f."
  [state f]
  (locking state
    (when-not (:abandoned @state)
      (f))))

(def ^:private transport-of
  "Makes a transport of two functions. nREPL's protocol is known only when the program runs."
  (delay
    (requiring-resolve 'nrepl.transport/Transport)
    (eval `(fn [send# recv#]
             (reify nrepl.transport/Transport
               (~'send [this# answer#] (send# answer#) this#)
               (~'recv [this#] (recv#))
               (~'recv [this# timeout#] (recv# timeout#)))))))

(defn- guarded
  "A transport that drops the answers of the evaluation once it is abandoned."
  [transport state]
  (@transport-of
    (fn [answer] (unless-abandoned state #(send-to transport answer)))
    (fn [& timeout] (apply (requiring-resolve 'nrepl.transport/recv) transport timeout))))

(defn of-session
  "Returns the message with the evaluation and the transport of its session.

  The transport drops what an evaluation sends after it was abandoned."
  {:added "0.2"}
  [{:keys [transport eval] :as message}]
  (let [state (atom {})]
    (assoc message
      ::state state, ::transport transport, ::eval eval
      :transport (guarded transport state)
      :eval "magnetar.nrepl.session/evaluate")))

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
  {:added "0.2"}
  [form]
  (let [{:keys [state] :as job} (.get current-job)]
    (when (or (:over @state) (:interrupted @state))
      (throw (ThreadDeath.)))
    (try
      (let [value ((evaluator job) form)]
        (if (:abandoned @state) (throw (ThreadDeath.)) value))
      (catch Throwable thrown
        (ended-by job thrown)))))

(defn- keep-bindings [session]
  (let [message (resolve 'nrepl.middleware.interruptible-eval/*msg*)]
    (swap! session merge (dissoc (get-thread-bindings) message Compiler/LOADER))))

(defn- run-in-bindings
  "From 1.3, `exec` sets the bindings of the session and keeps what they became. Before, the evaluation does."
  [session {:keys [^Runnable thunk message] :as job}]
  (if-some [bindings (resolve 'nrepl.middleware.session/add-per-message-bindings)]
    (do (push-thread-bindings (bindings message @session))
        (try
          (.run thunk)
          (unless-abandoned (:state job) #(keep-bindings session))
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
        (unless-abandoned state
          #(respond (:message job) {:status #{:error :eval-error}, :err (str "nREPL failed: " (ex-message thrown) "\n")}))))
    (finally
      (.remove current-job)
      (unless-abandoned state #(some->> (:error @state) (swap! session assoc #'*e))))))

(defn- not-from-an-abandoned-evaluation
  "The validator of a session. Before nREPL 1.3 an evaluation writes its bindings there itself."
  [_]
  (when (some-> ^ThreadLocal current-job .get :state deref :abandoned)
    (throw (ThreadDeath.)))
  true)

;; --- the process

(defn- current?
  "Returns false on a thread that computes an evaluation that was abandoned."
  [{:keys [^LinkedBlockingQueue queue now]}]
  (locking queue
    (identical? (Thread/currentThread) (:thread @now))))

(defn- begin
  "Returns false if the session was closed since the job was taken."
  [{:keys [^LinkedBlockingQueue queue now]} job]
  (locking queue
    (Thread/interrupted)
    (when-not (:closed @now)
      (vswap! now assoc :running job :last job :pid (actor/self))
      true)))

(defn- finish
  "Returns false if the evaluation was abandoned."
  [{:keys [^LinkedBlockingQueue queue now] :as process} job]
  (let [current (locking queue
                  (Thread/interrupted) ; an interrupt for this evaluation is not for the next one
                  (when (current? process)
                    (vswap! now assoc :running nil)
                    true))]
    (.countDown ^CountDownLatch (:done job))
    current))

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
    (or (not (finish process job)) over)))

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

(defn- tell-exit
  "Tells the client why the process exited; returns false after `close`."
  [process left reason]
  (let [{:keys [closed last]} (now-of process)]
    (when (and last (not closed))
      (respond (:message last) {:out (str (shell/farewell reason) "\n")}))
    (some-> @left acknowledge)
    (vreset! left nil)
    (not closed)))

(defn- goes-on?
  "Returns true if this thread is to go on with a new process."
  [process left reason]
  (Thread/interrupted)
  (and (current? process) (tell-exit process left reason)))

(defn- serve [{:keys [id] :as process}]
  (let [left (volatile! nil)]
    (shell/host (str "nrepl-session-" (subs id 0 (min 8 (count id)))) #(work process left) #(goes-on? process left %))))

(defn- start-thread ^Thread [{:keys [id loader] :as process}]
  (doto (Thread. ^Runnable #(serve process) (str "nREPL-session-" id))
    (.setDaemon true)
    (.setContextClassLoader @loader)
    (.start)))

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
  (let [message (or message *message*)
        job {:id (or id (str (random-uuid))), :thunk thunk, :ack ack, :message message
             :state (or (::state message) (atom {})), :done (CountDownLatch. 1)}]
    (when-not (accept process job)
      (forsake job))))

(def ^:private rounds
  "How often an evaluation is interrupted, 100 ms apart. Then it is abandoned."
  20)

(defn- mark [{:keys [^LinkedBlockingQueue queue now]} id]
  (locking queue
    (let [{:keys [running]} @now]
      (cond
        (nil? running) :idle
        (or (nil? id) (= id (:id running))) (do (swap! (:state running) assoc :interrupted true)
                                                running)))))

(defn- interrupt-once
  "Interrupts the thread, unless the evaluation has ended: an interrupt for it is not for the next one."
  [{:keys [^LinkedBlockingQueue queue now]} job]
  (locking queue
    (let [{:keys [running ^Thread thread]} @now]
      (when (identical? running job)
        (.interrupt thread)))))

(defn- ends?
  "Interrupts the evaluation until it ends. Code that is being loaded clears the interrupt, so that one may be lost.
  Returns false if it goes on for 2 seconds."
  [process {:keys [^CountDownLatch done] :as job}]
  (loop [n 0]
    (interrupt-once process job)
    (cond
      (.await done 100 TimeUnit/MILLISECONDS) true
      (< (inc n) (long rounds)) (recur (inc n))
      :else false)))

(defn- what-it-does [^Thread thread]
  (if (= Thread$State/RUNNABLE (.getState thread))
    "computes on: it looks at no interrupt"
    "waits on: where it waits, an interrupt does not reach it"))

(defn- say-abandoned [what-it-did {:keys [message]} consequence]
  (respond message
    {:err (str "The evaluation is marked as interrupted, and " what-it-did ". It is abandoned: " consequence
               " The thread of the evaluation goes on until the code ends or waits. What it prints or returns is dropped.\n")}))

(defn- drop-answers
  "Waits for an answer that is being sent: after this there is none."
  [{:keys [state]}]
  (swap! state assoc :abandoned true)
  (unless-abandoned state (constantly nil)))

(defn- leave-behind
  "Starts a new process for the session, and tells the old one to exit. Returns what the old one did, or nil if the
  evaluation has ended. It is looked at before the exit signal, which wakes a thread for a moment."
  [{:keys [^LinkedBlockingQueue queue now] :as process} job]
  (locking queue
    (let [{:keys [running thread pid]} @now]
      (when (identical? running job)
        (let [what-it-did (what-it-does thread)]
          (vswap! now assoc :running nil :last nil :thread (start-thread process))
          (actor/exit pid :kill)
          what-it-did)))))

(defn- abandon
  "Lets the session go on without the evaluation. Returns nil if that has ended, or was abandoned before."
  [process job]
  (when-some [what-it-did (leave-behind process job)]
    (drop-answers job)
    (say-abandoned what-it-did job "the session goes on in a new process.")
    true))

(defn- interrupt [process id]
  (let [job (mark process id)]
    (if (map? job)
      (if (or (ends? process job) (abandon process job))
        (:id job)
        :idle)
      job)))

(defn- mark-closed
  "Returns the evaluation that runs and those that now never will."
  [{:keys [^LinkedBlockingQueue queue now]}]
  (locking queue
    (let [{:keys [running]} (vswap! now assoc :closed true)
          waiting (vec (.toArray queue))]
      (.clear queue)
      [running waiting])))

(defn- end-thread
  "Interrupts the thread until it ends. Returns false if it goes on for 2 seconds."
  [^Thread thread]
  (loop [n 0]
    (.interrupt thread)
    (cond
      (.join thread (Duration/ofMillis 100)) true
      (< (inc n) (long rounds)) (recur (inc n))
      :else false)))

(defn- end-from-outside
  "Ends the process. If it does not end in time, the evaluation is abandoned, and the client is told so."
  [process ^Thread thread running]
  (some-> running :state (swap! assoc :interrupted true))
  (when-not (end-thread thread)
    (let [{:keys [pid last]} (now-of process)
          job (or running last)
          what-it-did (what-it-does thread)]
      (drop-answers job)
      (some-> pid (actor/exit :kill))
      (say-abandoned what-it-did job "the session is closed.")))
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

(defn- new-process [id session]
  {:id id, :session session, :queue (LinkedBlockingQueue.), :now (volatile! {})
   :loader (delay (DynamicClassLoader. (.getContextClassLoader (Thread/currentThread))))})

(defn lasting?
  "Returns true for a session that was cloned.

  A session without an id ends with its message, and nREPL runs it."
  {:added "0.2"}
  [session]
  (boolean (:close (meta session))))

(defn adopt
  "Lets evaluations of the session, nREPL's atom, run in a process.

  Ends the thread that nREPL has for the session."
  {:added "0.2"}
  [session]
  (locking session
    (let [{:keys [id close] ::keys [process]} (meta session)]
      (when-not process
        (close)
        (set-validator! session not-from-an-abandoned-evaluation)
        (alter-meta! session merge (functions (new-process id session)))))))
