(ns magnetar.application.controller
  "The server that knows which applications run. It is there while one does; its end is the end of all.

  Its state: {:apps {name {:state :starting, :running or :stopping, :master pid, :type, :n, :waiting [from ..]}}, :next n}."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.application.loaded :as loaded]
   [magnetar.application.master :as master]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.report :as report])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

;; ---- what happens when an application ends that must not

(defn- fatal? [type why]
  (or (= :permanent type)
      (and (= :transient type) (not= :normal why))))

;; True while the program in `run` is told to stop: an application that ends then is what was wanted.
(defonce ^:private really-stopping (atom false))

(defn- stopping []
  (environment/local really-stopping ::stopping false))

(defn expect-ends
  "Says whether the program stops, so that applications may end."
  [yes?]
  (reset! (stopping) yes?))

(declare stop-all)

(defn- act-on-end [event]
  (when-not (report/hand-to-hooks :end event)
    (stop-all)))

(defn- tell-of-end [name type why]
  (let [fatal (fatal? type why)
        event {:event :application-ended :application name :type type :reason (codec/plain why)}]
    (when-not @(stopping)
      (report/tell (assoc event :level (if fatal :error :warning)))
      (when fatal
        (proc-lib/spawn* act-on-end event)))))

;; ---- the table

(defn- by-master [{:keys [apps]} pid]
  (some (fn [[name app]] (when (= pid (:master app)) name)) apps))

(defn- running? [{:keys [apps]} name]
  (= :running (get-in apps [name :state])))

(defn- answer-all [{:keys [waiting]} value]
  (run! #(gs/reply % value) waiting))

(defn- next-step
  "The server goes on while there is an application."
  [state]
  (if (empty? (:apps state))
    [:stop :normal state]
    [:noreply state]))

(defn- left
  "Handles the end of an application: answers the processes that start or stop it, or reports the end."
  [state name why failed?]
  (let [{:keys [type] :as app} (get-in state [:apps name])]
    (case (:state app)
      :starting (answer-all app [:error why])
      :stopping (answer-all app :ok)
      :running (when-not failed? (tell-of-end name type why)))
    (next-step (update state :apps dissoc name))))

;; ---- requests

(defn- missing
  "The first application that this one needs and that does not run."
  [state {:keys [applications optional-applications]}]
  (first (remove #(or (running? state %) (some #{%} optional-applications)) applications)))

(defn- begin [state name type from spec]
  (let [app {:state :starting :type type :master (master/start spec) :n (:next state) :waiting [from]}]
    [:noreply (-> state (update :next inc) (assoc-in [:apps name] app))]))

(defn- refuse [value state]
  (if (empty? (:apps state))
    [:stop :normal value state]
    [:reply value state]))

(defn- start [state name type from]
  (let [spec (get (loaded/specs) name)
        dependency (missing state spec)]
    (case (get-in state [:apps name :state])
      :running (refuse [:error [:already-started name]] state)
      :stopping (refuse [:error [:stopping name]] state)
      :starting [:noreply (update-in state [:apps name :waiting] conj from)]
      (cond
        (nil? spec) (refuse [:error [:not-loaded name]] state)
        dependency (refuse [:error [:not-started dependency]] state)
        :else (begin state name type from spec)))))

(defn- stop [state name from]
  (let [{:keys [master] :as app} (get-in state [:apps name])]
    (case (:state app)
      nil (refuse [:error [:not-started name]] state)
      :stopping [:noreply (update-in state [:apps name :waiting] conj from)]
      (do
        (when (= :starting (:state app))
          (answer-all app [:error [:stopped name]]))
        (master/stop master)
        [:noreply (update-in state [:apps name] assoc :state :stopping :waiting [from])]))))

(defn- unload [state name]
  (refuse (cond
            (get-in state [:apps name]) [:error [:running name]]
            (contains? (loaded/specs) name) (do (loaded/forget name) :ok)
            :else [:error [:not-loaded name]])
          state))

(defn- shown [{:keys [apps]}]
  (vec (for [[name {:keys [state type master]}] (sort-by (comp :n val) apps)]
         {:name name :state state :type type :master master})))

;; ---- callbacks

(defn- init [_]
  (actor/flag :trap-exit true)
  [:ok {:apps {} :next 0}])

(defn- handle-call [[word name type] from state]
  (case word
    :start (start state name type from)
    :stop (stop state name from)
    :unload (unload state name)
    :which (refuse (shown state) state)))

(defn- up [state name]
  (let [app (get-in state [:apps name])]
    (when (= :starting (:state app))
      (answer-all app :ok))
    (cond-> state
      (= :starting (:state app)) (update-in [:apps name] assoc :state :running :waiting []))))

(defn- handle-cast [[word pid why] state]
  (let [name (by-master state pid)]
    (case (when name word)
      ::master/up [:noreply (up state name)]
      ::master/failed (left state name why true)
      ::master/ended (left state name why false)
      [:noreply state])))

(defn- handle-info [message state]
  (let [[word pid why] (when (vector? message) message)
        name (when (= :EXIT word) (by-master state pid))]
    (if name
      (left state name why false)
      [:noreply state])))

(def ^:private behaviour
  {:name 'magnetar.application
   :init init
   :handle-call handle-call
   :handle-cast handle-cast
   :handle-info handle-info})

;; ---- for the others

(defonce ^:private real (atom nil))

(defn- fresh []
  (second (gs/start behaviour nil {:spawn-opt {:context :none :bindings :none}})))

(defn- present
  "The pid of the controller, started if need be; of several that are started at once one stays."
  []
  (let [place (environment/local real ::controller nil)
        known @place]
    (if (and known (actor/alive? known))
      known
      (let [pid (fresh)]
        (if (compare-and-set! place known pid)
          pid
          (do
            (gs/stop pid)
            (recur)))))))

(defn ask
  "The controller's answer; of a new one if this one is about to end because nothing runs."
  [request]
  (let [answer (try
                 (gs/call (present) request {:timeout :infinity})
                 (catch ExceptionInfo e
                   (if (#{:normal :noproc} (:reason (ex-data e))) ::again (throw e))))]
    (if (= ::again answer) (recur request) answer)))

(defn which
  "The applications that start, run or stop, in the order of their start: {:name :state :type :master}."
  []
  (ask [:which]))

(defn stop-all
  "Stops all applications, the last one first, and those that were started meanwhile."
  []
  (when-some [{:keys [name]} (peek (which))]
    (ask [:stop name])
    (recur)))
