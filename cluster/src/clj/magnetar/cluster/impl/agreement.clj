(ns magnetar.cluster.impl.agreement
  "How nodes agree on the view: which of them belong to it, and which one leads. Pure: a state and an event to a state.

  A view is {:epoch :ballot :members :leader}, members the oldest first. Each is decided by a part of the one before
  that the policy lets decide. A node is [name creation], so a node that was started again is another one.

  The leader asks all nodes in rounds. Who answers yes lets no other node lead for the time :lease. The leader has the
  lease while an active part of the view has said yes, for 7/8 of that time, counted from when it asked. So clocks may
  differ by one part in eight in their speed.

  A node that follows is active for as long as the leader has its lease. It cannot know how long a question was under way.
  So each answer has the time of its node, which the leader returns in its next question, :echo, with the time that its
  lease still has, :left. The lease lasts for :left from that time on at least.

  A round ends when all have answered. It waits for one and a half times as long as the slowest node took last, between a
  tenth and a quarter of the lease. The leader has its lease before that, as soon as an active part has answered.

  To change the view is Paxos, with one instance for each epoch. The round is its first phase: a yes is a promise for the
  ballot, and tells the value that was accepted, :pending. The second phase is :accept and :accepted.

  The node whose round succeeds is by chance the one whose yes to the old leader has ended first. So it does not lead
  for that: it names the oldest member that reaches all the others, tells it the view, and releases the yeses that it got.

  A leader that has kept no singleton for the time of a lease hands the lead over in the same way: to the member that
  keeps the most, the oldest of these, if that reaches all. The new leader comes first among the members.

  Invariants:
    1. A node says yes to one node at a time, until :lease has passed or that node has released it.
    2. Each epoch that follows another has one view. Views of nodes that began apart are ordered by epoch and ballot, and
       the lesser one gives way.
    3. A leader with the lease knows no later view, and none that might have been decided. All members of a view that it
       has proposed have said yes to it. So the lease of the leader before has ended.
    4. A node that knows a view knows a token as great as all that were given under earlier ones. Each message carries
       both, and a token is given only when an active part has answered a round that carried it.
    5. All members of a view have the same rules: the policy and the lease. Each message carries the ones of its sender.
       From an incompatible node, which has other rules, only the token is believed. While one is connected, no first view begins,
       and a view gives way to a newer one of such a node: it gets no lease.
    6. A leader hands over while it is idle: no keeper has enrolled, and no singleton or starter of one is alive. While the
       view that names another leader may be decided, it starts none, so none runs when it releases its lease.

  Rejected: a margin after a loss that each part counts for itself. Where two nodes cannot reach each other and both
  reach a third one, each has a majority."
  {:no-doc true}
  (:require
   [magnetar.cluster.impl.policy :as policy]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(defn initial
  "The state of a node that knows no view yet. Times are of one clock, in any unit; `lease` is a time."
  [me policy lease now]
  {:me me
   :policy policy
   :lease lease
   :tick (quot (long lease) 10)
   :connected #{}
   :leavers #{}
   :echoes {} ; by node, the time of its last answer, on its clock
   :took {} ; by node, how long that answer took, on this one
   :kept {} ; by node, the names of the singletons that it keeps, as it has answered
   :keeps [] ; the ones that this node keeps
   :idle-since now ; when this node and its view had a singleton or a keeper last; nil while it has one
   :late 0 ; how many rounds in a row have ended before an answer of a node that is too slow
   :incompatible {} ; by node, what it has said: its :rules and its :view
   :changed now ; when the others changed
   :base 0 ; the epoch of a view that has died out
   :promised [0 me]
   :seen 0 ; the least number that a ballot needs
   :ballot [0 me]
   :number 0 ; of the last round
   :token 0
   :given 0 ; the greatest token that an active part knows
   :lease-until now
   :active-until now
   :retry-at now
   :out []})

;; ---- what is said

(defn rules
  "What all members of a view have to agree about from their start."
  [{:keys [policy lease]}]
  {:policy (:kind policy) :quorum (:quorum policy) :lease lease})

(defn- say [{:keys [me view token] :as state} to kind m]
  (update state :out conj [to kind (assoc m :from me :to to :view view :token token :rules (rules state))]))

(defn- say-all [state tos kind m]
  (reduce #(say %1 %2 kind m) state tos))

(defn- age
  "What views are ordered by."
  [{:keys [epoch ballot]}]
  [epoch ballot])

(defn- newer? [a b]
  (and a (or (nil? b) (pos? (compare (age a) (age b))))))

(defn- adopt
  "The state with a view that was decided. A lease of before may have been given by others than its members."
  [state view now]
  (-> (assoc state :view view :lease-until now)
      (update :idle-since #(when % now))
      (cond-> view (update :base min (dec (long (:epoch view))))) ; an epoch after it is no dead one
      (assoc :retry-at now)
      (dissoc :pending :round :proposal :missing-since :clear)))

(defn- dead?
  "Is it a view of before one that has died out here? One whose leader has the lease is not."
  [{:keys [base]} {:keys [view leads]}]
  (and view (not leads) (<= (long (:epoch view)) (long base))))

(defn- learn [state {:keys [view token] :as m} now]
  (cond-> (update state :token max token)
    (and (newer? view (:view state)) (not (dead? state m))) (adopt view now)))

;; ---- saying yes

(defn- tied?
  "Has this node said yes to another one than `node` lately?"
  [{:keys [grant]} node now]
  (and grant (not= node (:to grant)) (< (long now) (long (:until grant)))))

(defn- promise-to [{:keys [lease] :as state} node ballot now]
  (assoc state
         :promised ballot
         :grant {:to node :until (+ (long now) (long lease))}))

(defn- sure
  "The part of the lease that is counted on."
  [{:keys [lease]}]
  (quot (* 7 (long lease)) 8))

(defn- follow
  "What a leader with the lease says of itself. One of an earlier version does not say when its lease ends."
  [state {:keys [leads from pids keeps echo left]} now]
  (let [until (cond
                (nil? left) (+ (long now) (long (sure state)))
                echo (+ (min (long echo) (long now)) (min (long left) (long (sure state))))
                :else now)]
    (if leads
      (-> (assoc state :leader-pids pids :leader-keeps keeps :leader from)
          (update :active-until max until))
      state)))

(defn- reached [{:keys [me connected]}]
  (conj connected me))

(defn- gives-way?
  "Has an incompatible node a newer view? Then two leaders would act at once, each for its own view."
  [{:keys [incompatible view]}]
  (and view (some #(newer? (:view %) view) (vals incompatible))))

(defn- on-ask [{:keys [promised] :as state} {:keys [from ballot number leads idle sent] :as m} now]
  (let [yes (not (or (tied? state from now) (dead? state m) (gives-way? state) (neg? (compare ballot promised))))
        state (-> (update state :seen max (first ballot))
                  (cond-> yes (-> (promise-to from ballot now) (follow m now))))]
    (say state from :answer {:ballot ballot :number number :sent sent :at now :yes yes :promised (:promised state)
                             :pending (:pending state) :base (:base state) :leaving (boolean (:leaving state))
                             :keeps (:keeps state) :reach (when (or idle (not leads)) (reached state))})))

(defn- on-accept [{:keys [promised view] :as state} {:keys [from ballot value]}]
  (if (and (= ballot promised) (newer? value view))
    (-> (assoc state :pending {:ballot ballot :value value})
        (say from :accepted {:ballot ballot}))
    state))

(defn- on-release [{:keys [grant] :as state} {:keys [from]}]
  (cond-> state
    (= from (:to grant)) (dissoc :grant)))

;; ---- questions

(defn leads?
  "Does this node lead the view?"
  [{:keys [me view]}]
  (= me (:leader view)))

(defn- quorum-of
  "May the nodes decide on the next view?"
  [{:keys [policy view incompatible]} nodes]
  (if view
    (policy/decides? policy (:members view) nodes)
    (and (empty? incompatible) (policy/begins? policy nodes))))

(defn- rank
  "How many nodes come before this one as a candidate."
  [{:keys [me view leavers connected]}]
  (let [order (if view (:members view) (sort (conj connected me)))]
    (count (filter (every-pred connected (complement leavers)) (take-while #(not= me %) order)))))

(defn- candidate?
  "Is it this node's turn to lead? The leader is gone, or there never was one."
  [{:keys [me view connected leavers tick lease changed missing-since] :as state} now]
  (let [leader (:leader view)
        since (if view missing-since (+ (long changed) (long lease)))]
    (and since
         (or (nil? view) (some #{me} (:members view)))
         (or (not (connected leader)) (leavers leader))
         (<= (+ (long since) (* 2 (long tick) (long (rank state)))) (long now)))))

(defn has-lease?
  "Does this node lead for sure?"
  [{:keys [lease-until]} now]
  (< (long now) (long lease-until)))

(defn- asks? [{:keys [leaving retry-at me] :as state} now]
  (and (not leaving)
       (not (gives-way? state))
       (or (has-lease? state now)
           (and (<= (long retry-at) (long now))
                (quorum-of state (reached state))
                (not (tied? state me now))
                (or (leads? state) (candidate? state now))))))

;; ---- views that have died out

(defn- started-again?
  "Is there another node with the name of the member?"
  [state [name :as member]]
  (some #(and (= name (first %)) (not= member %)) (reached state)))

(defn- lost-for-good?
  "Can the members never decide again, because all that are missing were started again?"
  [{:keys [policy] :as state} members]
  (let [here (reached state)]
    (and (not (policy/decides? policy members here))
         (every? #(or (here %) (started-again? state %)) members))))

(defn- died-out?
  "Can the view never decide again, also because all its members leave?"
  [{:keys [me view leavers leaving] :as state}]
  (let [leavers (cond-> leavers leaving (conj me))]
    (and view
         (or (every? #(or (leavers %) (started-again? state %)) (:members view))
             (lost-for-good? state (:members view))))))

(defn- forget-view [{:keys [view] :as state} now]
  (-> (adopt state nil now)
      (assoc :changed now)
      (update :base max (:epoch view))))

;; ---- rounds

(defn- next-ballot
  "A ballot to which others can say yes: the last one, if no greater one was seen meanwhile."
  [{:keys [me ballot promised seen]}]
  (let [[number] ballot
        greatest (max (long seen) (long (first promised)))]
    (if (and (= ballot promised) (pos? (long number)) (= number greatest))
      ballot
      [(inc greatest) me])))

(declare end-round)

(defn- ask-all [{:keys [connected ballot number pids keeps idle-since echoes lease-until] :as state} now]
  (let [leads (has-lease? state now)
        question {:ballot ballot :number number :sent now :leads leads :pids pids :keeps keeps :idle (some? idle-since)
                  :left (when leads (- (long lease-until) (long now)))}]
    (reduce #(say %1 %2 :ask (assoc question :echo (echoes %2))) state connected)))

(defn- begin-round [{:keys [me connected number] :as state} now]
  (let [ballot (next-ballot state)
        number (inc (long number))]
    (-> (promise-to state me ballot now)
        (assoc :ballot ballot
               :number number
               :round {:sent now :token (:token state) :asked connected :yes {} :no #{}})
        (ask-all now)
        (cond-> (empty? connected) (end-round now)))))

(defn- let-go
  "Takes back the yes that this node has said to itself."
  [{:keys [me grant] :as state}]
  (cond-> state
    (= me (:to grant)) (dissoc :grant)))

(defn- pause
  "How long a node waits after a round that has failed: nodes that failed together wait for different times."
  [{:keys [me number tick] :as state}]
  (+ (* 2 (long tick) (inc (long (rank state))))
     (quot (* (long tick) (long (mod (hash [me number]) 8))) 4)))

(defn- fail
  "Ends a round. A node that has no lease sets the others free, and waits a while."
  [state now]
  (let [state (dissoc state :round :proposal)]
    (if (has-lease? state now)
      state
      (-> (let-go state)
          (assoc :retry-at (+ (long now) (long (pause state))))
          (say-all (:connected state) :release {})))))

(defn- begin-or-tell
  "What follows on a new view: a round of its leader. Another node that has decided it tells all, and frees them for the
  leader. Each of them knows the view before it is free."
  [{:keys [me connected] :as state} leader now]
  (if (= me leader)
    (begin-round state now)
    (-> (let-go state)
        (say-all connected :view {})
        (say-all connected :release {}))))

(defn- commit
  "The state with the view that this node has got decided, in which a round follows."
  [{:keys [me policy lease-until] :as state} {:keys [value sent yes]} now]
  (let [{:keys [leader members]} value
        backed (and (= me leader) (every? yes members) (policy/active? policy members yes))
        until (if backed (max (long lease-until) (+ (long sent) (long (sure state)))) now)]
    (-> (adopt state value now)
        (assoc :lease-until until)
        (begin-or-tell leader now))))

(defn- decided?
  "Is the proposal decided? A first view is by all its members, or by a part of them that decides if that is tried again."
  [{:keys [policy view]} {:keys [value accepted again]}]
  (cond
    view (policy/decides? policy (:members view) accepted)
    again (policy/decides? policy (:members value) accepted)
    :else (every? accepted (:members value))))

(defn- decided [{:keys [proposal] :as state} now]
  (if (decided? state proposal)
    (commit state proposal now)
    state))

(defn- propose [{:keys [me ballot] :as state} value {:keys [sent]} yes again now]
  (-> (assoc state
             :pending {:ballot ballot :value value}
             :proposal {:ballot ballot :value value :sent sent :began now :yes yes :accepted #{me} :again again})
      (dissoc :round)
      (say-all (disj yes me) :accept {:ballot ballot :value value})
      (decided now)))

(defn- wanted
  "The members of the view that this node would propose: the ones that can be reached, and behind them the new ones. The
  first view is one of all that can be reached, so that no two begin one each."
  [{:keys [policy view leavers] :as state} yes]
  (let [here (reached state)
        kept (filter #(and (here %) (not (leavers %))) (:members view))
        new (sort (remove (into leavers kept) (if view yes here)))]
    (policy/limited policy (vec (concat kept new)))))

(defn- last-epoch
  "The epoch of the view, or of the last one that has died out."
  ^long [{:keys [view base]} answers]
  (or (:epoch view) (apply max base (map :base answers))))

(defn- unfinished
  "A view that may have been decided, as the answers tell: the one with the greatest ballot. None with a ballot less than :clear
  was, or will be. A leader that completed it would have to release its lease before its singletons have ended."
  [{:keys [view pending clear] :as state} answers]
  (->> (cons pending (map :pending answers))
       (filter #(and %
                     (not (and clear (neg? (compare (:ballot %) clear))))
                     (newer? (:value %) view)
                     (or view
                         (and (< (last-epoch state answers) (long (:epoch (:value %))))
                              (not (lost-for-good? state (:members (:value %))))))))
       (sort-by :ballot)
       last))

(defn- said-of-all
  "What each node has said of itself: which nodes it reaches, and which singletons it keeps."
  [{:keys [me keeps] :as state} answers]
  (into {me {:reach (reached state) :keeps keeps}} (map (juxt :from identity)) answers))

(defn- reaching-all
  "The members that reach all of them."
  [said members]
  (filter #(every? (set (:reach (said %))) members) members))

(defn- best-keeper
  "Of the members that reach all, the one that keeps the most singletons, the oldest of these. nil if none keeps any."
  [said members]
  (let [kept #(count (:keeps (said %)))]
    (first (sort-by (comp - kept) (filter (comp pos? kept) (reaching-all said members))))))

(defn- next-leader
  "This node if it leads already. Otherwise one of the members that reach all of them, as this one does: the best keeper if there was
  a view, or the oldest."
  [{:keys [me view] :as state} said members]
  (or (when-not (leads? state)
        (or (when view (best-keeper said members))
            (first (reaching-all said members))))
      me))

(defn- view-of [{:keys [ballot] :as state} answers members leader]
  {:epoch (inc (last-epoch state answers))
   :ballot ballot
   :members members
   :leader leader})

(defn- leader-first
  "The members, with the leader as the first one if it is there because the first one keeps fewer singletons."
  [said members leader]
  (let [kept #(count (:keeps (said %)))]
    (if (< (long (kept (first members))) (long (kept leader)))
      (into [leader] (remove #{leader}) members)
      members)))

(defn- next-view [{:keys [view] :as state} answers members]
  (let [said (said-of-all state answers)
        leader (next-leader state said members)
        members (if (and view (not (leads? state))) (leader-first said members leader) members)]
    (view-of state answers members leader)))

(defn- view-of-heir
  "The view by which this leader, which keeps no singleton for long, hands the lead over to a member that keeps one; or nil."
  [{:keys [me idle-since lease] :as state} answers members now]
  (when (and idle-since (<= (+ (long idle-since) (long lease)) (long now)))
    (let [said (said-of-all state answers)
          heir (best-keeper said members)]
      (when (and heir (not= me heir))
        (view-of state answers (leader-first said members heir) heir)))))

(defn- renew
  "The state of a leader to which an active part has said yes. None of that part has accepted a later view, and each has
  promised not to with a lesser ballot."
  [{:keys [policy view lease-until ballot] :as state} {:keys [sent token] :as round} yes]
  (if (and (leads? state)
           (quorum-of state yes)
           (policy/active? policy (:members view) yes)
           (not (unfinished state (vals (:yes round)))))
    (-> (assoc state
               :lease-until (max (long lease-until) (+ (long sent) (long (sure state))))
               :clear ballot)
        (update :given max token))
    state))

(defn- conclude
  "What follows from a round that was answered by a part that decides."
  [{:keys [view] :as state} round yes now]
  (let [answers (vals (:yes round))
        unfinished (unfinished state answers)
        state (renew state round yes)
        members (wanted state yes)
        same (and (leads? state) (= members (:members view)))
        of-heir (when (and same (every? yes members)) (view-of-heir state answers members now))]
    (cond
      unfinished (propose state (:value unfinished) round yes true now)
      of-heir (propose state of-heir round yes false now)
      same (dissoc state :round)
      (and (every? yes members) (seq members)) (propose state (next-view state answers members) round yes false now)
      (leads? state) (dissoc state :round)
      :else (fail state now))))

(defn- said-yes
  "The nodes that have said yes in the round."
  [{:keys [me round]}]
  (conj (set (keys (:yes round))) me))

(defn- end-round [{:keys [round] :as state} now]
  (let [yes (said-yes state)]
    (if (quorum-of state yes)
      (conclude state round yes now)
      (fail state now))))

(defn- note-answer
  "Notes the time of the node, how long the answer took, and what the node keeps, also if the round is over."
  [state {:keys [from at sent keeps]} now]
  (cond-> (assoc-in state [:kept from] keeps)
    at (assoc-in [:echoes from] at)
    sent (assoc-in [:took from] (- (long now) (long sent)))))

(defn- count-answer
  "The state with one more answer to the round. A leader does not wait for the others to renew its lease."
  [{:keys [ballot] :as state} {:keys [from yes promised leaving] :as m}]
  (let [state (cond-> (update-in state [:round (if yes :yes :no)] (if yes #(assoc % from m) #(conj % from)))
                leaving (update :leavers conj from)
                (pos? (compare promised ballot)) (update :seen max (inc (long (first promised)))))]
    (renew state (:round state) (said-yes state))))

(defn- answered? [{:keys [connected] {:keys [asked yes no]} :round}]
  (every? #(or (yes %) (no %)) (filter connected asked)))

(defn- go-on
  "Begins the next round of a leader at once if this one has taken as long as rounds are apart."
  [{:keys [tick round proposal] :as state} sent now]
  (cond-> state
    (and (has-lease? state now) (not round) (not proposal) (asks? state now) (<= (+ (long sent) (long tick)) (long now)))
    (begin-round now)))

(defn- on-answer [state m now]
  (let [{:keys [round ballot number] :as state} (note-answer state m now)]
    (if (and round (= ballot (:ballot m)) (= number (:number m)))
      (let [state (count-answer state m)]
        (cond-> state
          (answered? state) (-> (assoc :late 0) (end-round now) (go-on (:sent round) now))))
      state)))

(defn- on-accepted [{:keys [proposal] :as state} {:keys [from ballot]} now]
  (if (and proposal (= ballot (:ballot proposal)))
    (-> (update-in state [:proposal :accepted] conj from)
        (decided now))
    state))

;; ---- time

(defn- connect [{:keys [connected] :as state} others now]
  (if (= connected others)
    state
    (-> (assoc state :connected others :changed now)
        (update :leavers #(into #{} (filter others) %))
        (update :incompatible select-keys others)
        (update :echoes select-keys others)
        (update :took select-keys others)
        (update :kept select-keys others))))

(defn- look-for-leader [{:keys [me view connected leavers] :as state} now]
  (let [leader (:leader view)]
    (if (or (nil? view) (= me leader) (and (connected leader) (not (leavers leader))))
      (dissoc state :missing-since)
      (update state :missing-since #(or % now)))))

(defn longest
  "How long a round may wait. A leader that asks twice in this time has answers to one round before its lease ends."
  [{:keys [lease]}]
  (quot (long lease) 4))

(defn slowest
  "The node that took the longest to answer, and how long; nil if none has."
  [{:keys [connected took]}]
  (when-some [known (seq (select-keys took connected))]
    (apply max-key val known)))

(defn- patience
  "How long a round waits for answers. While no node leads it waits for all that have never answered."
  [{:keys [tick connected took] :as state} now]
  (if (or (has-lease? state now) (every? took connected))
    (min (long (longest state)) (max (long tick) (quot (* 3 (long (or (some-> (slowest state) val) 0))) 2)))
    (longest state)))

(defn- late? [{:keys [round proposal] :as state} now]
  (let [since (or (:began proposal) (:sent round))]
    (and since (<= (+ (long since) (long (patience state now))) (long now)))))

(defn too-slow
  "The node that answers too late for any round, and how long it took, or nil."
  [state]
  (when-some [[_ took :as slowest] (slowest state)]
    (when (< (long (longest state)) (long took))
      slowest)))

(defn- hurry
  "Ends what was not answered in time."
  [{:keys [round] :as state} now]
  (if (late? state now)
    (let [state (cond-> state (too-slow state) (update :late inc))]
      (if round
        (end-round state now)
        (fail state now)))
    state))

(defn- tell
  "Says what has to be repeated: that this node leaves; and the view that it knows, if it hears of no leader."
  [{:keys [leaving connected active-until] :as state} now]
  (cond
    leaving (say-all state connected :leaving {})
    (or (has-lease? state now) (< (long now) (long active-until))) state
    :else (say-all state connected :view {})))

(defn- bury
  "The state without its view if that has died out."
  [state now]
  (cond-> state
    (died-out? state) (forget-view now)))

(defn- tick [state others now]
  (let [state (-> (connect state others now) (look-for-leader now) (hurry now) (bury now) (tell now))]
    (cond-> state
      (and (not (:round state)) (not (:proposal state)) (asks? state now)) (begin-round now))))

;; ---- the form of messages

(defn- node? [x]
  (and (vector? x) (= 2 (count x)) (string? (x 0)) (int? (x 1))))

(defn- ballot? [x]
  (and (vector? x) (= 2 (count x)) (int? (x 0)) (node? (x 1))))

(defn- view? [{:keys [epoch ballot members leader] :as x}]
  (and (map? x) (int? epoch) (ballot? ballot) (node? leader)
       (sequential? members) (boolean (seq members)) (every? node? members)))

(defn- pending? [{:keys [ballot value] :as x}]
  (and (map? x) (ballot? ballot) (view? value)))

(defn- time? [x]
  (or (nil? x) (int? x)))

(defn- names? [x]
  (or (nil? x) (sequential? x)))

(defn- rules? [{:keys [policy lease] :as x}]
  (and (map? x) (keyword? policy) (int? lease)))

(defn- of-kind? [kind {:keys [ballot number value promised pending base reach keeps sent at left echo]}]
  (case kind
    :ask (and (ballot? ballot) (int? number) (names? keeps) (every? time? [sent left echo]))
    :answer (and (ballot? ballot) (int? number) (ballot? promised) (int? base) (names? keeps) (every? time? [sent at])
                 (or (nil? pending) (pending? pending))
                 (or (nil? reach) (and (coll? reach) (every? node? reach))))
    :accept (and (ballot? ballot) (view? value))
    :accepted (ballot? ballot)
    true))

(defn well-formed?
  "Can the state take the message? Another one, as of another version, could end the server later."
  [message]
  (let [[to kind {:keys [from view token rules] :as m}] (when (vector? message) message)]
    (and (map? m) (node? to) (node? from) (int? token)
         (or (nil? view) (view? view))
         (or (nil? rules) (rules? rules))
         (of-kind? kind m))))

;; ---- events

(defn- on-leaving [state {:keys [from] :as m} now]
  (-> (on-release state m)
      (update :leavers conj from)
      (bury now)))

(defn- refuse
  "Says no to an incompatible node, and takes its answer for a no."
  [state kind {:keys [from ballot number] :as m} now]
  (case kind
    :ask (say state from :answer {:ballot ballot :number number :yes false :promised (:promised state) :base (:base state)})
    :answer (on-answer state (select-keys m [:from :ballot :number]) now)
    state))

(defn- stop-leading [state now]
  (-> (assoc state :lease-until now)
      (dissoc :round :proposal)))

(defn- hear-incompatible
  "The last message of a node may come when it is not connected any more: then it is not noted, or it would stop the leader for good."
  [{:keys [connected] :as state} kind {:keys [from rules view token] :as m} now]
  (let [state (cond-> (update state :token max token)
                (connected from) (assoc-in [:incompatible from] {:rules rules :view view})
                true (refuse kind m now))]
    (cond-> state
      (gives-way? state) (stop-leading now))))

(defn- incompatible?
  "Has the sender other rules? A node of an earlier version does not say which, and is taken for one with the same."
  [state {their-rules :rules}]
  (not (or (nil? their-rules) (= their-rules (rules state)))))

(defn- hear-member [state kind m now]
  (let [state (learn state m now)]
    (case kind
      :ask (on-ask state m now)
      :answer (on-answer state m now)
      :accept (on-accept state m)
      :accepted (on-accepted state m now)
      :release (on-release state m)
      :leaving (on-leaving state m now)
      state)))

(defn- hear [state [_ kind m] now]
  (if (incompatible? state m)
    (hear-incompatible state kind m now)
    (hear-member state kind m now)))

(defn- begin-to-leave [state now]
  (-> (assoc state :leaving true :lease-until now)
      (dissoc :round :proposal)
      let-go
      (tell now)
      (bury now)))

(defn- renew-now
  "Tells the others at once what a leader says of itself."
  [state now]
  (cond-> state
    (and (has-lease? state now) (not (:proposal state)) (not (gives-way? state))) (begin-round now)))

(def ^:private mark-bits
  "How many bits of a token say which node has taken it."
  20)

(def ^:private mark-mask (dec (bit-shift-left 1 (long mark-bits))))

(defn- next-token
  "The least token of the node that is greater than the one that is known, and than all of earlier times of the day. Two sides that
  cannot know of each other may take a token at the same time, and it must not be the same one."
  [{:keys [me token]} time-of-day]
  (let [least (max (inc (long token)) (bit-shift-left (long time-of-day) (long mark-bits)))]
    (+ least (bit-and (- (long (hash me)) least) (long mark-mask))))) ; the last bits are the ones of the hash

(defn- take-token
  "The state with a greater token than any that is known, and a round that carries it."
  [state time-of-day now]
  (renew-now (assoc state :token (next-token state time-of-day)) now))

(defn step
  "The state after the event: [:tick others], others the nodes that are connected; [:heard [to kind message]]; [:token
  time-of-day], to take a token; [:renew], after a change of :pids; [:leave]. Messages that it sends are in :out, as [to
  kind message]."
  [{:keys [me] :as state} [what x] now]
  (case what
    :tick (tick state x now)
    :heard (if (= me (first x)) (hear state x now) state)
    :token (take-token state x now)
    :renew (renew-now state now)
    :leave (begin-to-leave state now)))

;; ---- singletons

(defn keeping
  "The state that knows which singletons this node keeps, and if it is idle: it has neither a keeper nor anything that one has started."
  [state names idle now]
  (-> (assoc state :keeps names)
      (update :idle-since #(when idle (or % now)))))

(defn may-start?
  "May this node start a singleton? It leads for sure, and no view that names another leader may be decided."
  [{:keys [me] :as state} now]
  (and (has-lease? state now)
       (contains? #{nil me} (:leader (:value (unfinished state []))))))

(defn unkept
  "The names of singletons that do not run, since the leader does not keep them: all of them as the leader knows, and on another node
  the ones that this one keeps."
  [{:keys [view kept keeps leader leader-keeps] :as state}]
  (cond
    (leads? state) (distinct (remove (set keeps) (mapcat kept (:members view))))
    (and leader (= leader (:leader view)) leader-keeps) (remove (set leader-keeps) keeps)))

(defn keepers-of
  "The members that keep the singleton, as the leader knows."
  [{:keys [view kept]} name]
  (filter #(some #{name} (kept %)) (:members view)))

(defn acts-until
  "The time until which this node belongs to a part whose leader has the lease, as far as it knows."
  [{:keys [me view lease-until active-until]}]
  (if (some #{me} (:members view))
    (max (long lease-until) (long active-until))
    lease-until))

(defn active?
  "Does this node belong to a part whose leader has the lease, as far as it knows?"
  [state now]
  (< (long now) (long (acts-until state))))

(defn left?
  "Does no view need this node any more?"
  [{:keys [me view connected]}]
  (or (empty? connected)
      (not (some #{me} (:members view)))))
