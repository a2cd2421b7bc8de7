(ns magnetar.cluster.impl.leader
  "The server by which this node agrees with the others on the view, and which tells the singletons of this node how long
  they may run. See `agreement`.

  A keeper of a singleton casts [:enrol keeper name], and is told [:lease until] as often as that changes, an instant of
  the clock. It casts [:token keeper], and gets [:token token until] when the active part knows the token. Its runner calls
  [:begin keeper token] before it starts the singleton, and casts [:runs runner nil pid]. The keeper is told [:end] before
  this node leaves, and casts [:ended keeper].

  A name gets no token while a runner or a singleton of it is alive here, and this node does not leave. So what a killed
  keeper has left counts."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.cluster.impl.agreement :as agreement]
   [magnetar.cluster.impl.status :as status]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang ExceptionInfo)
   (java.util.function Supplier)
   (magnetar.kernel.fiber PerEnvironment)
   (magnetar.kernel.process Peer Peers Pid Send)))

(set! *warn-on-reflection* true)

(def server-name
  "The name of the server on each node."
  :magnetar.cluster/leader)

;; What any thread reads without a call to the server, so that its heartbeats do not queue behind look-ups. For each
;; node of a simulation, and for this JVM:
;;   :until  when this node stops to be active
;;   :pids   the singletons by name: the ones of this node if it leads, else what the leader has said
;;   :leads  does it lead? Then the :pids are known, also when its time is over
(defonce ^:private ^PerEnvironment published (PerEnvironment/of (reify Supplier (get [_] (atom nil)))))

(def ^:private default-lease-ms 4000)

(def ^:private leave-ms
  "How long a node that leaves waits for the others to agree."
  5000)

