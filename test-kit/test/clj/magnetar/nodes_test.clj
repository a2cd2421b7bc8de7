(ns magnetar.nodes-test
  "Nodes of a simulation: what each has of its own, what a crash leaves, and that a seed decides it all."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.global :as global]
   [magnetar.inspect :as inspect]
   [magnetar.pg :as pg]
   [magnetar.scope :as scope]
   [magnetar.table :as table]
   [magnetar.test :as mt]
   [magnetar.timer :as timer])
  (:import
   (magnetar.kernel.process Pid)
   (magnetar.kernel.sched Schedulers)))

(defn- reason-of [f]
  (try (f) (catch Exception e (:magnetar/reason (ex-data e)))))

(defn- two-nodes []
  (mt/start-node :a)
  (mt/start-node :b))

(defn- idle []
  (spawn (fn [] (receive :stop nil))))

;; --- what a node has of its own

(deftest names-groups-and-tables-are-of-one-node
  (is (= [[true true 1 true] [false false 0 false] [false false 0 false]]
         (mt/simulate {:seed 1}
           (two-nodes)
           (mt/on-node :a (fn []
                            (let [p (idle)]
                              (actor/register :server p)
                              (global/register-name :leader p)
                              (pg/join :workers p)
                              (actor/register :keeper (spawn (fn [] (table/create :set {:name :prices}) (receive :stop nil))))
                              (scope/sleep 1))))
           (let [seen (fn [] [(some? (actor/whereis :server)) (some? (global/whereis-name :leader)) (count (pg/members :workers))
                              (some? (table/whereis :prices))])]
             [(mt/on-node :a seen) (mt/on-node :b seen) (seen)])))))

