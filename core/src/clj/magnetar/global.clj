(ns magnetar.global
  "Names that a whole cluster knows; while there is none, those of this node.

  register-name unregister-name  give a name to a process, take it back
  whereis-name                   the process that has a name
  registered-names               the names that are taken

    (global/register-name [:cart 17] (self)) ;=> :yes

  Any value is a name. These names are not those of `magnetar.actor/register`: `!` does not know them. In Erlang: the module global."
  (:require
   [magnetar.actor.mourner :as mourner]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.impl.worlds :as worlds])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

;; From a name to its pid.
(defonce ^:private real-names (atom {}))

(defn- names []
  (worlds/of-world real-names ::names {}))

(defn- alive? [^Pid pid]
  (and pid (.isAlive pid)))

(defn- forget
  "Takes the name back if it is that of the dead process."
  [name pid]
  (swap! (names) #(if (= pid (% name)) (dissoc % name) %)))

(defn register-name
  "Gives the name to the process; returns :yes, or :no if another one, or the same, has it.

  The name is free again when the process dies. Never waits. Fails if it is given no pid.

    (global/register-name :leader (self)) ;=> :yes

  In Erlang: global:register_name/2."
  {:erlang "global:register_name/2"}
  [name pid]
  (when-not (instance? Pid pid)
    (arguments/misuse :magnetar/not-a-pid (str "`global/register-name` wants a pid; this is " (arguments/show pid) ".") {:value pid}))
  ;; The mourner first, and a look at the end: see `magnetar.pg/join`.
  (if (alive? (@(names) name))
    :no
    (do
      (mourner/after-death pid [::names name] #(forget name %))
      (let [[before _] (swap-vals! (names) #(if (alive? (% name)) % (assoc % name pid)))]
        (when-not (alive? pid) (forget name pid))
        (if (alive? (before name)) :no :yes)))))

(defn unregister-name
  "Takes a name back, whoever has it; returns :ok, also if nobody has.

    (global/unregister-name :leader) ;=> :ok

  In Erlang: global:unregister_name/1, which returns nothing of meaning either."
  {:erlang "global:unregister_name/1"}
  [name]
  (swap! (names) dissoc name)
  :ok)

(defn whereis-name
  "The pid of the process that has the name, or nil.

    (global/whereis-name :leader)

  In Erlang: global:whereis_name/1."
  {:erlang "global:whereis_name/1"}
  [name]
  (let [pid (@(names) name)]
    (when (alive? pid) pid)))

(defn registered-names
  "The names that processes have, in no order.

    (global/registered-names) ;=> [:leader]

  In Erlang: global:registered_names/0."
  {:erlang "global:registered_names/0"}
  []
  (into [] (comp (filter (comp alive? val)) (map key)) @(names)))
