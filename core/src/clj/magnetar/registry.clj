(ns magnetar.registry
  "Registries: processes are found by keys of any kind, each with a value.

    (registry/start-link {:keys :unique :name :carts})
    (gs/start-link 'my.cart nil {:name (registry/via :carts 17)})
    (gs/call (registry/via :carts 17) :total)

  start     start-link
  names     via; register-name unregister-name whereis-name, by which [:via 'magnetar.registry [registry key]]
  works
  oneself   register unregister unregister-match update-value
  look      lookup match select keys values count
  all       dispatch
  metadata  meta put-meta delete-meta

  A registry is a process, given by its name or pid. With :keys :unique a key belongs to at most one process.
  With :keys :duplicate any number of processes may have it, which makes a message bus: `dispatch` reaches all
  of them. Keys are compared by `=`.

  A key is free once its process has died. Lookups take no lock and ask no process. A process that has
  received the :DOWN message finds no entry. This is so for processes of the same node. An entry of another
  node's process may be seen for a moment after its :DOWN, unless that node is lost.

  A process is linked to the registry while it has a key there. Without the registry it would not be found, so
  it ends with it.

  With {:nodes :all} the registries of one name on all nodes of a cluster know each other's entries, as the
  groups of `magnetar.pg` do. A process registers in the registry of its own node. The other nodes learn of it
  a moment later. When a node is lost its entries go, and when it is found again they come back.

  For a few names that are keywords `magnetar.actor/register` is enough; for groups without values,
  `magnetar.pg`. The names follow Elixir's module Registry.

  Require it as `[magnetar.registry :as registry]`."
  (:refer-clojure :exclude [count keys meta])
  (:require
   [clojure.core :as core]
   [magnetar.actor :as actor :refer [!]]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.report :as report]
   [magnetar.registry.nodes :as registry-nodes]
   [magnetar.registry.table :as table])
  (:import
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.process Links LocalProcess Pid ProcessTable)
   (magnetar.registry.table Table)))

(set! *warn-on-reflection* true)

;; ---- the process

(defn- init [{:keys [keys name listeners meta] all-nodes :nodes}]
  (actor/flag :trap-exit true)
  (let [table (table/table (actor/self) {:unique? (= :unique keys)
                                         :listeners listeners
                                         :parent (proc-lib/parent)
                                         :meta meta
                                         :all-nodes? (some? all-nodes)})]
    (actor/pput ::table table)
    [:ok (cond-> {:keys keys}
           all-nodes (assoc :nodes (registry-nodes/start name keys table)))]))

(defn- table-here []
  (actor/pget ::table))

