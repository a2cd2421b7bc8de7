(ns magnetar.histories.node
  "A node in a JVM of its own, which does what lines of its input say. It ends with its input.

  A line is [id request] as EDN, and its answer is a line [id answer]. If the request failed, that is [id nil failure], where
  the failure is a text. Requests are handled side by side."
  (:require
   [clojure.edn :as edn]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.group-support :as group-support]
   [magnetar.cluster.singleton :as singleton]
   [magnetar.global :as global]
   [magnetar.histories.groups :as groups]
   [magnetar.histories.holder :as holder]
   [magnetar.histories.store :as store]
   [magnetar.impl.groups :as known]
   [magnetar.pg :as pg]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]
   [magnetar.sys :as sys]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(def ^:private patience-ms 800)

(def ^:private pids
  "Singletons that a client of this node keeps, processes with global names, and members of groups."
  (atom {}))

(defn- keepers [tree]
  (map :pid (sup/which-children tree)))

(defn- start-named
  "Registers a new process under the global name, which has this id from now on."
  [name id]
  (let [pid (actor/spawn (fn [] (receive :end nil)))]
    (swap! pids assoc id pid)
    {:done (= :yes (global/register-name name pid))}))

(defn- end
  "Kills the process that has the id, and returns when its death is told. It may have ended with an earlier run of this node."
  [id]
  (some-> (@pids id) groups/kill)
  {})

(defn- start-named-if-active
  "As `start-named`, if this node is active before it and after it. Otherwise it is :failed, or nil if the name may have been given."
  [name id]
  (if (cluster/active?)
    (let [answer (start-named name id)]
      (when (cluster/active?) answer))
    :failed))

(defn- start-member
  "Starts a process; returns its id."
  []
  (let [pid (group-support/idle)
        id (group-support/id pid)]
    (swap! pids assoc id pid)
    id))

(defn- act
  "Lets the process with the id join the group, leave it, or end; :failed if this node has no such process."
  [what group id]
  (if-some [pid (@pids id)]
    (do (groups/act what group pid) {})
    :failed))

(defn- keep-lost-members
  "From now on this node goes on seeing the members of groups that a node had when it was lost. No sound node does."
  []
  (alter-var-root #'known/lose (constantly (fn [_ _])))
  (alter-var-root #'known/peer-syncs (constantly (fn [server peer all]
                                                   (doseq [[group pids] all]
                                                     (known/peer-joins server peer group pids))))))

(defn- handle [tree [what x y z]]
  (case what
    :nodes (count (cluster/nodes))
    :holder (some-> (singleton/whereis x) actor/node)
    :ask (holder/ask (singleton/address x) y patience-ms)
    :keep (do (swap! pids assoc x (singleton/whereis x)) nil)
    :ask-kept (holder/ask (@pids x) y patience-ms)
    :suspend-keepers (do (run! sys/suspend (keepers tree)) nil)
    :kill-holder (do (some-> (singleton/whereis x) (actor/exit :kill)) nil)
    :sync (do (global/sync) nil)
    :active (cluster/active?)
    :register (start-named x y)
    :register-if-active (start-named-if-active x y)
    :unregister (do (global/unregister-name x) {})
    :kill (end x)
    :start-member (start-member)
    :act (act x y z)
    :members (frequencies (map group-support/id (pg/members x)))
    :keep-lost-members (do (keep-lost-members) nil)))

(defn- tell [x]
  (locking *out*
    (prn x)
    (flush)))

(defn- answer [tree line]
  (let [[id request] (edn/read-string line)]
    (tell (try
            [id (handle tree request)]
            (catch Exception e [id nil (str e)])))))

(defn- child [port {:keys [name] :as object}]
  {:id name
   :start [singleton/start-link {:name name :start [holder/start-link object #(store/connect port)]}]})

(defn- join
  "Joins the cluster, and waits for an agreed view with all nodes. A node that is slow to find the others begins a view of its own
  until they meet, as the guide says, and a keeper would run a second singleton in it."
  [cluster]
  (let [[how why] (cluster/start cluster)]
    (when (= :error how)
      (throw (ex-info (str "The node does not start: " (pr-str why)) {:why why}))))
  (mt/wait-until #(= 3 (count (:members (:agreement (cluster/status))))) {:timeout 120000}))

(defn- start
  "Joins the cluster, and starts the keepers of the objects; returns their supervisor."
  [{:keys [cluster objects port]}]
  (join cluster)
  (second (sup/start-link {:intensity 100000 :children (mapv #(child port %) objects)})))

(defn -main
  "Runs the node that the text describes, until the input ends."
  [config]
  (actor/with-process {}
    (let [tree (start (edn/read-string config))]
      (loop []
        (when-some [line (scope/offload read-line)]
          (actor/spawn answer tree line)
          (recur)))))
  (System/exit 0))
