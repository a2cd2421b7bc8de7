(ns magnetar.impl.inspect.tree
  "Trees of what belongs to what: applications, supervisors, processes, scopes, forks and go blocks."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.inspect.awaited :as awaited]
   [magnetar.impl.inspect.stacks :as stacks]))

(set! *warn-on-reflection* true)

;; ---- the tree

(defn- kind [{:keys [kind application overview]}]
  (cond
    application :application
    overview :supervisor
    :else kind))

(defn- words-of
  "What the node waits for, in words; nil if it runs or is a scope."
  [snapshot {:keys [wait calls] :as node}]
  (if (and wait calls)
    (str "answer of " (get-in snapshot [:nodes [:process calls] :name]))
    (or (stacks/socket snapshot node) (awaited/short-words snapshot node))))

(defn heading
  "What the node is."
  [{:keys [id name application] :as node}]
  {:id id :kind (kind node) :name (if application (str application) name)})

(defn described
  "The node as plain data, without what belongs to it."
  [snapshot {:keys [messages wait] :as node}]
  (let [{:keys [since-ms left-ms]} wait
        words (words-of snapshot node)]
    (cond-> (heading node)
      words (assoc :waits-for words)
      (:thread node) (assoc :at (stacks/line snapshot node))
      since-ms (assoc :since-ms since-ms)
      (number? left-ms) (assoc :left-ms left-ms)
      messages (assoc :messages messages))))

(defn- alike
  "A value that is equal for nodes that are alike."
  [by-owner {:keys [id kind name wait]}]
  (if (by-owner id) id [kind name (:why wait)]))

(defn- more
  "The row that stands for these nodes beyond the limit, which are alike."
  [snapshot [{:keys [name] :as node} :as nodes]]
  (let [words (words-of snapshot node)]
    (cond-> {:kind (kind node) :name name :more (count nodes)}
      words (assoc :waits-for words))))

(defn- order [{:keys [kind id]}]
  [(.indexOf [:process :scope :fork :go :fiber :thread] kind) (pr-str id)])

(defn- in-order
  "The groups in the order of their first nodes. The order of each is computed once."
  [groups]
  (map second (sort-by first (map (juxt (comp order first) identity) groups))))

(def ^:private most-levels
  "How many levels of a tree are shown, so that a deep one overflows no stack, neither here nor where it is printed or read."
  100)

(defn- levels
  "How many levels there are from the one of these nodes on."
  [by-owner nodes]
  (count (take-while seq (iterate (fn [nodes] (into [] (mapcat #(by-owner (:id %))) nodes)) nodes))))

(declare subtrees)

(defn- below
  "The subtrees below the node, which is on this level. Below the last level that is shown, one row stands for all others."
  [{:keys [by-owner] :as context} level {:keys [id]}]
  (when-some [nodes (seq (by-owner id))]
    (if (< (long level) (long most-levels))
      (subtrees context (inc (long level)) nodes)
      [{:kind (kind (first nodes)) :name ".." :levels (levels by-owner nodes)}])))

(defn- shown
  "The tree of the node, which is on this level."
  [{:keys [snapshot] :as context} level node]
  (let [below (below context level node)]
    (cond-> (described snapshot node) below (assoc :children below))))

(defn- subtrees [{:keys [snapshot by-owner limit] :as context} level nodes]
  (into []
        (mapcat (fn [group]
                  (let [[first rest] (split-at limit group)]
                    (cond-> (mapv #(shown context level %) first)
                      (seq rest) (conj (more snapshot rest))))))
        (in-order (vals (group-by #(alike by-owner %) nodes)))))

(defn- root? [{:keys [nodes]} {:keys [owner]}]
  (not (contains? nodes owner)))

(def usual-limit
  "How many nodes that are alike are shown below each, unless the caller gives another number."
  20)

(defn tree
  "The trees of the snapshot, with at most `limit` nodes that are alike below each."
  [{:keys [nodes] :as snapshot} limit]
  (let [{roots true owned false} (group-by #(root? snapshot %) (remove :ended (vals nodes)))]
    (subtrees {:snapshot snapshot :by-owner (group-by :owner owned) :limit limit} 1 roots)))

;; ---- as text

(def ^:private words-of-kind
  {:application "application" :supervisor "supervisor" :scope "scope" :thread "thread"})

(defn title
  "The name of the node, after its kind if the name does not begin with that."
  [{:keys [kind name more levels]}]
  (if levels
    (str name " " levels (if (= 1 levels) " level" " levels") " more")
    (str (when-some [word (words-of-kind kind)] (when-not (str/starts-with? name word) (str word " "))) name (when more (str ", " more " more")))))

(defn seconds
  "The time in words."
  [ms]
  (if (< (long ms) 1000) (str ms " ms") (format "%.1f s" (/ (long ms) 1e3))))

(defn lost
  "Why another node is not connected any more, in words."
  [why]
  (case why
    :left "has left"
    :disconnected "was disconnected"
    "was lost"))

(defn doing
  "What the node waits for, where, and for how long; or that it runs."
  [{:keys [kind waits-for at since-ms left-ms messages more levels]}]
  (str (cond
         waits-for waits-for
         (or more levels (= :scope kind)) nil
         :else "runs")
       (when at (str " at " at))
       (when since-ms (str ", for " (seconds since-ms)))
       (when left-ms (str ", " (seconds left-ms) " left"))
       (when (and messages (pos? (long messages))) (str ", " messages (if (= 1 messages) " message" " messages")))))

(defn- siblings? [x]
  (or (nil? x) (sequential? x)))

(defn- node? [{:keys [kind name children] :as x}]
  (and (map? x) (keyword? kind) (string? name) (siblings? children)))

(defn no-node
  "[x] for an x among these trees that is no node of a tree, or that is in the place of siblings; nil without one."
  [trees]
  (if (siblings? trees)
    (loop [left (into () trees)]
      (when-some [[node & more] (seq left)]
        (if (node? node)
          (recur (into more (:children node)))
          [node])))
    [trees]))

(defn- rows
  "[indented title, what it does] of the trees, which may be deep."
  [trees]
  (loop [left (map #(vector "" %) trees), rows []]
    (if-some [[[indent {:keys [children] :as tree}] & more] (seq left)]
      (recur (into more (map #(vector (str indent "  ") %)) (reverse children))
             (conj rows [(str indent (title tree)) (doing tree)]))
      rows)))

(defn text
  "The trees as text, a line for each node."
  [trees]
  (let [rows (rows trees)
        width (max 1 (min 60 (long (transduce (map (comp count first)) max 0 rows))))]
    (str/join "\n" (map (fn [[title doing]] (str/trimr (format (str "%-" width "s  %s") title doing))) rows))))
