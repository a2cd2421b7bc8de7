(ns magnetar.histories.groups-test
  "What processes of three nodes see of a group, whose members join, leave and die while connections are cut and a node crashes.

  Groups are not linearizable: another node learns of a change later. What is judged is what `magnetar.pg` promises:

  - A node sees the members that it has itself at once, and none after its death was told by a :DOWN.
  - What a node sees of another one is nothing, or exactly the members that this one had at a time. It is never older than
    what it has seen before.

  That all nodes agree when faults and changes have ended is in `magnetar.cluster.groups-test`."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [receive spawn]]
   [magnetar.cluster.group-support :refer [id idle join-again three]]
   [magnetar.impl.groups :as groups]
   [magnetar.pg :as pg]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (java.util.concurrent.atomic AtomicLong)
   (magnetar.kernel.fiber Fiber)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 20))

(def ^:private group :printers)

(defn- drawn [n]
  (.random (Fiber/current) (int n)))

;; ---- a node changes its members. A story has :time, :changes by owner, in their order, and :looks

(defn- time-of [{:keys [^AtomicLong time]}]
  (.incrementAndGet time))

(defn- begin [story owner members]
  (let [change {:call (time-of story) :members members}]
    (dec (count (get (swap! (:changes story) update owner (fnil conj [{:call 0 :return 0 :members {}}]) change) owner)))))

(defn- end [story owner place]
  (swap! (:changes story) assoc-in [owner place :return] (time-of story)))

(defn- kill
  "Kills the process, and returns when its death is told."
  [pid]
  (let [ref (actor/monitor pid)]
    (actor/exit pid :kill)
    (receive [:DOWN ref _ _ _] nil)))

(defn- fewer [members id]
  (if (< 1 (long (members id 0))) (update members id dec) (dissoc members id)))

(defn- drawn-change
  "[f members]: f changes the members of this node, and they are these then."
  [members pids]
  (let [pid (if (seq pids) (nth pids (drawn (count pids))) (idle))
        id (id pid)]
    (case (long (drawn 4))
      0 [#(pg/join group [pid pid]) (update members id (fnil + 0) 2)]
      1 [#(pg/join group pid) (update members id (fnil inc 0))]
      2 [#(pg/leave group pid) (fewer members id)]
      3 [#(kill pid) (dissoc members id)])))

(defn- owner
  "The node with this run of it, of the id of a pid."
  [[node _ creation]]
  [node creation])

(defn- change
  "Changes the members of this node so often; processes join again after they have died."
  [story n]
  (let [me (owner (id (actor/self)))]
    (loop [members {}, n (long n)]
      (when (pos? n)
        (scope/sleep (drawn 200))
        (let [alive (filterv #(actor/alive? %) (distinct (pg/local-members group)))
              [f members] (drawn-change members (if (zero? (long (drawn 3))) [] alive))
              place (begin story me members)]
          (f)
          (end story me place)
          (recur members (dec n)))))))

;; ---- processes look

(defn- look
  "Notes what this node sees so often."
  [story n]
  (let [me (owner (id (actor/self)))]
    (dotimes [_ n]
      (scope/sleep (drawn 60))
      (let [call (time-of story)
            members (frequencies (map id (pg/members group)))]
        (swap! (:looks story) conj {:node me :call call :return (time-of story) :members members})))))

(defn- start
  "Starts a process on the node that changes members, and one that looks, which tells its end."
  [story node]
  (mt/on-node node
    (fn []
      (spawn (fn [] (change story 25) (receive :never nil)))
      (spawn (fn [] (look story 120) (swap! (:done story) conj node)))
      nil)))

;; ---- what was seen is judged

(defn- state-at
  "The place, from `from` on, of a change after which the members were these, and which had begun at the time; or nil."
  [changes from time members]
  (first (filter (fn [i] (let [change (nth changes i)]
                           (and (= members (:members change)) (< (long (:call change)) (long time)))))
                 (range from (count changes)))))

(defn- finished-before
  "The place of the last change that had ended at the time."
  [changes time]
  (or (last (keep-indexed (fn [i {:keys [return]}] (when (and return (< (long return) (long time))) i)) changes)) 0))

(defn- step
  "The place after a look at the owner, or [:wrong look]."
  [changes own? place {:keys [call return members] :as look}]
  (let [from (if own? (max (long place) (long (finished-before changes call))) place)]
    (cond
      (and (empty? members) (not own?)) place
      :else (or (state-at changes from return members) (reduced [:wrong look])))))

(defn- seen-of
  "The looks of a node, with only the members of the owner."
  [looks node whose]
  (for [look looks :when (= node (:node look))]
    (update look :members #(into {} (filter (fn [[id _]] (= whose (owner id)))) %))))

(defn- wrong
  "The looks that cannot be, the first one for each pair of nodes."
  [{:keys [changes looks]}]
  (for [[whose changes] @changes
        node (distinct (map :node @looks))
        :let [place (reduce (partial step changes (= node whose)) 0 (seen-of @looks node whose))]
        :when (vector? place)]
    [node whose place]))

;; ---- the runs

(defn- new-story []
  {:time (AtomicLong.) :changes (atom {}) :looks (atom []) :done (atom [])})

(defn- await-looks [{:keys [done]} n]
  (mt/wait-until #(= n (count @done)) {:timeout 120000}))

(defn- under-cuts []
  (let [story (new-story)]
    (three)
    (run! #(start story %) [:a :b :c])
    (await-looks story 3)
    story))

(defn- with-a-crash []
  (let [story (new-story)
        net (three)]
    (run! #(start story %) [:a :b :c])
    (scope/sleep 1000)
    (mt/crash-node :b)
    (scope/sleep (drawn 1500))
    (mt/restart-node :b)
    (join-again net :b)
    (start story :b)
    (await-looks story 3)
    story))

(defn- wrong-in
  "What was wrong in the run with the seed."
  [options f seed]
  (wrong (mt/simulate (assoc options :seed seed :max-steps 3000000) (f))))

(def ^:private disturbed {:faults #{:cut-link :flap} :fault-rate 0.01})

(deftest what-nodes-see-are-members-that-there-were
  (doseq [seed (range runs)]
    (is (= [] (wrong-in disturbed under-cuts seed)) seed)
    (is (= [] (wrong-in {} with-a-crash seed)) seed)))

;; ---- controls

(defn- is-found [options f]
  (is (some #(seq (wrong-in options f %)) (range 200))))

(deftest a-member-that-stays-after-its-death-is-found
  (with-redefs [groups/peer-leaves (constantly nil)]
    (is-found {} under-cuts)))

(deftest a-change-that-is-told-in-two-parts-is-found
  (let [tell groups/peer-joins]
    (with-redefs [groups/peer-joins (fn [server peer group pids]
                                      (doseq [pid pids]
                                        (tell server peer group [pid])
                                        (scope/sleep 30)))]
      (is-found {} under-cuts))))

(deftest a-copy-that-is-not-of-the-instant-of-the-outbox-is-found
  (let [take-outbox groups/take-outbox]
    (with-redefs [groups/take-outbox (fn [server]
                                       (let [local (:local @(groups/groups))]
                                         (scope/sleep 50)
                                         [(first (take-outbox server)) local]))]
      (is-found disturbed under-cuts))))

(deftest a-join-that-returns-before-it-is-seen-is-found
  (let [join pg/join]
    (with-redefs [pg/join (fn [group pids] (spawn (fn [] (scope/sleep 50) (join group pids))))]
      (is-found {} under-cuts))))
