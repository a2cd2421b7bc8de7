(ns magnetar.erlang.impl.tasks
  "Tasks that supervisors of this node start for the `Task.Supervisor` of Elixir. They call functions of this node that BEAMs may call.

  The process of a task waits until its owner names the function and the place of the answer, so it ends with the owner before that."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! after receive]]
   [magnetar.erlang.impl.functions :as functions]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(def ^:private patience-ms
  "How long a task waits for the name of its function, as in Elixir. Its owner may have given the task up."
  5000)

(defn- await-work
  "[to ref function] of the owner: where the answer goes, what it begins with, and [module function arguments]."
  [owner]
  (let [watch (actor/monitor owner)
        work (receive
               [owner ref to _ [module function args]] [to ref [module function args]]
               [:DOWN watch :process _ why] (actor/exit [:shutdown why])
               (after patience-ms (actor/exit :timeout)))]
    (actor/demonitor watch {:flush true})
    work))

(defn- answer-owner [functions owner]
  (let [[to ref [module function args]] (await-work owner)]
    (! to [ref (functions/run-here functions module function args)])))

(defn- task
  "What a process does for these arguments of Elixir: [owner monitor?] of a task that is awaited, or [owner callers [module function arguments]]."
  [functions [of x work :as args]]
  (let [owner (when (vector? of) (peek of))]
    (cond
      (and (= 2 (count args)) (#{:monitor :nomonitor} x) (instance? Pid owner)) #(answer-owner functions owner)
      (and (= 3 (count args)) (vector? work) (= 3 (count work))) #(apply functions/run-here functions work))))

(defn body
  "What the process of a task does; [:error why] if there is no place for one, or the request is another one."
  [functions places args]
  (if-some [f (when (sequential? args) (task functions args))]
    (or (functions/in-place places f) [:error :system_limit])
    [:error :badarg]))
