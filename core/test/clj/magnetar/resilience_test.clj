(ns magnetar.resilience-test
  "Policies of calls and stages of channels, in simulated time."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.channel :as channel]
   [magnetar.resilience :as r :refer [call]]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.support :refer [eventually message-of with-failures]]
   [magnetar.test :refer [now with-virtual-clock]])
  (:import
   (java.time Duration)
   (magnetar TimeoutException)
   (magnetar.kernel.fiber Cancelled)))

(set! *warn-on-reflection* true)

(defmacro error-of [& body]
  `(try [:no-error (do ~@body)] (catch Throwable e# e#)))

(defn- reason [error]
  (:magnetar/reason (ex-data error)))

(defn- flaky
  "A function that fails so many times before it returns :value; keeps in `calls` when it was called."
  [failures calls]
  (fn []
    (swap! calls conj (now))
    (if (<= (count @calls) failures)
      (throw (java.io.IOException. (str "failure " (count @calls))))
      :value)))

;; ---- call

(deftest policies-are-nested-the-first-one-outermost
  (let [mark (fn [k] (fn [f] [k (f)]))]
    (is (= [:a [:b 3]] (call [(mark :a) (mark :b)] + 1 2)))
    (is (= [:a 3] (call (mark :a) + 1 2)))
    (is (= 3 (call [] + 1 2)))))

(deftest what-can-be-called-but-is-no-policy-is-refused
  (doseq [x [{:max-attempts 3} :retry 'retry #{1} nil [[(r/retry)]]]]
    (is (= :magnetar/not-a-policy (reason (error-of (call x inc 1))))))
  (is (= :magnetar/not-a-policy (reason (error-of (call [(r/retry) {:max-attempts 3}] inc 1))))))

;; ---- retry

(deftest ^{:spec ["C57"]} a-call-is-repeated-after-a-failure-with-pauses-that-grow
  (with-virtual-clock
    (let [calls (atom [])]
      (is (= :value (call (r/retry {:max-attempts 5 :backoff (r/exponential {:initial 100 :jitter 0})}) (flaky 3 calls))))
      (is (= [0 100 300 700] @calls)))))

(deftest ^{:spec ["C57"]} a-back-off-has-a-limit-and-may-be-any-function
  (with-virtual-clock
    (let [calls (atom [])]
      (call (r/retry {:max-attempts 6 :backoff (r/exponential {:initial 10 :factor 10 :max 50 :jitter 0})}) (flaky 4 calls))
      (is (= [0 10 60 110 160] @calls))))
  (with-virtual-clock
    (let [calls (atom [])]
      (call (r/retry {:backoff #(* 7 (long %))}) (flaky 2 calls))
      (is (= [0 7 21] @calls))))
  (with-virtual-clock
    (let [calls (atom [])]
      (call (r/retry {:backoff (r/constant (Duration/ofMillis 5))}) (flaky 2 calls))
      (is (= [0 5 10] @calls)))))

(deftest jitter-is-the-chance-of-the-fibers-environment
  (let [pauses (fn [] (with-virtual-clock (mapv (r/exponential {:initial 100 :jitter 0.5}) (repeat 20 1))))]
    (is (= (pauses) (pauses)) "the same in each simulation")
    (is (every? #(<= 50 % 150) (pauses)))
    (is (< 10 (count (set (pauses)))))))

(deftest ^{:spec ["C57"]} when-attempts-run-out-the-last-failure-is-the-cause
  (with-virtual-clock
    (let [e (error-of (call (r/retry {:backoff (r/constant 1)}) (flaky 99 (atom []))))]
      (is (= {:magnetar/reason :magnetar/retries-exhausted :attempts 3} (ex-data e)))
      (is (= "Gave up after 3 attempts: failure 3" (ex-message e)))
      (is (instance? java.io.IOException (ex-cause e))))))

(deftest ^{:spec ["C56"]} only-what-is-to-be-retried-is
  (let [attempts (fn [options error]
                   (with-virtual-clock
                     (let [n (atom 0)]
                       (error-of (call (r/retry (merge {:backoff (r/constant 1)} options)) #(do (swap! n inc) (throw error))))
                       @n)))]
    (is (= 3 (attempts {} (ex-info "x" {}))))
    (is (= 1 (attempts {} (StackOverflowError.))))
    (is (= 1 (attempts {:retry-on java.io.IOException} (ex-info "x" {}))))
    (is (= 3 (attempts {:retry-on [java.io.IOException #(= "x" (ex-message %))]} (ex-info "x" {}))))
    (is (= 1 (attempts {} (InterruptedException.))) "an interrupt is no failure")
    (is (= 1 (attempts {:retry-on (fn [_] true)} (Cancelled. nil))) "nor is a cancellation")))

(deftest an-error-that-is-not-retried-is-thrown-as-it-is
  (let [e (ex-info "x" {})]
    (is (identical? e (error-of (call (r/retry {:retry-on ArithmeticException}) #(throw e)))))))

(deftest an-error-that-the-predicate-cannot-judge-is-thrown-and-carries-why
  (let [e (error-of (call (r/retry {:retry-on (fn [_] (throw (ex-info "judged" {})))}) #(throw (ex-info "down" {}))))]
    (is (= ["down" ["judged"]] [(ex-message e) (mapv ex-message (.getSuppressed ^Throwable e))]))))

(deftest what-throws-between-attempts-carries-the-failure-of-the-attempt
  (doseq [options [{:backoff (fn [_] (throw (ex-info "broken" {})))}
                   {:on-retry (fn [_] (throw (ex-info "broken" {})))}
                   {:backoff (constantly -1)}]]
    (let [e (error-of (call (r/retry options) #(throw (ex-info "down" {}))))]
      (is (re-find #"^broken|:backoff is a number" (ex-message e)))
      (is (= ["down"] (mapv ex-message (.getSuppressed ^Throwable e)))))))

(deftest a-value-can-be-a-failure-too
  (with-virtual-clock
    (let [answers (atom [:busy :busy :ok])
          next #(let [[a] @answers] (swap! answers rest) a)]
      (is (= :ok (call (r/retry {:retry-if #{:busy} :backoff (r/constant 1)}) next)))))
  (is (= :busy (with-virtual-clock (call (r/retry {:retry-if #{:busy} :backoff (r/constant 1)}) (fn [] :busy)))) "in the end it is returned"))

(deftest each-retry-is-told
  (with-virtual-clock
    (let [told (atom [])]
      (call (r/retry {:backoff (r/constant 5) :on-retry #(swap! told conj [(:attempt %) (ex-message (:error %)) (:pause %)])}) (flaky 2 (atom [])))
      (is (= [[1 "failure 1" 5] [2 "failure 2" 5]] @told)))))

(deftest ^{:spec ["C57"]} a-retry-that-would-begin-after-the-deadline-is-not-waited-for
  (with-virtual-clock
    (let [calls (atom [])
          e (error-of (with-scope [_ {:deadline 250}]
                        (call (r/retry {:max-attempts 10 :backoff (r/constant 100)}) (flaky 99 calls))))]
      (is (= [0 100 200] @calls))
      (is (= 200 (now)))
      (is (= :magnetar/retries-exhausted (reason e)))
      (is (= "Gave up after 3 attempts, since the next one would come after the deadline: failure 3" (ex-message e))))))

(deftest ^{:spec ["C56"]} a-cancelled-retry-does-not-go-on
  (with-virtual-clock
    (let [calls (atom [])]
      (error-of (with-scope [s]
                  (fork s call (r/retry {:max-attempts 100 :backoff (r/constant 10)}) (flaky 99 calls))
                  (scope/sleep 25)
                  (scope/cancel s)))
      (is (= [0 10 20] @calls))
      (is (= 25 (now))))))

;; ---- timeout

(deftest ^{:spec ["C58"]} a-call-may-take-so-long-at-most
  (with-virtual-clock
    (is (= :in-time (call (r/timeout 100) #(do (scope/sleep 99) :in-time))))
    (let [e (error-of (call (r/timeout 100) #(scope/sleep 101)))]
      (is (instance? TimeoutException e))
      (is (= {:magnetar/reason :magnetar/timeout :operation `r/timeout :duration 100} (select-keys (ex-data e) [:magnetar/reason :operation :duration])))
      (is (= 199 (now))))
    (is (= 5 (call (r/timeout (Duration/ofMillis 100)) (fn [] 5))))))

