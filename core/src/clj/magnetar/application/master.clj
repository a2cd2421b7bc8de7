(ns magnetar.application.master
  "The process that an application hangs on: starts its tree, stops it, leads its group, and tells the controller of its end."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.actor.info :as info]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.report :as report]
   [magnetar.supervisor.children :as children]
   [magnetar.supervisor.specs :as specs])
  (:import
   (magnetar.kernel.process LocalProcess Pid ProcessTable)))

(set! *warn-on-reflection* true)

;; ---- start

(defn- outcome
  "[:ok pid state], or [:error why], of what a start has returned."
  [shown value]
  (let [[how x y] (when (vector? value) value)]
    (cond
      (instance? Pid value) [:ok value nil]
      (and (= :ok how) (instance? Pid x) (<= 2 (count value) 3)) [:ok x y]
      (and (= :error how) (= 2 (count value))) [:error [x shown]]
      :else [:error [:bad-return [shown (codec/plain value)]]])))

(defn- linked? [pid]
  (boolean (some #{pid} (actor/process-info (actor/self) :links))))

(defn- held
  "The outcome, if the started process is linked to this one; else an error. Without the link neither would learn of the other's end."
  [[how pid :as outcome] shown]
  (if (and (= :ok how) (not (linked? pid)) (not (info/ended? pid))) ; in this order: a process that ends has no links any more
    (do
      (actor/exit pid :kill)
      [:error [:bad-return [shown [:ok (codec/plain pid)]
                            "the process is not linked to the one that called :start: start it there, with a start-link or spawn-link"]]])
    outcome))

(defn- start-failed
  "Why the application does not start whose start threw this: an error in a spec is as if the start had returned it."
  [shown t]
  (let [reason (codec/reason t)]
    (if (specs/refused? t) [reason shown] [:bad-return [shown [:EXIT reason]]])))

(defn- start-tree
  "Calls the start of the spec, a vector of a function and its arguments: [:ok pid state], [:error why]; an application without one is nothing
  but its name."
  [{[f & args :as call] :start}]
  (if (nil? call)
    [:ok nil nil]
    (let [shown (children/shown-start call)]
      (try
        (held (outcome shown (apply f args)) shown)
        (catch Throwable t
          (if (proc-lib/failed-here? t)
            [:error (start-failed shown t)]
            (throw t)))))))

;; ---- stop

(defn- attempt
  "The value of a callback on the state. The state if there is no such callback; the state and a report if it fails."
  [{:keys [name] :as spec} word state]
  (if-some [f (word spec)]
    (try
      (actor/pput ::callback word)
      (let [value (f state)]
        (actor/perase ::callback)
        value)
      (catch Exception e
        (report/tell {:event :application-callback-failed :level :error :application name :callback word :reason (codec/reason e)})
        state))
    state))

(defn- stop-tree [spec root state]
  (let [state (attempt spec :prep-stop state)]
    (when root
      (actor/exit root :shutdown)
      (receive [:EXIT root _] nil))
    (attempt spec :stop state)))

;; ---- between

(defn- leave [controller word why]
  (request/cast controller [word (actor/self) why])
  (actor/exit (if (= ::failed word) :shutdown :normal)))

(defn- hold
  "Waits until the tree has ended, or has to."
  [controller spec root state]
  (receive
    [:EXIT root why] (do (attempt spec :stop state) (leave controller ::ended why))
    [:EXIT controller _] (stop-tree spec root state)
    ::stop (do (stop-tree spec root state) (leave controller ::ended :normal))
    _ (recur controller spec root state)))

(defn- serve [controller spec]
  (actor/flag :trap-exit true)
  (actor/group-leader (actor/self) (actor/self))
  (actor/pput ::name (:name spec))
  (.setName (Thread/currentThread) (str (:name spec))) ; paths begin at the application
  (let [[how x state] (start-tree spec)]
    (if (= :ok how)
      (do (request/cast controller [::up (actor/self)]) (hold controller spec x state))
      (leave controller ::failed x))))

(defn start
  "Starts the process, linked to this one, which is the controller and will be told: ::up, ::failed or ::ended."
  [spec]
  (proc-lib/spawn-link* serve (actor/self) spec))

(defn stop
  "Tells the process to stop its tree and to end."
  [master]
  (! master ::stop))

;; ---- who belongs to it

(defn application-of
  "The name of the application whose group leader the process is; nil if it is not a group leader."
  [leader]
  (when-some [^LocalProcess process (ProcessTable/live leader)]
    (get (.dictionary process) ::name)))

(defn- parent-of [^LocalProcess process]
  (some-> process .dictionary (get ::proc-lib/family) :parent))

(defn- state-of [^LocalProcess process]
  (let [{:keys [status current-function waits-for]} (actor/process-info (.pid process))]
    {:pid (.pid process) :at current-function :waits-for waits-for :status status}))

(defn- at-work?
  "Does it something of the program's, in place of waiting for a message?"
  [{:keys [at waits-for]}]
  (and at (not= "message" waits-for)))

(defn- culprits
  "The processes that the end waits for. First come parents at work, which stop no children meanwhile. Then come other processes at work,
  then processes without children to wait for."
  [states]
  (let [parents (into #{} (keep (comp parent-of (fn [{:keys [pid]}] (ProcessTable/live pid)))) states)
        rank (fn [{:keys [pid] :as state}]
               (cond
                 (and (parents pid) (at-work? state)) 0
                 (at-work? state) 1
                 (parents pid) 3
                 :else 2))]
    (remove #(= 3 (rank %)) (sort-by rank states))))

(defn stragglers
  "The processes of an application that are alive, but for those that wait for others of them, those at work first: {:pid :callback :at :waits-for}.
  While a callback of the application runs, that is the only one, for the others are not told to stop before it returns."
  [master]
  (let [^LocalProcess process (ProcessTable/live master)
        callback (some-> process .dictionary (get ::callback))]
    (if callback
      [(assoc (state-of process) :callback callback)]
      (vec (culprits (map state-of (filter #(= master (.leader ^LocalProcess %)) (ProcessTable/all))))))))
