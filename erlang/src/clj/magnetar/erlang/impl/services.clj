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
   [magnetar.gen-server :as gs])
  (:import
   (java.util.logging Level Logger)))

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
  "From the name of a service to its callbacks. `init` gets the options of the node, its :node, :links, :codec and :places, and the :name."
  {:global_name_server global/callbacks
   :net_kernel net-kernel
   :pg pg/callbacks
   :rex rex/callbacks
   :user user/callbacks})

(def ^:private ^Logger logger (Logger/getLogger "magnetar.erlang"))

(defn- warn-of-holder [name holder]
  (let [^Object line (str "The name " name " belongs to the process " holder ", so what other nodes send to that name does not reach "
                          "this node's server. Give the process another name.")]
    (.log logger Level/WARNING "{0}" line)))

(defn- start
  "Starts the service: [pid] or [nil why]. It may take no part, as :global_name_server of a hidden node."
  [callbacks options name]
  (let [started (gs/start-link callbacks (assoc options :name name) {:name name})
        [how x] (when (vector? started) started)]
    (if (= :ok how) [x] [nil x])))

(defn- start-one
  "The pid of the service, or nil. If a program has its name, that is logged. The service `user` works without the name, since
  this node names it by its pid."
  [options [name callbacks]]
  (let [[pid why] (start callbacks options name)
        [word holder] (when (vector? why) why)]
    (if (= :already-started word)
      (do
        (warn-of-holder name holder)
        (when (= :user name)
          (first (start callbacks options connections/user-beside))))
      pid)))

(defn start-all
  "Starts the services, and a server for each of the :scopes, linked to this process; returns the set of their pids. A name
  that a program has taken stays with it."
  [{:keys [scopes] :as options}]
  (into #{} (keep #(start-one options %)) (concat all (for [scope (disj scopes :pg)] [scope pg/callbacks]))))
