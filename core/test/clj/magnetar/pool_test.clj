(ns magnetar.pool-test
  "Pools: checkouts, waiting, deaths."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.gen-server :as gs]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.pool :as pool]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [eventually refusal value-of with-failures with-hook]]
   [magnetar.sys :as sys]
   [magnetar.test :as test :refer [with-virtual-clock]])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(use-fixtures :each
  (fn [f]
    (with-hook [:report (fn [_])]
      (scenarios/leaving-nobody #(actor/with-process {:trap-exit true} (f))))))

(def ^:private worker
  {:init (fn [s] (if (= :bad s) [:stop :no-connection] [:ok s]))
   :handle-call (fn [request _ s] [:reply [s request] s])
   :handle-cast (fn [why s] [:stop why s])})

(defn- start [options]
  (let [[how pid :as outcome] (pool/start-link (merge {:worker [gs/start-link worker :w] :size 1} options))]
    (if (= :ok how) pid outcome)))

(defn- counts [p]
  ((juxt :workers :free :checked-out :waiting) (pool/status p)))

(defn- reason-of [failure]
  (:magnetar/reason (ex-data (:error failure))))

(defn- reason [f]
  (try
    (f)
    (catch ExceptionInfo e (or (:magnetar/reason (ex-data e)) e))))

(defn- client
  "A process that checks a worker out and keeps it until it is told :check-in. It tells this process what it got."
  [p]
  (let [me (self)]
    (actor/spawn #(let [w (pool/checkout p {:timeout :infinity})]
                    (! me [:got (self) w])
                    (receive :check-in (pool/checkin p w))
                    (! me [:checked-in (self)])))))

(defn- got [pid]
  (receive [:got pid w] w (after 20000 :late)))

;; ---- checkouts

(deftest ^{:spec ["C117"]} a-worker-is-checked-out-by-one-process-at-a-time
  (let [p (start {:size 2})
        a (pool/checkout p)
        b (pool/checkout p)]
    (is (not= a b))
    (is (= [2 0 2 0] (counts p)))
    (is (= :magnetar/timeout (reason #(pool/checkout p {:timeout 10}))))
    (is (= :ok (pool/checkin p a)))
    (is (= a (pool/checkout p)))))

(deftest with-worker-checks-in-however-its-body-ends
  (let [p (start {})]
    (is (= [:w :hello] (pool/with-worker [w p] (gs/call w :hello))))
    (is (= :boom (reason #(pool/with-worker [_ p] (throw (ex-info "x" {:magnetar/reason :boom}))))))
    (testing "cancelled"
      (is (= :magnetar/deadline (reason #(scope/with-scope [_ {:deadline 20}]
                                           (pool/with-worker [_ p] (scope/sleep 60000)))))))
    (is (eventually (= [1 1 0 0] (counts p))))))

(deftest a-process-whose-work-is-cancelled-checks-its-worker-in
  (let [p (start {})
        work (fn []
               (let [w (pool/checkout p)]
                 (try
                   (scope/sleep 60000)
                   (finally (pool/checkin p w)))))]
    (is (= :magnetar/deadline (reason #(scope/with-scope [_ {:deadline 20}] (work)))))
    (is (= [1 1 0 0] (counts p)))))

(deftest outside-of-processes-with-worker-is-right-and-checkout-is-refused
  (let [p (start {})]
    (is (= [:w 1] (value-of (future (pool/with-worker [w p] (gs/call w 1))))))
    (is (thrown-with-msg? Exception #"checkout" @(future (try (pool/checkout p) (catch Exception e (throw e))))))
    (is (eventually (= [1 1 0 0] (counts p))))))

(deftest ^{:spec ["C117"]} a-worker-is-checked-in-when-the-process-that-has-it-dies
  (let [p (start {})
        pid (client p)
        w (got pid)]
    (actor/exit pid :kill)
    (is (= w (pool/checkout p)))))

(deftest ^{:spec ["C118"]} those-who-wait-are-served-in-order
  (let [p (start {})
        w (pool/checkout p)
        pids (doall (for [n (range 3)]
                      (let [pid (client p)]
                        (is (eventually (= (inc (long n)) (:waiting (pool/status p)))))
                        pid)))]
    (pool/checkin p w)
    (doseq [pid pids]
      (is (= w (got pid)))
      (! pid :check-in)
      (receive [:checked-in pid] nil))
    (is (= [1 1 0 0] (counts p)))))

(deftest ^{:spec ["C118"]} one-who-waits-and-dies-is-passed-over
  (let [p (start {})
        w (pool/checkout p)
        dying (client p)
        _ (is (eventually (= 1 (:waiting (pool/status p)))))
        other (client p)]
    (is (eventually (= 2 (:waiting (pool/status p)))))
    (actor/exit dying :kill)
    (is (eventually (= 1 (:waiting (pool/status p)))))
    (pool/checkin p w)
    (is (= w (got other)))))

(deftest ^{:spec ["C118"]} too-many-who-wait-are-refused-at-once
  (let [p (start {:max-waiting 1 :name ::full})
        _ (pool/checkout p)
        waiter (client p)]
    (is (eventually (= 1 (:waiting (pool/status p)))))
    (is (= :magnetar/pool-full (reason #(pool/checkout p))))
    (is (thrown-with-msg? ExceptionInfo #"The pool :magnetar.pool-test/full has no free worker, and 1 call already waits \(`:max-waiting`\)\. Try again later, or raise `:size`\."
                          (pool/checkout ::full)))
    (actor/exit waiter :kill)))

(deftest who-gives-up-while-it-waits-keeps-nothing
  (let [p (start {})
        w (pool/checkout p)]
    (is (= :magnetar/timeout (reason #(pool/checkout p {:timeout 10}))))
    (is (= :magnetar/deadline (reason #(scope/with-scope [_ {:deadline 20}] (pool/checkout p)))))
    (is (eventually (= [1 0 1 0] (counts p))))
    (pool/checkin p w)
    (is (= [1 1 0 0] (counts p)))))

;; ---- workers that die while they are checked out

(defn- dead-worker
  "A worker that this process has checked out of the pool, and that has died. The pool knows it."
  [p]
  (let [w (pool/checkout p)]
    (actor/exit w :kill)
    (is (eventually (= 0 (:workers (pool/status p)))))
    w))

(defn- records [p]
  (count (:checkouts (sys/get-state p))))

(deftest ^{:spec ["C117"]} a-dead-worker-is-checked-in-once-by-the-process-that-had-it
  (let [p (start {})
        w (dead-worker p)]
    (is (= [0 0 0 0] (counts p)))
    (is (= :magnetar/not-checked-out (value-of (future (:magnetar/reason (refusal #(pool/checkin p w)))))))
    (is (= :ok (pool/checkin p w)))
    (is (= :magnetar/not-checked-out (:magnetar/reason (refusal #(pool/checkin p w)))))
    (is (= [0 0 0 0] (counts p)))))

(deftest a-check-in-does-not-hide-the-error-of-the-call-that-its-worker-died-of
  (let [p (start {:worker [gs/start-link (assoc worker :handle-call (fn [_ _ s] [:stop :broken s])) :w]})
        w (pool/checkout p)]
    (is (= :magnetar/call-failed (reason #(try (gs/call w :x) (finally (pool/checkin p w))))))))

(deftest a-pool-forgets-a-dead-worker-when-it-is-checked-in-or-its-process-dies
  (let [p (start {})]
    (pool/checkin p (dead-worker p))
    (is (= 0 (records p)))
    (test/await-down (actor/spawn #(dead-worker p)))
    (is (eventually (= 0 (records p))))
    (pool/with-worker [w p] (actor/exit w :kill))
    (is (eventually (= 0 (records p))))
    (is (= [:w 1] (pool/with-worker [w p] (gs/call w 1))))))

;; ---- workers

(deftest ^{:spec ["C117"]} a-worker-that-died-is-replaced-when-someone-wants-one
  (let [p (start {})
        w (pool/checkout p)]
    (gs/cast w :broken)
    (test/await-down w)
    (is (eventually (= [0 0 0 0] (counts p))))
    (let [other (pool/checkout p)]
      (is (not= w other))
      (is (= [:w 1] (gs/call other 1))))))

(deftest one-who-waits-gets-the-replacement
  (let [p (start {})
        w (pool/checkout p)
        pid (client p)]
    (is (eventually (= 1 (:waiting (pool/status p)))))
    (actor/exit w :kill)
    (is (not= w (got pid)))))

(deftest a-worker-that-does-not-start-is-an-error-of-whoever-wanted-it
  (let [state (atom :w)
        p (start {:worker [#(gs/start-link worker @state)]})
        w (pool/checkout p)
        _ (reset! state :bad)
        waiter (actor/spawn #(pool/checkout p))]
    (is (eventually (= 1 (:waiting (pool/status p)))))
    (with-failures [failures]
      (actor/exit w :kill)
      (is (not= :normal (test/await-down waiter)))
      (is (= [:magnetar/worker-failed] (mapv reason-of @failures))))
    (is (= :magnetar/worker-failed (reason #(pool/checkout p))))
    (reset! state :w)
    (is (= [:w 1] (pool/with-worker [w p] (gs/call w 1))))))

(deftest a-pool-whose-workers-do-not-start-does-not-start
  (is (= [:error [:worker :no-connection]] (start {:worker [gs/start-link worker :bad]}))))

(deftest overflow-is-started-when-needed-and-ends-when-not
  (let [p (start {:overflow 1})
        a (pool/checkout p)
        b (pool/checkout p)]
    (is (= [2 0 2 0] (counts p)))
    (is (= :magnetar/timeout (reason #(pool/checkout p {:timeout 0}))))
    (pool/checkin p b)
    (is (= :shutdown (test/await-down b)))
    (is (= [1 0 1 0] (counts p)))
    (pool/checkin p a)
    (is (= [1 1 0 0] (counts p)))))

(deftest the-order-decides-which-is-checked-out
  (doseq [[order expected] [[:lifo 1] [:fifo 0]]]
    (let [p (start {:size 2 :order order})
          ws [(pool/checkout p) (pool/checkout p)]]
      (run! #(pool/checkin p %) ws)
      (is (= (ws expected) (pool/checkout p))))))

(deftest when-a-pool-stops-so-do-its-workers-and-those-who-wait-are-told
  (let [p (start {})
        w (pool/checkout p)
        waiter (actor/spawn #(pool/checkout p))]
    (is (eventually (= 1 (:waiting (pool/status p)))))
    (with-failures [failures]
      (gs/stop p :shutdown)
      (is (= :shutdown (test/await-down w)))
      (is (= :shutdown (first (test/await-down waiter))))
      (is (= [:magnetar/call-failed] (mapv reason-of @failures))))))

(deftest a-pool-is-a-child-as-others
  (let [[_ s] (sup/start-link {:children [{:id :p :type :supervisor :start [pool/start-link {:name ::child :size 1 :worker [gs/start-link worker :w]}]}]})]
    (is (= [:w 1] (pool/with-worker [w ::child] (gs/call w 1))))
    (actor/exit (actor/whereis ::child) :kill)
    (is (eventually (and (actor/whereis ::child) (= 1 (:restarted {:restarted (count (sup/history s))})))))
    (is (= [:w 2] (pool/with-worker [w ::child] (gs/call w 2))))))

(deftest what-a-pool-does-not-know-does-it-no-harm
  (let [p (start {})]
    (! p :junk)
    (! p [:DOWN :of :nobody])
    (gs/cast p :junk)
    (is (= [:error :unknown-call] (gs/call p :junk)))
    (is (= [1 1 0 0] (counts p)))))

(deftest in-virtual-time-too
  (is (= [:magnetar/timeout 5000]
         (with-virtual-clock
           (actor/with-process {}
             (let [p (start {})]
               (pool/checkout p)
               [(reason #(pool/checkout p)) (test/now)]))))))

;; ---- misuse

(deftest what-is-wrong-is-refused-at-once
  (is (thrown-with-msg? IllegalArgumentException #"^`magnetar.pool/start-link`: :size is a whole number from 1 up; this is nil" (pool/start-link {:worker [gs/start-link worker 1]})))
  (is (thrown-with-msg? IllegalArgumentException #":worker is how a worker starts.*this is nil" (pool/start-link {:size 1})))
  (is (thrown-with-msg? IllegalArgumentException #"`magnetar.pool/start-link` does not know :sise" (pool/start-link {:sise 1})))
  (is (thrown-with-msg? IllegalArgumentException #":overflow is a whole number from 0 up; this is -1" (start {:overflow -1})))
  (is (thrown-with-msg? IllegalArgumentException #":order is :lifo or :fifo; this is :random" (start {:order :random})))
  (let [p (start {})
        pid (client p)
        w (got pid)]
    (is (thrown-with-msg? IllegalArgumentException #"^Worker .* is checked out from the pool .* by another process\. Only that process can check it in\.$" (pool/checkin p w)))
    (is (thrown-with-msg? IllegalArgumentException #"^Worker .* is not checked out from the pool " (pool/checkin p (self))))
    (is (thrown-with-msg? IllegalArgumentException #"`checkin` wants the worker" (pool/checkin p :w)))
    (is (= [1 0 1 0] (counts p)))))

;; ---- a start that made no link

(deftest ^{:spec ["C117"]} a-worker-whose-start-made-no-link-is-replaced-when-it-died
  (let [p (start {:worker [gs/start worker :loose]})]
    (pool/with-worker [w p] (actor/exit w :kill))
    (is (= [:loose :hello] (pool/with-worker [w p] (gs/call w :hello))))))

(deftest a-refusal-of-the-options-names-the-operation-the-path-and-the-value
  (doseq [[options path value] [[{:worker inc} [:size] nil]
                                [{:worker 5 :size 1} [:worker] 5]
                                [{:worker inc :size 1 :order :fifi} [:order] :fifi]]
          :let [refused (refusal #(pool/start options))]]
    (is (= [:magnetar/bad-option path value] ((juxt :magnetar/reason :path :value) refused)))
    (is (str/starts-with? (:message refused) (str "`magnetar.pool/start`: " (first path) " is "))))
  (is (= [:magnetar/unknown-option [:sise] 1]
         ((juxt :magnetar/reason :path :value) (refusal #(pool/start {:worker inc :size 1 :sise 1}))))))
