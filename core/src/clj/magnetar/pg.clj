(ns magnetar.pg
  "Groups of processes under a name: whoever wants to send to all members asks for them.

  join leave    add a process to a group, take it out
  members       the processes of a group
  which-groups  the groups that have members

    (pg/join :loggers (self))
    (run! #(! % :rotate) (pg/members :loggers))

  The groups are those of this node. In Erlang: the module pg, with its scope pg."
  (:require
   [magnetar.actor.mourner :as mourner]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

;; From a group to its pids, in the order in which they joined, each as often as it did.
(defonce ^:private groups (atom {}))

(defn- check-pids [operation pids]
  (let [pids (if (sequential? pids) (vec pids) [pids])]
    (when-not (every? #(instance? Pid %) pids)
      (arguments/misuse :magnetar/not-a-pid
                        (str "`" operation "` wants a pid, or a collection of pids; this is " (arguments/show pids) ".") {:value pids}))
    pids))

(defn- with-members [all group pids]
  (if (seq pids) (assoc all group pids) (dissoc all group)))

(defn- without-one [pids pid]
  (let [[before from] (split-with #(not= pid %) pids)]
    (into (vec before) (rest from))))

(defn- forget
  "Takes a dead process out of all groups."
  [pid]
  (swap! groups #(reduce-kv (fn [all group pids] (with-members all group (filterv (partial not= pid) pids))) % %)))

(defn join
  "Adds a process, or each of a collection, to a group; returns :ok.

  A process may join as often as it likes, and is a member so many times. It leaves when it dies. Never waits.

    (pg/join :loggers (self)) ;=> :ok

  In Erlang: pg:join/2."
  {:erlang "pg:join/2"}
  [group pids]
  (let [pids (check-pids "pg/join" pids)]
    (swap! groups update group (fnil into []) pids)
    (run! #(mourner/after-death % forget) (distinct pids))
    :ok))

(defn leave
  "Takes a process, or each of a collection, out of a group, once; returns :ok, or :not-joined if none of them is a member.

    (pg/leave :loggers (self)) ;=> :ok

  In Erlang: pg:leave/2."
  {:erlang "pg:leave/2"}
  [group pids]
  (let [pids (check-pids "pg/leave" pids)
        [before _] (swap-vals! groups (fn [all] (with-members all group (reduce without-one (all group) pids))))]
    (if (some (set (before group)) pids) :ok :not-joined)))

(defn members
  "The pids of a group, in the order in which they joined, each as often as it did; of the dead none.

    (pg/members :loggers)

  In Erlang: pg:get_members/1."
  {:erlang "pg:get_members/1"}
  [group]
  (filterv #(.isAlive ^Pid %) (@groups group)))

(defn which-groups
  "The groups that have members, in no order.

    (pg/which-groups) ;=> [:loggers]

  In Erlang: pg:which_groups/0."
  {:erlang "pg:which_groups/0"}
  []
  (filterv #(seq (members %)) (keys @groups)))
