(ns magnetar.cluster.impl.tasks
  "The server that lets task supervisors of this node start work for other nodes: only vars that the node allows."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.cluster.impl.status :as status]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.runtime]
   [magnetar.task.supervisor :as tasks])
  (:import
   (magnetar.kernel.process Pid)))

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

(defn- sound? [{:keys [supervisor site work owner callers options]}]
  (and (supervisor? supervisor)
       (string? site)
       (vector? work)
       (or (nil? owner) (instance? Pid owner))
       (pids? callers)
       (or (nil? options) (map? options))))

(defn- begin
  "Lets the supervisor start the work; its answer, or [:error [:refused sentence]]."
  [{:keys [supervisor ^String site work owner callers options] :as request}]
  (try
    (if (sound? request)
      (tasks/start-for supervisor
                       (subs site 0 (min (long longest-site) (count site)))
                       (status/work work)
                       owner
                       (vec callers)
                       (select-keys options [:restart :shutdown]))
      [:error [:refused "The request is not one that this version knows."]])
    (catch Exception e
      [:error [:refused (or (ex-message e) (str e))]])))

;; ---- the server. A supervisor may take its time, so each request has a process

(def ^:private callbacks
  {:init (fn [_] [:ok nil])
   :handle-call (fn [request from state]
                  (let [[kind x] (when (vector? request) request)]
                    (if (and (= :start kind) (map? x))
                      (do
                        (actor/spawn #(gs/reply from (begin x)))
                        [:noreply state])
                      [:reply [:error :unknown-request] state])))
   :handle-cast (fn [_ state] [:noreply state])
   :handle-info (fn [_ state] [:noreply state])})

(defn start-link
  "Starts the server; returns its pid."
  []
  (second (gs/start-link callbacks nil {:name server-name})))
