(ns magnetar.erlang.impl.global.names
  "The names that a server of global names knows, as BEAMs and `magnetar.global` have them."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [!]]
   [magnetar.etf :as etf]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.global :as tables]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.etf Export)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

;; ---- resolvers, which BEAMs call methods

(def ^:private built-in
  "From a resolver of `magnetar.global` to the function of Erlang's global."
  {:random-exit (Export. "global" "random_exit_name" 3)
   :random-notify (Export. "global" "random_notify_name" 3)
   :notify-all (Export. "global" "notify_all_name" 3)})

(def ^:private of-program
  "Stands for a function of the program, which runs on this node only."
  (Export. "magnetar.global" "resolve" 3))

(defn method
  "The resolver as BEAMs know it."
  [resolve]
  (built-in resolve of-program))

(def ^:private resolvers (into {} (map (juxt val key)) built-in))

(defn- by-nodes
  "The two pids: first the one whose node sorts first."
  [pid other]
  (if (neg? (compare (nodes/name-of pid) (nodes/name-of other))) [pid other] [other pid]))

(defn- run-built-in
  "What Erlang's function of the same name does. Unlike `magnetar.global`, Erlang draws nothing: the node that sorts first wins."
  [resolver name pid other]
  (let [[kept lost] (by-nodes pid other)]
    (case resolver
      :random-exit (do (actor/exit lost :kill) kept)
      :random-notify (do (! lost [:global_name_conflict name]) kept)
      :notify-all (do
                    (! pid [:global_name_conflict name other])
                    (! other [:global_name_conflict name pid])
                    :none))))

(defn- run-own [name pid other]
  (let [{:keys [resolve]} (@(tables/names) name)]
    (try
      (or (when (fn? resolve) (resolve name other pid)) :none)
      (catch Throwable t ; as Erlang's catch: an exit, a failed assertion and an endless recursion are answers too
        (reports/report (str "the resolver of the global name " (reports/beginning name)) t)
        :none))))

(defn resolve-it
  "Decides between two pids with the name, of which the second one is of this node, as global:resolve_it does: the pid that keeps
  the name, or :none. Nil for a method that cannot run here."
  [method name pid other]
  (cond
    (resolvers method) (run-built-in (resolvers method) name pid other)
    (and (= of-program method) (not (nodes/elsewhere? other))) (run-own name pid other)))

(defn- resolve-there
  "The same by the node of the second pid; nil if that gives no answer."
  [method name pid other]
  (let [request [:call :global :resolve_it (list method name pid other) :user]
        answer (try
                 (gs/call [:rex (nodes/name-of other)] request {:timeout 30000 :else nil})
                 (catch Exception _))]
    (when-not (and (vector? answer) (= :badrpc (first answer)))
      answer)))

(defn- decide
  "The pid that keeps the name, or anything else for neither. If no answer can be had, the first one keeps it, as in Erlang."
  [method name pid other]
  (or (if (or (resolvers method) (not (nodes/elsewhere? other)))
        (resolve-it method name pid other)
        (resolve-there method name pid other))
      pid))

;; ---- what two nodes that meet tell each other

(defn- compared
  "What this node has to do about a name of the other one, and what the other one has to do. The node that sorts first decides."
  [names first? decide [name pid method]]
  (let [{mine :pid :as entry} (names name)
        theirs [:insert [name pid method]]]
    (cond
      (nil? entry) [[theirs] []]
      (or (= pid mine) (not first?)) [[] []]
      :else (condp = (decide (:method entry) name pid mine)
              pid [[theirs] []]
              mine [[] [[:insert [name mine (:method entry)]]]]
              [[[:delete name]] [[:delete name]]]))))

(defn exchange
  "[what this node has to do, what the other one has to do], of what this node knows and what the other one has told.
  (decide method name pid other) returns the pid that keeps a name."
  ([names first? told] (exchange names first? told decide))
  ([names first? told decide]
   (reduce (fn [[ours theirs] entry]
             (let [[a b] (compared names first? decide entry)]
               [(into ours a) (into theirs b)]))
           [[] []]
           told)))

(defn entry?
  "Is it a name with its pid and its method, as another node tells it?"
  [x]
  (and (vector? x) (<= 3 (count x)) (instance? Pid (nth x 1)) (some? (nth x 2))))

(defn operation?
  "Is it something to be done about a name, as another node tells it?"
  [x]
  (and (vector? x) (= 2 (count x)) (or (not= :insert (nth x 0)) (entry? (nth x 1)))))

(defn told
  "The names as another node is told them."
  [{:keys [names]}]
  (apply list (for [[name {:keys [pid method]}] names] [name pid method])))

;; ---- the table. The state has :names, from a name to {:pid :method :ref}, and :refs, from a monitor to the name

(defn- forget [{:keys [names] :as state} name]
  (if-some [{:keys [ref]} (names name)]
    (do
      (actor/demonitor ref {:flush true})
      (-> (update state :names dissoc name)
          (update :refs dissoc ref)))
    state))

(defn- keep-entry [state name {:keys [ref] :as entry}]
  (-> (assoc-in state [:names name] entry)
      (assoc-in [:refs ref] name)))

(defn- known-resolver
  "The resolver of the process for the name, if it has the name on this node already."
  [name pid]
  (let [claim (@(tables/names) name)]
    (when (= pid (:pid claim))
      (:resolve claim))))

(defn insert
  "The state in which the process has the name. The resolver is a function of the program, or nil."
  [state name pid method resolve]
  (let [state (forget state name)]
    (if (nodes/elsewhere? pid)
      (do
        (tables/release name nil)
        (swap! (tables/others) assoc name pid))
      (do
        (swap! (tables/others) dissoc name)
        (tables/claim name pid (or resolve (known-resolver name pid) (resolvers method :random-exit)) true)))
    (keep-entry state name {:pid pid :method method :ref (monitors/monitor-at-once pid)})))

(defn delete
  "The state in which no process has the name."
  [state name]
  (tables/release name nil)
  (swap! (tables/others) dissoc name)
  (forget state name))

(defn ended
  "The state after the process of the monitor has ended."
  [{:keys [refs] :as state} ref]
  (let [name (refs ref)
        pid (get-in state [:names name :pid])]
    (swap! (tables/others) #(if (= pid (% name)) (dissoc % name) %))
    (forget state name)))

(defn refusal
  "Why the name cannot be told to a BEAM; nil if it can."
  [{:keys [codec]} name]
  (try
    (etf/encode codec name)
    nil
    (catch RuntimeException e
      (ex-message e))))

(defn- adopt-one [state [name {:keys [pid resolve] :as claim}]]
  (cond
    (or (= pid (get-in state [:names name :pid])) (not (tables/holder claim))) state
    (refusal state name) (do
                           (reports/report (str "the global name " (reports/beginning name) ", of which nodes of Erlang are not told")
                                           (ex-info (refusal state name) {:name name}))
                           state)
    :else (keep-entry (forget state name) name {:pid pid :method (method resolve) :ref (monitors/monitor-at-once pid)})))

(defn adopt
  "The state with the names of this node that were registered without the server."
  [state]
  (reduce adopt-one state @(tables/names)))
