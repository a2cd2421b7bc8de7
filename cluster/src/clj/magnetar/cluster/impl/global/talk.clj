(ns magnetar.cluster.impl.global.talk
  "Messages between the servers of global names, and waits for answers to them."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [self]]
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Send)))

(set! *warn-on-reflection* true)

(def server-name
  "The name of the server on each node."
  :magnetar.cluster/global)

(defn message
  "What another server gets."
  [content]
  [::message (self) content])

(defn peer
  "The pid of the server of the node, if that has greeted this one."
  [state node]
  (get-in state [:peers node :pid]))

(defn peers
  "The nodes whose servers have greeted this one."
  [state]
  (keys (:peers state)))

(defn- address
  "Where the server of the node is found, if that has greeted this one, or this one has greeted it."
  [{:keys [greeted] :as state} node]
  (or (peer state node)
      (when (contains? greeted node) [server-name node])))

(defn tell-strictly
  "Sends the content to the server of the node, if one of the two has greeted the other. Throws if it cannot be written. It does not wait for
  room in the queue to that node, since the other nodes would wait too."
  [state node content]
  (some-> (address state node) address/target (Send/signal (message content))))

(defn tell
  "The same; what cannot be written is reported. Returns true if it was written."
  [state node content]
  (try
    (tell-strictly state node content)
    true
    (catch Exception e
      (reports/report "a global name that other nodes cannot be told" e)
      false)))

(defn listeners
  "The nodes that know the claims of this one, or are just told them."
  [{:keys [greeted] :as state}]
  (into greeted (peers state)))

(defn tell-all
  "Sends the content to all nodes that know the claims of this one, or are just told them."
  [state content]
  (run! #(tell state % content) (listeners state)))

;; ---- waits

(defn acknowledged
  "The state when the node has answered what the reference stands for. After the last answer it is what the wait's function makes of it."
  [state ref node]
  (if-some [{:keys [left then]} (get-in state [:waits ref])]
    (let [left (disj left node)]
      (if (seq left)
        (assoc-in state [:waits ref :left] left)
        (then (update state :waits dissoc ref))))
    state))

(defn wait-for
  "The state that waits for answers of the nodes to the reference. When each has answered or is lost, the state is (then state)."
  [state nodes ref then]
  (if (seq nodes)
    (assoc-in state [:waits ref] {:left (set nodes) :then then})
    (then state)))

(defn- ask
  "Sends the content with the reference to the nodes, and a second message behind it. By that a node notices that it
  could not read the first. Returns the nodes that it was written for."
  [state nodes ref content]
  (filterv #(and (tell state % content) (tell state % [:asked ref])) nodes))

(defn tell-and-wait
  "Sends (content ref) to the nodes, and waits for the answers of all that can read it."
  [state nodes content then]
  (let [ref (actor/make-ref)]
    (wait-for state (ask state nodes ref (content ref)) ref then)))

(defn tell-all-and-wait
  "The same for all nodes, of which the peers have to answer."
  [state content then]
  (let [ref (actor/make-ref)
        asked (ask state (listeners state) ref (content ref))]
    (wait-for state (filter #(peer state %) asked) ref then)))

(defn lost
  "The state without the node in any wait."
  [state node]
  (reduce #(acknowledged %1 %2 node) state (keys (:waits state))))
