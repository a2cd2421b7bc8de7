(ns magnetar.global
  "Names of processes, and locks, that all nodes of a cluster know.

  register-name re-register-name  give a name to a process, unless it is taken, or in any case
  unregister-name                 removes a name
  whereis-name registered-names   the process that has a name, the names that are taken
  send                            sends a message to the process that has a name
  set-lock del-lock trans         locks that one requester has on all nodes
  sync                            waits until this node knows what the others know
  random-exit-name random-notify-name notify-all-name
                                  resolve a name that two processes have

    (global/register-name [:cart 17] (self)) ;=> :yes

  Any value that all nodes can read is a name. The names are not the names of `magnetar.actor/register`: `!`
  and calls know them as [:global name]. Without a `magnetar.cluster`, or a visible node of `magnetar.erlang`,
  they are known on this node only.

  A name is free on all nodes when its process dies or its node is lost. While a cluster is cut in two, a name
  may be registered in both halves. When they meet, a resolver decides, and by default one of the two
  processes is killed.

  Require it as `[magnetar.global :as global]`.

  Erlang: the module global."
  (:refer-clojure :exclude [send sync])
  (:require
   [magnetar.impl.actor.current :refer [self]]
   [magnetar.impl.actor.global :as tables]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.actor.send :as send]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.process Peer Peers Pid Send)))

(set! *warn-on-reflection* true)

;; ---- resolvers

(defn- drawn
  "The two in an order that is drawn."
  [a b]
  (if (zero? (.random (Fiber/current) 2)) [a b] [b a]))

(defn random-exit-name
  "Resolves a conflict of a name: kills one of the two processes, at random.

  The other one keeps the name. This is the default of `register-name`.

  Returns the pid that keeps the name.

  Example:

    (global/register-name :leader (self) global/random-exit-name) ;=> :yes

  See also `random-notify-name`.

  Erlang: global:random_exit_name/3."
  {:added "0.2" :erlang "global:random_exit_name/3"}
  [_ pid other]
  (let [[kept lost] (drawn pid other)]
    (Send/exit lost :kill)
    kept))

(defn random-notify-name
  "Resolves a conflict of a name: takes it from one process, drawn at random.

  That process gets the message [:global-name-conflict name]. The other one keeps the name.

  Returns the pid that keeps the name.

  Example:

    (global/register-name :leader (self) global/random-notify-name) ;=> :yes

  Erlang: global:random_notify_name/3."
  {:added "0.2" :erlang "global:random_notify_name/3"}
  [name pid other]
  (let [[kept lost] (drawn pid other)]
    (send/! lost [:global-name-conflict name])
    kept))

(defn notify-all-name
  "Resolves a conflict of a name: takes it from both processes, and tells both.

  Each gets the message [:global-name-conflict name other], with the pid of the other one. Then the name is
  free.

  Returns nil.

  Example:

    (global/register-name :leader (self) global/notify-all-name) ;=> :yes

  Erlang: global:notify_all_name/3."
  {:added "0.2" :erlang "global:notify_all_name/3"}
  [name pid other]
  (send/! pid [:global-name-conflict name other])
  (send/! other [:global-name-conflict name pid])
  nil)

(def ^:private built-in
  "The resolvers that travel, as keywords."
  {random-exit-name :random-exit
   random-notify-name :random-notify
   notify-all-name :notify-all})

;; ---- names

(defn- check-pid [operation pid]
  (when-not (instance? Pid pid)
    (arguments/misuse :magnetar/not-a-pid (str "`" operation "` wants a pid; this is " (arguments/show pid) ".") {:value pid})))

(defn- resolver
  "The resolver as the servers know it. A function of a program stays on the node of its process."
  [operation resolve pid]
  (or (built-in resolve)
      (do
        (arguments/function operation resolve "(fn [name pid other] pid)")
        (when (tables/asker)
          (nodes/here (str operation " with a resolver of the program") pid))
        resolve)))

(defn- ask
  "The answer of the server of the node; nil if the node, or the cluster, is lost meanwhile."
  [asker node request]
  (second (first (asker [node] request))))

(defn- answered [name answer]
  (if (vector? answer)
    (arguments/misuse :magnetar/bad-name
                      (str "The name " (arguments/show name) " cannot be registered in this cluster: " (second answer)
                           " Use a name of values that all nodes can read.")
                      {:name name})
    answer))

(defn- register-here [name pid resolve force?]
  (let [answer (tables/claim name pid resolve force?)]
    (when-some [asker (tables/asker)] ; it has started meanwhile
      (ask asker (Peers/name) [:adopt]))
    answer))

