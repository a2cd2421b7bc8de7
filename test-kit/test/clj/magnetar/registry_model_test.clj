(ns magnetar.registry-model-test
  "Registries and streams of tasks in simulation, against models, and with a defect planted in each as a control."
  {:limit 240000}
  (:require
   [clojure.test :as t :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [after receive self]]
   [magnetar.async :as a]
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.runtime]
   [magnetar.registry :as registry]
   [magnetar.registry.table :as table]
   [magnetar.seeded-bugs :refer [without-reports]]
   [magnetar.task :as task]
   [magnetar.task.stream :as stream]
   [magnetar.test :as mt])
  (:import
   (java.util.concurrent ConcurrentHashMap)
   (magnetar.kernel.fiber Simulated)
   (magnetar.kernel.process Pid ProcessTable)
   (magnetar.registry.table Entry Table)))

(set! *warn-on-reflection* true)

(def ^:private runs (or (Long/getLong "magnetar.runs") 300))

(defn- searched
  "What `check*` finds, without its report being a failure of this test."
  [options f]
  (without-reports
    #(binding [t/*testing-vars* nil
               *out* (java.io.StringWriter.)]
       (mt/check* (merge {:runs runs} options) f))))

(defn- verdict
  "What a search says that has to find nothing."
  [{:keys [passed failure schedule run]}]
  (if passed
    :passed
    [(select-keys failure [:kind :message :error]) schedule (take-last 60 (:log-text run))]))

;; ---- registries: a model from each key to its owner, written in the same step as the answer is seen

(defn- claim
  "Registers the key again and again; tells the model what it has got. Flaws are what the model does not allow."
  [model registry key ^Pid me]
  (dotimes [n 3]
    (let [[how] (registry/register registry key n)
          ^Pid holder (@model key)]
      (when (and (= :ok how) (.isAlive me))
        (when (and holder (not= me holder) (.isAlive holder))
          (vswap! model update :flaws conj [:two-have key holder me]))
        (vswap! model assoc key me)
        (when-not (= [[me n]] (registry/lookup registry key))
          (vswap! model update :flaws conj [:does-not-find-itself key me]))
        (a/<! (a/timeout 1))
        (vswap! model dissoc key)
        (registry/unregister registry key)))))

(defn- dead-letters-of
  "What a registry still has of the process whose death has been learnt of."
  [registry keys pid]
  (filter #(= pid %) (concat (mapcat #(map first (registry/lookup registry %)) keys)
                             (map second (registry/select registry))
                             (when (seq (registry/keys registry pid)) [pid]))))

(defn- table-of ^Table [pid]
  (get (.dictionary (ProcessTable/live pid)) ::registry/table))

(defn- empty-soon?
  "Is nothing left in the table itself, once the registry has seen all deaths?"
  [pid]
  (let [table (table-of pid)]
    (mt/eventually (and (.isEmpty ^ConcurrentHashMap (.-at table)) (.isEmpty ^ConcurrentHashMap (.-of table))) {:else false})))

(defn- claims [kind]
  (actor/with-process {:trap-exit true}
    (let [model (volatile! {:flaws []})
          [_ pid] (registry/start-link {:keys kind :name :keys})
          claimants (mapv (fn [n key]
                            (actor/spawn-opt (fn [] (claim model :keys key (self)))
                                             {:name (keyword (str "claimant-" n))}))
                          (range 4) [:a :a :a :b])
          refs (mapv actor/monitor claimants)
          left (mapcat (fn [ref] (receive [:DOWN ref _ dead _] (dead-letters-of :keys [:a :b] dead))) refs)]
      (and (empty? (doall left))
           (or (= :duplicate kind) (= [] (:flaws @model)))
           (empty-soon? pid)))))

