(ns magnetar.delayed-signals-test
  "Signals that take long, as a fault: whatever Erlang leaves unordered comes in another order, and the signals of one sender to one receiver never do."
  (:require
   [clojure.test :as t :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async :as a]
   [magnetar.hunted :as hunted]
   [magnetar.test :as mt]))

(defn- quietly
  "What `check*` finds, without its report being a failure of this test."
  [options f]
  (mt/check* (assoc options :report identity) f))

(def ^:private delayed
  {:faults #{:delay-signals} :fault-rate 0.2})

;; --- what is unordered: C140

(defn- journal
  "A process that keeps what is written, and tells who reads."
  []
  (spawn (fn [] (loop [all []]
                  (receive [:write x] (recur (conj all x))
                           [:read from] (! from [:all all]))))))

(defn- written-before-read
  "Writes, and lets another one read: which is right by accident, since two senders have no order."
  []
  (actor/with-process {}
    (let [me (self)
          journal (journal)
          reader (spawn (fn [] (receive :go (! journal [:read me]))))]
      (! journal [:write 1])
      (! reader :go)
      (receive [:all all] (= [1] all)))))

(defn- written-and-read-by-one
  "Writes and reads itself: which is right by the order of one sender to one receiver."
  []
  (actor/with-process {}
    (let [journal (journal)]
      (! journal [:write 1])
      (! journal [:read (self)])
      (receive [:all all] (= [1] all)))))

(deftest ^{:spec ["C140"]} a-program-that-works-by-accidental-order-only-fails-when-signals-take-long
  (testing "each schedule of two preemptions is right without the fault"
    (is (= {:passed true :exhausted true}
           (select-keys (quietly {:runs 20000 :strategy :exhaustive :preemptions 2} written-before-read) [:passed :exhausted]))))
  (doseq [strategy [:uniform :priorities :exhaustive]]
    (testing strategy
      (let [found (quietly (assoc delayed :runs 500 :strategy strategy) written-before-read)]
        (is (= :property (:kind (:failure found))))
        (is (= [:delay-signals] (map :what (:schedule found))) "one signal is enough"))))
  (is (:passed (quietly (assoc delayed :runs 500) written-and-read-by-one))))

(deftest signals-of-one-sender-to-two-receivers-come-in-either-order
  (let [order (fn [] (let [told (a/chan 2)
                           [p q] (doall (for [n [:first :second]] (spawn (fn [] (receive :go (a/>! told n))))))]
                       (spawn (fn [] (! p :go) (! q :go)))
                       [(a/<! told) (a/<! told)]))]
    (is (= #{[:first :second] [:second :first]}
           (set (for [seed (range 60)] (mt/simulate (assoc delayed :seed seed) (order))))))))

(deftest the-end-of-a-process-may-be-told-late-too
  (let [order (fn []
                (actor/with-process {:trap-exit true}
                  (let [[p _] (actor/spawn-monitor (fn [] :ended))
                        q (spawn (fn [] (receive :go :ended)))]
                    (actor/link q)
                    (actor/join p)
                    (! q :go)
                    (actor/join q)
                    [(receive x (first x)) (receive x (first x))])))]
    (is (= #{[:DOWN :EXIT] [:EXIT :DOWN]}
           (set (for [seed (range 60)] (mt/simulate (assoc delayed :seed seed) (order))))))))

;; --- what is ordered: C141

(deftest ^{:spec ["C141"]} the-signals-of-one-sender-to-one-receiver-arrive-in-order-of-whatever-kind-they-are
  (testing "messages, answers, exit signals, and the end last of all"
    (doseq [rate [0.1 0.5 1.0]]
      (is (:passed (quietly {:runs 150 :faults #{:delay-signals :early-timers} :fault-rate rate} hunted/pair-order))))))

(deftest ^{:spec ["C141"]} what-asks-another-process-comes-after-what-was-sent-to-it-before
  (testing "a kill is seen by who sent it, as with Erlang's is_process_alive and process_info"
    (is (:passed (quietly {:runs 100 :faults #{:delay-signals} :fault-rate 1.0}
                          (fn []
                            (actor/with-process {:trap-exit true}
                              (let [p (spawn (fn [] (receive :never nil)))
                                    q (spawn (fn [] (receive :never nil)))
                                    r (spawn (fn [] (receive :never nil)))]
                                (doseq [x [p q r]] (actor/exit x :kill))
                                (let [ref (actor/monitor q)]
                                  (and (not (actor/alive? p))
                                       (= :noproc (receive [:DOWN ref _ _ why] why))
                                       (nil? (actor/process-info r))))))))))))

(deftest a-link-or-monitor-that-is-taken-back-tells-nothing-though-the-signal-is-on-its-way
  (is (:passed (quietly {:runs 200 :faults #{:delay-signals} :fault-rate 1.0}
                        (fn []
                          (actor/with-process {:trap-exit true}
                            (let [p (actor/spawn-link (fn [] (receive :go nil)))
                                  ref (actor/monitor p)]
                              (! p :go)
                              (actor/join p)
                              (actor/unlink p)
                              (actor/demonitor ref {:flush true})
                              (let [seen (receive x x (after 100 :nothing))]
                                (or (= :nothing seen) (= :EXIT (first seen)))))))))))

(deftest who-sends-to-a-full-mailbox-waits-for-room-all-the-same
  (is (:passed (quietly (assoc delayed :runs 100 :properties [[:mailbox-bounded 2] :no-leaked-fiber])
                        (fn []
                          (let [p (actor/spawn-opt (fn [] (vec (repeatedly 6 #(receive x x))))
                                                   {:mailbox {:capacity 2 :when-full :block}})]
                            (spawn (fn [] (dotimes [n 6] (! p n))))
                            (= (range 6) (actor/join p))))))))

;; --- as a fault like others

(deftest a-message-to-oneself-does-not-take-long
  (is (:passed (quietly {:runs 50 :faults #{:delay-signals} :fault-rate 1.0}
                        (fn [] (actor/with-process {} (! (self) :x) (= :x (receive x x (after 0 :nothing)))))))))

(deftest what-is-on-its-way-when-the-body-ends-arrives-before-the-run-is-judged
  (is (:passed (quietly {:runs 50 :faults #{:delay-signals} :fault-rate 1.0 :properties [:no-leaked-fiber]}
                        (fn [] (let [p (spawn (fn [] (receive :stop nil)))] (! p :stop) true))))))

(deftest a-signal-that-takes-long-is-in-the-log-and-the-same-seed-gives-the-same-log
  (let [log #(:log-text (mt/simulate* (assoc delayed :fault-rate 0.5 :seed % :log true) hunted/pairs))]
    (is (some #(re-find #"delays #\d+ spawn \S+: \[:signal pid \d+ \d\]" %) (log 1)))
    (doseq [seed (range 3)]
      (is (= 1 (count (distinct (repeatedly 3 #(log seed)))))))))

(deftest the-report-says-whose-signal-takes-long-and-its-replay-needs-no-other-option
  (let [text (atom nil)
        found (mt/check* (assoc delayed :runs 500 :report #(reset! text %)) written-before-read)
        again (binding [*out* (java.io.StringWriter.)]
                (mt/check* {:replay (select-keys found [:seed :schedule])} written-before-read))]
    (is (re-find #"the signal that #2 body sends at its point 1 arrives (\d+ ms later|after others have run)" @text))
    (is (false? (:value again)))
    (is (= (:log-text (:run found)) (:log-text again)))))
