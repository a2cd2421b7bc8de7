(ns magnetar.cluster.groups-test
  "Groups of processes over three simulated nodes: after cuts, crashes and kills all nodes know the same members."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.group-support :as support :refer [->Order agreed idle join-again orders seen start-all three]]
   [magnetar.cluster.impl.groups :as server]
   [magnetar.cluster.simulated :as simulated]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.groups :as groups]
   [magnetar.pg :as pg]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.process Peers)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 12))

;; ---- what other nodes do not read, or not soon

(defn- members-on [node group]
  (mt/on-node node #(count (pg/members group))))

(defn- flood
  "Sends an order to the node, which has to read it first, and many messages behind it."
  [node]
  (spawn (fn []
           (! [:nobody node] (->Order 1))
           (dotimes [_ 200] (! [:nobody node] (byte-array 100000)))))
  nil)

(deftest a-node-that-does-not-read-does-not-keep-others-from-being-told
  (is (= [0 1 1]
         (mt/simulate {:seed 1}
           (let [door (atom false)
                 options {:extensions [(orders door)]}]
             (start-all {:a options :b options :c options})
             (mt/on-node :a #(flood "b@sim"))
             (scope/sleep 5000)
             (mt/on-node :a #(pg/join :printers (idle)))
             (mt/wait-until #(= 1 (members-on :c :printers)) {:timeout 20000})
             (let [held (members-on :b :printers)]
               (reset! door true)
               (mt/wait-until #(= 1 (members-on :b :printers)) {:timeout 60000})
               [held (members-on :b :printers) (members-on :c :printers)]))))))

(defn- join-before []
  (let [pid (idle)]
    (pg/join (->Order 1) pid)
    (pg/join :printers [pid pid])
    (pg/join :scanners pid)
    nil))

(deftest a-group-that-a-node-cannot-read-hides-no-other
  (is (= [{:printers 2 :scanners 1} {:printers 4 :scanners 2 :copiers 1}]
         (:value
           (mt/simulate* {:seed 1}
             (fn []
               (start-all {:a {:extensions [(orders (atom true))]} :b {}})
               (mt/on-node :a join-before)
               (mt/on-node :b #(actor/exit (actor/whereis server/server-name) :kill))
               (let [known (fn [] (mt/on-node :b (fn [] (into {} (map #(vector % (count (pg/members %)))) (pg/which-groups)))))
                     await-known (fn [n] (mt/wait-until #(= n (:printers (known))) {:timeout 20000}) (known))
                     first-known (await-known 2)]
                 (mt/on-node :a join-before)
                 (mt/on-node :a #(pg/join :copiers (idle)))
                 (await-known 4)
                 (scope/sleep 1000)
                 [first-known (known)])))))))

(defn- told-in-parts
  "Sends a part of its groups to the server of a, and the rest of them, which is nothing, when it gets :go."
  []
  (! [server/server-name "a@sim"] [:part (self) [[:printers [(self)]]]])
  (receive :go nil)
  (! [server/server-name "a@sim"] [:sync (self) []])
  (receive :never nil))

(deftest a-part-of-an-earlier-connection-is-forgotten
  (is (= 0
         (mt/simulate {:seed 1}
           (let [net (start-all {:a {} :b {}})]
             (mt/on-node :b (fn [] (actor/register :teller (spawn told-in-parts)) nil))
             (scope/sleep 1000)
             (mt/cut net [:a] [:b])
             (mt/wait-until #(every? empty? (map simulated/nodes [:a :b])) {:timeout 20000})
             (mt/heal net)
             (simulated/connected :a :b)
             (mt/on-node :b (fn [] (! :teller :go) nil))
             (scope/sleep 1000)
             (members-on :a :printers))))))

;; ---- what the nodes do

(defn- drawn [n]
  (.random (Fiber/current) (int n)))

(defn- changed
  "The pids of this node after one of them, or a new one, has joined, left or died."
  [pids]
  (let [pid (when (seq pids) (nth pids (drawn (count pids))))
        group ([:x :y] (drawn 2))]
    (case (long (if pid (drawn 5) 0))
      0 (let [pid (idle)] (pg/join group [pid pid]) (conj pids pid))
      (1 2) (do (pg/join group pid) pids)
      3 (do (pg/leave group [pid pid]) pids)
      4 (do (actor/exit pid :kill) (vec (remove #{pid} pids))))))

(defn- work
  "Starts a process on the node that changes its members n times."
  [node n]
  (mt/on-node node (fn []
             (spawn (fn []
                      (loop [pids [] n n]
                        (when (pos? (long n))
                          (scope/sleep (drawn 300))
                          (recur (changed pids) (dec (long n)))))
                      (receive :never nil)))
             nil)))

(defn- heard
  "The members that a watcher knows after a message."
  [all verb group pids]
  (update all group (fn [members]
                      (let [members (reduce (fn [m pid] (update m (support/id pid) (fnil (if (= :join verb) inc dec) 0))) members pids)]
                        (into {} (remove (comp zero? val)) members)))))

(defn- watch
  "Starts a process on the node that follows all groups, and keeps what it knows in the atom."
  [node known]
  (mt/on-node node (fn []
             (spawn (fn []
                      (let [[ref all] (pg/monitor-scope)]
                        (reset! known (update-vals all (fn [pids] (frequencies (map support/id pids)))))
                        (loop []
                          (receive [ref verb group pids] (swap! known heard verb group pids))
                          (recur)))))
             nil)))

(defn- without-empty [all]
  (into {} (filter (comp seq val)) all))

(def ^:private quiet-ms
  "Longer than the detector, a new session and a restart take together."
  15000)

(defn- all-agree?
  "Do all nodes, and the watchers, know the same members after a while without changes and faults?"
  [net watchers]
  (mt/end-faults net)
  (scope/sleep quiet-ms)
  (let [truth (agreed (mt/nodes))]
    (every? #(= truth % (without-empty truth)) (concat (map seen (mt/nodes)) (map (comp without-empty deref) watchers)))))

(defn- same-members?
  "Three nodes change members, during faults of the network."
  []
  (let [net (three)
        watchers (vec (repeatedly 3 #(atom {})))]
    (dorun (map watch [:a :b :c] watchers))
    (run! #(work % 12) [:a :b :c])
    (scope/sleep 2000)
    (all-agree? net watchers)))

(defn- same-members-after-a-crash?
  "One of the nodes is crashed and started again, and another one leaves the cluster and joins again."
  []
  (let [net (three)
        known (atom {})]
    (watch :a known)
    (run! #(work % 8) [:a :b :c])
    (scope/sleep (drawn 2000))
    (mt/crash-node :b)
    (scope/sleep (drawn 3000))
    (mt/restart-node :b)
    (join-again net :b)
    (work :b 5)
    (mt/on-node :c cluster/stop)
    (join-again net :c)
    (all-agree? net [known])))

(defn- checked [more program]
  (mt/check* (merge {:runs runs :properties [] :repeats 1 :max-steps 3000000} more) program))

(def ^:private disturbed {:faults #{:cut-link :flap} :fault-rate 0.01})

(deftest all-nodes-know-the-same-members-after-cuts
  (is (:passed (checked disturbed same-members?))))

(deftest all-nodes-know-the-same-members-after-a-crash
  (is (:passed (checked {} same-members-after-a-crash?))))

(deftest a-server-that-is-killed-is-started-again
  (is (:passed (checked {:faults #{:kill} :fault-rate 0.01 :max-faults 3 :victims #(re-find #":magnetar.cluster/groups" %)} same-members?))))

;; ---- a server of an earlier version

(def ^:private new-verbs
  "What servers of earlier versions neither send nor understand."
  #{:synced :singly})

(defn- as-before
  "Sends what the node says, and what it is told, without the messages that earlier versions do not have. Counts what it leaves out."
  [node left-out]
  (let [send-to @#'server/send-to]
    (fn [peer [verb :as message]]
      (if (and (new-verbs verb)
               (#{(Peers/name) (if (vector? peer) (peer 1) (nodes/name-of peer))} node))
        (swap! left-out inc)
        (send-to peer message)))))

(deftest all-nodes-know-the-same-members-beside-a-server-of-an-earlier-version
  (doseq [[options program] [[disturbed same-members?] [{} same-members-after-a-crash?]]
          :let [left-out (atom 0)]]
    (with-redefs [server/send-to (as-before "b@sim" left-out)]
      (is (:passed (checked (assoc options :runs 4) program))))
    (is (pos? (long @left-out)))))

;; ---- controls: each of these defects has to be found

(defn- is-found [options program]
  (is (some #(false? (:value (mt/simulate* (assoc options :seed %) program))) (range 1000))))

(deftest a-member-that-outlives-its-node-is-found
  (with-redefs [groups/lose (constantly nil)]
    (is-found {} same-members-after-a-crash?)))

(deftest a-join-that-is-lost-between-two-greetings-is-found
  (with-redefs [server/discovered (fn [state peer]
                                    (#'server/send-sync peer (groups/pairs (#'server/tell-changes state)))
                                    (when-not (get-in state [:peers peer])
                                      (#'server/discover peer))
                                    (scope/sleep 100)
                                    state)]
    (is-found disturbed same-members?)))

(deftest a-copy-that-is-not-of-the-instant-of-the-outbox-is-found
  (let [take-outbox groups/take-outbox]
    (with-redefs [groups/take-outbox (fn [server]
                                       (let [local (:local @(groups/groups))]
                                         (scope/sleep 50)
                                         [(first (take-outbox server)) local]))]
      (is-found disturbed same-members?))))

(deftest a-watcher-that-is-not-told-of-a-node-is-found
  (with-redefs [groups/replaced @#'groups/with-peer-members]
    (is-found {} same-members-after-a-crash?)))
