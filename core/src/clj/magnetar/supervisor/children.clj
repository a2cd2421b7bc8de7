(ns magnetar.supervisor.children
  "Starts and stops the children of a supervisor, in its own process."
  {:no-doc true}
  (:require
   [clojure.main :as main]
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [after receive]]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.actor.info :as info]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.context :as context]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.report :as report])
  (:import
   (clojure.lang ArityException)
   (magnetar.kernel.process Links LocalProcess Pid ProcessTable)))

(set! *warn-on-reflection* true)

;; ---- start

(defn- outcome [value]
  (let [[how x :as returned] (when (vector? value) value)]
    (cond
      (instance? Pid value) [:ok value]
      (= :ignore value) [:ignore]
      (and (= :ok how) (instance? Pid x) (<= 2 (count returned) 3)) value
      (and (= :error how) (= 2 (count returned))) value
      :else [:error [:bad-return-value (codec/plain value) (str "the start returned " (codec/text value) "; it has to return [:ok pid], [:ok pid info],"
                                                                " a pid, :ignore or [:error why]")]])))

(defn- linked? [pid]
  (Links/isLinked (LocalProcess/current) pid))

(defn- child-of-this?
  "Was the process started by this one?"
  [pid]
  (when-some [^LocalProcess process (ProcessTable/live pid)]
    (= (actor/self) (:parent (get (.dictionary process) ::proc-lib/family)))))

(defn- held
  "The outcome, unless the process that was started lives and is not linked to this one: its end would not be heard of."
  [[how pid :as outcome]]
  (if (and (= :ok how) (not (linked? pid)) (not (info/ended? pid)))
    (do
      (when (child-of-this? pid)
        (actor/exit pid :kill))
      [:error [:not-linked pid "a start links the process to the supervisor that calls it: use a start-link or spawn-link in the child spec"]])
    outcome))

