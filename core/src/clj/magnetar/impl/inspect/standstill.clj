(ns magnetar.impl.inspect.standstill
  "A program that is at a standstill: all its fibers, processes and threads wait, and nothing is left that can wake one.

  Known edges need not lead in a circle for that. A put waits although the one that took from the channel has ended. What could still act is looked for
  first, so a program that works costs one look at its timers or at its nodes. No stack is read before all nodes wait."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.edges :as edges]
   [magnetar.impl.inspect.enclosed :as enclosed]
   [magnetar.impl.inspect.others :as others]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.inspect.stuck :as stuck]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.channel Channel)
   (magnetar.kernel.inspect RuntimeInfo)))

(set! *warn-on-reflection* true)

;; ---- what could still act

(defn- asks? [{:keys [thread]}]
  (identical? thread (Thread/currentThread)))

(defn- lasts?
  "Has the node waited long enough, without a time limit? A process without a thread waits if it has no message."
  [{:keys [thread messages] {:keys [since-ms left-ms limit-ms] :as wait} :wait}]
  (and wait
       (nil? left-ms)
       (nil? limit-ms)
       (if since-ms (<= (long others/least-ms) (long since-ms)) true)
       (or (some? thread) (zero? (long messages)))))

(defn- acts?
  "May the node be one that acts? Scopes and pools do not."
  [{:keys [kind thread]}]
  (or (some? thread) (= :process kind)))

(defn- parts
  "What is to wait: {:waiting nodes, :others the platform threads among the nodes that do not}; nil if another node does not wait."
  [snapshot]
  (reduce (fn [parts {:keys [^Thread thread] :as node}]
            (cond
              (or (asks? node) (not (acts? node))) parts
              (lasts? node) (update parts :waiting conj node)
              (and thread (not (.isVirtual thread))) (update parts :others conj (.threadId thread))
              :else (reduced nil)))
          {:waiting [] :others #{}}
          (vals (:nodes snapshot))))

(defn- in-io? [snapshot {:keys [wait] :as node}]
  (and (= :park (:why wait)) (stacks/in? snapshot node "sun.nio.")))

(defn- others-quiet?
  "Are all threads quiet that are not among the waiting nodes, except for the one that asks?"
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
  "Does the node wait for its forks, or for the result of a go block?"
  [snapshot {:keys [id wait]}]
  (let [{:keys [why on]} wait]
    (case why
      (:fork-join :scope-join) true
      :channel-take (and (instance? Channel on) (some? (.finisher ^Channel on))) ; asked of each idle worker, so without its edges
      :select (boolean (seq (edges/decisive snapshot id)))
      false)))

(defn- forks-of
  "The ids of the forks for which the node waits as the owner of their scope."
  [snapshot {:keys [id wait]}]
  (when (= :scope-join (:why wait))
    (map :to (edges/of snapshot id))))

(defn- starts
  "The ids of the nodes that wait to go on. A join may wait for a thread of the program that asks, so then no join counts."
  [snapshot nodes]
  (let [pressing (map :id (filter #(stuck/pressing? snapshot %) nodes))
        joins (when-not (others/asked-inside? snapshot) (filter #(joins? snapshot %) nodes))]
    (into [] (distinct) (concat pressing (map :id joins) (mapcat #(forks-of snapshot %) joins)))))

(def ^:private for-work
  "Waits for something that may come at any time, or never, without a fault."
  #{:mailbox :mailbox-or-channels :channel-take :select :condition :park})

(defn- counts?
  "Does the way lead to a fault? The way of a join does not if it ends with a wait for work."
  [snapshot reported {:keys [chain]}]
  (let [end (peek chain)
        node #(get-in snapshot [:nodes (:id %)])]
    (and (not-any? reported (map :id chain))
         (or (stuck/pressing? snapshot (node (first chain)))
             (:edge end)
             (not (for-work (:why (:wait (node end)))))))))

(def ^:private most-ways
  "How many ways are compared to find the longest one."
  100)

(defn- longest-way
  "The longest way from one of these nodes that counts; nil without one."
  [snapshot reported ids]
  (when-some [ways (seq (filter #(counts? snapshot reported %) (map #(stuck/why snapshot %) (take most-ways ids))))]
    (apply max-key (comp count :chain) ways)))

;; ---- the program

(defn- program
  "The program as it is in this snapshot, {:snapshot .. :starts ids :waits ..}; nil if it is at no standstill."
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
  "The standstill of the program, if these checks show the same one; nil if the cycles explain it."
  [checks reported]
  (when (and (every? some? checks) (apply = (map :waits checks)))
    (let [{:keys [snapshot starts waits]} (peek checks)]
      (when-some [way (longest-way snapshot reported starts)]
        (assoc way
               :kind :standstill
               :of :program
               :grade :likely
               :because (because snapshot)
               :text (sentence (count waits) way))))))

;; ---- all

(defn- ids-of [findings]
  (into #{} (mapcat #(map :id (:chain %))) findings))

(defn deadlocks
  "The cycles of waits, and the standstills that they do not explain: the standstill of the program, or the standstills of scopes. The snapshot is the first of several."
  [snapshot]
  (let [cycles (stuck/lasting-deadlocks snapshot)
        reported (ids-of cycles)
        first (program snapshot)]
    (if-some [found (when first (of-program (stuck/sampled first #(program (stuck/with-edges))) reported))]
      (conj cycles found)
      (into cycles (enclosed/found snapshot reported)))))
