(ns magnetar.supervisor.behaviour
  "The callbacks of a supervisor, which is a server.

  Its state: the flags of its spec; :kids, from key to child, where the key is the id, or a number where children have no ids; :pids, from pid
  to key, also from the last pid of a child whose start is tried again, which is its :last; :restarts, the recent times; :history."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.actor.info :as info]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.inspect.overview :as overview]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.runtime]
   [magnetar.impl.telemetry :as telemetry]
   [magnetar.impl.versions :as versions]
   [magnetar.proc-lib.report :as report]
   [magnetar.supervisor.children :as children]
   [magnetar.supervisor.erlang :as erlang]
   [magnetar.supervisor.specs :as specs])
  (:import
   (clojure.lang PersistentQueue)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(defn- dynamic? [{:keys [strategy]}]
  (or (= :simple-one-for-one strategy) (= :dynamic strategy)))

(defn- running? [child]
  (instance? Pid (:pid child)))

;; ---- the children in the state

(defn- put-pid [{:keys [kids pids] :as state} key pid]
  (let [{old :pid last-pid :last :as child} (get kids key)
        old (if (instance? Pid old) old last-pid)]
    (if (= :restarting pid)
      (assoc state :kids (assoc kids key (assoc child :pid pid :last old)))
      (assoc state
             :kids (assoc kids key (dissoc (assoc child :pid pid) :last :why))
             :pids (cond-> pids old (dissoc old) (instance? Pid pid) (assoc pid key))))))

(defn- add [{:keys [next kids pids] :as state} key {:keys [pid] :as child}]
  (let [state (assoc state :next (inc (long next)) :kids (assoc kids key (assoc child :n next :key key :pid pid)))]
    (if (instance? Pid pid)
      (assoc state :pids (assoc pids pid key))
      state)))

(defn- remove-child [state key]
  (-> (put-pid state key nil)
      (update :kids dissoc key)))

(defn- gone
  "The state when the child has ended and is not started again."
  [state {:keys [key restart]}]
  (if (or (dynamic? state) (= :temporary restart))
    (remove-child state key)
    (put-pid state key nil)))

(defn- in-order [state]
  (sort-by :n (vals (:kids state))))

(defn- stop-child [state child]
  (when (running? child)
    (children/stop (:who state) child))
  (gone state child))

(defn- stop-children
  "Stops these children, the last one first."
  [state kids]
  (reduce stop-child state (reverse kids)))

(defn- start-children
  "Starts these children in their order: [state nil], or [state child why] of the first that does not come up."
  [state [child & others]]
  (if (nil? child)
    [state nil]
    (let [[how x] (children/start-linked child)]
      (case how
        :ok (recur (put-pid state (:key child) x) others)
        :ignore (recur (gone state child) others)
        [state child x]))))

;; ---- init and the end

(defn- spec-of [source]
  (let [now (if (var? source) @source source)
        spec (if (fn? now) (now) now)]
    (cond
      (= :ignore spec) [:ignore]
      (fn? now) (specs/returned spec)
      :else (specs/supervisor spec))))

(defn- fresh [flags who source]
  (overview/begin (merge flags {:who (or who (actor/self)) :source source :kids {} :pids {} :next 0
                                :restarts PersistentQueue/EMPTY :history PersistentQueue/EMPTY})))

(defn- ids-of [specs]
  (into #{} (map :id) specs))

(defn- start-all [state specs]
  (let [state (reduce #(add %1 (:id %2) %2) (assoc state :listed (ids-of specs)) specs)
        [state child why] (start-children state (in-order state))]
    (if child
      (do
        (children/tell :start-error (:who state) child (codec/plain why))
        (stop-children state (in-order state))
        [:stop [:shutdown [:failed-to-start-child (:id child) why]]])
      [:ok state])))

(defn- init
  "Starts the children. `checked` are the flags of a source that the caller has checked, with its namespaces resolved: else nil."
  [[source who checked]]
  (actor/flag :trap-exit true)
  (versions/serves source)
  (let [[how flags] (if checked [:ok checked] (spec-of source))]
    (cond
      (= :ignore how) :ignore
      (= :error how) (specs/as-error flags)
      (dynamic? flags) [:ok (assoc (fresh (dissoc flags :specs) who source) :template (first (:specs flags)))]
      :else (start-all (fresh (dissoc flags :specs) who source) (:specs flags)))))

;; ---- a new spec

(defn- relist
  "The state with a child as it is in the new spec: one that is there keeps its process, a new one has none yet, and one that has ended for
  good stays away."
  [{:keys [listed] :as state} {:keys [id] :as spec}]
  (let [{:keys [pid] :as present} (get-in state [:kids id])]
    (cond
      present (-> (remove-child state id) (add id (assoc spec :pid pid)))
      (listed id) state
      :else (add state id (assoc spec :fresh true)))))

(defn- drop-unlisted [{:keys [listed] :as state} ids]
  (update state :kids update-vals #(cond-> % (and (listed (:id %)) (not (ids (:id %)))) (assoc :dropped true))))

(defn- with-spec
  "The state by a new spec. Children that it lists for the first time are :fresh, those that it lists no more :dropped: who changes the code
  starts and ends them, once this supervisor works again."
  [state {:keys [specs] :as flags}]
  (let [state (merge state (dissoc flags :specs))
        ids (ids-of specs)]
    (if (dynamic? state)
      (assoc state :template (first specs))
      (-> (reduce relist (drop-unlisted state ids) specs)
          (assoc :listed ids)))))

(defn- code-change [_ {:keys [source strategy] :as state} _]
  (let [[how flags] (spec-of source)]
    (cond
      (= :ignore how) [:ok state]
      (= :error how) (throw (ex-info (str "The new spec of the supervisor is wrong: " (:message (second flags))) {}))
      (and (not= strategy (:strategy flags)) (or (dynamic? state) (dynamic? flags)))
      (throw (ex-info (str "A supervisor of the strategy " strategy " cannot become one of " (:strategy flags) ": stop it, and start another one.") {}))
      :else [:ok (with-spec state flags)])))

(defn- terminate [_ state]
  (let [kids (filter running? (in-order state))]
    (if (dynamic? state)
      (doseq [[shutdown same] (group-by :shutdown kids)]
        (children/stop-all (:who state) same shutdown))
      (stop-children state kids))))

;; ---- restarts

(defn- lately
  "The times, the oldest first, without those that are a period ago."
  [times ^long now ^long period]
  (if (and (peek times) (<= period (- now (long (peek times)))))
    (recur (pop times) now period)
    times))

(defn- add-restart
  "The state after one more restart; nil if these are too many."
  [{:keys [intensity period restarts] :as state}]
  (let [now (clock/now)
        late (conj (lately restarts now period) now)]
    (when (<= (count late) (long intensity))
      (overview/tell (assoc state :restarts late)))))

(defn- try-again [state {:keys [key] :as child} why]
  (let [reason (codec/plain why)]
    (children/tell :start-error (:who state) child reason)
    (request/cast (actor/self) [::try-again key])
    [:noreply (-> (put-pid state key :restarting)
                  (assoc-in [:kids key :why] reason))]))

(defn- not-tried
  "The state after another child of the group did not start: then the start of this one, unless it was before, is not tried by itself."
  [state {:keys [key]} failed]
  (if (and (not= key (:key failed)) (= :restarting (get-in state [:kids key :pid])))
    (put-pid state key nil)
    state))

(defn- group
  "The children that have to be stopped and started when this one is started again, in their order; nil where it is the only one."
  [{:keys [strategy] :as state} {:keys [n]}]
  (case strategy
    :one-for-all (in-order state)
    :rest-for-one (filter #(<= (long n) (long (:n %))) (in-order state))
    nil))

(defn- restart-all
  "Stops all these children except this one, which has ended, and starts all of them. Returns what `start-children` returns."
  [state {:keys [key]} kids]
  (let [state (stop-children state (remove #(= key (:key %)) kids))]
    (start-children state (keep #(get-in state [:kids (:key %)]) kids))))

(defn- restart-group
  "Starts the child, which is :restarting, and those that the strategy stops and starts with it."
  [state {:keys [key] :as child}]
  (let [[state failed why] (if-some [kids (group state child)]
                             (restart-all state child kids)
                             (start-children state [((:kids state) key)]))]
    (if failed
      (try-again (not-tried state child failed) failed why)
      [:noreply state])))

(defn- start-again
  "Restarts a child that has ended, or that did not start. The reason is plain data."
  [{:keys [who intensity period] :as state} child reason]
  (if-some [state (add-restart state)]
    (do
      (telemetry/restarted who (if (dynamic? state) (:key child) (:id child)) reason)
      (restart-group state child))
    (do
      (children/tell :too-many-restarts who child reason {:intensity intensity :period-ms (quot (long period) 1000000)})
      [:stop :shutdown (gone state child)])))

(defn- auto-shutdown
  "What follows when the child has ended and is not started again."
  [{:keys [auto-shutdown] :as state} {:keys [significant]}]
  (if (and significant
           (or (= :any-significant auto-shutdown)
               (and (= :all-significant auto-shutdown)
                    (not-any? #(and (:significant %) (some? (:pid %))) (vals (:kids state))))))
    [:stop :shutdown state]
    [:noreply state]))

(defn- remember [{:keys [history-size] :as state} {:keys [id pid restart]} reason]
  (let [entry (merge {:at (environment/date) :id id :pid pid :restart restart :reason reason} (report/take-words pid))
        history (conj (:history state) entry)]
    (overview/tell (assoc state :history (if (< (long history-size) (count history)) (pop history) history)))))

(defn- ended [state {:keys [restart key] :as child} why]
  (let [reason (codec/plain why)
        state (-> (remember state child reason) (put-pid key :restarting))
        again? (or (= :permanent restart) (and (= :transient restart) (not (report/silent? why))))]
    (when (or again? (not (report/silent? why)))
      (children/tell :child-terminated (:who state) child reason))
    (if again?
      (start-again state (assoc child :pid nil) reason)
      (auto-shutdown (gone state child) child))))

(defn- handle-info [message state]
  (let [[word pid why] (when (vector? message) message)]
    (if (= :EXIT word)
      (let [child (get-in state [:kids (get-in state [:pids pid])])]
        (if (and child (= pid (:pid child)))
          (ended state child why)
          [:noreply state]))
      (do
        (report/ignored message {:event :unexpected-message :supervisor (:who state) :message (codec/plain message)})
        [:noreply state]))))

(defn- handle-cast [request state]
  (let [[word key] (when (vector? request) request)
        child (get-in state [:kids key])]
    (if (and (= ::try-again word) (= :restarting (:pid child)))
      (start-again state child (:why child))
      [:noreply state])))

;; ---- requests

(defn- keep-started
  "The state and the answer when a child that has been added here has been started."
  [state key child outcome failed]
  (let [[how x] outcome]
    (cond
      (= :ok how) [outcome (add state key (assoc child :pid x))]
      (= :ignore how) [(if (= :dynamic (:strategy state)) :ignore [:ok nil])
                       (if (or (dynamic? state) (= :temporary (:restart child))) state (add state key child))]
      :else [[:error (failed x)] state])))

(defn- start-static [state spec]
  (let [[how child] (specs/one-child spec state)
        {:keys [pid] :as present} (get-in state [:kids (:id child)])]
    (cond
      (= :error how) [(specs/as-error child) state]
      (and present (running? present)) [[:error [:already-started pid]] state]
      present [[:error :already-present] state]
      :else (keep-started state (:id child) child (children/start-linked child) (fn [why] [why (children/shown child)])))))

(defn- start-simple [{:keys [template next] :as state} x]
  (let [[how arguments] (specs/more-arguments x)]
    (if (= :error how)
      [(specs/as-error arguments) state]
      (let [child (update template :start into arguments)]
        (keep-started state next child (children/start-linked child) identity)))))

(defn- start-dynamic [{:keys [max-children next extra-arguments kids] :as state} spec]
  (let [[how child] (specs/one-child spec (assoc state :needs-id false))]
    (cond
      (= :error how) [(specs/as-error child) state]
      (and (int? max-children) (<= (long max-children) (count kids))) [[:error :max-children] state]
      :else (let [[f & args] (:start child)
                  child (assoc child :start (into [f] (concat extra-arguments args)))]
              (keep-started state next child (children/start-linked child) identity)))))

(defn- start-child [{:keys [strategy] :as state} x]
  (case strategy
    :simple-one-for-one (start-simple state x)
    :dynamic (start-dynamic state x)
    (start-static state x)))

(defn- find-child
  "The child of an id, or where children have none of a pid."
  [state x]
  (get-in state [:kids (if (dynamic? state) (get-in state [:pids x]) x)]))

(defn- refused
  "The answer to a request about an id where children have none."
  [{:keys [strategy] :as state} x]
  (when (and (dynamic? state) (not (instance? Pid x)))
    [:error (if (= :dynamic strategy) :not-found :simple-one-for-one)]))

(defn- terminate-child [{:keys [strategy] :as state} x]
  (let [child (find-child state x)]
    (cond
      (refused state x) [(refused state x) state]
      (and (nil? child) (= :simple-one-for-one strategy) (info/ended? x)) [:ok state] ; as in OTP: it has ended already
      (nil? child) [[:error :not-found] state]
      :else [:ok (stop-child state child)])))

(defn- stopped
  "[answer state] of (f child) if the child is there and does not run."
  [{:keys [strategy] :as state} x f]
  (let [{:keys [pid] :as child} (find-child state x)]
    (cond
      (dynamic? state) [[:error strategy] state]
      (nil? child) [[:error :not-found] state]
      (= :restarting pid) [[:error :restarting] state]
      (some? pid) [[:error :running] state]
      :else (f child))))

(defn- restart-child [state x]
  (stopped state x (fn [{:keys [key] :as child}]
                     (let [[how pid :as outcome] (children/start-linked child)]
                       (cond
                         (= :ok how) [outcome (put-pid state key pid)]
                         (= :ignore how) [[:ok nil] state]
                         :else [outcome state])))))

(defn- delete-child [state x]
  (stopped state x (fn [{:keys [key]}] [:ok (remove-child state key)])))

(defn- shown-child [state {:keys [id pid type restart]}]
  {:id (when-not (dynamic? state) id) :pid pid :type type :restart restart})

(defn- count-children [{:keys [kids template] :as state}]
  (let [all (vals kids)
        supervisors (count (filter #(= :supervisor (:type %)) all))]
    {:specs (if template 1 (count all))
     :active (count (filter running? all))
     :supervisors supervisors
     :workers (- (count all) supervisors)}))

(defn- childspec [{:keys [template] :as state} x]
  (if-some [child (or template (find-child state x))]
    [:ok (select-keys child [:id :start :restart :shutdown :type :significant])]
    [:error :not-found]))

(declare answer)

(defn- own-id
  "The id of the child that Erlang means by this: a symbol is an atom there."
  [state x]
  (if (or (dynamic? state) (contains? (:kids state) x))
    x
    (some (fn [child] (when (= x (erlang/id child)) (:id child))) (vals (:kids state)))))

(defn- answer-erlang
  "Answers a request in Erlang's words."
  [{:keys [strategy] :as state} word x from]
  (if-some [[own] (erlang/own-request word x (= :simple-one-for-one strategy))]
    (let [[value state] (answer state [own (if (= :start-child own) x (own-id state x))] from)]
      [(erlang/answer (first from) own value) state])
    [(or (erlang/refused word) [:error [:unknown-call (codec/plain [word x])]]) state]))

(defn- start-task
  "Starts a task of Elixir under a supervisor that may have one."
  [{:keys [strategy] :as state} request]
  (if (= :dynamic strategy)
    (update (start-dynamic state (erlang/task-spec request)) 0 erlang/task-answer)
    [(erlang/refused :start_task) state]))

(defn- answer [state [word x :as request] from]
  (case word
    :start-child (start-child state x)
    :terminate-child (terminate-child state x)
    :restart-child (restart-child state x)
    :delete-child (delete-child state x)
    :which-children [(mapv #(shown-child state %) (in-order state)) state]
    :which-child [(if-some [child (find-child state x)] [:ok (shown-child state child)] [:error :not-found]) state]
    :count-children [(count-children state) state]
    :get-childspec [(childspec state x) state]
    :history [(vec (:history state)) state]
    :start_task (start-task state request)
    (answer-erlang state word x from)))

(defn- handle-call [request from state]
  (let [[value state] (answer state (if (vector? request) request [request]) from)]
    [:reply value state]))

(defn- format-status [status]
  (update status :state #(if (map? %) (-> (dissoc % :source :pids :restarts :history) (update :kids count)) %)))

(def behaviour
  "What a supervisor does."
  {:name 'magnetar.supervisor
   :init init
   :handle-call handle-call
   :handle-cast handle-cast
   :handle-info handle-info
   :terminate terminate
   :code-change code-change
   :format-status format-status})
