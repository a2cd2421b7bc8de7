(ns magnetar.cluster.impl.global.request
  "Requests to register a name: each reserves the name on all connected nodes, then makes the claim.

  The node whose name sorts first is asked first. So rivals meet there, before they hold reservations that stop each
  other. A request that meets the reservation of another one gives all of its own back, and tries again after a time
  that is drawn. So no request waits while it holds what another one waits for."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! self]]
   [magnetar.cluster.impl.claims :as claims]
   [magnetar.cluster.impl.global.table :as table]
   [magnetar.cluster.impl.global.talk :as talk]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.global :as tables]
   [magnetar.impl.actor.monitors :as monitors]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang PersistentQueue)
   (magnetar.kernel.fiber Fiber)))

(set! *warn-on-reflection* true)

(declare advance start)

(def ^:private patience-ms
  "How long a request tries again if a node sees the name on a third one, with which this node is not connected. When a node is lost, its names go
  on all nodes, but not at the same time."
  3000)

(defn- active
  "The request for the name that is under way."
  [state name]
  (get-in state [:queues name :active]))

(defn- change
  "The state with the active request changed."
  [state name f & args]
  (apply update-in state [:queues name :active] f args))

;; ---- which nodes

(defn- needed
  "The nodes whose reservations a claim needs: this one, and the connected ones that have a server of names."
  [{:keys [me absent]}]
  (into (sorted-set me) (remove absent) (nodes/of-cluster)))

