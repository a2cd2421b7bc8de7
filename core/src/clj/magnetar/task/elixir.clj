(ns magnetar.task.elixir
  "Tasks under a Task.Supervisor of Elixir, in its words. What a task calls is a symbol, whose namespace is the module."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.otp.erlang :as erlang]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.task.work :as work])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(defn found
  "The supervisor, if it is on a node of Erlang: what `start` wants; else nil."
  [operation supervisor]
  (let [found (request/found operation supervisor)]
    (when (erlang/there? found)
      found)))

(defn- starter
  "This process, as Elixir names the one that asks for a task."
  []
  (let [me (actor/self)]
    [(keyword (actor/node)) (or (actor/process-info me :registered-name) me) me]))

(defn- function-of [f args]
  (let [f (symbol f)]
    [(keyword (namespace f)) (keyword (name f)) (apply list args)]))

(defn- shutdown-of [{:keys [shutdown] :or {shutdown 5000}}]
  (if (= :brutal-kill shutdown) :brutal_kill shutdown))

(defn- no-answer [found why]
  (let [node (pr-str (nodes/name-of found))]
    (cond
      (and (vector? why) (= :nodedown (first why))) [:error :noconnection]
      (= :noproc why) [:error [:refused (str "The node " node " has no such process.")]]
      :else [:error [:refused (str "The supervisor on the node " node " has not answered: " (reasons/text why) ".")]])))

(defn- ask
  "The answer to the request for a task: [:ok pid] or [:error why]."
  [operation supervisor found arguments {:keys [restart] :or {restart :temporary} :as options}]
  (try
    (let [request [:start_task arguments restart (shutdown-of options)]
          [how why :as answer] (request/call-found [(symbol "magnetar.task.supervisor" operation) supervisor] found request :infinity nil)]
      (if (= [:error :max_children] [how why]) [:error :max-children] answer))
    (catch ExceptionInfo e
      (if (= :magnetar/call-failed (:magnetar/reason (ex-data e)))
        (no-answer found (:reason (ex-data e)))
        (throw e)))))

(defn start
  "Asks for a task of this process, which waits until `adopt` says what it calls."
  [operation supervisor found options]
  (ask operation supervisor found (list (starter) :monitor) options))

(defn adopt
  "The task of the process, which now calls the function. It is ended if the arguments cannot be sent."
  [site pid link? f args]
  (let [callers (apply list (work/callers-from-here))
        work (function-of f args)]
    (try
      (work/adopt site pid link? (fn [ref] [(actor/self) ref ref callers work]))
      (catch Throwable t
        (actor/unlink pid)
        (actor/exit pid :kill)
        (throw t)))))

(defn start-child
  "Asks for a task whose value is not awaited."
  [operation supervisor found f args options]
  (proc-lib/in-process
    #(ask operation supervisor found (list (starter) (apply list (work/callers-from-here)) (function-of f args)) options)))
