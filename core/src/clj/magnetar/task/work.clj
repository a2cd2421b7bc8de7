(ns magnetar.task.work
  "The two sides of a task: the process that does the work, and the one that waits for what comes of it.

  The process waits until it is told the reference that its owner knows it by: an alias of the owner and a monitor at once. It answers with
  [reference value]; if it dies before, its owner gets the message of the monitor."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.impl.transactions :as transactions]
   [magnetar.proc-lib :as proc-lib])
  (:import
   (magnetar.kernel.fiber Exit)
   (magnetar.kernel.process Calls Calls$Failed Calls$Why Hosting Links LocalProcess Matcher Pid Pid$Ended Ref Refs)))

(set! *warn-on-reflection* true)

(defrecord Task [pid ref owner site])

;; ---- the process that works

(defn callers
  "The process that started this task, its own starter, and so on."
  []
  (or (actor/pget ::callers) []))

(defn- callers-of-new [owner]
  (into [owner] (take 10) (callers)))

(defn- told-to-go
  "The reference to answer to; exits if the owner does before it has said it."
  [owner]
  (let [watch (actor/monitor owner)
        ref (receive
              [::go ref] ref
              [:DOWN watch :process _ why] (throw (Exit. [:shutdown why])))]
    (actor/demonitor watch {:flush true})
    ref))

