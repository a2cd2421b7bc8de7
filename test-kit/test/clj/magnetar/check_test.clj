(ns magnetar.check-test
  (:require
   [clojure.string :as str]
   [clojure.test :as t :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gen-server]
   [magnetar.planted :as planted]
   [magnetar.test :as mt]
   [magnetar.test.report :as report]))

(defn- quietly
  "What `check*` finds, without its report being a failure of this test."
  [options f]
  (binding [t/*testing-vars* nil
            *out* (java.io.StringWriter.)]
    (mt/check* options f)))

(defn- report-of [options f]
  (with-out-str (binding [t/*testing-vars* nil] (mt/check* options f))))

;; --- planted bugs: each stands between two switch points

(deftest a-lost-wake-up-is-found
  (doseq [strategy [:uniform :priorities :exhaustive nil]]
    (testing strategy
      (let [found (quietly {:runs 500 :strategy strategy} planted/lost-wake-up)]
        (is (= :deadlock (:kind (:failure found))))
        (is (= [:preempt :preempt] (map :what (:schedule found))) "one to the one that waits, one from it")))))

(deftest a-double-delivery-is-found
  (doseq [strategy [:uniform :priorities :exhaustive nil]]
    (testing strategy
      (let [found (quietly {:runs 500 :strategy strategy} planted/double-delivery)]
        (is (= :property (:kind (:failure found))))
        (is (= [:preempt] (map :what (:schedule found))))))))

(deftest a-missed-exit-signal-is-found
  (doseq [strategy [:uniform :priorities :exhaustive nil]]
    (testing strategy
      (let [found (quietly {:runs 500 :strategy strategy} planted/missed-exit)]
        (is (= :deadlock (:kind (:failure found))))
        (is (>= 2 (count (:schedule found))))))))

(deftest what-was-planted-is-not-found-where-it-is-mended
  (doseq [program [planted/kept-wake-up planted/single-delivery planted/seen-exit]]
    (is (:passed (quietly {:runs 200} program)))
    (is (= {:passed true :exhausted true}
           (select-keys (quietly {:runs 20000 :strategy :exhaustive :preemptions 1} program) [:passed :exhausted])))))

(deftest priorities-find-what-needs-one-fiber-to-run-alone-for-long
  (let [found (quietly {:runs 30 :strategy :priorities :depth 1} planted/starved)]
    (is (= :property (:kind (:failure found)))))
  (is (:passed (quietly {:runs 30 :strategy :uniform} planted/starved)) "a uniform choice has next to no chance"))

;; --- what is told

(deftest the-report-gives-seed-schedule-lost-message-and-diagram
  (let [text (report-of {:runs 100 :faults #{:lose-message}}
                        #(actor/with-process {}
                           (let [me (self)]
                             (spawn (fn [] (! me :precious)))
                             (receive :precious true))))]
    (doseq [part [#"(?m)^Deadlock" #"#2 body waits for message #2 body, at check_test.clj:\d+" #"seed \d+" #"these 1 are enough"
                  #"the message that #3 spawn \S+ sends at its point 1 is lost" #"never received:\s+:precious to #2 body"
                  #"(?m)^sequenceDiagram" #"again: \{:replay \{:seed \d+"]]
      (is (re-find part text)))))

(deftest a-failure-is-done-again-by-its-replay
  (let [found (quietly {:runs 500} planted/lost-wake-up)
        out (java.io.StringWriter.)
        again (binding [*out* out] ((:replay found)))]
    (is (= :deadlock (:kind (:problem again))))
    (is (= (:log-text again) (str/split-lines (str out))))
    (is (= (:log-text again)
           (binding [*out* (java.io.StringWriter.)]
             (:log-text (mt/check* {:replay (select-keys found [:seed :schedule])} planted/lost-wake-up)))))))

(deftest a-failure-in-a-test-is-a-failure-of-the-test
  (let [reported (atom [])]
    (with-redefs [t/do-report #(swap! reported conj %)]
      (mt/check {:runs 1} false)
      (mt/check {:runs 1} true))
    (is (= [:fail :pass] (map :type @reported)))
    (is (re-find #"property does not hold" (:message (first @reported))))))

(deftest an-error-of-the-body-is-a-failure
  (is (= :error (:kind (:failure (quietly {:runs 1} #(throw (ex-info "broken" {}))))))))

(deftest check-refuses-unknown-options-and-properties
  (doseq [[options sentence] {{:run 1} #"`magnetar.test/check` does not know :run; its options are .*:runs"
                              {:runs -1} #"^`magnetar.test/check`: :runs is a whole number from 1 up; this is -1\.$"
                              {:preemptions :two} #"^:preemptions is a whole number from 0 up; this is :two\.$"
                              {:strategy :luck} #"There is no strategy :luck here; there are :uniform and :priorities, and :exhaustive"
                              {:report 1} #"^`magnetar.test/check`: :report is a function, as in .*; this is 1\.$"
                              {:replay {:seed 1}} #"^:replay is \{:seed n :schedule \[..\]\}, as a report gives it; this is \{:seed 1\}\.$"
                              {:properties :no-leaked-fiber} #"^:properties is a vector, as in \[:no-leaked-fiber\]; this is"
                              {:properties [:beauty]} #"no property :beauty; it knows :no-leaked-fiber"
                              {:properties [[:mailbox-bounded]]} #"no property \[:mailbox-bounded\]; it knows"}]
    (is (thrown-with-msg? IllegalArgumentException sentence (mt/check* options (constantly true))))))

(deftest a-replay-brings-its-own-faults
  (let [ask #(actor/with-process {}
               (let [[_ ref] (actor/spawn-monitor (fn [] (a/<! (a/timeout 5))))]
                 (receive [:DOWN ref _ _ why] (= :normal why))))
        found (quietly {:runs 300 :faults #{:kill} :victims #(re-find #"spawn" %)} ask)]
    (is (= [:kill] (map :what (:schedule found))))
    (is (false? (:value (quietly {:replay (select-keys found [:seed :schedule])} ask))))))

;; --- what takes long, or cannot be done again

(deftest what-does-not-fail-again-is-said-to-be-decided-by-no-seed
  (let [n (atom 0)
        told (atom nil)
        found (mt/check {:runs 10 :report #(reset! told %)} (not= 3 (swap! n inc)))]
    (is (false? (:passed found)))
    (is (false? (:repeatable found)))
    (is (re-find #"(?m)^The property does not hold.*\n  The same schedule did not fail in this way again: something in the body is decided by no seed" @told)))
  (is (true? (:repeatable (quietly {:runs 500} planted/lost-wake-up)))))

(deftest a-run-that-is-stuck-is-done-again-once-and-not-shrunk
  (let [runs (atom 0)
        stop (volatile! false)
        found (quietly {:runs 5 :patience-ms 100}
                       (fn []
                         (swap! runs inc)
                         (let [cs (doall (for [n (range 4)] (a/go n)))]
                           (run! a/<! cs)
                           (while (not @stop)))))]
    (vreset! stop true)
    (is (= :stuck (:kind (:failure found))))
    (is (= 2 @runs))))

(deftest an-exhaustive-search-lets-timers-be-late-too
  (let [found (quietly {:strategy :exhaustive :faults #{:late-timers}} (fn [] (a/<! (a/timeout 10)) (< (long (mt/now)) 12)))]
    (is (= [:late-timers] (map :what (:schedule found))))))

(deftest an-exhaustive-search-keeps-no-more-schedules-than-it-can-try
  (let [busy (fn [] (let [c (a/chan)]
                      (dotimes [_ 3] (a/go (dotimes [n 10] (a/>! c n))))
                      (dotimes [_ 30] (a/<! c))
                      true))]
    (is (= {:passed true :runs 50 :exhausted false}
           (select-keys (quietly {:runs 50 :strategy :exhaustive} busy) [:passed :runs :exhausted])))))

;; --- built-in properties

(deftest a-leaked-fiber-is-found-and-a-go-block-is-none
  (let [leak #(do (spawn (fn [] (receive :never nil))) true)]
    (is (= :leaked-fiber (:kind (:failure (quietly {:runs 1 :properties [:no-leaked-fiber]} leak)))))
    (is (:passed (quietly {:runs 5 :properties [:no-leaked-fiber]} #(do (spawn (fn [] 1)) true))))
    (is (:passed (quietly {:runs 5 :properties [:no-leaked-fiber]} #(do (a/go (a/<! (a/chan))) true))))))

(deftest an-unhandled-exit-is-found
  (let [crash #(do (spawn (fn [] (throw (ex-info "crash" {})))) true)]
    (is (= :unhandled-exit (:kind (:failure (quietly {:runs 1} crash)))))
    (is (:passed (quietly {:runs 5 :properties []} crash)))))

(deftest a-mailbox-beyond-its-bound-is-found
  (let [flood #(let [p (spawn (fn [] (receive :never nil)))] (dotimes [n 5] (! p n)) true)]
    (is (re-find #"held [45] messages; the bound is 3"
                 (:message (:failure (quietly {:runs 5 :properties [[:mailbox-bounded 3]]} flood)))))
    (is (:passed (quietly {:runs 5 :properties [[:mailbox-bounded 5]]} flood)))))

(deftest a-call-that-is-never-answered-is-found
  (let [call #(let [server (spawn (fn [] (receive :never nil)))]
                (spawn (fn [] (let [ref (actor/monitor server {:alias :reply-demonitor})]
                                (! server [:call ref])
                                (receive [ref x] x [:DOWN ref _ _ _] :down))))
                (a/<! (a/timeout 10))
                true)]
    (is (= :unanswered-call (:kind (:failure (quietly {:runs 1 :properties [:every-call-answered]} call)))))))

(defn- asks
  "A process that asks a server of this function, which gets whom to answer; the body waits until it has ended."
  [server]
  (fn []
    (let [server (spawn (fn [] (receive [:call from] (server from))))
          asking (spawn (fn [] (let [ref (actor/monitor server {:alias :reply-demonitor})]
                                 (! server [:call ref])
                                 (receive [ref x] x
                                          [:DOWN ref _ _ _] :down
                                          (after 100 (actor/demonitor ref) :given-up)))))]
      (actor/join asking)
      true)))

(deftest a-call-that-is-answered-or-ends-with-its-server-or-was-given-up-is-none-of-those
  (doseq [[how server] {:answered (fn [from] (! from [from 1]))
                        :dies (fn [_] (actor/exit :crash))
                        :given-up (fn [_] (receive :never nil))}]
    (testing how
      (is (:passed (quietly {:runs 30 :properties [:every-call-answered]} (asks server)))))))

(deftest a-call-of-a-gen-server-that-is-never-answered-is-found-and-an-answered-one-is-none
  (let [program (fn [answer]
                  (fn []
                    (let [[_ server] (gen-server/start {:init (fn [_] [:ok nil])
                                                        :handle-call (fn [_ _ s] (answer s))
                                                        :handle-cast (fn [_ s] [:noreply s])}
                                                       nil)]
                      (spawn (fn [] (gen-server/call server :x {:timeout :infinity})))
                      (a/<! (a/timeout 10))
                      true)))]
    (is (= :unanswered-call (:kind (:failure (quietly {:runs 1 :properties [:every-call-answered]} (program (fn [s] [:noreply s])))))))
    (is (:passed (quietly {:runs 10 :properties [:every-call-answered]} (program (fn [s] [:reply 1 s])))))))

(deftest an-exit-that-is-no-error-is-not-unhandled
  (is (:passed (quietly {:runs 10 :properties [:no-unhandled-exit]}
                        #(do (spawn (fn [] (actor/exit :shutdown)))
                             (actor/exit (spawn (fn [] (receive :never nil))) :kill)
                             (a/go 1)
                             true)))))

(deftest what-is-wrong-with-a-run-is-said-in-a-sentence-with-culprit-and-line
  (doseq [[properties sentence program]
          [[[:no-leaked-fiber] #"Fibers are left though the body has ended.*\n  #3 spawn \S*check_test.clj:\d+ waits for message #3 .*, at check_test.clj:\d+"
            #(do (spawn (fn [] (receive :never nil))) true)]
           [[:no-unhandled-exit] #"spawn \S*check_test.clj:\d+ ended with clojure.lang.ExceptionInfo: crash.*, which nobody caught"
            #(do (spawn (fn [] (throw (ex-info "crash" {})))) true)]
           [[[:mailbox-bounded 1]] #"The mailbox of #3 spawn \S*check_test.clj:\d+ held 2 messages; the bound is 1\."
            #(let [p (spawn (fn [] (receive :stop nil)))] (dotimes [n 2] (! p n)) true)]
           [[:every-call-answered] #"A call is neither answered nor given up\.\n  #4 spawn \S*check_test.clj:\d+ waits for message"
            #(let [server (spawn (fn [] (receive :never nil)))]
               (spawn (fn [] (let [ref (actor/monitor server {:alias :reply-demonitor})]
                               (! server [:call ref])
                               (receive [ref x] x))))
               (a/<! (a/timeout 10))
               true)]]]
    (is (re-find sentence (report-of {:runs 1 :properties properties} program)))))

(deftest a-property-of-ones-own-sees-the-run
  (is (re-find #"^[23] ms$" (:message (:failure (quietly {:runs 1 :properties [(fn [run] (str (long (:ms run)) " ms"))]} #(do (a/<! (a/timeout 2)) true)))))))

;; --- faults

(deftest a-process-can-be-killed-at-any-step
  (let [where (atom #{})]
    (doseq [seed (range 150)]
      (mt/simulate* {:seed seed :faults #{:kill} :fault-rate 0.02 :max-faults 1}
                    #(actor/with-process {}
                       (let [steps (atom [])
                             [p ref] (actor/spawn-monitor (fn [] (dotimes [n 5] (swap! steps conj n) (a/<! (a/timeout 1)))))]
                         (receive [:DOWN ref _ _ why] (swap! where conj [why (count @steps)]))))))
    (is (contains? @where [:normal 5]))
    (is (<= 3 (count (filter #(= :killed (first %)) @where))) (str @where))))

(deftest a-server-that-is-at-rest-can-be-killed-too
  (let [program #(let [[_ server] (gen-server/start {:init (fn [_] [:ok 0]), :handle-call (fn [_ _ n] [:reply n n]), :handle-cast (fn [_ n] [:noreply n])}
                                                    nil {:hosting :activated :name :resting})]
                   (gen-server/call server :x)
                   (dotimes [_ 5] (a/<! (a/timeout 1)))
                   (actor/alive? server))
        options {:runs 300 :faults #{:kill} :victims #(re-find #"resting" %)}
        found (quietly options program)
        by-rest (first (filter #(= [:kill-passivated] (map :what (:schedule %)))
                               (cons found (map #(quietly (assoc options :seed %) program) (range 100 110)))))]
    (is (some? by-rest))
    (is (= (:log-text (:run by-rest))
           (:log-text (quietly {:replay (select-keys by-rest [:seed :schedule])} program))))))

(deftest only-the-named-victims-are-killed
  (doseq [seed (range 20)]
    (is (= :normal
           (mt/simulate {:seed seed :faults #{:kill} :fault-rate 0.5 :victims #(re-find #"nobody" %)}
             (actor/with-process {}
               (let [[_ ref] (actor/spawn-monitor (fn [] (a/<! (a/timeout 5))))]
                 (receive [:DOWN ref _ _ why] why))))))))

(deftest a-timer-can-come-before-what-is-runnable-and-late
  (let [race #(let [c (a/chan)]
                (a/go (dotimes [_ 20] (a/<! (a/go 1))) (a/>! c :work))
                (first (a/alts! [c (a/timeout 5)])))
        outcomes (fn [faults] (set (for [seed (range 40)] (mt/simulate {:seed seed :faults faults :fault-rate 0.005} (race)))))]
    (is (= #{:work} (outcomes #{})))
    (is (= #{:work nil} (outcomes #{:early-timers}))))
  (let [late (set (for [seed (range 20)] (:ms (mt/simulate* {:seed seed :faults #{:late-timers} :fault-rate 0.5} #(a/<! (a/timeout 10))))))]
    (is (every? #(<= 10 % 50) late))
    (is (< 2 (count late)))))

(deftest lost-messages-are-listed
  (is (= [":x to #3"] (report/undelivered [{:what "loses message" :on "#3" :value ":x"} {:what "message" :on "#3" :value ":y"}
                                           {:what "receives" :on "#3" :value ":y"}]))))
