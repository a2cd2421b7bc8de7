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
   [magnetar.impl.runtime]
   [magnetar.impl.worlds :as worlds])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

;; From a group to a map from its pids to how often each has joined.
(defonce ^:private real-groups (atom {}))

(defn- groups []
  (worlds/of-world real-groups ::groups {}))

(defn- check-pids [operation pids]
  (let [pids (if (sequential? pids) (vec pids) [pids])]
    (when-not (every? #(instance? Pid %) pids)
      (arguments/misuse :magnetar/not-a-pid
                        (str "`" operation "` wants a pid, or a collection of pids; this is " (arguments/show pids) ".") {:value pids}))
    pids))

(defn- change
  "The groups after f has changed the members of one; a group without any is none."
  [all group f & args]
  (let [members (apply f (all group) args)]
    (if (seq members) (assoc all group members) (dissoc all group))))

(defn- with [members pid]
  (update members pid (fnil inc 0)))

(defn- without [members pid]
  (let [times (long (get members pid 0))]
    (if (< 1 times) (assoc members pid (dec times)) (dissoc members pid))))

(defn- forget [group pid]
  (swap! (groups) change group dissoc pid))

(defn join
  "Adds a process, or each of a collection, to a group; returns :ok.

  A process may join as often as it likes, and is a member so many times. It leaves when it dies. Never waits.

    (pg/join :loggers (self)) ;=> :ok

  In Erlang: pg:join/2."
  {:erlang "pg:join/2"}
  [group pids]
  (let [pids (check-pids "pg/join" pids)]
    ;; The mourner first: one that is killed on the way, or was and still runs, must not leave a member that nobody takes out. And whoever died
    ;; before it was a member has been taken out too early.
    (run! (fn [pid] (mourner/after-death pid [::groups group] #(forget group %))) (distinct pids))
    (swap! (groups) change group #(reduce with % pids))
    (run! (fn [^Pid pid] (when-not (.isAlive pid) (forget group pid))) (distinct pids))
    :ok))

(defn leave
  "Takes a process, or each of a collection, out of a group, once; returns :ok, or :not-joined if none of them is a member.

    (pg/leave :loggers (self)) ;=> :ok

  In Erlang: pg:leave/2."
  {:erlang "pg:leave/2"}
  [group pids]
  (let [pids (check-pids "pg/leave" pids)
        [before _] (swap-vals! (groups) change group #(reduce without % pids))]
    (if (some #(contains? (before group) %) pids) :ok :not-joined)))

(defn members
  "The pids of a group, in no order, each as often as it has joined; of the dead none.

    (pg/members :loggers)

  In Erlang: pg:get_members/1."
  {:erlang "pg:get_members/1"}
  [group]
  (into []
        (mapcat (fn [[^Pid pid times]] (when (.isAlive pid) (repeat times pid))))
        (@(groups) group)))

(defn which-groups
  "The groups that have members, in no order.

    (pg/which-groups) ;=> [:loggers]

  In Erlang: pg:which_groups/0."
  {:erlang "pg:which_groups/0"}
  []
  (filterv #(seq (members %)) (keys @(groups))))