(defn probe
  "The state with a monitor that tells whether the node has a server of names."
  [{:keys [probes] :as state} node]
  (if (some #{node} (vals probes))
    state
    (assoc-in state [:probes (monitors/monitor-at-once [talk/server-name node])] node)))

(defn probe-unknown
  "The same for all connected nodes of which that is not known."
  [{:keys [absent] :as state}]
  (transduce (comp (remove absent) (remove #(talk/peer state %))) (completing probe) state (nodes/of-cluster)))

;; ---- reservations of this node

(defn- seen?
  "Does a process of a third node have the name, as far as is known here? The nodes that the request asks know better."
  [{:keys [me] :as state} name asks]
  (some #(and (not= me (claims/node-of %))
              (not (contains? asks (claims/node-of %)))
              (nodes/connected? (:pid %)))
        (claims/live (claims/known state name))))

(defn- reserved-by-another? [state name ref]
  (not (contains? #{nil ref} (get-in state [:reserved name :ref]))))

(defn reserve
  "[state answer] of a node that wants the name reserved: :taken by a process of this node, :seen on a third one, :busy, or the ids of the claims
  that it takes the name from by force."
  [state name {:keys [ref node force? asks]}]
  (cond
    (and (not force?) (tables/holder (@(tables/names) name))) [state :taken]
    (and (not force?) (seen? state name asks)) [state :seen]
    (reserved-by-another? state name ref) [state :busy]
    :else [(assoc-in state [:reserved name] {:ref ref :node node})
           (if force? (mapv :id (claims/known state name)) [])]))

(defn unreserve
  "The state without the reservation that the reference stands for. The name may be one that the node which has it cannot write."
  [state ref]
  (if-some [[name] (first (filter (comp #{ref} :ref val) (:reserved state)))]
    (update state :reserved dissoc name)
    state))

(defn claimed
  "The state without the reservation of the name for the node, which has made the claim."
  [state name node]
  (if (= node (get-in state [:reserved name :node]))
    (update state :reserved dissoc name)
    state))

(defn without-node
  "The state without reservations for the node, and without what it has reserved for this one."
  [state node]
  (let [without (fn [queue]
                  (-> queue (update-in [:active :granted] disj node) (update-in [:active :asked] disj node)))]
    (-> state
        (update :reserved #(into {} (remove (comp #{node} :node val)) %))
        (update :queues update-vals without))))

;; ---- the end of a request

(defn- release [{:keys [me] :as state} {:keys [ref asked]}]
  (run! #(talk/tell state % [:release ref]) (disj asked me))
  (unreserve state ref))

(defn- finish
  "The state after the active request was answered, and the next one has begun."
  [state name answer]
  (gs/reply (:from (active state name)) answer)
  (let [waiting (get-in state [:queues name :waiting])]
    (if (seq waiting)
      (start (assoc-in state [:queues name] {:active (peek waiting) :waiting (pop waiting)}) name)
      (update state :queues dissoc name))))

(defn- give-up [state name answer]
  (-> (release state (active state name))
      (finish name answer)))

(defn- pause-ms [tries]
  (inc (.random (Fiber/current) (int (min 500 (bit-shift-left 8 (min 6 (long tries))))))))

(defn- try-later [state name]
  (let [{:keys [ref tries] :as request} (active state name)]
    (actor/send-after (pause-ms tries) (self) [::again name ref])
    (-> (release state request)
        (change name assoc :paused? true :granted #{} :asked #{} :tries (inc (long tries))))))

;; ---- the claim

(defn- announce
  "Tells the claim to all peers, and answers when they have it."
  [state name ref]
  (let [told (claims/told (get-in state [:own name]))]
    (talk/tell-all-and-wait (unreserve state ref) (fn [ack] [:claim name told ack])
                            #(finish % name :yes))))

(defn- claim [state name]
  (let [{:keys [pid resolve force? over ref]} (active state name)
        answer (tables/claim name pid resolve force?)
        record (@(tables/names) name)]
    (cond
      (= :no answer) (give-up state name :no)
      (not= pid (:pid record)) (give-up state name :yes) ; it is dead
      :else (-> (change state name assoc :announced? true)
                (table/with-own name record (zipmap over (repeat nil)))
                (announce name ref)
                (table/refresh name)))))

;; ---- asking

(defn- ask-peer
  "Sends the question, and a second one behind it by which the node notices that it could not read the first. The state, or the error if the
  name cannot be written."
  [state name {:keys [ref force?]} asks node]
  (try
    (talk/tell-strictly state node [:reserve ref name force? (vec asks)])
    (talk/tell-strictly state node [:asked ref])
    nil
    (catch Exception e
      [:error (str "it cannot be sent to the node " node ": " (ex-message e))])))

(defn- patient?
  "May the third node be lost, which the node that sees it is about to learn?"
  [{:keys [since]}]
  (< (- (clock/now) (long since)) (* 1000000 (long patience-ms))))

(defn- take-answer [state name node answer]
  (case answer
    :taken (give-up state name :no)
    :busy (try-later state name)
    :seen (if (patient? (active state name)) (try-later state name) (give-up state name :no))
    (let [{:keys [force?]} (active state name)
          state (change state name #(-> % (update :granted conj node) (update :over into answer)))]
      (advance (if (or force? (= node (:me state))) state (table/ended-there state node name)) name))))

(defn- ask
  "The state after the nodes were asked."
  [{:keys [me] :as state} name nodes asks]
  (let [request (active state name)
        state (change state name update :asked into nodes)
        error (some #(ask-peer state name request asks %) (remove #{me} nodes))]
    (cond
      error (give-up state name error)
      (some #{me} nodes) (let [[state answer] (reserve state name (assoc request :node me :asks asks))]
                           (take-answer state name me answer))
      :else state)))

(defn advance
  "The state after the active request for the name has gone as far as it can."
  [{:keys [me] :as state} name]
  (let [{:keys [granted asked paused? announced?] :as request} (active state name)]
    (if (or (nil? request) paused? announced?)
      state
      (let [needed (needed state)
            missing (remove granted needed)
            wanted (if (granted (first needed)) missing [(first needed)])
            unknown (remove #(or (= me %) (talk/peer state %)) wanted)
            state (reduce probe state unknown)
            nodes (vec (remove (into (set asked) unknown) wanted))]
        (cond
          (empty? missing) (claim state name)
          (seq nodes) (ask state name nodes needed)
          :else state)))))

(defn advance-all
  "The same for all names."
  [state]
  (reduce advance state (keys (:queues state))))

(defn- start [state name]
  (-> (change state name assoc :ref (actor/make-ref) :granted #{} :asked #{} :over #{} :tries 0 :since (clock/now))
      (advance name)))

(defn waiting?
  "Does a request wait that has come with this reference?"
  [{:keys [queues]} question]
  (boolean (some (fn [{:keys [active waiting]}] (some (comp #{question} :question) (cons active waiting))) (vals queues))))

(defn register
  "The state with the request {:from :pid :resolve :force?}, behind others for the name."
  [state name request]
  (if (active state name)
    (update-in state [:queues name :waiting] conj request)
    (start (assoc-in state [:queues name] {:active request :waiting PersistentQueue/EMPTY}) name)))

;; ---- what arrives

(defn again
  "The state when the pause of a request is over."
  [state name ref]
  (let [request (active state name)]
    (if (and (:paused? request) (= ref (:ref request)))
      (advance (change state name assoc :paused? false :ref (actor/make-ref)) name)
      state)))

(defn answered
  "The state after a node has answered the question with the reference."
  [state node ref name answer]
  (let [request (active state name)]
    (if (and (= ref (:ref request)) (contains? (:asked request) node) (not (:paused? request)))
      (take-answer state name node answer)
      state)))

(defn unread
  "The state after a node has said that it could not read the question."
  [state node ref]
  (if-some [name (some (fn [[name {:keys [active]}]] (when (= ref (:ref active)) [name])) (:queues state))]
    (give-up state (first name) [:error (str "the node " node " cannot read it.")])
    state))
