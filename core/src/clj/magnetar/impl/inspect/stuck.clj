(ns magnetar.impl.inspect.stuck
  "Cycles of waits, and the chain of waits from a node to its cause.

  A cycle counts only if nothing can end its waits. None of them has a time limit. Each can end only after the next node has acted, or after one of several
  nodes that are all stuck as well. And each was the same wait in several snapshots, so all of them existed at the same time.

  A graph here is a wait-for graph: a map from the ids of waiting nodes to their edges, see `edges`."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.awaited :as awaited]
   [magnetar.impl.inspect.edges :as edges]
   [magnetar.impl.inspect.grades :as grades]
   [magnetar.impl.inspect.locks :as locks]
   [magnetar.impl.inspect.pools :as pools]
   [magnetar.impl.inspect.progress :as progress]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.inspect.text :as text])
  (:import
   (java.util ArrayDeque ArrayList Collection HashMap Map)))

(set! *warn-on-reflection* true)

(defn with-edges
  "A new snapshot, or this one, with its pools and with what `edges` needs. All functions of this namespace take such a snapshot."
  ([] (with-edges (snapshot/now)))
  ([snapshot] (edges/with-what-is-read-late (pools/with-pools snapshot))))

;; ---- cycles

(defn- graph-of
  "The graph of the nodes whose wait has no limit. (edges-of snapshot id) gives the edges. A node without an edge is left out."
  [snapshot nodes edges-of]
  (into {} (for [{:keys [id wait]} nodes
                 :when (and wait (not (:left-ms wait)))
                 :let [edges (edges-of snapshot id)]
                 :when (seq edges)]
             [id edges])))

(defn- by-target
  "From each id to the ids of the nodes that have an edge to it, once for each edge."
  ^HashMap [graph]
  (let [sources (HashMap.)]
    (doseq [[id edges] graph, {:keys [to]} edges]
      (.add ^ArrayList (.computeIfAbsent sources to (fn [_] (ArrayList.))) id))
    sources))

