(ns magnetar.impl.inspect.stuck
  "Cycles of waits, and the way from a wait to its cause.

  A cycle counts only if each of its waits can be ended by the next node alone, has no limit, and was the same in several looks at the world: so all
  of them existed together."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.edges :as edges]
   [magnetar.impl.inspect.locks :as locks]
   [magnetar.impl.inspect.pools :as pools]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.inspect.text :as text]
   [magnetar.impl.inspect.world :as world])
  (:import
   (java.util ArrayDeque ArrayList Collection HashMap Map)))

(set! *warn-on-reflection* true)

(defn look
  "The world now, or this one, for all functions here."
  ([] (look (world/now)))
  ([world] (edges/with-what-is-read-late (pools/with-pools world))))

;; ---- cycles

(defn- ways-of
  "From the ids of those nodes whose wait has no limit to their edges by (edges-of world id), if there are any."
  [world nodes edges-of]
  (into {} (for [{:keys [id wait]} nodes
                 :when (and wait (not (:left-ms wait)))
                 :let [edges (edges-of world id)]
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
  "The ways, from ids to edges, without those that end: what is left leads into a cycle from everywhere. A node ends when one does to which it has an
  :either edge, or when all have ended to which it has edges. Looks at each edge once."
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
  "An id on each cycle that one meets by following the first edge of each node. Looks at each node once."
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
  "Those of these nodes that may be in a cycle, or lead into one. No stack is read to find them."
  [world nodes]
  (mapv (:nodes world) (keys (without-ends (ways-of world nodes edges/possible)))))

(defn- of-jdk
  "What only this wait in the JDK has, as it has no number: of a platform thread, how often it has waited; of a virtual one its stack with the objects in
  its local variables, one of which a lock makes for each wait. Where these cannot be read no two waits are the same."
  [world {:keys [^Thread thread] :as node}]
  (if (.isVirtual thread)
    (if-some [held (seq (map #(System/identityHashCode %) (stacks/locals world node)))]
      [(:at (stacks/of world node)) held]
      (Object.))
    (locks/waits-so-far thread)))

(defn- wait-of
  "What only this wait has."
  [world id]
  (let [{{:keys [why number on]} :wait :as node} (get-in world [:nodes id])]
    [why (System/identityHashCode on) (cond
                                        number number
                                        (= :held why) (mapv :to (edges/of world id))
                                        why (of-jdk world node))]))

(defn- waits-of
  "What only these waits have, by id, read now."
  [world ids]
  (into {} (map (juxt identity #(wait-of world %))) ids))

(defn- sight
  "The cycles among these nodes of a look, with what only their waits have: {:world .. :stuck .. :cycles .. :waits ..}. :stuck has the ids of all that never
  go on if the looks that follow show the same. Stacks are read of those alone that may be in a cycle."
  [world nodes]
  (let [candidates (candidates world nodes)
        world (edges/among world candidates)
        ways (without-ends (ways-of world candidates edges/decisive))
        cycles (cycles ways)]
    {:world world
     :stuck (keys ways)
     :cycles cycles
     :waits (waits-of world (distinct (mapcat key cycles)))}))

(defn- grade [edges]
  (if (every? #(= :exact (:grade %)) edges) :exact :likely))

(defn- step [world id edge]
  (let [{:keys [name wait] :as node} (get-in world [:nodes id])]
    (cond-> {:id id :name name}
      wait (assoc :waits-for (:words wait) :at (stacks/line world node))
      (:since-ms wait) (assoc :since-ms (:since-ms wait))
      (:left-ms wait) (assoc :left-ms (:left-ms wait))
      (:limit-ms wait) (assoc :limit-ms (:limit-ms wait))
      edge (assoc :edge (select-keys edge [:to :how :grade :because])))))

(defn- finding [world kind {:keys [ids edges]}]
  {:kind kind
   :grade (grade edges)
   :text (text/sentence world ids edges)
   :chain (mapv #(step world %1 %2) ids (concat edges (repeat nil)))})

(defn- lasting?
  "Are there these cycles in all sights, with the same waits?"
  [sights ids]
  (and (every? #(contains? (:cycles %) ids) sights)
       (every? (fn [id] (apply = (map #(get-in % [:waits id]) sights))) ids)))

(defn- one-for-each-pool
  "The cycles without those through a pool that a shorter one has already: all that hold its connections are in one."
  [cycles]
  (second
    (reduce (fn [[pools kept] {:keys [ids] :as cycle}]
              (let [own (filter pool? ids)]
                (if (some pools own) [pools kept] [(into pools own) (conj kept cycle)])))
            [#{} []]
            (sort-by (comp (juxt count pr-str) :ids) cycles))))

(defn- deadlocks
  "The cycles that are in all these sights, with the same waits."
  [sights]
  (let [{:keys [world cycles]} (peek sights)]
    (for [cycle (one-for-each-pool (vals (filter #(lasting? sights (key %)) cycles)))]
      (finding world :deadlock cycle))))

(def ^:private looks
  "How many looks at the program a deadlock has to last, and the milliseconds between two of them."
  {:number 3, :pause-ms 20})

(defn- look-again
  "What another look shows of the nodes that the first one took to be stuck. Its cycles are among them, and so is all that could end these."
  [{:keys [stuck]}]
  (Thread/sleep (long (:pause-ms looks)))
  (let [world (look)]
    (sight world (keep (:nodes world) stuck))))

(defn lasting-deadlocks
  "The cycles that several looks at the program show, a vector. The first look is this one."
  [world]
  (let [first (sight world (vals (:nodes world)))]
    (if (seq (:cycles first))
      (vec (deadlocks (into [first] (repeatedly (dec (long (:number looks))) #(look-again first)))))
      [])))

;; ---- chains

(defn- next-edge
  "The edge to follow from a node: one to a node that alone can end the wait, else one that is exact, else one to a node that ended such a wait before; of
  several the one to what has waited longest."
  [world id]
  (let [waited #(long (get-in world [:nodes (:to %) :wait :since-ms] 0))]
    (last (sort-by (juxt #(boolean (:one %)) #(= :exact (:grade %)) #(boolean (:before %)) waited) (edges/of world id)))))

(defn- chain [world start]
  (loop [ids [start], followed [], seen #{start}]
    (let [edge (next-edge world (peek ids))
          to (:to edge)]
      (cond
        (nil? edge) {:ids ids :edges followed}
        (seen to) {:ids ids :edges (conj followed edge)}
        :else (recur (conj ids to) (conj followed edge) (conj seen to))))))

(defn why
  "The way from the node with this id to what it waits for in the end; nil if it does not wait."
  [world id]
  (when (get-in world [:nodes id :wait])
    (finding world :wait (chain world id))))

;; ---- causes

(defn- pressing?
  "Does the node wait for something to go on with? One that waits for work, for time or for its own forks may do so all day."
  [{:keys [wait calls starts]}]
  (case (:why wait)
    (:channel-put :mailbox-room :lock :monitor :connection) true
    :mailbox (boolean (or calls starts))
    false))

(defn- long-ago? [{:keys [wait]} ms]
  (if-some [since (:since-ms wait)]
    (<= (long ms) (long since))
    :unknown))

(defn- pressing
  "The ids of the pressing waits that have lasted so long, and what only those of the JDK have, of which nobody knows how long: [ids waits]."
  [world ms]
  (let [waits (filter pressing? (vals (:nodes world)))
        ids (fn [verdict] (mapv :id (filter #(= verdict (long-ago? % ms)) waits)))]
    [(ids true) (waits-of world (ids :unknown))]))

(defn- lasting
  "The ids of those waits that are the same in this world."
  [world waits]
  (let [now (waits-of world (keys waits))]
    (filterv #(= (waits %) (now %)) (keys waits))))

(defn- end-of-way
  "The cause if a way ends at this node: what it waits on, which others may wait on as well, or else the node."
  [world id]
  (let [{:keys [why on]} (get-in world [:nodes id :wait])]
    (if on [why (world/number-of world on)] id)))

(defn- cause-of
  "What the way from a node ends with, or all ids of the cycle in which it ends. `causes` has those that are known, and gets those of all on the way."
  [world ^HashMap causes start]
  (loop [id start, path [], seen #{}]
    (let [known (.get causes id)
          to (when-not (or known (seen id)) (:to (next-edge world id)))]
      (if to
        (recur to (conj path id) (conj seen id))
        (let [cause (cond
                      known known
                      (seen id) (set (drop-while #(not= id %) path))
                      :else (end-of-way world id))]
          (run! #(.put causes % cause) (conj path id))
          cause)))))

(defn- causes
  "The ways from these nodes to their causes, one for each cause: that of the first node, with :behind, how many of the nodes wait for the cause.
  The most come first."
  [world ids]
  (let [known (HashMap.)]
    (sort-by (comp - :behind)
             (for [[_ ids] (group-by #(cause-of world known %) ids)]
               (assoc (finding world :wait (chain world (first ids))) :behind (count ids))))))

(defn- still-waiting
  "The ids of pressing waits that have lasted so long. The JDK's waits do not tell since when: for them it looks again."
  [world ms]
  (let [[known unknown] (pressing world ms)]
    (if (empty? unknown)
      known
      (do
        (Thread/sleep (long ms))
        (into known (lasting (look) unknown))))))

(defn kept-up
  "The ways from all that have been kept up for so long to their causes."
  [world ms]
  (vec (causes world (still-waiting world ms))))