(defn- unexpected [message state]
  (report/ignored message {:event :unexpected-message :pid (actor/self) :callback-module 'magnetar.registry :message (codec/plain message)})
  [:noreply state])

(defn- after-nodes
  "The state after a message of the registries on other nodes, or nil."
  [{:keys [nodes] :as state} message]
  (when nodes
    (when-some [nodes (registry-nodes/handle nodes message)]
      (assoc state :nodes nodes))))

(defn- handle-info [message state]
  (let [[word pid] (when (vector? message) message)]
    (if (and (= :EXIT word) (instance? Pid pid))
      [:noreply state]
      (if-some [state (after-nodes state message)]
        [:noreply state]
        (unexpected message state)))))

(defn- unlink-without-keys
  "Removes the link from this process to `other` if `pid`, one of both, has no key.

  It may just have got a key. Then both are linked again."
  [^Table table pid other]
  (when (and (empty? (table/keys-of table pid)) (not= pid (.-parent table)))
    (actor/unlink other)
    (when (seq (table/keys-of table pid))
      (Links/link (LocalProcess/current) other)))) ; one that has died has told of it

(defn- relink
  "Links the process, which another one has registered or unregistered, while it has a key."
  [pid]
  (let [table (table-here)]
    (if (seq (table/keys-of table pid))
      (actor/link pid)
      (unlink-without-keys table pid pid))))

(defn- handle-cast [request state]
  (let [[word pid] (when (vector? request) request)]
    (if (and (= ::relink word) (instance? Pid pid))
      (do (relink pid)
          [:noreply state])
      (unexpected request state))))

(def ^:private behaviour
  {:name 'magnetar.registry
   :init init
   :handle-call (fn [request _ state] [:reply [:error [:unknown-call (codec/plain request)]] state])
   :handle-cast handle-cast
   :handle-info handle-info})

(defn- check-nodes [{:keys [keys name nodes]}]
  (when nodes
    (when-not (= :all nodes)
      (arguments/misuse :magnetar/bad-option (str "The :nodes of a registry is :all, if it is there; this is " (arguments/show nodes) ".")
                        (arguments/data :nodes nodes)))
    (when-not (address/plain? name)
      (arguments/misuse :magnetar/bad-option
                        (str "A registry of all nodes has a :name, a keyword or a symbol, by which they find each other; this is "
                             (arguments/show name) ".")
                        (arguments/data :name name)))
    (when (= :unique keys)
      (arguments/misuse :magnetar/bad-keys
                        (str "The keys of a registry of all nodes are :duplicate. For a key that one process of the cluster has, "
                             "use a name of `magnetar.global`, as in {:name [:global [:cart 17]]}.")
                        (arguments/data :keys keys)))))

(defn- check-options [{:keys [keys listeners meta] :as options}]
  (arguments/options "start-link" [:keys :name :nodes :listeners :meta] options)
  (when-not (#{:unique :duplicate} keys)
    (arguments/misuse :magnetar/bad-keys
                      (str "The :keys of a registry are :unique or :duplicate; these are " (arguments/show keys) ".") (arguments/data :keys keys)))
  (when-not (and (or (nil? listeners) (sequential? listeners)) (every? #(or (keyword? %) (symbol? %)) listeners))
    (arguments/misuse :magnetar/bad-listeners
                      (str "The :listeners of a registry are names of processes, as in [:audit]; these are " (arguments/show listeners) ".")
                      (arguments/data :listeners listeners)))
  (when-not (or (nil? meta) (map? meta))
    (arguments/misuse :magnetar/bad-option (str "The :meta of a registry is a map; this is " (arguments/show meta) ".")
                      (arguments/data :meta meta)))
  (check-nodes options))

(defn start-link
  "Starts a registry, linked to this process.

  Returns [:ok pid], or [:error [:already-started pid]] if the name is taken.

  Options:
    :keys       :unique or :duplicate; required
    :name       a name as in `magnetar.gen-server/start-link`; without one the registry is given by its pid
    :nodes      :all lets the registries of this name on all nodes of a cluster know each other's entries. The
                :keys are :duplicate then, on all nodes, and the :name is a keyword or a symbol. Default nil
    :listeners  names of processes that are sent [:register registry key pid value] and [:unregister registry
                key pid], of processes of this node. A death sends them nothing: they monitor the pid
    :meta       a map with the values that `meta` returns. Each node has its own

  Example:

    (registry/start-link {:keys :unique :name :carts}) ;=> [:ok pid]
    {:id :carts :start [registry/start-link {:keys :unique :name :carts}]} ; as a child
    (registry/start-link {:keys :duplicate :name :bus :nodes :all}) ;=> [:ok pid] ; on each node

  Elixir: Registry.start_link/1."
  {:elixir "Registry.start_link/1" :added "0.1"}
  [options]
  (check-options options)
  (gs/start-link behaviour options {:name (:name options) :spawn-opt {:bindings :none}}))

;; ---- finding the registry

(defn- no-such-registry [registry]
  (let [meant (suggest/closest registry (ProcessTable/names))]
    (arguments/misuse :magnetar/no-such-registry
                      (str "No registry " (arguments/show registry) " is running: start it with (registry/start-link {:keys :unique :name "
                           (arguments/show registry) "})." (when meant (str " Is " meant " meant?")))
                      {:registry registry :meant meant})))

(defn- no-registry [registry]
  (arguments/misuse :magnetar/not-a-registry
                    (str (arguments/show registry) " is a process, but no registry: `registry/start-link` starts one.") {:registry registry}))

(defn- pid-of
  "Returns the process of the registry.

  Like each operation of the kernel, it ends a caller that has to exit."
  ^Pid [registry]
  (.check (Fiber/current))
  (cond
    (instance? Pid registry) registry
    (address/parts registry) (or (address/find-pid registry) (no-such-registry registry))
    :else (arguments/misuse :magnetar/bad-address
                            (str "A registry is given by its name or its pid; this is " (arguments/show registry) ".") {:registry registry})))

(defn- table-of ^Table [^Pid pid registry]
  (if-some [^LocalProcess process (ProcessTable/live pid)]
    (or (get (.dictionary process) ::table) (no-registry registry))
    (no-such-registry registry)))

(defn- find-table ^Table [registry]
  (table-of (pid-of registry) registry))

(defn- refuse-duplicate [operation ^Table table registry]
  (when-not (.-unique? table)
    (arguments/misuse :magnetar/duplicate-keys
                      (str "`" operation "` wants a registry of :unique keys; those of " (arguments/show registry) " are :duplicate. "
                           "Use `dispatch` or `lookup`, which handle several processes.")
                      {:registry registry})))

(defn- check-function [operation f example]
  (arguments/function operation f example))

(defn- tell
  "Sends the event to the listeners that are there."
  [^Table table event]
  (doseq [listener (.-listeners table)
          :let [pid (actor/whereis listener)]
          :when pid]
    (! pid event)))

;; ---- oneself

(defn- check-row
  "Refuses a key or a value that the other nodes of the registry could not be told of."
  [^Table table registry key value]
  (when (.-outbox table)
    (try
      (registry-nodes/check-value [key value])
      (catch RuntimeException e
        (arguments/misuse :magnetar/no-term
                          (str "The key " (arguments/show key) " with the value " (arguments/show value) " cannot be in the registry "
                               (arguments/show registry) ", which all nodes know: " (ex-message e))
                          {:registry registry :key key :value value})))))

;; The link comes before the listeners: one of them may keep the sender waiting, or refuse the message, and a process with a key ends with its registry.
(defn- add
  "Registers the process and links it by (link): nil, or the pid that has the key."
  [table registry pid key value link]
  (check-row table registry key value)
  (or (table/add table pid key value)
      (do (link)
          (tell table [:register registry key pid value])
          nil)))

(defn register
  "Registers this process under the key, with a value; nil if none is given.

  The entry goes when this process dies. Where keys are :duplicate, a process may register under one key
  several times.

  Returns [:ok registry-pid], or [:error [:already-registered pid]] if keys are unique and a process has the
  key. Never waits: a registry of all nodes tells the other nodes later.

  Throws an IllegalArgumentException if the registry is one of all nodes, and other nodes could not read the
  key or the value. Outside of a cluster this is not known yet, and reported when a node is connected. Then
  the entry stays on this node.

  Example:

    (registry/register :bus :orders {:since 5}) ;=> [:ok pid]

  See also `unregister`, `update-value`, `via`.

  Elixir: Registry.register/3."
  {:elixir "Registry.register/3" :added "0.1"}
  ([registry key] (register registry key nil))
  ([registry key value]
   (let [me (.pid (LocalProcess/require "register"))
         pid (pid-of registry)
         table (table-of pid registry)]
     (if-some [holder (add table registry me key value #(when-not (= me pid) (actor/link pid)))]
       [:error [:already-registered holder]]
       [:ok pid]))))

(defn- remove-own [registry key wanted?]
  (let [me (.pid (LocalProcess/require "unregister"))
        pid (pid-of registry)
        table (table-of pid registry)]
    (when (table/remove-own table me key wanted?)
      (tell table [:unregister registry key me])
      (unlink-without-keys table me pid))
    :ok))

(defn unregister
  "Removes all entries of this process under the key.

  Returns :ok, also if the process has no such entry.

  Example:

    (registry/unregister :bus :orders) ;=> :ok

  Elixir: Registry.unregister/2."
  {:elixir "Registry.unregister/2" :added "0.1"}
  [registry key]
  (remove-own registry key any?))

(defn unregister-match
  "Removes the entries of this process under the key whose (wanted? value) is true.

  Returns :ok.

  Example:

    (registry/unregister-match :bus :orders #{:slow}) ;=> :ok

  Elixir: Registry.unregister_match/4, with a pattern."
  {:elixir "Registry.unregister_match/4" :added "0.1"}
  [registry key wanted?]
  (check-function "unregister-match" wanted? "(registry/unregister-match :bus :orders #{:slow})")
  (remove-own registry key wanted?))

(defn update-value
  "Replaces the value of this process under a unique key by (f value).

  Returns [new old], or :error if this process does not have the key.

  Throws an IllegalArgumentException if the keys of the registry are :duplicate.

  Example:

    (registry/update-value :carts 17 inc) ;=> [2 1]

  Elixir: Registry.update_value/3."
  {:elixir "Registry.update_value/3" :added "0.1"}
  [registry key f]
  (check-function "update-value" f "(registry/update-value :carts 17 inc)")
  (let [me (.pid (LocalProcess/require "update-value"))
        table (find-table registry)]
    (refuse-duplicate "update-value" table registry)
    (or (table/update-own table me key f) :error)))

;; ---- looks

(defn lookup
  "Returns the live processes under the key with their values, oldest entry first.

  The result is a vector [[pid value] ..]. Never waits, and takes no lock.

  In a registry of all nodes, processes of this node are first. An entry of another node is there as that node
  has told it last, and none of a node that is not connected. So a process of another node may have died a
  moment ago. This holds for `match`, `select`, `keys`, `values`, `count` and `dispatch` as well.

  Example:

    (registry/lookup :carts 17) ;=> [[pid nil]]

  See also `match`, `via`, `dispatch`.

  Elixir: Registry.lookup/2."
  {:elixir "Registry.lookup/2" :added "0.1"}
  [registry key]
  (table/at (find-table registry) key))

(defn match
  "Returns the processes under the key whose (wanted? value) is true.

  The result has the form that `lookup` returns.

  Example:

    (registry/match :bus :orders #(< 3 (:since %))) ;=> [[pid {:since 5}]]

  Elixir: Registry.match/4, with a pattern."
  {:elixir "Registry.match/4" :added "0.1"}
  [registry key wanted?]
  (check-function "match" wanted? "(registry/match :bus :orders pos?)")
  (table/at (find-table registry) key wanted?))

(defn select
  "Returns all entries as a vector of [key pid value], in no order.

  With a transducer the entries pass through it.

  Example:

    (sort (registry/select :carts (map first))) ;=> [17 18]

  Elixir: Registry.select/2, with a match specification."
  {:elixir "Registry.select/2" :added "0.1"}
  ([registry] (select registry identity))
  ([registry xform]
   (check-function "select" xform "(registry/select :carts (map first))")
   (table/triples (find-table registry) xform)))

(defn keys
  "Returns the keys of a process, in the order of registration.

  A key is in the result as often as the process is registered under it.

  Example:

    (registry/keys :carts (self)) ;=> [17]

  Elixir: Registry.keys/2."
  {:elixir "Registry.keys/2" :added "0.1"}
  [registry pid]
  (table/keys-of (find-table registry) pid))

(defn values
  "Returns the values that a process has under the key.

  Example:

    (registry/values :bus :orders (self)) ;=> [{:since 5}]

  Elixir: Registry.values/3."
  {:elixir "Registry.values/3" :added "0.1"}
  [registry key pid]
  (table/values-of (find-table registry) pid key))

(defn count
  "Returns how many entries the registry has.

  Example:

    (registry/count :carts) ;=> 2

  Elixir: Registry.count/1."
  {:elixir "Registry.count/1" :added "0.1"}
  [registry]
  (table/size (find-table registry)))

(defn dispatch
  "Calls f once, on this thread, with all [[pid value] ..] under the key.

  f is not called if no process has the key. In a registry of all nodes it is called here, once, also for the
  processes of other nodes.

  Returns :ok.

  Throws what f throws.

  Example:

    (registry/dispatch :bus :orders (fn [all] (doseq [[pid _] all] (! pid [:order 17])))) ;=> :ok

  Elixir: Registry.dispatch/4."
  {:elixir "Registry.dispatch/4" :added "0.1"}
  [registry key f]
  (check-function "dispatch" f "(registry/dispatch :bus :orders send-to-all)")
  (let [there (lookup registry key)]
    (when (seq there) (f there))
    :ok))

;; ---- names

(defn via
  "Returns the name of the process under a key, for functions that take a name.

  These are `!`, `send-after`, `monitor`, `whereis`, the :name of `spawn-opt`, servers and supervisors. A
  process that takes the name is registered with the value.

  Example:

    (gs/call (registry/via :carts 17) :total) ;=> 5

  Elixir: {:via, Registry, {registry, key}}."
  {:elixir "Registry" :added "0.1"}
  ([registry key] [:via 'magnetar.registry [registry key]])
  ([registry key value] [:via 'magnetar.registry [registry key value]]))

(defn- name-parts [name]
  (if (and (vector? name) (<= 2 (core/count name) 3))
    name
    (arguments/misuse :magnetar/bad-name
                      (str "A name in a registry is [registry key] or [registry key value], as `registry/via` makes it; this is "
                           (arguments/show name) ".")
                      {:name name})))

(defn- unique-table [operation registry]
  (doto (find-table registry)
    (->> (#(refuse-duplicate operation % registry)))))

(defn whereis-name
  "Returns the pid of the process under [registry key], or nil.

  Example:

    (registry/whereis-name [:carts 17]) ;=> pid

  Elixir: Registry.whereis_name/1."
  {:elixir "Registry.whereis_name/1" :added "0.1"}
  [name]
  (let [[registry key] (name-parts name)]
    (table/pid-at (unique-table "whereis-name" registry) key)))

(defn register-name
  "Registers a process under [registry key] or [registry key value].

  Returns :yes, or :no if the key is taken. The keys of the registry have to be :unique.

  Throws an IllegalArgumentException if the process is on another node.

  Example:

    (registry/register-name [:carts 17] (self)) ;=> :yes

  Elixir: Registry.register_name/2, for oneself only."
  {:elixir "Registry.register_name/2" :added "0.1"}
  [name pid]
  (when-not (instance? Pid pid)
    (arguments/misuse :magnetar/not-a-pid (str "`register-name` wants a pid; this is " (arguments/show pid) ".") {:value pid}))
  (nodes/here "register-name" pid)
  (let [[registry key value] (name-parts name)
        table (unique-table "register-name" registry)
        own-pid (pid-of registry)]
    (if (= pid (some-> (LocalProcess/current) .pid))
      (if (= :ok (first (register registry key value))) :yes :no)
      (if (add table registry pid key value #(gs/cast own-pid [::relink pid]))
        :no
        :yes))))

(defn unregister-name
  "Removes the name [registry key], whichever process has it.

  Returns :ok, also if no process has it.

  Example:

    (registry/unregister-name [:carts 17]) ;=> :ok

  Elixir: Registry.unregister_name/1, for oneself only."
  {:elixir "Registry.unregister_name/1" :added "0.1"}
  [name]
  (let [[registry key] (name-parts name)
        table (unique-table "unregister-name" registry)]
    (when-some [pid (table/pid-at table key)]
      (if (= pid (some-> (LocalProcess/current) .pid))
        (unregister registry key)
        (when (table/remove-own table pid key any?)
          (tell table [:unregister registry key pid])
          (gs/cast (pid-of registry) [::relink pid]))))
    :ok))

;; ---- metadata

(defn meta
  "Returns the value of a key in the registry's metadata.

  Returns [:ok value], or :error if there is no such key.

  Example:

    (registry/meta :carts :limit) ;=> [:ok 100]

  Elixir: Registry.meta/2."
  {:elixir "Registry.meta/2" :added "0.1"}
  [registry key]
  (let [value (table/metadata (find-table registry) key ::none)]
    (if (identical? ::none value) :error [:ok value])))

(defn put-meta
  "Sets the value of a key in the registry's metadata, and returns :ok.

  Example:

    (registry/put-meta :carts :limit 100) ;=> :ok

  Elixir: Registry.put_meta/3."
  {:elixir "Registry.put_meta/3" :added "0.1"}
  [registry key value]
  (table/put-metadata (find-table registry) key value)
  :ok)

(defn delete-meta
  "Removes a key from the registry's metadata, and returns :ok.

  Example:

    (registry/delete-meta :carts :limit) ;=> :ok

  Elixir: Registry.delete_meta/2."
  {:elixir "Registry.delete_meta/2" :added "0.1"}
  [registry key]
  (table/delete-metadata (find-table registry) key)
  :ok)
