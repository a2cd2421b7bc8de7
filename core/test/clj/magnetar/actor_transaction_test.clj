(ns magnetar.actor-transaction-test
  "In a dosync what sends waits for the commit, and happens once."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! after receive self spawn with-process]]
   [magnetar.agent :as agent]
   [magnetar.async :as a]
   [magnetar.impl.transactions :as transactions]
   [magnetar.support :refer [message-of value-of with-failures]]))

(set! *warn-on-reflection* true)

(defn- with-one-retry
  "Calls f with the number of the try, in a transaction that is made to run twice."
  [f]
  (let [contended (ref 0)
        tries (atom 0)]
    (dosync
      (f (swap! tries inc))
      @contended
      (when (= 1 @tries)
        @(future (dosync (alter contended + 10))))
      (alter contended inc))
    @tries))

(deftest ^{:spec ["C81"]} messages-are-sent-once-in-order-after-the-commit
  (with-process {}
    (let [me (self)
          seen (promise)]
      (is (= 2 (with-one-retry (fn [n]
                                 (! me [:first n])
                                 (! me [:second n])
                                 (when (= 2 n) (deliver seen (:message-queue-len (actor/process-info me))))))))
      (is (= 0 @seen))
      (is (= [[:first 2] [:second 2]] (actor/flush))))))

(deftest ^{:spec ["C81"]} a-transaction-that-fails-sends-nothing
  (with-process {}
    (let [me (self)]
      (is (thrown? ArithmeticException (dosync (! me :x) (/ 1 0))))
      (is (= [] (actor/flush)))
      (testing "and what comes later is not disturbed"
        (dosync (! me :y))
        (is (= [:y] (actor/flush)))))))

(deftest ^{:spec ["C81"]} a-transaction-that-fails-has-taken-nothing
  (with-process {}
    (! (self) :keep)
    (is (thrown? IllegalStateException (dosync (actor/flush))))
    (is (= [:keep] (actor/flush)))))

(deftest ^{:spec ["C81"]} processes-are-spawned-once-after-the-commit
  (with-process {}
    (let [me (self)]
      (is (nil? (dosync (spawn #(! me :nil-as-value)))))
      (with-one-retry (fn [n] (spawn #(! me [:spawned n]))))
      (is (= [:nil-as-value [:spawned 2]]
             [(receive :nil-as-value :nil-as-value (after 20000 :late))
              (receive [:spawned n] [:spawned n] (after 20000 :late))]))
      (is (= [] (actor/flush))))))

(deftest ^{:spec ["C81"]} puts-and-takes-with-callbacks-are-done-once-after-the-commit
  (let [in (a/chan 10)
        out (a/to-chan! [:a :b :c])
        taken (promise)
        put (promise)]
    (with-one-retry (fn [n]
                      (is (true? (a/put! in [:put n] #(deliver put %))))
                      (is (nil? (a/take! out #(deliver taken %))))))
    (is (= [true :a :b] [(value-of put) (value-of taken) (a/<!! out)]))
    (is (= [[:put 2] nil] [(a/poll! in) (a/poll! in)]))))

(deftest the-actions-of-agents-in-the-same-transaction-are-not-lost
  (with-process {}
    (let [me (self)
          counter (agent 0)]
      (dosync (! me :x) (send counter inc) (! me :y) (send counter inc))
      (await counter)
      (is (= [2 [:x :y]] [@counter (actor/flush)])))))

(deftest what-cannot-be-sent-at-the-commit-is-reported-and-the-rest-is-sent
  (with-failures [failures]
    (with-process {}
      (let [me (self)]
        (is (= :done (dosync (! ::nobody :x) (! me :y) :done)))
        (is (= [:y] (actor/flush)))
        (is (= ["commit of a dosync"] (map :site @failures)))
        (is (re-find #"^Cannot send to :magnetar.actor-transaction-test/nobody" (message-of (first @failures))))))))

(deftest a-thousand-transactions-leave-nothing-behind
  (with-process {}
    (let [me (self)
          r (ref 0)]
      (dotimes [n 1000] (dosync (alter r inc) (! me n)))
      (is (= (range 1000) (actor/flush))))))

(deftest agents-can-run-on-fibers
  (let [before clojure.lang.Agent/soloExecutor
        seen (promise)]
    (try
      (is (nil? (agent/run-agents-on-fibers)))
      (send-off (clojure.core/agent nil) (fn [_] (deliver seen (.isVirtual (Thread/currentThread)))))
      (is (true? (value-of seen)))
      (finally (set-agent-send-off-executor! before)))))

(deftest the-deprecated-name-runs-agents-on-fibers-too
  (let [before clojure.lang.Agent/soloExecutor]
    (try
      (is (nil? (actor/run-agents-on-fibers)))
      (is (not (identical? before clojure.lang.Agent/soloExecutor)))
      (finally (set-agent-send-off-executor! before)))))

(deftest asking-for-a-transaction-gives-a-fiber-no-thread-locals
  (let [answer (promise)
        open? (.isOpen (.getModule Thread) "java.lang" (.getModule magnetar.kernel.fiber.ThreadLocals))]
    (Thread/startVirtualThread #(deliver answer [(magnetar.kernel.fiber.ThreadLocals/mayExist)
                                                 (transactions/running?)
                                                 (magnetar.kernel.fiber.ThreadLocals/mayExist)]))
    (is (= [(not open?) false (not open?)] (value-of answer)))
    (is (true? (magnetar.kernel.fiber.ThreadLocals/mayExist)))
    (is (true? (dosync (transactions/running?))))))
