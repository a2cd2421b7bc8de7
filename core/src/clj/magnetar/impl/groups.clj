(ns magnetar.impl.groups
  "The groups of `magnetar.pg` that this node knows: its own members, the members that other nodes have told of, and
  the watchers.

  There is a server for each way to other nodes, a cluster or Erlang's distribution. Each tells the peers of its own way
  about local members only. So nothing is forwarded from one way to another.

  All is in one atom. Invariants:

  - Each change is one swap. The same swap adds what has to be told: for watchers to :notices, and for each server to
    its outbox. So all learn of the changes in their order.
  - At most one thread hands notices out. It sets :delivering, and removes it only in a swap that finds no notices. A
    thread that adds notices sees the mark, or hands them out itself.
  - A server takes its outbox in the swap that reads the local members. So a copy of the members contains exactly
    the changes that were taken until then.
  - What other nodes have told is changed by the server that knows them, and goes with it.
  - Servers are told of a group by one value, while it has local members. Erlang tells a list and a vector apart, which
    are the same group here.
  - A group of another scope than pg is [::scope scope name] here and for the nodes of a cluster. Callers of `magnetar.pg`,
    watchers and nodes of Erlang know it by its name."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Simulated)
   (magnetar.kernel.process Pid Send)))

(set! *warn-on-reflection* true)

(def ^:private empty-state
  {:local {}    ; from a group to a map from its pids to {:times :clean-up}; the process owns the clean-up
   :servers {}  ; from a server of this node to its outbox, triples as [:join group pids]
   :owners {}   ; from a peer, the server of another node, to the server of this one that knows it
   :peers {}    ; from a peer to a map from a group to a map from its pids to how often
   :remote {}   ; from a group to the set of peers that have members of it
   :watches {}  ; from the alias of a watcher to {:what :pid :clean-up}; :what is [:all scope] or [:group group]
   :watched {}  ; the inverse
   :notices []}) ; pairs of a reference and a message

(defonce ^:private real-groups (atom empty-state))

(defn groups
  "The atom with the groups of this node."
  []
  (environment/local real-groups ::groups empty-state))

;; ---- scopes

(def default-scope
  "The scope of a program that names none."
  :pg)

(defn in-scope
  "The group with the name in the scope."
  [scope name]
  (if (= default-scope scope) name [::scope scope name]))

(defn scoped?
  "Is it a group of another scope than pg, as it is here? No name is."
  [group]
  (and (vector? group) (= 3 (count group)) (= ::scope (nth group 0))))

(defn- scope-of [group]
  (if (scoped? group) (nth group 1) default-scope))

(defn- name-of [group]
  (if (scoped? group) (nth group 2) group))

;; ---- telling

(defn- told
  "The state with the notices for the watchers of a group."
  [{:keys [watched] :as state} verb group pids]
  (let [refs (when (and (seq watched) (seq pids))
               (concat (watched [:all (scope-of group)]) (watched [:group group])))
        name (name-of group)]
    (if (seq refs)
      (update state :notices into (map (fn [ref] [ref [ref verb name pids]])) refs)
      state)))

