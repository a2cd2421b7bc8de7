(ns magnetar.erlang.impl.services
  "The processes of a node that BEAMs expect at each node, under the names that they have in Erlang.

  The node ends when one of them ends. So no message ends them, and they wait for no node."
  {:no-doc true}
  (:require
   [magnetar.erlang.impl.global :as global]
   [magnetar.erlang.impl.nodes :as connections]
   [magnetar.erlang.impl.pg :as pg]
   [magnetar.erlang.impl.rex :as rex]
   [magnetar.erlang.impl.user :as user]
   [magnetar.gen-server :as gs]))

(set! *warn-on-reflection* true)

;; ---- net_kernel, which answers `net_adm:ping`

(defn- handle-net-kernel [request from state]
  (let [[kind] (when (vector? request) request)]
    (connections/reply from (if (= :is_auth kind) :yes [:error :notsup]))
    [:noreply state]))

(def ^:private net-kernel
  {:init (fn [_] [:ok nil])
   :handle-call handle-net-kernel
   :handle-cast (fn [_ state] [:noreply state])
   :handle-info (fn [_ state] [:noreply state])})

;; ---- all of them

(def ^:private all
  "From the name of a service to its callbacks. `init` gets the options of the node, its :node, :links, :codec and :places."
  {:global_name_server global/callbacks
   :net_kernel net-kernel
   :pg pg/callbacks
   :rex rex/callbacks
   :user user/callbacks})

(defn start-all
  "Starts the services, linked to this process; returns the set of their pids. A name that a program has taken
  stays with it."
  [options]
  (into #{}
        (keep (fn [[name callbacks]]
                (let [started (gs/start-link callbacks options {:name name})]
                  (when (and (vector? started) (= :ok (first started))) ; a hidden node has no :global_name_server
                    (second started)))))
        all))