(defn- register [operation name pid resolve force?]
  (check-pid operation pid)
  (let [resolve (resolver operation resolve pid)
        asker (tables/asker)
        node (nodes/name-of pid)]
    (if-not asker
      (do
        (nodes/here operation pid)
        (register-here name pid resolve force?))
      (or (answered name (some->> node (#(ask asker % [:register name pid resolve force?]))))
          (if (and node (not (nodes/elsewhere? pid)) (not (tables/asker)))
            (register-here name pid resolve force?) ; the cluster was left meanwhile
            :yes))))) ; its node is lost, so it is dead

(defn register-name
  "Gives the name to a process, unless it is taken; returns :yes or :no.

  The name is free again when the process dies. So :yes is also the answer for a dead process. :no is the
  answer if this or another process has the name, on any node that is connected.

  In a cluster the name is known on all connected nodes when the call returns. If two sides of a partition, or
  two nodes, have registered the name before they meet, the resolver is called once, as (resolve name pid
  other). It runs in a process of its own on one node: the node of one of the two processes whose name sorts
  first. It returns the pid that keeps the name, or nil. The other one loses the name. The default,
  `random-exit-name`, kills one of the two.

  Where more than two processes have the name, the resolver is called for pairs. A resolver that orders them
  leaves one.

  Blocks in a cluster until all connected nodes have answered. Each keeps the name reserved meanwhile. A node
  that does not answer is waited for until it counts as lost. If a node sees the name on a third one, which
  this node does not see, it tries again for 3 s, since the third one may be lost. Without a cluster it never
  waits.

  Throws an IllegalArgumentException if pid is not a pid; if it is a pid of another node, and there is no
  cluster or the resolver is a function of the program; or if a node cannot read the name.

  Example:

    (global/register-name :leader (self)) ;=> :yes

  See also `re-register-name`, `unregister-name`.

  Erlang: global:register_name/2,3. There a process may have one name only."
  {:erlang "global:register_name/2"}
  ([name pid] (register "global/register-name" name pid random-exit-name false))
  ([name pid resolve] (register "global/register-name" name pid resolve false)))

(defn re-register-name
  "Gives the name to a process, whichever process has it; returns :yes.

  When it returns, all connected nodes know the new process. Meanwhile a node may know neither for a moment.

  Blocks as `register-name` does.

  Throws what `register-name` throws.

  Example:

    (global/re-register-name :leader (self)) ;=> :yes

  Erlang: global:re_register_name/2,3."
  {:added "0.2" :erlang "global:re_register_name/2"}
  ([name pid] (register "global/re-register-name" name pid random-exit-name true))
  ([name pid resolve] (register "global/re-register-name" name pid resolve true)))

(defn unregister-name
  "Removes a name, whichever process has it, and returns :ok.

  Returns :ok also if no process has it.

  Blocks in a cluster until the connected nodes have removed it.

  Example:

    (global/unregister-name :leader) ;=> :ok

  Erlang: global:unregister_name/1, whose return value has no meaning either."
  {:erlang "global:unregister_name/1"}
  [name]
  (if-some [asker (tables/asker)]
    (ask asker (Peers/name) [:unregister name])
    (tables/release name nil))
  :ok)

(defn whereis-name
  "Returns the pid of the process that has the name, or nil.

  Never waits: the answer is what this node knows.

  Example:

    (global/whereis-name :leader) ;=> pid

  Erlang: global:whereis_name/1."
  {:erlang "global:whereis_name/1"}
  [name]
  (tables/find-name name))

(defn registered-names
  "Returns the names that live processes have, in no order.

  Never waits: the answer is what this node knows.

  Example:

    (global/registered-names) ;=> [:leader]

  Erlang: global:registered_names/0."
  {:erlang "global:registered_names/0"}
  []
  (tables/known-names))

(defn send
  "Sends the message to the process that has the name; returns its pid.

  Throws an IllegalArgumentException if no process has the name.

  Example:

    (global/send :leader [:join (self)]) ;=> pid

  See also `magnetar.actor/!`, which takes [:global name].

  Erlang: global:send/2."
  {:added "0.2" :erlang "global:send/2"}
  [name message]
  (if-some [pid (tables/find-name name)]
    (do
      (send/! pid message)
      pid)
    (arguments/misuse :magnetar/no-such-name
                      (str "`global/send`: no process has the name " (arguments/show name) ". Register it first, or look with `whereis-name`.")
                      {:to name})))

(defn sync
  "Waits until this node knows the names of all connected nodes; returns :ok.

  Names that two processes had are resolved then.

  Blocks until the nodes have answered. Without a cluster it never waits.

  Example:

    (global/sync) ;=> :ok

  Erlang: global:sync/0."
  {:added "0.2" :erlang "global:sync/0"}
  []
  (when-some [asker (tables/asker)]
    (ask asker (Peers/name) [:sync]))
  :ok)

;; ---- locks

(defn- check-lock [operation id {:keys [nodes retries] :as options}]
  (arguments/options operation [:nodes :retries] options)
  (when-not (and (vector? id) (= 2 (count id)))
    (arguments/misuse :magnetar/bad-lock
                      (str "`" operation "` wants a lock as [resource requester], as in [:stock (self)]; this is " (arguments/show id) ".")
                      {:value id}))
  (when-not (or (nil? nodes) (and (sequential? nodes) (every? string? nodes)))
    (arguments/misuse :magnetar/bad-nodes
                      (str "`" operation "`: :nodes is a list of names of nodes; this is " (arguments/show nodes) ".") {:value nodes}))
  (when-not (or (nil? retries) (= :infinity retries) (nat-int? retries))
    (arguments/misuse :magnetar/bad-option
                      (str "`" operation "`: :retries is a number from 0 up, or :infinity; this is " (arguments/show retries) ".")
                      {:path [:retries] :value retries})))

(defn- nodes-of
  "The nodes that the lock is wanted on, in the order in which all requesters ask them."
  [{:keys [nodes]}]
  (sort (distinct (or nodes (cons (Peers/name) (map #(.name ^Peer %) (Peers/connected)))))))

(defn- on-nodes
  "[[node answer] ..] of the nodes that answer. `here` is what is done on this one."
  [nodes here request]
  (let [me (Peers/name)
        others (remove #{me} nodes)
        asker (tables/asker)]
    (concat (when (some #{me} nodes) [[me (here)]])
            (when (and asker (seq others)) (asker others request)))))

(defn- unlock-on [nodes id pid]
  (doall (on-nodes nodes #(tables/unlock id pid) [:unlock id pid])))

(defn- agreed?
  "Have all nodes locked it? Throws if one of them cannot read the lock."
  [id answers]
  (doseq [[_ answer] answers :when (vector? answer)]
    (arguments/misuse :magnetar/bad-lock
                      (str "The lock " (arguments/show id) " cannot be set in this cluster: " (second answer)
                           " Use a resource and a requester that all nodes can read.")
                      {:value id}))
  (every? second answers))

(defn- lock-on
  "Locks the first node, which decides among requesters, then the others. True if all agree, else nothing is locked."
  [nodes id pid]
  (let [locked (volatile! [])
        lock (fn [some-nodes]
               (let [answers (doall (on-nodes some-nodes #(tables/lock-here id pid) [:lock id pid]))]
                 (vswap! locked into (keep (fn [[node answer]] (when (true? answer) node))) answers)
                 (agreed? id answers)))
        done? (volatile! false)]
    (try
      (vreset! done? (and (lock (take 1 nodes)) (lock (rest nodes))))
      (finally
        (when-not @done?
          (scope/shield (unlock-on @locked id pid)))))
    @done?))

(defn- pause
  "Waits for a time that is drawn, which may be longer each time."
  [times]
  (let [most (min 1000 (bit-shift-left 10 (min 7 (long times))))]
    (clock/sleep (* 1000000 (inc (.random (Fiber/current) most))))))

(defn set-lock
  "Locks a resource on nodes for a requester; returns true or false.

  False says that another requester has it, after all retries. A lock is [resource requester], any two values.
  The same requester may lock it several times, also from several processes, and unlocks it as many times. The
  holds of a process end with it, and with its node. A lock does not keep a name from being registered.

  Blocks until all nodes have answered, and between attempts for a time that is drawn, up to a second.

  Throws a magnetar.MisuseException outside of processes, and if a node cannot read the lock. Then no node has
  locked it.

  Cancellation: ends the wait. Nodes that have locked it unlock it. A node whose answer is awaited keeps it
  locked until this process ends.

  Options:
    :nodes    the names of the nodes. Default this node and the ones it is connected with
    :retries  how often it tries again, a number or :infinity. Default :infinity

  Example:

    (global/set-lock [:stock (self)] {:retries 3}) ;=> true

  See also `del-lock`, `trans`.

  Erlang: global:set_lock/1,2,3."
  {:added "0.2" :erlang "global:set_lock/3"}
  ([id] (set-lock id nil))
  ([id {:keys [retries] :or {retries :infinity} :as options}]
   (check-lock "global/set-lock" id options)
   (let [me (self)]
     (loop [times 0]
       (cond
         (lock-on (nodes-of options) id me) true
         (= times retries) false
         :else (do (pause times) (recur (inc times))))))))

(defn del-lock
  "Unlocks a resource on nodes, which this process has locked; returns true.

  A node that cannot read the lock does not have it.

  Blocks until the nodes have answered.

  Options:
    :nodes  the names of the nodes. Default this node and the ones it is connected with

  Example:

    (global/del-lock [:stock (self)]) ;=> true

  Erlang: global:del_lock/1,2."
  {:added "0.2" :erlang "global:del_lock/2"}
  ([id] (del-lock id nil))
  ([id options]
   (check-lock "global/del-lock" id options)
   (unlock-on (nodes-of options) id (self))
   true))

(defn trans
  "Calls f while a resource is locked; returns its value, or :aborted.

  Returns :aborted, without a call of f, if `set-lock` would return false.

  Blocks as `set-lock` does.

  Throws what f throws, and then it is unlocked. Throws what `set-lock` throws, and then f is not called.

  Options:
    :nodes    as in `set-lock`
    :retries  as in `set-lock`

  Example:

    (global/trans [:stock (self)] (fn [] :counted) {:retries 3}) ;=> :counted

  Erlang: global:trans/2,3,4."
  {:added "0.2" :erlang "global:trans/4"}
  ([id f] (trans id f nil))
  ([id f options]
   (check-lock "global/trans" id options)
   (let [options (assoc options :nodes (nodes-of options))]
     (if (set-lock id options)
       (try
         (f)
         (finally (scope/shield (del-lock id (dissoc options :retries)))))
       :aborted))))
