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

  A scope has groups of its own. It is a keyword, the first argument: `(pg/join :shop :loggers (self))`.
  Without one, the groups are in the scope :pg. A scope needs no start. A node of Erlang shares the scopes
  that `magnetar.erlang/start` is given.

  Require it as `[magnetar.pg :as pg]`.

  Erlang: the module pg."
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

(defn- check-scope [operation scope]
  (when-not (keyword? scope)
    (arguments/misuse :magnetar/bad-name
                      (str "`" operation "` wants a scope, a keyword such as :shop; this is " (arguments/show scope) ".") {:name scope})))

(defn- group-in
  "The group of the name in the scope."
  [operation scope group]
  (check-scope operation scope)
  (groups/in-scope scope group))

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

  Throws an IllegalArgumentException if a process is on another node (:magnetar/not-here). It joins there. A
  scope that is no keyword is refused as well (:magnetar/bad-name), here and in the functions below.

  Example:

    (pg/join :loggers (self)) ;=> :ok

  See also `leave`, `members`.

  Erlang: pg:join/2,3."
  {:erlang "pg:join/3"}
  ([group pids] (join groups/default-scope group pids))
  ([scope group pids]
   (groups/join (group-in "pg/join" scope group) (check-pids "pg/join" pids))
   :ok))

(defn leave
  "Removes a process, or each of a collection of processes, from a group, once.

  Returns :ok, or :not-joined if none of the processes is a member.

  Throws an IllegalArgumentException if a process is on another node (:magnetar/not-here).

  Example:

    (pg/leave :loggers (self)) ;=> :ok

  Erlang: pg:leave/2,3."
  {:erlang "pg:leave/3"}
  ([group pids] (leave groups/default-scope group pids))
  ([scope group pids]
   (if (groups/leave (group-in "pg/leave" scope group) (check-pids "pg/leave" pids)) :ok :not-joined)))

(defn members
  "Returns the pids of the members of a group, in no order.

  A pid is in the result as often as its process has joined. Members on this node are alive. A member on
  another node may have died a moment ago.

  Example:

    (pg/members :loggers) ;=> [pid]

  See also `local-members`.

  Erlang: pg:get_members/1,2."
  {:erlang "pg:get_members/2"}
  ([group] (members groups/default-scope group))
  ([scope group] (groups/members (group-in "pg/members" scope group))))

(defn local-members
  "Returns the pids of the live members of a group on this node, in no order.

  Example:

    (pg/local-members :loggers) ;=> [pid]

  See also `members`.

  Erlang: pg:get_local_members/1,2."
  {:added "0.2" :erlang "pg:get_local_members/2"}
  ([group] (local-members groups/default-scope group))
  ([scope group] (groups/local-members (group-in "pg/local-members" scope group))))

(defn which-groups
  "Returns the groups that have members, in no order.

  Example:

    (pg/which-groups) ;=> [:loggers]

  See also `which-local-groups`.

  Erlang: pg:which_groups/0,1."
  {:erlang "pg:which_groups/1"}
  ([] (which-groups groups/default-scope))
  ([scope]
   (check-scope "pg/which-groups" scope)
   (groups/which-groups scope)))

(defn which-local-groups
  "Returns the groups that have members on this node, in no order.

  Example:

    (pg/which-local-groups) ;=> [:loggers]

  See also `which-groups`.

  Erlang: pg:which_local_groups/0,1."
  {:added "0.2" :erlang "pg:which_local_groups/1"}
  ([] (which-local-groups groups/default-scope))
  ([scope]
   (check-scope "pg/which-local-groups" scope)
   (groups/which-local-groups scope)))

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

  Erlang: pg:monitor/1,2."
  {:added "0.2" :erlang "pg:monitor/2"}
  ([group] (monitor groups/default-scope group))
  ([scope group]
   (let [group (group-in "pg/monitor" scope group)
         [pid ref] (watcher "pg/monitor")]
     [ref (groups/watch-group pid ref group)])))

(defn monitor-scope
  "Begins messages to this process about a scope's groups; returns [ref groups].

  The groups are a map from each group to its members. The messages are as in `monitor`.

  Example:

    (pg/monitor-scope) ;=> [ref {:loggers [pid]}]

  See also `monitor`, `demonitor`.

  Erlang: pg:monitor_scope/0,1."
  {:added "0.2" :erlang "pg:monitor_scope/1"}
  ([] (monitor-scope groups/default-scope))
  ([scope]
   (check-scope "pg/monitor-scope" scope)
   (let [[pid ref] (watcher "pg/monitor-scope")]
     [ref (groups/watch-all pid ref scope)])))

(defn- flush-messages [ref]
  (loop []
    (when (actor/receive
            [ref _ _ _] true
            (actor/after 0 false))
      (recur))))

(defn demonitor
  "Ends the messages of a `monitor` or `monitor-scope`, of any scope; returns :ok.

  Messages that are in the mailbox of this process are removed, and none comes later. If this process has not
  begun them, or has ended them, returns false.

  Example:

    (let [[ref _] (pg/monitor :loggers)] (pg/demonitor ref)) ;=> :ok

  Erlang: pg:demonitor/1,2."
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
