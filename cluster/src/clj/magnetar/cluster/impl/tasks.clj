(ns magnetar.cluster.impl.tasks
  "The server that lets task supervisors of this node start work for other nodes: only vars that the node allows."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.cluster.impl.status :as status]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime]
   [magnetar.task.supervisor :as tasks])
  (:import
   (magnetar.kernel.process Pid Ref)))

(set! *warn-on-reflection* true)

(def server-name
  "The name of the server."
  :magnetar.cluster/tasks)

(def ^:private longest-site
  "How many characters of the name of a task are used."
  200)

;; ---- a request is checked: it may be of another version, and nothing is looked up by what it contains

(defn- supervisor? [x]
  (or (address/plain? x)
      (and (instance? Pid x) (not (nodes/elsewhere? x)))))

(defn- pids? [x]
  (and (sequential? x) (every? #(instance? Pid %) x)))

(defn- sound? [{:keys [id supervisor site work owner callers options]}]
  (and (or (nil? id) (instance? Ref id))
       (supervisor? supervisor)
       (string? site)
       (vector? work)
       (or (nil? owner) (instance? Pid owner))
       (pids? callers)
       (or (nil? options) (map? options))))

(defn- telling
  "The function of a task, which first tells this process that the owner has taken the task."
  [f]
  (let [me (self)]
    (fn []
      (! me :taken)
      (f))))

(defn- begin
  "Lets the supervisor start the work; its answer, or [:error [:refused sentence]]."
  [{:keys [supervisor ^String site work owner callers options] :as request}]
  (try
    (if (sound? request)
      (tasks/start-for supervisor
                       (subs site 0 (min (long longest-site) (count site)))
                       (cond-> (status/work work) owner telling)
                       owner
                       (vec callers)
                       (select-keys options [:restart :shutdown]))
      [:error [:refused "The request is not one that this version knows."]])
    (catch Exception e
      [:error [:refused (or (ex-message e) (str e))]])))

(defn- await-taken
  "Waits until the task begins or ends. It is ended if its owner waits for the answer no longer, and so never takes it."
  [pid]
  (let [ref (actor/monitor pid)]
    (receive
      :taken nil
      :abandon (actor/exit pid [:shutdown :abandoned])
      [:DOWN ref :process _ _] nil)))

(defn- answer [{:keys [owner] :as request} from]
  (let [[how pid :as outcome] (begin request)]
    (gs/reply from outcome)
    (when (and owner (= :ok how))
      (await-taken pid))))

;; ---- the server. A supervisor may take its time, so each request has a process. The state has :asked, from its monitor to [from id], and
;; ---- :helpers, from the id to the process

(defn- handle-call [request from state]
  (let [[kind {:keys [id] :as x}] (when (vector? request) request)]
    (if (and (= :start kind) (map? x))
      (let [[helper ref] (actor/spawn-opt #(answer x from) {:monitor true})]
        [:noreply (cond-> (assoc-in state [:asked ref] [from id])
                    (instance? Ref id) (assoc-in [:helpers id] helper))])
      [:reply [:error :unknown-request] state])))

(defn- ended
  "The state after the end of the process of a request. One that has died may not have answered."
  [{:keys [asked] :as state} ref why]
  (let [[from id] (asked ref)]
    (when (and from (not= :normal why))
      (gs/reply from [:error [:refused (str "The process that was to start it has died: " (reasons/text why) ".")]]))
    (-> (update state :asked dissoc ref)
        (update :helpers dissoc id))))

(defn- handle-info [message {:keys [helpers] :as state}]
  (let [[kind x _ _ why] (when (vector? message) message)]
    (cond
      (not (instance? Ref x)) [:noreply state]
      (= :DOWN kind) [:noreply (ended state x why)]
      :else (do
              (when (and (= :abandon kind) (helpers x))
                (! (helpers x) :abandon))
              [:noreply state]))))

(def ^:private callbacks
  {:init (fn [_] [:ok {:asked {} :helpers {}}])
   :handle-call handle-call
   :handle-cast (fn [_ state] [:noreply state])
   :handle-info handle-info})

(defn start-link
  "Starts the server; returns its pid."
  []
  (second (gs/start-link callbacks nil {:name server-name})))
