(ns magnetar.pg
  "Groups of processes under a name, to send to all members of a group.

  join leave                    add a process to a group, remove it
  members local-members         the processes of a group, on all nodes or on this one
  which-groups which-local-groups   the groups that have members
  monitor monitor-scope demonitor   messages about members that come and go

    (pg/join :loggers (self))
    (run! #(! % :rotate) (pg/members :loggers))

  In a cluster the groups span its nodes. Each node knows its own members, and tells the nodes that it is
  connected with. So `members` never waits, and may miss for a moment what has changed on another node. When
  a node is lost, its members leave. When it is found again, they join.

  Require it as `[magnetar.pg :as pg]`.

  Erlang: the module pg, with its scope pg."
  (:require
   [magnetar.actor :as actor]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.groups :as groups]
   [magnetar.impl.runtime]
   [magnetar.impl.transactions :as transactions])
  (:import
   (magnetar.kernel.process Aliases LocalProcess Pid Ref)))

(set! *warn-on-reflection* true)

(defn- check-pids [operation pids]
  (let [pids (if (sequential? pids) (vec pids) [pids])]
    (when-not (every? #(instance? Pid %) pids)
      (arguments/misuse :magnetar/not-a-pid
                        (str "`" operation "` wants a pid, or a collection of pids; this is " (arguments/show pids) ".") {:value pids}))
    (run! #(nodes/here operation %) pids)
    pids))

;; ---- members

(defn join
  "Adds a process, or each of a collection of processes, to a group; returns :ok.

  A process may join several times, and is then a member as many times. It leaves when it dies. In a cluster
  the other nodes are told. Never waits.

  Throws an IllegalArgumentException if a process is on another node (:magnetar/not-here). It joins there.

  Example:

    (pg/join :loggers (self)) ;=> :ok

  See also `leave`, `members`.

  Erlang: pg:join/2."
  {:erlang "pg:join/2"}
  [group pids]
  (groups/join group (check-pids "pg/join" pids))
  :ok)

(defn leave
  "Removes a process, or each of a collection of processes, from a group, once.

  Returns :ok, or :not-joined if none of the processes is a member.

  Throws an IllegalArgumentException if a process is on another node (:magnetar/not-here).

  Example:

    (pg/leave :loggers (self)) ;=> :ok

  Erlang: pg:leave/2."
  {:erlang "pg:leave/2"}
  [group pids]
  (if (groups/leave group (check-pids "pg/leave" pids)) :ok :not-joined))

(defn members
  "Returns the pids of the members of a group, in no order.

  A pid is in the result as often as its process has joined. Members on this node are alive. A member on
  another node may have died a moment ago.

  Example:

    (pg/members :loggers) ;=> [pid]

  See also `local-members`.

  Erlang: pg:get_members/1."
  {:erlang "pg:get_members/1"}
  [group]
  (groups/members group))

(defn local-members
  "Returns the pids of the live members of a group on this node, in no order.

  Example:

    (pg/local-members :loggers) ;=> [pid]

  See also `members`.

  Erlang: pg:get_local_members/1."
  {:added "0.2" :erlang "pg:get_local_members/1"}
  [group]
  (groups/local-members group))

(defn which-groups
  "Returns the groups that have members, in no order.

  Example:

    (pg/which-groups) ;=> [:loggers]

  See also `which-local-groups`.

  Erlang: pg:which_groups/0."
  {:erlang "pg:which_groups/0"}
  []
  (groups/which-groups))

(defn which-local-groups
  "Returns the groups that have members on this node, in no order.

  Example:

    (pg/which-local-groups) ;=> [:loggers]

  See also `which-groups`.

  Erlang: pg:which_local_groups/0."
  {:added "0.2" :erlang "pg:which_local_groups/0"}
  []
  (groups/which-local-groups))

;; ---- monitors

(defn- watcher
  "This process and a new alias of it."
  [operation]
  (let [me (LocalProcess/require operation)]
    [(.pid me) (Aliases/open me false)]))

(defn monitor
  "Begins messages to this process about a group; returns [ref pids].

  The pids are its members. The messages about later changes are [ref :join group pids] and [ref :leave group
  pids]. They come in the order of the changes, until `demonitor`. A process that has just died may be among
  the pids. Its :leave follows.

  Example:

    (let [[ref pids] (pg/monitor :loggers)]
      (receive [ref :join group more] (into pids more)))

  See also `monitor-scope`, `demonitor`.

  Erlang: pg:monitor/1."
  {:added "0.2" :erlang "pg:monitor/1"}
  [group]
  (let [[pid ref] (watcher "pg/monitor")]
    [ref (groups/watch-group pid ref group)]))

(defn monitor-scope
  "Begins messages to this process about all groups; returns [ref groups].

  The groups are a map from each group to its members. The messages are as in `monitor`.

  Example:

    (pg/monitor-scope) ;=> [ref {:loggers [pid]}]

  See also `monitor`, `demonitor`.

  Erlang: pg:monitor_scope/0."
  {:added "0.2" :erlang "pg:monitor_scope/0"}
  []
  (let [[pid ref] (watcher "pg/monitor-scope")]
    [ref (groups/watch-all pid ref)]))

(defn- flush-messages [ref]
  (loop []
    (when (actor/receive
            [ref _ _ _] true
            (actor/after 0 false))
      (recur))))

(defn demonitor
  "Ends the messages of a `monitor` or `monitor-scope`; returns :ok.

  Messages that are in the mailbox of this process are removed, and none comes later. If this process has not
  begun them, or has ended them, returns false.

  Example:

    (let [[ref _] (pg/monitor :loggers)] (pg/demonitor ref)) ;=> :ok

  Erlang: pg:demonitor/1."
  {:added "0.2" :erlang "pg:demonitor/1"}
  [ref]
  (transactions/refuse "pg/demonitor")
  (when-not (instance? Ref ref)
    (arguments/misuse :magnetar/not-a-reference
                      (str "`pg/demonitor` wants a reference that `pg/monitor` has returned; this is " (arguments/show ref) ".") {:value ref}))
  (let [me (LocalProcess/require "pg/demonitor")]
    (if (groups/unwatch (.pid me) ref)
      (do
        (Aliases/close me ref)
        (flush-messages ref)
        :ok)
      false)))
