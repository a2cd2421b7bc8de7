(ns magnetar.impl.inspect.data
  "datafy and nav of pids, references, scopes, forks and tables, for tools that browse data.

  datafy sends no message to what it shows. A value for which a process has to be asked, such as the state of a server, is shown as `..`, and nav asks for it."
  {:no-doc true}
  (:require
   [clojure.core.protocols :as protocols]
   [magnetar.impl.actor.info :as actor]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.inspect.shown :as shown]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.runtime]
   [magnetar.impl.table.life :as life])
  (:import
   (magnetar.impl.table.life Table)
   (magnetar.kernel.process LocalProcess Pid Pid$Ended ProcessInfo ProcessTable Ref)
   (magnetar.kernel.scope Fork Scope)))

(set! *warn-on-reflection* true)

(def ^:private to-ask
  "Stands for a value that is asked for when it is navigated to."
  '..)

(def ^:private patience-ms
  "How long a server has to answer."
  1000)

(defn- asked
  "What (ask) returns, as the program lets it be shown. If that throws, a map that says why."
  [ask]
  (try
    (shown/redacted (ask))
    (catch Exception e
      {:unavailable (ex-message e)})))

(defn- navigable
  "The map, on which nav calls the function that `asks` has for the key, and returns its result."
  [data asks]
  (vary-meta data assoc `protocols/nav (fn [_ k v] (if-some [ask (when (= to-ask v) (asks k))] (asked ask) v))))

(defn- without-empty [data]
  (into {} (remove (fn [[_ v]] (or (nil? v) (and (coll? v) (empty? v))))) data))

;; ---- processes

(defn- children
  "The pids of the processes that this one has started by proc-lib, as a supervisor starts its children."
  [pid]
  (into [] (comp (map #(.info ^LocalProcess %))
                 (filter #(= [:process pid] (snapshot/parent-of %)))
                 (map #(.pid ^ProcessInfo %)))
        (ProcessTable/all)))

(defn- server? [pid]
  (some-> ^LocalProcess (ProcessTable/live pid) .server some?))

(defn- state-of [pid]
  ((requiring-resolve 'magnetar.sys/get-state) pid {:timeout patience-ms}))

(defn- live-data [pid]
  (let [data (dissoc (actor/of pid) :dictionary)]
    (navigable (without-empty (cond-> (assoc data :children (children pid)) (server? pid) (assoc :state to-ask)))
               {:state #(state-of pid)})))

(defn- dead-data [^Pid pid]
  {:pid (str pid)
   :status :dead
   :reason (some-> ^Pid$Ended (.ended pid) .reason shown/redacted)})

(defn- pid-data [pid]
  (cond
    (nodes/elsewhere? pid) {:pid (str pid) :status :elsewhere :node (nodes/name-of pid)}
    (actor/alive? pid) (live-data pid)
    :else (dead-data pid)))

(defn- reference-data [^Ref ref]
  (without-empty {:reference (str ref) :maker (.maker ref) :watched (.watched ref)}))

;; ---- scopes

(defn- fork-data [^Fork fork]
  (let [state (cond (not (.isDone fork)) :running, (.isCancelled fork) :cancelled, (.error fork) :failed, :else :succeeded)]
    (cond-> {:name (.site fork) :scope (.scope fork) :state state :daemon? (.isDaemon fork)}
      (= :succeeded state) (assoc :value (shown/redacted (.value fork)))
      (= :failed state) (assoc :error (shown/redacted (.error fork))))))

(defn- scope-data [^Scope scope]
  (let [owner (.ownerThread scope)
        deadline (.deadline scope)]
    (without-empty {:name (.site scope)
                    :owner (some-> owner .getName)
                    :forks (vec (.live scope))
                    :closed? (.isClosed scope)
                    :cancelled? (.isCancelled scope)
                    :left-ms (when (< deadline clock/infinite) (clock/millis (clock/left deadline)))})))

;; ---- tables

(def ^:private most-rows 100)

(defn- first-rows [table]
  (into [] (take most-rows) ((requiring-resolve 'magnetar.table/rows) table)))

(defn- table-data [^Table table]
  (if-some [info (life/info table)]
    (navigable (assoc (without-empty (dissoc info :table)) :rows to-ask)
               {:rows #(first-rows table)})
    {:deleted? true}))

(extend-protocol protocols/Datafiable
  Pid
  (datafy [pid] (pid-data pid))
  Ref
  (datafy [ref] (reference-data ref))
  Fork
  (datafy [fork] (fork-data fork))
  Scope
  (datafy [scope] (scope-data scope))
  Table
  (datafy [table] (table-data table)))