(defn- name-of
  "The function as a symbol."
  [f]
  (if (var? f)
    (symbol f)
    (symbol (str/replace (main/demunge (.getName (class f))) #"--\d+$" ""))))

(defn- behaviour? [x]
  (and (map? x) (some #(contains? x %) [:init :handle-call :handle-event :callback-mode])))

(declare shown-start)

(defn- shown-child [child]
  (if (and (map? child) (sequential? (:start child)))
    (codec/plain (update child :start shown-start))
    (codec/plain child)))

(defn- shown-argument [x]
  (cond
    (behaviour? x) (:name x '(a behaviour))
    (var? x) (symbol x)
    (and (map? x) (sequential? (:children x))) (assoc (codec/plain (dissoc x :children)) :children (mapv shown-child (take 20 (:children x))))
    :else (codec/plain x)))

(defn shown-start
  "A start as data that can be read: functions by name, callback modules by theirs."
  [[f & args]]
  (into [(if (ifn? f) (name-of f) (codec/plain f))] (map shown-argument) args))

(defn shown
  "The spec of a child, for answers and reports."
  [child]
  (update (select-keys child [:id :start :restart :shutdown :type :significant]) :start shown-start))

(defn- var-of [f]
  (if (var? f)
    f
    (let [named (name-of f)]
      (when-some [ns (some-> (namespace named) symbol find-ns)]
        (get (ns-interns ns) (symbol (name named)))))))

(defn- takes
  "What a function takes and where it is defined, as far as its var tells."
  [f]
  (let [{:keys [arglists file line]} (some-> (var-of f) meta)]
    (str (when (seq arglists) (str " It takes " (str/join " or " (map pr-str arglists)) "."))
         (when file (str " It is defined at " file ":" line ".")))))

(defn- wrong-arity?
  "Was it the start function itself that was called with so many arguments?"
  [f args ^ArityException e]
  (and (= (count args) (.-actual e))
       (str/starts-with? (.getName (class (if (var? f) @f f))) (munge (.-name e)))))

(defn- reason-of
  "The reason of a start that threw; of a wrong number of arguments with the child and what its start takes."
  [{[f & args :as start] :start id :id} t]
  (if (and (instance? ArityException t) (wrong-arity? f args t))
    [(assoc (codec/error-term t)
            :message (str (ex-message t) ": the child" (when (some? id) (str " " (arguments/show id))) " is started by "
                          (arguments/show (shown-start start)) "." (takes f)))
     (codec/frames t)]
    (codec/reason t)))

(defn start
  "Calls the start function of a child: [:ok pid], [:ok pid info], [:ignore] or [:error why]. The child takes this server's own context, whoever asked for it."
  [{[f & args] :start :as child}]
  (try
    (outcome (context/call-in (context/own) #(apply f args)))
    (catch Throwable t
      (if (proc-lib/failed-here? t)
        [:error (reason-of child t)]
        (throw t)))))

(defn start-linked
  "Like `start`; [:error [:not-linked ..]] if the process that was started is not linked to this one."
  [child]
  (held (start child)))

;; ---- stop

(defn- await-end [ref timeout]
  (receive
    [:DOWN ref :process _ why] why
    (after timeout ::late)))

(defn- kill [pid ref]
  (actor/exit pid :kill)
  (await-end ref :infinity))

(defn- end-of [pid ref shutdown]
  (if (= :brutal-kill shutdown)
    (kill pid ref)
    (do
      (actor/exit pid :shutdown)
      (let [why (await-end ref shutdown)]
        (if (= ::late why)
          (kill pid ref)
          why)))))

;; The link stays until the child has ended: if this supervisor is killed meanwhile, the child hears of it.
(defn- part
  "Takes the link to a child that has ended back, and its message: the reason of its end."
  [pid why]
  (actor/unlink pid)
  (receive
    [:EXIT pid reason] reason
    (after 0 why)))

(defn- expected? [{:keys [shutdown restart]} why]
  (or (= :shutdown why)
      (and (vector? why) (= :shutdown (first why)))
      (and (= :killed why) (= :brutal-kill shutdown))
      (= :noproc why)
      (and (= :normal why) (not= :permanent restart))))

(defn tell
  "Reports an event of a child. The reason is plain data."
  ([event who child reason] (tell event who child reason nil))
  ([event who {:keys [id pid]} reason more]
   (report/tell (merge {:event event :level :warning :supervisor who :child id :pid pid :reason reason} more))))

(defn- tell-bad-end [who {:keys [shutdown] :as child} why]
  (tell :shutdown-error who child (codec/plain why)
        (when (and (= :killed why) (not= :infinity shutdown))
          {:message (str "it was killed, since it had not ended after " (arguments/show-duration shutdown) ", its :shutdown")})))

(defn stop
  "Stops a child as its spec says; waits until it has ended."
  [who {:keys [pid shutdown] :as child}]
  (let [ref (actor/monitor pid)
        why (part pid (end-of pid ref shutdown))]
    (when-not (expected? child why)
      (tell-bad-end who child why))))

(defn- left
  "The milliseconds until the time."
  [^long deadline]
  (if (= deadline clock/infinite)
    :infinity
    (clock/millis (clock/left deadline))))

(defn- await-all
  "Waits for the ends of the children, from reference to child; those that are left at the time."
  [who children deadline]
  (loop [children children]
    (if (empty? children)
      children
      (let [[ref why :as end] (receive
                                [:DOWN ref :process _ why] [ref why]
                                (after (left deadline) nil))]
        (when-some [child (get children ref)]
          (let [why (part (:pid child) why)]
            (when-not (expected? child why)
              (tell-bad-end who child why))))
        (if end
          (recur (dissoc children ref))
          children)))))

(defn stop-all
  "Stops children that have the same shutdown, all at once."
  [who children shutdown]
  (let [watched (into {} (map (fn [child] [(actor/monitor (:pid child)) child])) children)
        brutal? (= :brutal-kill shutdown)]
    (run! #(actor/exit (:pid %) (if brutal? :kill :shutdown)) children)
    (let [deadline (clock/deadline (if brutal? clock/infinite (clock/nanos shutdown)))
          late (await-all who watched deadline)]
      (run! #(actor/exit (:pid %) :kill) (sort-by :n (vals late)))
      (await-all who late clock/infinite))))