(defn- fetch [millis]
  (scope/sleep millis))

(deftest ^{:spec ["C58"]} the-error-of-a-time-out-names-the-function-and-the-remedy
  (with-virtual-clock
    (doseq [[policies f] {(r/timeout 100) fetch, [(r/retry {:retry-on NullPointerException}) (r/timeout 100) (r/bulkhead {:max 1})] #'fetch}
            :let [e (error-of (call policies f 101))]]
      (is (identical? f (:target (ex-data e))))
      (is (re-find #"^The call of (#')?magnetar.resilience-test/fetch did not end within 100 ms, the time that `timeout` gives it\. Give `timeout` a longer time" (ex-message e))))
    (let [f #(fetch 101)]
      (is (identical? f (:target (ex-data (error-of ((r/timeout 100) f))))) "without `call`"))))

(deftest ^{:spec ["C58"]} the-shorter-of-two-time-outs-counts
  (with-virtual-clock
    (is (= 10 (:duration (ex-data (error-of (call [(r/timeout 100) (r/timeout 10)] #(scope/sleep 1000)))))))
    (is (= 10 (:duration (ex-data (error-of (call [(r/timeout 10) (r/timeout 100)] #(scope/sleep 1000)))))))
    (is (= :magnetar/deadline (reason (error-of (with-scope [_ {:deadline 5}] (call (r/timeout 10) #(scope/sleep 1000)))))))))

(deftest a-time-out-of-each-attempt-is-retried
  (with-virtual-clock
    (let [n (atom 0)]
      (is (= :third (call [(r/retry {:backoff (r/constant 1)}) (r/timeout 10)]
                          #(if (= 3 (swap! n inc)) :third (scope/sleep 1000)))))
      (is (= 22 (now))))))

;; ---- circuit breaker

(defn- fail [] (throw (ex-info "down" {})))

(deftest ^{:spec ["C59"]} a-breaker-opens-after-failures-refuses-and-closes-after-a-good-trial
  (with-virtual-clock
    (let [changes (atom [])
          breaker (r/circuit-breaker {:failure-threshold 3 :delay 1000 :on-state-change #(swap! changes conj [%1 %2 (now)])})]
      (is (= {:state :closed :calls 0 :failures 0 :trials 0} @breaker))
      (dotimes [_ 2] (is (= "down" (ex-message (error-of (call breaker fail))))))
      (is (= 1 (call breaker (fn [] 1))))
      (dotimes [_ 3] (error-of (call breaker fail)))
      (is (= :open (:state @breaker)))
      (scope/sleep 400)
      (let [e (error-of (call breaker (fn [] (is false "must not be called"))))]
        (is (= {:magnetar/reason :magnetar/circuit-open :state :open :retry-after-ms 600} (ex-data e)))
        (is (= "The circuit breaker is open: the call was refused. Calls are tried again in 600 ms." (ex-message e))))
      (scope/sleep 600)
      (is (= "down" (ex-message (error-of (call breaker fail)))) "a trial")
      (is (= :open (:state @breaker)))
      (scope/sleep 1000)
      (is (= :ok (call breaker (fn [] :ok))))
      (is (= :closed (:state @breaker)))
      (is (= [[:closed :open 0] [:open :half-open 1000] [:half-open :open 1000] [:open :half-open 2000] [:half-open :closed 2000]]
             @changes)))))

(deftest ^{:spec ["C59"]} a-breaker-may-stay-open-for-ever
  (doseq [delay [:infinity (Duration/ofDays 100000)]]
    (let [breaker (r/circuit-breaker {:failure-threshold 1 :delay delay})]
      (error-of (call breaker fail))
      (is (= :magnetar/circuit-open (reason (error-of (call breaker inc 1)))))))
  (let [breaker (r/circuit-breaker {:failure-threshold 1 :delay :infinity})]
    (error-of (call breaker fail))
    (let [e (error-of (call breaker inc 1))]
      (is (= "The circuit breaker is open: the call was refused, and so will be all others." (ex-message e)))
      (is (nil? (:retry-after-ms (ex-data e)))))))

(deftest ^{:spec ["C59"]} a-breaker-may-count-failures-among-the-last-calls
  (let [breaker (r/circuit-breaker {:failure-threshold [2 4]})
        good #(call breaker (fn [] 1))
        bad #(error-of (call breaker fail))]
    (run! #(%) [bad good good good bad good good good])
    (is (= {:state :closed :calls 4 :failures 1 :trials 0} @breaker))
    (bad)
    (is (= :closed (:state @breaker)) "the failure before is the fifth last now")
    (bad)
    (is (= :open (:state @breaker)))))

(deftest ^{:spec ["C59"]} a-half-open-breaker-lets-so-many-trials-pass
  (with-virtual-clock
    (let [breaker (r/circuit-breaker {:failure-threshold 1 :success-threshold 2 :delay 10})
          gate (channel/chan)]
      (error-of (call breaker fail))
      (scope/sleep 10)
      (with-scope [s]
        (let [trials (mapv (fn [_] (fork s call breaker channel/take gate)) [1 2])]
          (scope/sleep 1)
          (is (= {:state :half-open :calls 0 :failures 0 :trials 2} @breaker))
          (is (= "The circuit breaker is half-open: the call was refused, other calls are on trial."
                 (ex-message (error-of (call breaker fail)))))
          (channel/put gate 1)
          (scope/sleep 1)
          (is (= {:state :half-open :calls 1 :failures 0 :trials 1} @breaker))
          (channel/put gate 2)
          (run! deref trials)
          (is (= :closed (:state @breaker))))))))

(deftest ^{:spec ["C56"]} a-cancelled-trial-gives-its-place-back-and-counts-for-nothing
  (with-virtual-clock
    (let [breaker (r/circuit-breaker {:failure-threshold 1 :delay 10})]
      (error-of (call breaker fail))
      (scope/sleep 10)
      (error-of (with-scope [_ {:deadline 5}] (call breaker #(scope/sleep 1000))))
      (is (= {:state :half-open :calls 0 :failures 0 :trials 0} @breaker))
      (is (= :ok (call breaker (fn [] :ok))))
      (is (= :closed (:state @breaker))))))

(deftest ^{:spec ["C59"]} what-a-call-of-an-earlier-state-comes-to-does-not-count
  (with-virtual-clock
    (let [breaker (r/circuit-breaker {:failure-threshold 1 :delay 10})]
      (with-scope [s]
        (let [slow (fork s #(error-of (call breaker (fn [] (scope/sleep 50) (fail)))))]
          (scope/sleep 1)
          (error-of (call breaker fail))
          (scope/sleep 20)
          (call breaker (fn [] :ok))
          (is (= :closed (:state @breaker)))
          @slow
          (is (= :closed (:state @breaker))))))))

(deftest ^{:spec ["C56"]} a-call-that-ends-by-the-interrupt-of-its-cancellation-counts-for-nothing
  (let [breaker (r/circuit-breaker {:failure-threshold 1})
        retries (atom 0)]
    (with-open [server (java.net.ServerSocket. 0 1 (java.net.InetAddress/getLoopbackAddress))]
      (error-of (with-scope [s {:deadline 20}]
                  (fork s call [(r/retry {:on-retry (fn [_] (swap! retries inc))}) breaker] #(.accept server)))))
    (is (= [:closed 0] [(:state @breaker) @retries]))))

(deftest a-time-out-inside-a-breaker-counts-and-one-around-it-does-not
  (with-virtual-clock
    (let [inner (r/circuit-breaker {:failure-threshold 1})
          outer (r/circuit-breaker {:failure-threshold 1})]
      (error-of (call [inner (r/timeout 10)] #(scope/sleep 100)))
      (error-of (call [(r/timeout 10) outer] #(scope/sleep 100)))
      (is (= [:open :closed] [(:state @inner) (:state @outer)])))))

(deftest what-tells-of-a-change-or-judges-an-error-may-throw-and-the-breaker-goes-on
  (with-virtual-clock
    (with-failures [failures]
      (let [breaker (r/circuit-breaker {:failure-threshold 1 :delay 10 :on-state-change (fn [_ _] (throw (ex-info "told" {})))
                                        :fail-on (fn [_] (throw (ex-info "judged" {})))})
            e (error-of (call breaker fail))]
        (is (= ["down" ["judged"]] [(ex-message e) (mapv ex-message (.getSuppressed ^Throwable e))]))
        (is (= :open (:state @breaker)))
        (scope/sleep 10)
        (is (= :ok (call breaker (fn [] :ok))))
        (is (= :closed (:state @breaker)))
        (is (= ["told" "told" "told"] (map message-of @failures)))))))

(deftest only-what-is-a-failure-counts
  (let [breaker (r/circuit-breaker {:failure-threshold 1 :fail-on java.io.IOException})]
    (error-of (call breaker fail))
    (is (= :closed (:state @breaker)))
    (error-of (call breaker #(throw (java.io.IOException.))))
    (is (= :open (:state @breaker)))))

;; ---- rate limiter

(deftest ^{:spec ["C60"]} a-limiter-spaces-calls-evenly
  (with-virtual-clock
    (let [limiter (r/rate-limiter {:rate 10})]
      (is (= [0 100 200 300] (vec (repeatedly 4 #(call limiter now)))))
      (scope/sleep 1000)
      (is (= [1300 1400] [(call limiter now) (call limiter now)]) "quiet time is not saved up"))))

(deftest ^{:spec ["C60"]} a-limiter-keeps-a-rate-that-is-finer-than-its-timers
  (with-virtual-clock
    (let [limiter (r/rate-limiter {:rate 100000})
          times (vec (repeatedly 10000 #(call limiter now)))]
      (is (<= 97 (- (peek times) (first times)) 103) "milliseconds; if each call waited for a timer of its own, 10,000"))))

(deftest ^{:spec ["C60"]} a-limiter-may-let-a-burst-pass
  (with-virtual-clock
    (let [limiter (r/rate-limiter {:rate 10 :burst 3})]
      (is (= {:available 3 :wait-ms 0} @limiter))
      (is (= [0 0 0 100 200] (vec (repeatedly 5 #(call limiter now)))))
      (is (= {:available 0 :wait-ms 100} @limiter))
      (scope/sleep 250)
      (is (= 2 (:available @limiter)))
      (scope/sleep 1000)
      (is (= 3 (:available @limiter))))))

(deftest ^{:spec ["C60"]} those-who-wait-are-served-in-the-order-in-which-they-came
  (with-virtual-clock
    (let [limiter (r/rate-limiter {:rate 1 :per 10})
          order (atom [])]
      (with-scope [s]
        (doseq [n (range 5)]
          (fork s call limiter #(swap! order conj n))
          (scope/sleep 1)))
      (is (= [0 1 2 3 4] @order))
      (is (= 40 (now))))))

(deftest ^{:spec ["C60"]} a-limiter-may-refuse
  (with-virtual-clock
    (let [limiter (r/rate-limiter {:rate 10 :timeout 150})]
      (with-scope [s]
        (let [calls (mapv (fn [_] (fork s #(error-of (call limiter now)))) (range 4))]
          (is (= #{[:no-error 0] [:no-error 100]} (set (filter vector? (map deref calls)))))
          (is (= [{:magnetar/reason :magnetar/rate-limited :retry-after-ms 200}] (distinct (keep (comp ex-data deref) calls))))))))
  (let [limiter (r/rate-limiter {:rate 1 :per 100000 :timeout 0})]
    (is (= 1 (call limiter (fn [] 1))))
    (is (re-find #"The rate limiter refused the call: its turn would come in \d+ ms\." (ex-message (error-of (call limiter (fn [] 1))))))))

(deftest ^{:spec ["C56"]} a-cancelled-call-gives-its-turn-back
  (with-virtual-clock
    (let [limiter (r/rate-limiter {:rate 10})]
      (call limiter now)
      (error-of (with-scope [_ {:deadline 50}] (call limiter now)))
      (is (= 100 (call limiter now))))))

;; ---- bulkhead

(deftest ^{:spec ["C61"]} a-bulkhead-lets-so-many-run-and-serves-the-others-in-order
  (with-virtual-clock
    (let [two (r/bulkhead {:max 2})
          started (atom [])]
      (with-scope [s]
        (doseq [n (range 5)]
          (fork s call two #(do (swap! started conj [n (now)]) (scope/sleep 100)))
          (scope/sleep 1))
        (is (= {:max 2 :running 2 :waiting 3} @two)))
      (is (= [[0 0] [1 1] [2 100] [3 101] [4 200]] @started))
      (is (= {:max 2 :running 0 :waiting 0} @two)))))

(deftest a-full-bulkhead-may-refuse
  (with-virtual-clock
    (let [one (r/bulkhead {:max 1 :timeout 10})]
      (with-scope [s]
        (fork s call one #(scope/sleep 100))
        (scope/sleep 1)
        (let [e (error-of (call one now))]
          (is (= {:magnetar/reason :magnetar/bulkhead-full :max 1} (ex-data e)))
          (is (= "The bulkhead refused the call: 1 call runs, and none ended in time." (ex-message e)))
          (is (= 11 (now))))))))

(deftest ^{:spec ["C61"]} a-place-in-a-bulkhead-comes-back-however-the-call-ends
  (with-virtual-clock
    (let [one (r/bulkhead {:max 1})]
      (error-of (call one fail))
      (error-of (with-scope [_ {:deadline 5}] (call one #(scope/sleep 100))))
      (error-of (with-scope [s]
                  (fork s call one #(scope/sleep 100))
                  (fork s call one #(scope/sleep 100))
                  (scope/sleep 1)
                  (scope/cancel s)))
      (is (= {:max 1 :running 0 :waiting 0} @one)))))

;; ---- hedge

(deftest ^{:spec ["C62"]} a-slow-call-is-made-a-second-time-and-the-loser-is-cancelled
  (with-virtual-clock
    (let [calls (atom [])
          ended (atom [])
          f (fn []
              (let [n (count (swap! calls conj (now)))]
                (try (scope/sleep (if (= 1 n) 1000 10)) n (finally (swap! ended conj n)))))]
      (is (= 2 (call (r/hedge {:after 50}) f)))
      (is (= [0 50] @calls))
      (is (= 60 (now)))
      (is (= #{1 2} (set @ended)) "the loser has ended too"))))

(deftest a-fast-call-is-made-once
  (with-virtual-clock
    (let [calls (atom 0)]
      (is (= :v (call (r/hedge {:after 50}) #(do (swap! calls inc) (scope/sleep 49) :v))))
      (is (= [1 49] [@calls (now)])))))

(deftest ^{:spec ["C62"]} a-failed-call-is-made-again-at-once-and-if-all-fail-the-first-failure-is-thrown
  (with-virtual-clock
    (let [calls (atom [])]
      (is (= :value (call (r/hedge {:after 50}) (flaky 1 calls))))
      (is (= [0 0] @calls)))
    (let [calls (atom [])
          e (error-of (call (r/hedge {:after 50 :max-calls 3}) (flaky 99 calls)))]
      (is (= 3 (count @calls)))
      (is (= "failure 1" (ex-message e)))
      (is (instance? java.io.IOException e))
      (is (= ["failure 2" "failure 3"] (mapv ex-message (.getSuppressed ^Throwable e)))))))

(deftest what-a-hedged-call-threw-is-seen-by-the-policies-around-it
  (with-virtual-clock
    (let [calls (atom [])]
      (is (= :magnetar/retries-exhausted
             (reason (error-of (call [(r/retry {:max-attempts 3 :retry-on java.io.IOException}) (r/hedge {:after 5})] (flaky 99 calls))))))
      (is (= 6 (count @calls))))
    (let [breaker (r/circuit-breaker {:failure-threshold 1 :fail-on java.io.IOException})]
      (is (instance? java.io.IOException (error-of (call [breaker (r/hedge {:after 5})] (flaky 99 (atom []))))))
      (is (= :open (:state @breaker)))))
  (let [boom (ex-info "the same each time" {})]
    (is (identical? boom (error-of (call (r/hedge {:after 5}) #(throw boom)))))))

;; ---- options

(deftest bad-options-are-refused-with-a-sentence
  (doseq [[message f] {#"`magnetar.resilience/retry` does not know :max; its options are :backoff, :max-attempts, " #(r/retry {:max 3})
                       #":max-attempts is a whole number from 1 up; this is 0" #(r/retry {:max-attempts 0})
                       #"What counts as a failure is a class, a predicate or several; this is 5" #(r/retry {:retry-on 5})
                       #"`magnetar.resilience/retry` takes its options as a map; this is 5" #(r/retry 5)
                       #"^`magnetar.resilience/timeout`: :timeout is a number of milliseconds .* this is -1\." #(r/timeout -1)
                       #":failure-threshold is a whole number from 1 up, or \[failures calls\]" #(r/circuit-breaker {:failure-threshold [5 3]})
                       #"^`magnetar.resilience/rate-limiter`: :rate is a whole number from 1 up; this is nil" #(r/rate-limiter {:per 5})
                       #":per is a duration above 0 that ends; this is 0" #(r/rate-limiter {:rate 1 :per 0})
                       #":max is a whole number from 1 up; this is nil" #(r/bulkhead {})
                       #"`hedge` needs :after" #(r/hedge {})
                       #"`batch` needs a :size or a time :within, or both" #(r/batch (channel/chan) {})
                       #"`window` needs either a :size or a :length" #(r/window (channel/chan) {:size 1 :length 1})
                       #":every is a duration above 0 that ends; this is 0" #(r/window (channel/chan) {:length 1 :every 0})
                       #"`window` takes :step with :size, and :every with :length" #(r/window (channel/chan) {:size 1 :every 5})
                       #"`window` wants a channel of Magnetar; this is 5\." #(r/window 5 {:size 1})
                       #":max is a whole number from 1 to 2147483647; this is 3000000000" #(r/bulkhead {:max 3000000000})
                       #"`throttle` wants a channel of Magnetar; this is nil\." #(r/throttle nil {:rate 1})
                       #":silence is a number of milliseconds .* this is nil\." #(r/debounce (channel/chan) nil)
                       #":timeout is a number of milliseconds .* this is nil\." #(r/timeout nil)
                       #":backoff is a function, as in \(constant 100\); this is 100\." #(r/retry {:backoff 100})
                       #":backoff is a number of milliseconds .* this is -1\." #(call (r/retry {:backoff (fn [_] -1)}) fail)
                       #":on-retry is a function, as in println; this is 5\." #(r/retry {:on-retry 5})
                       #":on-state-change is a function, as in println; this is 5\." #(r/circuit-breaker {:on-state-change 5})
                       #":factor is a number from 1 up; this is -2\." #(r/exponential {:factor -2})
                       #":jitter is a number from 0 to 1; this is 5\." #(r/exponential {:jitter 5})
                       #":initial is a duration above 0 that ends; this is :infinity\." #(r/exponential {:initial :infinity})
                       #"A :burst of 1000000 calls, one each \d+ ms, is more than a limiter can count"
                       #(r/rate-limiter {:rate 1 :per (Duration/ofDays 100000) :burst 1000000})
                       #"`call` wants a policy, such as \(retry\), or several in a vector, before the function; this is nil\." #(call nil inc 1)
                       #"`call` wants a function, as in \(call \(retry\) fetch url\); this is 5\." #(call (r/retry) 5)}]
    (is (thrown-with-msg? IllegalArgumentException message (f)))))

;; ---- channels

(defn- feed
  "A channel that gets the values at the times of [ms value] pairs, and is then closed."
  [s pairs]
  (let [c (channel/chan {:size 100})]
    (fork s (fn []
              (doseq [[at value] pairs]
                (scope/sleep (- (long at) (long (now))))
                (channel/put c value))
              (channel/close c)))
    c))

(defn- arrivals
  "What comes out of a channel, as [ms value] pairs."
  [c]
  (loop [all []]
    (if-some [value (channel/take c)]
      (recur (conj all [(now) value]))
      all)))

(deftest ^{:spec ["C63"]} throttled-values-pass-evenly
  (with-virtual-clock
    (with-scope [s]
      (is (= [[0 :a] [10 :b] [20 :c] [50 :d]]
             (arrivals (r/throttle (feed s [[0 :a] [0 :b] [1 :c] [50 :d]]) {:rate 100})))))))

(deftest ^{:spec ["C63"]} a-debounced-channel-gives-the-latest-value-after-a-silence
  (with-virtual-clock
    (with-scope [s]
      (is (= [[32 :c] [70 :d] [75 :f]]
             (arrivals (r/debounce (feed s [[0 :a] [5 :b] [12 :c] [50 :d] [74 :e] [75 :f]]) 20)))))))

(deftest ^{:spec ["C63"]} a-batch-is-full-or-due
  (with-virtual-clock
    (with-scope [s]
      (is (= [[2 [0 1 2]] [60 [3 4]] [101 [5 6]]]
             (arrivals (r/batch (feed s [[0 0] [1 1] [2 2] [10 3] [20 4] [100 5] [101 6]]) {:size 3 :within 50}))))))
  (with-virtual-clock
    (with-scope [s]
      (is (= [[0 [0 1]] [7 [2 3]] [8 [4]]]
             (arrivals (r/batch (feed s [[0 0] [0 1] [0 2] [7 3] [8 4]]) {:size 2}))) "without a time")
      (is (= [[13 [0 1]] [28 [2]]]
             (arrivals (r/batch (feed s [[8 0] [9 1] [28 2]]) {:within 5}))) "without a size"))))

(deftest ^{:spec ["C63"]} windows-of-a-number-tumble-slide-or-hop
  (let [windows (fn [n options]
                  (with-virtual-clock (with-scope [s] (mapv second (arrivals (r/window (feed s (map #(vector 0 %) (range n))) options))))))]
    (is (= [[0 1 2] [3 4 5] [6]] (windows 7 {:size 3})))
    (is (= [[0 1 2] [3 4 5]] (windows 6 {:size 3})))
    (is (= [[0 1 2] [1 2 3] [2 3 4]] (windows 5 {:size 3 :step 1})))
    (is (= [[0 1 2 3] [2 3 4 5] [4 5 6]] (windows 7 {:size 4 :step 2})))
    (is (= [[3 4] [8 9] [10]] (windows 11 {:size 2 :step 5})) "the last of each step")
    (is (= [[2 3 4] [7 8 9]] (windows 10 {:size 3 :step 5})))
    (is (= [[2 3 4] [6 7 8]] (windows 9 {:size 3 :step 5})) "what is left are the last ones too")
    (is (= [[0]] (windows 1 {:size 4 :step 2})))
    (is (= [] (windows 0 {:size 3})))))

(deftest ^{:spec ["C63"]} windows-of-a-time-tumble-or-slide
  (with-virtual-clock
    (with-scope [s]
      (is (= [[10 [:a :b]] [20 [:c]] [60 [:d]] [65 [:e]]]
             (arrivals (r/window (feed s [[0 :a] [9 :b] [11 :c] [50 :d] [65 :e]]) {:length 10}))))))
  (with-virtual-clock
    (with-scope [s]
      (is (= [[10 [:a :b]] [20 [:a :b :c]] [30 [:b :c]] [40 [:c]] [45 [:d]]]
             (arrivals (r/window (feed s [[0 :a] [9 :b] [19 :c] [45 :d]]) {:length 30 :every 10})))))))

(deftest ^{:spec ["C63"]} a-stage-closes-when-its-source-does-for-the-same-cause
  (doseq [stage [#(r/throttle % {:rate 1000}) #(r/debounce % 1) #(r/batch % {:size 2}) #(r/window % {:size 2}) #(r/window % {:length 5})]]
    (let [c (channel/chan)
          out (stage c)]
      (channel/close c (ex-info "feed lost" {}))
      (is (eventually (channel/closed? out)))
      (is (= "feed lost" (ex-message (channel/cause out)))))))

(deftest ^{:spec ["C63"]} what-a-stage-holds-comes-before-the-cause-of-its-sources-end
  (doseq [[expected stage] {[[1 2]] #(r/batch % {:size 10})
                            [2] #(r/debounce % 10000000)
                            [[1 2] ::none] #(r/window % {:size 10})}]
    (let [c (channel/chan {:size 2})
          out (stage c)]
      (run! #(channel/put c %) [1 2])
      (channel/close c (ex-info "feed lost" {}))
      (is (= (first expected) (channel/take out {:timeout 20000 :else :late})))
      (is (= "feed lost" (ex-message (:cause (ex-data (error-of (channel/take out {:timeout 20000}))))))))))

(deftest ^{:spec ["C63"]} a-stage-of-a-scope-ends-with-it
  (let [c (channel/chan)
        out (promise)]
    (with-scope [s] (deliver out (r/batch c {:size 2 :scope s})))
    (is (channel/closed? @out))
    (is (= [] (:takers (channel/info c))))))

(deftest ^{:spec ["C63"]} a-stage-whose-channel-was-closed-takes-no-more
  (let [c (channel/chan)
        out (r/batch c {:size 1})]
    (channel/close out)
    (channel/put c 1)
    (is (eventually (= [] (:takers (channel/info c)))))
    (is (nil? (channel/try-put c 2)))))
