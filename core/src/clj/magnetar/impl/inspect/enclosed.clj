(ns magnetar.impl.inspect.enclosed
  "Scopes at a standstill: the owner waits for forks that wait for channels, and nothing outside of them leads to one of these channels.

  A group is a scope's owner, the forks beneath, and all fibers that are known to hold a channel on which a member of the group waits. It is at a standstill if
  each member waits for a channel, a fork or the forks of its scope, without a time limit. The rest of the program may go on.

  A channel may be held where it cannot be read, and then nothing is reported. Such places are a thread that runs, a platform thread, a virtual thread that the
  kernel has not started, a message, a table, a timer, a callback and a put that waits. Only threads that are idle in a pool, and threads of the JVM, are known
  to hold nothing."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.inspect.edges :as edges]
   [magnetar.impl.inspect.others :as others]
   [magnetar.impl.inspect.reach :as reach]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.inspect.stuck :as stuck]
   [magnetar.impl.inspect.waits :as waits]
   [magnetar.impl.runtime]
   [magnetar.impl.table.life :as life])
  (:import
   (java.util IdentityHashMap Map)
   (magnetar.kernel.channel Buffer Channel Select Select$Operation TimeoutChannel)
   (magnetar.kernel.fiber CancellationScope)
   (magnetar.kernel.inspect FiberInfo Locals RuntimeInfo)
   (magnetar.kernel.process LocalProcess ProcessInfo)
   (magnetar.kernel.scope Scope)))

(set! *warn-on-reflection* true)

;; ---- what fibers, vars and the like lead to

(def ^:private most-of-fiber
  "The most objects to which the local variables of a fiber are followed."
  20000)

(def ^:private most-of-vars
  "The most objects to which the vars of all namespaces are followed."
  1000000)

(defn- channel? [x]
  (instance? Channel x))

(defn- plain?
  "Does the channel hold values in its buffer alone, and give them to fibers alone? A callback or a transducer may put a value anywhere, and the value of a
  waiting put is not known."
  [^Channel ch]
  (let [info (.info ch)]
    (and (empty? (.putters info))
         (not-any? nil? (.takers info))
         (not (some-> ^Buffer (.buffer ch) .runsUserCode)))))

(defn- buffered [^Channel ch]
  (when-some [^Buffer buffer (.buffer ch)]
    (.snapshot buffer)))

