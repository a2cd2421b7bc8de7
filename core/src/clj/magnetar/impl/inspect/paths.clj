(ns magnetar.impl.inspect.paths
  "The tree of threads by their names: the thread of a process of OTP is named by the path to it, as :shop/:tills/:till-3."
  {:no-doc true}
  (:require
   [clojure.string :as str]))

(set! *warn-on-reflection* true)

(defn- parent
  "The longest of these names that is a path to this name; nil without one. A name in the path may contain slashes itself."
  [names name]
  (loop [path name]
    (when-some [end (str/last-index-of path "/")]
      (let [path (subs path 0 end)]
        (if (names path) path (recur path))))))

(defn- parents-of
  "From each of these names to its parent. A name without a parent among them is left out."
  [names]
  (into {} (keep (fn [name] (when-some [parent (parent names name)] [name parent]))) names))

(defn- row [{:keys [parents describe]} {:keys [name] :as thread}]
  (let [parent (parents name)]
    (assoc (describe thread) :name (if parent (subs name (inc (count parent))) name))))

(declare siblings)

(defn- with-children
  "The row of the thread. If several threads have the same path, the first one has the children."
  [{:keys [first-of] :as context} {:keys [name] :as thread}]
  (let [children (when (identical? thread (first-of name)) (siblings context name))]
    (cond-> (row context thread) (seq children) (assoc :children children))))

(defn- rows
  "The rows of siblings that are alike. One row stands for all beyond the limit."
  [{:keys [limit] :as context} alike]
  (let [[shown rest] (split-at limit alike)]
    (cond-> (mapv #(with-children context %) shown)
      (seq rest) (conj (assoc (dissoc (row context (first rest)) :id) :more (count rest))))))

(defn- siblings [{:keys [by-parent] :as context} parent]
  (let [alike (vals (group-by #(dissoc (row context %) :id) (by-parent parent)))]
    (into [] (mapcat #(rows context %)) (sort-by (comp :name first) alike))))

(defn tree
  "The trees of the threads that are on a path, or for which (program? thread) is true, in the form of `tree/tree`. (describe thread) is a row without children.
  At most `limit` siblings that are alike are shown."
  [threads limit program? describe]
  (let [parents (parents-of (into #{} (map :name) threads))
        on-path? (into (set (keys parents)) (vals parents))
        shown (filterv #(or (on-path? (:name %)) (program? %)) threads)]
    (siblings {:parents parents
               :by-parent (group-by (comp parents :name) shown)
               :first-of (into {} (map (juxt :name identity)) (rseq shown))
               :limit limit
               :describe describe}
              nil)))
