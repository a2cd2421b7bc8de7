(ns magnetar.cluster.registry-test
  "Registries of all nodes, on simulated nodes: after cuts, crashes and kills all nodes know the same entries."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.group-support :refer [->Order id join-again orders start-all three]]
   [magnetar.cluster.simulated :as simulated :refer [run-on]]
   [magnetar.registry :as registry]
   [magnetar.registry.nodes :as registry-nodes]
   [magnetar.registry.table :as table]
   [magnetar.report :as report]
   [magnetar.scope :as scope]
   [magnetar.sys :as sys]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.fiber Fiber)))

(set! *warn-on-reflection* true)

(use-fixtures :each simulated/silently)

(def ^:private runs (Long/getLong "magnetar.runs" 12))

(defn- drawn [n]
  (.random (Fiber/current) (int n)))

;; ---- registries on all nodes

(defn- keep-registry
  "Starts the registry, again when it ends."
  []
  (actor/flag :trap-exit true)
  (loop []
    (let [[how pid] (registry/start-link {:keys :duplicate :name :bus :nodes :all})]
      (when (= :ok how) ; it may be killed while it starts
        (receive [:EXIT pid _] nil)))
    (recur)))

(defn- keep-registries
  "Starts the registry :bus on each of the nodes."
  [nodes]
  (doseq [node nodes]
    (run-on node keep-registry)
    (mt/wait-until #(mt/on-node node (fn [] (some? (actor/whereis :bus)))))))

(defn- entry [[key pid value]]
  [key (id pid) value])

(defn- entries
  "The entries that the node knows, and how often."
  [node]
  (mt/on-node node #(frequencies (map entry (registry/select :bus)))))

(defn- own-entries [node]
  (mt/on-node node #(frequencies (map entry (filter (fn [[_ pid _]] (= (actor/node) (actor/node pid))) (registry/select :bus))))))

(defn- agreed [nodes]
  (apply merge (map own-entries nodes)))

(defn- agree
  "Waits until all nodes know the same entries; returns those."
  [& nodes]
  (mt/wait-until #(let [all (agreed nodes)] (every? (fn [node] (= all (entries node))) nodes)) {:timeout 60000})
  (agreed nodes))

(defn- enter
  "Starts a process on the node that registers under the key, and waits until it has."
  [node key value]
  (mt/on-node node
    (fn []
      (actor/with-process {}
        (let [me (self)]
          (spawn (fn []
                   (registry/register :bus key value)
                   (! me :registered)
                   (receive [:relay to x] (! to x))))
          (receive :registered nil))))))

(defmacro ^:private with-three
  "The value of `body` in a simulation with the connected nodes a, b and c, which have the registry :bus."
  [seed & body]
  `(mt/simulate {:seed ~seed}
     (let [~'net (three)]
       (keep-registries [:a :b :c])
       ~@body)))

(deftest all-nodes-find-what-one-has-registered
  (doseq [seed (range 5)]
    (is (= [[["b@sim" {:since 5}]] 3 {:orders 2, [1 "x"] 1} ["a@sim" "b@sim"] [[:orders] [{:since 5}]]]
           (with-three seed
             (enter :b :orders {:since 5})
             (enter :a :orders {:since 1})
             (enter :c [1 "x"] nil)
             (agree :a :b :c)
             [(mt/on-node :c #(mapv (fn [[pid value]] [(actor/node pid) value]) (registry/match :bus :orders (fn [v] (< 3 (:since v))))))
              (mt/on-node :a #(registry/count :bus))
              (mt/on-node :c #(frequencies (registry/select :bus (map first))))
              (mt/on-node :a #(mapv (comp actor/node first) (registry/lookup :bus :orders)))
              (mt/on-node :a #(let [pid (first (second (registry/lookup :bus :orders)))]
                                [(registry/keys :bus pid) (registry/values :bus :orders pid)]))])))))

(deftest what-is-dispatched-reaches-the-processes-of-all-nodes
  (doseq [seed (range 5)]
    (is (= {:got 3}
           (with-three seed
             (run! #(enter % :orders nil) [:a :b :c])
             (agree :a :b :c)
             (mt/on-node :b
               (fn []
                 (actor/with-process {}
                   (let [me (self)]
                     (registry/dispatch :bus :orders (fn [all] (run! (fn [[pid _]] (! pid [:relay me :got])) all)))
                     (frequencies (repeatedly 3 #(receive x x))))))))))))

(deftest entries-go-with-their-process-and-with-their-node
  (doseq [seed (range 5)]
    (is (= [2 1 0 2]
           (with-three seed
             (enter :b :orders nil)
             (enter :b :orders nil)
             (agree :a :b :c)
             (let [at-a (fn [] (mt/on-node :a #(count (registry/lookup :bus :orders))))
                   before (at-a)]
               (mt/on-node :b #(actor/exit (ffirst (registry/lookup :bus :orders)) :kill))
               (mt/wait-until #(= 1 (at-a)))
               (let [one (at-a)]
                 (mt/cut net [:a] [:b])
                 (mt/wait-until #(= ["c@sim"] (simulated/nodes :a)) {:timeout 60000})
                 (let [none (at-a)]
                   (mt/heal net)
                   (enter :b :orders nil)
                   (agree :a :b :c)
                   [before one none (at-a)]))))))))

(deftest ^{:spec ["C150"]} a-process-that-is-told-of-a-lost-node-finds-no-entry-of-it
  (doseq [seed (range 10)]
    (is (= [:noconnection [] 0]
           (with-three seed
             (enter :b :orders nil)
             (agree :a :b :c)
             (mt/on-node :a
               (fn []
                 (actor/with-process {}
                   (let [ref (actor/monitor (ffirst (registry/lookup :bus :orders)))]
                     (mt/cut net [:a] [:b])
                     (receive [:DOWN ref _ _ why]
                       [why (registry/lookup :bus :orders) (registry/count :bus)]))))))))))

(deftest a-registry-that-starts-late-or-again-knows-all
  (doseq [seed (range 5)]
    (is (= [1 1]
           (mt/simulate {:seed seed}
             (three)
             (keep-registries [:a])
             (enter :a :orders nil)
             (keep-registries [:b :c])
             (let [known (count (agree :a :b :c))
                   killed (mt/on-node :b #(let [pid (actor/whereis :bus)]
                                            (actor/exit pid :kill)
                                            pid))]
               (mt/wait-until #(mt/on-node :b (fn [] (not (contains? #{nil killed} (actor/whereis :bus))))))
               [known (count (agree :a :b :c))]))))))

;; ---- refusals

(defn- refused [f]
  (try
    (f)
    (catch IllegalArgumentException e [(:magnetar/reason (ex-data e)) (ex-message e)])))

(deftest what-other-nodes-cannot-read-is-refused
  (let [[[reason message] n]
        (with-three 1
          [(mt/on-node :a (fn [] (actor/with-process {} (update (refused #(registry/register :bus (Object.) 1)) 1 str))))
           (mt/on-node :a #(registry/count :bus))])]
    (is (= :magnetar/no-term reason))
    (is (str/includes? message "cannot be in the registry :bus, which all nodes know"))
    (is (= 0 n))))

(deftest an-entry-from-before-the-cluster-that-cannot-be-read-is-reported
  (let [reports (atom [])
        hook #(swap! reports conj (:site %))]
    (report/add-hook :failure hook)
    (try
      (is (= [2 1]
             (mt/simulate {:seed 1}
               (let [net (mt/network {:latency [1 20]})]
                 (run! mt/start-node [:a :b])
                 (keep-registries [:a :b])
                 (enter :a (Object.) 1)
                 (enter :a :orders 1)
                 (run! #(simulated/join net %) [:a :b])
                 (mt/wait-until #(= 1 (count (entries :b))) {:timeout 60000})
                 [(count (entries :a)) (count (entries :b))]))))
      (is (some #(re-find #"the registry :bus, of whose key .* other nodes are not told" %) @reports))
      (finally (report/remove-hook :failure hook)))))

(defn- idle-pid []
  (spawn (fn [] (receive :never nil))))

(deftest registries-of-different-keys-do-not-meet
  (let [reports (atom [])
        hook #(swap! reports conj (ex-message (:error %)))]
    (report/add-hook :failure hook)
    (try
      (mt/simulate {:seed 1}
        (three)
        (keep-registries [:a])
        (mt/on-node :b #(do (! [registry-nodes/server-name "a@sim"] [::registry-nodes/discover :bus :unique (idle-pid)]) nil))
        (scope/sleep 1000))
      (is (str/includes? (str @reports) "has :unique keys, and the one here has :duplicate keys"))
      (finally (report/remove-hook :failure hook)))))

;; ---- what another node does not read, or not soon

(defn- obey
  "Calls what it is sent."
  []
  (actor/register :worker (self))
  (loop []
    ((receive f f))
    (recur)))

(defn- at-once
  "Lets the worker of a call f, and the registry tell of it when f has ended."
  [f]
  (mt/on-node :a
    (fn []
      (actor/with-process {}
        (let [me (self)]
          (sys/suspend :bus)
          (! :worker #(do (f) (! me :done)))
          (receive :done nil)
          (sys/resume :bus))))))

(defn- known [node]
  (mt/on-node node #(into {} (registry/select :bus (map (fn [[key _ value]] [key value]))))))

(defn- await-known
  "What the node knows when the key has the value there."
  [node key value]
  (mt/wait-until #(= value (get (known node) key)) {:timeout 20000})
  (scope/sleep 1000)
  (known node))

(deftest a-row-that-a-node-cannot-read-hides-no-other
  (is (= [{:printers 1 :scanners 1}
          {:printers 1 :copiers 2}
          {:copiers 2}]
         (:value
           (mt/simulate* {:seed 1}
             (fn []
               (start-all {:a {:extensions [(orders (atom true))]} :b {}})
               (keep-registries [:a])
               (run-on :a obey)
               (mt/wait-until #(mt/on-node :a (fn [] (some? (actor/whereis :worker)))))
               (at-once #(do (registry/register :bus (->Order 1) 1)
                             (registry/register :bus :printers 1)
                             (registry/register :bus :scanners 1)))
               (keep-registries [:b])
               [(await-known :b :printers 1)
                (do (at-once #(do (registry/register :bus :copiers 2)
                                  (registry/register :bus (->Order 2) 2)
                                  (registry/unregister :bus :scanners)))
                    (await-known :b :copiers 2))
                (do (at-once #(do (registry/unregister :bus :printers)
                                  (registry/register :bus (->Order 3) 3)))
                    (await-known :b :printers nil))]))))))

(deftest few-messages-tell-what-a-node-could-not-read
  (let [told (atom 0)
        send-rows @#'registry-nodes/send-rows]
    (with-redefs [registry-nodes/send-rows (fn [& args] (swap! told inc) (apply send-rows args))]
      (is (= 200
             (:value
               (mt/simulate* {:seed 1}
                 (fn []
                   (start-all {:a {:extensions [(orders (atom true))]} :b {}})
                   (keep-registries [:a])
                   (run-on :a obey)
                   (mt/wait-until #(mt/on-node :a (fn [] (some? (actor/whereis :worker)))))
                   (at-once #(do (registry/register :bus (->Order 1) 1)
                                 (run! (fn [n] (registry/register :bus n n)) (range 200))))
                   (keep-registries [:b])
                   (mt/wait-until #(= 200 (count (known :b))) {:timeout 20000})
                   (count (known :b)))))))
      (is (< @told 100)))))

(defn- flood
  "Sends an order to the node, which has to read it first, and many messages behind it."
  [node]
  (spawn (fn []
           (! [:nobody node] (->Order 1))
           (dotimes [_ 200] (! [:nobody node] (byte-array 100000)))))
  nil)

(deftest a-node-that-does-not-read-does-not-keep-others-from-being-told
  (is (= [{} {:printers 1} {:printers 1}]
         (mt/simulate {:seed 1}
           (let [door (atom false)
                 options {:extensions [(orders door)]}]
             (start-all {:a options :b options :c options})
             (keep-registries [:a :b :c])
             (scope/sleep 1000)
             (mt/on-node :a #(flood "b@sim"))
             (scope/sleep 5000)
             (enter :a :printers 1)
             (mt/wait-until #(= {:printers 1} (known :c)) {:timeout 20000})
             (let [before (known :b)]
               (reset! door true)
               [before (await-known :b :printers 1) (known :c)]))))))

(defn- tell-in-parts
  "Sends a part of its rows to the registry of a, and the rest of them, which is nothing, when it gets :go."
  [to]
  (! to [::registry-nodes/part (self) [[1 :printers (self) 1]]])
  (receive :go nil)
  (! to [::registry-nodes/all (self) []])
  (receive :never nil))

(deftest a-part-of-an-earlier-connection-is-forgotten
  (is (= {}
         (mt/simulate {:seed 1}
           (let [net (start-all {:a {} :b {}})]
             (keep-registries [:a])
             (let [bus [:bus "a@sim"]]
               (mt/on-node :b (fn [] (actor/register :teller (spawn #(tell-in-parts bus))) nil)))
             (scope/sleep 1000)
             (mt/cut net [:a] [:b])
             (mt/wait-until #(every? empty? (map simulated/nodes [:a :b])) {:timeout 20000})
             (mt/heal net)
             (simulated/connected :a :b)
             (mt/on-node :b (fn [] (! :teller :go) nil))
             (scope/sleep 1000)
             (known :a))))))

;; ---- changes during faults

(defn- change
  "One change of the entries of this process."
  [n]
  (let [key ([:x :y] (drawn 2))]
    (case (long (drawn 4))
      (0 1) (registry/register :bus key n)
      2 (registry/unregister :bus key)
      3 (registry/unregister-match :bus key odd?))))

(defn- worker
  "Changes its entries n times. Then it stays, or ends."
  [n]
  (dotimes [i n]
    (scope/sleep (drawn 300))
    (change i))
  (when (pos? (long (drawn 3)))
    (receive :never nil)))

(defn- work
  "Starts processes on the node that change entries."
  [node n]
  (dotimes [_ 3]
    (run-on node worker n)))

(def ^:private quiet-ms
  "Longer than the detector, a new session and a restart take together."
  15000)

(defn- all-agree?
  "Do all nodes know the same entries after a while without changes and faults?"
  [net]
  (mt/end-faults net)
  (scope/sleep quiet-ms)
  (let [truth (agreed (mt/nodes))]
    (every? #(= truth (entries %)) (mt/nodes))))

(defn- same-entries? []
  (let [net (three)]
    (keep-registries [:a :b :c])
    (run! #(work % 8) [:a :b :c])
    (scope/sleep 2000)
    (all-agree? net)))

(defn- same-entries-after-a-crash?
  "One of the nodes is crashed and started again, and another one leaves the cluster and joins again."
  []
  (let [net (three)]
    (keep-registries [:a :b :c])
    (run! #(work % 5) [:a :b :c])
    (scope/sleep (drawn 2000))
    (mt/crash-node :b)
    (scope/sleep (drawn 3000))
    (mt/restart-node :b)
    (keep-registries [:b])
    (join-again net :b)
    (work :b 5)
    (mt/on-node :c cluster/stop)
    (join-again net :c)
    (scope/sleep 2000)
    (all-agree? net)))

(defn- checked [more program]
  (mt/check* (merge {:runs runs :properties [] :repeats 1 :max-steps 3000000} more) program))

(def ^:private disturbed {:faults #{:cut-link :flap} :fault-rate 0.01})

(deftest all-nodes-know-the-same-entries-after-cuts
  (is (:passed (checked disturbed same-entries?))))

(deftest all-nodes-know-the-same-entries-after-a-crash
  (is (:passed (checked {} same-entries-after-a-crash?))))

(deftest a-server-that-is-killed-is-started-again
  (is (:passed (checked {:faults #{:kill} :fault-rate 0.01 :max-faults 3 :victims #(re-find #":magnetar.cluster/registries" %)} same-entries?))))

(deftest registries-and-processes-with-entries-are-killed
  (is (:passed (checked {:faults #{:kill} :fault-rate 0.02 :max-faults 6 :victims #(re-find #":bus|worker" %)} same-entries?))))

;; ---- controls: each of these defects has to be found

(defn- is-found [options program]
  (is (some #(false? (:value (mt/simulate* (assoc options :seed %) program))) (range 1000))))

(deftest an-entry-that-outlives-its-registry-is-found
  (with-redefs [table/forget-rows (constantly nil)]
    (is-found {} same-entries-after-a-crash?)))

(deftest a-merge-that-keeps-what-was-removed-meanwhile-is-found
  (with-redefs [table/replace-rows table/put-rows
                table/forget-rows (constantly nil)]
    (is-found disturbed same-entries?)))

(deftest a-change-between-two-greetings-that-is-lost-is-found
  (with-redefs [registry-nodes/answer (fn [{:keys [peers kind] :as state} peer]
                                        (#'registry-nodes/tell-changes state)
                                        (#'registry-nodes/send-all state peer)
                                        (when-not (peers peer)
                                          (! peer [::registry-nodes/discover (self) kind]))
                                        (scope/sleep 100)
                                        state)]
    (is-found disturbed same-entries?)))

(deftest an-outbox-that-is-told-before-the-table-is-changed-is-found
  (let [take-outbox table/take-outbox]
    (with-redefs [table/take-outbox (fn [table]
                                      (let [rows (into {} (map (juxt first identity)) (table/rows table))]
                                        (scope/sleep 50)
                                        (mapv #(get rows (first %) [(first %)]) (take-outbox table))))]
      (is-found {} same-entries?))))
