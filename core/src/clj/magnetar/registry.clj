(ns magnetar.registry
  "Registries: processes found by keys that are any values, with a value each. A key of a process that died is free.

    (registry/start-link {:keys :unique :name :carts})
    (gs/start-link 'my.cart nil {:name (registry/via :carts 17)})
    (gs/call (registry/via :carts 17) :total)

  start     start-link
  names     via; register-name unregister-name whereis-name, by which [:via 'magnetar.registry [registry key]] works
  oneself   register unregister unregister-match update-value
  look      lookup match select keys values count
  all       dispatch
  metadata  meta put-meta delete-meta

  A registry is a process, given by its name or pid. With :keys :unique a key belongs to one process; with :duplicate to any number, which is
  a bus for messages: `dispatch` reaches all. What is `=` is one key. Looks take no lock, ask no process, and are right at once after a death:
  whoever has learnt of it finds no entry. Each process that registers is linked to the registry while it has a key: without the registry it
  would not be found, so it ends as well.

  For a handful of names that are keywords `magnetar.actor/register` is enough; for groups without values `magnetar.pg`. Names are those of
  Elixir's module Registry."
  (:refer-clojure :exclude [count keys meta])
  (:require
   [clojure.core :as core]
   [magnetar.actor :as actor :refer [!]]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.language :as language]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.report :as report]
   [magnetar.registry.table :as table])
  (:import
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.process Links LocalProcess Pid ProcessTable)
   (magnetar.registry.table Table)))

(set! *warn-on-reflection* true)

;; ---- the process

(defn- init [{:keys [keys listeners meta]}]
  (actor/flag :trap-exit true)
  (actor/pput ::table (table/table (actor/self) (= :unique keys) listeners (proc-lib/parent) meta))
  [:ok {:keys keys}])

(defn- table-here []
  (actor/pget ::table))

