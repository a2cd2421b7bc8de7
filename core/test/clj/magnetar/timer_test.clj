(ns magnetar.timer-test
  "Timers in virtual time: when what they are told to do is done is exact."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.scope :as scope]
   [magnetar.support :refer [with-failures]]
   [magnetar.task :as task]
   [magnetar.test :as test :refer [now with-virtual-clock]]
   [magnetar.timer :as timer]))

(set! *warn-on-reflection* true)

(use-fixtures :each test/without-leaks)

(defn- pause [ms]
  (receive (after ms nil)))

(defn- noted
  "The virtual times at which `note`, which f is given, is called in so many milliseconds."
  [ms f]
  (with-virtual-clock
    (let [times (atom [])]
      (actor/with-process {}
        (f #(when (<= (long (now)) (long ms)) (swap! times conj (now))))
        (pause ms))
      (scope/sleep 2000) ; for calls that have begun
      @times)))

;; ---- once

(deftest a-function-is-called-once-when-its-time-has-come
  (is (= [30] (noted 100 #(timer/apply-after 30 %))))
  (is (= [0] (noted 100 #(timer/apply-after 0 %))))
  (is (= [[1 2]] (with-virtual-clock
                   (let [got (atom [])]
                     (timer/apply-after 10 (fn [& args] (swap! got conj args)) 1 2)
                     (scope/sleep 20)
                     @got)))))

(deftest a-timer-that-fires-once-outlives-who-started-it
  (is (= 50 (with-virtual-clock
              (let [fired (promise)]
                (actor/join (actor/spawn #(timer/apply-after 50 (fn [] (deliver fired (now))))))
                (scope/sleep 100)
                (deref fired 0 :never))))))

(deftest what-is-cancelled-does-not-happen
  (with-virtual-clock
    (let [times (atom [])
          timer (timer/apply-after 30 #(swap! times conj (now)))]
      (scope/sleep 29)
      (is (= 1 (actor/cancel-timer timer)))
      (is (false? (actor/cancel-timer timer)))
      (scope/sleep 100)
      (is (= [] @times)))))

(deftest what-has-begun-is-not-cancelled
  (with-virtual-clock
    (let [ended (atom nil)
          timer (timer/apply-after 10 #(do (scope/sleep 20) (reset! ended (now))))]
      (scope/sleep 15)
      (is (false? (actor/cancel-timer timer)))
      (scope/sleep 50)
      (is (= 30 @ended)))))

(deftest exit-signals-come-later
  (with-virtual-clock
    (actor/with-process {:trap-exit true}
      (let [pid (actor/spawn-link #(receive ::never nil))
            other (actor/spawn-link #(receive ::never nil))]
        (timer/exit-after 20 pid :bored)
        (timer/kill-after 30 other)
        (is (= [[:EXIT pid :bored] 20] [(receive x x) (now)]))
        (is (= [[:EXIT other :killed] 30] [(receive x x) (now)]))
        (is (= :exited (try (actor/with-process {} (timer/exit-after 5 :late) (pause 50))
                            (catch clojure.lang.ExceptionInfo e (when (= :late (:reason (ex-data e))) :exited)))))))))

;; ---- again

(deftest ^{:spec ["C115"]} an-interval-does-not-drift-however-long-the-calls-take
  (let [times (noted 10005 (fn [note] (timer/apply-interval 10 #(do (note) (scope/sleep 7)))))]
    (is (= (range 10 10001 10) times)))
  (is (= (range 10 10001 10) (noted 10005 (fn [note] (timer/apply-repeatedly 10 #(do (note) (scope/sleep 7)))))))
  (testing "as a loop that pauses does, which is the control"
    (is (not= (range 10 10001 10)
              (noted 10005 (fn [note] (actor/spawn-link #(dotimes [_ 500] (pause 10) (note) (scope/sleep 7)))))))))

(deftest ^{:spec ["C115"]} the-next-call-of-an-interval-does-not-wait-for-the-one-before
  (is (= [10 20 30 40] (noted 45 (fn [note] (timer/apply-interval 10 #(do (note) (scope/sleep 1000))))))))

(deftest ^{:spec ["C115"]} a-repeated-call-waits-for-the-one-before-and-then-catches-up
  (is (= [10 35 37 40 50 60]
         (let [n (atom 0)]
           (noted 65 (fn [note] (timer/apply-repeatedly 10 #(do (note) (scope/sleep (if (= 1 (swap! n inc)) 25 2))))))))))

(deftest a-call-that-fails-is-reported-and-the-interval-goes-on
  (with-failures [failures]
    (is (= [10 20 30] (noted 35 (fn [note] (timer/apply-interval 10 #(do (note) (throw (ex-info "no" {}))))))))
    (is (= 3 (count @failures)))
    (is (re-find #"timer_test.clj" (:site (first @failures))))))

(deftest messages-come-again-and-again
  (with-virtual-clock
    (actor/with-process {}
      (timer/send-interval 10 :tick)
      (is (= [[:tick 10] [:tick 20] [:tick 30]] (vec (repeatedly 3 (fn [] [(receive x x) (now)]))))))))

(deftest to-a-name-that-nobody-has-nothing-is-sent
  (with-virtual-clock
    (actor/with-process {}
      (timer/send-interval 10 ::nobody-yet :tick)
      (pause 15)
      (actor/register ::nobody-yet (self))
      (is (= [:tick 20] [(receive x x) (now)])))))

(deftest a-name-in-a-registry-is-a-name
  (with-virtual-clock
    (actor/with-process {}
      (timer/send-interval 10 [:global ::ticks] :tick)
      (pause 15)
      (actor/register [:global ::ticks] (self))
      (is (= [:tick 20] [(receive x x) (now)])))))

(deftest ^{:spec ["C116"]} an-interval-ends-with-its-owner
  (testing "the process that has started it, also if it ends normally"
    (with-virtual-clock
      (let [n (atom 0)]
        (actor/join (actor/spawn #(do (timer/apply-interval 10 (fn [] (swap! n inc))) (pause 35))))
        (scope/sleep 100)
        (is (= 3 @n)))))
  (testing "the process that it sends to, and not the one that has started it"
    (with-virtual-clock
      (let [seen (promise)
            pid (actor/spawn #(do (receive :tick nil) (receive :tick (deliver seen (now)))))]
        (actor/join (actor/spawn #(timer/send-interval 10 pid :tick)))
        (scope/sleep 100)
        (is (= 20 (deref seen 0 :never))))))
  (testing "outside of processes nobody owns it"
    (with-virtual-clock
      (let [n (atom 0)
            timer (timer/apply-interval 10 #(swap! n inc))]
        (scope/sleep 35)
        (is (= 5 (actor/cancel-timer timer)))
        (is (false? (actor/cancel-timer timer)))
        (scope/sleep 100)
        (is (= 3 @n))))))

(deftest an-interval-whose-owner-is-dead-already-never-fires
  (with-virtual-clock
    (let [pid (actor/spawn (fn []))]
      (actor/join pid)
      (timer/send-interval 10 pid :tick)
      (scope/sleep 100)
      (is true))))

(deftest ^{:spec ["C116"]} under-any-schedule-nothing-comes-once-cancel-has-returned
  (is (:passed (test/check {:runs 300}
                 (actor/with-process {}
                   (let [timer (timer/send-interval 1 :tick)]
                     (receive :tick nil)
                     (actor/cancel-timer timer)
                     (actor/flush)
                     (receive :tick false (after 10 true))))))))

(defn- nothing-after-a-cancel?
  "Is the mailbox empty, and stays so, once an interval was cancelled at the time of a send?"
  [start]
  (actor/with-process {}
    (let [timer (start)]
      (pause 2)
      (actor/cancel-timer timer)
      (actor/flush)
      (receive :tick false (after 10 true)))))

(deftest ^{:spec ["C116"]} a-send-that-is-under-way-has-come-when-cancel-returns
  (doseq [start [#(timer/send-interval 1 :tick)
                 #(do (actor/register ::ticked (self)) (timer/send-interval 1 ::ticked :tick))
                 #(do (actor/register [:global ::ticked] (self)) (timer/send-interval 1 [:global ::ticked] :tick))]]
    (is (:exhausted (test/check {:runs 20000 :strategy :exhaustive :preemptions 2} (nothing-after-a-cancel? start))))))

(deftest each-timer-is-cancelled-and-read-alike
  (with-virtual-clock
    (actor/with-process {}
      (doseq [start [#(timer/apply-after 500 println) #(actor/start-timer 500 (actor/self) :tick) #(actor/send-after 500 (actor/self) :tick)
                     #(timer/exit-after 500 :late) #(timer/send-interval 500 :tick) #(timer/apply-interval 500 println)]]
        (let [timer (start)]
          (is (= 500 (actor/read-timer timer)))
          (scope/sleep 200)
          (is (= 300 (actor/read-timer timer)))
          (is (= 300 (actor/cancel-timer timer)))
          (is (false? (actor/cancel-timer timer)))
          (is (false? (actor/read-timer timer)))))
      (let [fired (timer/apply-after 10 (fn []))]
        (scope/sleep 20)
        (is (false? (actor/read-timer fired)))
        (is (false? (actor/cancel-timer fired))))
      (let [message (try (actor/cancel-timer :x) (catch IllegalArgumentException e (ex-message e)))]
        (is (= "`cancel-timer` wants a timer, as `send-after`, `start-timer` or `timer/apply-after` return it; this is :x." message))))))

(deftest a-reference-that-is-no-timer-is-refused
  (actor/with-process {}
    (doseq [f [actor/cancel-timer actor/read-timer]
            ref [(actor/make-ref) (actor/monitor (self)) (actor/make-alias)]]
      (is (thrown-with-msg? IllegalArgumentException #"-timer` wants a timer, .* a reference that is no timer\. `demonitor` ends a monitor" (f ref))))))

(deftest the-deprecated-names-do-the-same
  (with-virtual-clock
    (actor/with-process {}
      (timer/send-after 10 :hello)
      (timer/send-after 20 (self) :again)
      (is (= [[:hello 10] [:again 20]] (vec (repeatedly 2 (fn [] [(receive x x) (now)])))))
      (let [timers [(timer/send-after 10 :never) (timer/apply-after 10 println) (timer/send-interval 10 :never)]]
        (is (= [true true true] (mapv timer/cancel timers)))
        (is (= [false false false] (mapv timer/cancel timers))))
      (is (thrown-with-msg? IllegalArgumentException #"`cancel` wants a timer" (timer/cancel :x))))))

(deftest what-is-wrong-is-refused-at-once
  (is (thrown-with-msg? IllegalArgumentException #"`apply-after` wants a function" (timer/apply-after 10 nil)))
  (is (thrown-with-msg? IllegalArgumentException #"`apply-after` wants a number of milliseconds.*this is :soon" (timer/apply-after :soon println)))
  (is (thrown-with-msg? IllegalArgumentException #"takes a time of at most 9223372036853 milliseconds, .*; this is :infinity\." (timer/apply-after :infinity println)))
  (is (thrown-with-msg? IllegalArgumentException #"this is 9223372036854775807\." (timer/apply-after Long/MAX_VALUE println)))
  (is (thrown-with-msg? IllegalArgumentException #"^`apply-interval` takes a time of at most 9223372036853 .*; this is 9223372036854\."
                        (timer/apply-interval 9223372036854 println)))
  (is (thrown-with-msg? IllegalArgumentException #"^`apply-interval` wants a number of milliseconds above 0 or a java.time.Duration above 0; this is 0\.$" (timer/apply-interval 0 println)))
  (is (thrown-with-msg? IllegalArgumentException #"`send-interval` wants a pid or a name to send to; this is 7" (timer/send-interval 10 7 :x)))
  (is (thrown-with-msg? IllegalArgumentException #"`exit-after` wants a pid or the name of a process; this is 5" (timer/exit-after 10 5 :y))))

(deftest the-longest-times-are-times
  (with-virtual-clock
    (let [long-time (quot Long/MAX_VALUE 1000001)
          timers [(timer/apply-after long-time (fn [])) (timer/apply-interval long-time (fn []))]]
      (scope/sleep 1)
      (is (= [true true] (mapv (comp pos? actor/cancel-timer) timers))))))

(deftest tc-tells-how-long-a-call-takes
  (is (= [20000 :value] (with-virtual-clock (timer/tc #(do (scope/sleep %) :value) 20)))))

(defn- thrown [f]
  (try (f) nil (catch IllegalArgumentException e e)))

(deftest an-error-about-a-time-offers-only-what-is-taken
  (actor/with-process {}
    (doseq [wait [nil :soon -1]]
      (let [[once again] (map ex-message [(thrown #(actor/send-after wait (self) :x)) (thrown #(timer/send-interval wait :x))])]
        (is (str/starts-with? once "`send-after` wants a number of milliseconds from 0 up or a java.time.Duration; this is "))
        (is (str/starts-with? again "`send-interval` wants a number of milliseconds above 0 or a java.time.Duration above 0; this is "))))))

(deftest the-data-of-an-error-about-a-time-has-the-value
  (actor/with-process {}
    (are [data f] (= (assoc data :magnetar/reason :magnetar/bad-duration) (ex-data (thrown f)))
      {:value nil} #(actor/send-after nil (self) :x)
      {:value 0} #(timer/send-interval 0 :x)
      {:value :infinity :longest 9223372036853} #(actor/start-timer :infinity (self) :x)
      {:value "1"} #(receive :never 1 (after "1" 2))
      {:value -1 :timeout -1 :path [:timeout]} #(task/async-stream [1] inc {:timeout -1})
      {:value -1 :timeout -1 :path [:timeout]} #(actor/join (self) {:timeout -1}))))
