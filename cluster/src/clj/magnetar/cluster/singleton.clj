(ns magnetar.cluster.singleton
  "Processes of which a cluster has one.

    ;; a child of the supervisor of each node, after the cluster
    {:id :scheduler
     :start [singleton/start-link {:name :scheduler :start [gs/start-link scheduler]}]}

    ;; on any node
    (gs/call (singleton/address :scheduler) :next)

  start-link        the child spec's start
  whereis address   the process, and its name for calls

  The process runs on the node that leads the agreed view: the oldest one, as long as that reaches enough of
  the others. After a loss it is one that reaches all that are left, with the most keepers, and the oldest of
  several. Which side of a split cluster may act is the option :split-brain of `magnetar.cluster/start`.

  A keeper on each node, started by `start-link`, starts the process while its node leads. A leader without
  any keeper hands the lead over after a lease. A singleton that only other nodes keep is reported.

  Each start gets a token, a number that is greater than the tokens of all starts before. A process whose JVM
  was suspended does not know that another one has taken over. So give the token to what the process writes
  to, and let that refuse a token that is less than one it has seen.

  Require it as `[magnetar.cluster.singleton :as singleton]`."
  (:require
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.cluster.impl.leader :as leader]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(def ^:private known [:name :start :shutdown])

(def ^:private default-shutdown-ms 500)

(def ^:private retry-ms
  "How often a keeper looks for the cluster that this node is not part of yet."
  500)

;; ---- ending

(defn- await-end
  "Waits until the processes have ended, at most for so long; the ones that have not."
  [pids ms]
  (let [refs (into {} (map (fn [pid] [(actor/monitor pid) pid])) pids)
        tag (actor/make-ref)
        timer (when ms (actor/send-after ms (self) [tag]))]
    (loop [refs refs]
      (if (empty? refs)
        (do (some-> timer actor/cancel-timer) [])
        (receive
          [:DOWN ref _ _ _] (recur (dissoc refs ref))
          [tag] (do (run! #(actor/demonitor % {:flush true}) (keys refs)) (vals refs)))))))

(defn- kill [pids]
  (run! #(actor/exit % :kill) pids)
  (await-end pids nil))

(defn- kill-started
  "Kills the singleton that the runner, which has ended, has started. One that traps exits may go on without its runner."
  [singleton]
  (when-some [pid @singleton]
    (kill [pid])))

(defn- end-runner
  "Lets the runner end the singleton in order. After the time it kills the runner, what the start function has linked so far, and the
  singleton."
  [runner singleton ms]
  (! runner [::end])
  (when (seq (await-end [runner] ms))
    (kill (conj (vec (actor/process-info runner :links)) runner)))
  (kill-started singleton))

;; ---- the runner, which calls the start function, and is the parent of the singleton

(defn- started
  "The pid that the start function has returned; exits if it has returned another thing."
  [[f & args] token]
  (let [answer (apply f (concat args [token]))
        [how x] (when (vector? answer) answer)]
    (if (and (= :ok how) (instance? Pid x))
      x
      (actor/exit [:singleton-not-started (if (= :error how) x answer)]))))

(defn- linked?
  "Has the process a link to this one? True also of one that has ended."
  [pid]
  (or (some #{pid} (actor/process-info (self) :links))
      (not (or (nodes/elsewhere? pid) (actor/alive? pid)))))

(defn- refuse-unlinked
  "Kills a singleton without a link, and exits. Its start function could be ended before it returns, and would leave one behind that
  no process here knows of."
  [name pid]
  (when-not (linked? pid)
    (kill [pid])
    (reports/report "a singleton that cannot run"
                    (ex-info (str "The start function of the singleton " (arguments/show name) " returned " pid ", which has no link to its caller, "
                                  "so it was killed. Let the function spawn it with a link, as `magnetar.gen-server/start-link` does.")
                             {:singleton name :pid pid}))
    (actor/exit [:singleton-not-started [:not-linked pid]])))

(defn- guard
  "Ends the runner after its keeper, and the singleton after its runner. The keeper may have been killed, and the start function may wait."
  [runner keeper singleton ms]
  (let [ref (actor/monitor runner)
        keeper-ref (actor/monitor keeper)]
    (receive
      [:DOWN ref _ _ _] (kill-started singleton)
      [:DOWN keeper-ref _ _ _] (end-runner runner singleton ms))))

(defn- accompany
  "Tells the leader server of the singleton, lets it end in order if the keeper says so, and exits as it does."
  [pid]
  (let [ref (actor/monitor pid)]
    (gs/cast leader/server-name [:runs (self) nil pid])
    (loop []
      (receive
        [:DOWN ref _ _ why] (actor/exit why)
        [::end] (do (actor/exit pid :shutdown) (recur))))))

(defn- run
  "Starts the singleton, tells the leader server, and ends as the singleton does. It has no link to the keeper. So a keeper that is
  killed leaves a runner that knows what has to end. The atom gets the singleton."
  [{:keys [name start shutdown]} token keeper singleton]
  (actor/spawn guard (self) keeper singleton shutdown)
  (when-not (leader/ask [:begin keeper token] false)
    (actor/exit ::not-begun))
  (let [pid (reset! singleton (started start token))]
    (refuse-unlinked name pid)
    (accompany pid)))

;; ---- the keeper, a server on each node

(defn- end
  "Ends the singleton: in order, and after :shutdown by a kill."
  [{:keys [runner ref singleton shutdown] :as state}]
  (when runner
    (actor/demonitor ref {:flush true})
    (end-runner runner singleton shutdown))
  (gs/cast leader/server-name [:ended (self)])
  (dissoc state :runner :ref :singleton))

(defn- too-long
  "What is wrong if the singleton may take so long to end that it would hardly ever run; nil if this node is in no cluster yet."
  [{:keys [name shutdown]}]
  (when-some [lease (leader/ask :lease nil)]
    (when (< (long lease) (* 2 (long shutdown)))
      (str "`singleton/start-link`: the :shutdown of " (arguments/show name) ", " shutdown " ms, is more than half of the cluster's :lease, " lease
           " ms. Give it a shorter :shutdown, or give all nodes a longer :lease in :split-brain."))))

(defn- enrol-later [state]
  (actor/send-after retry-ms (self) [::enrol])
  state)

(defn- report-once [{:keys [reported] :as state} why]
  (when-not reported
    (reports/report "a singleton that cannot run" (ex-info why {})))
  (assoc state :reported true))

(defn- enrol [{:keys [name] :as state}]
  (if (actor/whereis leader/server-name)
    (if-some [why (too-long state)]
      (enrol-later (report-once state why))
      (let [ref (actor/monitor leader/server-name)]
        (gs/cast leader/server-name [:enrol (self) name])
        (assoc state :server ref)))
    (enrol-later state)))

(defn- init [state]
  (actor/flag :trap-exit true)
  [:ok (enrol state)])

(defn- ms-left
  "How long the singleton may run until it has to begin to end."
  [{:keys [until shutdown]}]
  (- (quot (- (long until) (clock/now)) 1000000) (long shutdown)))

(defn- check-later [{:keys [timer] :as state}]
  (some-> timer actor/cancel-timer)
  (assoc state :timer (actor/send-after (max 0 (long (ms-left state))) (self) [::check])))

(defn- check
  "The state without the singleton if its time is over."
  [{:keys [runner] :as state}]
  (cond
    (nil? runner) state
    (pos? (long (ms-left state))) (check-later state)
    :else (end state)))

(defn- on-lease [{:keys [runner leaving] :as state} until]
  (let [state (assoc state :until until)]
    (when (and (not runner) (not leaving) (pos? (long (ms-left state))))
      (gs/cast leader/server-name [:token (self)]))
    (check state)))

(defn- on-token [{:keys [runner leaving] :as state} token until]
  (let [state (assoc state :until until)]
    (if (or runner leaving (not (pos? (long (ms-left state)))))
      state
      (let [singleton (atom nil)
            [runner ref] (actor/spawn-monitor run (select-keys state [:name :start :shutdown]) token (self) singleton)]
        (check-later (assoc state :runner runner :ref ref :singleton singleton))))))

(defn- on-runner-down
  "Ends as the singleton has, unless it was not started, because the leader server knows of another one or of no keeper."
  [state why]
  (let [state (dissoc state :runner :ref :singleton)]
    (if (= ::not-begun why)
      [:noreply state]
      [:stop why state])))

(defn- on-server-down
  "The node has left the cluster, or its server has failed: it may be started again."
  [state]
  (enrol-later (dissoc (end state) :leaving :server :reported)))

(defn- simulation-ends?
  "Is it the reason for which all processes of a simulation end, this one too? Others that are killed have :killed."
  [why]
  (and (environment/simulated?) (= :kill why)))

(defn- on-down [{:keys [server ref] :as state} down why]
  (cond
    (= ref down) (on-runner-down state why)
    (and (= server down) (not (simulation-ends? why))) [:noreply (on-server-down state)]
    :else [:noreply state]))

(defn- handle-info [[what x y _ why] state]
  (case what
    :lease [:noreply (on-lease state x)]
    :token [:noreply (on-token state x y)]
    :end [:noreply (end (assoc state :leaving true))]
    :taken [:stop [:already-started x] state]
    ::check [:noreply (check state)]
    ::enrol [:noreply (enrol state)]
    :DOWN (on-down state x why)
    [:noreply state]))

(def ^:private callbacks
  {:init init
   :handle-call (fn [_ _ state] [:reply [:error :unknown-request] state])
   :handle-cast (fn [_ state] [:noreply state])
   :handle-info handle-info
   :terminate (fn [_ state] (end state))})

;; ---- what a program calls

(defn- travels?
  "Can each node read the name? Then it does not hinder what the nodes tell each other about singletons."
  [name]
  (or (keyword? name) (symbol? name) (string? name) (int? name)
      (and (vector? name) (every? travels? name))))

(defn- check-spec [{:keys [name start shutdown] :as spec}]
  (arguments/options "singleton/start-link" known spec)
  (when-not (and name start)
    (arguments/misuse :magnetar/bad-option (str "`singleton/start-link` wants a :name and a :start; this is " (arguments/show spec) ".") {:value spec}))
  (when-not (travels? name)
    (arguments/misuse :magnetar/bad-option
                      (str "`singleton/start-link`: :name is a keyword, a symbol, a string, an integer or a vector of these; this is "
                           (arguments/show name) ".")
                      {:path [:name] :value name}))
  (when-not (and (sequential? start) (ifn? (first start)))
    (arguments/misuse :magnetar/bad-option
                      (str "`singleton/start-link`: :start is a vector of a function and its arguments; this is " (arguments/show start) ".")
                      {:path [:start] :value start}))
  (when-not (nat-int? shutdown)
    (arguments/misuse :magnetar/bad-option (str "`singleton/start-link`: :shutdown is a number of milliseconds; this is " (arguments/show shutdown) ".")
                      {:path [:shutdown] :value shutdown}))
  (when-some [why (too-long spec)]
    (arguments/misuse :magnetar/bad-option why {:path [:shutdown] :value shutdown})))

(defn start-link
  "Lets this node run the singleton when it is its turn; returns [:ok pid].

  The process of the pid is the keeper of the singleton, a child of a supervisor on each node. While this node
  leads, the keeper has the function of :start called with its arguments, and the token as the last one. The
  function returns [:ok pid]. The process has a link to its caller, as one that a supervisor starts.
  `magnetar.gen-server/start-link` takes the token as the argument of init. A server with other arguments
  needs a function of its own:

    (defn start-scheduler [config token] (gs/start-link scheduler (assoc config :token token)))

  A process without a link is killed and reported, and counts as not started. The function has to spawn it
  with the link, as `spawn-link` does. If the function is ended before it returns, what it has spawned without
  a link runs on, maybe beside the next singleton.

  If the singleton ends, the keeper ends for the same reason. So the supervisor restarts both, with another
  token. If :start returns anything but [:ok pid], the keeper ends with [:singleton-not-started why] and is
  restarted by its supervisor, whose intensity counts it. Retry inside the singleton if its resources may be
  away.

  If this node may no longer lead, the singleton gets the exit signal :shutdown. After the time :shutdown it
  is killed, also if the start function has not returned yet. The same happens if the keeper is killed, and
  the next singleton starts after that. A second keeper for one name on a node ends with
  [:already-started pid].

  Throws an IllegalArgumentException if the map is wrong. If this node joins a cluster later, whose :lease is
  too short for the :shutdown, that is reported, and this node does not run the singleton.

  Options:
    :name      the name of the singleton: a keyword, symbol, string, integer, or a vector of these
    :start     [f & arguments]
    :shutdown  how long the singleton may take to end, in ms. Default 500. It is at most half of the :lease of
               the cluster

  Example:

    {:id :scheduler :start [singleton/start-link {:name :scheduler :start [gs/start-link scheduler]}]}

  See also `whereis`, `magnetar.cluster/start`."
  {:added "0.2"}
  [spec]
  (let [spec (merge {:shutdown default-shutdown-ms} spec)]
    (check-spec spec)
    (gs/start-link callbacks spec)))

(defn whereis
  "Returns the pid of the singleton, or nil if none is known.

  The pid may be of another node. Only this node is asked, so the answer may be late. A new singleton is known
  after a tenth of the cluster's :lease, in general. One that has ended is not known any more then, or when
  this node turns inactive: see `magnetar.cluster/active?`.

  Example:

    (singleton/whereis :scheduler) ;=> pid

  See also `address`."
  {:added "0.2"}
  [name]
  (leader/singleton name))

(defn address
  "Returns the address of the singleton for `!`, calls and monitors, on any node.

  It is a name [:via registry name], which is looked up at each use.

  Example:

    (gs/call (singleton/address :scheduler) :next)

  See also `whereis`."
  {:added "0.2"}
  [name]
  [:via 'magnetar.cluster.singleton name])

;; ---- what [:via registry name] calls

(defn ^:no-doc whereis-name
  "The process of the singleton, as far as this node knows, or nil."
  [name]
  (whereis name))

(defn ^:no-doc register-name
  "Refuses, since a singleton has its name from the start."
  [_ _]
  :no)

(defn ^:no-doc unregister-name
  "Does nothing."
  [_]
  :ok)
