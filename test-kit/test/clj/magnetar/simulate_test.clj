(ns magnetar.simulate-test
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async :as a]
   [magnetar.scope :as scope]
   [magnetar.simulated-programs :as programs]
   [magnetar.test :as mt])
  (:import
   (java.lang.reflect Method)
   (java.util.concurrent CompletableFuture Executors ForkJoinPool)))

(defn- reason-of [f]
  (try (f) (catch Exception e [(:magnetar/reason (ex-data e)) (ex-message e)])))

(defn- log-of [seed program]
  (:log-text (mt/simulate* {:seed seed :log true} program)))

;; --- the same run

(deftest the-same-seed-gives-the-same-log-line-by-line
  (doseq [[program-name program] programs/all
          seed (range 3)]
    (testing (str program-name ", seed " seed)
      (is (= 1 (count (distinct (repeatedly 5 #(log-of seed program)))))))))

(deftest another-seed-gives-another-order
  (is (< 5 (count (distinct (map #(:value (mt/simulate* {:seed %} programs/many-to-one)) (range 20)))))))

(deftest keeping-a-log-does-not-change-the-run
  (doseq [[_ program] programs/all
          seed (range 5)]
    (is (= (:schedule (mt/simulate* {:seed seed :log true} program))
           (:schedule (mt/simulate* {:seed seed} program))))))

(deftest a-given-schedule-is-done-again
  (doseq [seed (range 10)]
    (let [run (mt/simulate* {:seed seed :log true} programs/many-to-one)
          again (mt/simulate* {:seed seed :log true :schedule (:schedule run)} programs/many-to-one)]
      (is (= (:log-text run) (:log-text again))))))

;; --- time

(deftest a-program-that-sleeps-a-day-ends-at-once
  (let [run (mt/simulate* {:seed 1} #(do (scope/sleep 86400000) (a/<! (a/timeout 1000)) :awake))]
    (is (= :awake (:value run)))
    (is (<= 86401000 (:ms run) 86401010))))

(deftest what-is-due-first-comes-first-whatever-the-seed
  (doseq [seed (range 20)]
    (is (= [1 2 3]
           (mt/simulate {:seed seed}
             (let [c (a/chan 3)]
               (doseq [n [3 1 2]] (a/go (a/<! (a/timeout (* 10 n))) (a/>! c n)))
               (vec (repeatedly 3 #(a/<! c)))))))))

;; --- values, errors

(deftest simulate-gives-the-value-of-its-body-and-throws-what-it-throws
  (is (= 3 (mt/simulate {:seed 1} (+ 1 2))))
  (is (thrown-with-msg? ArithmeticException #"zero" (mt/simulate {:seed 1} (/ 1 0)))))

(deftest names-and-pids-of-a-simulation-are-its-own
  (let [pids (fn [] (let [p (spawn (fn [] (receive :stop :stopped)))]
                      (actor/register :simulated-name p)
                      [(str p) (some? (actor/whereis :simulated-name))]))]
    (is (= (mt/simulate {:seed 1} (pids)) (mt/simulate {:seed 1} (pids))))
    (is (nil? (actor/whereis :simulated-name)))))

(deftest what-is-left-when-the-body-ends-is-ended
  (let [ended (atom 0)]
    (mt/simulate {:seed 1}
      (dotimes [_ 3] (spawn (fn [] (try (receive :never nil) (finally (swap! ended inc))))))
      (a/<! (a/timeout 10)))
    (is (= 3 @ended))))

(deftest a-bad-option-is-refused-in-a-sentence
  (doseq [[options sentence] {42 "`magnetar.test/simulate` takes its options as a map; this is 42."
                              {:seed "x"} ":seed is a whole number, as the report of a run gives it; this is \"x\"."
                              {:fault-rate 2} ":fault-rate is a probability from 0 to 1; this is 2."
                              {:faults :kill} ":faults is a set of :crash-node, :cut-link, :delay-signals, :early-timers, :flap, :kill, :late-timers, :lose-message; this is :kill."
                              {:max-steps 0} "`magnetar.test/simulate`: :max-steps is a whole number from 1 up; this is 0."
                              {:max-faults -1} ":max-faults is a whole number from 0 up; this is -1."
                              {:victims 5} "`magnetar.test/simulate`: :victims is a function, as in {:victims #(re-find #\"server\" %)}; this is 5."
                              {:schedule [1]} ":schedule is the :schedule of a run or of a report, a vector of maps; this is [1]."}]
    (is (= sentence (second (reason-of #(mt/simulate options 1)))))))

(deftest a-simulation-within-another-is-refused-whichever-it-is
  (is (= #{:magnetar.test/nested}
         (set (map #(first (reason-of %)) [#(mt/simulate {} (mt/simulate {} 1))
                                           #(mt/simulate {} (mt/check {} true))
                                           #(mt/simulate {} (mt/with-virtual-clock 1))])))))

(deftest unknown-options-are-refused
  (is (= :magnetar/unknown-option (first (reason-of #(mt/simulate {:sede 1} 1)))))
  (is (= :magnetar.test/unknown-fault (first (reason-of #(mt/simulate {:faults #{:meteor}} 1)))))
  (is (= :magnetar.test/unknown-strategy (first (reason-of #(mt/simulate {:strategy :luck} 1)))))
  (is (= :magnetar.test/nested (first (reason-of #(mt/simulate {} (mt/simulate {} 1)))))))

;; --- what is no part of a simulation

(deftest a-deadlock-names-each-fiber-what-it-waits-for-and-where
  (let [[reason message] (reason-of #(mt/simulate {:seed 1}
                                       (let [c (a/chan)
                                             d (a/chan)]
                                         (a/go (a/<! d) (a/>! c 1))
                                         (a/<! c)
                                         (a/>! d 1))))]
    (is (= :magnetar.test/deadlock reason))
    (is (re-find #"#2 body waits for take from a channel channel 1, at simulate_test.clj:\d+" message))
    (is (re-find #"#3 go .*simulate_test.clj:\d+ waits for take from a channel channel 2" message))
    (is (re-find #"seed 1" message))))

(deftest a-process-that-waits-for-a-message-is-named-in-a-deadlock
  (let [[_ message] (reason-of #(mt/simulate {:seed 1} (actor/with-process {} (receive :never nil))))]
    (is (re-find #"#2 body waits for message #2 body" message))))

(defn- refused-with [reason f]
  (let [[actual message] (reason-of #(mt/simulate {:seed 1 :patience-ms 1000} (f)))]
    (is (= reason actual))
    (is (re-find #"simulate_test.clj:\d+" (str message)))))

(deftest ^{:spec ["C145"]} real-sleep-is-reported-by-line
  (refused-with :magnetar.test/timed-wait #(Thread/sleep 10))
  (refused-with :magnetar.test/timed-wait #(deref (promise) 10 nil)))

(defn- contended
  "Three go blocks count in a monitor, and let others run in there."
  []
  (let [o (Object.)
        n (volatile! 0)
        done (a/chan 3)]
    (dotimes [_ 3]
      (a/go (dotimes [_ 5]
              (locking o (let [v @n] (a/<! (a/timeout 1)) (vreset! n (inc v)))))
            (a/>! done 1)))
    (dotimes [_ 3] (a/<! done))
    @n))

(deftest who-waits-for-a-monitor-goes-on-when-it-is-left-and-the-log-says-so
  (doseq [seed (range 3)]
    (let [runs (repeatedly 5 #(mt/simulate* {:seed seed :log true} contended))]
      (is (= #{15} (set (map :value runs))))
      (is (= 1 (count (distinct (map :log-text runs)))))
      (is (some #(re-find #"waits for a monitor simulate_test.clj:\d+" %) (:log-text (first runs)))))))

(deftest a-deadlock-over-monitors-is-reported-by-line
  (refused-with :magnetar.test/deadlock
                #(let [o (Object.)
                       p (Object.)
                       c (a/chan)]
                   (a/go (locking o (a/>! c 1) (locking p 1)))
                   (locking p (a/<! c) (locking o 2)))))

(deftest ^{:spec ["C145"]} a-monitor-of-the-jdk-that-somebody-waits-in-is-reported-by-line
  (refused-with :magnetar.test/monitor
                #(let [m (java.util.Hashtable.)]
                   (a/go (.computeIfAbsent m 1 (reify java.util.function.Function (apply [_ k] (a/<! (a/timeout 10)) k))))
                   (a/<! (a/timeout 1))
                   (.get m 1))))

(deftest a-wait-for-a-notify-ends-with-it
  (is (= :notified (mt/simulate {:seed 1}
                     (let [o (Object.)
                           waits (a/go (locking o (.wait o) :notified))]
                       (a/<! (a/timeout 1))
                       (locking o (.notify o))
                       (a/<! waits))))))

(deftest futures-and-agents-are-reported-by-line
  (refused-with :magnetar.test/foreign-thread #(deref (future 1)))
  (refused-with :magnetar.test/foreign-thread #(send (agent 1) inc))
  (is (= 2 @(future (inc 1)))))

(deftest ^{:spec ["C145"]} a-thread-that-wakes-a-fiber-is-reported-by-line
  (refused-with :magnetar.test/foreign-thread
                #(let [c (a/chan)]
                   (.start (Thread. (fn [] (a/>!! c 1))))
                   (a/<! c))))

(deftest ^{:spec ["C145"]} a-thread-that-a-fiber-wakes-is-reported-by-line
  (refused-with :magnetar.test/foreign-thread
                #(let [c (a/chan)
                       t (Thread. (fn [] (a/>!! c 1)))]
                   (.start t)
                   (while (not= Thread$State/WAITING (.getState t)) (Thread/onSpinWait))
                   (a/<! c))))

;; Not by its name: the thread of the simulation before may not have ended yet.
(defn- current-carrier []
  (-> (doto ^Method (.getDeclaredMethod Thread "currentCarrierThread" (make-array Class 0))
        (.setAccessible true))
      (.invoke nil (object-array 0))))

(defn- until-this-waits
  "A function that returns when the current fiber has parked, and its carrier is done with it: what comes before is no wake-up from outside."
  []
  (let [me (Thread/currentThread)
        carrier (current-carrier)
        runs? (fn [^Thread t] (= Thread$State/RUNNABLE (.getState t)))]
    (fn [] (while (or (runs? me) (runs? carrier)) (Thread/onSpinWait)))))

(deftest a-pool-that-wakes-a-fiber-is-reported-with-the-line-that-waits
  (refused-with :magnetar.test/foreign-thread
                #(let [answer (CompletableFuture.)
                       wait (until-this-waits)]
                   (.execute (ForkJoinPool/commonPool)
                             (fn []
                               (wait)
                               (.complete answer 1)))
                   (.get answer))))

(deftest ^{:spec ["C145"]} a-virtual-thread-of-the-jdk-is-reported-by-line
  (refused-with :magnetar.test/foreign-thread #(.join (Thread/startVirtualThread (fn [] 1))))
  (refused-with :magnetar.test/foreign-thread
                #(with-open [e (Executors/newVirtualThreadPerTaskExecutor)] (.get (.submit e ^Callable (fn [] 1))))))

(deftest a-thread-whose-end-is-waited-for-is-reported-by-line
  (refused-with :magnetar.test/foreign-thread
                #(doto (Thread. ^Runnable (until-this-waits)) (.start) (.join))))

(deftest a-loop-without-an-end-is-reported-by-line
  (refused-with :magnetar.test/endless #(let [c (a/chan (a/sliding-buffer 1))] (loop [] (a/>! c 1) (recur))))
  (let [stop (volatile! false)]
    (refused-with :magnetar.test/stuck #(loop [] (when-not @stop (recur))))
    (vreset! stop true)))

(deftest what-a-fiber-throws-is-in-the-run
  (let [run (mt/simulate* {:seed 1} #(do (a/go (throw (ex-info "lost" {}))) (a/<! (a/timeout 1)) :value))]
    (is (= :value (:value run)))
    (is (= ["lost"] (map (comp ex-message :error) (:failures run))))))

(deftest a-message-is-seen-in-the-log
  (let [run (mt/simulate* {:seed 1 :log true}
                          #(actor/with-process {}
                             (let [me (self)]
                               (spawn (fn [] (! me [:hello {:b 1 :a 2}])))
                               (receive x x))))]
    (is (some #(and (= "message" (:what %)) (= "[:hello {:a 2 :b 1}]" (:value %))) (:log run)))))
