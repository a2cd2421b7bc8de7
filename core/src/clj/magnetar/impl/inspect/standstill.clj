(ns magnetar.impl.inspect.standstill
  "A program that is at a standstill: all its fibers, processes and threads wait, and nothing is left that can wake one.

  That needs no cycle of edges: a put may wait although the fiber that took from the channel has ended. What could still act is looked for first, so in a
  program that works only its timers and nodes are checked. No stack is read before all nodes wait."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.edges :as edges]
   [magnetar.impl.inspect.enclosed :as enclosed]
   [magnetar.impl.inspect.others :as others]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.inspect.stuck :as stuck]
   [magnetar.impl.inspect.waits :as waits]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.channel Channel)
   (magnetar.kernel.inspect RuntimeInfo)))

(set! *warn-on-reflection* true)

;; ---- what could still act

(defn- asks? [{:keys [thread]}]
  (identical? thread (Thread/currentThread)))

(defn- lasts?
  "Has the node waited long enough, without a time limit? A wait in the JDK has no known duration, and counts. A process without a thread waits if it has no
  message."
  [{:keys [thread messages] {:keys [since-ms left-ms limit-ms] :as wait} :wait}]
  (and wait
       (nil? left-ms)
       (nil? limit-ms)
       (if since-ms (<= (long others/least-ms) (long since-ms)) true)
       (or (some? thread) (zero? (long messages)))))

(defn- can-act?
  "Is the node one that can act, and not a scope or a pool?"
  [{:keys [kind thread]}]
  (or (some? thread) (= :process kind)))

(defn- parts
  "The nodes that can act: {:waiting nodes, :others the ids of platform threads that do not wait}; nil if there is another node that does not wait."
  [snapshot]
  (reduce (fn [parts {:keys [^Thread thread] :as node}]
            (cond
              (or (asks? node) (not (can-act? node))) parts
              (lasts? node) (update parts :waiting conj node)
              (and thread (not (.isVirtual thread))) (update parts :others conj (.threadId thread))
              :else (reduced nil)))
          {:waiting [] :others #{}}
          (vals (:nodes snapshot))))

(defn- in-io? [snapshot {:keys [wait] :as node}]
  (or (waits/at-socket? wait)
      (and (= :park (:why wait)) (stacks/in? snapshot node "sun.nio."))))

(defn- others-quiet?
  "Are all threads quiet, except the waiting nodes and the thread that asks?"
  [{:keys [by-thread]} not-waiting]
  (let [asks (.threadId (Thread/currentThread))
        threads (others/all)]
    (and threads
         (every? (fn [{:keys [id] :as thread}]
                   (cond
                     (= asks id) true
                     (not-waiting id) (others/harmless? thread)
                     (by-thread id) true
                     :else (others/quiet? thread)))
                 threads))))

;; ---- what waits to go on

(defn- joins?
  "Does the node wait for a fork, for the forks of its scope, or for the result of a go block?"
  [snapshot {:keys [id wait]}]
  (let [{:keys [why on]} wait]
    (case why
      (:fork-join :scope-join) true
      :channel-take (and (instance? Channel on) (some? (.finisher ^Channel on))) ; computed for each idle worker, so without finding its edges
      :select (boolean (seq (edges/decisive snapshot id)))
      false)))

(defn- forks-of
  "The ids of the forks for which the node waits as the owner of their scope."
  [snapshot {:keys [id wait]}]
  (when (= :scope-join (:why wait))
    (map :to (edges/of snapshot id))))

(defn- starts
  "The ids of the nodes from which a chain may lead to a fault: the blocked ones, and joins with the forks that they await. If a thread of the program asks, a
  join may wait for that thread, so then no join counts."
  [snapshot nodes]
  (let [pressing (map :id (filter #(stuck/pressing? snapshot %) nodes))
        joins (when-not (others/asked-inside? snapshot) (filter #(joins? snapshot %) nodes))]
    (into [] (distinct) (concat pressing (map :id joins) (mapcat #(forks-of snapshot %) joins)))))

(def ^:private for-work
  "The kinds of waits for something that may come at any time, or never, without a fault."
  #{:mailbox :mailbox-or-channels :channel-take :select :condition :park})

(defn- counts?
  "Does the chain lead to a fault that is not `reported` yet? A chain that begins with a join does not if it ends with a wait for work."
  [snapshot reported {:keys [chain]}]
  (let [end (peek chain)
        node #(get-in snapshot [:nodes (:id %)])]
    (and (not-any? reported (map :id chain))
         (or (stuck/pressing? snapshot (node (first chain)))
             (:to (:edge end))
             (not (for-work (:why (:wait (node end)))))))))

(def ^:private most-chains
  "How many chains are compared to find the longest one."
  100)

(defn- longest-chain
  "The finding with the longest chain from one of these nodes that counts; nil without one."
  [snapshot reported ids]
  (when-some [found (seq (filter #(counts? snapshot reported %) (map #(stuck/why snapshot %) (take most-chains ids))))]
    (apply max-key (comp count :chain) found)))

;; ---- the program

(defn- program
  "The standstill of the program in this snapshot, {:snapshot .. :starts ids :waits ..}; nil if it is at no standstill."
  [snapshot]
  (when (and (zero? (.timers (RuntimeInfo/now))) (others/nothing-unseen?) (<= (count (:nodes snapshot)) (long others/most-nodes)))
    (when-some [{:keys [waiting others]} (parts snapshot)]
      (let [starts (starts snapshot waiting)]
        (when (and (seq starts)
                   (not-any? #(in-io? snapshot %) waiting)
                   (others-quiet? snapshot others))
          {:snapshot snapshot
           :starts starts
           :waits (stuck/waits-of snapshot (map :id waiting))})))))

(defn- because [snapshot]
  (str "no thread runs, no timer is pending and none waits for input; what is outside of the JVM's threads could still act, such as a signal"
       (when (others/asked-inside? snapshot) ", and so could the thread that asks")))

(defn- sentence [n {:keys [text]}]
  (str (if (= 1 n) "The only fiber or thread waits" (str "All " n " fibers and threads wait")) ", and nothing is left that could end a wait: " text))

(defn- of-program
  "The finding about the standstill of the program, if all these checks show the same one; nil if the cycles in `reported` explain it."
  [checks reported]
  (when (and (every? some? checks) (apply = (map :waits checks)))
    (let [{:keys [snapshot starts waits]} (peek checks)]
      (when-some [finding (longest-chain snapshot reported starts)]
        (assoc finding
               :kind :standstill
               :of :program
               :grade :likely
               :because (because snapshot)
               :text (sentence (count waits) finding))))))

;; ---- all

(defn- ids-of [findings]
  (into #{} (mapcat #(map :id (:chain %))) findings))

(defn deadlocks
  "What `magnetar.inspect/deadlocks` returns: the cycles of waits, and the standstills that they do not explain, of the program or else of scopes. The snapshot
  is the first of several."
  [snapshot]
  (let [cycles (stuck/lasting-deadlocks snapshot)
        reported (ids-of cycles)
        first (program snapshot)]
    (if-some [found (when first (of-program (stuck/sampled first #(program (stuck/with-edges))) reported))]
      (conj cycles found)
      (into cycles (enclosed/found snapshot reported)))))
