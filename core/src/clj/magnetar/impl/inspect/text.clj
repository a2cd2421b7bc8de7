(ns magnetar.impl.inspect.text
  "Findings about waits in one sentence."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.inspect.awaited :as awaited]
   [magnetar.impl.inspect.edges :as edges]
   [magnetar.impl.inspect.locks :as locks]
   [magnetar.impl.inspect.stacks :as stacks]))

(set! *warn-on-reflection* true)

(defn- named [snapshot id]
  (get-in snapshot [:nodes id :name]))

(defn- at [snapshot id]
  (if-some [line (stacks/line snapshot (get-in snapshot [:nodes id]))]
    (str " at " line)
    ""))

(defn- waits [snapshot id]
  (str "waits" (at snapshot id)))

(defn- kind-of-lock [lock]
  (let [^Class of (class lock)]
    (awaited/with-article (.getSimpleName ^Class (or (.getEnclosingClass of) of)))))

(defn- read-or-write
  "Which of the two locks of a ReentrantReadWriteLock the node waits for; nil for another lock."
  [snapshot {:keys [thread] {:keys [on]} :wait}]
  (when (locks/read-write? on)
    (str (if (locks/shared? snapshot thread on) "the read lock" "the write lock") " of a ReentrantReadWriteLock")))

(defn- of-lock
  "What the node waits for at a lock that another node holds, for reading or for writing."
  [snapshot id synchronizer purpose other]
  (let [node (get-in snapshot [:nodes id])]
    (if-some [lock (read-or-write snapshot node)]
      (str "for " lock " that " other " holds for " purpose)
      (if-some [words (awaited/words snapshot node)]
        (str words " whose inner lock " other " holds")
        (str "for " (kind-of-lock synchronizer) " of " other)))))

