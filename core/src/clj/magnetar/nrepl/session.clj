(ns magnetar.nrepl.session
  "The process of an nREPL session: its evaluations run in it, one after another.

  It is a guest on a platform thread of the session. An interrupt closes the sockets that a virtual thread
  writes to, and the answers go out on this thread. nREPL is found on the class path when it is used."
  (:require
   [magnetar.actor :as actor]
   [magnetar.impl.explain :as explain]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang Compiler DynamicClassLoader)
   (java.io IOException)
   (java.util.concurrent CountDownLatch LinkedBlockingQueue TimeUnit)
   (magnetar.kernel.fiber Exit Fiber)
   (magnetar.kernel.process Hosting Pid Spawn Spawn$Guest Spawn$Options)))

(set! *warn-on-reflection* true)

(def ^{:dynamic true :added "0.3"} *message*
  "The message that a thread of the server handles.

  nREPL 1.0 does not pass it to `exec`."
  nil)

;; A binding would be kept by nREPL as one of the session.
(def ^:private ^ThreadLocal current-job (ThreadLocal.))

(defn- cause-of [kind thrown]
  (first (filter #(instance? kind %) (explain/causes thrown))))

(defn- over? []
  (.isCancelled (Fiber/current)))

;; --- answers

(defn- respond
  "Sends an answer to a message. It is dropped if the client is gone."
  [{:keys [transport id session]} answer]
  (try
    ((requiring-resolve 'nrepl.transport/send)
     transport
     (cond-> (assoc answer :session (:id (meta session)))
       id (assoc :id id)))
    (catch IOException _ nil)))

(defn- acknowledge [{:keys [^Runnable ack state]}]
  (when (and ack (not (:interrupted @state)))
    (try (.run ack)
         (catch IOException _ nil))))

;; --- one evaluation

(defn- stop-quietly
  "Throws what nREPL takes for the end of an evaluation that is not to be printed."
  [job thrown]
  (swap! (:state job) assoc :error thrown)
  (Thread/interrupted) ; a channel that the answer is written to would be closed
  (throw (ThreadDeath.)))

(defn- ended-by [{:keys [state] :as job} thrown]
  (let [exit (cause-of Exit thrown)]
    (cond
      (:interrupted @state)
      (stop-quietly job thrown)

      (or exit (over?))
      (do (swap! state assoc :exit exit :over true)
          (stop-quietly job thrown))

      (Hosting/isContinue thrown)
      (throw (IllegalStateException.
               (str "`continue` drops the stack of its process, which is that of the nREPL session here: call it in a process "
                    "of its own, as in (spawn #(continue f)).")))

      :else
      (throw thrown))))

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

(defn- run-job [{:keys [session]} {:keys [state] :as job}]
  (.set current-job job)
  (try
    (run-in-bindings session job)
    (catch Throwable thrown
      (when-not (cause-of ThreadDeath thrown)
        (swap! state assoc :failed thrown)))
    (finally
      (.remove current-job)
      (some->> (:error @state) (swap! session assoc #'*e)))))

;; --- the process

(defn- begin [{:keys [^LinkedBlockingQueue queue now]} job]
  (locking queue
    (Thread/interrupted)
    (vswap! now assoc :running job :last job)))

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

(defn- leave-if-closed [process]
  (when (:closed (now-of process))
    (actor/exit :shutdown)))

(defn- note-failure
  "A client that is gone ends the process; the session starts another one for its next evaluation."
  [{:keys [now queue]} {:keys [state]}]
  (when-some [failed (:failed @state)]
    (when (cause-of IOException failed)
      (locking queue (vswap! now assoc :deserted true))
      (actor/exit :shutdown))))

(defn- over-after?
  "Runs the evaluation; returns true if the process has to end. Then `left` gets the job, which is not yet acknowledged."
  [process {:keys [state] :as job} left]
  (begin process job)
  (run-job process job)
  (let [over (or (over?) (:over @state))]
    (finish process job)
    (when over
      (vreset! left job)
      (some-> ^Throwable (:exit @state) throw))
    over))

(defn- work
  "Runs evaluations until the process has to end."
  [process left]
  (let [job (when-not (or (over?) (:closed (now-of process))) (next-job process))]
    (cond
      (nil? job)                      (when-not (over?) (leave-if-closed process) (recur process left))
      (over-after? process job left) nil
      :else                           (do (acknowledge job)
                                          (note-failure process job)
                                          (recur process left)))))

(defn- ended? [{:keys [^LinkedBlockingQueue queue now]}]
  (locking queue
    (let [{:keys [closed deserted]} @now
          ended (or closed (and deserted (.isEmpty queue)))]
      (vswap! now dissoc :deserted)
      (when ended (vswap! now dissoc :thread))
      ended)))

(defn- announce [process ^Spawn$Guest guest]
  (let [{:keys [closed deserted last]} (now-of process)]
    (when (and last (not closed) (not deserted))
      (respond (:message last) {:out (str "** exited: " (reasons/sentence (.reason (.ended ^Pid (.pid guest)))) "\n")}))))

(defn- serve [process]
  (let [left (volatile! nil)
        guest (Spawn/host (Spawn$Options. "nrepl-session") #(do (work process left) nil))]
    (Thread/interrupted)
    (announce process guest)
    (some-> @left acknowledge)
    (when-not (ended? process)
      (recur process))))

(defn- start-thread ^Thread [{:keys [id] :as process}]
  (let [loader (DynamicClassLoader. (.getContextClassLoader (Thread/currentThread)))]
    (doto (Thread. ^Runnable #(serve process) (str "nREPL-session-" id))
      (.setDaemon true)
      (.setContextClassLoader loader)
      (.start))))

;; --- what nREPL calls: :exec, :interrupt and :close of a session

(defn- exec [{:keys [^LinkedBlockingQueue queue now] :as process} id thunk ack message]
  (locking queue
    (when-not (:closed @now)
      (.put queue {:id (or id (str (random-uuid))), :thunk thunk, :ack ack, :message (or message *message*)
                   :state (atom {}), :done (CountDownLatch. 1)})
      (when-not (:thread @now)
        (vswap! now assoc :thread (start-thread process))))))

(def ^:private patience
  "Milliseconds after which an evaluation that was interrupted is said to go on."
  2000)

(def ^:private goes-on
  (str "The evaluation is marked as interrupted, and computes on: it looks at no interrupt, and a JDK 25 cannot stop a thread. "
       "Until it ends, this session evaluates nothing else; a new session does.\n"))

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
            (respond (:message job) {:err goes-on}))
          (:id job))
      job)))

(defn- close [{:keys [^LinkedBlockingQueue queue now]}]
  (locking queue
    (vswap! now assoc :closed true)
    (some-> ^Thread (:thread @now) .interrupt)
    (some-> (:running @now) :state (swap! assoc :interrupted true))))

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
