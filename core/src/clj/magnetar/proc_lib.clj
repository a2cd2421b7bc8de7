(ns magnetar.proc-lib
  "Processes of OTP, which servers and supervisors are made of.

  They know their ancestors, report a crash, and start and stop in step with other processes.

  spawn spawn-link         like those of `magnetar.actor`, with ancestors and a crash report
  start start-link         wait until the new process says that it is ready
  init-ack init-fail       say so
  stop                     ends a process of OTP in order
  ancestors                the processes that have started this process

    (proc-lib/start-link (fn [] (proc-lib/init-ack [:ok (self)]) (serve {}))) ;=> [:ok pid]

  The names follow Erlang's module proc_lib.

  Require it as `[magnetar.proc-lib :as proc-lib]`."
  (:refer-clojure :exclude [ancestors])
  (:require
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.actor.current :refer [perase pget pput self]]
   [magnetar.impl.actor.info :as info]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.actor.receive :refer [receive]]
   [magnetar.impl.actor.send :refer [!]]
   [magnetar.impl.actor.servers :as servers]
   [magnetar.impl.actor.start :as start]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.hooks :as hooks]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.impl.versions :as versions]
   [magnetar.proc-lib.report :as report])
  (:import
   (java.util.concurrent Callable)
   (java.util.function UnaryOperator)
   (magnetar.kernel.fiber Exit)
   (magnetar.kernel.process Hosting Links LocalProcess Pid Refs RemoteName Send)))

(set! *warn-on-reflection* true)

(defn set-report-hook
  "Adds a report hook in place of the one that this function added before.

  Deprecated: `magnetar.report/add-hook` lets several libraries receive reports.

  Returns the hook that was there; nil as an argument adds none.

  Example:

    (proc-lib/set-report-hook nil) ; (report/remove-hook :report f)"
  {:deprecated "0.2"}
  [f]
  (hooks/set-one :report f))

(defn ancestors
  "Returns the process that started this one, its own starter, and so on.

  They are pids, or names where the processes had one, the nearest first.

  Example:

    (task/await (task/async proc-lib/ancestors)) ;=> [pid]

  Erlang: the key '$ancestors' of the dictionary."
  []
  (:ancestors (pget ::family)))

(defn- own-name
  "The name of this process, or its pid; nil outside of processes."
  []
  (when-some [^LocalProcess me (LocalProcess/current)]
    (or (.name me) (.pid me))))

;; ---- names of threads

(def ^:private ^:const longest-path 200)

(defn- path
  "The path to this process, which is the name of its thread. Of a process that is too deep only its label, so that no path grows without end."
  []
  (let [path (.getName (Thread/currentThread))]
    (if (< longest-path (.length path)) (.label (self)) path)))

(defn- name-thread
  "Names the thread by the path to this process, as :shop/:tills/:till-3. The JDK's thread dumps are flat, and show nothing else from which the tree could be
  told. Siblings with the same label, as the servers of one callback module, share one text."
  [family]
  (let [{:keys [::path ::latest]} (meta family)
        label (.label (self))
        [latest-label latest-name] @latest
        name (if (= label latest-label) latest-name (str path "/" label))]
    (vreset! latest [label name])
    (.setName (Thread/currentThread) name)))

;; ---- families

;; The metadata holds what the children share: the path to their parent, the label and the path of the child that was named last, and the dictionary of the
;; last child that was ready, for share-dictionary.
(defn- new-family [me]
  (with-meta {:ancestors (into [me] (take 10) (ancestors)), :parent (self)}
    {::path (path), ::latest (volatile! nil), ::dictionary (volatile! nil)}))

(defn- family-of-children
  "What all children of this process share, made once; nil outside of processes."
  []
  (when-some [me (own-name)]
    (let [known (pget ::children)]
      (if (= me (first (:ancestors known)))
        known
        (doto (new-family me) (->> (pput ::children)))))))

(defn- crashed [reason]
  (report/crash {:pid (self)
                 :label (.label (self))
                 :reason reason
                 :ancestors (ancestors)})
  (throw (Exit. reason)))

(defn ^:no-doc alive-here?
  "False once an exit signal has reached this process: then what it throws is no crash."
  []
  (.isAlive (self)))

(defn ^:no-doc failed-here?
  "True if what was thrown is a failure of this process: no exit signal has reached it, and it does not `continue`."
  [t]
  (and (alive-here?) (not (Hosting/isContinue t))))