(defn- kind-of-monitor [[class-name]]
  (awaited/with-article (last (str/split class-name #"\."))))

(defn- connections [snapshot id]
  (let [n (count (get-in snapshot [:nodes id :object :taken]))]
    (if (= 1 n) "connection is" (str n " connections are"))))

(defn- held
  "The clause about the holders of a pool's connections, such as \"whose 4 connections are held, one by go shop.clj:7\"."
  [snapshot id]
  (let [{:keys [to taken-at] :as edge} (first (edges/of snapshot id))
        several? (next (get-in snapshot [:nodes id :object :taken]))]
    (str "whose " (connections snapshot id) " held" (when (and edge several?) ", one")
         " by " (if edge (named snapshot to) (if several? "threads that are not known" "a thread that is not known"))
         (when taken-at (str " since " taken-at)))))

(def ^:private most-others
  "How many of the nodes that can reach what is waited for are named."
  4)

(defn- reached
  "Who can reach what a node waits for, such as \"that go shop.clj:7 can reach\"; or who may own it."
  ([snapshot edge] (reached snapshot edge "can reach"))
  ([snapshot {:keys [to any]} can]
   (if to
     (str "that " (named snapshot to) " " can)
     (let [[shown rest] (split-at most-others any)]
       (str "that " (count any) " others " can ": "
            (str/join ", " (for [id shown] (str (named snapshot id) (at snapshot id))))
            (when (seq rest) (str " and " (count rest) " more")))))))

(defn- locked
  "What the node waits for at a lock or a monitor."
  [snapshot id {:keys [to how object] :as edge}]
  (let [other (named snapshot to)]
    (case how
      :lock (of-lock snapshot id object "writing" other)
      :read-lock (of-lock snapshot id object "reading" (if (= id to) "it" other))
      :queue (str "for " (read-or-write snapshot (get-in snapshot [:nodes id])) " behind " other)
      :monitor (str "for the monitor of " (kind-of-monitor object) " of " other)
      :hidden (str "for the monitor of " (if object (kind-of-monitor object) "an object") " " (reached snapshot edge "may own")))))

(defn- of-thread-pool
  "A pool of threads as the node sees it, such as \"its own pool, whose 2 threads all wait\"."
  [snapshot id {:keys [to]}]
  (let [threads (edges/of snapshot id)
        n (count threads)]
    (str (if (some #(= id (:to %)) threads) "its own pool" (str "the pool of " (named snapshot to)))
         (if (= 1 n) ", whose only thread waits" (str ", whose " n " threads all wait")))))

(defn clause
  "The clause for a node with this edge, such as \"calls :stock at shop.clj:21\"."
  [snapshot id {:keys [to how] :as edge}]
  (let [other (named snapshot to)
        waits (waits snapshot id)]
    (case how
      :call (str "calls " other (at snapshot id))
      :start (str "has started " other " and " waits " until it is ready")
      :reply (str waits " for a message of " other ", which it monitors")
      :end (str waits " for the end of " other)
      :room (str waits " for room in the mailbox of " other)
      :fork (str waits " for " other)
      :result (str waits " for the value of " other)
      :work (str waits " for its offloaded work on " other)
      (:lock :read-lock :queue :monitor :hidden) (str waits " " (locked snapshot id edge))
      :answer (str waits " for the answer of " other)
      :future (str waits " for a future that " other " computes")
      :worker (str waits " for a future that is in the queue of " (of-thread-pool snapshot id edge))
      :thread (str waits " for the end of " other)
      :awaited (str waits " " (awaited/words snapshot (get-in snapshot [:nodes id])) " " (reached snapshot edge))
      :connection (str waits " for a connection of " other)
      :held (held snapshot id)
      :put (str waits " to take from a channel " (reached snapshot edge))
      :take (str waits " to put on a channel " (reached snapshot edge))
      :tap (str waits " for a tap " (reached snapshot edge)))))

(def ^:private option-for-owners " (--add-opens java.base/java.util.concurrent.locks=ALL-UNNAMED shows it)")
(def ^:private option-for-monitors " (--add-opens java.base/java.lang=ALL-UNNAMED shows it)")

(defn- lock-alone
  "What the node waits for at a lock whose owner is not known."
  [snapshot {{:keys [words on]} :wait :as node}]
  (str "for " (or (read-or-write snapshot node) words) (when (locks/hides-owner? on) (str ", whose owner the JVM does not show" option-for-owners))))

(defn- for-what
  "What a node without an edge waits for, such as \"for a message\"."
  [snapshot {{:keys [why words]} :wait :as node}]
  (case why
    :lock (or (awaited/words snapshot node) (lock-alone snapshot node))
    :monitor (str "for " words (when (locks/hides-monitors?) (str ", whose owner the JVM does not show" option-for-monitors)))
    :channel-take (if (edges/taps-of snapshot node) "for a tap from which nothing takes" "to take from a channel")
    :channel-put "to put on a channel"
    :select "for one of several channels"
    :mailbox "for a message"
    :mailbox-or-channels "for a message or a channel"
    :callback "for a callback"
    :suspended "to be resumed"
    (or (awaited/words snapshot node) (str "for " words))))

(defn- alone
  "The clause for a node without an edge."
  [snapshot id]
  (let [node (get-in snapshot [:nodes id])
        {:keys [left-ms] :as wait} (:wait node)]
    (cond
      (= :pool (:kind node)) (held snapshot id)
      (stacks/socket snapshot node) (str (waits snapshot id) " for " (stacks/socket snapshot node))
      (:ended node) "has ended"
      (nil? wait) (str "runs" (at snapshot id))
      (number? left-ms) (str (waits snapshot id) " " (for-what snapshot node) ", for " left-ms " ms more")
      :else (str (waits snapshot id) " " (for-what snapshot node)))))

(defn- joined [clause]
  (if (str/starts-with? clause "whose ") clause (str "which " clause)))

(def ^:private most-clauses
  "The most clauses of a sentence in which none is left out."
  8)

(def ^:private clauses-at-ends
  "How many clauses of a longer sentence are told from its beginning, and as many from its end."
  3)

(defn- clauses
  "What (clause-at i) gives for each i below n. Of many, only the first and the last ones, with how many there are between
  them."
  [n clause-at]
  (let [n (long n)
        ends (long clauses-at-ends)
        joined-at #(joined (clause-at %))]
    (if (<= n (long most-clauses))
      (cons (clause-at 0) (map joined-at (range 1 n)))
      (concat [(clause-at 0)]
              (map joined-at (range 1 ends))
              [(str ".. " (- n ends ends) " more ..")]
              (map joined-at (range (- n ends) n))))))

(defn sentence
  "The chain of these edges as a sentence. `ids` has one id more than there are edges, or as many for a cycle."
  [snapshot ids edges]
  (let [clause-at (fn [i] (if (< (long i) (count edges)) (clause snapshot (nth ids i) (nth edges i)) (alone snapshot (peek ids))))]
    (str (named snapshot (first ids)) " " (str/join ", " (clauses (count ids) clause-at)) ".")))

(defn line
  "A finding in one line, with its grade if that is not exact."
  [{:keys [text grade behind]}]
  (str "  " text
       (when (= :likely grade) " (likely)")
       (when (and behind (< 1 (long behind))) (str " " behind " wait for the same cause."))))

(defn- once
  "The lines. Only the first one that has this option keeps it."
  [option lines]
  (let [[before [first & after]] (split-with #(not (str/includes? % option)) lines)]
    (concat before (when first (cons first (map #(str/replace % option "") after))))))

(defn with-option-once
  "The lines of an answer. Only the first one that names an option for owners of locks or of monitors keeps it."
  [lines]
  (once option-for-monitors (once option-for-owners lines)))

(defn restarts
  "The restarts of a supervisor in a line."
  [{:keys [name restarts intensity period-ms history]}]
  (str "supervisor " name ": " restarts " of " intensity " restarts within " period-ms " ms"
       (when-some [{:keys [id reason]} (peek history)]
         (str ", the latest death: " id ", because of " reason))))
