(ns magnetar.cluster.impl.global.question
  "What processes ask the servers of global names on their node and on others.

  A node cannot read every value. It drops such a request, and no answer comes. So a second question follows each request
  to another node, which every node can read. The answers to both are in order: when the second one is answered, the first
  one was answered before, waits there, or was not read."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.cluster.impl.global.talk :as talk]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]))

(set! *warn-on-reflection* true)

(defn- ask-elsewhere
  "Sends the request to the server of another node."
  [node request]
  (let [ref (actor/make-ref)
        server [talk/server-name node]]
    (try
      {:request (gs/send-request server (conj request ref))
       :read (gs/send-request server [:waiting? ref])}
      (catch RuntimeException e ; it cannot be written
        {:answer [:error (str "it cannot be sent to the node " node ": " (ex-message e))]}))))

(defn- ask-one [node request]
  (if (= node (address/node))
    {:request (gs/send-request talk/server-name request)}
    (ask-elsewhere node request)))

(defn- value [[how x]]
  (when (= :reply how) x))

(defn- answer
  "The answer of the node, [:error why] if the request cannot be sent there or read there; nil if the node gives none."
  [node {:keys [answer request read]}]
  (cond
    answer answer
    (or (nil? read) (not (false? (value (gs/receive-response read))))) (value (gs/receive-response request))
    :else (let [outcome (gs/receive-response request {:timeout 0 :else nil})]
            (if outcome
              (value outcome)
              [:error (str "the node " node " cannot read it.")]))))

(defn ask
  "Asks the servers of the nodes, and waits for the answers: pairs of a node and its answer, of the nodes that give one.
  The answer is [:error why] of a node that the request cannot be sent to, or that cannot read it."
  [nodes request]
  (proc-lib/in-process
    #(let [asked (mapv (fn [node] [node (ask-one node request)]) nodes)
           answers (mapv (fn [[node sent]] [node (answer node sent)]) asked)]
       (filterv (comp some? second) answers))))