(defn ^:no-doc going-on
  "What a process throws that continues, where it is to go on with (around next) instead of `next`."
  [t around]
  (Hosting/goingOn t (reify UnaryOperator
                            (apply [_ next] #(around (fn [] (.call ^Callable next)))))))

(defn- guarded
  "Calls f; an abnormal end of it, or of what it continues with, is reported once, and is the exit reason."
  [f]
  (try
    (f)
    (catch Throwable t
      (when (Hosting/isContinue t)
        (throw (going-on t guarded)))
      (let [reason (codec/reason t)]
        (if (or (not (alive-here?)) (report/silent? reason) (pget ::reported))
          (throw t)
          (crashed reason))))))

(defn- born-into [family f]
  (fn []
    (pput ::family family)
    (when family (name-thread family))
    (f)))

(defn- process-of
  "What a process of OTP does: knows its ancestors, and reports its crash."
  [f report?]
  (let [known (born-into (family-of-children) f)]
    (if report? #(guarded known) known)))

(defn ^:no-doc spawn-with
  "Like `spawn`, named after the site, with options of `magnetar.actor/spawn-opt`."
  [operation site options f]
  (start/spawn-opt operation site options (process-of f true) nil))

(defn ^:no-doc spawn-at
  "`spawn*`, with the process named after the site."
  [site f & args]
  (spawn-with "spawn" site {} #(apply f args)))

(def ^{:added "0.2" :arglists '([f & args])} spawn*
  "Does what `spawn` does, as a function.

  See also `magnetar.actor/spawn*`."
  (fibers/starred spawn-at "spawn" f [f & args]))

(defmacro spawn
  "Starts a process that calls (f & args) and knows its ancestors; returns the pid.

  Like `magnetar.actor/spawn`, except that a crash is reported as an event, unless its reason is :normal,
  :shutdown or [:shutdown why]. It is for processes of a supervision tree, whose reports name their ancestors;
  elsewhere `magnetar.actor/spawn` is enough.

  Example:

    (proc-lib/spawn serve {}) ;=> pid

  See also `spawn*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every call.

  Erlang: proc_lib:spawn/1,3."
  [f & args]
  (fibers/starting &form `spawn* "spawn" f args))

(defn ^:no-doc spawn-link-at
  "`spawn-link*`, with the process named after the site."
  [site f & args]
  (spawn-with "spawn-link" site {:link true} #(apply f args)))

(def ^{:added "0.2" :arglists '([f & args])} spawn-link*
  "Does what `spawn-link` does, as a function.

  See also `magnetar.actor/spawn*`."
  (fibers/starred spawn-link-at "spawn-link" f [f & args]))

(defmacro spawn-link
  "Starts a process like `spawn`, linked to this process; returns the pid.

  Example:

    (proc-lib/spawn-link serve {}) ;=> pid

  See also `spawn-link*`, the function: it can be mapped and applied, and `with-redefs` of it reaches every
  call.

  Erlang: proc_lib:spawn_link/1,3."
  [f & args]
  (fibers/starting &form `spawn-link* "spawn-link" f args))

;; ---- a start in step

(defn- waiting [operation]
  (or (pget ::ack)
      (arguments/misuse :magnetar/nobody-waits
        (str "`" operation "` was called where no process waits for it: call it once, in a process that proc-lib/start has started.")
        {})))

(defn- own-entry? [key]
  (or (= ::family key) (versions/note? key)))

(defn- share-dictionary
  "Takes the dictionary of a sibling if that is equal, and if it has only entries of the library. A million idle servers have one."
  []
  (let [^LocalProcess me (LocalProcess/current)
        mine (.dictionary me)
        shared (::dictionary (meta (::family mine)))]
    (when (and shared (every? own-entry? (keys mine)))
      (let [other @shared]
        (if (= mine other)
          (.setDictionary me other)
          (vreset! shared mine))))))

(defn- acknowledge [operation word value]
  (let [[^Pid parent ack] (waiting operation)]
    (perase ::ack)
    (share-dictionary)
    (! parent [ack word value])
    :ok))

(defn init-ack
  "Tells the process that waits in `start` that this process is ready; returns :ok.

  `start` returns the value there.

  Throws an IllegalArgumentException if no process waits in `start`, or has been told already.

  Example:

    (proc-lib/start (fn [] (proc-lib/init-ack [:ok (self) :v2]) (serve {}))) ;=> [:ok pid :v2]

  See also `init-fail`.

  Erlang: proc_lib:init_ack/1."
  [value]
  (acknowledge "init-ack" ::ready value))

(defn init-fail
  "Tells the process that waits in `start` that this start failed, and exits.

  This process exits for the reason. `start` returns the value once this process is dead.

  Throws an IllegalArgumentException as `init-ack` does.

  Example:

    (proc-lib/start (fn [] (proc-lib/init-fail [:error :no-database] :normal))) ;=> [:error :no-database]

  See also `init-ack`.

  Erlang: proc_lib:init_fail/2."
  [value reason]
  (acknowledge "init-fail" ::failed value)
  (throw (Send/exit reason)))

(defn- await-end [ref]
  (receive [:DOWN ref :process _ reason] reason))

(defn- traps-exits? []
  (.trapsExits (LocalProcess/current)))

(defn- unlink [pid]
  (Links/unlink (LocalProcess/current) pid))

(defn- part
  "The process is dead: removes the link with it and its message.

  If it was linked and this process does not trap exits, this process dies as well."
  [link pid reason]
  (when link
    (when-not (or (= :normal reason) (traps-exits?))
      (throw (Exit. reason)))
    (unlink pid)
    (receive [:EXIT pid _] nil (after 0 nil))))

(defn- give-up [link pid ref]
  (when link (unlink pid))
  (Send/exit pid :kill)
  (await-end ref)
  (when link (receive [:EXIT pid _] nil (after 0 nil)))
  [:error :timeout])

(defn- outcome [ack pid ref {:keys [timeout link keep-monitor] :or {timeout :infinity}}]
  (receive
    [ack ::ready value] (if keep-monitor [value ref] (do (monitors/forget ref) value))
    [ack ::failed value] (do (part link pid (await-end ref)) value)
    [:DOWN ref :process _ reason] (do (part link pid reason) [:error reason])
    (after timeout (give-up link pid ref))))

(defn- starting [ack f report?]
  (let [parent (self)]
    (process-of (fn []
                  (pput ::ack [parent ack])
                  (f))
                report?)))

(defn ^:no-doc start-here
  "Starts f in a process of its own, in step with this process."
  [f {:keys [link spawn-opt report?] :or {report? true} :as options}]
  (let [ack (Refs/make)
        link? (boolean (or link (:link spawn-opt)))
        [pid ref] (start/spawn-opt "start" (:label options "proc-lib/start") (assoc spawn-opt :link link? :monitor true)
                    (starting ack f report?) nil)]
    (outcome ack pid ref options)))

(defn ^:no-doc in-process
  "Calls f in the process that this thread is, or is for as long."
  [f]
  (if (LocalProcess/current)
    (f)
    (start/host-here {} f)))

(defn ^:no-doc check-spawn-opt
  "Refuses what cannot be the option :spawn-opt of a start in step."
  [spawn-opt]
  (when-not (or (nil? spawn-opt) (map? spawn-opt))
    (arguments/misuse :magnetar/bad-options
                      (str "The :spawn-opt of a start is a map of options of `spawn-opt`; this is "
                           (arguments/show spawn-opt) ".")
                      {:spawn-opt spawn-opt}))
  (arguments/flag :link (:link spawn-opt))
  (when (:monitor spawn-opt)
    (arguments/misuse :magnetar/bad-options
                      (str "The :spawn-opt of a start takes no :monitor, as a start watches the process itself: use "
                           "`start-monitor`, or `monitor` the pid that it returns.")
                      {:spawn-opt spawn-opt})))

(defn- check-start [operation {:keys [timeout spawn-opt] :as options}]
  (arguments/options operation [:timeout :spawn-opt] options)
  (check-spawn-opt spawn-opt)
  (when (contains? options :timeout)
    (arguments/nanos :timeout timeout)))

(defn start
  "Starts a process that calls f, and waits until that process calls `init-ack`.

  With :link in :spawn-opt, the death of a process that fails to start reaches this process through the link.
  `start-link` differs in that.

  Returns what `init-ack` or `init-fail` is given; [:error reason] if the process ends before; [:error
  :timeout] when time runs out, and the process is killed.

  Blocks until the process is ready or dead, at most for :timeout.

  Options:
    :timeout    how long the start may take, a duration. Default :infinity
    :spawn-opt  options of `magnetar.actor/spawn-opt`, except :monitor

  Example:

    (proc-lib/start (fn [] (proc-lib/init-ack [:ok (self)]) (serve {}))) ;=> [:ok pid]

  Erlang: proc_lib:start/3,4,5."
  ([f] (start f nil))
  ([f options]
   (check-start "start" options)
   (in-process #(start-here f options))))

(defn start-link
  "Starts a process that calls f, linked to this process, and waits for `init-ack`.

  Like `start` in all else. If the new process fails to start, nothing of it stays in the mailbox. A caller
  that does not trap exits dies with it, unless its reason is :normal.

  Example:

    (proc-lib/start-link (fn [] (proc-lib/init-ack [:ok (self)]) (serve {}))) ;=> [:ok pid]

  Erlang: proc_lib:start_link/3,4,5."
  ([f] (start-link f nil))
  ([f options]
   (check-start "start-link" options)
   (start-here f (assoc options :link true))))

;; ---- an end in order

(defn- named [process]
  (if (instance? Pid process) process (arguments/show process)))

(defn- not-stopped [[operation pid _ timeout :as public]]
  (throw (timeouts/error (str "The stop of " (named pid) " failed: it goes on after " (arguments/show-duration timeout) ". Give it a longer :timeout, or end it by `exit`.")
                         operation pid timeout (rest public) {:reason :timeout :pid pid})))

(defn- stopping-failed
  "Throws that the stop has failed for the reason; `public` is what the program called, [operation process & arguments]. The note says what to do."
  [reason [operation process :as public] note]
  (throw (errors/failure (str "The stop of " (named process) " failed: " (reasons/text reason) "." (when note (str " " note)))
           {:magnetar/reason :magnetar/stop-failed
            :reason reason
            :magnetar/exit [reason (timeouts/call operation (rest public))]
            :pid process})))

(def ^:private self-note
  "A process that stops itself waits for its own end: return [:stop why state] from the callback, or `exit`.")

(defn- terminate [pid [_ _ reason timeout :as public]]
  (when (= pid (self))
    (stopping-failed :calling-self public self-note))
  (let [ref (monitors/monitor pid)]
    (when-not (and (instance? Pid pid) (info/ended? pid))
      (Send/control pid [:magnetar/system [(self) nil] (cond->> [:terminate reason] (nodes/erlang? pid) (vector :magnetar/erlang))]))
    (receive
      [:DOWN ref :process _ reason] :ok
      [:DOWN ref :process _ other] (stopping-failed other public nil)
      (after timeout
             (monitors/forget ref)
             (not-stopped public)))))

(defn ^:no-doc stop-as
  "Does what `stop` does; an error names the operation, a qualified symbol."
  [operation process reason {:keys [timeout] :or {timeout :infinity} :as options}]
  (arguments/options "stop" [:timeout] options)
  (arguments/nanos :timeout timeout)
  (let [pid (or (servers/server "stop" process)
                (stopping-failed (servers/absent process) [operation process reason timeout] (servers/absent-note process)))
        shown (if (instance? RemoteName pid) (.shown ^RemoteName pid) pid)]
    (in-process #(terminate pid [operation shown reason timeout]))))

(defn stop
  "Asks a process of OTP to end, and waits until it has.

  The process is a pid, or any name that `magnetar.gen-server/call` takes. The reason is :normal if none is
  given. A plain process does not know the message.

  Returns :ok.

  Blocks until the process has ended, at most for :timeout.

  Throws a magnetar.TimeoutException if it takes longer. The process goes on then, and no :else hides it.
  Throws an ExceptionInfo with a :reason: :noproc if the process is dead or no process has the name,
  :calling-self if it is this process. If it ends for another reason than the given one, :reason is that one.

  Options:
    :timeout  how long to wait at most, a duration. Default :infinity

  Example:

    (proc-lib/stop pid :shutdown {:timeout 1000}) ;=> :ok

  Erlang: proc_lib:stop/1,3."
  ([process] (stop process :normal nil))
  ([process reason] (stop process reason nil))
  ([process reason options]
   (stop-as `stop process reason options)))

(defn ^:no-doc parent
  "The pid of the process that has started this one in step."
  []
  (:parent (pget ::family)))
