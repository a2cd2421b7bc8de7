(ns magnetar.impl.inspect.grades
  "Edges of cycles that another fiber may end: one that can answer the call, or can cancel the scope.

  The kernel knows whom a process calls, but the callee may give the call to another process, which answers it. And a
  scope is cancelled by any fiber that has it. So an edge over a call or a scope is only likely if the local variables of a
  fiber that may still go on lead to the reference of the call, or to the scope."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.inspect.edges :as edges]
   [magnetar.impl.inspect.reach :as reach]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.runtime])
  (:import
   (java.util IdentityHashMap)
   (magnetar.kernel.inspect Locals$Frame)
   (magnetar.kernel.scope Scope)))

(set! *warn-on-reflection* true)

(defn- handles
  "The objects with which any fiber can end the wait of this node that the edge describes: references and scopes."
  [snapshot id {:keys [how]}]
  (let [{{:keys [on]} :wait :as node} (get-in snapshot [:nodes id])]
    (case how
      :call (edges/refs-of-answer snapshot node)
      :fork (when (instance? Scope on) [on])
      nil)))

(defn- locals-of-program
  "The objects in the local variables of the node, without the local variables of the kernel's own methods."
  [snapshot node]
  (for [^Locals$Frame frame (:frames (stacks/of snapshot node))
        :when (not (str/starts-with? (.getClassName ^StackTraceElement (.at frame)) "magnetar.kernel."))
        x (.objects frame)]
    x))

(defn holders
  "From each handle of these cycles to the name of a node that holds it, and that is not one of the ids in `stuck`."
  ^IdentityHashMap [{:keys [nodes] :as snapshot} stuck cycles]
  (let [wanted (IdentityHashMap.)
        found (IdentityHashMap.)]
    (doseq [{:keys [ids edges]} cycles, [id edge] (map vector ids edges), handle (handles snapshot id edge)]
      (.put wanted handle true))
    (when-not (.isEmpty wanted)
      (doseq [{:keys [id thread name] :as node} (take edges/most-read (vals nodes))
              :when (and thread (not (stuck id)))
              handle (reach/found (locals-of-program snapshot node) #(.containsKey wanted %))]
        (.put found handle name)))
    found))

(defn- lower [snapshot ^IdentityHashMap holders id {:keys [how because] :as edge}]
  (if-some [holder (some #(.get holders %) (handles snapshot id edge))]
    (assoc edge
           :grade :likely
           :because (str because ", but the local variables of " holder " lead to "
                         (if (= :call how) "the client, so it may answer" "that scope, so it may cancel it")))
    edge))

(defn lowered
  "The cycle, where each edge is only likely whose wait a node among the `holders` may end."
  [snapshot holders {:keys [ids] :as cycle}]
  (update cycle :edges #(mapv (partial lower snapshot holders) ids %)))