(defn- without-ends
  "The graph without the nodes whose wait ends. From each node that is left, each edge leads into a cycle. A wait with :either edges ends when one of the
  nodes behind them goes on, and any other wait when all of them do: the AND-OR model of wait-for graphs. Visits each edge once."
  [graph]
  (let [sources (by-target graph)
        left (HashMap. ^Map (update-vals graph count))
        ended (ArrayDeque. ^Collection (vec (remove graph (keys sources))))]
    (while (seq ended)
      (doseq [source (.get sources (.poll ended))
              :let [n (.get left source)]
              :when n]
        (if (or (= 1 n) (:either (first (graph source))))
          (do (.remove left source)
              (.add ended source))
          (.put left source (dec (long n))))))
    (into {} (for [[id edges] graph :when (.containsKey left id)]
               [id (filterv #(.containsKey left (:to %)) edges)]))))

(defn- on-cycles
  "An id on each cycle that is met by following the first edge of each node. Visits each node once."
  [graph]
  (let [walks (HashMap.)
        met-again (fn [start]
                    (loop [id start]
                      (if-some [walk (.get walks id)]
                        (when (= start walk) id)
                        (do (.put walks id start)
                            (recur (:to (first (graph id))))))))]
    (into [] (keep met-again) (keys graph))))

(defn- through
  "The cycle that leads over this edge of the node and the first edges of the others: {:ids [..] :edges [..]}; nil if that does not lead back."
  [graph id edge]
  (loop [ids [id], followed [edge], seen #{id}]
    (let [to (:to (peek followed))]
      (cond
        (= id to) {:ids ids :edges followed}
        (seen to) nil
        :else (recur (conj ids to) (conj followed (first (graph to))) (conj seen to))))))

(defn- pool? [[kind]]
  (= :pool kind))

(defn- from-least
  "The cycle, rotated to begin with the least id that is not a pool, so that it is equal whichever node it was entered at."
  [{:keys [ids edges]}]
  (let [n (count ids)
        least (second (first (sort (map (fn [id i] [[(pool? id) (pr-str id)] i]) ids (range)))))
        rotated #(into [] (take n) (drop least (cycle %)))]
    {:ids (rotated ids) :edges (rotated edges)}))

(defn- cycles
  "Cycles of this graph, by their ids."
  [graph]
  (into {} (map (comp (juxt :ids identity) from-least))
        (concat (for [id (on-cycles graph)] (through graph id (first (graph id))))
                (for [[id edges] graph, edge (rest edges)
                      :let [found (through graph id edge)]
                      :when found]
                  found))))

(defn- candidates
  "The nodes that may be in a cycle, or lead into one. No stack is read to find them."
  [snapshot nodes]
  (mapv (:nodes snapshot) (keys (without-ends (graph-of snapshot nodes edges/possible)))))

(defn- of-jdk
  "What identifies a wait in the JDK, which has no number.

  For a platform thread it is how often it has waited. For a virtual thread it is its node in the queue of the lock. If that
  is not known, it is the thread and its stack with the objects in its local variables, since a lock allocates an object for
  each wait. If these cannot be read, two waits of the thread at the same line look the same."
  [snapshot {:keys [^Thread thread wait] :as node}]
  (if (.isVirtual thread)
    (or (locks/queue-node snapshot thread (:on wait))
        [(.threadId thread) (:at (stacks/of snapshot node)) (mapv #(System/identityHashCode %) (stacks/locals snapshot node))])
    (locks/waits-so-far thread)))

(defn- wait-of
  "What identifies this wait."
  [snapshot id]
  (let [{{:keys [why number on]} :wait :as node} (get-in snapshot [:nodes id])]
    [why (System/identityHashCode on) (cond
                                        number number
                                        (= :held why) (mapv :to (edges/of snapshot id))
                                        why (of-jdk snapshot node))]))

(defn waits-of
  "What identifies the waits of these nodes, by id, read now."
  [snapshot ids]
  (into {} (map (juxt identity #(wait-of snapshot %))) ids))

(defn- without-passed-on
  "Like `without-ends`, also without the nodes whose call was passed on. Only calls on cycles are checked, since that reads mailboxes."
  [snapshot graph]
  (let [graph (without-ends graph)
        passed-on (filter #(edges/passed-on? snapshot %) (distinct (mapcat key (cycles graph))))]
    (if (seq passed-on)
      (recur snapshot (apply dissoc graph passed-on))
      graph)))

(defn- cycles-among
  "The cycles among these nodes, and what identifies their waits: {:snapshot .. :stuck .. :cycles .. :waits ..}. :stuck has the ids of all nodes that never go
  on, if later snapshots show the same. Only the stacks of nodes that may be in a cycle are read."
  [snapshot nodes]
  (let [candidates (candidates snapshot nodes)
        snapshot (edges/among snapshot candidates)
        graph (without-passed-on snapshot (graph-of snapshot candidates edges/decisive))
        cycles (cycles graph)]
    {:snapshot snapshot
     :stuck (keys graph)
     :cycles cycles
     :waits (waits-of snapshot (distinct (mapcat key cycles)))}))

(defn- grade [edges]
  (if (every? #(= :exact (:grade %)) edges) :exact :likely))

(defn- step [snapshot id edge]
  (let [{:keys [name wait] :as node} (get-in snapshot [:nodes id])]
    (cond-> {:id id :name name}
      wait (assoc :waits-for (awaited/short-words snapshot node) :at (stacks/line snapshot node))
      (:since-ms wait) (assoc :since-ms (:since-ms wait))
      (:left-ms wait) (assoc :left-ms (:left-ms wait))
      (:limit-ms wait) (assoc :limit-ms (:limit-ms wait))
      edge (assoc :edge (select-keys edge [:to :any :how :grade :because])))))

(defn- finding [snapshot kind {:keys [ids edges]}]
  {:kind kind
   :grade (grade edges)
   :text (text/sentence snapshot ids edges)
   :chain (mapv #(step snapshot %1 %2) ids (concat edges (repeat nil)))})

(defn- lasting?
  "Is the cycle of these ids in all checks, with the same waits?"
  [checks ids]
  (and (every? #(contains? (:cycles %) ids) checks)
       (every? (fn [id] (apply = (map #(get-in % [:waits id]) checks))) ids)))

(defn- pools-of
  "The pools of connections and of threads through which the cycle leads."
  [{:keys [ids edges]}]
  (into (filterv pool? ids) (comp (filter #(= :worker (:how %))) (map :object)) edges))

(defn- pure?
  "Does the cycle lead only through queues of pools of threads?"
  [{:keys [edges]}]
  (every? #(= :worker (:how %)) edges))

(defn- one-for-each-pool
  "The cycles, those first that name more than queues of pools, then the shorter ones, and of those that lead through the same pool only the first. Each holder
  of a connection of a pool would give one, and so would each thread of a pool of threads."
  [cycles]
  (second
    (reduce (fn [[pools kept] cycle]
              (let [own (pools-of cycle)]
                (if (some pools own) [pools kept] [(into pools own) (conj kept cycle)])))
            [#{} []]
            (sort-by (juxt pure? (comp count :ids) (comp pr-str :ids)) cycles))))

(defn- deadlocks
  "The cycles that are in all these checks, with the same waits."
  [checks]
  (let [{:keys [snapshot stuck cycles]} (peek checks)
        lasting (one-for-each-pool (vals (filter #(lasting? checks (key %)) cycles)))
        holders (grades/holders snapshot (set stuck) lasting)]
    (for [cycle lasting]
      (finding snapshot :deadlock (grades/lowered snapshot holders cycle)))))

(def ^:private sampling
  "In how many snapshots a deadlock must be found, and the milliseconds between two of them."
  {:number 3, :pause-ms 20})

(defn sampled
  "A vector of the results of all checks: the first one, and what (check) returns after each pause."
  [first check]
  (into [first] (repeatedly (dec (long (:number sampling)))
                            (fn []
                              (Thread/sleep (long (:pause-ms sampling)))
                              (check)))))

(defn- check-again
  "Checks in a new snapshot the nodes that the first check found stuck. The cycles of the first check are among them, and so is each node that could end them."
  [{:keys [stuck]}]
  (let [snapshot (with-edges)]
    (cycles-among snapshot (keep (:nodes snapshot) stuck))))

(defn lasting-deadlocks
  "The cycles that are in this snapshot and in all later ones, as findings, a vector."
  [snapshot]
  (let [first (cycles-among snapshot (vals (:nodes snapshot)))]
    (if (seq (:cycles first))
      (vec (deadlocks (sampled first #(check-again first))))
      [])))

;; ---- chains

(def ^:private over-reach?
  "The kinds of edges to nodes that can reach an object, and need not be the ones that end the wait."
  #{:put :take :tap :awaited :hidden})

(defn- to-any
  "One edge for these edges of a node, which lead to nodes that can reach the same kind of object. Without :to, since it is
  not known which of them is to end the wait."
  [[edge :as edges]]
  (assoc (dissoc edge :to) :any (into [] (comp (map :to) (distinct)) edges)))

(defn- next-edge
  "The edge to follow from a node: one to a node that alone can end the wait, else one that is exact, else one to a node
  that ended such a wait before. Of several such edges it is the one to the node that has waited longest. If these lead to
  several nodes that can merely reach what is waited for, none is followed: see `to-any`."
  [snapshot id]
  (let [rank (juxt #(boolean (:one %)) #(= :exact (:grade %)) #(boolean (:before %)))
        waited #(long (get-in snapshot [:nodes (:to %) :wait :since-ms] 0))
        edges (edges/of snapshot id)
        best (last (sort-by rank edges))
        equal (filter #(= (rank best) (rank %)) edges)]
    (if (and (over-reach? (:how best)) (not (:one best)) (< 1 (count (distinct (map :to equal)))))
      (to-any equal)
      (last (sort-by waited equal)))))

(defn- chain
  "The chain of edges from a node, {:ids .. :edges ..}. The last edge leads back into it, or has :any, or else there is one
  edge less than there are ids."
  [snapshot start]
  (loop [ids [start], followed [], seen #{start}]
    (let [{:keys [to any] :as edge} (next-edge snapshot (peek ids))]
      (cond
        (nil? edge) {:ids ids :edges followed}
        (or any (seen to)) {:ids ids :edges (conj followed edge)}
        :else (recur (conj ids to) (conj followed edge) (conj seen to))))))

(defn why
  "The chain of waits from the node with this id to its cause, as a finding; nil if the node does not wait."
  [snapshot id]
  (let [node (get-in snapshot [:nodes id])]
    (when (or (:wait node) (stacks/socket snapshot node))
      (finding snapshot :wait (chain snapshot id)))))

;; ---- causes

(defn- puts?
  "Does the node wait to put into a queue? All nodes that wait for the same condition wait for the same, so the stack of one of them is read."
  [{:keys [^HashMap known] :as snapshot} {{:keys [why on]} :wait :as node}]
  (if (= :condition why)
    (let [place [:puts (snapshot/number-of snapshot on)]]
      (when-not (.containsKey known place)
        (.put known place (awaited/puts? snapshot node)))
      (.get known place))
    (awaited/puts? snapshot node)))

(defn pressing?
  "Is the wait one that should end soon, so that the node is blocked if it lasts? A wait for work, for time or for the own forks may last all day."
  [snapshot {:keys [wait calls starts] :as node}]
  (case (:why wait)
    (:channel-put :mailbox-room :lock :monitor :semaphore :connection :socket-write :socket-connect :host-lookup)
    true
    :mailbox (boolean (or calls starts))
    (:condition :park) (puts? snapshot node)
    false))

(defn- long-ago? [{:keys [wait]} ms]
  (if-some [since (:since-ms wait)]
    (<= (long ms) (long since))
    :unknown))

(defn- pressing
  "[ids waits]: the ids of the nodes whose pressing wait has lasted so long, and what identifies each pressing wait in the JDK, whose duration is not known."
  [snapshot ms]
  (let [waits (filter #(pressing? snapshot %) (vals (:nodes snapshot)))
        ids (fn [verdict] (mapv :id (filter #(= verdict (long-ago? % ms)) waits)))]
    [(ids true) (waits-of snapshot (ids :unknown))]))

(defn- lasting
  "The ids of the nodes whose wait is the same in this snapshot."
  [snapshot waits]
  (let [now (waits-of snapshot (keys waits))]
    (filterv #(= (waits %) (now %)) (keys waits))))

(defn- end-of-chain
  "The cause if a chain ends at this node: the object it waits on, since others may wait on the same one; without such an object, the node itself."
  [snapshot id]
  (let [{:keys [why on]} (get-in snapshot [:nodes id :wait])]
    (if on [why (snapshot/number-of snapshot on)] id)))

(defn- cause-of
  "The cause with which the chain from this node ends, or all ids of the cycle in which it ends. `causes` has the causes that are known, by id. The nodes of the
  chain are added to it."
  [snapshot ^HashMap causes start]
  (loop [id start, path [], seen #{}]
    (let [known (.get causes id)
          to (when-not (or known (seen id)) (:to (next-edge snapshot id)))]
      (if to
        (recur to (conj path id) (conj seen id))
        (let [cause (cond
                      known known
                      (seen id) (set (drop-while #(not= id %) path))
                      :else (end-of-chain snapshot id))]
          (run! #(.put causes % cause) (conj path id))
          cause)))))

(defn- causes
  "A finding for each cause of these nodes that does not end by itself: the chain from the first node that waits for it,
  with :behind, the number of nodes that do. The cause with the most nodes comes first."
  [snapshot ids]
  (let [known (HashMap.)]
    (sort-by (comp - :behind)
             (for [[_ ids] (group-by #(cause-of snapshot known %) ids)
                   :let [chain (chain snapshot (first ids))]
                   :when (not (progress/ends-by-itself? snapshot chain))]
               (assoc (finding snapshot :wait chain) :behind (count ids))))))

(defn- look-the-same?
  "Would two waits of this virtual thread at the same line look the same? Nothing counts waits for a monitor, and where no
  local variables can be read only the queue of a lock tells two waits apart."
  [snapshot {:keys [^Thread thread wait]}]
  (and thread
       (.isVirtual thread)
       (or (= :monitor (:why wait))
           (and (locks/hides-monitors?) (nil? (locks/queue-node snapshot thread (:on wait)))))))

(defn- to-watch
  "From ids to [thread state], of the nodes among these whose waits `look-the-same?`."
  [{:keys [nodes] :as snapshot} ids]
  (into {} (for [id ids
                 :let [{:keys [^Thread thread] :as node} (nodes id)]
                 :when (look-the-same? snapshot node)]
             [id [thread (if (= :monitor (:why (:wait node))) Thread$State/BLOCKED (.getState thread))]])))

(def ^:private watch-ms
  "The milliseconds between two checks of the threads whose waits look the same."
  2)

(defn- unchanged-for
  "The ids of the threads that are in their state in each check for so many milliseconds. A thread that takes a monitor again
  and again is told apart only by a check between two of its waits."
  [threads ms]
  (let [end (+ (System/nanoTime) (* 1000000 (long ms)))]
    (loop [threads threads]
      (let [left (quot (- end (System/nanoTime)) 1000000)]
        (if (pos? left)
          (do
            (Thread/sleep (if (seq threads) (min left (long watch-ms)) left))
            (recur (filterv (fn [[_ [^Thread thread state]]] (identical? state (.getState thread))) threads)))
          (into #{} (map first) threads))))))

(defn- still-waiting
  "The ids of the nodes whose pressing wait has lasted so long. The JDK does not say when a wait began, so it is compared
  with the wait after that time, and left out if another thread has come first in the queue meanwhile."
  [snapshot ms]
  (let [[known unknown] (pressing snapshot ms)]
    (if (empty? unknown)
      known
      (let [heads (progress/heads snapshot (keys unknown))
            watched (to-watch snapshot (keys unknown))
            unchanged (unchanged-for watched ms)
            seen-running (remove unchanged (keys watched))
            later (with-edges (snapshot/again snapshot (keys unknown)))
            moved? #(not (identical? (heads %) ((progress/heads later [%]) %)))]
        (into known (remove moved?) (lasting later (apply dissoc unknown seen-running)))))))

(defn blocked
  "A finding for each cause of the nodes that have been blocked for so many milliseconds."
  [snapshot ms]
  (vec (causes snapshot (still-waiting snapshot ms))))