(defn- published
  "The state with what has to be told of a change of the local members."
  [{:keys [servers] :as state} verb group pids]
  (cond-> (told state verb group pids)
    (and (seq servers) (seq pids)) (update :servers update-vals #(conj % [verb group pids]))))

(defn- begun [{:keys [delivering notices] :as state}]
  (if (or delivering (empty? notices)) state (assoc state :delivering true :notices [])))

(defn- continued [{:keys [notices] :as state}]
  (if (seq notices) (assoc state :notices []) (dissoc state :delivering)))

(defn- send-all [groups notices]
  (try
    (doseq [[ref message] notices]
      (Send/signal ref message))
    (catch Throwable e
      (swap! groups dissoc :delivering)
      (throw e))))

(defn- hand-out
  "Sends the notices, unless another thread does. Never waits."
  [groups]
  (Simulated/switchPoint)
  (let [[before after] (swap-vals! groups begun)]
    (when-not (or (:delivering before) (not (:delivering after)))
      (loop [notices (:notices before)]
        (send-all groups notices)
        (let [[before _] (swap-vals! groups continued)]
          (when (seq (:notices before))
            (recur (:notices before))))))))

(defn- tell-servers
  "Lets each server know that its outbox has something new."
  [{before :servers} {after :servers}]
  (doseq [[server outbox] after
          :when (and (seq outbox) (not (identical? outbox (before server))))]
    (Send/signal server [:changed])))

(defn- change
  "Changes the state, and lets all learn of it; returns the states before and after. Never waits."
  [groups f]
  (let [[before after :as both] (swap-vals! groups f)]
    (when (seq (:notices after))
      (hand-out groups))
    (tell-servers before after)
    both))

;; ---- members of this node

(defn- with-members
  "The map with the members of a group. A group without members is removed."
  [all group members]
  (if (seq members) (assoc all group members) (dissoc all group)))

(defn- with
  "The members after a process has joined; the clean-up of its first time is kept."
  [members [pid clean-up]]
  (update members pid #(if % (update % :times inc) {:times 1 :clean-up clean-up})))

(defn- without
  "The members and the removed pids, after a process has left once."
  [[members removed :as both] pid]
  (let [{:keys [times] :or {times 0}} (get members pid)]
    (case (long times)
      0 both
      1 [(dissoc members pid) (conj removed pid)]
      [(update-in members [pid :times] dec) (conj removed pid)])))

(defn- as-listed
  "The group as the local members have it, or the group. The two are equal, but may be a list and a vector."
  [local group]
  (if-some [[listed] (find local group)] listed group))

(defn- joined [{:keys [local] :as state} group entries]
  (let [group (as-listed local group)]
    (-> (assoc state :local (with-members local group (reduce with (local group) entries)))
        (published :join group (mapv first entries)))))

(defn- left [{:keys [local] :as state} group pids]
  (let [group (as-listed local group)
        [members removed] (reduce without [(local group) []] pids)]
    (-> (assoc state :local (with-members local group members))
        (published :leave group removed))))

(defn- died [state group pid]
  (left state group (repeat (get-in state [:local group pid :times] 0) pid)))

(defn- own-clean-up
  "[pid clean-up] of a process that lives, which owns the clean-up; else nil."
  [groups group pid]
  (let [clean-up (owned/clean-up (fn [pid] (change groups #(died % group pid))))]
    (when (owned/own pid clean-up)
      [pid clean-up])))

(defn- confirm-join
  "The process has joined. It disowns a clean-up that the group does not need, since it is a member already."
  [groups group members [pid clean-up]]
  (when-not (identical? clean-up (:clean-up (members pid)))
    (owned/disown pid clean-up))
  (when (owned/dying? pid)
    (change groups #(died % group pid))))

(defn join
  "Adds the processes to the group, as often as they are listed."
  [group pids]
  (let [groups (groups)
        clean-ups (into {} (keep #(own-clean-up groups group %)) (distinct pids))
        entries (into [] (keep #(find clean-ups %)) pids)
        [_ after] (change groups #(joined % group entries))
        members (get (:local after) group)]
    (run! #(confirm-join groups group members %) clean-ups)))

(defn leave
  "Removes the processes from the group, as often as they are listed; true if one was a member."
  [group pids]
  (let [[before after] (mapv #(get (:local %) group) (change (groups) #(left % group pids)))]
    (doseq [pid (distinct pids)
            :when (and (contains? before pid) (not (contains? after pid)))]
      (owned/disown pid (:clean-up (before pid))))
    (boolean (some #(contains? before %) pids))))

;; ---- members of other nodes

(defn- peer-members [{:keys [peers]} peer group]
  (get-in peers [peer group]))

(defn- with-peer-members
  "The state in which the group has these members at the peer, as a map from a pid to how often."
  [state peer group members]
  (let [servers (get-in state [:remote group] #{})]
    (-> (update-in state [:peers peer] with-members group members)
        (update :remote with-members group (if (seq members) (conj servers peer) (disj servers peer))))))

(defn- less
  "How often each pid is in `a` beyond how often it is in `b`."
  [a b]
  (reduce (fn [rest [pid times]]
            (let [n (- (long (rest pid 0)) (long times))]
              (if (pos? n) (assoc rest pid n) (dissoc rest pid))))
          (or a {})
          b))

(defn- listed [members]
  (into [] (mapcat (fn [[pid times]] (repeat times pid))) members))

(defn- known? [{:keys [peers]} peer]
  (contains? peers peer))

(defn- peer-joined [state peer group pids]
  (if (known? state peer)
    (-> (with-peer-members state peer group (merge-with + (peer-members state peer group) (frequencies pids)))
        (told :join group pids))
    state))

(defn- leaving
  "How often each pid leaves that has to, of the members that there are."
  [members pids]
  (into {}
        (keep (fn [[pid times]] (when-some [most (get members pid)] [pid (min (long times) (long most))])))
        (frequencies pids)))

(defn- peer-left-one [state peer pids group]
  (let [members (peer-members state peer group)
        leaving (leaving members pids)]
    (-> (with-peer-members state peer group (less members leaving))
        (told :leave group (listed leaving)))))

(defn- peer-left [state peer groups pids]
  (if (known? state peer)
    (reduce #(peer-left-one %1 peer pids %2) state groups)
    state))

(defn- replaced
  "The state in which the group has these members at the peer instead of the ones that it had."
  [state peer group members]
  (let [before (peer-members state peer group)]
    (-> (with-peer-members state peer group members)
        (told :leave group (listed (less before members)))
        (told :join group (listed (less members before))))))

(defn- peer-synced [state peer all]
  (let [all (update-vals (into {} all) frequencies)]
    (reduce (fn [state group] (replaced state peer group (all group)))
            (update-in state [:peers peer] #(or % {}))
            (distinct (concat (keys (get-in state [:peers peer])) (keys all))))))

(defn- peer-gone [state peer]
  (-> (peer-synced state peer {})
      (update :peers dissoc peer)
      (update :owners dissoc peer)))

;; ---- servers

(defn- detached [{:keys [owners] :as state} server]
  (reduce peer-gone
          (update state :servers dissoc server)
          (for [[peer owner] owners :when (= owner server)] peer)))

(defn attach
  "From now on the process is a server that tells other nodes of changes. It is sent [:changed] when its outbox has
  something. What its peers have told goes with it."
  [server]
  (let [groups (groups)]
    (owned/own server (owned/clean-up (fn [pid] (change groups #(detached % pid)))))
    (change groups #(assoc-in % [:servers server] []))
    nil))

(defn- server? [{:keys [servers]} server]
  (contains? servers server))

(defn- as-server
  "Changes the state if the process is a server still; it may have been killed."
  [server f & args]
  (change (groups) (fn [state] (if (server? state server) (apply f state args) state)))
  nil)

(defn take-outbox
  "Empties the outbox of the server. What was in it, and the local members after that, for `pairs`."
  [server]
  (let [[{:keys [local servers]} _] (swap-vals! (groups) #(if (server? % server) (assoc-in % [:servers server] []) %))]
    [(servers server []) local]))

(defn pairs
  "The local members as pairs of a group and its pids."
  [local]
  (mapv (fn [[group members]] [group (listed (update-vals members :times))]) local))

(defn of-scope
  "The pairs of a group in the scope and its pids, with the name of the group."
  [scope pairs]
  (into [] (keep (fn [[group pids]] (when (= scope (scope-of group)) [(name-of group) pids]))) pairs))

(defn meet
  "From now on the peer, the server of another node, may tell of its members."
  [server peer]
  (as-server server #(-> (update-in % [:peers peer] (fn [groups] (or groups {})))
                         (assoc-in [:owners peer] server))))

(defn peer-joins
  "Members have joined the group on the node of the peer. A peer that is not known is ignored."
  [server peer group pids]
  (as-server server peer-joined peer group pids))

(defn peer-leaves
  "Members have left the groups on the node of the peer. A peer that is not known is ignored."
  [server peer groups pids]
  (as-server server peer-left peer groups pids))

(defn peer-syncs
  "The members of the peer's node are these, as pairs of a group and pids."
  [server peer all]
  (as-server server peer-synced peer all))

(defn lose
  "The peer is gone, with its members."
  [server peer]
  (as-server server peer-gone peer))

;; ---- looks

(defn- local-members-in [{:keys [local]} group]
  (into []
        (mapcat (fn [[^Pid pid {:keys [times]}]] (when (.isAlive pid) (repeat times pid))))
        (local group)))

(defn- members-in [{:keys [remote] :as state} group]
  (let [local (local-members-in state group)]
    (if-some [peers (remote group)]
      (into local (mapcat #(listed (peer-members state % group))) peers)
      local)))

(defn local-members
  "The pids of the live local members of the group, each as often as it has joined."
  [group]
  (local-members-in @(groups) group))

(defn members
  "The pids of the members of the group, the live ones of this node first."
  [group]
  (members-in @(groups) group))

(defn- names
  "The names of those groups in the scope that satisfy f."
  [scope f groups]
  (into [] (comp (filter #(= scope (scope-of %))) (filter f) (map name-of)) groups))

(defn which-local-groups
  "The names of the groups in the scope that have live local members."
  [scope]
  (let [state @(groups)]
    (names scope #(seq (local-members-in state %)) (keys (:local state)))))

(defn which-groups
  "The names of the groups in the scope that have members."
  [scope]
  (let [{:keys [local remote] :as state} @(groups)]
    (names scope #(seq (members-in state %)) (distinct (concat (keys local) (keys remote))))))

;; ---- watchers

(defn- with-watch [state ref {:keys [what] :as watch}]
  (-> (assoc-in state [:watches ref] watch)
      (update-in [:watched what] (fnil conj #{}) ref)))

(defn- without-watch [{:keys [watches] :as state} ref]
  (if-some [{:keys [what]} (watches ref)]
    (-> (update state :watches dissoc ref)
        (update :watched with-members what (disj (get-in state [:watched what]) ref)))
    state))

(defn- watch
  "The state from which on the alias of the process is told of changes."
  [pid ref what]
  (let [groups (groups)
        clean-up (owned/clean-up (fn [_] (swap! groups without-watch ref)))
        owns? (owned/own pid clean-up)
        state (swap! groups with-watch ref {:what what :pid pid :clean-up clean-up})]
    (when-not owns?
      (swap! groups without-watch ref)) ; it was killed
    state))

(defn- recorded
  "The members of the group in the state. One may be dead: then it leaves in a later state."
  [{:keys [local remote] :as state} group]
  (into (listed (update-vals (local group {}) :times))
        (mapcat #(listed (peer-members state % group)))
        (remote group)))

(defn watch-group
  "Lets the alias of the process be sent [ref :join group pids] and [ref :leave group pids]. The members before."
  [pid ref group]
  (recorded (watch pid ref [:group group]) group))

(defn watch-all
  "The same for all groups in the scope. A map from the name of each group to its members before."
  [pid ref scope]
  (let [{:keys [local remote] :as state} (watch pid ref [:all scope])]
    (into {}
          (comp (filter #(= scope (scope-of %)))
                (map (fn [group] [(name-of group) (recorded state group)])))
          (concat (keys local) (keys remote)))))

(defn unwatch
  "Ends what the process has begun by `watch-group` or `watch-all`; false if that has ended, or the process has begun none."
  [pid ref]
  (let [[before _] (swap-vals! (groups) #(if (= pid (get-in % [:watches ref :pid])) (without-watch % ref) %))
        watch (get-in before [:watches ref])]
    (if (= pid (:pid watch))
      (do (owned/disown pid (:clean-up watch))
          true)
      false)))
