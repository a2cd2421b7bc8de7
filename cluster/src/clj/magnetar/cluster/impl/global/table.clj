(ns magnetar.cluster.impl.global.table
  "The claims that a server of global names knows, and what is done where two of them meet."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! self]]
   [magnetar.cluster.impl.claims :as claims]
   [magnetar.cluster.impl.global.talk :as talk]
   [magnetar.impl.actor.global :as tables]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Peers)))

(set! *warn-on-reflection* true)

(def ^:private again-ms
  "After how long an undecided pair is shown again: the node that decides, or the way to it, may have been lost."
  1000)

;; ---- what follows from the claims of a name

(declare drop-own)

(defn- publish
  "Shows the strongest claim of other nodes to this one."
  [{:keys [me]} name live]
  (let [best (claims/best (remove #(= me (claims/node-of %)) live))]
    (swap! (tables/others) #(if best (assoc % name (:pid best)) (dissoc % name)))))

(defn- show
  "Asks the node of the second claim to confirm it, if this node is the first one's, or is the only one that may see both."
  [{:keys [me] :as state} name [a b]]
  (when-not (= me (claims/node-of b))
    (talk/tell state (claims/node-of b) [:contest name (claims/told a) (claims/told b)])))

(defn- ids [[a b]]
  [(:id a) (:id b)])

(defn- start-ticking [{:keys [ticking] :as state}]
  (when-not ticking
    (actor/send-after again-ms (self) [::tick]))
  (assoc state :ticking true))

(defn- contest
  "The state with the undecided pairs of the name, of which new ones are shown."
  [state name live]
  (let [pairs (claims/rivals live)
        shown (get-in state [:pairs name] #{})]
    (run! #(show state name %) (remove (comp shown ids) pairs))
    (if (seq pairs)
      (start-ticking (assoc-in state [:pairs name] (into #{} (map ids) pairs)))
      (update state :pairs dissoc name))))

(defn- tell-beaten
  "Tells the node of a claim that this claim is beaten. It may not see the claim that has beaten it."
  [state name known]
  (let [over (claims/beaten known)]
    (doseq [{:keys [id] :as claim} known
            :when (contains? over id)]
      (talk/tell state (claims/node-of claim) [:beaten name id (over id)]))))

(defn refresh
  "The state after the claims of the name have changed."
  [state name]
  (let [known (claims/known state name)
        live (claims/live known)
        {:keys [id]} (get-in state [:own name])
        over (claims/beaten known)]
    (publish state name live)
    (if (contains? over id)
      (drop-own state name (over id) nil)
      (do
        (tell-beaten state name known)
        (contest state name live)))))

(defn tick
  "Shows all undecided pairs again."
  [state]
  (doseq [name (keys (:pairs state))
          pair (claims/rivals (claims/live (claims/known state name)))]
    (show state name pair))
  (let [open? (boolean (seq (:pairs state)))]
    (when open?
      (actor/send-after again-ms (self) [::tick]))
    (assoc state :ticking open?)))

;; ---- claims of this node

(defn- without-own [state name]
  (if-some [{:keys [ref]} (get-in state [:own name])]
    (do
      (actor/demonitor ref {:flush true})
      (-> state (update :own dissoc name) (update :monitors dissoc ref)))
    state))

(defn with-own
  "The state with the own claim of the name that is in the tables of this node. Nothing is told."
  [{:keys [me] :as state} name {:keys [pid number rank resolve]} over]
  (let [ref (actor/monitor pid)]
    (-> (without-own state name)
        (assoc-in [:own name] {:id [me (Peers/incarnation Peers/CLUSTER) number]
                               :pid pid
                               :rank rank
                               :over over
                               :resolve resolve
                               :number number
                               :ref ref})
        (assoc-in [:monitors ref] name))))

(defn tell-own
  "Tells all peers the own claim of the name."
  [state name]
  (talk/tell-all state [:claim name (claims/told (get-in state [:own name])) nil])
  state)

(defn- take-effect
  "What happens to the process that has lost the name."
  [{:keys [pid]} effect]
  (cond
    (= :kill effect) (actor/exit pid :kill)
    (vector? effect) (! pid (second effect))))

(defn drop-own
  "The state without the own claim of the name, when all peers know that, as (then state)."
  [state name effect then]
  (if-some [{:keys [id number] :as claim} (get-in state [:own name])]
    (do
      (tables/release name number)
      (let [state (talk/tell-all-and-wait (without-own state name) (fn [ref] [:gone name id ref]) (or then identity))]
        (take-effect claim effect)
        (refresh state name)))
    (if then (then state) state)))

(defn adopt
  "The state with the claims of this node that were made without it."
  [state]
  (reduce (fn [state [name {:keys [number] :as claim}]]
            (if (or (= number (get-in state [:own name :number])) (not (tables/holder claim)))
              state
              (-> (with-own state name claim {}) (tell-own name) (refresh name))))
          state
          @(tables/names)))

;; ---- decisions

(defn- lose-message [name] [:global-name-conflict name])

(defn- verdict
  "What a resolver that chance decides, or that takes the name from both, makes of the two: the effects on those that lose."
  [resolve name own other]
  (case resolve
    :notify-all {:own [:tell (conj (lose-message name) (:pid other))]
                 :other [:tell (conj (lose-message name) (:pid own))]}
    (let [effect (if (= :random-exit resolve) :kill [:tell (lose-message name)])]
      (if (claims/stronger? own other) {:other effect} {:own effect}))))

(defn- apply-verdict
  "The state after the decision: of the other claim, then of the own one."
  [state name other verdict]
  (let [state (if (contains? verdict :other)
                (-> (assoc-in state [:own name :over (:id other)] (:other verdict)) (tell-own name) (refresh name))
                state)]
    (if (contains? verdict :own)
      (drop-own state name (:own verdict) nil)
      state)))

(defn- call-resolver
  "Starts the process that calls the program's resolver."
  [state name {:keys [pid id resolve]} other]
  (let [server (self)
        work (fn [] (! server [::resolved name id other (resolve name pid (:pid other))]))
        [_ ref] (actor/spawn-opt work {:monitor true})]
    (assoc-in state [:deciding ref] [name id other])))

(defn- deciding? [{:keys [deciding]} pair]
  (some (fn [[_ id other]] (= pair [id (:id other)])) (vals deciding)))

(defn decide
  "The state after a pair was confirmed, of which the first claim is of this node."
  [state name {:keys [id]} other]
  (let [own (get-in state [:own name])]
    (cond
      (not= id (:id own)) state
      (contains? (:over own) (:id other)) (tell-own state name)
      (deciding? state [id (:id other)]) state
      (keyword? (:resolve own)) (apply-verdict state name other (verdict (:resolve own) name own other))
      :else (call-resolver state name own other))))

(defn- gone?
  "Has the other claim ended, as far as this node can see?"
  [state name other]
  (let [node (claims/node-of other)]
    (and (talk/peer state node)
         (not= (:id other) (get-in state [:claims name node :id])))))

(defn- without-decision [state pair]
  (update state :deciding #(into {} (remove (fn [[_ [_ id other]]] (= pair [id (:id other)]))) %)))

(defn resolved
  "The state after the program's resolver has returned the pid that keeps the name, or anything else."
  [state name id other kept]
  (let [state (without-decision state [id (:id other)])
        own (get-in state [:own name])]
    (if (or (not= id (:id own)) (gone? state name other))
      state
      (apply-verdict state name other (condp = kept
                                        (:pid own) {:other nil}
                                        (:pid other) {:own nil}
                                        {:own nil :other nil})))))

(defn resolver-ended
  "The state when the process of a resolver has ended. If it has failed, both lose the name."
  [state ref]
  (if-some [[name id other] (get-in state [:deciding ref])]
    (resolved state name id other nil)
    state))

;; ---- what other nodes tell

(defn told
  "The state after another node has told a claim of the name."
  [state node name claim]
  (-> (claims/put state name node claim)
      (refresh name)))

(defn ended
  "The state after another node has told that its claim has ended."
  [state node name id]
  (if (= id (get-in state [:claims name node :id]))
    (-> (claims/without state name node) (refresh name))
    state))

(defn ended-there
  "The state after another node has said that it has no claim of the name."
  [state node name]
  (if (get-in state [:claims name node])
    (-> (claims/without state name node) (refresh name))
    state))

(defn beaten
  "The state after another node has told that the own claim is beaten."
  [state name id effect]
  (if (= id (get-in state [:own name :id]))
    (drop-own state name effect nil)
    state))

(defn confirm
  "Answers the node that has shown a pair, if the second claim is of this node, and the first node does not see it itself."
  [{:keys [me] :as state} from name first-claim second-claim]
  (let [decider (claims/node-of first-claim)]
    (when (and (= (:id second-claim) (get-in state [:own name :id]))
               (not= me decider)
               (or (= from decider) (not (talk/peer state decider))))
      (talk/tell state from [:confirmed name first-claim second-claim]))
    state))

(defn confirmed
  "The state after the second node of a pair has confirmed its claim."
  [{:keys [me] :as state} name first-claim second-claim]
  (let [decider (claims/node-of first-claim)]
    (if (= me decider)
      (decide state name first-claim second-claim)
      (do
        (talk/tell state decider [:decide name first-claim second-claim])
        state))))

(defn without-peer
  "The state without the claims of a node that is lost."
  [state node]
  (let [names (doall (claims/names-of state node))]
    (reduce #(-> (claims/without %1 %2 node) (refresh %2)) state names)))
