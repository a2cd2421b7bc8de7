(ns magnetar.group-test
  "Groups of processes, and names of the cluster, on one node."
  (:require
   [clojure.edn :as edn]
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor :refer [exit receive]]
   [magnetar.global :as global]
   [magnetar.impl.actor.global :as tables]
   [magnetar.impl.groups :as groups]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.pg :as pg]
   [magnetar.support :as support])
  (:import
   (magnetar.kernel.process Pid ProcessTable)))

(set! *warn-on-reflection* true)

(use-fixtures :each (fn [test] (scenarios/leaving-nobody #(actor/with-process {} (test)))))

(defn- sentence [f]
  (try
    (f)
    (catch IllegalArgumentException e
      [(:magnetar/reason (ex-data e)) (ex-message e)])))

;; ---- magnetar.pg

(deftest members-are-listed-as-often-as-they-have-joined
  (let [[a b] (repeatedly scenarios/idle)
        times #(frequencies (pg/members ::order))]
    (is (= :ok (pg/join ::order a)))
    (is (= :ok (pg/join ::order [b a])))
    (is (= {a 2 b 1} (times)))
    (is (= :ok (pg/leave ::order a)))
    (is (= {a 1 b 1} (times)))
    (is (= :ok (pg/leave ::order [b a])))
    (is (= [] (pg/members ::order)))))

(deftest a-group-without-members-is-none
  (let [pid (scenarios/idle)]
    (pg/join ::short pid)
    (is (some #{::short} (pg/which-groups)))
    (pg/leave ::short pid)
    (is (not-any? #{::short} (pg/which-groups)))
    (is (= [] (pg/members ::short)))))

(deftest whoever-has-not-joined-cannot-leave
  (let [[a b] (repeatedly scenarios/idle)]
    (is (= :not-joined (pg/leave ::nobody a)))
    (pg/join ::nobody a)
    (is (= :not-joined (pg/leave ::nobody b)))
    (is (= :ok (pg/leave ::nobody [a b])))))

(deftest the-dead-are-no-members-from-the-moment-of-their-death
  (let [[a b] (repeatedly scenarios/idle)]
    (pg/join ::dead [a b a])
    (exit a :kill)
    (is (= [b] (pg/members ::dead)))
    (exit b :kill)
    (is (= [] (pg/members ::dead)))
    (is (not-any? #{::dead} (pg/which-groups)))))

(deftest whoever-joins-when-dead-is-no-member
  (is (= :ok (pg/join ::late (scenarios/dead))))
  (is (= [] (pg/members ::late))))

(defn- kept-groups []
  (:local @(groups/groups)))

(defn- read-back [pid]
  (edn/read-string {:readers actor/readers} (pr-str pid)))

(deftest a-pid-that-was-read-from-text-is-the-member-that-it-names
  (let [pid (scenarios/idle)]
    (pg/join ::read (read-back pid))
    (is (= [pid] (pg/members ::read)))
    (is (= :ok (pg/leave ::read pid)))
    (is (= [] (pg/members ::read)))
    (pg/join ::read (read-back pid))
    (exit pid :kill)
    (is (= [] (pg/members ::read)))
    (is (support/eventually (not (contains? (kept-groups) ::read))))))

(deftest what-is-no-pid-joins-no-group
  (is (= [:magnetar/not-a-pid "`pg/join` wants a pid, or a collection of pids; this is [:logger]."]
         (sentence #(pg/join ::wrong :logger))))
  (is (= [:magnetar/not-a-pid "`pg/leave` wants a pid, or a collection of pids; this is [nil]."]
         (sentence #(pg/leave ::wrong nil)))))

(deftest a-thousand-processes-that-join-at-once-are-all-members
  (let [pids (repeatedly 1000 scenarios/idle)]
    (run! deref (mapv (fn [part] (future (run! #(pg/join ::many %) part))) (partition-all 100 pids)))
    (is (= (set pids) (set (pg/members ::many))))
    (run! #(exit % :kill) pids)
    (is (= [] (pg/members ::many)))))

;; ---- monitors of groups

(deftest a-monitor-of-a-group-tells-who-joins-and-leaves
  (let [[a b] (repeatedly scenarios/idle)]
    (pg/join ::told a)
    (let [[ref pids] (pg/monitor ::told)]
      (is (= [a] pids))
      (pg/join ::told [b a])
      (pg/join ::other b)
      (pg/leave ::told [a b b])
      (exit a :kill)
      (is (= [[ref :join ::told [b a]] [ref :leave ::told [a b]] [ref :leave ::told [a]]]
             (repeatedly 3 #(receive x x))))
      (is (= :ok (pg/demonitor ref)))
      (pg/join ::told b)
      (is (= [] (actor/flush))))))

(deftest a-process-that-dies-leaves-as-often-as-it-has-joined
  (let [a (scenarios/idle)
        [ref _] (pg/monitor ::often)]
    (pg/join ::often [a a a])
    (exit a :kill)
    (is (= [[:join [a a a]] [:leave [a a a]]]
           (repeatedly 2 #(receive [ref verb ::often pids] [verb pids]))))
    (pg/demonitor ref)))

(deftest a-monitor-of-the-scope-tells-of-all-groups
  (let [[a b] (repeatedly scenarios/idle)]
    (pg/join ::one a)
    (let [[ref all] (pg/monitor-scope)]
      (is (= {::one [a]} (select-keys all [::one ::two])))
      (pg/join ::two b)
      (pg/leave ::one a)
      (is (= [[ref :join ::two [b]] [ref :leave ::one [a]]] (repeatedly 2 #(receive x x))))
      (is (= :ok (pg/demonitor ref)))
      (is (false? (pg/demonitor ref))))))

(deftest a-demonitor-takes-its-messages-away-and-no-others
  (let [a (scenarios/idle)
        [[ref] [other]] (repeatedly 2 #(pg/monitor ::both))]
    (pg/join ::both a)
    (is (= :ok (pg/demonitor ref)))
    (is (= [[other :join ::both [a]]] (actor/flush)))
    (pg/demonitor other)))

(deftest only-the-process-of-a-monitor-ends-it
  (let [[ref _] (pg/monitor ::mine)]
    (is (false? (actor/join (actor/spawn #(pg/demonitor ref)))))
    (is (false? (pg/demonitor (actor/make-alias))))
    (is (= :ok (pg/demonitor ref)))
    (is (= [:magnetar/not-a-reference "`pg/demonitor` wants a reference that `pg/monitor` has returned; this is :mine."]
           (sentence #(pg/demonitor :mine))))))

(deftest nothing-is-kept-of-watchers-that-have-ended
  (let [refs (mapv (fn [_] (actor/join (actor/spawn (fn [] [(first (pg/monitor ::w)) (first (pg/monitor-scope))])))) (range 20))
        {:keys [watches watched]} @(groups/groups)]
    (is (not-any? watches (flatten refs)))
    (is (not (contains? watched [:group ::w])))))

(deftest what-many-threads-change-is-told-in-order
  (let [pids (vec (repeatedly 20 scenarios/idle))
        [ref before] (pg/monitor ::busy)
        work (mapv (fn [pid] (future (dotimes [_ 50] (pg/join ::busy pid) (pg/leave ::busy pid)) (pg/join ::busy pid))) pids)]
    (run! deref work)
    (loop [members (frequencies before)
           n 0]
      (is (every? #{1} (vals members)))
      (if (< n (* 20 101))
        (let [[verb [pid]] (receive [ref verb _ changed] [verb changed])]
          (recur (if (= :join verb) (update members pid (fnil inc 0)) (dissoc members pid)) (inc n)))
        (is (= (set pids) (set (keys members))))))
    (pg/demonitor ref)))

;; ---- scopes

(deftest a-scope-has-groups-of-its-own
  (let [[a b] (repeatedly scenarios/idle)]
    (pg/join ::shop ::here a)
    (pg/join ::here b)
    (is (= [[a] [a] [b] []] [(pg/members ::shop ::here) (pg/local-members ::shop ::here) (pg/members ::here) (pg/members ::other ::here)]))
    (is (= [[::here] [::here] []] [(pg/which-groups ::shop) (pg/which-local-groups ::shop) (pg/which-groups ::other)]))
    (is (= [b] (pg/members :pg ::here)))
    (is (= :not-joined (pg/leave ::shop ::here b)))
    (is (= :ok (pg/leave ::shop ::here a)))
    (is (= [] (pg/which-groups ::shop)))
    (is (some #{::here} (pg/which-groups)))))

(deftest a-monitor-tells-of-its-scope-only
  (let [[a b] (repeatedly scenarios/idle)
        _ (pg/join ::shop ::one a)
        [all groups] (pg/monitor-scope ::shop)
        [one pids] (pg/monitor ::shop ::one)
        [others _] (pg/monitor-scope)]
    (is (= [{::one [a]} [a]] [groups pids]))
    (pg/join ::shop ::one b)
    (pg/join ::shop ::two b)
    (pg/join ::one b)
    (exit a :kill)
    (let [told (repeatedly 6 #(receive x x))
          of (fn [ref] (map rest (filter #(= ref (first %)) told)))]
      (is (= [[:join ::one [b]] [:join ::two [b]] [:leave ::one [a]]] (of all)))
      (is (= [[:join ::one [b]] [:leave ::one [a]]] (of one)))
      (is (= [[:join ::one [b]]] (of others))))
    (is (= [:ok :ok :ok] (map pg/demonitor [all one others])))))

(deftest a-scope-is-a-keyword
  (doseq [[operation f] {"join" #(pg/join "shop" ::one (actor/self))
                         "leave" #(pg/leave "shop" ::one (actor/self))
                         "members" #(pg/members "shop" ::one)
                         "local-members" #(pg/local-members "shop" ::one)
                         "which-groups" #(pg/which-groups "shop")
                         "which-local-groups" #(pg/which-local-groups "shop")
                         "monitor" #(pg/monitor "shop" ::one)
                         "monitor-scope" #(pg/monitor-scope "shop")}]
    (is (= [:magnetar/bad-name (str "`pg/" operation "` wants a scope, a keyword such as :shop; this is \"shop\".")] (sentence f)))))

;; ---- groups of this node

(deftest without-a-cluster-all-members-are-local
  (let [a (scenarios/idle)]
    (pg/join ::alone a)
    (is (= [a] (pg/local-members ::alone) (pg/members ::alone)))
    (is (some #{::alone} (pg/which-local-groups)))
    (exit a :kill)
    (is (not-any? #{::alone} (pg/which-local-groups)))))

;; ---- magnetar.global

(deftest a-name-is-any-value-and-has-one-process
  (let [[a b] (repeatedly scenarios/idle)]
    (is (= :yes (global/register-name [:cart 17] a)))
    (is (= :no (global/register-name [:cart 17] b)))
    (is (= :no (global/register-name [:cart 17] a)))
    (is (= a (global/whereis-name [:cart 17])))
    (is (some #{[:cart 17]} (global/registered-names)))
    (is (nil? (actor/whereis :cart)))
    (is (= :ok (global/unregister-name [:cart 17])))
    (is (nil? (global/whereis-name [:cart 17])))
    (is (= :ok (global/unregister-name [:cart 17])))))

(deftest the-name-of-the-dead-is-free-at-once
  (let [[a b] (repeatedly scenarios/idle)]
    (global/register-name ::heir a)
    (exit a :kill)
    (is (nil? (global/whereis-name ::heir)))
    (is (= :yes (global/register-name ::heir b)))
    (is (= b (global/whereis-name ::heir)))
    (global/unregister-name ::heir)))

(deftest a-name-can-be-given-to-a-pid-that-was-read-from-text
  (let [pid (scenarios/idle)]
    (is (= :yes (global/register-name ::read (read-back pid))))
    (is (= pid (global/whereis-name ::read)))
    (is (= :no (global/register-name ::read pid)))
    (exit pid :kill)
    (is (nil? (global/whereis-name ::read)))))

(deftest only-processes-have-names
  (is (= [:magnetar/not-a-pid "`global/register-name` wants a pid; this is :logger."]
         (sentence #(global/register-name ::wrong :logger)))))

;; ---- what the dead leave behind

(defn- kept [all key-of pids]
  (filter #(contains? all (key-of %)) pids))

(defn- end [pid]
  (let [ref (actor/monitor pid)]
    (exit pid :kill)
    (receive [:DOWN ref _ _ _] nil)))

(deftest nothing-is-kept-of-the-dead-once-a-monitor-has-told-of-the-death
  (let [pids (vec (repeatedly 20 scenarios/idle))
        key-of (fn [pid] [::kept pid])
        kept-of (fn [pids] (mapcat #(kept % key-of pids) [(kept-groups) @@#'tables/real-names]))]
    (doseq [pid pids]
      (pg/join (key-of pid) pid)
      (global/register-name (key-of pid) pid))
    (is (= 40 (count (kept-of pids))))
    (doseq [pid pids]
      (end pid)
      (is (= [] (kept-of [pid]))))))

(defn- owned [^Pid pid]
  (count (.owned (ProcessTable/live pid))))

(deftest a-member-owns-one-clean-up-and-one-that-has-left-owns-none
  (let [pid (scenarios/idle)]
    (dotimes [_ 100]
      (pg/join ::often pid)
      (pg/join ::often [pid pid])
      (is (= 1 (owned pid)))
      (pg/leave ::often [pid pid pid]))
    (is (= 0 (owned pid)))))

(deftest a-process-owns-a-clean-up-for-each-of-its-names-only
  (let [[a b] (repeatedly scenarios/idle)]
    (global/register-name ::one a)
    (global/register-name ::two a)
    (global/register-name ::one b)
    (is (= [2 0] [(owned a) (owned b)]))
    (global/unregister-name ::one)
    (global/unregister-name ::two)
    (is (= 0 (owned a)))))

(deftest processes-that-join-and-die-at-once-leave-nothing
  (let [pids (vec (repeatedly 200 scenarios/idle))
        joins (mapv (fn [part] (future (run! (fn [pid] (pg/join ::brief pid) (global/register-name [::brief pid] pid)) part)))
                    (partition-all 50 pids))]
    (run! #(exit % :kill) pids)
    (run! deref joins)
    (run! #(try (actor/join %) (catch Exception _)) pids)
    (is (not (contains? (kept-groups) ::brief)))
    (is (= [] (kept @@#'tables/real-names (fn [pid] [::brief pid]) pids)))))

(deftest members-and-names-are-watched-by-no-process
  (let [pid (scenarios/idle)]
    (pg/join ::watched pid)
    (global/register-name ::watched pid)
    (is (= [] (vec (actor/process-info pid :monitored-by))))))