(defn- unexpected [message state]
  (report/tell {:event :unexpected-message :level :warning :pid (actor/self) :behaviour 'magnetar.registry :message (language/plain message)})
  [:noreply state])

(defn- handle-info [message state]
  (let [[word pid] (when (vector? message) message)]
    (if (and (= :EXIT word) (instance? Pid pid))
      [:noreply state]
      (unexpected message state))))

(defn- unlink-without-keys
  "Takes the link from this process to `other` back if `pid`, one of both, has no key. It may just have got one: then they are linked again."
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
   :handle-call (fn [request _ state] [:reply [:error [:unknown-call (language/plain request)]] state])
   :handle-cast handle-cast
   :handle-info handle-info})

(defn- check-options [{:keys [keys listeners meta] :as options}]
  (arguments/options "start-link" [:keys :name :listeners :meta] options)
  (when-not (#{:unique :duplicate} keys)
    (arguments/misuse :magnetar/bad-keys
                      (str "The :keys of a registry are :unique or :duplicate; these are " (arguments/show keys) ".") (arguments/data :keys keys)))
  (when-not (and (or (nil? listeners) (sequential? listeners)) (every? #(or (keyword? %) (symbol? %)) listeners))
    (arguments/misuse :magnetar/bad-listeners
                      (str "The :listeners of a registry are names of processes, as in [:audit]; these are " (arguments/show listeners) ".")
                      (arguments/data :listeners listeners)))
  (when-not (or (nil? meta) (map? meta))
    (arguments/misuse :magnetar/bad-option (str "The :meta of a registry is a map; this is " (arguments/show meta) ".")
                      (arguments/data :meta meta))))

(defn start-link
  "Starts a registry, linked to this process: [:ok pid], or [:error [:already-started pid]] if the name is taken.

  :keys       :unique or :duplicate
  :name       how it is found; without one by its pid
  :listeners  names of processes that are sent [:register registry key pid value] and [:unregister registry key pid]; at a death they are
              not, they monitor the pid
  :meta       a map of what `meta` gives

    (registry/start-link {:keys :unique :name :carts}) ;=> [:ok pid]

  As a child: {:id :carts :start [registry/start-link {:keys :unique :name :carts}]}. In Elixir: Registry.start_link/1."
  {:elixir "Registry.start_link/1" :added "0.1"}
  [options]
  (check-options options)
  (gs/start-link behaviour options {:name (:name options) :spawn-opt {:bindings :none}}))

;; ---- finding the registry

(defn- no-such-registry [registry]
  (let [meant (suggest/near registry (ProcessTable/names))]
    (arguments/misuse :magnetar/no-such-registry
                      (str "No registry " (arguments/show registry) " is running: start it with (registry/start-link {:keys :unique :name "
                           (arguments/show registry) "})." (when meant (str " Is " meant " meant?")))
                      {:registry registry :meant meant})))

(defn- no-registry [registry]
  (arguments/misuse :magnetar/not-a-registry
                    (str (arguments/show registry) " is a process, but no registry: `registry/start-link` starts one.") {:registry registry}))

(defn- pid-of
  "The process of the registry. As in each operation of the kernel, whoever has to exit goes no further."
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
                      (str "`" operation "` wants a registry of :unique keys; those of " (arguments/show registry) " are :duplicate.")
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

;; The link comes before the listeners: one of them may keep the sender waiting, or refuse the message, and a process with a key ends with its registry.
(defn- add
  "Registers the process and links it by (link): nil, or the pid that has the key."
  [table registry pid key value link]
  (or (table/add table pid key value)
      (do (link)
          (tell table [:register registry key pid value])
          nil)))

(defn register
  "Registers this process under the key, with a value: [:ok registry-pid], or [:error [:already-registered pid]] if keys are unique and one has it.

  Never waits. The entry goes when this process dies. Where keys are :duplicate a process may have the same key as often as it likes.

    (registry/register :bus :orders {:since 5}) ;=> [:ok pid]

  In Elixir: Registry.register/3."
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
  "Takes back all entries of this process under the key: :ok, also if there are none.

    (registry/unregister :bus :orders) ;=> :ok

  In Elixir: Registry.unregister/2."
  {:elixir "Registry.unregister/2" :added "0.1"}
  [registry key]
  (remove-own registry key any?))

(defn unregister-match
  "Takes back the entries of this process under the key for whose value (wanted? value) is true: :ok.

    (registry/unregister-match :bus :orders #{:slow}) ;=> :ok

  In Elixir: Registry.unregister_match/4, with a pattern."
  {:elixir "Registry.unregister_match/4" :added "0.1"}
  [registry key wanted?]
  (check-function "unregister-match" wanted? "(registry/unregister-match :bus :orders #{:slow})")
  (remove-own registry key wanted?))

(defn update-value
  "Replaces the value of this process under the key, which is unique, by (f value): [new old], or :error if this process has not the key.

    (registry/update-value :carts 17 inc) ;=> [2 1]

  In Elixir: Registry.update_value/3."
  {:elixir "Registry.update_value/3" :added "0.1"}
  [registry key f]
  (check-function "update-value" f "(registry/update-value :carts 17 inc)")
  (let [me (.pid (LocalProcess/require "update-value"))
        table (find-table registry)]
    (refuse-duplicate "update-value" table registry)
    (or (table/update-own table me key f) :error)))

;; ---- looks

(defn lookup
  "The processes under the key, with their values: [[pid value] ..], the one that registered first before the others.

  Never waits, and takes no lock. A process that has died is not there.

    (registry/lookup :carts 17) ;=> [[pid nil]]

  In Elixir: Registry.lookup/2."
  {:elixir "Registry.lookup/2" :added "0.1"}
  [registry key]
  (table/at (find-table registry) key))

(defn match
  "Like `lookup`, of those for whose value (wanted? value) is true.

    (registry/match :bus :orders #(< 3 (:since %))) ;=> [[pid {:since 5}]]

  In Elixir: Registry.match/4, with a pattern."
  {:elixir "Registry.match/4" :added "0.1"}
  [registry key wanted?]
  (check-function "match" wanted? "(registry/match :bus :orders pos?)")
  (table/at (find-table registry) key wanted?))

(defn select
  "All entries as [key pid value], through the transducer if one is given; a vector, in no order.

    (registry/select :carts (map first)) ;=> [17 18]

  In Elixir: Registry.select/2, with a match specification."
  {:elixir "Registry.select/2" :added "0.1"}
  ([registry] (select registry identity))
  ([registry xform]
   (check-function "select" xform "(registry/select :carts (map first))")
   (table/triples (find-table registry) xform)))

(defn keys
  "The keys of a process, in the order of registration, each as often as it has it.

    (registry/keys :carts (self)) ;=> [17]

  In Elixir: Registry.keys/2."
  {:elixir "Registry.keys/2" :added "0.1"}
  [registry pid]
  (table/keys-of (find-table registry) pid))

(defn values
  "The values that a process has under the key.

    (registry/values :bus :orders (self)) ;=> [{:since 5}]

  In Elixir: Registry.values/3."
  {:elixir "Registry.values/3" :added "0.1"}
  [registry key pid]
  (table/values-of (find-table registry) pid key))

(defn count
  "How many entries the registry has.

    (registry/count :carts) ;=> 2

  In Elixir: Registry.count/1."
  {:elixir "Registry.count/1" :added "0.1"}
  [registry]
  (table/size (find-table registry)))

(defn dispatch
  "Calls f here with the [[pid value] ..] under the key, unless there are none: :ok.

    (registry/dispatch :bus :orders (fn [all] (doseq [[pid _] all] (! pid [:order 17])))) ;=> :ok

  Throws what f throws. In Elixir: Registry.dispatch/4."
  {:elixir "Registry.dispatch/4" :added "0.1"}
  [registry key f]
  (check-function "dispatch" f "(registry/dispatch :bus :orders send-to-all)")
  (let [there (lookup registry key)]
    (when (seq there) (f there))
    :ok))

;; ---- names

(defn via
  "The name of the process under a key, for whatever wants a name: `!`, `send-after`, `monitor`, `whereis`, the :name of `spawn-opt`, servers
  and supervisors. A value is what a process that takes the name is registered with.

    (gs/call (registry/via :carts 17) :total)

  In Elixir: {:via, Registry, {registry, key}}."
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
  "The process under [registry key], or nil.

    (registry/whereis-name [:carts 17])

  In Elixir: Registry.whereis_name/1."
  {:elixir "Registry.whereis_name/1" :added "0.1"}
  [name]
  (let [[registry key] (name-parts name)]
    (table/pid-at (unique-table "whereis-name" registry) key)))

(defn register-name
  "Registers a process under [registry key] or [registry key value]: :yes, or :no if the key is taken.

    (registry/register-name [:carts 17] (self)) ;=> :yes

  In Elixir: Registry.register_name/2, for oneself only."
  {:elixir "Registry.register_name/2" :added "0.1"}
  [name pid]
  (when-not (instance? Pid pid)
    (arguments/misuse :magnetar/not-a-pid (str "`register-name` wants a pid; this is " (arguments/show pid) ".") {:value pid}))
  (let [[registry key value] (name-parts name)
        table (unique-table "register-name" registry)
        own-pid (pid-of registry)]
    (if (= pid (some-> (LocalProcess/current) .pid))
      (if (= :ok (first (register registry key value))) :yes :no)
      (if (add table registry pid key value #(gs/cast own-pid [::relink pid]))
        :no
        :yes))))

(defn unregister-name
  "Takes the name [registry key] of a process back, whoever has it: :ok.

    (registry/unregister-name [:carts 17]) ;=> :ok

  In Elixir: Registry.unregister_name/1, for oneself only."
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
  "[:ok value] of a key of the registry's metadata, or :error.

    (registry/meta :carts :limit) ;=> [:ok 100]

  In Elixir: Registry.meta/2."
  {:elixir "Registry.meta/2" :added "0.1"}
  [registry key]
  (let [value (table/metadata (find-table registry) key ::none)]
    (if (identical? ::none value) :error [:ok value])))

(defn put-meta
  "Sets a key of the registry's metadata: :ok.

    (registry/put-meta :carts :limit 100) ;=> :ok

  In Elixir: Registry.put_meta/3."
  {:elixir "Registry.put_meta/3" :added "0.1"}
  [registry key value]
  (table/put-metadata (find-table registry) key value)
  :ok)

(defn delete-meta
  "Removes a key of the registry's metadata: :ok.

    (registry/delete-meta :carts :limit) ;=> :ok

  In Elixir: Registry.delete_meta/2."
  {:elixir "Registry.delete_meta/2" :added "0.1"}
  [registry key]
  (table/delete-metadata (find-table registry) key)
  :ok)
