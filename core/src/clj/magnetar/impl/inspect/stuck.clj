(ns magnetar.impl.inspect.stuck
  "Cycles of waits, and the way from a wait to its cause.

  A cycle counts only if nothing can end its waits. None of them has a time limit. Each can end only after the next node has acted, or after one of several
  nodes that are all stuck as well. And each was the same in several snapshots, so all of them existed together."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.awaited :as awaited]
   [magnetar.impl.inspect.edges :as edges]
   [magnetar.impl.inspect.locks :as locks]
   [magnetar.impl.inspect.pools :as pools]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.inspect.text :as text])
  (:import
   (java.util ArrayDeque ArrayList Collection HashMap Map)))

(set! *warn-on-reflection* true)

(defn with-edges
  "Returns a snapshot of now, or this one, with its pools and with what edges need: all functions of this namespace take such a snapshot."
  ([] (with-edges (snapshot/now)))
  ([snapshot] (edges/with-what-is-read-late (pools/with-pools snapshot))))

;; ---- cycles

(defn- ways-of
  "From the ids of the nodes whose wait has no limit to their edges, which (edges-of snapshot id) gives. A node without an edge is left out."
  [snapshot nodes edges-of]
  (into {} (for [{:keys [id wait]} nodes
                 :when (and wait (not (:left-ms wait)))
                 :let [edges (edges-of snapshot id)]
                 :when (seq edges)]
             [id edges])))

(defn- by-target
  "From each id to those that have an edge to it, once for each edge."
  ^HashMap [ways]
  (let [sources (HashMap.)]
    (doseq [[id edges] ways, {:keys [to]} edges]
      (.add ^ArrayList (.computeIfAbsent sources to (fn [_] (ArrayList.))) id))
    sources))

