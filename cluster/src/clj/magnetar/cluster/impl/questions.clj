(ns magnetar.cluster.impl.questions
  "Answers what `bin/magnetar cluster` and `bin/magnetar inspect --nodes` ask this program. Not asked by other nodes."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.cluster.impl.status :as status]
   [magnetar.cluster.impl.trees :as trees]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang ExceptionInfo)
   (magnetar TimeoutException)))

(set! *warn-on-reflection* true)

(def ^:private leave-ms
  "How long a leave may take before the answer says that it goes on."
  20000)

(defn- leave
  "Leaves the cluster: {:left true}, or {:left :late}. A supervisor may start the membership again, which adds :again true."
  []
  (let [left (try
               (gs/stop hub/server-name :normal {:timeout leave-ms})
               true
               (catch TimeoutException _ :late)
               (catch ExceptionInfo _ended-already true))]
    (cond-> {:left left}
      (and (true? left) (actor/whereis hub/server-name)) (assoc :again true))))

(defn answer
  "The answer to \"status\", \"trees\" or \"leave\": a map with the :node, and what was asked for; nil if this program is in no cluster."
  [question]
  (when-some [state (status/now)]
    (case question
      "status" state
      "trees" (assoc state :trees (trees/of-others))
      "leave" (merge (select-keys state [:node]) (leave))
      nil)))
