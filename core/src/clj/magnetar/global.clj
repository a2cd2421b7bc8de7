(ns magnetar.global
  "Names of processes that a whole cluster knows, for now of this node.

  register-name unregister-name  give a name to a process, remove it
  whereis-name                   the process that has a name
  registered-names               the names that are taken

    (global/register-name [:cart 17] (self)) ;=> :yes

  Any value is a name. While there is no cluster, the names are known on this node only. They are not the
  names of `magnetar.actor/register`: `!` does not know them, except as [:global name].

  Require it as `[magnetar.global :as global]`.

  Erlang: the module global."
  (:require
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

;; From a name to the claim of its process, {:pid :clean-up}. The process owns the clean-up.
(defonce ^:private real-names (atom {}))

(defn- names []
  (environment/local real-names ::names {}))

(defn- holder
  "The process of the claim if it is alive, else nil."
  [{:keys [^Pid pid]}]
  (when (and pid (.isAlive pid)) pid))

(defn- forget
  "Removes the name if it belongs to the dead process."
  [names name pid]
  (swap! names #(if (= pid (:pid (% name))) (dissoc % name) %)))

(defn- claim
  "Puts the claim unless a process has the name: :yes or :no."
  [names name {:keys [pid clean-up] :as claim}]
  (let [after (swap! names #(if (holder (% name)) % (assoc % name claim)))
        mine? (identical? claim (after name))]
    (when-not mine?
      (owned/disown pid clean-up))
    (when (owned/dying? pid)
      (forget names name pid))
    (if mine? :yes :no)))

(defn register-name
  "Gives the name to a process.

  The name is free again when the process dies.

  Returns :yes, or :no if this or another process has the name. Never waits.

  Throws an IllegalArgumentException if pid is not a pid of this node.

  Example:

    (global/register-name :leader (self)) ;=> :yes

  Erlang: global:register_name/2."
  {:erlang "global:register_name/2"}
  [name pid]
  (when-not (instance? Pid pid)
    (arguments/misuse :magnetar/not-a-pid (str "`global/register-name` wants a pid; this is " (arguments/show pid) ".") {:value pid}))
  (nodes/here "global/register-name" pid)
  (let [names (names)
        clean-up (owned/clean-up #(forget names name %))]
    (cond
      (holder (@names name)) :no
      (owned/own pid clean-up) (claim names name {:pid pid :clean-up clean-up})
      :else :yes))) ; dead: the name is free again

(defn unregister-name
  "Removes a name, whichever process has it, and returns :ok.

  Returns :ok also if no process has it.

  Example:

    (global/unregister-name :leader) ;=> :ok

  Erlang: global:unregister_name/1, whose return value has no meaning either."
  {:erlang "global:unregister_name/1"}
  [name]
  (let [[before _] (swap-vals! (names) dissoc name)]
    (when-some [{:keys [pid clean-up]} (before name)]
      (owned/disown pid clean-up))
    :ok))

(defn whereis-name
  "Returns the pid of the process that has the name, or nil.

  Example:

    (global/whereis-name :leader) ;=> pid

  Erlang: global:whereis_name/1."
  {:erlang "global:whereis_name/1"}
  [name]
  (holder (@(names) name)))

(defn registered-names
  "Returns the names that live processes have, in no order.

  Example:

    (global/registered-names) ;=> [:leader]

  Erlang: global:registered_names/0."
  {:erlang "global:registered_names/0"}
  []
  (into [] (comp (filter (comp holder val)) (map key)) @(names)))