(defn- without-ends
  "The ways, from ids to edges, without the nodes whose wait ends: from each node that is left, the way leads into a cycle. The wait of a node with :either
  edges ends when one of the nodes behind them goes on. Any other wait ends when all nodes behind its edges go on. Visits each edge once."
  [ways]
  (let [sources (by-target ways)
        left (HashMap. ^Map (update-vals ways count))
        ended (ArrayDeque. ^Collection (vec (remove ways (keys sources))))]
    (while (seq ended)
      (doseq [source (.get sources (.poll ended))
              :let [n (.get left source)]
              :when n]
        (if (or (= 1 n) (:either (first (ways source))))
          (do (.remove left source)
              (.add ended source))
          (.put left source (dec (long n))))))
    (into {} (for [[id edges] ways :when (.containsKey left id)]
               [id (filterv #(.containsKey left (:to %)) edges)]))))

(defn- on-cycles
  "An id on each cycle that is met by following the first edge of each node. Visits each node once."
  [ways]
  (let [walks (HashMap.)
        met-again (fn [start]
                    (loop [id start]
                      (if-some [walk (.get walks id)]
                        (when (= start walk) id)
                        (do (.put walks id start)
                            (recur (:to (first (ways id))))))))]
    (into [] (keep met-again) (keys ways))))

(defn- through
  "The cycle that leads over this edge of the node and the first edges of the others: {:ids [..] :edges [..]}; nil if that does not lead back."
  [ways id edge]
  (loop [ids [id], followed [edge], seen #{id}]
    (let [to (:to (peek followed))]
      (cond
        (= id to) {:ids ids :edges followed}
        (seen to) nil
        :else (recur (conj ids to) (conj followed (first (ways to))) (conj seen to))))))

(defn- pool? [[kind]]
  (= :pool kind))

(defn- from-least
  "The same cycle, wherever it was entered: beginning with the least id."
  [{:keys [ids edges]}]
  (let [n (count ids)
        turn (second (first (sort (map (fn [id i] [[(pool? id) (pr-str id)] i]) ids (range)))))
        turned #(into [] (take n) (drop turn (cycle %)))]
    {:ids (turned ids) :edges (turned edges)}))

(defn- cycles
  "The cycles among these ways, by their ids."
  [ways]
  (into {} (map (comp (juxt :ids identity) from-least))
        (concat (for [id (on-cycles ways)] (through ways id (first (ways id))))
                (for [[id edges] ways, edge (rest edges)
                      :let [found (through ways id edge)]
                      :when found]
                  found))))

(defn- candidates
  "The nodes that may be in a cycle, or lead into one. No stack is read to find them."
  [snapshot nodes]
  (mapv (:nodes snapshot) (keys (without-ends (ways-of snapshot nodes edges/possible)))))

(defn- of-jdk
  "What identifies a wait in the JDK, which has no number. Of a platform thread it is how often it has waited. Of a virtual thread it is its node in the queue
  of the lock. Where that is not known it is the stack with the objects in its local variables, since a lock allocates one for each wait. Where these cannot be
  read, no two waits are the same."
  [snapshot {:keys [^Thread thread wait] :as node}]
  (if (.isVirtual thread)
    (or (locks/queue-node snapshot thread (:on wait))
        (if-some [held (seq (map #(System/identityHashCode %) (stacks/locals snapshot node)))]
          [(:at (stacks/of snapshot node)) held]
          (Object.)))
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
  "The ways that lead into a cycle, like `without-ends`, if no call on a cycle was passed on. Only the nodes on cycles are asked, since that reads mailboxes."
  [snapshot ways]
  (let [ways (without-ends ways)
        ended (filter #(edges/passed-on? snapshot %) (distinct (mapcat key (cycles ways))))]
    (if (seq ended)
      (recur snapshot (apply dissoc ways ended))
      ways)))

(defn- cycles-among
  "The cycles among these nodes, with what identifies their waits: {:snapshot .. :stuck .. :cycles .. :waits ..}. :stuck has the ids of all nodes that never
  go on, if the snapshots that follow show the same. Only the stacks of nodes that may be in a cycle are read."
  [snapshot nodes]
  (let [candidates (candidates snapshot nodes)
        snapshot (edges/among snapshot candidates)
        ways (without-passed-on snapshot (ways-of snapshot candidates edges/decisive))
        cycles (cycles ways)]
    {:snapshot snapshot
     :stuck (keys ways)
     :cycles cycles
     :waits (waits-of snapshot (distinct (mapcat key cycles)))}))

(defn- grade [edges]
  (if (every? #(= :exact (:grade %)) edges) :exact :likely))

(defn- step [snapshot id edge]
  (let [{:keys [name wait] :as node} (get-in snapshot [:nodes id])]
    (cond-> {:id id :name name}
      wait (assoc :waits-for (:words wait) :at (stacks/line snapshot node))
      (:since-ms wait) (assoc :since-ms (:since-ms wait))
      (:left-ms wait) (assoc :left-ms (:left-ms wait))
      (:limit-ms wait) (assoc :limit-ms (:limit-ms wait))
      edge (assoc :edge (select-keys edge [:to :how :grade :because])))))

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

(defn- one-for-each-pool
  "The cycles, the shorter ones first, without each that leads through a pool of one before it. All holders of the connections of a pool would give a cycle."
  [cycles]
  (second
    (reduce (fn [[pools kept] {:keys [ids] :as cycle}]
              (let [own (filter pool? ids)]
                (if (some pools own) [pools kept] [(into pools own) (conj kept cycle)])))
            [#{} []]
            (sort-by (comp (juxt count pr-str) :ids) cycles))))

(defn- deadlocks
  "The cycles that are in all these checks, with the same waits."
  [checks]
  (let [{:keys [snapshot cycles]} (peek checks)]
    (for [cycle (one-for-each-pool (vals (filter #(lasting? checks (key %)) cycles)))]
      (finding snapshot :deadlock cycle))))

(def ^:private sampling
  "In how many snapshots a deadlock has to be, and the milliseconds between two of them."
  {:number 3, :pause-ms 20})

(defn sampled
  "A vector of the first check and of what (check) returns later, one for each further snapshot."
  [first check]
  (into [first] (repeatedly (dec (long (:number sampling)))
                            (fn []
                              (Thread/sleep (long (:pause-ms sampling)))
                              (check)))))

(defn- check-again
  "Checks the nodes that the first check found stuck, in a new snapshot. The cycles of the first one are among them, and so is each node that could end these."
  [{:keys [stuck]}]
  (let [snapshot (with-edges)]
    (cycles-among snapshot (keep (:nodes snapshot) stuck))))

(defn lasting-deadlocks
  "The cycles that are in several snapshots, of which this is the first one, a vector."
  [snapshot]
  (let [first (cycles-among snapshot (vals (:nodes snapshot)))]
    (if (seq (:cycles first))
      (vec (deadlocks (sampled first #(check-again first))))
      [])))

;; ---- chains

(defn- next-edge
  "The edge to follow from a node: one to a node that alone can end the wait, else one that is exact, else one to a node that ended such a wait before; of
  several the one to what has waited longest."
  [snapshot id]
  (let [waited #(long (get-in snapshot [:nodes (:to %) :wait :since-ms] 0))]
    (last (sort-by (juxt #(boolean (:one %)) #(= :exact (:grade %)) #(boolean (:before %)) waited) (edges/of snapshot id)))))

(defn- chain [snapshot start]
  (loop [ids [start], followed [], seen #{start}]
    (let [edge (next-edge snapshot (peek ids))
          to (:to edge)]
      (cond
        (nil? edge) {:ids ids :edges followed}
        (seen to) {:ids ids :edges (conj followed edge)}
        :else (recur (conj ids to) (conj followed edge) (conj seen to))))))

(defn why
  "The way from the node with this id to what it waits for in the end; nil if it does not wait."
  [snapshot id]
  (let [node (get-in snapshot [:nodes id])]
    (when (or (:wait node) (stacks/socket snapshot node))
      (finding snapshot :wait (chain snapshot id)))))

;; ---- causes

(defn pressing?
  "Is the wait one that should end soon? A node that waits for work, for time or for its own forks may do so all day."
  [snapshot {:keys [wait calls starts] :as node}]
  (case (:why wait)
    (:channel-put :mailbox-room :lock :monitor :semaphore :connection) true
    :mailbox (boolean (or calls starts))
    (:condition :park) (awaited/puts? snapshot node)
    false))

(defn- long-ago? [{:keys [wait]} ms]
  (if-some [since (:since-ms wait)]
    (<= (long ms) (long since))
    :unknown))

(defn- pressing
  "[ids waits]: the ids of the pressing waits that have lasted so long, and what identifies each pressing wait in the JDK, whose duration is not known."
  [snapshot ms]
  (let [waits (filter #(pressing? snapshot %) (vals (:nodes snapshot)))
        ids (fn [verdict] (mapv :id (filter #(= verdict (long-ago? % ms)) waits)))]
    [(ids true) (waits-of snapshot (ids :unknown))]))

(defn- lasting
  "The ids of the waits that are the same in this snapshot."
  [snapshot waits]
  (let [now (waits-of snapshot (keys waits))]
    (filterv #(= (waits %) (now %)) (keys waits))))

(defn- end-of-way
  "The cause if a way ends at this node: the object it waits on, since others may wait on the same one; without such an object, the node itself."
  [snapshot id]
  (let [{:keys [why on]} (get-in snapshot [:nodes id :wait])]
    (if on [why (snapshot/number-of snapshot on)] id)))

(defn- cause-of
  "What the way from a node ends with, or all ids of the cycle in which it ends. `causes` has the causes that are known. Those of the nodes on the way are
  added to it."
  [snapshot ^HashMap causes start]
  (loop [id start, path [], seen #{}]
    (let [known (.get causes id)
          to (when-not (or known (seen id)) (:to (next-edge snapshot id)))]
      (if to
        (recur to (conj path id) (conj seen id))
        (let [cause (cond
                      known known
                      (seen id) (set (drop-while #(not= id %) path))
                      :else (end-of-way snapshot id))]
          (run! #(.put causes % cause) (conj path id))
          cause)))))

(defn- causes
  "The ways from these nodes to their causes, one for each cause. It is the way from the first node that waits for that cause, with :behind, the number of
  the nodes that do. The way with the most of them comes first."
  [snapshot ids]
  (let [known (HashMap.)]
    (sort-by (comp - :behind)
             (for [[_ ids] (group-by #(cause-of snapshot known %) ids)]
               (assoc (finding snapshot :wait (chain snapshot (first ids))) :behind (count ids))))))

(defn- virtual-and-blocked
  "From ids to threads, of the virtual threads among these nodes that wait for a monitor."
  [{:keys [nodes]} ids]
  (into {} (for [id ids
                 :let [{:keys [^Thread thread wait]} (nodes id)]
                 :when (and thread (.isVirtual thread) (= :monitor (:why wait)))]
             [id thread])))

(def ^:private watch-ms
  "The milliseconds between two checks of the threads that wait for a monitor."
  2)

(defn- blocked-for
  "The ids of the threads that are blocked in each check for so many milliseconds. Two waits of a virtual thread for a monitor look the same, since nothing
  counts them or is allocated for them. So a thread that takes the monitor again and again is found by being seen in between."
  [threads ms]
  (let [end (+ (System/nanoTime) (* 1000000 (long ms)))]
    (loop [threads threads]
      (let [left (quot (- end (System/nanoTime)) 1000000)]
        (if (pos? left)
          (do
            (Thread/sleep (if (seq threads) (min left (long watch-ms)) left))
            (recur (filterv #(identical? Thread$State/BLOCKED (.getState ^Thread (val %))) threads)))
          (into #{} (map key) threads))))))

(defn- still-waiting
  "The ids of the pressing waits that have lasted so long. A wait in the JDK does not tell since when it lasts, so it is compared with what is there later."
  [snapshot ms]
  (let [[known unknown] (pressing snapshot ms)]
    (if (empty? unknown)
      known
      (let [watched (virtual-and-blocked snapshot (keys unknown))
            blocked (blocked-for watched ms)
            seen-in-between (remove blocked (keys watched))
            later (with-edges (snapshot/again snapshot (keys unknown)))]
        (into known (lasting later (apply dissoc unknown seen-in-between)))))))

(defn blocked
  "The ways from all nodes that have been blocked for so long to their causes."
  [snapshot ms]
  (vec (causes snapshot (still-waiting snapshot ms))))