(defn- led-to
  "The channels to which these roots lead, also through the buffers of other channels, as an identity map from each to true if it is `plain?`, else false. Nil
  if not all are known."
  ^IdentityHashMap [roots most]
  (let [known (IdentityHashMap.)]
    (loop [roots roots]
      (when-some [found (reach/all-found roots channel? most)]
        (let [new (filterv #(not (.containsKey known %)) found)]
          (run! #(.put known % (plain? %)) new)
          (if (seq new)
            (recur (into [] (mapcat buffered) new))
            known))))))

(defn- beneath-of
  "From the id of a node to its scopes, and from the id of a scope to its forks."
  [snapshot]
  (group-by :owner (filter (comp #{:scope :fork} :kind) (vals (:nodes snapshot)))))

(defn- scopes-around
  "The scopes in which the thread works, also scopes without a fork."
  [thread]
  (when-some [fiber (waits/fiber-of thread)]
    (filter #(instance? Scope %) (take-while some? (iterate #(.outer ^CancellationScope %) (.cancellationScope fiber))))))

(defn- clean-ups
  "What the scopes in which the thread works run at their end."
  [thread]
  (keep #(reach/field % "cleanUps") (scopes-around thread)))

(defn- held-by
  "The channels that the node holds, as of `led-to`; nil if what it holds cannot be read."
  [snapshot {:keys [kind thread messages object wait] :as node}]
  (let [frames (:frames (stacks/of snapshot node))]
    (when (and (seq frames)
               (or (not= :process kind) (zero? (long messages))))
      (led-to (-> (vec (stacks/locals snapshot node))
                  (into (edges/channels-of wait))
                  (into (clean-ups thread))
                  (cond-> object (conj (.dictionary ^ProcessInfo (.info ^LocalProcess object)))))
              most-of-fiber))))

(defn- task-of
  "What the thread will run, and what the fields of a subclass of Thread refer to."
  [thread]
  (cons (some-> (reach/field thread "holder") (reach/field "task"))
        (reach/values-of-fields thread)))

(defn- shutdown-hooks
  "The threads that the JVM starts at its end; nil if they cannot be read. No other thread shows them."
  []
  (try
    (let [hooks (doto (.getDeclaredField (Class/forName "java.lang.ApplicationShutdownHooks") "hooks")
                  (.setAccessible true))]
      (some->> (.get hooks nil) Map/.keySet (into [])))
    (catch Exception _ nil))) ; the package is not opened, or a hook was added meanwhile

(defn- led-to-from-anywhere
  "The channels to which vars, shutdown hooks and system properties lead, as of `led-to`; nil if not all are known."
  []
  (when-some [hooks (shutdown-hooks)]
    (led-to (-> [(System/getProperties)]
                (into (mapcat (comp vals ns-interns)) (all-ns))
                (into (mapcat task-of) hooks))
            most-of-vars)))

;; ---- groups

(defn- lasts?
  "Has the node waited long enough for channels, a fork or the forks of its scope, without a time limit?"
  [{:keys [wait thread]}]
  (and thread
       (#{:channel-take :channel-put :select :fork-join :scope-join} (:why wait))
       (nil? (:left-ms wait))
       (<= (long others/least-ms) (long (:since-ms wait)))))

(defn- known-port? [port]
  (and (channel? port) (not (instance? TimeoutChannel port))))

(defn- known?
  "Does the wait lead only to channels that time does not close, and to forks that have a node?"
  [snapshot {:keys [why on]}]
  (case why
    :select (every? #(known-port? (.port ^Select$Operation %)) (.operations ^Select on))
    :scope-join (every? #(snapshot/id-of-fork snapshot %) (.live ^Scope on))
    :fork-join (some? (snapshot/id-of-fork snapshot on))
    (known-port? on)))

(defn- forks-beneath [{:keys [beneath]} id]
  (filter #(= :fork (:kind %)) (tree-seq some? (comp beneath :id) {:id id})))

(defn- next-of
  "The ids of further members of this node's group: the forks beneath, and the nodes that can end its wait."
  [{:keys [holders] :as snapshot} {:keys [id wait]}]
  (concat (map :id (forks-beneath snapshot id))
          (map :to (edges/decisive snapshot id))
          (mapcat #(get holders (System/identityHashCode %)) (edges/channels-of wait))))

(defn- group-of
  "The ids of the group of this owner of a scope; nil if a member does not wait, or may be woken by something else."
  [{:keys [nodes] :as snapshot} owner]
  (loop [group #{}, [id & ids] [owner]]
    (cond
      (nil? id) group
      (group id) (recur group ids)
      :else (let [{:keys [wait] :as node} (nodes id)]
              (when (and (lasts? node) (known? snapshot wait))
                (recur (conj group id) (into (vec ids) (next-of snapshot node))))))))

(defn- candidates
  "The ids of the owners of scopes that wait for their forks, all of which wait. No stack is read to find them."
  [{:keys [nodes] :as snapshot}]
  (for [{:keys [owner kind ^Scope object]} (vals nodes)
        :when (and (= :scope kind) (<= clock/infinite (.deadline object)))
        :let [node (nodes owner)]
        :when (and (= :scope-join (:why (:wait node))) (lasts? node) (every? lasts? (forks-beneath snapshot owner)))]
    owner))

;; ---- what is outside of a group

(defn- only-limits?
  "Is each timer one that ends a wait? What other timers do is not known."
  []
  (let [before (.timers (RuntimeInfo/now))]
    (= before (count (FiberInfo/limits)) (.timers (RuntimeInfo/now)))))

(defn- with-holders
  "The snapshot with the channels that its nodes hold: :held from ids to `held-by`, :holders from the identity hash of a channel to ids."
  [snapshot]
  (let [held (into {} (for [{:keys [id kind thread] :as node} (vals (:nodes snapshot))
                            :when (or thread (= :process kind))]
                        [id (held-by snapshot node)]))]
    (assoc snapshot
           :held held
           :holders (reduce (fn [holders [hash id]] (update holders hash conj id)) {}
                            (for [[id channels] held, ch (some-> ^IdentityHashMap channels .keySet)]
                              [(System/identityHashCode ch) id])))))

(defn- all-plain? [^IdentityHashMap channels]
  (every? true? (.values channels)))

(defn- all-read?
  "Is everything known that the nodes and threads outside of the group hold? Each either holds nothing of the program, or only plain channels."
  [{:keys [held by-thread]} threads group]
  (let [asks (.threadId (Thread/currentThread))
        idle (into #{} (comp (filter others/harmless?) (keep (comp by-thread :id))) threads)]
    (and (every? (fn [[id channels]]
                   (or (group id) (idle id) (and channels (all-plain? channels))))
                 held)
         (every? (fn [{:keys [id] :as thread}]
                   (or (= asks id) (by-thread id) (others/harmless? thread)))
                 threads))))

(defn- can-be-known?
  "Can a standstill be found in this snapshot? It cannot without local variables, if a thread of the program asks, or in a very large program."
  [snapshot]
  (and (Locals/isOn)
       (not (others/asked-inside? snapshot))
       (<= (count (:nodes snapshot)) (long others/most-nodes))))

(defn- nothing-hidden? []
  (and (others/nothing-unseen?)
       (empty? (life/all))
       (only-limits?)))

(defn- groups
  "The groups at a standstill in this snapshot, from the id of each owner to {:ids .. :waits ..}; nil without one."
  [snapshot]
  (when (can-be-known? snapshot)
    (let [snapshot (assoc snapshot :beneath (beneath-of snapshot))
          owners (candidates snapshot)]
      (when (and (seq owners) (nothing-hidden?))
        (let [snapshot (with-holders snapshot)
              threads (others/all)]
          (not-empty (into {} (for [owner owners
                                    :let [group (group-of snapshot owner)]
                                    :when (and group threads (all-read? snapshot threads group))]
                                [owner {:ids group :waits (stuck/waits-of snapshot group)}]))))))))

(defn- outside-of?
  "Do the channels `known` contain none on which one of these nodes waits? Also false if one of them is not plain."
  [^IdentityHashMap known {:keys [nodes]} ids]
  (and known
       (all-plain? known)
       (not-any? #(.containsKey known %) (mapcat (comp edges/channels-of :wait nodes) ids))))

;; ---- findings

(defn- without-overlap
  "The groups, the smaller ones first, without each that has a member in common with a group before it."
  [groups]
  (first (reduce (fn [[kept ids] [_ {group :ids} :as entry]]
                   (if (some ids group) [kept ids] [(conj kept entry) (into ids group)]))
                 [[] #{}]
                 (sort-by (comp count :ids val) groups))))

(defn- finding [snapshot [owner {:keys [ids]}]]
  (let [{:keys [text] :as chain} (stuck/why snapshot owner)]
    (assoc chain
           :kind :standstill
           :of :scope
           :grade :likely
           :because (str "they wait without a time limit, and no other fiber, var, timer or shutdown hook leads to the channels "
                         "on which they wait; a cancellation, a handler of signals or a listener of the JVM could end it")
           :text (str (count ids) " fibers wait, and nothing else leads to the channels on which they wait: " text))))

(defn found
  "Findings about the scopes at a standstill, without nodes that are `reported` already. The snapshot is the first of several."
  [snapshot reported]
  (if-some [first (groups snapshot)]
    (let [last-of (atom snapshot)
          checks (stuck/sampled first #(groups (reset! last-of (stuck/with-edges))))
          lasting (filter (fn [[owner group]] (every? #(= group (get % owner)) checks)) (peek checks))
          known (when (seq lasting) (led-to-from-anywhere))]
      (->> lasting
           (remove (fn [[_ {:keys [ids]}]] (some reported ids)))
           (filter (fn [[_ {:keys [ids]}]] (outside-of? known @last-of ids)))
           without-overlap
           (mapv #(finding @last-of %))))
    []))
