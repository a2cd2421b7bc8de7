(ns magnetar.supervisor.erlang
  "Requests to supervisors, in the words of this library and of Erlang."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.otp.erlang :as erlang]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.runtime]
   [magnetar.supervisor.children :as children])
  (:import
   (clojure.lang ExceptionInfo)
   (magnetar.kernel.process Peers Pid)))

(set! *warn-on-reflection* true)

(def ^:private words
  {:which-children :which_children, :count-children :count_children, :start-child :start_child, :terminate-child :terminate_child
   :restart-child :restart_child, :delete-child :delete_child, :get-childspec :get_childspec})

(def ^:private own-words
  (zipmap (vals words) (keys words)))

;; ---- requests of this library to a supervisor of Erlang

(defn- refuse [operation supervisor why]
  (arguments/misuse :magnetar/not-here
                    (str "`" operation "` " why "; " (arguments/show supervisor) " is on a node of Erlang.") {:server supervisor}))

(defn- with-arguments
  "The start [module function arguments], with its arguments as a list."
  [start]
  (if (and (vector? start) (= 3 (count start)) (sequential? (peek start)))
    (update start 2 #(apply list %))
    start))

(defn- spec-there [operation supervisor x]
  (cond
    (map? x) (cond-> x (:start x) (update :start with-arguments))
    (and (sequential? x) (not (symbol? (first x)))) (apply list x)
    :else (refuse operation supervisor "takes a map whose :start is [:module :function arguments], or a list of arguments")))

(defn asked
  "The request in Erlang's words; `called` is what the program called, [operation supervisor ..]."
  [[operation supervisor] [word x]]
  (case word
    (:which-children :count-children) (words word)
    :which-child :which_children ; older nodes do not know a request for one child
    :start-child [:start_child (spec-there operation supervisor x)]
    (:terminate-child :restart-child :delete-child :get-childspec) [(words word) x]
    (refuse operation supervisor "asks for what supervisors of Erlang do not keep")))

(defn- unless-undefined [x]
  (when-not (= :undefined x) x))

(defn- own-child [[id pid type modules]]
  {:id (unless-undefined id) :pid (unless-undefined pid) :type type :modules (if (sequential? modules) (vec modules) modules)})

(def ^:private own-reasons
  {:not_found :not-found, :already_present :already-present, :simple_one_for_one :simple-one-for-one})

(defn- own-reason [why]
  (let [[word pid] (when (vector? why) why)]
    (if (= :already_started word) [:already-started pid] (own-reasons why why))))

(defn- own-outcome [value]
  (let [[how x] (when (vector? value) value)]
    (case how
      :ok (assoc value 1 (unless-undefined x))
      :error [:error (own-reason x)]
      value)))

(defn answered
  "The answer of a supervisor of Erlang to the request of this library."
  [[word x] value]
  (case word
    :which-children (mapv own-child (reverse value))
    :which-child (if-some [child (some #(when (= x (if (instance? Pid x) (:pid %) (:id %))) %) (map own-child value))]
                   [:ok child]
                   [:error :not-found])
    :count-children (into {} value)
    (own-outcome value)))

;; ---- requests of Erlang to a supervisor here

(defn own-request
  "The request of Erlang in the words of this library; nil if no words say it. No child spec is taken from another node.
  `template?` says that the children of the supervisor are started with more arguments."
  [word x template?]
  (when-some [own (own-words word)]
    (when (or template? (not= :start-child own))
      [own x])))

;; Elixir's Task.Supervisor asks for a task in words of its own. The server of the node of Erlang knows what such a task may do.

(def ^:private node-server :magnetar.erlang/node)

(defn- task-body
  "What the task does; [:error why] if the node has ended, has no place, or does not know the request."
  [args]
  (try
    (request/call node-server [:task args] 5000 nil)
    (catch ExceptionInfo e
      [:error (:reason (ex-data e) :timeout)])))

(defn- start-task
  "The start of a task, in the supervisor. One that cannot be started again is dropped, so that it does not end the supervisor."
  [begun? args]
  (let [body (task-body args)]
    (cond
      (fn? body) (do (reset! begun? true)
                     [:ok (actor/spawn-opt body {:link true :bindings :none})])
      @begun? :ignore
      :else body)))

(defn task-spec
  "The spec of a child that is a task of Elixir."
  [[_ args restart shutdown]]
  {:start [start-task (atom false) args]
   :restart (get #{:transient :permanent} restart :temporary)
   :shutdown (cond
               (= :brutal_kill shutdown) :brutal-kill
               (or (= :infinity shutdown) (nat-int? shutdown)) shutdown
               :else 5000)})

(defn task-answer
  "The answer to a request for a task of Elixir."
  [[how why :as answer]]
  (cond
    (not= :error how) answer
    (= :max-children why) [:error :max_children]
    :else [:error (erlang/term why)]))

(def refused
  "The answer to a request of Erlang that no words of this library say; nil for other words."
  {:start_child [:error [:notsup "A supervisor of this node takes no child spec of another node."]]
   :start_task [:error [:notsup "A supervisor of tasks has the strategy :dynamic, as magnetar.task.supervisor starts it."]]})

(defn id
  "The id of the child as Erlang has it."
  [child]
  (erlang/term (:id child)))

(defn- child-term [undefined {:keys [id pid type]}]
  [(if (nil? id) undefined (erlang/term id)) (or pid undefined) type :dynamic])

(defn- underscored [why]
  (let [[word pid] (when (vector? why) why)
        names (into {} (map (fn [[k v]] [v k])) own-reasons)]
    (if (= :already-started word) [:already_started pid] (names why why))))

(defn- outcome-term [undefined value]
  (let [[how x] (when (vector? value) value)]
    (case how
      :ok [:ok (if (nil? x) undefined x)]
      :error [:error (erlang/term (underscored x))]
      value)))

(defn answer
  "The answer of a supervisor here to the request of the process of Erlang that has the word in the words of this library."
  [caller word value]
  (let [undefined (when (instance? Pid caller) (Peers/undefined caller))]
    (case word
      :which-children (apply list (map #(child-term undefined %) (rseq value)))
      :count-children (apply list (map #(vector % (% value)) [:specs :active :supervisors :workers]))
      :get-childspec (let [[how spec] value]
                       (if (= :ok how) [:ok (erlang/term (children/shown spec))] (outcome-term undefined value)))
      (outcome-term undefined value))))
