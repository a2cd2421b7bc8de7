(ns magnetar.agent
  "Agents as Elixir means them: a process that keeps a state, and calls the functions that it is sent on it, one after the other.

    (agent/start-link (fn [] {}) {:name :settings})
    (agent/update :settings #(assoc % :lang :en))
    (agent/get :settings :lang) ;=> :en

  start   start-link start
  ask     get update get-and-update cast
  stop    stop
  also    run-agents-on-fibers, for the agents of Clojure

  It is a server without a behaviour to write, supervised like one: {:id :settings :start [agent/start-link load {:name :settings}]}. Unlike an
  agent of Clojure (`clojure.core/agent`, which this namespace does not hide), who updates it waits, so it cannot be flooded; a function that
  throws ends it, so that a supervisor starts it anew; and it has a name. Functions run in the agent: while one is at work the others wait. If nothing
  has to be supervised, an atom is less. Names are those of Elixir's module Agent."
  (:refer-clojure :exclude [cast get update])
  (:require
   [magnetar.gen-server :as gs]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.runtime]))

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
  "Starts an agent, linked to this process, with the value of (f) as its state: [:ok pid].

  Waits for f, which runs in the agent; [:error why] if it fails. Options and failures as `magnetar.gen-server/start-link`: :name, :timeout,
  :debug, :hosting, :spawn-opt.

    (agent/start-link (fn [] 0) {:name :hits}) ;=> [:ok pid]

  In Elixir: Agent.start_link/2."
  {:elixir "Agent.start_link/2"}
  ([f] (start-link f nil))
  ([f options]
   (check "start-link" f "(agent/start-link (fn [] 0))")
   (gs/start-link behaviour f options)))

(defn start
  "Like `start-link`, without a link.

    (agent/start (fn [] 0)) ;=> [:ok pid]

  In Elixir: Agent.start/2."
  {:elixir "Agent.start/2"}
  ([f] (start f nil))
  ([f options]
   (check "start" f "(agent/start (fn [] 0))")
   (gs/start behaviour f options)))

(defn stop
  "Ends an agent for the reason, :normal if none is given, and waits until it has: :ok. As `magnetar.gen-server/stop`.

    (agent/stop :hits) ;=> :ok

  In Elixir: Agent.stop/3."
  {:elixir "Agent.stop/3"}
  ([agent] (gs/stop agent))
  ([agent reason] (gs/stop agent reason))
  ([agent reason options] (gs/stop agent reason options)))

;; ---- ask

(defn- ask [word agent f {:keys [timeout] :or {timeout 5000} :as options}]
  (let [operation (name word)]
    (check operation f (str "(agent/" operation " pid inc)"))
    (arguments/options operation [:timeout :else] options)
    (request/call (symbol word) agent [word f] timeout options)))

(defn get
  "The value of (f state), computed in the agent.

  Waits for it, {:timeout ms}, 5000 if left out; throws, and takes :else, as `magnetar.gen-server/call`. If f throws, the agent dies of it. Take out of the
  state what is needed there, and work on it here: the agent is busy as long as f runs.

    (agent/get :hits identity) ;=> 17

  In Elixir: Agent.get/3."
  {:elixir "Agent.get/3"}
  ([agent f] (get agent f nil))
  ([agent f options] (ask ::get agent f options)))

(defn update
  "Makes (f state) the state, in the agent: :ok, when it is done. Waits and fails as `get`.

    (agent/update :hits inc) ;=> :ok

  In Elixir: Agent.update/3."
  {:elixir "Agent.update/3"}
  ([agent f] (update agent f nil))
  ([agent f options] (ask ::update agent f options)))

(defn get-and-update
  "Returns the first of [value state] that (f state) gives; the second is the state from now on. Waits and fails as `get`.

    (agent/get-and-update :hits (fn [n] [n 0])) ;=> 18

  In Elixir: Agent.get_and_update/3."
  {:elixir "Agent.get_and_update/3"}
  ([agent f] (get-and-update agent f nil))
  ([agent f options] (ask ::get-and-update agent f options)))

(defn cast
  "Lets the agent make (f state) its state some time; returns :ok at once, also if there is no such agent.

    (agent/cast :hits inc) ;=> :ok

  In Elixir: Agent.cast/2."
  {:elixir "Agent.cast/2"}
  [agent f]
  (check "cast" f "(agent/cast pid inc)")
  (gs/cast agent [::cast f]))

;; ---- agents of Clojure

(defn run-agents-on-fibers
  "Runs the actions that `send-off` sends to Clojure's agents on fibers from now on, each on one of its own; returns nil.

    (agent/run-agents-on-fibers)"
  []
  (fibers/run-agents))