(def ^:private kills
  {:faults #{:kill} :fault-rate 0.05 :victims #(re-find #"claimant" %)})

(deftest ^{:spec ["C100" "C101"]} a-key-has-one-owner-and-none-that-is-dead-whoever-is-killed-when
  (doseq [kind [:unique :duplicate]]
    (testing kind
      (is (= :passed (verdict (searched kills #(claims kind))))))))

;; Looks, and then puts: what a registry without an atomic step would do.
(defn- look-then-put [^ConcurrentHashMap at ^Entry entry]
  (let [there (.get at (.-key entry))]
    (Simulated/switchPoint)
    (if (and there (.isAlive ^Pid (.-pid ^Entry there)))
      there
      (do (.put at (.-key entry) entry)
          nil))))

(deftest a-registry-that-looks-before-it-writes-is-found-out
  (with-redefs [table/put-unique look-then-put]
    (let [found (searched {} #(claims :unique))]
      (is (not (:passed found)))
      (is (= :property (:kind (:failure found)))))))

(defn- without-a-last-look [table pid key value]
  (let [entry (Entry. pid key (.incrementAndGet ^java.util.concurrent.atomic.AtomicLong (.-numbers ^Table table)) value)]
    (if-some [^Entry holder (#'table/put-at table entry)]
      (.-pid holder)
      (do
        (#'table/alter-in (.-of ^Table table) pid (#'table/with-entry entry))
        (owned/own pid table)
        nil))))

(deftest an-entry-that-is-made-after-the-death-is-found
  (with-redefs [table/add without-a-last-look]
    (let [found (searched kills #(claims :unique))]
      (is (not (:passed found)))
      (is (= :property (:kind (:failure found)))))))

;; ---- a registry that dies, and processes that outlive it

(defn- outlive
  "Processes register while their registry is killed. Afterwards none of them, all alive, owns the table."
  []
  (actor/with-process {:trap-exit true}
    (let [[_ pid] (registry/start-link {:keys :duplicate :name :keys})
          table (table-of pid)
          register (fn [n]
                     (actor/flag :trap-exit true)
                     (try
                       (registry/register :keys n)
                       (registry/register :keys :last)
                       (registry/unregister :keys n)
                       (catch IllegalArgumentException _)) ; the registry is dead
                     (receive :stop nil))
          pids (mapv (fn [n] (actor/spawn-opt #(register n) {:name (keyword (str "registers-" n))})) (range 3))]
      (actor/exit pid :kill)
      (a/<! (a/timeout 20))
      (let [left (filterv (fn [p] (some #(identical? table %) (.owned (ProcessTable/live p)))) pids)]
        (run! #(actor/! % :stop) pids)
        (empty? left)))))

(deftest ^{:spec ["C102"]} a-process-that-outlives-its-registry-does-not-keep-the-table
  (is (= :passed (verdict (searched {} outlive)))))

(defn- update-once [table pid]
  (if (#'table/owner? table pid)
    (do (Simulated/switchPoint) (owned/own pid table))
    (owned/disown pid table)))

(deftest an-ownership-that-is-not-checked-again-is-found
  (with-redefs [table/update-ownership update-once]
    (let [found (searched {} outlive)]
      (is (not (:passed found)))
      (is (= :property (:kind (:failure found)))))))

;; ---- timers for names in registries: whom they reach is asked when the time has come

(defn- named-later []
  (actor/with-process {:trap-exit true}
    (registry/start-link {:keys :unique :name :keys})
    (actor/send-after 50 (registry/via :keys :k) :early)
    (a/<! (a/timeout 10))
    (registry/register :keys :k)
    (let [first-one (receive x [x (long (mt/now))])]
      (actor/send-after 50 (registry/via :keys :k) :nobody)
      (registry/unregister :keys :k)
      [first-one (receive x x (after 100 :nothing))])))

(deftest ^{:spec ["C103"]} a-timer-finds-who-has-the-name-when-it-is-due
  (is (= [[:early 50] :nothing] (mt/simulate {:seed 1} (named-later))))
  (is (= [[:early 50] :nothing] (mt/with-virtual-clock (named-later)))))

;; ---- streams of tasks

(defn- busy
  "Counts itself in and out while it takes the time."
  [counts n]
  (vswap! counts (fn [{:keys [now most]}] {:now (inc (long now)) :most (max (long most) (inc (long now)))}))
  (try
    (a/<! (a/timeout (mod (* 7 (long n)) 5)))
    (* 10 (long n))
    (finally (vswap! counts update :now dec))))

(defn- expected? [n [how x]]
  (or (and (= :ok how) (= (* 10 (long n)) x))
      (and (= :exit how) (= :killed x))))

(defn- streamed
  "A stream over six elements, two at a time: are its results the model's, and is nothing left?"
  [ordered?]
  (actor/with-process {:trap-exit true}
    (let [counts (volatile! {:now 0 :most 0})
          results (into [] (task/async-stream (range 6) #(busy counts %) {:max-concurrency 2 :ordered ordered?}))
          killed (count (filter #(= :exit (first %)) results))]
      (and (= 6 (count results))
           (if ordered?
             (every? true? (map expected? (range 6) results))
             (= (- 6 killed) (count (distinct (filter #(= :ok (first %)) results)))))
           (<= (long (:most @counts)) (+ 2 killed)) ; a killed task may count itself out late
           (= [] (actor/flush))))))

(deftest ^{:spec ["C106"]} a-stream-keeps-its-order-and-its-bound
  (doseq [ordered? [true false]
          faults [#{} #{:kill}]]
    (testing [ordered? faults]
      (is (= :passed (verdict (searched {:faults faults :fault-rate 0.05 :victims #(re-find #"task" %) :properties [:no-leaked-fiber]}
                                         #(streamed ordered?))))))))

(deftest ^{:spec ["C106"]} a-stream-that-is-left-leaves-no-task
  (is (:passed (searched {:properties [:no-leaked-fiber]}
                         #(actor/with-process {:trap-exit true}
                            (let [counts (volatile! {:now 0 :most 0})]
                              (and (= [[:ok 0] [:ok 10]] (into [] (take 2) (task/async-stream (range) (partial busy counts) {:max-concurrency 3})))
                                   (mt/eventually (zero? (long (:now @counts))) {:else false})
                                   (= [] (actor/flush)))))))))

(defn- in-order-of-ends
  "Keeps results in the order in which they come, even if the order of the elements was asked for."
  [keep-result]
  (fn [plan state number result]
    (keep-result (assoc plan :ordered? false) state number result)))

(deftest a-stream-whose-results-come-out-of-order-is-found-out
  (with-redefs [stream/keep-result (in-order-of-ends @#'stream/keep-result)]
    (let [found (searched {} #(streamed true))]
      (is (not (:passed found)))
      (is (= :property (:kind (:failure found)))))))
