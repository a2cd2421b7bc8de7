(ns magnetar.agent
  "Agents, as in Elixir: processes that keep a state and apply functions to it.

  They apply the functions that they are sent one after the other.

    (agent/start-link (fn [] {}) {:name :settings})
    (agent/update :settings #(assoc % :lang :en))
    (agent/get :settings :lang) ;=> :en

  start   start-link start
  ask     get update get-and-update cast
  stop    stop
  also    run-agents-on-fibers, for the agents of Clojure

  An agent is a server that needs no callback module. It is supervised like one: {:id :settings :start
  [agent/start-link load {:name :settings}]}.

  It differs from an agent of Clojure (`clojure.core/agent`, which this namespace does not hide). The caller
  of `update` waits, so the agent cannot be flooded. A function that throws ends it, so that a supervisor
  starts a new one. It has a name.

  Functions run in the agent: while one runs the others wait. If nothing has to be supervised, an atom is
  simpler. The names follow Elixir's module Agent.

  Require it as `[magnetar.agent :as agent]`."
  (:refer-clojure :exclude [cast get update])
  (:require
   [magnetar.gen-server :as gs]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]))

(set! *warn-on-reflection* true)

;; ---- the server

(defn- answered [word f state]
  (case word
    ::get [:reply (f state) state]
    ::update [:reply :ok (f state)]
    ::get-and-update (let [answer (f state)]
                       (if (and (vector? answer) (= 2 (count answer)))
                         [:reply (nth answer 0) (nth answer 1)]
                         [:stop [:bad-return-value answer] state]))))

(defn- handle-call [request _ state]
  (let [[word f] (when (vector? request) request)]
    (if (#{::get ::update ::get-and-update} word)
      (answered word f state)
      [:reply [:error [:unknown-call request]] state])))

(defn- handle-cast [request state]
  (let [[word f] (when (vector? request) request)]
    [:noreply (if (= ::cast word) (f state) state)]))

(def ^:private behaviour
  {:name 'magnetar.agent
   :init (fn [f] [:ok (f)])
   :handle-call handle-call
   :handle-cast handle-cast
   :code-change (fn [_ state f] [:ok (if (ifn? f) (f state) state)])})

(defn- check [operation f example]
  (arguments/function operation f example))

;; ---- start and stop

(defn start-link
  "Starts an agent, linked to this process, with the value of (f) as its state.

  f runs in the agent.

  Returns [:ok pid], or [:error why] if f fails; else what `magnetar.gen-server/start-link` returns.

  Blocks until f has returned, at most for :timeout.

  Options:
    :name, :timeout, :debug, :hosting, :spawn-opt  as in `magnetar.gen-server/start-link`

  Example:

    (agent/start-link (fn [] 0) {:name :hits}) ;=> [:ok pid]

  Elixir: Agent.start_link/2."
  {:elixir "Agent.start_link/2"}
  ([f] (start-link f nil))
  ([f options]
   (check "start-link" f "(agent/start-link (fn [] 0))")
   (gs/start-link behaviour f options)))

(defn start
  "Starts an agent without a link, with the value of (f) as its state.

  Like `start-link` in all else. It may be called outside of processes.

  Example:

    (agent/start (fn [] 0)) ;=> [:ok pid]

  Elixir: Agent.start/2."
  {:elixir "Agent.start/2"}
  ([f] (start f nil))
  ([f options]
   (check "start" f "(agent/start (fn [] 0))")
   (gs/start behaviour f options)))

(defn stop
  "Ends an agent, and waits until it has ended.

  The reason is :normal if none is given.

  Returns :ok.

  Blocks until the agent has ended, at most for :timeout.

  Throws as `magnetar.gen-server/stop`.

  Options:
    :timeout  how long to wait at most, a duration. Default :infinity

  Example:

    (agent/stop :hits) ;=> :ok

  Elixir: Agent.stop/3."
  {:elixir "Agent.stop/3"}
  ([agent] (stop agent :normal nil))
  ([agent reason] (stop agent reason nil))
  ([agent reason options]
   (proc-lib/stop-as `stop agent reason options)))

;; ---- ask

(defn- ask [word agent f {:keys [timeout] :or {timeout 5000} :as options}]
  (let [operation (name word)]
    (check operation f (str "(agent/" operation " pid inc)"))
    (arguments/options operation [:timeout :else] options)
    (request/call [(symbol word) agent f timeout] agent [word f] timeout options)))

(defn get
  "Returns the value of (f state), computed in the agent.

  The agent is busy while f runs. So f should only select what is needed of the state, and the caller should
  do the work. If f throws, the agent dies of it.

  Blocks until f has returned, at most for :timeout.

  Throws as `magnetar.gen-server/call`.

  Options:
    :timeout  how long to wait at most, a duration. Default 5000 ms
    :else     what to return when time runs out

  Example:

    (agent/get :hits identity) ;=> 17

  Elixir: Agent.get/3."
  {:elixir "Agent.get/3"}
  ([agent f] (get agent f nil))
  ([agent f options] (ask ::get agent f options)))

(defn update
  "Makes (f state) the new state, and returns :ok when that is done.

  Blocks, throws and takes options as `get`. f runs in the agent; if it throws, the agent dies of it.

  Example:

    (agent/update :hits inc) ;=> :ok

  See also `cast`.

  Elixir: Agent.update/3."
  {:elixir "Agent.update/3"}
  ([agent f] (update agent f nil))
  ([agent f options] (ask ::update agent f options)))

(defn get-and-update
  "Replaces the state and returns a value: (f state) gives [value new-state].

  Blocks, throws and takes options as `get`. f runs in the agent; if it throws, the agent dies of it.

  Example:

    (agent/get-and-update :hits (fn [n] [n 0])) ;=> 17

  Elixir: Agent.get_and_update/3."
  {:elixir "Agent.get_and_update/3"}
  ([agent f] (get-and-update agent f nil))
  ([agent f options] (ask ::get-and-update agent f options)))

(defn cast
  "Lets the agent make (f state) its new state, without waiting, and returns :ok.

  Returns :ok also if there is no such agent.

  Example:

    (agent/cast :hits inc) ;=> :ok

  See also `update`.

  Elixir: Agent.cast/2."
  {:elixir "Agent.cast/2"}
  [agent f]
  (check "cast" f "(agent/cast pid inc)")
  (gs/cast agent [::cast f]))

;; ---- agents of Clojure

(defn run-agents-on-fibers
  "Runs the actions that `send-off` sends to Clojure's agents on fibers.

  Each action has a fiber of its own, in the whole program and from now on.

  Returns nil.

  Example:

    (agent/run-agents-on-fibers)

  Clojure: clojure.core/set-agent-send-off-executor!."
  {:added "0.2"}
  []
  (fibers/run-agents))
