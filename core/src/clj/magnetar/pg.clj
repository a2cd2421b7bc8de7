(ns magnetar.pg
  "Groups of processes under a name, to send to all members of a group.

  join leave    add a process to a group, remove it
  members       the processes of a group
  which-groups  the groups that have members

    (pg/join :loggers (self))
    (run! #(! % :rotate) (pg/members :loggers))

  The groups are known on this node only.

  Require it as `[magnetar.pg :as pg]`.

  Erlang: the module pg, with its scope pg."
  (:require
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

;; From a group to a map from its pids to {:times :clean-up}. The process owns the clean-up, which takes it out of the group.
(defonce ^:private real-groups (atom {}))

(defn- groups []
  (environment/local real-groups ::groups {}))

(defn- check-pids [operation pids]
  (let [pids (if (sequential? pids) (vec pids) [pids])]
    (when-not (every? #(instance? Pid %) pids)
      (arguments/misuse :magnetar/not-a-pid
                        (str "`" operation "` wants a pid, or a collection of pids; this is " (arguments/show pids) ".") {:value pids}))
    (run! #(nodes/here operation %) pids)
    pids))

(defn- change
  "The groups after f has changed the members of one. A group without members is removed."
  [all group f & args]
  (let [members (apply f (all group) args)]
    (if (seq members) (assoc all group members) (dissoc all group))))

(defn- with
  "The members after a process has joined; the clean-up of its first time is kept."
  [members [pid clean-up]]
  (update members pid #(if % (update % :times inc) {:times 1 :clean-up clean-up})))

(defn- without [members pid]
  (let [{:keys [times] :or {times 0}} (get members pid)]
    (if (< 1 (long times)) (update-in members [pid :times] dec) (dissoc members pid))))

(defn- forget [groups group pid]
  (swap! groups change group dissoc pid))

(defn- own-clean-up
  "[pid clean-up] of a process that lives, which owns the clean-up; else nil."
  [groups group pid]
  (let [clean-up (owned/clean-up #(forget groups group %))]
    (when (owned/own pid clean-up)
      [pid clean-up])))

(defn- confirm-join
  "The process has joined. It disowns a clean-up that the group does not need, since it is a member already."
  [groups group members [pid clean-up]]
  (when-not (identical? clean-up (:clean-up (members pid)))
    (owned/disown pid clean-up))
  (when (owned/dying? pid)
    (forget groups group pid)))

(defn join
  "Adds a process, or each of a collection of processes, to a group; returns :ok.

  A process may join several times, and is then a member as many times. It leaves when it dies. Never waits.

  Example:

    (pg/join :loggers (self)) ;=> :ok

  See also `leave`, `members`.

  Erlang: pg:join/2."
  {:erlang "pg:join/2"}
  [group pids]
  (let [pids (check-pids "pg/join" pids)
        groups (groups)
        clean-ups (into {} (keep #(own-clean-up groups group %)) (distinct pids))
        joined (keep #(find clean-ups %) pids)
        members (get (swap! groups change group #(reduce with % joined)) group)]
    (run! #(confirm-join groups group members %) clean-ups)
    :ok))

(defn leave
  "Removes a process, or each of a collection of processes, from a group, once.

  Returns :ok, or :not-joined if none of the processes is a member.

  Example:

    (pg/leave :loggers (self)) ;=> :ok

  Erlang: pg:leave/2."
  {:erlang "pg:leave/2"}
  [group pids]
  (let [pids (check-pids "pg/leave" pids)
        [before after] (map #(get % group) (swap-vals! (groups) change group #(reduce without % pids)))]
    (doseq [pid (distinct pids)
            :when (and (contains? before pid) (not (contains? after pid)))]
      (owned/disown pid (:clean-up (before pid))))
    (if (some #(contains? before %) pids) :ok :not-joined)))

(defn members
  "Returns the pids of the live members of a group, in no order.

  A pid is in the result as often as its process has joined.

  Example:

    (pg/members :loggers) ;=> [pid]

  Erlang: pg:get_members/1."
  {:erlang "pg:get_members/1"}
  [group]
  (into []
        (mapcat (fn [[^Pid pid {:keys [times]}]] (when (.isAlive pid) (repeat times pid))))
        (@(groups) group)))

(defn which-groups
  "Returns the groups that have members, in no order.

  Example:

    (pg/which-groups) ;=> [:loggers]

  Erlang: pg:which_groups/0."
  {:erlang "pg:which_groups/0"}
  []
  (filterv #(seq (members %)) (keys @(groups))))
