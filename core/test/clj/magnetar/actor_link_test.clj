(ns magnetar.actor-link-test
  "Links, monitors and names while processes die: each signal comes once. And timers, to the millisecond."
  (:require
   [clojure.edn :as edn]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! after exit flag link monitor receive self spawn with-process]]
   [magnetar.actor-support :refer [outcome reason]]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope]
   [magnetar.support :refer [eventually]]
   [magnetar.test :refer [now with-virtual-clock]])
  (:import
   (java.util Random)
   (java.util.concurrent ConcurrentLinkedQueue)))

(set! *warn-on-reflection* true)

(def ^:private trials 2000)

(defn- dying
  "A process that is just about to die of :boom."
  [n]
  (let [pid (spawn #(do (receive :go nil) (exit :boom)))]
    (! pid :go)
    (dotimes [_ (rem (long n) 7)] (Thread/onSpinWait))
    pid))

;; Pulsar lost 59 of 100.
(deftest ^{:spec ["C72"]} a-link-to-a-dying-process-gives-one-exit-each-time
  (with-process {:trap-exit true}
    (dotimes [n trials]
      (let [pid (dying n)]
        (link pid)
        (is (#{:boom :noproc} (receive [:EXIT pid why] why (after 20000 :late))))))
    (is (= [] (actor/flush)))))

(deftest ^{:spec ["C73"]} a-monitor-of-a-dying-process-gives-one-down-each-time
  (with-process {}
    (dotimes [n trials]
      (let [pid (dying n)
            ref (monitor pid)]
        (is (#{:boom :noproc} (receive [:DOWN ref :process pid why] why (after 20000 :late))))))
    (is (= [] (actor/flush)))))

(defn- others-of-this-file [me]
  (filter #(and (not= me (:pid %)) (re-find #"actor_link_test" (str (:label %)))) (inspect/processes)))

(deftest ^{:spec ["C73"]} after-a-demonitor-with-flush-no-down-comes
  (with-process {}
    (dotimes [n trials]
      (actor/demonitor (monitor (dying n)) {:flush true}))
    (is (eventually (empty? (others-of-this-file (self)))))
    (is (= [] (actor/flush)))))

(defn- ring
  "As many processes as n, each linked to the next."
  [n]
  (let [pids (vec (repeatedly n #(spawn (fn []
                                          (receive [:link pid] (link pid))
                                          (receive ::never nil)))))]
    (dotimes [i n]
      (! (pids i) [:link (pids (rem (inc i) n))]))
    pids))

(deftest ^{:spec ["C72"]} when-one-of-a-ring-is-killed-all-die-once-each
  (with-process {}
    (let [random (Random. 4711)]
      (dotimes [_ 10]
        (let [pids (ring 200)
              refs (into {} (map (juxt monitor identity)) pids)]
          (is (eventually (every? #(= 2 (count (:links (actor/process-info %)))) pids)))
          (exit (pids (.nextInt random 200)) :kill)
          (is (= (set pids)
                 (set (repeatedly (count pids) #(receive [:DOWN ref :process _ :killed] (refs ref) (after 20000 :late))))))
          (is (= [] (actor/flush))))))))

(deftest ^{:spec ["C72"]} a-link-dies-with-both-and-holds-nothing
  (with-process {:trap-exit true}
    (dotimes [_ 1000]
      (let [pid (actor/spawn-link (fn []))]
        (receive [:EXIT pid _] nil)))
    (is (= [] (:links (actor/process-info (self)))))))

(deftest ^{:spec ["C75"]} a-name-is-free-for-whoever-has-the-down
  (with-process {}
    (dotimes [_ 500]
      (let [[pid ref] (actor/spawn-monitor #(receive ::never nil))]
        (actor/register ::name pid)
        (exit pid (rand-nth [:kill :stop]))
        (receive [:DOWN ref :process _ _] nil (after 20000 nil))
        (is (nil? (actor/whereis ::name)))))))

(deftest ^{:spec ["C65"]} a-clause-that-throws-has-consumed-its-message-once
  (with-process {}
    (! (self) [:div 0])
    (! (self) [:div 2])
    (is (thrown? ArithmeticException (receive [:div n] (/ 10 (long n)))))
    (is (= 5 (receive [:div n] (/ 10 (long n)))))
    (is (= [] (actor/flush)))))

;; ---- timers

(deftest ^{:spec ["C76"]} timers-send-when-their-time-has-come-and-not-before
  (with-virtual-clock
    (with-process {}
      (let [timer (actor/start-timer 500 (self) :tick)]
        (actor/send-after 300 (self) :early)
        (is (= 500 (actor/read-timer timer)))
        (is (= [:early 300] [(receive x x) (now)]))
        (is (= 200 (actor/read-timer timer)))
        (is (= [[:timeout timer :tick] 500] [(receive x x) (now)]))
        (is (= [false false] [(actor/read-timer timer) (actor/cancel-timer timer)]))))))

(deftest ^{:spec ["C76"]} a-timer-that-was-stopped-does-not-send
  (with-virtual-clock
    (with-process {}
      (let [timer (actor/send-after 500 (self) :tick)]
        (is (= :none (receive x x (after 100 :none))))
        (is (= 400 (actor/cancel-timer timer)))
        (is (= [:none 10100] [(receive x x (after 10000 :none)) (now)]))))))

(deftest ^{:spec ["C76"]} a-timer-outlives-who-started-it-and-its-message-to-the-dead-is-dropped
  (with-virtual-clock
    (with-process {}
      (let [me (self)
            child (spawn #(do (actor/send-after 100 me :from-the-past)
                              (actor/send-after 100 (self) :to-the-dead)))]
        (is (= :normal (reason child)))
        (is (= [:from-the-past 100] [(receive x x) (now)]))))))

(deftest ^{:spec ["C65"]} an-after-counts-from-the-beginning-of-the-wait
  (with-virtual-clock
    (with-process {}
      (let [me (self)]
        (doseq [ms [100 200 300 400]] (actor/send-after ms me :noise))
        (is (= [:late 250] [(receive :signal :signal (after 250 :late)) (now)]))
        (is (= 2 (count (actor/flush))))))))

(deftest trapped-exits-are-told-apart-from-messages-that-look-like-them
  (with-process {}
    (flag :trap-exit true)
    (let [pid (spawn (fn []))]
      (reason pid)
      (! (self) [:EXIT pid :forged])
      (is (= :forged (receive [:EXIT pid why] why)))
      (testing "the value of a process comes out of join"
        (is (= [:value 3] (outcome (spawn + 1 2))))))))

(deftest ^{:spec ["C72"]} a-child-does-not-outlive-a-parent-that-was-killed-while-it-linked-it
  (dotimes [_ 100]
    (let [children (ConcurrentLinkedQueue.)
          child (fn [] (.add children (self)) (receive :never nil))
          parent (spawn (fn [] (while true (actor/spawn-link child))))]
      (while (< (.size children) 5) (Thread/onSpinWait))
      (exit parent :kill)
      (is (eventually (not-any? actor/alive? children))))))

(deftest ^{:spec ["C79"]} a-pid-that-was-read-names-the-process-for-links-and-monitors-too
  (with-process {:trap-exit true}
    (let [pid (spawn (fn [] (receive :boom (exit :boom))))
          same (edn/read-string {:readers actor/readers} (pr-str pid))
          ref (monitor same)]
      (is (= [true true] [(actor/alive? same) (link same)]))
      (! same :boom)
      (is (= :boom (receive [:DOWN ref :process same why] why)))
      (is (= :boom (receive [:EXIT same why] why)))
      (is (= [[] false] [(actor/flush) (actor/alive? same)])))))

(deftest ^{:spec ["C72"]} a-second-link-says-nothing-of-a-death-that-has-still-to-be-told
  (with-process {:trap-exit true}
    (dotimes [_ 2000]
      (let [pid (actor/spawn-link (fn [] (exit :boom)))]
        (link pid)
        (let [told (receive [:EXIT pid why] why)]
          (when-not (contains? #{:boom} told) (is (= :boom told))))
        (actor/flush)))))

(deftest ^{:spec ["C75"]} a-name-does-not-outlive-a-guest-that-was-cancelled-as-it-came
  (dotimes [_ 200]
    (try
      (scope/with-scope [s]
        (scope/fork s (fn [] (dotimes [_ 20] (with-process {:name ::guest :trap-exit true} 1))))
        (scope/cancel s))
      (catch Throwable _)))
  (is (nil? (actor/whereis ::guest))))