(defn- answer
  "Sends what f returns to the owner; of a task that continues, what that returns."
  [ref f]
  (! ref [ref (try
                (f)
                (catch Throwable t
                  (throw (if (Hosting/isContinue t) (proc-lib/going-on t #(answer ref %)) t))))]))

(defn for-owner
  "The body of a task, which answers to the owner, on whatever node that is."
  [owner callers f args]
  (fn []
    (actor/pput ::callers callers)
    (let [ref (told-to-go owner)]
      (answer ref #(apply f args)))))

;; ---- starting it

(defn check-function
  "Refuses what cannot be called."
  [operation f]
  (arguments/function operation f (str "(" operation " fetch url)")))

(defn- going [ref]
  [::go ref])

(defn- introduce
  "Tells the process whom to answer, by the message (go reference); the task."
  [owner site pid go]
  (let [ref (actor/monitor pid {:alias :reply-demonitor})]
    (try
      (! pid (go ref))
      (catch Throwable t ; the other node cannot read it
        (actor/demonitor ref {:flush true})
        (throw t)))
    (->Task pid ref owner site)))

(defn async
  "Starts (f & args) in a process that is linked to this one; the task."
  [site f args]
  (check-function "async" f)
  (let [owner (.pid (LocalProcess/require "async"))
        body (for-owner owner (callers-of-new owner) f args)]
    (introduce owner site (proc-lib/spawn-with "async" site {:link true} body) going)))

(defn callers-from-here
  "The callers of what this process starts."
  []
  (if-some [process (LocalProcess/current)]
    (callers-of-new (.pid process))
    []))

(defn called-by
  "f, which has these callers in whatever process it is called."
  [callers f]
  (fn []
    (actor/pput ::callers callers)
    (f)))

(defn with-callers
  "f, which knows this process as its caller, in whatever process it is called."
  [f]
  (called-by (callers-from-here) f))

(defn start
  "Starts f in a process whose value is not awaited."
  [operation site options f]
  (check-function operation f)
  (proc-lib/spawn-with operation site options (with-callers f)))

(defn child-body
  "The body of a task that a supervisor starts for this process."
  [operation f args]
  (check-function operation f)
  (let [owner (.pid (LocalProcess/require operation))]
    (for-owner owner (callers-of-new owner) f args)))

(defn adopt
  "Makes the process, which a supervisor has started, a task of this one. It begins by the message (go reference)."
  ([site pid link?] (adopt site pid link? going))
  ([site pid link? go]
   (let [owner (actor/self)]
     (when link?
       (Links/link (LocalProcess/current) pid)) ; of one that died meanwhile the monitor tells
     (introduce owner site pid go))))

;; ---- what comes of it

(defn check-owner
  "This process, which has to be the owner of the task."
  ^LocalProcess [operation task]
  (when-not (instance? Task task)
    (arguments/misuse :magnetar/not-a-task
                      (str "`" operation "` wants a task, as `async` returns it; this is " (arguments/show task) ".") {:value task}))
  (transactions/refuse operation)
  (let [me (LocalProcess/require operation)]
    (when-not (= (:owner task) (.pid me))
      (arguments/misuse :magnetar/not-the-owner
                        (str "`" operation "` was called by " (.pid me) " for the " (:site task) ", whose answer goes to its owner "
                             (:owner task) " only: await it there, and send the value on.")
                        {:task task :owner (:owner task)}))
    me))

(defn- doing [{:keys [pid]}]
  (let [there? (nodes/elsewhere? pid)
        {:keys [current-function waits-for since-ms]} (when-not there? (actor/process-info pid))]
    (cond
      there? (str " It is on the node " (nodes/name-of pid) ".")
      waits-for (str " It waits for " waits-for (when current-function (str " in " current-function)) ", since " since-ms " ms.")
      current-function (str " It is in " current-function ".")
      :else "")))

(defn failed
  "The error of an operation, a qualified symbol, on a task that has died."
  [operation {:keys [site pid] :as task} reason timeout]
  (errors/failure (str "The " site ", " pid ", failed: " (reasons/text reason) ".")
    {:magnetar/reason :magnetar/task-failed
     :reason reason
     :task task
     :magnetar/exit [reason (timeouts/call operation [task timeout])]}))

(defn late
  "The error of an operation, a qualified symbol, on a task that has not ended in time."
  [operation {:keys [site pid] :as task} timeout]
  (timeouts/error (str "The " site ", " pid ", has not ended in time, after " (arguments/show-duration timeout) "."
                       (doing task) " Give it a longer :timeout, or {:else value} to get that value instead of this error.")
                  operation task timeout [task timeout] {:reason :timeout :task task}))

(defn no-more
  "The error of a second `await` of a task. It has the reason :timeout, as in Elixir, where it comes when the time is over."
  [operation {:keys [site pid] :as task} timeout]
  (errors/failure (str "The " site ", " pid ", was awaited before, shut down or given up: its value is handed out once, so keep what `await` returned.")
    {:magnetar/reason :magnetar/task-failed
     :reason :timeout
     :task task
     :magnetar/exit [:timeout (timeouts/call operation [task timeout])]}))

(defn- true-reason
  "Why the task has died; also of one that had died when the monitor was set."
  [^Pid pid reason]
  (let [ended (when (= :noproc reason) (.ended pid))]
    (if ended (.reason ^Pid$Ended ended) reason)))

(defn- ended
  "[:ok value] or [:exit reason] of what waiting for a task has ended with; nil if time ran out."
  [task end]
  (cond
    (not (instance? Calls$Failed end)) [:ok end]
    (identical? Calls$Why/DOWN (.why ^Calls$Failed end)) [:exit (true-reason (:pid task) (.detail ^Calls$Failed end))]))

(defn result
  "[:ok value] or [:exit reason] of a message that a task's owner has received."
  [answer]
  (if (= 2 (count answer))
    [:ok (nth answer 1)]
    [:exit (true-reason (nth answer 3) (nth answer 4))]))

(defn linked?
  "Is this process linked to the other one still?"
  [^LocalProcess me pid]
  (boolean (some #{pid} (.links (.info me)))))

(defn die-of
  "A task has died to which this process is linked: it does as well, unless it traps exits. The signal of the link may come after the message."
  [^LocalProcess me {:keys [pid]} [how reason]]
  (when (and (= :exit how) (not= :normal reason) (not (.trapsExits me)) (linked? me pid))
    (throw (Exit. reason))))

(defn take-answer
  "The result of the task; nil if the task has not ended within so many nanoseconds. Then it may be asked for again."
  [^LocalProcess me task nanos]
  (when-some [result (ended task (Calls/await me (:ref task) (long nanos)))]
    (die-of me task result)
    result))

(defn give-up
  "Waits for the task no longer: its result if that is there already, or nil."
  [^LocalProcess me task]
  (ended task (Calls/giveUp me (:ref task))))

(defn value-or-throw
  "The value of a result; throws if the task died."
  [operation task timeout [how x]]
  (if (= :ok how)
    x
    (throw (failed operation task x timeout))))

;; ---- many at once

(deftype Answers [refs] ; a map whose keys are references
  Matcher
  (match [_ message]
    (when (vector? message)
      (case (count message)
        2 (when (and (instance? Ref (nth message 0)) (contains? refs (nth message 0))) message)
        5 (when (and (instance? Ref (nth message 1)) (contains? refs (nth message 1))) message)
        nil))))

(defn mark
  "The place in the mailbox behind which all answers to these references are."
  ^long [^LocalProcess me refs]
  (transduce (map #(Refs/mark me (object-array [%]))) min Long/MAX_VALUE refs))

(defn take-any
  "[reference result] of the first answer behind the mark to one of the references, which are the keys of a map; nil if none comes within so many
  nanoseconds."
  [^LocalProcess me refs mark nanos]
  (when-some [answer (.receive me (Answers. refs) (long nanos) (long mark))]
    [(if (= 2 (count answer)) (nth answer 0) (nth answer 1))
     (result answer)]))

(defn put-back
  "Sends this process the values again that it took, a map from references to results: the tasks may be awaited again."
  [^LocalProcess me results]
  (doseq [[ref [_ value]] results]
    (! (.pid me) [ref value])))

(defn too-many
  "The error of a supervisor that takes no more tasks."
  [supervisor]
  (errors/illegal-state :magnetar/too-many-tasks
                        (str "The task supervisor " (arguments/show supervisor) " has as many tasks as its :max-children allows: give it more, or "
                             "start fewer at once; an async-stream no more than its :max-concurrency says.")
                        {:supervisor supervisor}))
