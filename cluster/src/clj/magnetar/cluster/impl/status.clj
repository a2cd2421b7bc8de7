(ns magnetar.cluster.impl.status
  "What this node knows of the others: which are connected and since when, which were lost or refused, how much waits for each.

  The server of the membership writes it, and any thread reads it without a call, so it is told also when that server is stuck."
  {:no-doc true}
  (:require
   [magnetar.etf :as etf]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime])
  (:import
   (java.util.function Supplier)
   (magnetar.cluster.wire Streams)
   (magnetar.kernel.fiber PerEnvironment)
   (magnetar.kernel.network Member Network)
   (magnetar.kernel.process Peer Peers)))

(set! *warn-on-reflection* true)

;; A map of each node of a simulation, and of this JVM:
;;   :began    when the membership began, in nanoseconds, as all times here
;;   :network  the network
;;   :hub      the process that has joined it
;;   :streams  the streams to the others
;;   :codec    how values are written for them
;;   :refused  an atom: from the name of a member to its id and why it was not let in
;;   :since    from the name of a connected node to when it was connected
;;   :lost     from the name of a node to {:at when :why :left or :lost, if it is known}
;;   :silent   from the name of a node to the first question that it has not answered
;;   :agreement  what the server of the leader has shown: :until, when this node stops to be active, and what `now` tells
(defonce ^:private ^PerEnvironment here (PerEnvironment/of (reify Supplier (get [_] (atom nil)))))

(defn- known []
  (.current here))

(def ^:private most-lost
  "How many lost nodes are remembered."
  32)

;; ---- writing

(defn begin
  "The membership begins, over this network."
  [network]
  (reset! (known) {:began (clock/now) :network network :since {} :lost {} :silent {}})
  nil)

(defn end
  "The membership has ended."
  []
  (reset! (known) nil)
  nil)

(defn keep-hub
  "The process joins the network, and leaves it when it ends."
  [hub]
  (swap! (known) #(when % (assoc % :hub hub)))
  nil)

(defn hub
  "The process that has joined the network, and may still leave it; or nil."
  []
  (:hub @(known)))

(defn keep-streams
  "The hub has these streams, whose codec it is, and keeps in the atom which members were refused."
  [streams codec refused]
  (swap! (known) #(when % (assoc % :streams streams :codec codec :refused refused)))
  nil)

(defn keep-agreement
  "What this node has agreed on with the others: see `now`, and instead of :active the time :until which it is."
  [agreement]
  (swap! (known) #(when % (assoc % :agreement agreement)))
  nil)

(defn- youngest
  "The last ones of the lost nodes."
  [lost]
  (if (< (long most-lost) (count lost))
    (dissoc lost (key (apply min-key (comp :at val) lost)))
    lost))

(defn- after-event [state [what node why] now]
  (case what
    :up (-> state (update :since assoc node now) (update :lost dissoc node))
    :down (-> state
              (update :since dissoc node)
              (update :silent dissoc node)
              (update :lost #(youngest (assoc % node (cond-> {:at now} why (assoc :why why))))))
    state))

(defn note
  "An event of the hub, such as [:up node]."
  [event]
  (let [now (clock/now)]
    (swap! (known) #(when % (after-event % event now))))
  nil)

(defn note-answer
  "The node has answered, or not, what it was asked at this time."
  [node answered? at]
  (swap! (known) (fn [state]
                   (cond
                     (nil? state) nil
                     answered? (update state :silent dissoc node)
                     :else (update-in state [:silent node] (fnil min at) at))))
  nil)

;; ---- reading

(defn work
  "The function that does what another node wants, as [symbol & arguments]; throws why not."
  [what]
  (if-some [^Streams streams (:streams @(known))]
    (.work streams nil what)
    (throw (ex-info "This node has left its cluster." {}))))

(defn check-value
  "Throws if the value cannot be written for other nodes."
  [value]
  (when-some [codec (:codec @(known))]
    (etf/encode codec value))
  nil)

(defn- ms-since [at]
  (quot (- (clock/now) (long at)) 1000000))

(defn silent-ms
  "For how long the node has not answered; nil if it does."
  [node]
  (some-> (get-in @(known) [:silent node]) ms-since))

(defn- queued
  "How many bytes wait for the node; nil if the connection has ended meanwhile."
  [^Streams streams ^Peer peer]
  (when-some [connection (.connection peer)]
    (let [n (.queued streams connection)]
      (when-not (neg? n) n))))

(defn- connected [{:keys [since streams silent]} ^Peer peer]
  (let [node (.name peer)
        at (since node)
        bytes (when streams (queued streams peer))
        unanswered (silent node)]
    (cond-> {:node node}
      at (assoc :since-ms (ms-since at))
      bytes (assoc :queued bytes)
      unanswered (assoc :silent-ms (ms-since unanswered)))))

(defn- lost [connected [node {:keys [at why]}]]
  (when-not (connected node)
    (cond-> {:node node :since-ms (ms-since at)} why (assoc :why why))))

(defn- refusals
  "Of the members that are in the network still."
  [^Network network refused]
  (let [there (into #{} (map #(.id ^Member %)) (some-> (.view network) .members))]
    (sort-by :node (for [[node [id why]] refused :when (there id)]
                     {:node node :why why}))))

(defn- agreed [{:keys [until] :as agreement}]
  (-> (dissoc agreement :until)
      (assoc :active (< (clock/now) (long until)))))

(defn now
  "What is known: {:node this one's name :address :since-ms :agreement :nodes :lost :refused}, the last three vectors of maps with :node. nil in
  no cluster. :agreement is nil for a moment after the start, then {:active :split-brain :members :leader :incompatible :slow :unkept}: names of
  nodes, a map from names to the :split-brain of each, {:node :took-ms} of a node that answers too late, and the names of singletons, as
  text, that the leader does not keep."
  []
  (when-some [{:keys [^Network network began refused agreement] :as state} (when (not= Peers/NO_NAME (Peers/name)) @(known))]
    (let [nodes (mapv #(connected state %) (nodes/peers-of-cluster))]
      {:node (Peers/name)
       :address (.address network)
       :since-ms (ms-since began)
       :agreement (some-> agreement agreed)
       :nodes nodes
       :lost (vec (sort-by :node (keep #(lost (set (map :node nodes)) %) (:lost state))))
       :refused (vec (some->> refused deref (refusals network)))})))