(deftest processes-fibers-and-dead-letters-are-of-one-node
  (is (= [[[":a"] 1] [[":b"] 0] [[] 0]]
         (mt/simulate {:seed 1}
           (two-nodes)
           (mt/on-node :a (fn []
                            (actor/spawn-opt (fn [] (receive :stop nil)) {:name :a})
                            (let [dead (spawn (fn [] 1))]
                              (actor/join dead)
                              (! dead :lost))))
           (mt/on-node :b #(actor/spawn-opt (fn [] (receive :stop nil)) {:name :b}))
           (let [seen (fn [] [(mapv :label (inspect/processes)) (:count (inspect/dead-letters))])]
             [(mt/on-node :a seen) (mt/on-node :b seen) (seen)])))))

(deftest each-start-of-a-node-has-a-creation-of-its-own
  (let [creation (fn [] (.creation ^Pid (idle)))
        real (actor/with-process {} (.creation ^Pid (self)))
        found (mt/simulate {:seed 1}
                (two-nodes)
                (let [first-ones [(creation) (mt/on-node :a creation) (mt/on-node :b creation)]]
                  (mt/crash-node :a)
                  (mt/restart-node :a)
                  (conj first-ones (mt/on-node :a creation))))]
    (is (= 5 (count (distinct (conj found real)))))
    (is (= 1 (first found)))
    (is (every? #(< 0 % 4294967296) found) "Erlang's creation has 32 bits")))

(deftest a-clock-has-an-offset-and-a-rate
  (is (= [[0 300 -50] [1000 1800 950]]
         (mt/simulate {:seed 1}
           (mt/start-node :a)
           (mt/start-node :b {:skew 300 :rate 3/2})
           (mt/start-node :c {:skew -50})
           (let [clocks (fn [] (mapv #(mt/on-node % mt/now) [:a :b :c]))
                 at-first (clocks)]
             (scope/sleep 1000)
             [at-first (clocks)])))))

(deftest a-timer-goes-by-the-clock-of-its-node
  (is (= [500 2000 1000]
         (mt/simulate {:seed 1}
           (mt/start-node :fast {:rate 2})
           (mt/start-node :slow {:rate 0.5 :skew 12345})
           (mt/start-node :usual)
           (mapv (fn [node]
                   (mt/restart-node node)
                   (let [before (mt/now)]
                     (mt/on-node node #(scope/sleep 1000))
                     (* 10 (Math/round (/ (- (mt/now) before) 10.0)))))
                 [:fast :slow :usual])))))

(deftest random-numbers-of-nodes-differ-and-come-from-the-seed
  (let [drawn (fn [seed]
                (mt/simulate {:seed seed}
                  (two-nodes)
                  (mapv (fn [node] (mt/on-node node #(vec (repeatedly 8 (fn [] (a/alts!! [(doto (a/chan) a/close!) (doto (a/chan) a/close!)])
                                                                         (.random (magnetar.kernel.fiber.Fiber/current) 1000))))))
                        [:a :b])))]
    (is (= (drawn 1) (drawn 1)))
    (is (apply distinct? (concat (drawn 1) (drawn 2))))))

;; --- on-node

(deftest on-node-gives-the-value-and-throws-what-was-thrown
  (mt/simulate {:seed 1}
    (two-nodes)
    (is (= 3 (mt/on-node :a #(+ 1 2))))
    (is (thrown-with-msg? ArithmeticException #"zero" (mt/on-node :a #(/ 1 0))))
    (is (= [:b :a] (mt/on-node :a (fn [] [(mt/on-node :b (fn [] :b)) (mt/on-node :a (fn [] :a))]))))))

(deftest a-call-that-is-cancelled-ends-and-its-function-goes-on
  (is (= [:cancelled true]
         (mt/simulate {:seed 1}
           (mt/start-node :a)
           (let [done (atom false)
                 outcome (try (scope/with-scope [s {:deadline 10}] (mt/on-node :a #(do (scope/sleep 100) (reset! done true))))
                              (catch Exception _ :cancelled))]
             (scope/sleep 200)
             [outcome @done])))))

(deftest what-a-deadlock-waits-for-names-the-node
  (let [message (try (mt/simulate {:seed 1} (mt/start-node :a) (mt/on-node :a #(a/<! (a/chan)))) (catch Exception e (ex-message e)))]
    (is (re-find #"#2 body waits for a call on node a, at nodes_test.clj:\d+" message))
    (is (re-find #"#5 a/call waits for take from a channel" message))))

(deftest misuse-is-refused
  (is (= :magnetar.test/not-simulated (reason-of mt/nodes)))
  (is (= :magnetar.test/not-simulated (reason-of #(mt/start-node :a))))
  (mt/simulate {:seed 1}
    (mt/start-node :a)
    (is (= [:a] (mt/nodes)))
    (doseq [[reason f] {:magnetar.test/node-runs #(mt/start-node :a)
                        :magnetar.test/bad-node-name #(mt/start-node "b")
                        :magnetar/bad-option #(mt/start-node :b {:skew 0.5})
                        :magnetar/unknown-option #(mt/start-node :b {:skwe 1})
                        :magnetar/not-a-function #(mt/on-node :a 5)
                        :magnetar.test/no-node #(mt/on-node :b identity)}]
      (is (= reason (reason-of f))))
    (is (= :magnetar/bad-option (reason-of #(mt/start-node :b {:rate 0}))))
    (is (= :magnetar.test/no-node (reason-of #(mt/restart-node :b))))
    (mt/crash-node :a)
    (is (= :magnetar.test/no-node (reason-of #(mt/crash-node :a))))
    (is (= [] (mt/nodes)))))

(deftest nodes-that-share-a-channel-or-a-process-are-reported-by-line
  (let [shared (fn [f] (let [{:keys [kind message]} (:problem (mt/simulate* {:seed 1} f))] [kind (boolean (re-find #"nodes_test.clj:\d+" (str message)))]))]
    (is (= [:shared true] (shared (fn []
                                    (two-nodes)
                                    (let [c (a/chan)]
                                      (mt/on-node :a (fn [] (a/go (a/<! c)) (scope/sleep 1)))
                                      (mt/on-node :b #(a/>! c 1)))))))
    (is (= [:shared true] (shared (fn []
                                    (mt/start-node :a)
                                    (let [p (mt/on-node :a (fn [] (let [p (idle)] (scope/sleep 1) p)))]
                                      (! p :stop)
                                      (scope/sleep 1))))))
    (is (= [:shared true] (shared (fn []
                                    (mt/start-node :a)
                                    (let [p (mt/on-node :a (fn []
                                                             (let [[_ p] (gs/start {:init (fn [_] [:ok 0]) :handle-cast (fn [_ s] [:noreply s])}
                                                                                   nil {:hosting :activated})]
                                                               (scope/sleep 1)
                                                               p)))]
                                      (gs/cast p :x)
                                      (scope/sleep 1))))))))

;; --- crashes

(def ^:private collected?
  "Are the threads of a crashed node collected? Where the JVM lists them, they end with the run."
  (.startsUntracked (Schedulers/chosen)))

(defn- noting
  "Fibers of all kinds, each of which would note that it runs again, or is cleaned up."
  [notes]
  (let [note #(swap! notes conj %)
        guarded (fn [f] (try (f) (note :ran) (finally (note :finally))))]
    (spawn (fn [] (guarded #(receive :stop 1))))
    (spawn (fn [] (guarded #(scope/sleep 100))))
    (spawn (fn [] (guarded #(locking notes (scope/sleep 100)))))
    (spawn (fn [] (scope/with-scope [s]
                    (scope/fork s (fn [] (guarded #(a/<! (a/timeout 100)))))
                    (guarded #(a/<! (a/timeout 100))))))
    (a/go (guarded #(a/<! (a/timeout 100))))
    (spawn (fn [] (scope/with-scope [s] (scope/on-exit s #(note :on-exit)) (guarded #(receive :stop 1)))))
    (spawn (fn [] (loop [n 0] (a/<! (a/timeout 1)) (note [:tick n]) (recur (inc n)))))
    (timer/apply-after 100 #(note :timer))))

(deftest a-crash-runs-nothing-of-the-node
  (doseq [seed (range 20)]
    (let [notes (atom [])
          run (mt/simulate* {:seed seed :log true}
                (fn []
                  (two-nodes)
                  (mt/on-node :a #(noting notes))
                  (scope/sleep 5)
                  (mt/crash-node :a)
                  (let [before @notes]
                    (scope/sleep 1000)
                    (mt/on-node :b #(scope/sleep 10))
                    (= before @notes))))
          at-end @notes]
      (is (true? (:value run)) (str "seed " seed))
      (is (or (not collected?) (every? vector? at-end)))
      (is (not-any? #(str/starts-with? (:name %) "a/") (:left run))))))

(deftest nothing-of-a-crashed-node-runs-when-the-simulation-has-ended
  (let [notes (atom [])]
    (mt/simulate {:seed 1}
      (two-nodes)
      (mt/on-node :b #(spawn (fn [] (try (receive :stop 1) (finally (swap! notes conj :b))))))
      (mt/on-node :a #(do (spawn (fn [] (try (receive :stop 1) (finally (swap! notes conj :a))))) (scope/sleep 1)))
      (mt/crash-node :a))
    (is (= (if collected? [:b] [:b :a]) @notes))))

(deftest a-call-on-a-node-that-crashes-ends
  (is (= [:magnetar.test/node-crashed :magnetar.test/node-crashed]
         (mt/simulate {:seed 1}
           (two-nodes)
           (let [of-b (atom nil)
                 caller (a/go (reset! of-b (reason-of #(mt/on-node :a (fn [] (scope/sleep 1000))))))]
             (scope/sleep 10)
             (mt/on-node :b #(mt/crash-node :a))
             (a/<! caller)
             [@of-b (do (mt/restart-node :a)
                        (reason-of #(mt/on-node :a (fn [] (try (mt/crash-node :a) (finally (reset! of-b :finally)))))))]
             [@of-b (do (mt/restart-node :a) (reason-of #(mt/on-node :a (fn [] (mt/crash-node :a)))))])))))

(deftest threads-of-a-crashed-node-are-collected
  (let [refs (atom [])]
    (mt/simulate {:seed 1}
      (mt/start-node :a)
      (mt/on-node :a (fn []
                       (dotimes [_ 20]
                         (spawn (fn [] (swap! refs conj (java.lang.ref.WeakReference. (Thread/currentThread))) (actor/with-process {} (receive :stop 1)))))
                       (gs/start {:init (fn [_] [:ok 0])} nil {:hosting :activated})
                       (scope/sleep 1)))
      (mt/crash-node :a))
    (is (= 20 (count @refs)))
    (is (mt/eventually (do (System/gc) (every? #(nil? (.get ^java.lang.ref.WeakReference %)) @refs))))))

;; --- the seed decides

(defn- workers []
  (dotimes [n 3]
    (spawn (fn [] (dotimes [i 3] (a/<! (a/timeout (* n 5))) (! (self) [n i]) (receive x x))))))

(defn- crashing
  "Nodes that work, crash and start again."
  []
  (mt/start-node :a {:skew 5})
  (mt/start-node :b {:rate 1.1})
  (run! #(mt/on-node % workers) [:a :b])
  (let [waits (a/go (reason-of #(mt/on-node :a (fn [] (scope/sleep 30) :slept))))]
    (a/alts! [waits (a/timeout 20)])
    (mt/restart-node :a)
    (mt/on-node :a workers)
    (scope/sleep 40)
    (mt/nodes)))

(deftest the-same-seed-gives-the-same-log-with-nodes-and-crashes
  (doseq [seed (range 200)]
    (let [options (cond-> {:seed seed :log true}
                    (odd? seed) (assoc :faults #{:crash-node :kill :delay-signals :early-timers :late-timers} :fault-rate 0.02)
                    (zero? (rem seed 3)) (assoc :strategy :priorities))
          safely #(try (crashing) (catch Exception e (:magnetar/reason (ex-data e))))
          [one two] (repeatedly 2 #(mt/simulate* options safely))
          again (mt/simulate* {:seed seed :log true :schedule (:schedule one)} safely)]
      (is (nil? (:problem one)))
      (is (= (:log-text one) (:log-text two)))
      (is (= (:log-text one) (:log-text again))))))

(deftest check-finds-a-crash-at-the-wrong-point-and-names-the-node
  (let [text (atom nil)
        body (fn []
               (mt/start-node :store)
               (let [disk (atom {})] ; two writes that should be one
                 (reason-of #(mt/on-node :store (fn []
                                                  (swap! disk assoc :from -1)
                                                  (a/<! (a/timeout 1))
                                                  (swap! disk assoc :to 1))))
                 (contains? #{0 2} (count @disk))))
        found (mt/check {:runs 1000 :faults #{:crash-node} :max-faults 1 :report #(reset! text %)} (body))]
    (is (false? (:passed found)))
    (is (= [:crash-node] (map :what (:schedule found))))
    (is (:repeatable found))
    (is (re-find #"node store crashes when #\d+ .* is at its point \d+" @text))
    (is (re-find #"Note over _\d+: crashes node store" (:diagram found)))
    (is (re-find #"participant _\d+ as \d+ store/call" (:diagram found)))
    (is (not (re-find #"store/faults" (:diagram found))))
    (testing "a predicate spares it"
      (is (:passed (mt/check {:runs 200 :faults #{:crash-node} :victims #{"other"} :report identity} (body)))))))

(deftest processes-of-a-node-are-killed-and-named-by-their-node
  (let [served (fn []
                 (mt/start-node :a)
                 (mt/on-node :a (fn []
                                  (let [p (actor/spawn-opt (fn [] (receive :stop nil)) {:name :server})]
                                    [(mt/await-down p {:else :lives :timeout 50}) (some? (actor/whereis :server))]))))
        runs (map #(mt/simulate* {:seed % :log true :faults #{:kill} :fault-rate 0.2 :max-faults 1 :victims #{"a/:server"}} served) (range 20))
        killed (filter #(= [:killed false] (:value %)) runs)]
    (is (seq killed))
    (is (every? (fn [run] (some #(re-find #"kills #\d+ a/:server" %) (:log-text run))) killed))))

(deftest failures-and-what-is-left-name-the-node
  (let [run (mt/simulate* {:seed 1} (fn []
                                      (mt/start-node :a)
                                      (mt/on-node :a (fn []
                                                       (actor/spawn-opt (fn [] (receive :stop nil)) {:name :server})
                                                       (a/go (throw (ex-info "lost" {})))
                                                       (scope/sleep 1)))))]
    (is (= ["a/:server"] (map :name (:left run))))
    (is (re-find #"^a/go .*nodes_test.clj" (:site (first (:failures run)))))))