(defn- connected
  "The other nodes, as [name creation]."
  []
  (into #{} (map (fn [^Peer p] [(.name p) (.creation p)])) (nodes/peers-of-cluster)))

;; ---- servers of other nodes

(defn- watch
  "The state that is told when the node has no server."
  [state [name :as node]]
  (assoc-in state [:watches (monitors/monitor-at-once [server-name name])] node))

(defn- watch-new
  "The state that knows of the servers of these nodes if they are there, and of no others."
  [{:keys [servers] :as state} nodes]
  (-> (reduce watch state (sort (remove servers nodes)))
      (assoc :servers (into {} (map (fn [node] [node (servers node :there)])) nodes))))

(defn- gone
  "The state when the node of the monitor has no server. Until its server speaks it does not count as connected. After a
  lost connection it is watched again."
  [{:keys [watches] :as state} ref why]
  (let [node (watches ref)
        state (update state :watches dissoc ref)]
    (if (= :noconnection why)
      (update state :servers dissoc node)
      (assoc-in state [:servers node] :gone))))

(defn- there [{:keys [servers] :as state} [_ _ {:keys [from]}]]
  (cond-> state
    (= :gone (servers from)) (update :servers dissoc from)))

(defn- reached
  "The nodes that have a server, as far as this one knows."
  [{:keys [servers]}]
  (into #{} (keep (fn [[node what]] (when (= :there what) node))) servers))

;; ---- what the state makes others do

(defn- post
  "Sends without a wait for room in the queue to a node: a slow node would take the lease from all others."
  [to message]
  (Send/signal to message))

(defn- send-all
  "Sends what is to be said."
  [{:keys [core] :as state}]
  (doseq [[[name] _ _ :as message] (:out core)]
    (some-> (address/elsewhere [server-name name]) (post [::heard message])))
  (assoc-in state [:core :out] []))

(defn- tell-lease
  "Tells the singletons if the time has changed until which this node leads for sure."
  [{:keys [core keepers told] :as state}]
  (let [until (:lease-until core)]
    (when (not= told until)
      (run! #(! % [:lease until]) (sort (keys keepers))))
    (assoc state :told until)))

(defn- forget-tokens
  "Tokens that were asked for before the lease ended are old ones when there is another lease."
  [{:keys [core] :as state}]
  (if (agreement/has-lease? core (clock/now))
    state
    (update state :keepers update-vals #(assoc % :token nil :given nil))))

(defn- give-tokens
  "Gives the tokens that the active part knows."
  [{:keys [core keepers] :as state}]
  (let [known? (fn [[_ {:keys [token]}]] (and token (<= (long token) (long (:given core)))))
        ready (sort-by (comp :token val) (filter known? keepers))]
    (doseq [[pid {:keys [token]}] ready]
      (! pid [:token token (:lease-until core)]))
    (reduce (fn [state [pid {:keys [token given]}]]
              (update-in state [:keepers pid] assoc :token nil :given (or given token)))
            state ready)))

(defn- ms [time]
  (quot (long time) 1000000))

(defn- shown
  "The rules as the option :split-brain has them."
  [{:keys [policy quorum lease]}]
  (cond-> {:policy policy :lease (ms lease)}
    quorum (assoc :quorum quorum)))

(defn- tell-of-incompatible [{:keys [core]} name rules]
  (let [ours (shown (agreement/rules core))
        theirs (shown rules)]
    (reports/report "the option :split-brain of the cluster"
                    (ex-info (str "The node " name " has :split-brain " theirs ", and this node, " (first (:me core)) ", has " ours
                                  ", so neither is a member for the other. Start nodes again so that all have the same :split-brain.")
                             {:node name :theirs theirs :ours ours}))))

(defn- report-incompatible
  "Reports each node with another policy or lease once."
  [{:keys [core reported] :as state}]
  (let [new (remove (fn [[name creation]] (= creation (reported name))) (keys (:incompatible core)))]
    (doseq [[name :as node] (sort new)]
      (tell-of-incompatible state name (:rules ((:incompatible core) node))))
    (update state :reported into new)))

(def ^:private most-late
  "How many rounds in a row are late because of a slow node before that is reported."
  5)

(defn- tell-of-slow-node [{:keys [me lease]} [[name] took]]
  (reports/report "the option :split-brain of the cluster"
                  (ex-info (str "The node " name " took " (ms took) " ms to answer this one, " (first me) ". That is more than a quarter of the "
                                ":lease of " (ms lease) " ms, so no node leads, or one without that node: give all nodes a longer :lease.")
                           {:node name :took (ms took) :lease (ms lease)})))

(def ^:private calm-leases
  "After how many leases without a round that was late a slow node is reported again."
  10)

(defn- still-slow
  "The state that knows when a round was late last, or of no slow node any more if that was long ago."
  [{:keys [core slow] :as state} now]
  (cond
    (pos? (long (:late core))) (assoc state :slow now)
    (< (* (long calm-leases) (long (:lease core))) (- (long now) (long slow))) (dissoc state :slow)
    :else state))

(defn- report-slow-node
  "Reports that a node answers too late for the lease: once, until all nodes have answered in time for long."
  [{:keys [core slow] :as state} now]
  (if slow
    (still-slow state now)
    (if-some [node (when (<= (long most-late) (long (:late core))) (agreement/too-slow core))]
      (do
        (tell-of-slow-node core node)
        (assoc state :slow now))
      state)))

(def ^:private unkept-leases
  "For how many leases a singleton does not run until that is reported. A lead is handed over before that."
  4)

(defn- tell-of-unkept [{:keys [core]} name]
  (let [leader (first (:me core))
        nodes (mapv first (agreement/keepers-of core name))
        shown (arguments/show name)]
    (reports/report "a singleton that does not run"
                    (ex-info (str "The singleton " shown " does not run: the leader of the view, " leader ", has no keeper of it, only "
                                  (str/join ", " nodes) (if (next nodes) " have" " has") " one. Give " leader " a child with "
                                  "`singleton/start-link` for it, or let " leader " leave the cluster.")
                             {:singleton name :leader leader :nodes nodes}))))

(defn- report-unkept
  "Reports once each singleton that other nodes keep, and that has not run for long because this node leads and does not keep it."
  [{:keys [core unkept] :as state} now]
  (let [names (when (agreement/has-lease? core now) (agreement/unkept core))
        long-ago (- (long now) (* (long unkept-leases) (long (:lease core))))
        after (into {} (map (fn [name] [name (get unkept name now)])) names)
        [told waiting] [:told #(and (not= :told %) (<= (long %) long-ago))]]
    (doseq [[name since] after :when (waiting since)]
      (tell-of-unkept state name))
    (assoc state :unkept (update-vals after #(if (waiting %) told %)))))

(defn- answer-leaver
  "Answers the call to leave when no view needs this node any more, and its singletons have ended."
  [{:keys [core leaver] :as state}]
  (if (and leaver (:leaving core) (agreement/left? core))
    (do
      (gs/reply leaver :ok)
      (dissoc state :leaver))
    state))

(defn- pids
  "The processes of the singletons that run here, by name."
  [{:keys [keepers running]}]
  (into {} (keep (fn [[pid {:keys [name keeper singleton]}]] (when (and singleton (keepers keeper)) [name pid]))) running))

(defn- publish [{:keys [core] :as state}]
  (let [leads (agreement/leads? core)]
    (reset! (.current published) {:until (agreement/acts-until core)
                                  :leads leads
                                  :pids (if leads (pids state) (:leader-pids core))}))
  state)

(defn- show
  "Keeps what is told of this server from outside, without a call."
  [{:keys [core] :as state}]
  (publish state)
  (let [{:keys [leader members]} (:view core)
        [[slow] took] (agreement/too-slow core)
        unkept (agreement/unkept core)]
    (status/keep-agreement
      (cond-> {:until (agreement/acts-until core)
               :split-brain (shown (agreement/rules core))
               :members (mapv first members)
               :incompatible (into {} (map (fn [[[name] {:keys [rules]}]] [name (shown rules)])) (:incompatible core))}
        leader (assoc :leader (first leader))
        (seq unkept) (assoc :unkept (mapv arguments/show unkept))
        slow (assoc :slow {:node slow :took-ms (ms took)}))))
  state)

(defn- keeping
  "The state whose agreement knows which singletons are kept here, and if none is alive."
  [{:keys [keepers running] :as state} now]
  (update state :core agreement/keeping (into [] (comp (map :name) (distinct)) (vals keepers))
          (and (empty? keepers) (empty? running)) now))

(defn- stepped
  "The state after an event of the agreement."
  [state event]
  (let [now (clock/now)]
    (-> (keeping state now)
        (update :core agreement/step event now)
        send-all
        tell-lease
        forget-tokens
        give-tokens
        report-incompatible
        (report-slow-node now)
        (report-unkept now)
        answer-leaver
        show)))

;; ---- singletons of this node

(defn- show-pids [state]
  (publish (assoc-in state [:core :pids] (pids state))))

(defn- keeper-of
  "The live keeper that has enrolled for the name, or nil."
  [{:keys [keepers]} name]
  (some (fn [[pid keeper]] (when (and (= name (:name keeper)) (actor/alive? pid)) pid)) keepers))

(defn- enrol [state keeper name]
  (if-some [other (keeper-of state name)]
    (do
      (! keeper [:taken other])
      state)
    (do
      (actor/monitor keeper)
      (! keeper [:lease (:lease-until (:core state))])
      (assoc-in state [:keepers keeper] {:name name :token nil}))))

(defn- runs?
  "Is a runner or a singleton of the name alive here?"
  [{:keys [running]} name]
  (some #(= name (:name %)) (vals running)))

(defn- current?
  "Was the token given to the keeper during the lease that this node has? A JVM may have been suspended since. The keeper may have been
  given a further one meanwhile, so the first one of the lease is known."
  [{:keys [core] :as state} keeper token]
  (let [given (get-in state [:keepers keeper :given])]
    (and given
         (<= (long given) (long token))
         (agreement/has-lease? core (clock/now)))))

(defn- begin
  "Says if the runner may start the singleton with the token, and the state that knows of it then."
  [{:keys [leaver] :as state} runner keeper token]
  (let [name (get-in state [:keepers keeper :name])]
    (if (or leaver (nil? name) (not (actor/alive? keeper)) (runs? state name) (not (current? state keeper token)))
      [false state]
      (do
        (actor/monitor runner)
        [true (assoc-in state [:running runner] {:name name :keeper keeper})]))))

(defn- now-runs [state runner pid]
  (if-some [run (get-in state [:running runner])]
    (do
      (monitors/monitor-at-once pid)
      (-> (assoc-in state [:running pid] (assoc run :singleton true))
          show-pids
          (stepped [:renew])))
    state))

(defn- take-token [{:keys [core leaver] :as state} keeper]
  (if (and (not leaver)
           (nil? (get-in state [:keepers keeper :token] 0))
           (not (runs? state (get-in state [:keepers keeper :name])))
           (agreement/may-start? core (clock/now)))
    (let [now (clock/now)
          state (update (keeping state now) :core agreement/step [:token (.getTime (environment/date))] now)]
      (-> (assoc-in state [:keepers keeper :token] (:token (:core state)))
          send-all
          tell-lease
          give-tokens
          publish))
    state))

;; ---- leaving

(defn- leave-when-idle
  "Leaves the agreement when all singletons of this node have ended."
  [{:keys [leaver core keepers running] :as state}]
  (if (and leaver (not (:leaving core)) (not-any? :ending (vals keepers)) (empty? running))
    (stepped state [:leave])
    state))

(defn- begin-to-leave [{:keys [keepers] :as state} from]
  (run! #(! % [:end]) (sort (keys keepers)))
  (-> (assoc state :leaver from)
      (update :keepers update-vals #(assoc % :ending true))
      leave-when-idle))

;; ---- the server

(defn- tick-later [{:keys [core]}]
  (actor/send-after (quot (long (:tick core)) 1000000) (self) ::tick))

(defn- tick [state]
  (let [state (watch-new state (connected))]
    (stepped state [:tick (reached state)])))

(defn- init [{:keys [name policy lease-ms] :or {lease-ms default-lease-ms policy {:kind :keep-majority}}}]
  (let [core (agreement/initial [name (Peers/incarnation Peers/CLUSTER)] policy (clock/nanos lease-ms) (clock/now))
        state {:core core :servers {} :watches {} :keepers {} :running {} :reported {}}]
    (publish state)
    (tick-later state)
    [:ok state]))

(defn- here? [x]
  (and (instance? Pid x) (not (nodes/elsewhere? x))))

(defn- handle-call [request [pid :as from] {:keys [core] :as state}]
  (let [[what x y] (if (vector? request) request [request])]
    (case what
      :lease [:reply (ms (:lease core)) state]
      :begin (let [[answer state] (begin state pid x y)] [:reply answer state])
      :leave (if (here? pid) [:noreply (begin-to-leave state from)] [:reply [:error :not-here] state])
      [:reply [:error :unknown-request] state])))

(defn- of-keeper
  "The state after a cast of a keeper that has enrolled."
  [state what keeper]
  (case what
    :token (take-token state keeper)
    :ended (leave-when-idle (update-in state [:keepers keeper] dissoc :ending))
    state))

(defn- handle-cast [message {:keys [keepers] :as state}]
  (let [[what from x pid] (when (vector? message) message)]
    [:noreply
     (cond
       (and (= :enrol what) (here? from)) (enrol state from x)
       (= :runs what) (now-runs state from pid)
       (contains? keepers from) (of-keeper state what from)
       :else state)]))

(defn- heard
  "The state after a message of another node. One that is not understood here, as of another version, is reported and dropped."
  [state message]
  (try
    (when-not (agreement/well-formed? message)
      (throw (ex-info "The message is not one of this version." {:message message})))
    (stepped (there state message) [:heard message])
    (catch RuntimeException e
      (reports/report "a message about the leader of the cluster" e)
      state)))

(defn- down
  "The state when a keeper, a runner or a singleton has ended. A keeper that asked meanwhile asks again when it hears of the lease."
  [{:keys [core] :as state} pid]
  (let [name (get-in state [:running pid :name])
        state (-> (update state :keepers dissoc pid)
                  (update :running dissoc pid)
                  show-pids)]
    (when-some [keeper (and name (keeper-of state name))]
      (! keeper [:lease (:lease-until core)]))
    (leave-when-idle state)))

(defn- handle-info [message {:keys [watches] :as state}]
  (let [[what x _ pid why] (if (vector? message) message [message])]
    (case what
      ::tick (do
               (tick-later state)
               [:noreply (tick state)])
      ::heard [:noreply (heard state x)]
      :DOWN [:noreply (if (contains? watches x) (gone state x why) (down state pid))]
      [:noreply state])))

(def ^:private callbacks
  {:init init
   :handle-call handle-call
   :handle-cast handle-cast
   :handle-info handle-info})

(defn start-link
  "Starts the server, linked to this process. The options have the :name of the node, :policy and :lease-ms."
  [options]
  (gs/start-link callbacks (select-keys options [:name :policy :lease-ms]) {:name server-name}))

(defn ask
  "Calls the server; `otherwise` if this node has none."
  [request otherwise]
  (if (actor/whereis server-name)
    (try
      (gs/call server-name request)
      (catch ExceptionInfo e
        (if (:reason (ex-data e)) otherwise (throw e))))
    otherwise))

;; ---- from outside

(defn- last-published
  "What the server has published; nil if this node has none."
  []
  (when (actor/whereis server-name)
    @(.current published)))

(defn active?
  "Does this node belong to a part whose leader has the lease, as far as it knows?"
  []
  (let [{:keys [until]} (last-published)]
    (and (some? until) (< (clock/now) (long until)))))

(defn singleton
  "The process of the singleton: one of this node, or what the leader has said, while this node hears of its lease; or nil."
  [name]
  (let [{:keys [leads until pids]} (last-published)]
    (when (or leads (and until (< (clock/now) (long until))))
      (get pids name))))

(defn- leave
  "Ends the singletons of this node, and waits until the others have agreed on a view without it, for a limited time."
  [server]
  (try
    (gs/call server :leave {:timeout leave-ms :else nil})
    (catch ExceptionInfo _))) ; it has failed meanwhile

(defn stop
  "Stops the server, in order if the others can be reached."
  [server reachable?]
  (when reachable?
    (leave server))
  (let [ref (actor/monitor server)]
    (actor/unlink server)
    (actor/exit server :kill)
    (receive [:DOWN ref _ _ _] nil)))
